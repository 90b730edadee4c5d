//! The flight recorder's events, read from the local socket by the layout that the documentation gives,
//! and held against ftrace's: each event that ftrace recorded has to be there once, on its CPU, with its
//! numbers, at its time.
//!
//! Events of one CPU with equal numbers are matched in the order of their times. Two stamps of one event
//! are apart by the run of a program and the making of a record of ftrace, and by whatever happened to
//! the CPU between the two.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::ftrace::Trace;
use crate::ftrace::event::{BlockStep, Event, Kind, Left};
use crate::http;
use crate::task::is_emulated;

/// Two stamps of one event are never this far apart, ns: a virtual CPU may stand still between them.
const FARTHEST_NS: u64 = 20_000_000;
/// How far most are at most, beyond the usual distance: code that runs seldom finds cold caches.
const COLD_NS: u64 = 10_000;
/// One in so many may be farther: an interrupt, or the hypervisor, came between the stamps.
const EVENTS_PER_STRAY: usize = 200;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Names of the softirq vectors, by number.
pub(crate) const SOFTIRQS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// Names of the interrupt vectors, in the order of the documentation.
pub(crate) const VECTORS: [&str; 11] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "spurious_apic",
    "error_apic",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
];

/// What both sides say of an event.
pub type Words = String;

/// An event of the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Its CPU.
    pub cpu: u32,
    /// What it says.
    pub words: Words,
}

/// An answer of the recorder.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// The events, by CPU and part in order of their numbers.
    pub events: Vec<Recorded>,
    /// Events that were missing.
    pub missing: u64,
    /// From when on all CPUs are whole, ns.
    pub complete_from_ns: u64,
    /// Events of the parts that interrupters write to.
    pub nested: u64,
    /// Bytes of the answer.
    pub bytes: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64> {
    let found = bytes.get(at..at + N).context("the answer ends early")?;
    let mut whole = [0; 8];
    whole.get_mut(..N).context("a number of more than 8 bytes")?.copy_from_slice(found);
    Ok(u64::from_le_bytes(whole))
}

/// Names of this host's interfaces by index.
fn interfaces() -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    for entry in fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let index = fs::read_to_string(entry.path().join("ifindex")).unwrap_or_default();
        if let Ok(index) = index.trim().parse() {
            names.insert(index, entry.file_name().to_string_lossy().into_owned());
        }
    }
    names
}

/// Asks the daemon's socket for a stretch.
/// Errors: if there is no answer, or it is not as documented.
pub fn fetch(socket: &Path, since_ns: u64) -> Result<Stretch> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("connecting to {}", socket.display()))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let address = "127.0.0.1:1".parse()?;
    let path = format!("/api/v1/events?since={since_ns}");
    let answer = http::exchange(&mut stream, address, &path, &[])?;
    ensure!(answer.status == 200, "{path} is answered with {}", answer.status);
    parse(&answer.body)
}

fn parse(bytes: &[u8]) -> Result<Stretch> {
    ensure!(bytes.starts_with(b"NOISEDev\x01\0\0\0"), "not the events of version 1");
    let interfaces = interfaces();
    let mut stretch = Stretch { bytes: bytes.len(), ..Stretch::default() };
    let mut at = 48;
    loop {
        let (kind, part) = (number::<1>(bytes, at)?, number::<1>(bytes, at + 1)?);
        let cpu = u32::try_from(number::<4>(bytes, at + 4)?)?;
        let (first, second) = (number::<8>(bytes, at + 8)?, number::<8>(bytes, at + 16)?);
        at += 24;
        match kind {
            1 => stretch.complete_from_ns = stretch.complete_from_ns.max(first),
            2 => {
                for index in 0..second {
                    let low = number::<4>(bytes, at + 8)?;
                    ensure!(low == (first + index) & 0xffff_ffff, "a number is out of order");
                    let time_ns = number::<8>(bytes, at)?;
                    let words = words(bytes, at, &interfaces)?;
                    stretch.events.push(Recorded { time_ns, cpu, words });
                    stretch.nested += u64::from(part > 0);
                    at += 32;
                }
            }
            3 => stretch.missing += second,
            4 => {
                ensure!(first == stretch.events.len() as u64, "events were lost on the way");
                ensure!(second == stretch.missing, "the missing events do not add up");
                ensure!(at == bytes.len(), "something follows the end");
                return Ok(stretch);
            }
            other => bail!("an unknown item: {other}"),
        }
    }
}

fn words(bytes: &[u8], at: usize, interfaces: &BTreeMap<u64, String>) -> Result<Words> {
    let (kind, small) = (number::<1>(bytes, at + 12)?, number::<1>(bytes, at + 13)?);
    let short = |index: usize| number::<4>(bytes, at + 16 + 4 * index);
    let (a, b, c, d) = (short(0)?, short(1)?, short(2)?, short(3)?);
    let softirq = || SOFTIRQS.get(small as usize).context("an unknown softirq");
    let vector = || VECTORS.get(small as usize).context("an unknown vector");
    let interface = || interfaces.get(&d).map_or("", String::as_str);
    let block = |step: &str| {
        let sector = a | (b & 0xffff) << 32;
        // Of a flush the kernel shows its -1 when it is complete, and 0 before.
        let sector = match sector {
            0xffff_ffff_ffff if step == "Complete" => u64::MAX,
            0xffff_ffff_ffff => 0,
            sector => sector,
        };
        format!("block {step} {c} {sector} {}", d >> 9)
    };
    Ok(match kind {
        1 => {
            let left = match c {
                _ if small != 0 => Left::Runnable,
                0 => Left::Runnable,
                // TASK_IDLE has one bit more.
                state if state & 0x402 == 0x402 => Left::Asleep,
                state if state & 0x9002 != 0 => Left::Uninterruptible,
                _ => Left::Asleep,
            };
            switch(a, left, b)
        }
        2 => format!("waking {a}"),
        3 => format!("wakeup_new {a}"),
        4 => format!("migrate {a} {c}"),
        5 => format!("fork {a} {b}"),
        6 => format!("exec {a} {b}"),
        7 => format!("exit {a}"),
        20 => format!("wait {b}"),
        // It belongs to the exec before it.
        16 => "name".to_owned(),
        8 => format!("irq entry {a}"),
        9 => format!("irq exit {a}"),
        10 => format!("vector entry {}", vector()?),
        11 => format!("vector exit {}", vector()?),
        12 => format!("softirq raise {}", softirq()?),
        13 => format!("softirq entry {}", softirq()?),
        14 => format!("softirq exit {}", softirq()?),
        15 => format!("nmi {}", a | b << 32),
        19 => format!("throttled {a}"),
        32 => block("Insert"),
        33 => block("Issue"),
        34 => block("Requeue"),
        35 => block("Merge"),
        36 => block("Complete"),
        40 => format!("tx queue {} {c}", interface()),
        41 => format!("tx start {}", interface()),
        42 => format!("receive {}", interface()),
        43 => "drop".to_owned(),
        44 => "retransmit".to_owned(),
        other => bail!("an unknown event: {other}"),
    })
}

/// A switch. Before 5.18 both sides look for the state themselves, and a wake-up may come between: where
/// that takes long, the states differ.
fn switch(prev: impl Display, left: Left, next: impl Display) -> Words {
    if is_emulated() {
        return format!("switch {prev} {next}");
    }
    format!("switch {prev} {left:?} {next}")
}

/// The function of a high-resolution timer begins.
pub(crate) fn timer_entry(timer: u64, function: u64, now_ns: i64) -> Words {
    format!("hrtimer entry {timer:#x} {function:#x} {now_ns}")
}

/// It ends.
pub(crate) fn timer_exit(timer: u64) -> Words {
    format!("hrtimer exit {timer:#x}")
}

/// A socket sent or received something.
pub(crate) fn sock_length(sends: bool, ret: i64) -> Words {
    format!("sock {} {ret}", if sends { "send" } else { "receive" })
}

/// A socket of TCP is in another state.
pub(crate) fn sock_state(from: impl Display, to: impl Display, ports: (u64, u64)) -> Words {
    format!("sock state {from} {to} {} {}", ports.0, ports.1)
}

/// The same of an event of ftrace; `None` where the recorder does not have it.
fn words_of(event: &Event) -> Option<Words> {
    Some(match &event.kind {
        Kind::Switch { prev, left, next } => switch(prev, *left, next),
        Kind::Waking { pid } => format!("waking {pid}"),
        Kind::Wakeup { pid } => format!("wakeup_new {pid}"),
        Kind::Migrate { pid, to } => format!("migrate {pid} {to}"),
        Kind::Fork { parent, child } => format!("fork {parent} {child}"),
        Kind::Exit { pid } => format!("exit {pid}"),
        Kind::Wait { child } => format!("wait {child}"),
        Kind::Exec { pid, old_pid } => format!("exec {pid} {old_pid}"),
        Kind::IrqEntry { irq, .. } => format!("irq entry {irq}"),
        Kind::IrqExit { irq } => format!("irq exit {irq}"),
        Kind::VectorEntry { vector } if VECTORS.contains(&&**vector) => {
            format!("vector entry {vector}")
        }
        Kind::VectorExit { vector } if VECTORS.contains(&&**vector) => {
            format!("vector exit {vector}")
        }
        Kind::SoftirqRaise { vector } => format!("softirq raise {vector}"),
        Kind::SoftirqEntry { vector } => format!("softirq entry {vector}"),
        Kind::SoftirqExit { vector } => format!("softirq exit {vector}"),
        Kind::Nmi { duration_ns } => format!("nmi {duration_ns}"),
        Kind::HrtimerEntry { timer, function, now_ns } => timer_entry(*timer, *function, *now_ns),
        Kind::HrtimerExit { timer } => timer_exit(*timer),
        Kind::Block(block) if block.step != BlockStep::FrontMerge => {
            let (device, sector, sectors) = (block.device, block.sector, block.sectors);
            format!("block {:?} {device} {sector} {sectors}", block.step)
        }
        Kind::TxQueue { interface, bytes, .. } => format!("tx queue {interface} {bytes}"),
        Kind::TxStart { interface, .. } => format!("tx start {interface}"),
        Kind::Receive { interface } => format!("receive {interface}"),
        Kind::PacketDrop { .. } => "drop".to_owned(),
        Kind::Retransmit => "retransmit".to_owned(),
        Kind::SockLength { sends, ret } => sock_length(*sends, (*ret).into()),
        Kind::SockState { from, to, ports } => sock_state(*from, *to, *ports),
        Kind::DataReady => "sock ready".to_owned(),
        _ => return None,
    })
}

/// How the events of one kind compare.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    matched: u64,
    /// Of ftrace alone.
    absent: u64,
    /// Of the recorder alone.
    beyond: u64,
}

/// The stretch of time that is compared.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its begin, ns.
    pub from_ns: u64,
    /// Its end, ns.
    pub to_ns: u64,
}

/// Times of one CPU and what was said, as both sides have them.
type Sides = (Vec<u64>, Vec<u64>);

/// Pairs of times that are at most so far apart, in order, and those left over on either side.
fn pair(
    referee: &[u64],
    recorded: &[u64],
    farthest_ns: u64,
) -> (Vec<(u64, u64)>, Vec<u64>, Vec<u64>) {
    let (mut pairs, mut alone, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    let mut recorded = recorded.iter().copied().peekable();
    for &time_ns in referee {
        while let Some(early) = recorded.next_if(|other| other + farthest_ns < time_ns) {
            beyond.push(early);
        }
        match recorded.next_if(|other| *other <= time_ns + farthest_ns) {
            Some(other) => pairs.push((time_ns, other)),
            None => alone.push(time_ns),
        }
    }
    beyond.extend(recorded);
    (pairs, alone, beyond)
}

/// Requires that all events of ftrace within the window are in the recorder; `usual_ns` is how far two
/// stamps of one event usually are apart. Prints a table.
/// Errors: which events are missing, or too far off.
pub fn ensure_recorded(
    trace: &Trace,
    stretch: &Stretch,
    window: Window,
    usual_ns: f64,
) -> Result<()> {
    ensure!(stretch.complete_from_ns <= window.from_ns, "the recorder does not go back so far");
    ensure!(stretch.missing == 0, "{} events are missing in the answer", stretch.missing);
    let mut sides: BTreeMap<(Words, u32), Sides> = BTreeMap::new();
    for event in &trace.events {
        if let Some(words) = words_of(event) {
            sides.entry((words, event.cpu)).or_default().0.push(event.time_ns);
        }
    }
    for event in &stretch.events {
        let key = (event.words.clone(), event.cpu);
        sides.entry(key).or_default().1.push(event.time_ns);
    }
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut distances = Vec::new();
    let mut absent = Vec::new();
    let is_inside = |time_ns: u64| (window.from_ns..=window.to_ns).contains(&time_ns);
    for ((words, cpu), (mut referee, mut recorded)) in sides {
        referee.sort_unstable();
        recorded.sort_unstable();
        let kind: Vec<&str> = words.split(' ').take(2).collect();
        let kind = match kind.as_slice() {
            [first, second] if second.parse::<u64>().is_err() => format!("{first} {second}"),
            _ => kind.first().copied().unwrap_or_default().to_owned(),
        };
        let tally = tallies.entry(kind).or_default();
        // An event that one side alone has must not shift all that follow.
        let near_ns = usual_ns as u64 + COLD_NS;
        let (mut found, referee, recorded) = pair(&referee, &recorded, near_ns);
        let farthest_ns = if is_emulated() { 50 * FARTHEST_NS } else { FARTHEST_NS };
        let (strays, referee, recorded) = pair(&referee, &recorded, farthest_ns);
        found.extend(strays);
        for (time_ns, other) in found.into_iter().filter(|(time_ns, _)| is_inside(*time_ns)) {
            tally.matched += 1;
            distances.push(other.abs_diff(time_ns));
        }
        for time_ns in referee.into_iter().filter(|time_ns| is_inside(*time_ns)) {
            tally.absent += 1;
            absent.push(format!("{words} on CPU {cpu} at {time_ns}"));
        }
        tally.beyond += recorded.into_iter().filter(|time_ns| is_inside(*time_ns)).count() as u64;
    }
    distances.sort_unstable();
    let at = |share: f64| {
        let index = (distances.len() as f64 * share) as usize;
        distances.get(index.min(distances.len().saturating_sub(1))).copied().unwrap_or(0)
    };
    let mut table =
        format!("{:<18} {:>9} {:>13} {:>13}\n", "event", "both", "ftrace only", "noised only");
    for (kind, tally) in &tallies {
        let Tally { matched, absent, beyond } = tally;
        writeln!(table, "{kind:<18} {matched:>9} {absent:>13} {beyond:>13}")?;
    }
    println!("{table}");
    println!(
        "{} events of {} bytes, {} of them inside others; stamps are apart by {} ns (median), {} (99 %), {} at most, \
         usually up to {usual_ns:.0}",
        stretch.events.len(),
        stretch.bytes,
        stretch.nested,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    absent.truncate(20);
    ensure!(absent.is_empty(), "ftrace alone has: {}", absent.join("; "));
    if is_emulated() {
        // An instruction takes as long as it takes.
        return Ok(());
    }
    let far = usual_ns as u64 + COLD_NS;
    let strays = distances.iter().filter(|distance| **distance > far).count();
    ensure!(
        strays <= distances.len() / EVENTS_PER_STRAY + 1,
        "{strays} of {} events are more than {far} ns off",
        distances.len()
    );
    Ok(())
}

/// Requires that the window has events of these kinds.
/// Errors: which it lacks.
pub fn ensure_present(stretch: &Stretch, window: Window, kinds: &[&str]) -> Result<()> {
    for kind in kinds {
        let is_there = stretch.events.iter().any(|event| {
            event.words.starts_with(kind)
                && (window.from_ns..=window.to_ns).contains(&event.time_ns)
        });
        ensure!(is_there, "the recording is inconclusive: the load produced no {kind}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairing::testing::at;

    fn item(kind: u8, cpu: u32, first: u64, second: u64) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend(cpu.to_le_bytes());
        bytes.extend(first.to_le_bytes());
        bytes.extend(second.to_le_bytes());
        bytes
    }

    fn answer(items: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"NOISEDev\x01\0\0\0".to_vec();
        bytes.resize(48, 0);
        bytes.extend(items.concat());
        bytes
    }

    fn waking(number: u32, time_ns: u64, tid: u32) -> Vec<u8> {
        let mut bytes = time_ns.to_le_bytes().to_vec();
        bytes.extend(number.to_le_bytes());
        bytes.extend([2, 120, 0, 0]);
        bytes.extend(tid.to_le_bytes());
        bytes.resize(32, 0);
        bytes
    }

    #[test]
    fn what_is_absent_or_far_is_found() {
        let events = [item(2, 1, 5, 2), waking(5, 1_000, 7), waking(6, 90_000_000, 7)].concat();
        let stretch = parse(&answer(&[item(1, 1, 0, 0), events, item(4, 0, 2, 0)])).unwrap();
        let trace = |times: &[u64]| Trace {
            events: times.iter().map(|&time| at(time, 1, Kind::Waking { pid: 7 })).collect(),
            hidden: Vec::new(),
            shortest_gap_ns: 1,
            sights: BTreeMap::new(),
        };
        let window = Window { from_ns: 0, to_ns: 100_000_000 };
        let compare = |times: &[u64]| ensure_recorded(&trace(times), &stretch, window, 500.0);
        compare(&[1_400, 90_000_400]).unwrap();
        compare(&[90_000_400]).unwrap();
        let error = compare(&[1_400, 50_000_000]).unwrap_err().to_string();
        assert!(error.contains("waking 7 on CPU 1 at 50000000"), "{error}");
        let error = compare(&[1_000_000, 91_000_000]).unwrap_err().to_string();
        assert!(error.contains("2 of 2 events are more than 10500 ns off"), "{error}");
        assert!(ensure_present(&stretch, window, &["waking"]).is_ok());
        assert!(ensure_present(&stretch, window, &["block"]).is_err());
    }

    #[test]
    fn an_answer_that_does_not_add_up_is_refused() {
        assert!(parse(&answer(&[item(4, 0, 1, 0)])).is_err());
        assert!(parse(&answer(&[item(3, 0, 9, 2), item(4, 0, 0, 1)])).is_err());
        assert_eq!(parse(&answer(&[item(3, 0, 9, 2), item(4, 0, 0, 2)])).unwrap().missing, 2);
        assert!(parse(&answer(&[item(1, 0, 0, 0)])).is_err());
    }
}

//! `noised` as it measures a CPU, and what the referee says of the same seconds.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::daemon::{Outcome, Process, binary};
use crate::ftrace::Trace;
use crate::ftrace::blind::hidden_threads;
use crate::ftrace::event::{Event, Kind};
use crate::pairing::Sample;
use crate::pairing::interrupts::interrupts;
use crate::pairing::runs::runs;
use crate::task::sched_stat;

/// What a measuring thread needs at most before it measures: room for what it sees, and a look at how
/// fast its loop is.
const PREPARED_NS: u64 = 300_000_000;
/// Longer than it takes to load programs on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// So many events of a source are compared whatever was planted.
const FREQUENT: u64 = 500;
/// How counts may differ.
const COUNTS: f64 = 0.02;
/// How sums may differ.
const SUMS: f64 = 0.05;

/// A command that measures, while it does.
#[derive(Debug)]
pub struct Measuring {
    /// The process.
    pub process: Process,
    /// The thread that measures the CPU.
    pub thread: i32,
}

impl Measuring {
    /// Starts `noised osnoise` or `noised bench detour` with these arguments, and waits until it measures
    /// this CPU.
    pub fn start(cpu: u32, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(arguments);
        Self::start_command(cpu, command)
    }

    /// The same by a command of its own.
    pub fn start_command(cpu: u32, command: Command) -> Result<Self> {
        let mut process = Process::start(command)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(thread) = measuring_thread(process.pid(), cpu)?
                && sched_stat(thread).is_ok_and(|stat| stat.run_ns > PREPARED_NS)
            {
                return Ok(Self { process, thread });
            }
            if let Some(status) = process.ended()? {
                bail!("noised ended with {status}: {}", process.stderr()?);
            }
            ensure!(Instant::now() < deadline, "noised does not measure CPU {cpu}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for its end.
    pub fn outcome(mut self) -> Result<Outcome> {
        let status = self.process.wait()?;
        let code = status.code().with_context(|| format!("noised ended with {status}"))?;
        Ok(Outcome { code, stdout: self.process.stdout()?, stderr: self.process.stderr()? })
    }

    /// Ends it as a user does, and requires that it ends well.
    pub fn stop(self) -> Result<Outcome> {
        self.process.signal(libc::SIGINT)?;
        let outcome = self.outcome()?;
        ensure!(outcome.code == 0, "exit code {}: {}", outcome.code, outcome.stderr);
        Ok(outcome)
    }
}

fn measuring_thread(process: u32, cpu: u32) -> Result<Option<i32>> {
    let names = [format!("osnoise/{cpu}\n"), format!("noised/{cpu}\n")];
    // The process may be ending.
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Ok(None) };
    for thread in threads.flatten() {
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if names.contains(&name) {
            return Ok(Some(thread.file_name().to_string_lossy().parse()?));
        }
    }
    Ok(None)
}

/// Events of one source, and their net time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// How long, all together, ns.
    pub ns: u64,
}

impl Amount {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
    }
}

/// Sources by class and name.
pub type Amounts = BTreeMap<(String, String), Amount>;

/// A member of a JSON object that has to be there.
pub fn member<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    value.get(name).with_context(|| format!("the JSON has no {name}"))
}

/// A number of a JSON object.
pub fn number(value: &Value, name: &str) -> Result<u64> {
    member(value, name)?.as_u64().with_context(|| format!("{name} is no number"))
}

/// An array of a JSON object.
pub fn array<'a>(value: &'a Value, name: &str) -> Result<&'a [Value]> {
    let array = member(value, name)?.as_array();
    Ok(array.with_context(|| format!("{name} is no array"))?)
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = member(value, name)?.as_str();
    Ok(text.with_context(|| format!("{name} is no text"))?.to_owned())
}

fn key(source: &Value) -> Result<(String, String)> {
    Ok((text(source, "class")?, text(source, "name")?))
}

/// The part of a report that is about a CPU.
pub fn of_cpu(report: &Value, cpu: u32) -> Result<&Value> {
    let cpus = array(report, "cpus")?;
    let found = cpus.iter().find(|value| number(value, "cpu").is_ok_and(|it| it == u64::from(cpu)));
    found.with_context(|| format!("CPU {cpu} is not in the report"))
}

/// What `noised osnoise --json` says of a CPU.
pub fn by_osnoise(report: &Value, cpu: u32) -> Result<Amounts> {
    let mut amounts = Amounts::new();
    for source in array(of_cpu(report, cpu)?, "sources")? {
        let (count, ns) = (number(source, "events")?, number(source, "noise_ns")?);
        amounts.insert(key(source)?, Amount { count, ns });
    }
    Ok(amounts)
}

/// What `noised bench detour --json` says of a CPU: threads of one name together.
pub fn by_detour(report: &Value, cpu: u32) -> Result<Amounts> {
    let sources: Vec<_> = array(report, "sources")?.iter().map(key).collect::<Result<_>>()?;
    let mut amounts = Amounts::new();
    for detour in array(of_cpu(report, cpu)?, "detours")? {
        for part in array(detour, "parts")? {
            let source = sources.get(usize::try_from(number(part, "source")?)?);
            let source = source.context("a part of no source")?;
            amounts.entry(source.clone()).or_default().add(number(part, "duration_ns")?);
        }
    }
    Ok(amounts)
}

/// What ftrace says of a CPU in a stretch of time. `threads` have these names.
pub fn by_ftrace(
    trace: &Trace,
    cpu: u32,
    (from_ns, to_ns): (u64, u64),
    threads: &BTreeMap<i32, &str>,
) -> Amounts {
    let mut amounts = Amounts::new();
    let found = interrupts(&trace.events);
    let mut add = |class: &str, name: &str, ns| {
        amounts.entry((class.to_owned(), name.to_owned())).or_default().add(ns);
    };
    let inside = |sample: &&Sample| sample.cpu == cpu && (from_ns..=to_ns).contains(&sample.end_ns);
    for sample in found.hardirq.samples.iter().filter(inside) {
        add("irq", &sample.labels.1, sample.value_ns);
    }
    for (class, paired) in
        [("irq", &found.vector), ("softirq", &found.softirq), ("nmi", &found.nmi)]
    {
        for sample in paired.samples.iter().filter(inside) {
            add(class, &sample.labels.0, sample.value_ns);
        }
    }
    for sample in runs(&trace.events).samples.iter().filter(inside) {
        if let Some(name) = threads.get(&sample.pid) {
            add("thread", name, sample.value_ns);
        }
    }
    amounts
}

/// A stretch of time of which the ends are known only so well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// In it for certain.
    pub certain: (u64, u64),
    /// Possibly in it.
    pub possible: (u64, u64),
}

/// The longest time between two ticks, and so between two events of a CPU that works: of the slowest
/// tick that kernels have.
const TICK_NS: u64 = 10_000_000;

/// When a thread measured a CPU, for `runtime_ns` without a break: from about the first to about the last
/// event that found it there. It is found while it prepares as well, and for up to a tick not at all.
pub fn stretch(trace: &Trace, cpu: u32, thread: i32, runtime_ns: u64) -> Result<Stretch> {
    let mut own = trace.events.iter().filter(|event| event.cpu == cpu && event.pid == thread);
    let first = own.next().context("ftrace has no event of the measuring thread")?.time_ns;
    let last = own.next_back().map_or(first, |event| event.time_ns);
    Ok(around(first, last, runtime_ns))
}

fn around(first: u64, last: u64, runtime_ns: u64) -> Stretch {
    // One end is off by what the other is not, and by what both are together.
    let slack = (last - first).abs_diff(runtime_ns) + TICK_NS;
    Stretch { certain: (first + slack, last - slack), possible: (first - slack, last + slack) }
}

/// Switches of a CPU in a stretch of time, and those that are missing from the recording. Those away
/// from hidden threads always are; the daemon's programs are not called for them either.
pub fn lost_switches(
    trace: &Trace,
    cpu: u32,
    (from_ns, to_ns): (u64, u64),
) -> Result<(usize, usize)> {
    let hidden = hidden_threads()?;
    let inside = |event: &&Event| event.cpu == cpu && (from_ns..=to_ns).contains(&event.time_ns);
    let events = trace.events.iter().filter(inside);
    Ok(events.fold((0, 0), |(switches, lost), event| match event.kind {
        Kind::Switch { .. } => (switches + 1, lost),
        Kind::LostSwitch { prev, .. } if !hidden.contains(&prev) => (switches, lost + 1),
        _ => (switches, lost),
    }))
}

/// A table of what noised and ftrace say, with the sources that were judged.
#[derive(Debug)]
pub struct Judgement<'a> {
    /// By noised.
    pub found: &'a Amounts,
    /// By ftrace, in the time that was measured for certain.
    pub certain: &'a Amounts,
    /// By ftrace, in the time that was possibly measured.
    pub possible: &'a Amounts,
    /// How far apart the stamps of one event may be, ns. Noised reads the clock in its program, ftrace in
    /// the probe behind it: at the begin and at the end of an event they are apart by nothing at least,
    /// and by one run of the slowest program and one record of ftrace at most. Of an event of 1 us that
    /// is more than 5 %.
    pub resolution_ns: f64,
}

impl Judgement<'_> {
    /// Prints everything.
    pub fn print(&self) {
        println!(
            "{:<28} {:>8} {:>17} {:>7} {:>12} {:>12} {:>7}",
            "source", "noised", "ftrace", "diff %", "noised ns", "ftrace ns", "diff %"
        );
        let mut keys: Vec<_> = self.found.keys().chain(self.possible.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let [found, certain, possible] = self.amounts(key);
            println!(
                "{:<28} {:>8} {:>17} {:>7.2} {:>12} {:>12} {:>7.2}",
                format!("{} {}", key.0, key.1),
                found.count,
                format!("{}..={}", certain.count, possible.count),
                100.0 * outside(found.count, certain.count, possible.count),
                found.ns,
                u64::midpoint(certain.ns, possible.ns),
                100.0 * deviation(found.ns, u64::midpoint(certain.ns, possible.ns)),
            );
        }
    }

    fn amounts(&self, key: &(String, String)) -> [Amount; 3] {
        [self.found, self.certain, self.possible]
            .map(|amounts| amounts.get(key).copied().unwrap_or_default())
    }

    /// Requires that both say the same of a source: its events within 2 %, its time within 5 % and
    /// what the stamps of so many events may be apart: the slower a machine, the more of it they are.
    pub fn agree(&self, class: &str, name: &str) -> Result<Amount> {
        self.agree_within(class, name, COUNTS)
    }

    /// The same with less room for the count.
    pub fn agree_within(&self, class: &str, name: &str, counts: f64) -> Result<Amount> {
        let [found, certain, possible] = self.amounts(&(class.to_owned(), name.to_owned()));
        ensure!(
            outside(found.count, certain.count, possible.count).abs() <= counts,
            "{class} {name}: {} events, ftrace has {} to {}",
            found.count,
            certain.count,
            possible.count
        );
        let apart = certain.ns.saturating_sub(found.ns).max(found.ns.saturating_sub(possible.ns));
        let allowed = SUMS * possible.ns as f64 + self.resolution_ns * possible.count as f64;
        ensure!(
            apart as f64 <= allowed,
            "{class} {name}: {} ns, ftrace has {} to {} ns",
            found.ns,
            certain.ns,
            possible.ns
        );
        Ok(found)
    }

    /// The same for every kind of interrupt and softirq that is frequent enough to tell.
    pub fn agree_on_interrupts(&self) -> Result<()> {
        for ((class, name), amount) in self.certain {
            if amount.count >= FREQUENT && class != "thread" {
                self.agree(class, name)?;
            }
        }
        Ok(())
    }
}

/// By how much a number is below the least that it may be, or above the most, as a part of that.
fn outside(found: u64, least: u64, most: u64) -> f64 {
    deviation(found, found.clamp(least, most))
}

/// By how much one number is above another, as a part of that one.
pub fn deviation(found: u64, expected: u64) -> f64 {
    if expected == 0 { found as f64 } else { found as f64 / expected as f64 - 1.0 }
}

/// Requires that a count is what was planted.
/// Errors: an inconclusive one where not even the referee counts that: then the machine was disturbed.
pub fn ensure_planted(found: u64, by_ftrace: u64, planted: u64) -> Result<()> {
    println!("planted {planted}, ftrace {by_ftrace}, noised {found}");
    ensure!(
        deviation(by_ftrace, planted).abs() <= COUNTS,
        "the recording is inconclusive: {planted} were planted, ftrace has {by_ftrace}"
    );
    // Both may be off to one side by that much.
    ensure!(
        deviation(found, planted).abs() <= 2.0 * COUNTS,
        "{planted} were planted, noised has {found}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Amount, Amounts, Judgement, Stretch, around, ensure_planted};

    fn amounts(count: u64, ns: u64) -> Amounts {
        Amounts::from([(("irq".to_owned(), "x".to_owned()), Amount { count, ns })])
    }

    fn between(found: (u64, u64), certain: (u64, u64), possible: (u64, u64)) -> bool {
        let [found, certain, possible] =
            [found, certain, possible].map(|(count, ns)| amounts(count, ns));
        let (found, certain, possible) = (&found, &certain, &possible);
        Judgement { found, certain, possible, resolution_ns: 10.0 }.agree("irq", "x").is_ok()
    }

    fn agree(found: (u64, u64), expected: (u64, u64)) -> bool {
        between(found, expected, expected)
    }

    #[test]
    fn what_differs_is_noticed() {
        assert!(agree((1_000, 100_000), (1_000, 100_000)));
        assert!(agree((1_019, 104_900), (1_000, 100_000)));
        assert!(!agree((1_030, 100_000), (1_000, 100_000)));
        assert!(!agree((970, 100_000), (1_000, 100_000)));
        assert!(agree((1_000, 114_000), (1_000, 100_000)));
        assert!(!agree((1_000, 116_000), (1_000, 100_000)));
        assert!(!agree((0, 0), (1_000, 100_000)));
    }

    #[test]
    fn what_is_lost_in_the_middle_is_noticed_what_is_at_the_ends_is_not() {
        assert!(between((715, 71_500), (710, 71_000), (732, 73_200)));
        assert!(!between((715, 71_500), (732, 73_200), (732, 73_200)));
        assert!(!between((760, 76_000), (710, 71_000), (732, 73_200)));
    }

    #[test]
    fn what_a_thread_prepares_is_not_certain() {
        // It began 24 ms later than it was found, and ended 3 ms later: 21 ms too long.
        let Stretch { certain, possible } = around(1_000_000_000, 5_000_000_000, 3_979_000_000);
        assert!(certain.0 >= 1_024_000_000 && certain.1 <= 5_003_000_000);
        assert!(possible.0 <= 1_024_000_000 && possible.1 >= 5_003_000_000);
        assert_eq!(certain, (1_031_000_000, 4_969_000_000));
    }

    #[test]
    fn a_disturbed_planter_proves_nothing() {
        assert!(ensure_planted(100, 100, 100).is_ok());
        let disturbed = ensure_planted(50, 50, 100).unwrap_err().to_string();
        assert!(disturbed.starts_with("the recording is inconclusive"), "{disturbed}");
        assert!(!ensure_planted(50, 100, 100).unwrap_err().to_string().contains("inconclusive"));
    }
}

//! PURE: a line of the tracer's text.
//!
//! Every line begins with the task that ran, its CPU, flags and the time. Behind that stand the sums
//! of a period, or the name of an event. Since a task can give itself any name, the name is passed
//! over by its width, and what follows another task's name is read from the end.

use std::str::FromStr;

use noise_common::signals::VECTORS;
use noise_common::watch::NoiseKind;
use noise_text::clean::as_text;

/// Columns of the running task's name; the kernel's names are shorter.
const NAME_COLUMNS: usize = 16;
const NS_PER_S: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The buffer of a CPU was full: so many entries are missing, 0 where the kernel does not know.
    Lost { cpu: u32, entries: u64 },
    /// An entry of the trace.
    Entry {
        cpu: u32,
        /// While this thread ran.
        thread: u32,
        /// When, by the clock of the trace instance, rounded down to microseconds, ns.
        time_ns: u64,
        item: Item,
    },
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A period is over.
    Period(Sums),
    /// A gap was as long as the threshold, or longer.
    Sample {
        /// When it began, by the tracer's clock, ns.
        start_ns: u64,
        /// How long it was, ns.
        duration_ns: u64,
        interferences: u64,
    },
    /// Something ran on the CPU.
    Noise(Noise),
    Other,
    /// An event of ours that cannot be read.
    Unreadable,
}

/// The sums of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How long it measured, us.
    pub runtime_us: u64,
    /// Time of all gaps, us.
    pub noise_us: u64,
    /// The longest one, us.
    pub longest_us: u64,
    /// Gaps without any event.
    pub hardware: u64,
    pub nmi: u64,
    pub irq: u64,
    pub softirq: u64,
    pub thread: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    pub kind: NoiseKind,
    /// Its name; empty of NMIs.
    pub name: String,
    /// Number of the irq, of the vector or of the softirq, or the thread's pid.
    pub number: u32,
    /// When it began, pushed behind what interrupted it, by the tracer's clock, ns.
    pub start_ns: u64,
    /// How long it ran itself, ns.
    pub net_ns: u64,
}

/// Reads a line, without its end; `None` where it is none of the tracer's.
pub fn parse(line: &[u8]) -> Option<Line> {
    if let Some(rest) = line.strip_prefix(b"CPU:") {
        let rest = std::str::from_utf8(rest).ok()?;
        let (cpu, lost) = rest.split_once(" [LOST ")?;
        let lost = lost.strip_suffix("EVENTS]")?.trim();
        let entries = if lost.is_empty() { 0 } else { lost.parse().ok()? };
        return Some(Line::Lost { cpu: cpu.parse().ok()?, entries });
    }
    let rest = line.get(NAME_COLUMNS..)?.strip_prefix(b"-")?;
    let rest = as_text(rest);
    let (thread, rest) = rest.split_once(' ')?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once("] ")?;
    let (_flags, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    Some(Line::Entry {
        cpu: cpu.parse().ok()?,
        thread: thread.parse().ok()?,
        time_ns: time_ns(time, 1_000)?,
        item: item(rest),
    })
}

fn item(text: &str) -> Item {
    let event = |kind, text| noise(kind, text).map(Item::Noise);
    let item = match text.split_once(": ") {
        Some(("irq_noise", rest)) => event(NoiseKind::Hardirq, rest),
        Some(("thread_noise", rest)) => event(NoiseKind::Thread, rest),
        Some(("softirq_noise", rest)) => event(NoiseKind::Softirq, rest),
        Some(("nmi_noise", rest)) => event(NoiseKind::Nmi, rest),
        Some(("sample_threshold", rest)) => sample(rest),
        None if text.starts_with(|first: char| first.is_ascii_digit()) => {
            sums(text).map(Item::Period)
        }
        _ => Some(Item::Other),
    };
    item.unwrap_or(Item::Unreadable)
}

/// `1000000 190 99.98100 9 18 0 1007 18 1`: runtime, noise, % available, longest, counts.
fn sums(text: &str) -> Option<Sums> {
    let mut words = text.split_ascii_whitespace();
    let mut number = || number::<u64>(words.next()?);
    let (runtime_us, noise_us) = (number()?, number()?);
    let available: f64 = words.next()?.parse().ok()?;
    let mut number = || self::number::<u64>(words.next()?);
    let sums = Sums {
        runtime_us,
        noise_us,
        longest_us: number()?,
        hardware: number()?,
        nmi: number()?,
        irq: number()?,
        softirq: number()?,
        thread: number()?,
    };
    (available.is_finite() && words.next().is_none()).then_some(sums)
}

/// `start 159.907011835 duration 2673788 ns interference 3`.
fn sample(text: &str) -> Option<Item> {
    let (text, interferences) = text.rsplit_once(" interference ")?;
    let (start_ns, duration_ns) = start_and_duration(text.strip_prefix("start ")?)?;
    Some(Item::Sample { start_ns, duration_ns, interferences: number(interferences)? })
}

/// `local_timer:236 start 159.907579071 duration 113029 ns`; NMIs have no name.
fn noise(kind: NoiseKind, text: &str) -> Option<Noise> {
    if kind == NoiseKind::Nmi {
        let (start_ns, net_ns) = start_and_duration(text.trim_start().strip_prefix("start ")?)?;
        return Some(Noise { kind, name: String::new(), number: 0, start_ns, net_ns });
    }
    let (source, times) = text.rsplit_once(" start ")?;
    let (name, id) = source.trim_start().rsplit_once(':')?;
    let (start_ns, net_ns) = start_and_duration(times)?;
    let vector = kind == NoiseKind::Hardirq && VECTORS.contains(&name);
    let kind = if vector { NoiseKind::Vector } else { kind };
    Some(Noise { kind, name: name.to_owned(), number: number(id)?, start_ns, net_ns })
}

/// `159.907011835 duration 2673788 ns`.
fn start_and_duration(text: &str) -> Option<(u64, u64)> {
    let (start, duration) = text.split_once(" duration ")?;
    Some((time_ns(start, 1)?, number(duration.trim_end().strip_suffix(" ns")?)?))
}

/// `seconds.fraction`, the fraction in units of so many nanoseconds.
fn time_ns(text: &str, unit_ns: u64) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let fraction_ns = number::<u64>(fraction)?.checked_mul(unit_ns)?;
    if fraction_ns >= NS_PER_S {
        return None;
    }
    number::<u64>(seconds)?.checked_mul(NS_PER_S)?.checked_add(fraction_ns)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str) -> (u32, u32, u64, Item) {
        match parse(line.as_bytes()) {
            Some(Line::Entry { cpu, thread, time_ns, item }) => (cpu, thread, time_ns, item),
            other => unreachable!("{line}: {other:?}"),
        }
    }

    fn noise(line: &str) -> (NoiseKind, String, u32, u64, u64) {
        match entry(line).3 {
            Item::Noise(Noise { kind, name, number, start_ns, net_ns }) => {
                (kind, name, number, start_ns, net_ns)
            }
            other => unreachable!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_period_of_6_1_and_of_6_12_is_read() {
        let old = "       osnoise/1-156     [001] .......    72.462961: 525775     499896   4.92206  105673   2961      0   1283      0    236";
        let sums = Sums {
            runtime_us: 525_775,
            noise_us: 499_896,
            longest_us: 105_673,
            hardware: 2_961,
            nmi: 0,
            irq: 1_283,
            softirq: 0,
            thread: 236,
        };
        assert_eq!(entry(old), (1, 156, 72_462_961_000, Item::Period(sums)));
        let new = "       osnoise/0-206     [000] .l..1    58.512296: 505930     435123  13.99541   52556     91      0    716      0   1454";
        let (cpu, thread, time_ns, item) = entry(new);
        assert_eq!((cpu, thread, time_ns), (0, 206, 58_512_296_000));
        let Item::Period(sums) = item else { unreachable!() };
        assert_eq!((sums.runtime_us, sums.hardware, sums.thread), (505_930, 91, 1_454));
    }

    #[test]
    fn samples_are_read() {
        let item = entry("       osnoise/1-207     [001] ....1    57.512624: sample_threshold: start 159.683273769 duration 11667 ns interference 0").3;
        let sample = |start_ns, duration_ns, interferences| Item::Sample {
            start_ns,
            duration_ns,
            interferences,
        };
        assert_eq!(item, sample(159_683_273_769, 11_667, 0));
        let item = entry("       osnoise/0-155     [000] .......    71.934903: sample_threshold: start 159.907011835 duration 2673788 ns interference 3").3;
        assert_eq!(item, sample(159_907_011_835, 2_673_788, 3));
    }

    #[test]
    fn events_are_read() {
        // The last two as the formats of these events have them; a kernel with PREEMPT_RT never writes
        // the first of these.
        for (line, (kind, name, number, start_ns, net_ns)) in [
            (
                "       osnoise/1-207     [001] dNh21    57.524783: irq_noise: local_timer:236 start 159.695691545 duration 51757 ns",
                (NoiseKind::Vector, "local_timer", 236, 159_695_691_545, 51_757),
            ),
            (
                "            ping-150     [001] d..h111    71.948710: irq_noise: ttyS1:3 start 159.923487379 duration 2213 ns",
                (NoiseKind::Hardirq, "ttyS1", 3, 159_923_487_379, 2_213),
            ),
            (
                "     kworker/1:2-73      [001] d..3.    69.252710: thread_noise: kworker/1:2:73 start 171.423593507 duration 76173 ns",
                (NoiseKind::Thread, "kworker/1:2", 73, 171_423_593_507, 76_173),
            ),
            (
                "            ping-150     [001] d...3..    71.948857: thread_noise:     ping:150 start 159.923609771 duration 31367 ns",
                (NoiseKind::Thread, "ping", 150, 159_923_609_771, 31_367),
            ),
            (
                "       osnoise/8-961     [008] d.h.  5789.857532: softirq_noise:  NET_RX:3 start 5789.857529929 duration 1845 ns",
                (NoiseKind::Softirq, "NET_RX", 3, 5_789_857_529_929, 1_845),
            ),
            (
                "       osnoise/8-961     [008] d.h.  5789.857532: nmi_noise: start 5789.857529929 duration 1845 ns",
                (NoiseKind::Nmi, "", 0, 5_789_857_529_929, 1_845),
            ),
        ] {
            assert_eq!(noise(line), (kind, name.to_owned(), number, start_ns, net_ns));
        }
    }

    #[test]
    fn lost_entries_are_read() {
        assert_eq!(parse(b"CPU:1 [LOST 6583 EVENTS]"), Some(Line::Lost { cpu: 1, entries: 6_583 }));
        assert_eq!(parse(b"CPU:12 [LOST EVENTS]"), Some(Line::Lost { cpu: 12, entries: 0 }));
    }

    #[test]
    fn names_do_not_lead_astray() {
        let line = "  a] [009] 1.2: -207     [001] ....1    57.512624: thread_noise: x start 1.000000001 duration 5 ns:7 start 2.000000003 duration 4 ns";
        assert_eq!(
            noise(line),
            (
                NoiseKind::Thread,
                "x start 1.000000001 duration 5 ns".to_owned(),
                7,
                2_000_000_003,
                4
            )
        );
        let line = b"           \xff\xfe-sh-9       [001] ....1    57.512624: something: 1 2 3";
        let Some(Line::Entry { thread: 9, item: Item::Other, .. }) = parse(line) else {
            unreachable!()
        };
    }

    #[test]
    fn what_is_no_line_is_none() {
        for line in [
            "",
            "#              | |         |   |||||||      |           |",
            "CPU:x [LOST 1 EVENTS]",
            "irq/3-ttyS1-203        irq/3-ttyS1-203     [001] d..3.    69.245954: thread_noise: a:1",
            "       osnoise/1-x       [001] ....1    57.512624: 1 2 3",
            ":7 start 2.000000003 duration 4 ns",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn an_event_cut_short_is_unreadable() {
        let whole = "       osnoise/1-207     [001] ....1    57.512624: sample_threshold: start 159.683273769 duration 11667 ns interference 0";
        let event = whole.find("sample").unwrap() + "sample_threshold: ".len();
        for end in event..whole.len() {
            assert_eq!(entry(&whole[..end]).3, Item::Unreadable, "{}", &whole[..end]);
        }
        let sums =
            "       osnoise/1-207     [001] ....1    57.512624: 501027 427862 14.60300 49090";
        assert_eq!(entry(sums).3, Item::Unreadable);
    }
}

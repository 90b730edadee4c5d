//! What is in a trace, in figures: events by name and by CPU, first and last, what is missing and where.

mod losses;
mod unpaired;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::losses::{Loss, Losses};
use self::unpaired::SwitchPairs;
pub use self::unpaired::{UnpairedSwitches, UnpairedThread};
use crate::clock::TraceClock;
use crate::damage::{Damage, StreamCut};
use crate::event::Event;
use crate::follow::MAX_CPUS;
use crate::ftrace::UnreadLines;
use crate::reach::Reach;
use crate::record::{Record, Stored};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClockDocument {
    pub name: String,
    pub frequency_hz: u64,
    /// Its zero, in nanoseconds since the epoch.
    pub offset_ns: u64,
}

impl From<&TraceClock> for ClockDocument {
    fn from(clock: &TraceClock) -> Self {
        let name = clock.name.clone();
        Self { name, frequency_hz: clock.frequency_hz, offset_ns: clock.offset_ns() }
    }
}

/// What could not be read, as documents have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnreadDocument {
    pub unread_bytes: u64,
    /// Bytes that packets announce and files do not have.
    pub missing_bytes: u64,
    /// Lines of a text that are no event.
    pub unread_lines: u64,
    /// Events that are older than the one before them.
    pub backwards: u64,
    /// Events of which nothing says on which CPU they were.
    pub without_cpu: u64,
    /// The first damaged places, in words.
    pub places: Vec<String>,
    /// Those of them from which on a stream was not read.
    pub cuts: Vec<StreamCut>,
}

impl UnreadDocument {
    /// What could not be read, if there is such a thing.
    pub fn of(damage: &Damage) -> Option<Self> {
        (!damage.is_none()).then(|| damage.into())
    }
}

impl From<&Damage> for UnreadDocument {
    fn from(damage: &Damage) -> Self {
        Self {
            unread_bytes: damage.unread_bytes,
            missing_bytes: damage.missing_bytes,
            unread_lines: damage.unread_lines,
            backwards: damage.backwards,
            without_cpu: damage.without_cpu,
            places: damage.sentences.clone(),
            cuts: damage.cuts.clone(),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceSummary {
    pub clock: ClockDocument,
    /// Where and by what it was recorded, as the trace says.
    pub environment: BTreeMap<String, String>,
    /// Time of the first event, nanoseconds since the epoch; 0 where there is none.
    pub from_ns: u64,
    /// Time of the last one.
    pub to_ns: u64,
    pub count: u64,
    /// Events that the tracer counted as lost.
    pub discarded: u64,
    pub discarded_packets: u64,
    /// Where these were lost.
    #[serde(flatten)]
    pub losses: Losses,
    /// Switches of all threads whose other half is missing, though no event was lost.
    pub unpaired_switches: UnpairedSwitches,
    /// CPUs that are not known from its begin to its end.
    #[serde(flatten)]
    pub reach: Reach,
    /// Events by their names.
    pub events: BTreeMap<String, u64>,
    /// Events by their CPUs.
    pub cpus: BTreeMap<u32, u64>,
    pub unread: UnreadDocument,
    /// Lines of a text that could not be read, where they are more than 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_lines: Option<UnreadLines>,
    #[serde(skip)]
    pairs: SwitchPairs,
    /// Counts of kinds with numbers, which save looking names up.
    #[serde(skip)]
    numbered: Vec<NumberedCount>,
    /// Counts of CPUs with usual numbers, likewise.
    #[serde(skip)]
    by_cpu: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct NumberedCount {
    /// `None` as long as no such event came.
    name: Option<String>,
    count: u64,
    /// Whether it says something about switches.
    is_followed: bool,
}

/// Different names, and CPUs, that are counted each; more than any kernel has.
const MAX_NAMES: usize = 100_000;

impl TraceSummary {
    pub fn new(clock: &TraceClock, environment: BTreeMap<String, String>) -> Self {
        Self { clock: clock.into(), environment, ..Self::default() }
    }

    /// Only what happens from that time on is counted.
    pub fn begin(&mut self, from_ns: u64) {
        self.pairs = SwitchPairs::since(from_ns);
    }

    /// Takes an event that is not to be counted: it says who runs where.
    pub fn pass(&mut self, event: &Event<'_>) {
        self.pairs.follow(event);
    }

    #[inline]
    pub fn add<'t>(&mut self, record: &Record<impl Stored<'t>>) {
        let loss = record.loss();
        self.reach.follow(record.time_ns, record.cpu, loss.as_ref());
        if let Some(loss) = loss {
            self.discarded = self.discarded.saturating_add(loss.events);
            self.discarded_packets = self.discarded_packets.saturating_add(loss.packets);
            self.losses.add(record.cpu, &loss);
            self.pairs.follow(&record.event());
            return;
        }
        if self.count == 0 {
            self.from_ns = record.time_ns;
        }
        self.to_ns = record.time_ns;
        self.count += 1;
        match record.number().and_then(|number| self.numbered.get_mut(number)) {
            Some(NumberedCount { name: Some(_), count, is_followed }) => {
                *count += 1;
                if *is_followed {
                    self.pairs.follow(&record.event());
                }
            }
            _ => self.count_first(record),
        }
        match self.by_cpu.get_mut(record.cpu as usize) {
            Some(count) => *count += 1,
            None => self.count_cpu(record.cpu),
        }
    }

    /// Counts an event of a kind without a number, or the first one of its kind.
    #[inline(never)]
    fn count_first<'t>(&mut self, record: &Record<impl Stored<'t>>) {
        let event = record.event();
        self.pairs.follow(&event);
        let Some(number) = record.number() else { return self.count_name(record.name(), 1) };
        if number >= self.numbered.len() {
            self.numbered.resize(number + 1, NumberedCount::default());
        }
        if let Some(place) = self.numbered.get_mut(number) {
            let is_followed = SwitchPairs::is_followed(&event.kind);
            *place = NumberedCount { name: Some(record.name().to_owned()), count: 1, is_followed };
        }
    }

    /// Counts an event of a CPU that none was counted of yet, or with a number that no CPU has.
    #[cold]
    fn count_cpu(&mut self, cpu: u32) {
        let place = cpu as usize;
        if place < MAX_CPUS {
            self.by_cpu.resize(place + 1, 0);
            if let Some(count) = self.by_cpu.last_mut() {
                *count = 1;
            }
        } else if let Some(count) = self.cpus.get_mut(&cpu) {
            *count += 1;
        } else if self.cpus.len() < MAX_NAMES {
            self.cpus.insert(cpu, 1);
        }
    }

    fn count_name(&mut self, name: &str, more: u64) {
        if let Some(count) = self.events.get_mut(name) {
            *count += more;
        } else if self.events.len() < MAX_NAMES {
            self.events.insert(name.to_owned(), more);
        }
    }

    pub fn finish(&mut self, damage: &Damage) {
        for NumberedCount { name, count, .. } in std::mem::take(&mut self.numbered) {
            if let Some(name) = name {
                self.count_name(&name, count);
            }
        }
        let counted = (0..).zip(std::mem::take(&mut self.by_cpu));
        self.cpus.extend(counted.filter(|(_, count)| *count > 0));
        self.unread = damage.into();
        self.losses.finish();
        self.unpaired_switches = std::mem::take(&mut self.pairs).finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::FtraceReader;
    use crate::record::Source as _;

    #[test]
    fn cpus_are_counted_whatever_their_numbers() {
        let cpus = [0, 3, 8191, 8192, 1_000_000, 3, 8192, 8192];
        let line = |cpu: &u32| {
            format!("a-1 [{cpu:03}] d..2. 1.000001: irq_handler_exit: irq=1 ret=handled\n")
        };
        let text: String = cpus.iter().map(line).collect();
        let mut reader = FtraceReader::new(text.as_bytes());
        let mut summary = TraceSummary::new(&TraceClock::trace(), BTreeMap::new());
        while let Some(record) = reader.read() {
            summary.add(&record);
        }
        assert!(summary.by_cpu.len() <= MAX_CPUS);
        summary.finish(&reader.damage());
        let expected = [(0, 1), (3, 2), (8191, 1), (8192, 3), (1_000_000, 1)];
        assert_eq!(summary.cpus, BTreeMap::from(expected));
        assert_eq!(summary.events, BTreeMap::from([("irq_handler_exit".to_owned(), 8)]));
    }
}

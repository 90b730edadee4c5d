//! What is in a trace, in figures: events by name and by CPU, first and last, what is missing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Clock;
use crate::damage::Damage;
use crate::ftrace::UnreadLines;
use crate::reach::Reach;
use crate::record::{Record, Stored};

/// A clock, as documents have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClockDocument {
    /// Its name.
    pub name: String,
    /// How often it counts in a second.
    pub frequency_hz: u64,
    /// Its zero, in nanoseconds since the epoch.
    pub offset_ns: u64,
}

impl From<&Clock> for ClockDocument {
    fn from(clock: &Clock) -> Self {
        let name = clock.name.clone();
        Self { name, frequency_hz: clock.frequency_hz, offset_ns: clock.offset_ns() }
    }
}

/// What could not be read, as documents have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnreadDocument {
    /// Bytes that were left out.
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
        }
    }
}

/// The figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The clock.
    pub clock: ClockDocument,
    /// Where and by what it was recorded, as the trace says.
    pub environment: BTreeMap<String, String>,
    /// Time of the first event, nanoseconds since the epoch; 0 where there is none.
    pub from_ns: u64,
    /// Time of the last one.
    pub to_ns: u64,
    /// Number of events.
    pub count: u64,
    /// Events that the tracer counted as lost.
    pub discarded: u64,
    /// Packets that are missing.
    pub discarded_packets: u64,
    /// CPUs that are not known from its begin to its end.
    #[serde(flatten)]
    pub reach: Reach,
    /// Events by their names.
    pub events: BTreeMap<String, u64>,
    /// Events by their CPUs.
    pub cpus: BTreeMap<u32, u64>,
    /// What could not be read.
    pub unread: UnreadDocument,
    /// Lines of a text that could not be read, where they are more than 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_lines: Option<UnreadLines>,
    /// Counts of kinds with numbers, which save looking names up.
    #[serde(skip)]
    numbered: Vec<(Option<String>, u64)>,
}

/// Different names, and CPUs, that are counted each; more than any kernel has.
const MAX_NAMES: usize = 100_000;

impl Summary {
    /// One without events.
    pub fn new(clock: &Clock, environment: BTreeMap<String, String>) -> Self {
        Self {
            clock: clock.into(),
            environment,
            from_ns: 0,
            to_ns: 0,
            count: 0,
            discarded: 0,
            discarded_packets: 0,
            reach: Reach::default(),
            events: BTreeMap::new(),
            cpus: BTreeMap::new(),
            unread: UnreadDocument::default(),
            unread_lines: None,
            numbered: Vec::new(),
        }
    }

    /// Counts an event.
    pub fn add<'t>(&mut self, record: &Record<impl Stored<'t>>) {
        let loss = record.loss();
        self.reach.follow(record.time_ns, record.cpu, loss.as_ref());
        if let Some(loss) = loss {
            self.discarded = self.discarded.saturating_add(loss.events);
            self.discarded_packets = self.discarded_packets.saturating_add(loss.packets);
            return;
        }
        let time_ns = record.time_ns;
        if self.count == 0 {
            self.from_ns = time_ns;
        }
        self.to_ns = time_ns;
        self.count += 1;
        match record.number() {
            Some(number) => {
                if number >= self.numbered.len() {
                    self.numbered.resize(number + 1, (None, 0));
                }
                if let Some((name, count)) = self.numbered.get_mut(number) {
                    name.get_or_insert_with(|| record.name().to_owned());
                    *count += 1;
                }
            }
            None => self.count_name(record.name(), 1),
        }
        if let Some(count) = self.cpus.get_mut(&record.cpu) {
            *count += 1;
        } else if self.cpus.len() < MAX_NAMES {
            self.cpus.insert(record.cpu, 1);
        }
    }

    fn count_name(&mut self, name: &str, more: u64) {
        if let Some(count) = self.events.get_mut(name) {
            *count += more;
        } else if self.events.len() < MAX_NAMES {
            self.events.insert(name.to_owned(), more);
        }
    }

    /// Ends the counting.
    pub fn finish(&mut self, damage: &Damage) {
        for (name, count) in std::mem::take(&mut self.numbered) {
            if let Some(name) = name {
                self.count_name(&name, count);
            }
        }
        self.unread = damage.into();
    }
}

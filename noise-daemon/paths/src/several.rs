//! Recordings of several machines, read as one: in the order of time by the clock of the first one.

use noise_trace::damage::Damage;
use noise_trace::event::{LostEvents, TraceKind};
use noise_trace::record::{Record, Source};

use crate::clocks::ClockLine;
use crate::clocks::traffic::Traffic;
use crate::packets::headers;

struct One<S> {
    source: S,
    line: ClockLine,
}

pub struct Merged<S> {
    all: Vec<One<S>>,
}

impl<S: Source> Merged<S> {
    pub fn one(source: S) -> Self {
        Self::new([(source, ClockLine::SAME)])
    }

    /// Each with how its clock's times become those of the first one.
    pub fn new(all: impl IntoIterator<Item = (S, ClockLine)>) -> Self {
        let one = |(source, line)| One { source, line };
        Self { all: all.into_iter().map(one).collect() }
    }

    /// How many recordings there are.
    pub fn machines(&self) -> u16 {
        u16::try_from(self.all.len()).unwrap_or(u16::MAX)
    }

    /// The next record, with the number of the recording that it is of.
    #[inline]
    pub fn read_from(&mut self) -> Option<(u16, Record<S::Stored<'_>>)> {
        if self.all.len() == 1 {
            return Some((0, self.all.first_mut()?.source.read()?));
        }
        let all = (0u16..).zip(&mut self.all);
        let next = all.filter_map(|(number, one)| Some((one.next_ns()?, number, one)));
        let (_, number, first) = next.min_by_key(|(time_ns, number, _)| (*time_ns, *number))?;
        Some((number, first.read()?))
    }

    /// What could not be read of each recording.
    pub fn damages(&self) -> Vec<Damage> {
        self.all.iter().map(|one| one.source.damage()).collect()
    }
}

impl<S: Source> One<S> {
    fn next_ns(&mut self) -> Option<u64> {
        Some(self.line.to_reference(self.source.next_ns()?))
    }

    fn read(&mut self) -> Option<Record<S::Stored<'_>>> {
        let mut record = self.source.read()?;
        record.time_ns = self.line.to_reference(record.time_ns);
        let Some(loss) = record.loss() else { return Some(record) };
        let [from_ns, to_ns] = [loss.from_ns, loss.to_ns].map(|ns| self.line.to_reference(ns));
        Some(Record::lost(record.time_ns, record.cpu, LostEvents { from_ns, to_ns, ..loss }))
    }
}

/// The packets with headers that a recording has.
pub fn traffic(mut source: impl Source) -> Traffic {
    let mut traffic = Traffic::default();
    while let Some(record) = source.read() {
        match record.kind() {
            TraceKind::NetDevQueue(_) => {
                if let Some(segment) = headers::segment(&record) {
                    traffic.sent(segment.key(), record.time_ns);
                }
            }
            TraceKind::NetifReceiveSkb(_) => {
                if let Some(segment) = headers::segment(&record) {
                    traffic.received(segment.key(), record.time_ns);
                }
            }
            _ => {}
        }
    }
    traffic
}

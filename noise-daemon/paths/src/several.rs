//! Recordings of several machines, read as one: in the order of time by the clock of the first one.

use noise_trace::damage::Damage;
use noise_trace::event::Kind;
use noise_trace::record::{Record, Source};

use crate::clocks::Line;
use crate::clocks::traffic::Traffic;
use crate::packets::headers;

/// One of them.
struct One<S, R> {
    source: S,
    line: Line,
    head: Option<R>,
}

/// All of them.
pub struct Merged<'t, S: Source<'t>> {
    all: Vec<One<S, Record<S::Stored>>>,
    is_begun: bool,
    machine: u16,
}

impl<'t, S: Source<'t>> Merged<'t, S> {
    /// A single recording.
    pub fn one(source: S) -> Self {
        Self::new([(source, Line::SAME)])
    }

    /// Each with how its clock's times become those of the first one.
    pub fn new(all: impl IntoIterator<Item = (S, Line)>) -> Self {
        let one = |(source, line)| One { source, line, head: None };
        Self { all: all.into_iter().map(one).collect(), is_begun: false, machine: 0 }
    }

    /// How many recordings there are.
    pub fn machines(&self) -> u16 {
        u16::try_from(self.all.len()).unwrap_or(u16::MAX)
    }

    /// The number of the recording that the latest record is of.
    pub const fn machine(&self) -> u16 {
        self.machine
    }
}

impl<'t, S: Source<'t>> One<S, Record<S::Stored>> {
    fn next(&mut self) -> Option<Record<S::Stored>> {
        let mut record = self.source.next()?;
        record.time_ns = self.line.to_reference(record.time_ns);
        Some(record)
    }
}

impl<'t, S: Source<'t>> Iterator for Merged<'t, S> {
    type Item = Record<S::Stored>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let [only] = self.all.as_mut_slice() {
            return only.source.next();
        }
        if !self.is_begun {
            self.is_begun = true;
            self.all.iter_mut().for_each(|one| one.head = one.next());
        }
        let heads = (0u16..).zip(&mut self.all);
        let next =
            heads.filter_map(|(number, one)| Some((one.head.as_ref()?.time_ns, number, one)));
        let (_, machine, first) = next.min_by_key(|(time_ns, number, _)| (*time_ns, *number))?;
        self.machine = machine;
        let after = first.next();
        std::mem::replace(&mut first.head, after)
    }
}

impl<'t, S: Source<'t>> Source<'t> for Merged<'t, S> {
    type Stored = S::Stored;

    fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        self.all.iter().for_each(|one| damage.add(&one.source.damage()));
        damage
    }

    /// Of the first recording.
    fn read_bytes(&self, file: usize) -> usize {
        self.all.first().map_or(0, |one| one.source.read_bytes(file))
    }
}

/// The packets with headers that a recording has.
pub fn traffic<'t>(source: impl Source<'t>) -> Traffic {
    let mut traffic = Traffic::default();
    for record in source {
        match record.kind() {
            Kind::NetDevQueue(_) => {
                if let Some(segment) = headers::segment(&record) {
                    traffic.sent(segment.key(), record.time_ns);
                }
            }
            Kind::NetifReceiveSkb(_) => {
                if let Some(segment) = headers::segment(&record) {
                    traffic.received(segment.key(), record.time_ns);
                }
            }
            _ => {}
        }
    }
    traffic
}

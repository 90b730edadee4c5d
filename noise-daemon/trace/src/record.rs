//! What every reader gives: records, each an event with the name and the fields that the trace has, and with
//! the kind that it is in the model; or lost events, at their place.

use std::fmt;

use crate::damage::Damage;
use crate::event::{Event, LostEvents, TraceKind};
use crate::value::Visit;

/// An event as its format stores it.
pub trait Stored<'t>: Copy {
    /// Its name, as the trace has it.
    fn name(&self) -> &'t str;
    /// A small number that all events of this name have and no others, where the format has such.
    fn number(&self) -> Option<usize> {
        None
    }
    fn kind(&self) -> TraceKind<'t>;
    fn visit(&self, visit: &mut impl Visit);
    /// Shows the fields of each context that it has, after a call of `begin`.
    fn visit_contexts<V: Visit>(&self, visit: &mut V, begin: impl FnMut(&mut V));
}

/// An event of a trace, where it lies, or lost events. Cheap to copy; its fields are read when they are asked for.
#[derive(Clone, Copy)]
pub struct Record<S> {
    /// When, in nanoseconds since the epoch of the trace's clock.
    pub time_ns: u64,
    pub cpu: u32,
    body: EventOrLoss<S>,
}

#[derive(Clone, Copy)]
enum EventOrLoss<S> {
    Event(S),
    Lost(LostEvents),
}

impl<S> Record<S> {
    #[inline(always)]
    pub const fn new(time_ns: u64, cpu: u32, stored: S) -> Self {
        Self { time_ns, cpu, body: EventOrLoss::Event(stored) }
    }

    pub const fn lost(time_ns: u64, cpu: u32, loss: LostEvents) -> Self {
        Self { time_ns, cpu, body: EventOrLoss::Lost(loss) }
    }

    /// The same, stored in another way.
    #[inline(always)]
    pub fn map<T>(self, to: impl FnOnce(S) -> T) -> Record<T> {
        let body = match self.body {
            EventOrLoss::Event(stored) => EventOrLoss::Event(to(stored)),
            EventOrLoss::Lost(loss) => EventOrLoss::Lost(loss),
        };
        Record { time_ns: self.time_ns, cpu: self.cpu, body }
    }

    /// The event as its format stores it; none of lost events.
    pub const fn stored(&self) -> Option<&S> {
        match &self.body {
            EventOrLoss::Event(stored) => Some(stored),
            EventOrLoss::Lost(_) => None,
        }
    }

    /// What was lost, where it is lost events; no field is read for that.
    #[inline]
    pub const fn loss(&self) -> Option<LostEvents> {
        match self.body {
            EventOrLoss::Event(_) => None,
            EventOrLoss::Lost(loss) => Some(loss),
        }
    }
}

impl<'t, S: Stored<'t>> Record<S> {
    /// Its name, as the trace has it; `lost` of lost events.
    pub fn name(&self) -> &'t str {
        match &self.body {
            EventOrLoss::Event(stored) => stored.name(),
            EventOrLoss::Lost(_) => "lost",
        }
    }

    /// A small number that all events of this name have and no others, where the format has such.
    pub fn number(&self) -> Option<usize> {
        match &self.body {
            EventOrLoss::Event(stored) => stored.number(),
            EventOrLoss::Lost(_) => None,
        }
    }

    #[inline]
    pub fn kind(&self) -> TraceKind<'t> {
        match &self.body {
            EventOrLoss::Event(stored) => stored.kind(),
            EventOrLoss::Lost(loss) => TraceKind::Lost(*loss),
        }
    }

    /// The event of the model.
    #[inline]
    pub fn event(&self) -> Event<'t> {
        Event { time_ns: self.time_ns, cpu: self.cpu, kind: self.kind() }
    }

    /// Shows its fields; lost events have none.
    pub fn visit(&self, visit: &mut impl Visit) {
        if let EventOrLoss::Event(stored) = &self.body {
            stored.visit(visit);
        }
    }

    /// Shows the fields of each context that it has, after a call of `begin`.
    pub fn visit_contexts<V: Visit>(&self, visit: &mut V, begin: impl FnMut(&mut V)) {
        if let EventOrLoss::Event(stored) = &self.body {
            stored.visit_contexts(visit, begin);
        }
    }
}

impl<'t, S: Stored<'t>> fmt::Debug for Record<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {:?}", self.time_ns, self.cpu, self.kind())
    }
}

/// All records of a trace, in the order of time. A record lies in what its source has in memory, which may be read anew
/// for the next one: it is borrowed until then, and not an iterator's for that reason.
pub trait Source {
    type Stored<'r>: Stored<'r>
    where
        Self: 'r;

    fn read(&mut self) -> Option<Record<Self::Stored<'_>>>;
    /// The time of the next one, nanoseconds since the epoch of the trace's clock.
    fn next_ns(&mut self) -> Option<u64>;
    /// What could not be read so far.
    fn damage(&self) -> Damage;
    /// How far its files were read, in bytes of all of them.
    fn read_bytes(&self) -> u64;
}

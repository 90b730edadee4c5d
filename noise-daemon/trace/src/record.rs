//! What every reader gives: an event with the name and the fields that the trace has, and with the kind
//! that it is to us.

use crate::ctf;
use crate::damage::Damage;
use crate::event::{Event, Kind, Loss};
use crate::value::Visit;

/// An event of a trace.
pub trait Recorded<'t> {
    /// When, in nanoseconds since the epoch of the trace's clock.
    fn time_ns(&self) -> u64;
    /// On which CPU.
    fn cpu(&self) -> u32;
    /// Its name, as the trace has it.
    fn name(&self) -> &'t str;
    /// A small number that all events of this name have and no others, where the format has such.
    fn number(&self) -> Option<usize>;
    /// What happened.
    fn kind(&self) -> Kind<'t>;
    /// What was lost, if that is what it says; without a look at any field.
    fn loss(&self) -> Option<Loss>;
    /// Shows its fields.
    fn visit(&self, visit: &mut impl Visit);
    /// Shows the fields of each context that it has, after a call of `begin`.
    fn visit_contexts<V: Visit>(&self, visit: &mut V, begin: impl FnMut(&mut V));

    /// The event of the model.
    fn event(&self) -> Event<'t> {
        Event { time_ns: self.time_ns(), cpu: self.cpu(), kind: self.kind() }
    }
}

/// All events of a trace, in the order of time.
pub trait Source<'t>: Iterator<Item: Recorded<'t>> {
    /// What could not be read so far.
    fn damage(&self) -> Damage;
    /// How far the file of that number was read, in bytes: what lies before is not looked at again, but by
    /// records that are kept.
    fn read_bytes(&self, file: usize) -> usize;
}

impl<'t> Recorded<'t> for ctf::Record<'t> {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }

    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn name(&self) -> &'t str {
        self.name()
    }

    fn number(&self) -> Option<usize> {
        self.class().map(|class| class.number)
    }

    #[inline]
    fn kind(&self) -> Kind<'t> {
        self.kind()
    }

    #[inline]
    fn loss(&self) -> Option<Loss> {
        self.loss()
    }

    fn visit(&self, visit: &mut impl Visit) {
        self.visit(visit);
    }

    fn visit_contexts<V: Visit>(&self, visit: &mut V, begin: impl FnMut(&mut V)) {
        self.visit_contexts(visit, begin);
    }
}

impl<'t> Source<'t> for ctf::Reader<'t> {
    fn damage(&self) -> Damage {
        self.damage()
    }

    fn read_bytes(&self, file: usize) -> usize {
        self.read_bytes(file)
    }
}

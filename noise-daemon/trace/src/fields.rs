//! How the fields of an event are asked for, whatever the format.

use crate::state::LeftIn;

/// A field by the names that tracers gave it, the best first.
pub type Wanted = &'static [&'static str];

/// Fields of an event, by their numbers in [`What::wanted`](crate::what::What::wanted). One that is not there is 0 or empty.
pub trait Fields<'t> {
    /// Whether it is there.
    fn has(&self, field: usize) -> bool;
    /// An integer; one with a sign is sign-extended.
    fn int(&self, field: usize) -> u64;
    /// The state that a switch leaves a thread in.
    fn state(&self, field: usize) -> LeftIn {
        LeftIn::of(self.int(field) as i64)
    }
    /// A text.
    fn text(&self, field: usize) -> &'t [u8];
}

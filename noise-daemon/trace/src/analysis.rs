//! What analyses of a recording have in common: they follow it from its begin on, and count the part that is wanted.

use serde::Serialize;

use crate::event::Event;
use crate::follow::Begin;
use crate::ftrace::UnreadLines;

/// What takes the events of a recording, in the order of time, and makes a document of them.
pub trait Analysis {
    type Document: Serialize;

    /// Waits of threads that are woken begin with that event.
    fn new(begin: Begin) -> Self;
    fn follow(&mut self, event: &Event<'_>);
    /// A thread has ended, before what counts began: nothing of it is needed any more.
    fn forget(&mut self, tid: i32);
    /// Counts from now on only.
    fn begin(&mut self, from_ns: u64);
    /// The document, with those threads alone, and with what is said of lines that were not read.
    fn finish(
        self,
        wants: impl Fn(i32) -> bool,
        unread_lines: Option<UnreadLines>,
    ) -> Self::Document;
}

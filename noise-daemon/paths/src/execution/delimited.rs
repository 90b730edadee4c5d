//! What is found between two delimiters, and what makes no execution.

use serde::Serialize;

use super::Execution;

/// Executions that are found; those beyond are counted.
pub const MAX_FOUND: usize = 1 << 20;

/// Delimiters that make no execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DelimiterTally {
    /// Begins before whose end there was another begin.
    pub overlapping: u64,
    /// Begins without an end, those of threads that ended among them.
    pub unfinished: u64,
    /// Ends without a begin.
    pub unbegun: u64,
    /// Begins behind which events were lost before an end came.
    pub lost: u64,
    /// Begins and ends whose thread is not known.
    pub strangers: u64,
    /// Begins whose end has the same time.
    pub momentary: u64,
    /// What is more than can be held.
    pub beyond: u64,
}

impl DelimiterTally {
    /// How many there are of each, with what it is.
    pub fn rows(&self) -> [(u64, &'static str); 7] {
        [
            (self.overlapping, "overlapping: begun again before their end"),
            (
                self.unfinished,
                "unfinished: no end before the thread, the recording or the time that is asked for ends",
            ),
            (self.unbegun, "ends without a begin"),
            (self.lost, "lost: events are missing between begin and end"),
            (self.strangers, "of threads that the recording does not name"),
            (self.momentary, "momentary: the end is not after the begin"),
            (self.beyond, "more than can be held"),
        ]
    }
}

/// An execution between two delimiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delimited {
    /// Of whom, from when until when: of the thread that ended it.
    pub execution: Execution,
    /// Its place among those that were over before the end; `None` of one that was not.
    pub number: Option<usize>,
    /// The key that marks gave it.
    pub key: Option<String>,
}

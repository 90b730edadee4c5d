//! What could not be made a slice or an edge, counted by why.

use std::collections::BTreeMap;

use serde::Serialize;

/// Why it is not known what a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Events were lost.
    Events,
    /// No event was lost, but a switch is not recorded.
    Switch,
}

/// What was left open or left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SketchCounts {
    /// Slices without an end in the recording.
    pub unfinished: u64,
    /// Slices given up because events were lost on the way.
    pub lost: u64,
    /// Slices given up because a switch of their thread is not recorded, though no event was lost.
    pub unpaired: u64,
    /// Slices beyond what is held.
    pub left_out: u64,
    /// Slices of which it is not known what calls they make: there are too many combinations of calls.
    pub calls_left_out: u64,
    /// Causes and effects beyond what is held.
    pub edges_left_out: u64,
    /// Connections that another thread closed than the one that used them.
    pub closed_elsewhere: u64,
    /// What was received, taken or waited for, where more than one thread may have caused it.
    pub ambiguous: u64,
    /// Calls of threads that had requests to work on, where nothing says for which of them they were made.
    pub unassigned: u64,
    /// Requests on a connection on which another thread's, or another request's, was not answered yet.
    pub overlapping: u64,
    /// What was received or taken, where nothing in the recording says from whom.
    pub unmatched: u64,
    /// Causes and effects that lie outside of the slices, such as after the answer.
    pub outside: u64,
    /// Calls of kinds that are not followed, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_followed: BTreeMap<String, u64>,
}

impl SketchCounts {
    /// A slice is given up.
    pub const fn give_up(&mut self, missing: Missing) {
        match missing {
            Missing::Events => self.lost += 1,
            Missing::Switch => self.unpaired += 1,
        }
    }
}

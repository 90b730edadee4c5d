//! A path as a string of states: neighbours that are the same are one stretch, with its time.
//!
//! What the execution's own thread does and what others do in its stead are different things, though the state has one
//! name: a string tells them apart, and so does the count of stretches.

use noise_paths::document::{Segment, Traced};
use noise_paths::state::State;

/// The states of paths, in the order in which documents have them.
pub const STATES: [State; 10] = [
    State::Running,
    State::WaitingCpu,
    State::Disk,
    State::Network,
    State::Timer,
    State::Futex,
    State::Task,
    State::Interrupt,
    State::Ipi,
    State::Unknown,
];

/// How many that are.
pub const STATE_COUNT: usize = STATES.len();

/// The state of a thread that runs in a system call, which vectors alone have: its place behind those of paths.
pub const SYSTEM_CALL: usize = STATE_COUNT;

/// Where `running` is among the states.
pub const RUNNING: usize = 0;

/// The name of a state by its place in [`STATES`], or of that which vectors alone have.
pub fn state_name(place: usize) -> &'static str {
    if place == SYSTEM_CALL {
        return "system_call";
    }
    STATES.get(place).copied().unwrap_or(State::Unknown).name()
}

/// The place of a state by its name in documents; a name that is none of them is taken for `unknown`.
pub fn state_place(name: &str) -> usize {
    STATES.iter().position(|state| state.name() == name).unwrap_or(STATE_COUNT - 1)
}

/// A stretch of a path in one state, of the execution's own thread or of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStretch {
    /// The state's place in [`STATES`].
    pub state: usize,
    /// Whether it is the time of the execution's own thread.
    pub is_own: bool,
    /// From then on, nanoseconds.
    pub from_ns: u64,
    pub to_ns: u64,
}

impl PathStretch {
    /// How long it is, nanoseconds.
    pub const fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// What stands for it in an alignment: twice the state's place, and one more where it is others' time.
    pub fn symbol(&self) -> u32 {
        2 * self.state as u32 + u32::from(!self.is_own)
    }
}

impl PathStretch {
    /// That of parts of a path which are one stretch; none of no part.
    pub fn of(traced: &Traced, parts: &[Segment]) -> Option<Self> {
        let (first, last) = (parts.first()?, parts.last()?);
        Some(Self {
            state: state_place(first.state),
            is_own: is_own(traced, first),
            from_ns: first.from_ns,
            to_ns: last.to_ns,
        })
    }
}

/// The parts of each stretch of a path.
pub fn runs(traced: &Traced) -> impl Iterator<Item = &[Segment]> {
    let what = |part: &Segment| (state_place(part.state), is_own(traced, part));
    traced.path.chunk_by(move |one, other| what(one) == what(other))
}

/// The stretches of a path.
pub fn stretches(traced: &Traced) -> Vec<PathStretch> {
    runs(traced).filter_map(|parts| PathStretch::of(traced, parts)).collect()
}

/// Whether a part is of the execution's own thread.
pub fn is_own(traced: &Traced, part: &Segment) -> bool {
    part.tid == traced.tid && part.recording == 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::made::{Made, path};

    #[test]
    fn states_are_those_of_documents() {
        let names: BTreeSet<_> =
            noise_paths::state::STATES.iter().map(|state| state.name()).collect();
        assert_eq!(STATES.iter().map(|state| state.name()).collect::<BTreeSet<_>>(), names);
        assert_eq!(names.len(), STATE_COUNT);
        for place in 0..STATE_COUNT {
            assert_eq!(state_place(state_name(place)), place);
        }
        assert_eq!(state_name(state_place("new")), "unknown");
    }

    #[test]
    fn neighbours_of_one_state_are_one_stretch_unless_another_thread_takes_over() {
        let traced = path(&[
            Made::own("running", 5),
            Made::own("running", 6),
            Made::of("running", 7, 9),
            Made::of("running", 1, 10),
            Made::own("disk", 3),
        ]);
        let found = stretches(&traced);
        let short: Vec<_> =
            found.iter().map(|one| (state_name(one.state), one.is_own, one.ns())).collect();
        assert_eq!(short, [("running", true, 11), ("running", false, 8), ("disk", true, 3)]);
        assert_eq!(found.iter().map(PathStretch::symbol).collect::<Vec<_>>(), [0, 1, 4]);
        assert_eq!(stretches(&Traced::default()), []);
    }
}

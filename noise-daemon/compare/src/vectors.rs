//! Two vectors of each execution over all states of paths: how many stretches it has in each, and how long it is in each.
//!
//! A stretch is what [`stretches`] has: neighbours of one state are one, but time of the execution's own thread
//! and of others that took its place are two. So each state has two numbers in a vector, of the own thread and of others.
//!
//! Where all executions that are compared say how much of their running time was in system calls, running is two states:
//! [`SYSTEM_CALL`], and `running` without that time. Their stretches are those of paths, which do not say where in a running
//! part its calls are.

use noise_paths::document::Traced;

use crate::stretches::{PathStretch, RUNNING, STATE_COUNT, SYSTEM_CALL, is_own, state_place};

pub const VECTOR_STATES: usize = STATE_COUNT + 1;

/// The state in which paths have what vectors have in a state.
pub const fn path_state(state: usize) -> usize {
    if state == SYSTEM_CALL { RUNNING } else { state }
}

/// Running time in system calls: of the own thread, and of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InCalls {
    /// Running parts that have such time.
    pub counts: [u64; 2],
    pub ns: [u64; 2],
}

/// Numbers of a vector: by [`PathStretch::symbol`].
pub const LENGTH: usize = 2 * STATE_COUNT;

/// Both vectors of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vectors {
    pub counts: [u64; LENGTH],
    /// Time by state, nanoseconds; sums to the execution's span.
    pub ns: [u64; LENGTH],
    /// How much of `running` was in system calls, where that is known.
    pub calls: Option<InCalls>,
}

impl Vectors {
    /// Those of an execution, by its stretches.
    pub fn of(stretches: &[PathStretch]) -> Self {
        let mut vectors = Self::default();
        stretches.iter().for_each(|stretch| vectors.add(stretch));
        vectors
    }

    fn add(&mut self, stretch: &PathStretch) {
        let symbol = stretch.symbol() as usize;
        if let (Some(count), Some(ns)) = (self.counts.get_mut(symbol), self.ns.get_mut(symbol)) {
            *count += 1;
            *ns = ns.saturating_add(stretch.ns());
        }
    }

    /// Takes from a path how much of its running time was in system calls: that is known where all parts of the own thread say
    /// it. Of others, as kernel threads, none may be there.
    pub fn note_calls(&mut self, traced: &Traced) {
        let running = traced.path.iter().filter(|part| state_place(part.state) == RUNNING);
        let mut calls = InCalls::default();
        let mut is_known = true;
        for (count, part) in running.map(|part| (usize::from(!is_own(traced, part)), part)) {
            is_known &= count > 0 || part.in_calls_ns.is_some();
            let ns = part.in_calls_ns.unwrap_or(0);
            if let (Some(sum), Some(number)) =
                (calls.ns.get_mut(count), calls.counts.get_mut(count))
            {
                *sum = sum.saturating_add(ns);
                *number += u64::from(ns > 0);
            }
        }
        self.calls = is_known.then_some(calls);
    }

    /// Time in a state by its place, nanoseconds. Running is two states if it `divides`.
    pub fn ns_of(&self, state: usize, divides: bool) -> u64 {
        self.ns_by(state, divides).into_iter().fold(0, u64::saturating_add)
    }

    /// The same of the own thread, and of others.
    pub fn ns_by(&self, state: usize, divides: bool) -> [u64; 2] {
        let calls = self.calls.filter(|_| divides).unwrap_or_default().ns;
        match state {
            SYSTEM_CALL => calls,
            RUNNING => {
                let [(own, in_own), (others, in_others)] =
                    [0, 1].map(|whose| (both(&self.ns, RUNNING)[whose], calls[whose]));
                [own.saturating_sub(in_own), others.saturating_sub(in_others)]
            }
            state => both(&self.ns, state),
        }
    }

    /// Stretches in a state by its place, of the own thread and of others; of system calls, running parts that have some.
    pub fn counts_by(&self, state: usize, divides: bool) -> [u64; 2] {
        match state {
            SYSTEM_CALL => self.calls.filter(|_| divides).unwrap_or_default().counts,
            state => both(&self.counts, state),
        }
    }
}

/// What a vector has of a state: of the own thread, and of others.
fn both(vector: &[u64; LENGTH], state: usize) -> [u64; 2] {
    [2 * state, 2 * state + 1].map(|place| vector.get(place).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made::{Made, path, side};
    use crate::stretches::{state_name, stretches};

    #[test]
    fn running_is_two_states_where_all_say_what_was_in_calls() {
        let mut known = path(&[
            Made::own("running", 10),
            Made::own("disk", 5),
            Made::of("running", 8, 9),
            Made::own("running", 4),
        ]);
        let unknown = known.clone();
        known.in_calls_ns = Some(9);
        for (part, ns) in [(0, 6), (2, 3), (3, 0)] {
            known.path[part].in_calls_ns = Some(ns);
        }
        // What events were lost of is not known, whatever is known of the rest.
        let mut partly = known.clone();
        partly.path[3].in_calls_ns = None;
        assert!(!side(&[partly]).knows_calls());
        // Kernel threads make no calls.
        let mut own = known.clone();
        own.path[2].in_calls_ns = None;
        assert!(side(&[own]).knows_calls());
        let waits = path(&[Made::own("disk", 5)]);
        let [with, without] =
            [&known, &unknown].map(|traced| side(&[traced.clone(), waits.clone()]));
        assert!(with.knows_calls() && !without.knows_calls());
        let vectors = with.executions()[0].vectors;
        assert_eq!([0, SYSTEM_CALL].map(|state| vectors.ns_by(state, true)), [[8, 5], [6, 3]]);
        assert_eq!([0, SYSTEM_CALL].map(|state| vectors.ns_by(state, false)), [[14, 8], [0, 0]]);
        assert_eq!(vectors.counts_by(SYSTEM_CALL, true), [1, 1]);
        let all: u64 = (0..VECTOR_STATES).map(|state| vectors.ns_of(state, true)).sum();
        assert_eq!(all, known.span_ns);
        assert_eq!((state_name(SYSTEM_CALL), path_state(SYSTEM_CALL)), ("system_call", 0));
    }

    proptest! {
        #[test]
        fn times_sum_to_the_span_and_counts_to_the_stretches(
            parts in prop::collection::vec((0..STATE_COUNT, 1u64..1000, 7i32..9), 1..50)
        ) {
            let parts: Vec<_> = parts.iter().map(|(state, ns, tid)| Made::of(state_name(*state), *ns, *tid)).collect();
            let traced = path(&parts);
            let vectors = Vectors::of(&stretches(&traced));
            prop_assert_eq!(vectors.ns.iter().sum::<u64>(), traced.span_ns);
            prop_assert_eq!(vectors.counts.iter().sum::<u64>(), stretches(&traced).len() as u64);
            for state in 0..STATE_COUNT {
                prop_assert_eq!(vectors.ns_of(state, false), traced.totals_ns.get(state_name(state)).copied().unwrap_or(0));
            }
        }
    }
}

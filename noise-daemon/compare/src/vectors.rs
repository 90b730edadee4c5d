//! Two vectors of each execution over all states of paths: how many stretches it has in each, and how long it is in each.
//!
//! A stretch is what [`stretches`] has: neighbours of one state are one, but time of the execution's own thread
//! and of others that took its place are two. So each state has two numbers in a vector, of the own thread and of others.

use crate::stretches::{PathStretch, STATE_COUNT};

/// Numbers of a vector: by [`PathStretch::symbol`].
pub const LENGTH: usize = 2 * STATE_COUNT;

/// Both vectors of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vectors {
    pub counts: [u64; LENGTH],
    /// Time by state, nanoseconds; sums to the execution's span.
    pub ns: [u64; LENGTH],
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

    /// Time in a state by its place, nanoseconds, whoever has it.
    pub fn ns_of(&self, state: usize) -> u64 {
        both(&self.ns, state)
    }

    /// Stretches in a state by its place, whoever has them.
    pub fn count_of(&self, state: usize) -> u64 {
        both(&self.counts, state)
    }
}

fn both(vector: &[u64; LENGTH], state: usize) -> u64 {
    let numbers = vector.get(2 * state..2 * state + 2).unwrap_or_default();
    numbers.iter().fold(0, |sum, number| sum.saturating_add(*number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made::{Made, path};
    use crate::stretches::{state_name, stretches};

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
                prop_assert_eq!(vectors.ns_of(state), traced.totals_ns.get(state_name(state)).copied().unwrap_or(0));
            }
        }
    }
}

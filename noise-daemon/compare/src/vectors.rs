//! Two vectors of each execution over all states of paths: how many stretches it has in each, and how long it is in each.
//!
//! A stretch is what [`stretches`] has: neighbours of one state are one, but time of the execution's own thread
//! and of others that took its place are two. So each state has two numbers in a vector, of the own thread and of others.

use std::fmt::Write as _;

use noise_text::csv::cell;

use crate::side::{Execution, Run, Side};
use crate::stretches::{PathStretch, STATE_COUNT, STATES};

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

/// A table for spreadsheets and the like: a row for each execution of both sets, with its two vectors. `count_STATE` and
/// `ns_STATE` are whoever has them, `others_count_STATE` and `others_ns_STATE` what of that is not the own thread's.
pub fn csv(sides: [(&str, &Side); 2]) -> String {
    let mut text = "set,execution,name,key,tid,comm,from_ns,span_ns".to_owned();
    for prefix in ["count", "ns", "others_count", "others_ns"] {
        for state in STATES {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{prefix}_{}", state.name());
        }
    }
    text.push_str(",recording,pid\n");
    for (set, side) in sides {
        for (number, Execution { run, vectors, .. }) in side.executions().iter().enumerate() {
            let Run { recording, pid, tid, from_ns, span_ns, .. } = run;
            let [name, key, comm] =
                [&run.name, run.key.as_deref().unwrap_or_default(), &run.comm].map(cell);
            let _ = write!(text, "{set},{number},{name},{key},{tid},{comm},{from_ns},{span_ns}");
            let others =
                |vector: &[u64; LENGTH]| vector.iter().skip(1).step_by(2).copied().collect();
            let all = |of: fn(&Vectors, usize) -> u64| {
                (0..STATE_COUNT).map(|state| of(vectors, state)).collect()
            };
            let columns: [Vec<u64>; 4] = [
                all(Vectors::count_of),
                all(Vectors::ns_of),
                others(&vectors.counts),
                others(&vectors.ns),
            ];
            for value in columns.iter().flatten() {
                let _ = write!(text, ",{value}");
            }
            let _ = writeln!(text, ",{recording},{pid}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made::{Made, path, side};
    use crate::stretches::{state_name, stretches};

    #[test]
    fn a_row_has_counts_and_times() {
        let mut one =
            path(&[Made::own("running", 5), Made::own("disk", 7), Made::of("running", 1, 8)]);
        one.key = Some("a,\"b\"".to_owned());
        let text = csv([("normal", &side(&[one.clone()])), ("sample", &side(&[]))]);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("set,execution,name,key,tid,comm,from_ns,span_ns,count_running,")
        );
        assert!(lines[0].ends_with(",others_ns_ipi,others_ns_unknown,recording,pid"));
        assert_eq!(
            lines[1],
            "normal,0,mark:job,\"a,\"\"b\"\"\",7,job,1000,13,2,0,1,0,0,0,0,0,0,0,6,0,7,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,7"
        );
        assert_eq!(lines.len(), 2);
        // What threads and programs name so is text, also for a spreadsheet.
        (one.comm, one.key) = ("=1+2".to_owned(), Some("@a,b".to_owned()));
        let text = csv([("normal", &side(&[one])), ("sample", &side(&[]))]);
        assert!(text.contains(",\"'@a,b\",7,'=1+2,1000,"), "{text}");
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
                prop_assert_eq!(vectors.ns_of(state), traced.totals_ns.get(state_name(state)).copied().unwrap_or(0));
            }
        }
    }
}

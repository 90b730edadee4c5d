//! Which executions of the sample are too long in which state, held against the normal ones of their kind; without the longest
//! of these, which may have been disturbed themselves.

use crate::rules::Moments;
use crate::side::Execution;
use crate::vectors::VECTOR_STATES;

/// An execution that is too long in a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowExecution {
    /// Its place in the sample.
    pub execution: usize,
    /// The state's place among all.
    pub state: usize,
    /// Its time in the state, nanoseconds.
    pub ns: u64,
    /// That of the normal executions of its kind.
    pub normal: Moments,
}

impl SlowExecution {
    /// How much longer it is than the mean, nanoseconds.
    pub fn lost_ns(&self) -> f64 {
        self.ns as f64 - self.normal.mean
    }
}

/// All times above the mean of the normal executions by more than `t1` standard deviations, the longest beyond the mean
/// first. `groups` has normal executions, and `of` for each execution of the sample the group that it is held against.
/// Running is two states if it `divides`.
pub fn outliers(
    normal: &[Execution],
    sample: &[Execution],
    (groups, of): (&[Vec<usize>], &[usize]),
    t1: f64,
    divides: bool,
) -> Vec<SlowExecution> {
    let usual = |group: &Vec<usize>| {
        std::array::from_fn::<_, VECTOR_STATES, _>(|state| {
            let times = group.iter().filter_map(|peer| normal.get(*peer));
            Moments::trimmed(times.map(|peer| peer.vectors.ns_of(state, divides) as f64))
        })
    };
    let usual: Vec<[Moments; VECTOR_STATES]> = groups.iter().map(usual).collect();
    let mut all = Vec::new();
    for (execution, (one, group)) in sample.iter().zip(of).enumerate() {
        for (state, normal) in usual.get(*group).into_iter().flatten().enumerate() {
            let ns = one.vectors.ns_of(state, divides);
            if ns as f64 > normal.mean + t1 * normal.deviation {
                all.push(SlowExecution { execution, state, ns, normal: *normal });
            }
        }
    }
    all.sort_by(|one, other| other.lost_ns().total_cmp(&one.lost_ns()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(running: u64, disk: u64) -> Execution {
        let mut execution = Execution::default();
        (execution.vectors.ns[0], execution.vectors.ns[4]) = (running, disk);
        execution
    }

    #[test]
    fn each_is_held_against_its_own_kind() {
        let normal = [vectors(10, 0), vectors(12, 0), vectors(100, 50), vectors(104, 54)];
        let sample = [vectors(101, 0), vectors(101, 90), vectors(11, 0)];
        let groups = [vec![0, 1], vec![2, 3]];
        let found = outliers(&normal, &sample, (&groups, &[0, 1, 0]), 1.5, false);
        let short: Vec<_> = found.iter().map(|it| (it.execution, it.state, it.lost_ns())).collect();
        assert_eq!(short, [(0, 0, 90.0), (1, 2, 38.0)]);
    }
}

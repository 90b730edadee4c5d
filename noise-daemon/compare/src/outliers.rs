//! Which executions of the sample are too long in which state, held against the normal ones of their kind; without the longest
//! twentieth of these, which may have been disturbed themselves.

use crate::rules::Moments;
use crate::stretches::STATE_COUNT;
use crate::vectors::Vectors;

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
/// first. `peers` has for each execution of the sample the normal ones of its kind.
pub fn outliers(
    normal: &[Vectors],
    sample: &[Vectors],
    peers: &[&[usize]],
    t1: f64,
) -> Vec<SlowExecution> {
    let mut all = Vec::new();
    for (execution, (vectors, peers)) in sample.iter().zip(peers).enumerate() {
        for state in 0..STATE_COUNT {
            let times = peers.iter().filter_map(|peer| normal.get(*peer));
            let moments = Moments::trimmed(times.map(|peer| peer.ns_of(state) as f64));
            let ns = vectors.ns_of(state);
            if ns as f64 > moments.mean + t1 * moments.deviation {
                all.push(SlowExecution { execution, state, ns, normal: moments });
            }
        }
    }
    all.sort_by(|one, other| other.lost_ns().total_cmp(&one.lost_ns()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(running: u64, disk: u64) -> Vectors {
        let mut vectors = Vectors::default();
        (vectors.ns[0], vectors.ns[4]) = (running, disk);
        vectors
    }

    #[test]
    fn each_is_held_against_its_own_kind() {
        let normal = [vectors(10, 0), vectors(12, 0), vectors(100, 50), vectors(104, 54)];
        let sample = [vectors(101, 0), vectors(101, 90), vectors(11, 0)];
        let (few, many) = (vec![0, 1], vec![2, 3]);
        let found = outliers(&normal, &sample, &[&few, &many, &few], 1.5);
        let short: Vec<_> = found.iter().map(|it| (it.execution, it.state, it.lost_ns())).collect();
        assert_eq!(short, [(0, 0, 90.0), (1, 2, 38.0)]);
    }
}

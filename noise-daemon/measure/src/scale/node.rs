//! How long a node is delayed: all of its CPUs wait for the slowest of them.

use super::lane::{Lane, Piece};
use super::spread::{Observed, Spread};

/// When phases begin, as seen from a node's own noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a random moment at which all CPUs of the node compute, as where the phase before has
    /// just ended there. One CPU alone loses, in the mean, detours / undisturbed time.
    Running,
    /// At a random moment that the node's own noise has no part in, as where others or a timer set
    /// it. The rest of a detour that it lies in counts.
    Anytime,
}

/// CPUs that were measured at once, on a ring of time. Times are in ns.
#[derive(Clone, Debug)]
pub struct Node {
    lanes: Vec<Lane>,
    length: f64,
}

/// Delays of a phase on one node.
#[derive(Clone, Debug)]
pub struct PhaseDelays {
    pub spread: Spread,
    /// How long the starts that were observed lasted, ns.
    pub observed_ns: f64,
}

impl Node {
    /// Of CPUs on rings of one length; None where there is none, or they differ.
    pub fn new(lanes: Vec<Lane>) -> Option<Self> {
        let length = lanes.first()?.length();
        let same = lanes.iter().all(|lane| lane.length() == length);
        same.then_some(Self { lanes, length })
    }

    /// Length of the ring.
    pub const fn length(&self) -> f64 {
        self.length
    }

    /// How many CPUs it has.
    pub fn cpus(&self) -> usize {
        self.lanes.len()
    }

    /// Whether all CPUs compute at `start`, which lies on the ring.
    pub fn is_running(&self, start: f64) -> bool {
        !self.lanes.iter().any(|lane| lane.is_disturbed(start))
    }

    /// How long the slowest CPU is delayed over `work` that begins at `start`, on the ring.
    pub fn delay(&self, start: f64, work: f64) -> f64 {
        self.lanes.iter().map(|lane| lane.delay(start, work)).fold(0.0, f64::max)
    }

    /// The delays of `work`; None where the CPUs never compute all at once.
    pub fn delays(&self, work: f64, start: Start) -> Option<PhaseDelays> {
        let mut observed = Observed::default();
        let mut pieces: Vec<_> = self.lanes.iter().map(|lane| lane.pieces(work)).collect();
        let mut current: Vec<(f64, Piece)> =
            pieces.iter_mut().filter_map(|pieces| Some((0.0, pieces.next()?))).collect();
        let mut begin = 0.0;
        while current.len() == pieces.len() {
            let end = current.iter().map(|(_, piece)| piece.end).fold(f64::INFINITY, f64::min);
            observe(&mut observed, &current, begin, end, start);
            begin = end;
            for (index, pieces) in pieces.iter_mut().enumerate() {
                while current.get(index).is_some_and(|(_, piece)| piece.end <= end) {
                    match pieces.next() {
                        Some(piece) => current[index] = (end, piece),
                        // The ring is round; what rounding leaves of another CPU is nothing.
                        None => current.clear(),
                    }
                }
            }
        }
        let observed_ns = observed.weight();
        Some(PhaseDelays { spread: observed.spread()?, observed_ns })
    }
}

/// Starts from `begin` to `end`, over which no CPU changes its piece; each piece with its begin.
fn observe(observed: &mut Observed, pieces: &[(f64, Piece)], begin: f64, end: f64, start: Start) {
    let duration = end - begin;
    if duration <= 0.0 {
        return;
    }
    let (mut level, mut falling) = (0.0f64, None::<f64>);
    for (piece_begin, piece) in pieces {
        if piece.in_detour {
            let delay = piece.delay - (begin - piece_begin);
            falling = Some(falling.map_or(delay, |known| known.max(delay)));
        } else {
            level = level.max(piece.delay);
        }
    }
    match (falling, start) {
        (None, _) => observed.point(level, duration),
        (Some(_), Start::Running) => {}
        (Some(highest), Start::Anytime) => {
            // Falling delays lead until they meet the level one.
            let leads = (highest - level).clamp(0.0, duration);
            observed.ramp(highest - leads, highest);
            observed.point(level, duration - leads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop, prop_assert, proptest};

    fn lane(length: u32) -> impl Strategy<Value = Lane> {
        let ticks = prop::collection::vec(any::<bool>(), length as usize / 4);
        ticks.prop_map(move |ticks| {
            let detours = ticks.iter().enumerate().filter(|(_, hit)| **hit);
            let detours = detours.map(|(index, _)| (index as f64 * 4.0, 3.0));
            Lane::new(detours, f64::from(length)).unwrap()
        })
    }

    proptest! {
        /// Against delays of single starts, in steps that hit the middle of every piece.
        #[test]
        fn delays_are_those_of_all_starts(
            lanes in prop::collection::vec(lane(64), 1..4),
            work in 1u32..100,
            draws in 1u64..50,
        ) {
            let work = f64::from(work);
            let node = Node::new(lanes).unwrap();
            for start in [Start::Running, Start::Anytime] {
                let starts: Vec<f64> = (0..64 * 64)
                    .map(|step| (f64::from(step) + 0.5) / 64.0)
                    .filter(|&at| start == Start::Anytime || node.is_running(at))
                    .collect();
                let Some(delays) = node.delays(work, start) else {
                    prop_assert!(starts.is_empty());
                    continue;
                };
                prop_assert!((delays.observed_ns - starts.len() as f64 / 64.0).abs() < 1e-6);
                let mut all: Vec<f64> = starts.iter().map(|&at| node.delay(at, work)).collect();
                all.sort_by(f64::total_cmp);
                let count = all.len() as f64;
                let mut largest = 0.0;
                for (index, delay) in all.iter().enumerate() {
                    let up_to = |count_of: f64| (count_of / count).powf(draws as f64);
                    largest += delay * (up_to(index as f64 + 1.0) - up_to(index as f64));
                }
                let got = delays.spread.expected_largest(draws);
                prop_assert!((got - largest).abs() < 0.02 * (1.0 + largest), "{got} {largest}");
                let hit = all.iter().filter(|delay| **delay > 0.0).count() as f64 / count;
                prop_assert!((delays.spread.hit() - hit).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn cpus_of_a_node_share_their_time() {
        let lane = |at| Lane::new([(at, 10.0)], 100.0).unwrap();
        let together = Node::new(vec![lane(50.0), lane(50.0)]).unwrap();
        let apart = Node::new(vec![lane(50.0), lane(20.0)]).unwrap();
        let mean =
            |node: &Node| node.delays(1.0, Start::Running).unwrap().spread.expected_largest(1);
        assert!((mean(&together) - 10.0 / 90.0).abs() < 1e-12);
        assert!((mean(&apart) - 20.0 / 80.0).abs() < 1e-12);
        assert!(Node::new(Vec::new()).is_none());
        assert!(Node::new(vec![lane(1.0), Lane::new([], 99.0).unwrap()]).is_none());
    }
}

//! The program, played: what the formulas say, by drawing lots.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::node::{Node, Start};

/// A slowdown that was played, with what chance does to it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Played {
    /// Mean delay of a phase over its length.
    pub slowdown: f64,
    /// Standard error of it.
    pub standard_error: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Game {
    /// Undisturbed length of a phase, ns.
    pub work_ns: f64,
    pub nodes: u32,
    pub phases: u32,
    /// Where chance begins: the same seed gives the same result.
    pub seed: u64,
}

/// Runs that [`in_time`] is made of: as many as give a standard error.
const RUNS: u32 = 20;

impl Game {
    fn random(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed)
    }
}

/// Each node draws a start for each phase, as the formulas have it. None where there are fewer than
/// two phases, or no such start.
pub fn drawn(node: &Node, start: Start, game: Game) -> Option<Played> {
    let mut random = game.random();
    let mut draw = || {
        // Where nodes run too seldom to be met, there is no answer in reasonable time.
        (0..100_000)
            .map(|_| random.random::<f64>() * node.length())
            .find(|&at| start == Start::Anytime || node.is_running(at))
    };
    let mut slowdowns = Vec::new();
    for _ in 0..game.phases {
        let mut largest = 0.0f64;
        for _ in 0..game.nodes {
            largest = largest.max(node.delay(draw()?, game.work_ns));
        }
        slowdowns.push(largest / game.work_ns);
    }
    Played::of(&slowdowns)
}

/// Each node enters the measurement at a moment of its own, and from then on time passes: a phase
/// begins on all nodes when the one before has ended on the slowest. The mean of several such runs
/// of [`Game::phases`] phases in all.
pub fn in_time(node: &Node, game: Game) -> Option<Played> {
    let mut random = game.random();
    let phases = game.phases.div_ceil(RUNS).max(2);
    // The first phases begin at any time; the later ones begin when phases do.
    let warming = phases.div_ceil(4);
    let mut slowdowns = Vec::new();
    for _ in 0..RUNS {
        let offsets: Vec<f64> =
            (0..game.nodes).map(|_| random.random::<f64>() * node.length()).collect();
        let (mut now, mut lost) = (0.0f64, 0.0);
        for phase in 0..warming + phases {
            let at = |offset: &f64| (offset + now) % node.length();
            let delays = offsets.iter().map(|offset| node.delay(at(offset), game.work_ns));
            let largest = delays.fold(0.0, f64::max);
            now += game.work_ns + largest;
            lost += if phase < warming { 0.0 } else { largest };
        }
        slowdowns.push(lost / (f64::from(phases) * game.work_ns));
    }
    Played::of(&slowdowns)
}

impl Played {
    fn of(slowdowns: &[f64]) -> Option<Self> {
        if slowdowns.len() < 2 {
            return None;
        }
        let count = slowdowns.len() as f64;
        let slowdown = slowdowns.iter().sum::<f64>() / count;
        let squares: f64 = slowdowns.iter().map(|one| (one - slowdown).powi(2)).sum();
        Some(Self { slowdown, standard_error: (squares / (count - 1.0) / count).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::same_draws;
    use crate::scale::lane::Lane;
    use crate::scale::periodic::Periodic;
    use proptest::prelude::{any, prop, prop_assert, proptest};

    const STARTS: [Start; 2] = [Start::Running, Start::Anytime];
    /// Standard errors that chance may take: once in a million and a half.
    const FAR: f64 = 5.0;

    /// What happens less than once in the phases played is not seen, nor is its error: `largest` is
    /// the slowdown that it could make.
    fn agrees(played: Played, expected: f64, largest: f64, game: Game) -> bool {
        let unseen = largest * FAR / f64::from(game.phases);
        (played.slowdown - expected).abs() <= FAR * played.standard_error + unseen
    }

    #[test]
    fn periodic_noise_is_played_as_its_formula_says() {
        for (period, length) in [(100e6, 2.5e6), (1e6, 25e3), (1e6, 400e3)] {
            let periodic = Periodic::new(period, length).unwrap();
            let node = periodic.node().unwrap();
            for (nodes, work_ns) in [(1, 1e6), (10, 1e6), (100, 100e3), (1_000, 100e3)] {
                let game = Game { work_ns, nodes, phases: 300, seed: 7 };
                for start in STARTS {
                    let played = drawn(&node, start, game).unwrap();
                    let expected = periodic.slowdown(work_ns, nodes.into(), start);
                    let largest = periodic.limit(work_ns);
                    let agrees = agrees(played, expected, largest, game);
                    assert!(agrees, "{game:?} {start:?} {played:?} {expected}");
                }
            }
        }
    }

    /// What stands beside the table: phases that follow one another are as if begun running on
    /// few nodes, and as if begun at any time on many.
    #[test]
    fn in_time_lies_between_both_starts() {
        let periodic = Periodic::new(100e6, 2.5e6).unwrap();
        let node = periodic.node().unwrap();
        let of = |nodes| {
            let game = Game { work_ns: 100e3, nodes, phases: 4_000, seed: 3 };
            let slowdowns =
                STARTS.map(|start| periodic.slowdown(game.work_ns, nodes.into(), start));
            let played = in_time(&node, game).unwrap();
            let agree = slowdowns.map(|slowdown| agrees(played, slowdown, 25.0, game));
            (slowdowns, played.slowdown, agree)
        };
        let (_, played, agree) = of(2);
        assert_eq!(agree, [true, false], "{played}");
        let ([running, anytime], played, _) = of(100);
        assert!(running < played && played < anytime, "{played}");
        let (_, played, agree) = of(1_000);
        assert_eq!(agree, [false, true], "{played}");
    }

    #[test]
    fn a_seed_is_a_result() {
        let node = Periodic::new(1e6, 25e3).unwrap().node().unwrap();
        let play = |seed| {
            let game = Game { work_ns: 1e5, nodes: 3, phases: 100, seed };
            (drawn(&node, Start::Anytime, game), in_time(&node, game))
        };
        assert_eq!(play(1), play(1));
        assert_ne!(play(1), play(2));
    }

    #[test]
    fn what_cannot_be_played_is_not() {
        let node = Periodic::new(1e6, 25e3).unwrap().node().unwrap();
        let game = Game { work_ns: 1e5, nodes: 3, phases: 1, seed: 1 };
        assert_eq!(drawn(&node, Start::Anytime, game), None);
        // Two CPUs that never compute at once.
        let lane = |at: f64| Lane::new([(at, 50.0)], 100.0).unwrap();
        let never = Node::new(vec![lane(0.0), lane(50.0)]).unwrap();
        assert_eq!(drawn(&never, Start::Running, Game { phases: 9, ..game }), None);
        assert!(drawn(&never, Start::Anytime, Game { phases: 9, ..game }).is_some());
    }

    proptest! {
        #![proptest_config(same_draws(40))]
        #[test]
        fn measured_noise_is_played_as_the_distribution_says(
            ticks in prop::collection::vec(any::<[bool; 2]>(), 5..60),
            work in 1u32..400,
            nodes in 1u32..20,
            seed in any::<u64>(),
        ) {
            let lane = |cpu: usize| {
                let hits = ticks.iter().enumerate().filter(|(_, hit)| hit[cpu]);
                let length = ticks.len() as f64 * 10.0;
                Lane::new(hits.map(|(index, _)| (index as f64 * 10.0, 3.0)), length).unwrap()
            };
            let node = Node::new(vec![lane(0), lane(1)]).unwrap();
            let game = Game { work_ns: f64::from(work), nodes, phases: 400, seed };
            for start in STARTS {
                let spread = node.delays(game.work_ns, start).unwrap().spread;
                let expected = spread.expected_largest(nodes.into()) / game.work_ns;
                let played = drawn(&node, start, game).unwrap();
                let largest = spread.largest() / game.work_ns;
                let agrees = agrees(played, expected, largest, game);
                prop_assert!(agrees, "{played:?} {expected}");
            }
        }
    }
}

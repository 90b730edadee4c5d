//! Generated systems: what each thread does is made up, so that its slices, edges and true latencies are known; then its
//! events are followed.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

mod chance;
mod truth;
mod world;

use std::collections::{BTreeSet, HashMap};

use noise_sketches::follow::Follower;
use noise_sketches::input::{Input, Protocol};
use noise_sketches::system::System;

use self::chance::Chance;
use self::world::{Plan, Style, World};

fn follow<'a>(events: impl Iterator<Item = &'a Input<'static>>) -> System {
    let mut follower = Follower::default();
    for event in events {
        follower.follow(event);
    }
    follower.finish()
}

fn all(world: &World) -> System {
    follow(world.events.iter().map(|(.., input)| input))
}

/// Slices of connections from begin to end are not in the truth.
fn is_judged(marker: &str) -> bool {
    !marker.ends_with("accept") && !marker.ends_with("connect")
}

/// Found edges that are true, found, true.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    right: usize,
    found: usize,
    all: usize,
}

impl Score {
    fn precision(self) -> f64 {
        self.right as f64 / self.found.max(1) as f64
    }

    fn recall(self) -> f64 {
        self.right as f64 / self.all.max(1) as f64
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.found += other.found;
        self.all += other.all;
    }
}

type Name = (i32, &'static str, u64);

fn names(system: &System) -> Vec<Name> {
    let name = |slice: &noise_sketches::slices::Slice| {
        let tid = system.thread(slice).unwrap().tid;
        (tid, slice.marker.name(), slice.from_ns)
    };
    system.slices.iter().map(name).collect()
}

fn score(world: &World, system: &System) -> Score {
    let truth = |id: usize| {
        let slice = &world.truth.slices[id];
        (slice.tid, slice.marker, slice.from_ns)
    };
    let expected: BTreeSet<(Name, Name)> =
        world.truth.edges.iter().map(|(from, to)| (truth(*from), truth(*to))).collect();
    let names = names(system);
    let found: BTreeSet<(Name, Name)> = system
        .edges
        .iter()
        .map(|edge| (names[edge.from as usize], names[edge.to as usize]))
        .filter(|(from, to)| is_judged(from.1) && is_judged(to.1))
        .collect();
    let right = found.intersection(&expected).count();
    if std::env::var_os("SKETCH_DIFF").is_some() {
        for edge in found.difference(&expected).take(10) {
            println!("wrong {edge:?}");
        }
        for edge in expected.difference(&found).take(10) {
            println!("missing {edge:?}");
        }
    }
    Score { right, found: found.len(), all: expected.len() }
}

/// Slices of a kind that has its end in the truth, and that are found with the same end and the same true latency.
fn latencies(world: &World, system: &System) -> (usize, usize) {
    let found: HashMap<Name, (u64, u64)> = names(system)
        .into_iter()
        .zip(system.slices.iter().map(|slice| (slice.to_ns, slice.true_latency_ns)))
        .collect();
    let (mut same, mut all) = (0, 0);
    for (id, slice) in world.truth.slices.iter().enumerate() {
        all += 1;
        let expected = (slice.to_ns, world.truth.true_latency(id));
        let own = found.get(&(slice.tid, slice.marker, slice.from_ns));
        same += usize::from(own == Some(&expected));
        if own != Some(&expected) && std::env::var_os("SKETCH_DIFF").is_some() {
            println!("slice {slice:?} {expected:?} found {own:?}");
        }
    }
    (same, all)
}

fn plan(seed: u64) -> Plan {
    let mut chance = Chance::new(seed.wrapping_mul(77));
    let style = |chance: &mut Chance| match chance.below(3) {
        0 => Style::Blocking,
        1 => Style::Loop,
        _ => Style::Pool,
    };
    let protocol = |chance: &mut Chance| match chance.below(3) {
        0 => Protocol::UnixStream,
        _ => Protocol::Tcp,
    };
    let count = 1 + chance.below(4);
    let tiers = (0..count).map(|_| (style(&mut chance), protocol(&mut chance))).collect();
    let clients = 1 + chance.below(12) as usize;
    Plan { seed, tiers, clients, requests: 30, skew_ns: None, plain: false }
}

#[test]
fn edges_and_true_latencies_are_those_of_the_system() {
    let mut sum = Score::default();
    let (mut same, mut all_slices) = (0, 0);
    for seed in 0..60 {
        let world = World::play(plan(seed));
        let system = all(&world);
        let score = score(&world, &system);
        let (right, count) = latencies(&world, &system);
        println!(
            "seed {seed}: {:?} clients {}: precision {:.4} recall {:.4}; {right} of {count} slices {:?}",
            plan(seed).tiers,
            plan(seed).clients,
            score.precision(),
            score.recall(),
            system.counts
        );
        sum.add(score);
        same += right;
        all_slices += count;
    }
    println!(
        "{sum:?} precision {:.5} recall {:.5}; {same} of {all_slices}",
        sum.precision(),
        sum.recall()
    );
    assert!(sum.precision() >= 0.99 && sum.recall() >= 0.99, "{sum:?}");
    assert!(same as f64 >= 0.99 * all_slices as f64, "{same} of {all_slices}");
}

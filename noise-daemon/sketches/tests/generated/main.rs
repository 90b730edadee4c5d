//! Generated systems: what each thread does is made up, so that its slices, edges and true latencies are known; then its
//! events are followed.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

mod chance;
mod lost;
mod truth;
mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use noise_sketches::follow::Follower;
use noise_sketches::input::{Input, Protocol, What};
use noise_sketches::marker::Marker;
use noise_sketches::system::System;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

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

/// What came of many systems.
fn of_many(seeds: std::ops::Range<u64>, change: impl Fn(&mut Plan), lose: Option<u64>) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let mut plan = plan(seed);
        change(&mut plan);
        let world = World::play(plan);
        let system = match lose {
            None => all(&world),
            Some(permille) => follow(lossy(&world, permille, seed).iter()),
        };
        sum.edges.add(score(&world, &system));
        let (same, all) = latencies(&world, &system);
        sum.same += same;
        sum.all += all;
    }
    println!(
        "{} edges, precision {:.5}, recall {:.5}; {} of {} slices with their true latencies",
        sum.edges.all,
        sum.edges.precision(),
        sum.edges.recall(),
        sum.same,
        sum.all
    );
    sum
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    edges: Score,
    same: usize,
    all: usize,
}

/// The events without some.
fn lossy(world: &World, permille: u64, seed: u64) -> Vec<Input<'static>> {
    lost::lossy(world.events.iter().map(|(.., input)| input), permille, seed)
}

/// Each thread goes to one of two CPUs of its own whenever it gets one, and for a time some CPUs are not seen.
fn unequal(world: &World, seed: u64) -> Vec<Input<'static>> {
    let mut chance = Chance::new(seed ^ 0x0eac);
    // Who is who is in the state dump.
    let is_dumped = |input: &Input<'_>| matches!(input.what, What::Known(_));
    let times = || world.events.iter().filter(|(.., input)| !is_dumped(input)).map(|(at, ..)| *at);
    let first_ns = times().min().unwrap_or(0);
    let quarter_ns = (times().max().unwrap_or(0) - first_ns) / 4;
    let mut on: HashMap<u32, u32> = HashMap::new();
    let mut gaps: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let (mut lost, mut decided) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = Vec::new();
    let mut last_ns = 0;
    for (.., cpu, _) in &world.events {
        for cpu in [2 * cpu, 2 * cpu + 1] {
            if decided.insert(cpu) && chance.below(4) == 0 {
                // Connections were made before that.
                let from_ns = first_ns + quarter_ns + chance.below(quarter_ns);
                gaps.insert(cpu, (from_ns, from_ns + chance.below(2 * quarter_ns)));
            }
        }
    }
    for (at, _, _, cpu, input) in &world.events {
        for (cpu, (from_ns, _)) in &gaps {
            if from_ns <= at && lost.insert(*cpu) {
                seen.push(Input {
                    time_ns: *at,
                    cpu: *cpu,
                    what: What::Lost { until_ns: *at },
                    ..*input
                });
            }
        }
        if matches!(input.what, What::Switch { next, .. } if next != 0) {
            on.insert(*cpu, 2 * cpu + chance.below(2) as u32);
        }
        let cpu = on.get(cpu).copied().unwrap_or(2 * cpu);
        if gaps.get(&cpu).is_some_and(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(at)) {
            continue;
        }
        if gaps.values().any(|(from_ns, to_ns)| from_ns <= at && last_ns < *to_ns) {
            seen.push(Input { cpu, what: What::Unseen, ..*input });
        }
        seen.push(Input { cpu, ..*input });
        last_ns = *at;
    }
    seen
}

#[test]
fn what_may_have_run_on_a_cpu_that_is_not_seen_makes_no_edges() {
    let mut sum = Score::default();
    for seed in 0..40 {
        let world = World::play(plan(seed));
        sum.add(score(&world, &follow(unequal(&world, seed).iter())));
    }
    println!("precision {:.5}, recall {:.5}", sum.precision(), sum.recall());
    assert!(sum.precision() >= 0.99 && sum.recall() >= 0.1, "{sum:?}");
}

#[test]
fn edges_and_true_latencies_are_those_of_the_system() {
    let sum = of_many(0..40, |_| (), None);
    assert!(sum.edges.precision() >= 0.999 && sum.edges.recall() >= 0.999, "{sum:?}");
    // What goes on when the last event comes has no end.
    assert!(sum.same as f64 >= 0.999 * sum.all as f64, "{sum:?}");
}

#[test]
fn another_machine_with_a_clock_that_is_wrong_by_a_little_is_followed() {
    for skew_ns in [0, 30_000, -30_000] {
        let two = |plan: &mut Plan| {
            plan.skew_ns = Some(skew_ns);
            plan.tiers.truncate(2);
            for (_, protocol) in &mut plan.tiers {
                *protocol = Protocol::Tcp;
            }
        };
        let sum = of_many(100..112, two, None);
        assert!(sum.edges.precision() >= 0.99 && sum.edges.recall() >= 0.99, "{sum:?}");
    }
}

#[test]
fn with_lost_events_less_is_found_and_little_of_it_is_wrong() {
    let mut recalls = Vec::new();
    // Per mille of events.
    for lost in [1, 10, 50, 100] {
        print!("{} % of events lost: ", lost as f64 / 10.0);
        let sum = of_many(0..15, |_| (), Some(lost));
        assert!(sum.edges.precision() >= 0.9, "{lost}: {sum:?}");
        recalls.push(sum.edges.recall());
    }
    assert!(recalls.is_sorted_by(|one, other| one >= other), "{recalls:?}");
}

/// Stretches without a CPU within a slice, from the events alone.
fn idle(world: &World, tid: i32, from_ns: u64, to_ns: u64) -> (u32, u64) {
    let (mut off, mut count, mut sum) = (None, 0, 0);
    for (at, _, of, _, input) in world.events.iter().filter(|(_, _, of, ..)| *of == tid) {
        let What::Switch { prev, next, .. } = input.what else { continue };
        if prev == *of {
            off = Some(*at);
        }
        if next == *of
            && let Some(since) = off.take()
            && since >= from_ns
            && *at <= to_ns
        {
            count += 1;
            sum += at - since;
        }
    }
    (count, sum)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn slices_lie_in_their_threads_and_sketches_apart(seed in any::<u64>(), lost in 0..100u64) {
        let mut plan = plan(seed);
        plan.requests = 6;
        let world = World::play(plan);
        let system = follow(lossy(&world, lost, seed).iter());
        let mut lives: HashMap<i32, (u64, u64)> = HashMap::new();
        for (at, _, tid, ..) in &world.events {
            let (from, to) = lives.entry(*tid).or_insert((*at, *at));
            (*from, *to) = ((*from).min(*at), (*to).max(*at));
        }
        for slice in &system.slices {
            prop_assert!(slice.true_latency_ns <= slice.latency_ns());
            prop_assert!(slice.idle_ns <= slice.latency_ns());
            let tid = system.thread(slice).unwrap().tid;
            // A process begins with its maker's event.
            let (from, to) = lives[&tid];
            let from = if slice.marker == Marker::Process { slice.from_ns.min(from) } else { from };
            prop_assert!(from <= slice.from_ns && slice.from_ns <= slice.to_ns && slice.to_ns <= to);
        }
        let sketch = |id: u32| system.sketches[id as usize];
        prop_assert_eq!(system.sketches.len(), system.slices.len());
        for id in 0..system.slices.len() as u32 {
            prop_assert!(sketch(id) <= id && sketch(sketch(id)) == sketch(id));
        }
        for edge in &system.edges {
            prop_assert!(edge.from != edge.to);
            prop_assert!(!edge.joins || sketch(edge.from) == sketch(edge.to));
        }
    }

    #[test]
    fn idle_times_are_those_of_the_switches(seed in any::<u64>()) {
        let mut plan = plan(seed);
        plan.requests = 4;
        plan.clients = plan.clients.min(4);
        let world = World::play(plan);
        let system = all(&world);
        for slice in &system.slices {
            let tid = system.thread(slice).unwrap().tid;
            let own = (slice.idle_count, slice.idle_ns);
            prop_assert_eq!(own, idle(&world, tid, slice.from_ns, slice.to_ns));
        }
    }
}

//! Generated schedules: what each thread does is made up first, so that the true path is known; then the events
//! are played.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test, which fails by panicking"
)]

mod acts;
mod play;

use std::collections::BTreeMap;

use noise_paths::blame::Blame;
use noise_paths::build::Builder;
use noise_paths::document::{PathsDocument, traced};
use noise_paths::execution::{Execution, Wanted, find};
use noise_paths::graph::{Graph, Who, WorkerId};
use noise_paths::path::Path;
use noise_paths::state::State;
use noise_paths::walk::{Bounds, walk};
use noise_trace::analysis::Analysis as _;
use noise_trace::delays::{Begin, Delays};
use noise_trace::event::{Event, LostEvents, TraceKind};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, prop_assume, proptest};

use self::acts::Schedule;
use self::play::{FIRST, HOG, OTHER, Part, Played, play};

/// The graph of events that were played, without those whose numbers are in `lost`.
fn graph(played: &Played, is_lost: impl Fn(usize) -> bool) -> Graph {
    let mut builder = Builder::default();
    for (number, (time_ns, cpu, what)) in played.events.iter().enumerate() {
        let event = |kind| Event { time_ns: *time_ns, cpu: *cpu, kind };
        match what {
            _ if is_lost(number) => builder.follow(&event(TraceKind::Lost(LostEvents::default()))),
            play::What::Event(kind) => builder.follow(&event(*kind)),
            play::What::Sent(key) => builder.sent(0, *cpu, *time_ns, *key),
            play::What::Received(key) => builder.received(0, *cpu, *time_ns, *key),
            play::What::Interrupts(target) => builder.interrupts(0, *cpu, *time_ns, *target),
        }
    }
    builder.finish()
}

fn thread(graph: &Graph, tid: i32) -> Option<WorkerId> {
    let who = Who::Thread { machine: 0, tid };
    graph.workers().find(|(_, worker)| worker.who == who).map(|(id, _)| id)
}

/// A path as the schedule has it: who did what, neighbours that are the same as one.
fn parts(graph: &Graph, path: &Path) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for step in path.steps.iter().filter(|step| step.ns() > 0) {
        let Who::Thread { tid, .. } = graph.get(step.last()).unwrap().who else {
            panic!("{step:?} is of no thread");
        };
        let (from_ns, to_ns) = step.span();
        play::push(&mut parts, Part { tid, from_ns, to_ns, state: step.state() });
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_true_path_is_found(schedule in acts::schedules()) {
        let played = play(&schedule);
        let graph = graph(&played, |_| false);
        let id = thread(&graph, FIRST).unwrap();
        let (from_ns, to_ns) = graph.get(id).unwrap().life().unwrap();
        let path = walk(&graph, id, from_ns, to_ns, Bounds::default()).unwrap();
        prop_assert_eq!(path.fault(id, from_ns, to_ns), None);
        prop_assert_eq!(path.totals().values().sum::<u64>(), to_ns - from_ns);
        prop_assert_eq!(parts(&graph, &path), played.truth);
    }

    #[test]
    fn a_path_of_a_part_of_the_time_is_that_part_of_the_path(
        schedule in acts::schedules(),
        cut in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let played = play(&schedule);
        let graph = graph(&played, |_| false);
        let id = thread(&graph, FIRST).unwrap();
        let (first_ns, last_ns) = graph.get(id).unwrap().life().unwrap();
        let at = |share: f64| first_ns + ((last_ns - first_ns) as f64 * share) as u64;
        let (from_ns, to_ns) = (at(cut.0.min(cut.1)), at(cut.0.max(cut.1)));
        prop_assume!(from_ns < to_ns);
        let path = walk(&graph, id, from_ns, to_ns, Bounds::default()).unwrap();
        prop_assert_eq!(path.fault(id, from_ns, to_ns), None);
        let clipped = |parts: &[Part]| {
            let mut clipped = Vec::new();
            for part in parts {
                let (from_ns, to_ns) = (part.from_ns.max(from_ns), part.to_ns.min(to_ns));
                if from_ns < to_ns {
                    play::push(&mut clipped, Part { from_ns, to_ns, ..*part });
                }
            }
            clipped
        };
        prop_assert_eq!(parts(&graph, &path), clipped(&played.truth));
    }

    #[test]
    fn waits_are_divided_among_those_who_made_them_long(
        schedule in acts::schedules(),
        light in any::<bool>(),
    ) {
        let played = play(&schedule);
        let graph = graph(&played, |_| false);
        let wanted = Wanted::Thread(FIRST);
        let execution = find(&graph, &wanted)[0];
        let Execution { worker, from_ns, to_ns, .. } = execution;
        let path = walk(&graph, worker, from_ns, to_ns, Bounds::default()).unwrap();
        let executions = vec![traced(&graph, "first", &execution, &path)];
        let mut document = PathsDocument { executions, ..PathsDocument::default() };
        let delays = if light { Delays::of_turns() } else { Delays::new(Begin::Waking) };
        let mut blame = Blame::new(&document, delays);
        for (time_ns, cpu, what) in &played.events {
            if let play::What::Event(kind) = what {
                blame.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind }, &mut document);
            }
        }
        blame.finish(&mut document);
        let mut hogs_ns = 0;
        for segment in &document.executions[0].path {
            let culprits: u64 = segment.culprits.iter().map(|culprit| culprit.ns).sum();
            let is_divided = ["waiting_cpu", "disk", "network"].contains(&segment.state);
            let expected = if is_divided { segment.to_ns - segment.from_ns } else { 0 };
            prop_assert_eq!(culprits, expected, "{:?}", segment);
            let hogs = segment.culprits.iter().filter(|culprit| (HOG..OTHER).contains(&culprit.tid));
            hogs_ns += hogs.map(|culprit| culprit.ns).sum::<u64>();
        }
        prop_assert_eq!(hogs_ns, played.preempted_ns);
    }

    #[test]
    fn whatever_is_lost_a_path_is_whole(
        schedule in acts::schedules(),
        share in 0.0..0.6f64,
        seed in any::<u64>(),
        depth in 0..4u32,
        points in 0..40u64,
    ) {
        let played = play(&schedule);
        let is_lost = |number: usize| {
            let mixed = (number as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
            (mixed as f64 / (1u64 << 53) as f64) < share
        };
        let graph = graph(&played, is_lost);
        for bounds in [Bounds::default(), Bounds { depth, points }] {
            let mut document = PathsDocument::default();
            for (id, worker) in graph.workers() {
                let Some((from_ns, to_ns)) = worker.life().filter(|(from_ns, to_ns)| from_ns < to_ns) else {
                    continue;
                };
                let path = walk(&graph, id, from_ns, to_ns, bounds).unwrap();
                prop_assert_eq!(path.fault(id, from_ns, to_ns), None);
                prop_assert_eq!(path.totals().values().sum::<u64>(), to_ns - from_ns);
                if bounds == Bounds::default() {
                    prop_assert_eq!(path.cut, 0);
                }
                let execution = Execution { worker: id, from_ns, to_ns, has_begin: true, has_end: true };
                document.executions.push(traced(&graph, "whole", &execution, &path));
            }
            let mut blame = Blame::new(&document, Delays::of_turns());
            for (number, (time_ns, cpu, what)) in played.events.iter().enumerate() {
                let kind = match what {
                    _ if is_lost(number) => TraceKind::Lost(LostEvents::default()),
                    play::What::Event(kind) => *kind,
                    _ => continue,
                };
                blame.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind }, &mut document);
            }
            blame.finish(&mut document);
            for segment in document.executions.iter().flat_map(|traced| &traced.path) {
                let culprits: u64 = segment.culprits.iter().map(|culprit| culprit.ns).sum();
                let is_divided = ["waiting_cpu", "disk", "network"].contains(&segment.state);
                let expected = if is_divided || culprits > 0 { segment.to_ns - segment.from_ns } else { 0 };
                prop_assert_eq!(culprits, expected, "{:?}", segment);
            }
        }
    }

    #[test]
    fn forgetting_what_lies_before_a_span_does_not_change_its_path(
        schedule in acts::schedules(),
        share in 0.0..1.0f64,
    ) {
        let played = play(&schedule);
        let mut whole = graph(&played, |_| false);
        let id = thread(&whole, FIRST).unwrap();
        let (first_ns, last_ns) = whole.get(id).unwrap().life().unwrap();
        let from_ns = first_ns + ((last_ns - first_ns) as f64 * share) as u64;
        prop_assume!(from_ns < last_ns);
        let ids: Vec<WorkerId> = whole.workers().map(|(id, _)| id).collect();
        ids.iter().for_each(|id| whole.get_mut(*id).unwrap().was_there = true);
        let mut rest = whole.clone();
        rest.forget_before(from_ns);
        prop_assert!(rest.points() <= whole.points());
        let lives = |graph: &Graph| -> Vec<_> {
            let lives = graph.workers().filter_map(|(id, worker)| Some((id, worker.life()?)));
            let inside = lives.map(|(id, (first_ns, last_ns))| (id, first_ns.max(from_ns), last_ns));
            inside.filter(|(_, from_ns, last_ns)| from_ns < last_ns).collect()
        };
        prop_assert_eq!(lives(&rest), lives(&whole));
        let path = |graph: &Graph| walk(graph, id, from_ns, last_ns, Bounds::default());
        prop_assert_eq!(path(&rest), path(&whole));
    }
}

#[test]
fn schedules_have_all_that_a_path_can_consist_of() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<State, u64> = BTreeMap::new();
    for _ in 0..100 {
        let schedule: Schedule = acts::schedules().new_tree(&mut runner).unwrap().current();
        for part in play(&schedule).truth {
            *seen.entry(part.state).or_default() += 1;
        }
    }
    for state in [
        State::Running,
        State::WaitingCpu,
        State::Disk,
        State::Network,
        State::Timer,
        State::Interrupt,
        State::Ipi,
        State::Blocked,
        State::Created,
    ] {
        assert!(seen.contains_key(&state), "{state:?} in {seen:?}");
    }
}

//! Fronts of many clients, in which the handling of requests interleaves: each knows which request each of its calls to a
//! backend is for, and what is found is compared with that.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

#[path = "../generated/chance.rs"]
mod chance;
mod front;
#[path = "../generated/lost.rs"]
mod lost;
mod seen;
mod workers;

use std::collections::HashMap;

use noise_sketches::follow::Follower;
use noise_sketches::input::Input;
use noise_sketches::marker::Marker;
use noise_sketches::slices::{Key, SliceId};
use noise_sketches::system::System;

use self::front::{Dispatch, Front};
use self::seen::Seen;
use self::workers::Workers;

const CLIENTS: [usize; 3] = [1, 16, 64];

/// Calls whose request is found, is another one, is not found.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    right: usize,
    wrong: usize,
    none: usize,
}

impl Score {
    fn all(self) -> f64 {
        (self.right + self.wrong + self.none).max(1) as f64
    }

    fn right(self) -> f64 {
        self.right as f64 / self.all()
    }

    fn wrong(self) -> f64 {
        self.wrong as f64 / self.all()
    }

    fn precision(self) -> f64 {
        self.right as f64 / (self.right + self.wrong).max(1) as f64
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.none += other.none;
    }
}

fn follow<'a>(events: impl Iterator<Item = &'a Input<'static>>) -> System {
    let mut follower = Follower::default();
    events.for_each(|event| follower.follow(event));
    follower.finish()
}

/// The request that a slice is of: the first one before it that was received.
fn request_of(system: &System, id: SliceId) -> Option<(u64, u64)> {
    let mut slice = system.slice(id)?;
    for _ in 0..100 {
        if let (Marker::Receive(_), Key::End(end)) = (slice.marker, system.key(slice)) {
            return Some((end.id, slice.from_ns));
        }
        slice = system.slice(slice.cause)?;
    }
    None
}

fn score(seen: &Seen, system: &System) -> Score {
    let mut found: HashMap<(u64, u64), Option<(u64, u64)>> = HashMap::new();
    for (id, slice) in (0..).zip(&system.slices) {
        if let (Marker::Send(_), Key::End(end)) = (slice.marker, system.key(slice)) {
            found.insert((end.id, slice.from_ns), request_of(system, id));
        }
    }
    let mut score = Score::default();
    for (line, at, request) in &seen.calls {
        let truth = request.map(|request| seen.requests[request]);
        match (found.get(&(*line, *at)).copied().flatten(), truth) {
            (found, truth) if found == truth && truth.is_some() => score.right += 1,
            (None, Some(_)) => score.none += 1,
            // A call of no request is right where none is named.
            (None, None) => {}
            (found, truth) => {
                score.wrong += 1;
                if std::env::var_os("LOOPS_DIFF").is_some() {
                    println!("call on {line} at {at}: found {found:?}, is {truth:?}");
                }
            }
        }
    }
    score
}

/// What is said of each name and number of clients.
fn tell(name: &str, clients: usize, score: Score) {
    println!(
        "{name:<28} {clients:>3} clients: right {:>5.1} %, wrong {:>5.1} %, none {:>5.1} % of {}",
        100.0 * score.right(),
        100.0 * score.wrong(),
        100.0 * score.none as f64 / score.all(),
        score.all()
    );
}

fn front(dispatch: Dispatch, clients: usize) -> front::Plan {
    let requests = (640 / clients).max(20);
    front::Plan { clients, requests, dispatch, ..front::Plan::default() }
}

type Change = fn(&mut front::Plan);

const DISPATCHES: [(&str, Dispatch); 5] = [
    ("at once", Dispatch::AtOnce),
    ("batch", Dispatch::Batch),
    ("next turn", Dispatch::Later(1)),
    ("turn after that", Dispatch::Later(2)),
    ("third turn", Dispatch::Later(3)),
];

/// Fronts where what the kernel sees decides whose each call is.
const DECIDED: [(&str, Change); 6] = [
    ("one call", |_| ()),
    ("pool of 8", |plan| plan.pool = 8),
    ("1-3 calls", |plan| plan.calls = (1, 3)),
    ("0-2 calls, parts", |plan| (plan.calls, plan.parts) = ((0, 2), 8)),
    ("pool handed on first", |plan| (plan.pool, plan.hands_on_first) = (8, true)),
    ("heads, 1-3 calls", |plan| (plan.heads, plan.calls) = (true, (1, 3))),
];

/// Fronts where it is not decided of all: who waits for a connection before each of several calls, who is woken by a timer,
/// who shares a connection.
const OTHERS: [(&str, Change); 8] = [
    ("pool of 8, 1-3 calls", |plan| (plan.pool, plan.calls) = (8, (1, 3))),
    ("pool, 0-2 calls, parts", |plan| (plan.pool, plan.calls, plan.parts) = (8, (0, 2), 8)),
    ("pipelined", |plan| (plan.pool, plan.depth) = (8, 4)),
    ("two at once", |plan| plan.fans = true),
    ("two at once, pool", |plan| (plan.fans, plan.pool) = (true, 8)),
    ("naps, 1-3 calls", |plan| (plan.naps, plan.calls) = (4, (1, 3))),
    ("naps, 0-2 calls, pool", |plan| (plan.naps, plan.calls, plan.pool) = (4, (0, 2), 8)),
    ("background, pool", |plan| (plan.pool, plan.background) = (8, true)),
];

/// Fronts that do more than to answer each request by calls that are answered.
const UNRULY: [(&str, Change); 15] = [
    ("ahead", |plan| plan.ahead = 4),
    ("ahead, pool", |plan| (plan.pool, plan.ahead) = (8, 4)),
    ("ahead by 2, pool", |plan| (plan.pool, plan.ahead) = (8, 2)),
    ("ahead, pool, in turn", |plan| (plan.pool, plan.ahead, plan.serial) = (8, 4, true)),
    ("ahead, 0-2 calls", |plan| (plan.ahead, plan.calls) = (3, (0, 2))),
    ("unanswered", |plan| plan.unanswered = 10),
    ("unanswered, pool, 1-3 calls", |plan| {
        (plan.pool, plan.unanswered, plan.calls) = (8, 10, (1, 3));
    }),
    ("forgets", |plan| plan.forgets = 5),
    ("forgets, pool, 0-2 calls", |plan| (plan.pool, plan.forgets, plan.calls) = (8, 5, (0, 2))),
    ("chores", |plan| plan.chores = 3),
    ("chores, pool", |plan| (plan.pool, plan.chores) = (8, 3)),
    ("pushes", |plan| plan.pushes = 4),
    ("pushes of the backend, pool", |plan| (plan.pool, plan.backend_pushes) = (8, 4)),
    ("late naps", |plan| plan.late = 2),
    ("late naps, pool, 0-2 calls", |plan| (plan.pool, plan.late, plan.calls) = (8, 3, (0, 2))),
];

type WorkersChange = fn(&mut workers::Plan);

/// As fronts, of threads behind a queue.
const UNRULY_WORKERS: [(&str, WorkersChange); 11] = [
    ("ahead", |plan| plan.ahead = 3),
    ("pushes", |plan| plan.pushes = 3),
    ("pushes, always", |plan| plan.pushes = 1),
    ("pushes of the reader", |plan| plan.reader_pushes = 3),
    ("unanswered", |plan| plan.unanswered = 5),
    ("chores", |plan| plan.chores = 2),
    ("late locks", |plan| plan.late_locks = 2),
    ("late naps", |plan| plan.late = 2),
    ("late naps and locks", |plan| (plan.late, plan.late_locks, plan.locks) = (3, 3, 3)),
    ("pushes, late locks", |plan| (plan.pushes, plan.late_locks) = (3, 3)),
    ("chores, unanswered", |plan| (plan.chores, plan.unanswered) = (3, 5)),
];

const SEEDS: u64 = 2;

/// What is found of some fronts, without some of their events where they are lost.
fn of_fronts(change: Change, plan: front::Plan, lose: Option<u64>) -> Score {
    let mut all = Score::default();
    for seed in 0..SEEDS {
        let mut plan = front::Plan { seed, ..plan };
        change(&mut plan);
        let seen = Front::play(plan);
        all.add(score(&seen, &of_events(&seen, lose, seed)));
    }
    all
}

fn of_events(seen: &Seen, lose: Option<u64>, seed: u64) -> System {
    let events = seen.events.iter().map(|(_, input)| input);
    match lose {
        None => follow(events),
        Some(permille) => follow(lost::lossy(events, permille, seed).iter()),
    }
}

#[test]
fn calls_of_loops_are_of_their_requests_where_that_is_decided() {
    for (kind, dispatch) in DISPATCHES {
        for (name, change) in DECIDED {
            for clients in CLIENTS {
                let score = of_fronts(change, front(dispatch, clients), None);
                tell(&format!("{kind}, {name}"), clients, score);
                assert!(score.right() >= 0.95 && score.wrong() <= 0.01, "{score:?}");
            }
        }
    }
}

#[test]
fn where_nothing_decides_a_call_is_of_none() {
    for (kind, dispatch) in DISPATCHES {
        for (name, change) in OTHERS {
            for clients in CLIENTS {
                let score = of_fronts(change, front(dispatch, clients), None);
                tell(&format!("{kind}, {name}"), clients, score);
                assert!(score.wrong() <= 0.01, "{score:?}");
            }
        }
    }
}

#[test]
fn with_lost_events_few_calls_are_of_another_request() {
    for (kind, dispatch) in DISPATCHES {
        let mut all = Score::default();
        for (name, change) in DECIDED {
            let score = of_fronts(change, front(dispatch, 16), Some(10));
            tell(&format!("1 % lost: {kind}, {name}"), 16, score);
            all.add(score);
        }
        assert!(all.precision() >= 0.99, "{all:?}");
    }
}

/// What is found of some threads behind a queue, as of fronts.
fn of_workers(
    change: impl Fn(&mut workers::Plan),
    clients: usize,
    batch: bool,
    lose: Option<u64>,
) -> Score {
    let mut all = Score::default();
    for seed in 0..SEEDS {
        let requests = (640 / clients).max(10);
        let mut plan = workers::Plan { seed, clients, requests, batch, ..workers::Plan::default() };
        change(&mut plan);
        let seen = Workers::play(plan);
        all.add(score(&seen, &of_events(&seen, lose, seed)));
    }
    all
}

#[test]
fn calls_of_threads_behind_a_queue_are_of_the_requests_that_they_answer() {
    for batch in [false, true] {
        for locks in [0, 3] {
            for clients in CLIENTS {
                let score = of_workers(|plan| plan.locks = locks, clients, batch, None);
                tell(&format!("workers, batch {batch}, locks {locks}"), clients, score);
                assert!(score.right() >= 0.95 && score.wrong() <= 0.01, "{score:?}");
            }
            let lossy = of_workers(|plan| plan.locks = locks, 16, batch, Some(10));
            tell(&format!("1 % lost: workers, batch {batch}, locks {locks}"), 16, lossy);
            // Eight threads on as many CPUs: little is known between two losses.
            assert!(lossy.wrong() <= 0.005, "{lossy:?}");
        }
    }
}

#[test]
fn calls_of_what_does_more_than_answer_are_of_no_wrong_request() {
    let mut wrong = Vec::new();
    let mut judge = |name: String, clients: usize, score: Score, is_decided: bool| {
        tell(&name, clients, score);
        if score.wrong() > 0.01 || (is_decided && score.right() < 0.95) {
            wrong.push((name, clients, score));
        }
    };
    for (kind, dispatch) in DISPATCHES {
        for (name, change) in UNRULY {
            let is_decided = matches!(dispatch, Dispatch::AtOnce | Dispatch::Batch)
                && ["chores", "chores, pool", "pushes of the backend, pool"].contains(&name);
            for clients in CLIENTS {
                let score = of_fronts(change, front(dispatch, clients), None);
                judge(format!("{kind}, {name}"), clients, score, is_decided);
            }
        }
    }
    for (name, change) in UNRULY_WORKERS {
        for batch in [false, true] {
            for clients in CLIENTS {
                let score = of_workers(change, clients, batch, None);
                let is_decided = name == "late naps";
                judge(format!("workers, batch {batch}, {name}"), clients, score, is_decided);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn with_lost_events_what_does_more_than_answer_has_few_wrong_calls() {
    let mut wrong = Vec::new();
    for (kind, dispatch) in DISPATCHES {
        let mut all = Score::default();
        for (name, change) in UNRULY {
            let score = of_fronts(change, front(dispatch, 16), Some(10));
            tell(&format!("1 % lost: {kind}, {name}"), 16, score);
            all.add(score);
        }
        wrong.extend(Some((kind, all)).filter(|_| all.precision() < 0.99));
    }
    let mut all = Score::default();
    for (name, change) in UNRULY_WORKERS {
        let score = of_workers(change, 16, false, Some(10));
        tell(&format!("1 % lost: workers, {name}"), 16, score);
        all.add(score);
    }
    wrong.extend(Some(("workers", all)).filter(|_| all.precision() < 0.99));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

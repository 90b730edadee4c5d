//! Fronts of many clients, in which the handling of requests interleaves: each knows which request each of its calls to a
//! backend is for, and what is found is compared with that.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

#[path = "../generated/chance.rs"]
mod chance;
mod front;
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
    front::Plan {
        seed: 1,
        clients,
        requests: (640 / clients).max(10),
        dispatch,
        pool: 128,
        depth: 1,
        fans: false,
        naps: 0,
        heads: false,
        calls: (1, 1),
        parts: 0,
        hands_on_first: false,
        background: false,
    }
}

fn of_fronts(
    name: &str,
    clients: usize,
    change: impl Fn(&mut front::Plan),
    plan: front::Plan,
) -> Score {
    let mut all = Score::default();
    for seed in 0..4 {
        let mut plan = front::Plan { seed, ..plan };
        change(&mut plan);
        let seen = Front::play(plan);
        all.add(score(&seen, &follow(seen.events.iter().map(|(_, input)| input))));
    }
    tell(name, clients, all);
    all
}

#[test]
fn measure() {
    type Change = fn(&mut front::Plan);
    let changes: [(&str, Change); 14] = [
        ("one call", |_| ()),
        ("pool of 8", |plan| plan.pool = 8),
        ("pool of 8, 1-3 calls", |plan| (plan.pool, plan.calls) = (8, (1, 3))),
        ("1-3 calls", |plan| plan.calls = (1, 3)),
        ("0-2 calls, parts", |plan| (plan.calls, plan.parts) = ((0, 2), 8)),
        ("pool, 0-2, parts", |plan| (plan.pool, plan.calls, plan.parts) = (8, (0, 2), 8)),
        ("pool handed on first", |plan| (plan.pool, plan.hands_on_first) = (8, true)),
        ("pipelined", |plan| (plan.pool, plan.depth) = (8, 4)),
        ("two at once", |plan| plan.fans = true),
        ("two at once, pool", |plan| (plan.fans, plan.pool) = (true, 8)),
        ("naps, 1-3", |plan| (plan.naps, plan.calls) = (4, (1, 3))),
        ("naps, 0-2, pool", |plan| (plan.naps, plan.calls, plan.pool) = (4, (0, 2), 8)),
        ("heads, 1-3", |plan| (plan.heads, plan.calls) = (true, (1, 3))),
        ("background, pool", |plan| (plan.pool, plan.background) = (8, true)),
    ];
    for (kind, dispatch) in [
        ("at once", Dispatch::AtOnce),
        ("batch", Dispatch::Batch),
        ("later", Dispatch::Later(1)),
        ("later 2", Dispatch::Later(2)),
        ("later 3", Dispatch::Later(3)),
    ] {
        for (name, change) in changes {
            for clients in CLIENTS {
                of_fronts(&format!("{kind}, {name}"), clients, change, front(dispatch, clients));
            }
        }
    }
    for batch in [false, true] {
        for locks in [0, 3] {
            for clients in CLIENTS {
                let mut all = Score::default();
                for seed in 0..4 {
                    let requests = (640 / clients).max(10);
                    let seen = Workers::play(workers::Plan {
                        seed,
                        clients,
                        requests,
                        workers: 8,
                        locks,
                        batch,
                    });
                    all.add(score(&seen, &follow(seen.events.iter().map(|(_, input)| input))));
                }
                tell(&format!("workers, batch {batch}, locks {locks}"), clients, all);
            }
        }
    }
}

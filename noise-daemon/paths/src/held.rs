//! Sleeps of threads that threads of the same program ended: who was on the critical path meanwhile, and what they did.
//!
//! That one thread sleeps until another one wakes it is so of a lock, of a full queue, and of a worker that has nothing to
//! do. Here it is said what was on the path alone; whether the sleeper had something to do, no event of the scheduler
//! says.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::graph::{Graph, Who, WorkerId};
use crate::path::Step;
use crate::state::State;
use crate::walk::{Bounds, walk};

/// Points that all walks look at, those of the longest sleeps first; and those that one counts for at least.
const MOST_POINTS: u64 = 1 << 22;
const LEAST_POINTS: u64 = 64;
/// How far one of them goes.
const BOUNDS: Bounds = Bounds { depth: 64, points: 1 << 14 };

/// A sleep that another thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    pub worker: WorkerId,
    pub tid: i32,
    /// From then on, nanoseconds.
    pub from_ns: u64,
    pub to_ns: u64,
    /// The id of the thread that woke it.
    pub waker: i32,
}

impl Sleep {
    const fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// What the sleeps of one thread that threads of its own program ended were spent on, by the critical path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub ns: u64,
    /// Of that, the time of those whose path was walked: the longest ones.
    pub walked_ns: u64,
    /// Of that, by the thread of its own program that was on the path, and by what that one did: `running`,
    /// `waiting_cpu`, `disk` or `timer`. The rest was spent on what others did, or is not known.
    pub by: BTreeMap<(i32, &'static str), u64>,
}

/// What these sleeps were spent on, by the id of the sleeper. `is_own` says which threads are the program's.
pub fn held(
    graph: &Graph,
    sleeps: impl IntoIterator<Item = Sleep>,
    is_own: impl Fn(i32) -> bool,
) -> BTreeMap<i32, Held> {
    let mut sleeps: Vec<Sleep> = sleeps
        .into_iter()
        .filter(|sleep| is_own(sleep.waker) && sleep.waker != sleep.tid)
        .collect();
    sleeps.sort_by_key(|sleep| (Reverse(sleep.ns()), sleep.from_ns, sleep.tid));
    let mut all: BTreeMap<i32, Held> = BTreeMap::new();
    let mut left = MOST_POINTS;
    for sleep in &sleeps {
        let held = all.entry(sleep.tid).or_default();
        held.ns = held.ns.saturating_add(sleep.ns());
        if left == 0 {
            continue;
        }
        held.walked_ns = held.walked_ns.saturating_add(sleep.ns());
        let bounds = Bounds { points: BOUNDS.points.min(left), ..BOUNDS };
        let path = walk(graph, sleep.worker, sleep.from_ns, sleep.to_ns, bounds);
        let looked_at = path.as_ref().map_or(0, |path| path.looked_at);
        left = left.saturating_sub(looked_at.max(LEAST_POINTS));
        let Some(path) = path else { continue };
        for step in &path.steps {
            let Step::Stay { worker, state, .. } = step else { continue };
            let who = graph.get(*worker).map(|worker| worker.who);
            let Some(Who::Thread { tid, .. }) = who else { continue };
            if tid != sleep.tid && is_own(tid) && is_its_own_doing(*state) {
                let sum = held.by.entry((tid, state.name())).or_default();
                *sum = sum.saturating_add(step.ns());
            }
        }
    }
    all
}

/// Whether a thread that does this waits for nothing from outside of its program, but for what this host gives.
const fn is_its_own_doing(state: State) -> bool {
    matches!(state, State::Running | State::WaitingCpu | State::Disk | State::Timer)
}

#[cfg(test)]
mod tests {
    use noise_trace::event::{Event, TraceKind};

    use super::*;
    use crate::build::Builder;
    use noise_trace::fixtures::{ASLEEP, switch, waking};

    /// A timer wakes a thread, which runs at once.
    fn timer(at_ns: u64, tid: i32) -> [(u64, TraceKind<'static>); 4] {
        [
            (at_ns, TraceKind::SoftirqEntry { vec: 1 }),
            (at_ns, waking(tid)),
            (at_ns, TraceKind::SoftirqExit { vec: 1 }),
            (at_ns, switch(0, 0, tid)),
        ]
    }

    fn found(
        events: &[(u64, TraceKind<'static>)],
        sleeps: &[(i32, u64, u64, i32)],
    ) -> BTreeMap<i32, Held> {
        let mut builder = Builder::default();
        for (time_ns, kind) in events {
            builder.follow(&Event { time_ns: *time_ns, cpu: 0, kind: *kind });
        }
        let sleeps: Vec<Sleep> = sleeps
            .iter()
            .map(|&(tid, from_ns, to_ns, waker)| {
                let worker = builder.thread(0, tid).unwrap();
                Sleep { worker, tid, from_ns, to_ns, waker }
            })
            .collect();
        held(builder.graph(), sleeps, |tid| tid < 9)
    }

    #[test]
    fn who_holds_is_found_behind_those_that_hand_on() {
        // 1 sleeps 100 ns on a timer while 2 and 3 sleep; it wakes 2, and that one 3.
        let mut events = vec![
            (5, switch(0, 0, 2)),
            (8, switch(2, ASLEEP, 3)),
            (9, switch(3, ASLEEP, 1)),
            (20, switch(1, ASLEEP, 0)),
        ];
        events.extend(timer(120, 1));
        events.extend([
            (125, waking(2)),
            (130, switch(1, ASLEEP, 2)),
            (140, waking(3)),
            (150, switch(2, ASLEEP, 3)),
        ]);
        let found = found(&events, &[(2, 8, 125, 1), (3, 9, 140, 2)]);
        assert_eq!(found[&2].ns, 117);
        assert_eq!(found[&2].by[&(1, "timer")], 100);
        assert_eq!(found[&3].by[&(1, "timer")], 100, "2 itself waited for 1");
        assert_eq!(found[&3].by[&(2, "running")], 10);
        let sum: u64 = found[&3].by.values().sum();
        assert!(sum <= found[&3].ns);
    }

    #[test]
    fn what_others_did_is_no_doing_of_its_own() {
        // 1 sleeps until 9, which is another program's, wakes it, and wakes 2 then.
        let events = [
            (5, switch(0, 0, 2)),
            (8, switch(2, ASLEEP, 1)),
            (20, switch(1, ASLEEP, 9)),
            (120, waking(1)),
            (125, switch(9, 0, 1)),
            (130, waking(2)),
        ];
        let found = found(&events, &[(2, 8, 130, 1), (1, 20, 120, 9)]);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(found[&2].ns, 122);
        // It ran at the begin and at the end, and waited for a CPU.
        let own = [((1, "running"), 17), ((1, "waiting_cpu"), 5)];
        assert_eq!(found[&2].by, own.into());
    }
}

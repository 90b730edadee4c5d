//! PURE: sleeps of a victim's threads that nothing has ended yet. What such a sleep is for no event says. Known of it is how it
//! began, where that was seen, and what the thread does when the page is made, right behind the end of the events.

use std::collections::{BTreeMap, BTreeSet};

use noise_paths::account::{ASLEEP, Alone, Member};
use noise_paths::state::State;

/// A sleep that nothing has ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSleep {
    /// For how long, as far as it lies in the time that is looked at, ns.
    pub ns: u64,
    /// Whether its begin was seen. If so, events already tell whether it is uninterruptible.
    pub is_seen: bool,
}

/// What a thread sleeps at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SleepsAt {
    /// Whether that is where a program waits for work, or for a time.
    pub is_idle: bool,
    /// The lock that it waits for: the process, and the address there or the file.
    pub lock: Option<(i32, u64)>,
    /// As people read it; empty where it is not known.
    pub place: String,
}

/// What threads do at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwoken {
    /// How many threads the victim has; 0 before `/proc` was read.
    pub there: usize,
    /// Those that a signal or a debugger has stopped.
    pub stopped: BTreeSet<i32>,
    /// Those whose cgroup is frozen.
    pub frozen: BTreeSet<i32>,
    /// Those that sleep uninterruptibly, and did nothing else all the time.
    pub uninterruptible: BTreeSet<i32>,
    /// What those sleep at that did nothing else all the time.
    pub at: BTreeMap<i32, SleepsAt>,
}

/// Whether a thread slept all the time, as far as it is known what it did.
pub fn slept_all_along(one: &Member) -> bool {
    let is_sleep = |state: &&str| [ASLEEP, State::Unknown.name()].contains(state);
    one.ns(ASLEEP) > 0 && one.totals_ns.keys().all(is_sleep)
}

/// The sleeps that nothing has ended yet, by thread: those whose begin was seen, and those of threads that slept all the time.
pub fn open_sleeps(alone: &[Alone], threads: &[Member]) -> BTreeMap<i32, OpenSleep> {
    let seen = alone.iter().filter(|sleep| !sleep.is_over).map(|sleep| {
        let ns = sleep.to_ns.saturating_sub(sleep.from_ns);
        (sleep.tid, OpenSleep { ns, is_seen: true })
    });
    let mut open: BTreeMap<i32, OpenSleep> = seen.collect();
    for one in threads.iter().filter(|one| slept_all_along(one)) {
        open.entry(one.tid).or_insert(OpenSleep { ns: one.ns(ASLEEP), is_seen: false });
    }
    open
}

impl Unwoken {
    /// By the states of threads at the moment, as `/proc` has them, and their sleeps that nothing has ended yet.
    pub fn of(
        states: &BTreeMap<i32, u8>,
        open: &BTreeMap<i32, OpenSleep>,
        mut is_frozen: impl FnMut(i32) -> bool,
    ) -> Self {
        // A first thread that has ended stays until all others have.
        let there = states.values().filter(|state| !matches!(state, b'Z' | b'X')).count();
        let mut found = Self { there, ..Self::default() };
        for (tid, sleep) in open {
            let of_it = match states.get(tid) {
                Some(b'T' | b't') => &mut found.stopped,
                // By version 2 of cgroups it sleeps then, by version 1 it does so uninterruptibly.
                Some(b'S' | b'D') if is_frozen(*tid) => &mut found.frozen,
                Some(b'D') if !sleep.is_seen => &mut found.uninterruptible,
                _ => continue,
            };
            of_it.insert(*tid);
        }
        found
    }

    /// Whether a thread is stopped or frozen.
    pub fn is_halted(&self, tid: i32) -> bool {
        self.stopped.contains(&tid) || self.frozen.contains(&tid)
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::delays::document::Spread;

    use super::*;
    use crate::made::{MS, member};

    #[test]
    fn sleeps_without_an_end_are_found() {
        let alone = |tid, is_over| Alone { tid, since_ns: 5, from_ns: 10, to_ns: 30, is_over };
        let of = |tid, totals: &[(&'static str, u64)]| member(tid, totals, Spread::default());
        let threads = [
            of(7, &[("running", 1), ("asleep", 9)]),
            of(8, &[("asleep", 10)]),
            of(9, &[("asleep", 8), ("unknown", 2)]),
            // It slept before it ran; it did something that is not known.
            of(10, &[("asleep", 5), ("running", 5)]),
            of(11, &[("unknown", 10)]),
        ];
        let open = open_sleeps(&[alone(7, false), alone(10, true)], &threads);
        let expected = [
            (7, OpenSleep { ns: 20, is_seen: true }),
            (8, OpenSleep { ns: 10 * MS, is_seen: false }),
            (9, OpenSleep { ns: 8 * MS, is_seen: false }),
        ];
        assert_eq!(open, expected.into());
    }

    #[test]
    fn states_say_what_a_thread_does() {
        let open = |tid, is_seen| (tid, OpenSleep { ns: 10, is_seen });
        let open = [
            open(1, false),
            open(2, true),
            open(3, false),
            open(4, true),
            open(5, false),
            open(6, false),
            open(7, false),
        ];
        // 9 ran, 8 has ended and is waited for, 7 has ended and is gone.
        let states = [
            (1, b'S'),
            (2, b'T'),
            (3, b'D'),
            (4, b'D'),
            (5, b't'),
            (6, b'D'),
            (8, b'Z'),
            (9, b'R'),
        ];
        let found = Unwoken::of(&states.into(), &open.into(), |tid| tid == 1 || tid == 6);
        let expected = Unwoken {
            there: 7,
            stopped: [2, 5].into(),
            frozen: [1, 6].into(),
            uninterruptible: [3].into(),
            at: BTreeMap::new(),
        };
        assert_eq!(found, expected);
        assert!(found.is_halted(5) && found.is_halted(6) && !found.is_halted(3));
    }
}

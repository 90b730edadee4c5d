//! PURE: sleeps of a victim's threads that a timer ended. Such a timer is the thread's own, or the limit of time of a wait for
//! another thread: for a lock, or for work. No event tells the two apart, so it is looked where threads sleep:
//!
//! - in a call that waits for a time or for work from outside alone: the timer is its own;
//! - in a wait for another thread that has a limit: it waited for a lock where those sleeps there that other threads ended
//!   were waits for a lock ([`Locks`]), and the thread went on to wait until one of them woke it. Else it may be work that it
//!   waited for;
//! - where it was not seen, it is not known. A thread that is the only one of its process waits for no lock of its own.

use std::collections::BTreeMap;

use noise_paths::account::Alone;
use noise_paths::held::Held;

use super::locks::Locks;
use super::places::Places;

/// How long threads slept until timers, ns.
pub fn until_timer(alone: &[Alone]) -> BTreeMap<i32, u64> {
    let mut sums: BTreeMap<i32, u64> = BTreeMap::new();
    for sleep in alone.iter().filter(|sleep| sleep.is_over) {
        let sum = sums.entry(sleep.tid).or_default();
        *sum = sum.saturating_add(sleep.to_ns.saturating_sub(sleep.from_ns));
    }
    sums
}

/// What of the time until timers was not for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Waits for locks.
    pub locks: Locks,
    /// Waits for a lock, or for work: it is not known which, ns.
    pub unclear_ns: u64,
    /// It is not known what the timers were for, ns.
    pub unseen_ns: u64,
}

/// Sleeps by the sleeper, as events have them.
#[derive(Clone, Copy, Debug)]
pub struct TimedSleeps<'s> {
    /// Until a timer, ns: of threads that are not the only one of their process.
    pub until_timer: &'s BTreeMap<i32, u64>,
    /// What of that was before another thread woke the sleeper.
    pub tried_again: &'s BTreeMap<i32, Held>,
    /// Until another thread woke it.
    pub held: &'s BTreeMap<i32, Held>,
}

impl Limits {
    pub fn of(sleeps: TimedSleeps<'_>, places: &Places) -> Self {
        let mut limits = Self::default();
        for (tid, ns) in sleeps.until_timer {
            match places.limited.get(tid) {
                Some(key) => {
                    let locks = waited_for_lock(*tid, *key, sleeps, places).unwrap_or_default();
                    limits.unclear_ns =
                        limits.unclear_ns.saturating_add(ns.saturating_sub(locks.ns));
                    limits.locks = limits.locks.and(&locks);
                }
                None if places.for_time.contains(tid) => {}
                None => limits.unseen_ns = limits.unseen_ns.saturating_add(*ns),
            }
        }
        limits
    }
}

/// What a thread that waits there with a limit waited for a lock; `None` where it is no lock for all that is known.
fn waited_for_lock(
    tid: i32,
    key: (i32, u64),
    sleeps: TimedSleeps<'_>,
    places: &Places,
) -> Option<Locks> {
    let place = places.of.get(&tid).filter(|place| place.key == key)?;
    let held = sleeps.held.get(&tid)?;
    let is_lock = place.is_held(held, places) && place.part(held, places).ns > 0;
    Some(place.part(sleeps.tried_again.get(&tid)?, places)).filter(|_| is_lock)
}

#[cfg(test)]
mod tests {
    use super::super::places::SleepPlace;
    use super::*;

    fn held(by: &[(i32, &'static str, u64)], ns: u64) -> Held {
        let by = by.iter().map(|(tid, state, ns)| ((*tid, *state), *ns)).collect();
        Held { ns, walked_ns: ns, by }
    }

    /// 2 and 3 wait with a limit at one word, where 4 only waits for work.
    fn places() -> Places {
        let at = |key| SleepPlace { is_lock: false, key: (1, key) };
        Places {
            of: [(2, at(8)), (3, at(8)), (4, at(16))].into(),
            limited: [(2, (1, 8)), (3, (1, 8)), (4, (1, 16))].into(),
            for_time: [5].into(),
            is_denied: false,
        }
    }

    #[test]
    fn a_wait_that_is_tried_again_is_for_a_lock_where_the_rest_of_it_is() {
        let until_timer = [(2, 900), (3, 0), (4, 500), (5, 70), (6, 30)].into();
        // Thread 3 ran while 2 slept for 5 ms at a time, and let it go then.
        let tried_again =
            [(2, held(&[(3, "running", 880)], 900)), (4, held(&[(2, "running", 400)], 500))].into();
        let woken =
            [(2, held(&[(3, "running", 9)], 10)), (4, held(&[(2, "running", 9)], 10))].into();
        let sleeps =
            TimedSleeps { until_timer: &until_timer, tried_again: &tried_again, held: &woken };
        let expected = Limits {
            locks: Locks { ns: 880, by: [((3, "running"), 880)].into() },
            // What of it was not the holder's, and a wait for work, or for a lock of which nothing is seen.
            unclear_ns: 20 + 500,
            unseen_ns: 30,
        };
        assert_eq!(Limits::of(sleeps, &places()), expected);
    }

    #[test]
    fn a_limit_that_always_runs_out_may_be_that_of_a_queue() {
        let until_timer = [(2, 1_900)].into();
        let (none, woken) = (BTreeMap::new(), [(2, held(&[(3, "running", 9)], 10))].into());
        let tried_again = [(2, held(&[(3, "running", 1_800)], 1_900))].into();
        let of = |tried_again, held, places: &Places| {
            Limits::of(TimedSleeps { until_timer: &until_timer, tried_again, held }, places)
        };
        let unclear = Limits { unclear_ns: 1_900, ..Limits::default() };
        assert_eq!(of(&none, &none, &places()), unclear, "no thread ever woke it");
        assert_eq!(of(&none, &woken, &places()), unclear, "nor behind that");
        let mut elsewhere = places();
        elsewhere.of.remove(&3);
        assert_eq!(of(&tried_again, &woken, &elsewhere), unclear, "who hands out work");
        elsewhere = places();
        elsewhere.limited.insert(2, (1, 24));
        assert_eq!(of(&tried_again, &woken, &elsewhere), unclear, "a limit at another word");
        let unseen = Limits { unseen_ns: 1_900, ..Limits::default() };
        assert_eq!(of(&tried_again, &woken, &Places::default()), unseen);
    }
}

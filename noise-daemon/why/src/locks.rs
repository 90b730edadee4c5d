//! PURE: what of the time in which threads of a program slept until each other was waiting for a lock, or a full queue, and
//! who held that.
//!
//! A worker without work sleeps until another thread wakes it, too. What tells them apart is where the sleeper sleeps:
//!
//! - at what is a lock for certain: the thread of its program that was on the critical path held it;
//! - at a word in memory where others of its program sleep: those of them that were on the path held it, if they were there
//!   most of the time. In a lock convoy, the one that holds it waited there before, and will again; who hands out work
//!   never does.
//!
//! All else stays unknown.

use std::collections::{BTreeMap, BTreeSet};

use noise_paths::held::Held;

use super::places::{Places, SleepPlace};

/// The part of a thread's sleeps in which others that wait at the same word have to be on the path: workers that wait for
/// work hand each other what comes in a burst, and that is the least of it.
const MOSTLY: f64 = 0.5;

/// Who held what others waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// How long threads waited, ns.
    pub ns: u64,
    /// Of that, by the thread that held it and by what it did meanwhile: states of critical paths.
    pub by: BTreeMap<(i32, &'static str), u64>,
    /// Of that, by where threads waited.
    pub at: BTreeMap<SleepPlace, u64>,
    /// What most of it was for, as the sentence goes on; `None` until that is looked up.
    pub words: Option<String>,
}

impl Locks {
    /// Of these sleeps, by where threads sleep.
    pub fn of(held: &BTreeMap<i32, Held>, places: &Places) -> Self {
        let mut locks = Self::default();
        for (sleeper, held) in held {
            let Some(place) = places.of.get(sleeper) else { continue };
            let holds = |holder| place.is_lock || places.of.get(holder) == Some(place);
            let by: Vec<_> = held.by.iter().filter(|((holder, _), _)| holds(holder)).collect();
            let ns = by.iter().fold(0_u64, |sum, (_, ns)| sum.saturating_add(**ns));
            if !place.is_lock && (ns as f64) < MOSTLY * held.walked_ns as f64 {
                continue;
            }
            locks.ns = locks.ns.saturating_add(ns);
            let at = locks.at.entry(*place).or_default();
            *at = at.saturating_add(ns);
            for (key, ns) in by {
                let sum = locks.by.entry(*key).or_default();
                *sum = sum.saturating_add(*ns);
            }
        }
        locks
    }

    /// Locks of the kernel: all of these sleeps were for them.
    pub fn in_kernel(held: &BTreeMap<i32, Held>) -> Self {
        Self::default().rest(held)
    }

    /// Those of which this is true, by the thread that held them and by what it did meanwhile.
    pub fn part(&self, is_in: impl Fn(i32, &'static str) -> bool) -> Self {
        let by = self.by.iter().filter(|((tid, state), _)| is_in(*tid, state));
        let by: BTreeMap<_, _> = by.map(|(key, ns)| (*key, *ns)).collect();
        let ns = by.values().fold(0, |sum, ns| u64::saturating_add(sum, *ns)).min(self.ns);
        Self { ns, by, ..Self::default() }
    }

    pub fn and(mut self, others: &Self) -> Self {
        self.ns = self.ns.saturating_add(others.ns);
        for (key, ns) in &others.by {
            let sum = self.by.entry(*key).or_default();
            *sum = sum.saturating_add(*ns);
        }
        self
    }

    /// Who was on the path while threads slept until each other woke them, without what these locks have of that time.
    pub fn rest(&self, held: &BTreeMap<i32, Held>) -> Self {
        let mut rest = Self::default();
        let all_ns = held.values().fold(0_u64, |sum, held| sum.saturating_add(held.ns));
        rest.ns = all_ns.saturating_sub(self.ns);
        for (key, ns) in held.values().flat_map(|held| &held.by) {
            let sum = rest.by.entry(*key).or_default();
            *sum = sum.saturating_add(*ns);
        }
        for (key, ns) in &self.by {
            let left = rest.by.get_mut(key).map_or(0, |sum| {
                *sum = sum.saturating_sub(*ns);
                *sum
            });
            if left == 0 {
                rest.by.remove(key);
            }
        }
        rest
    }

    /// Where threads waited most of the time, if they did so at one place.
    pub fn place(&self) -> Option<&SleepPlace> {
        self.at.iter().find(|(_, ns)| **ns > self.ns / 2).map(|(place, _)| place)
    }

    /// The thread that held it longest, for how long, ns, and what it did most of that time.
    pub fn longest(&self) -> Option<(i32, u64, &'static str)> {
        let mut holders: BTreeMap<i32, (u64, u64, &'static str)> = BTreeMap::new();
        for ((tid, state), ns) in &self.by {
            let (sum, most, mostly) = holders.entry(*tid).or_default();
            *sum = sum.saturating_add(*ns);
            if *ns > *most {
                (*most, *mostly) = (*ns, state);
            }
        }
        let longest = holders.into_iter().max_by_key(|(_, (ns, ..))| *ns);
        longest.map(|(tid, (ns, _, state))| (tid, ns, state))
    }
}

/// Threads that it is worth to look at, each with its process: those that slept until each other for at least so long, and
/// who was on the path meanwhile. `pid` says of which process a thread is.
pub fn candidates(
    held: &BTreeMap<i32, Held>,
    least_ns: u64,
    pid: impl Fn(i32) -> i32,
) -> BTreeSet<(i32, i32)> {
    let doing_ns = |held: &Held| held.by.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let all_ns = held.values().map(doing_ns).fold(0_u64, u64::saturating_add);
    if all_ns < least_ns {
        return BTreeSet::new();
    }
    let tids = held.iter().flat_map(|(tid, held)| {
        let holders = held.by.keys().map(|(holder, _)| *holder);
        holders.chain((!held.by.is_empty()).then_some(*tid))
    });
    tids.map(|tid| (tid, pid(tid))).collect()
}

#[cfg(test)]
mod tests {
    use noise_paths::via::ViaKind;

    use super::*;

    /// A sleeper, how long it slept, and who was on the path, doing what, for how long.
    type Row<'r> = (i32, u64, &'r [(i32, &'static str, u64)]);

    fn held(rows: &[Row<'_>]) -> BTreeMap<i32, Held> {
        let row = |(tid, ns, by): &Row<'_>| {
            let by = by.iter().map(|(tid, state, ns)| ((*tid, *state), *ns)).collect();
            (*tid, Held { ns: *ns, walked_ns: *ns, by })
        };
        rows.iter().map(row).collect()
    }

    fn places(rows: &[(i32, bool, u64)]) -> Places {
        let row = |(tid, is_lock, key): &(i32, bool, u64)| {
            (*tid, SleepPlace { is_lock: *is_lock, kind: ViaKind::Futex, key: (1, *key) })
        };
        Places { of: rows.iter().map(row).collect(), is_denied: false }
    }

    #[test]
    fn a_convoy_at_one_word_is_held_by_those_that_wait_there_again() {
        let held = held(&[
            (2, 200, &[(3, "timer", 90), (4, "timer", 90), (3, "running", 10)]),
            (3, 200, &[(2, "timer", 100), (4, "timer", 90)]),
            (4, 200, &[(2, "timer", 100), (3, "timer", 90)]),
        ]);
        let at_one = places(&[(2, false, 5), (3, false, 5), (4, false, 5)]);
        let locks = Locks::of(&held, &at_one);
        assert_eq!(locks.ns, 570);
        assert_eq!(locks.longest(), Some((2, 200, "timer")));
        assert_eq!(locks.place().map(|place| place.key), Some((1, 5)));
        // Half of it is not most.
        let apart = Locks { ns: 2 * locks.ns, ..locks };
        assert_eq!(apart.place(), None);
        // Without that evidence, it is not known.
        for none in [
            Places::default(),
            places(&[(2, false, 5), (3, false, 6), (4, false, 7)]),
            Places { is_denied: true, ..Places::default() },
        ] {
            assert_eq!(Locks::of(&held, &none), Locks::default(), "{none:?}");
        }
    }

    #[test]
    fn what_is_no_lock_for_certain_is_left() {
        let held = held(&[
            (2, 200, &[(3, "timer", 150), (4, "timer", 40)]),
            (5, 300, &[(3, "timer", 280), (3, "running", 5)]),
        ]);
        let by = [((3, "timer"), 150), ((4, "timer"), 40)].into();
        let counted = Locks { ns: 190, by, ..Locks::default() };
        let rest = counted.rest(&held);
        assert_eq!(rest.ns, 310);
        assert_eq!(rest.by, [((3, "timer"), 280), ((3, "running"), 5)].into());
        assert_eq!(rest.longest(), Some((3, 285, "timer")));
    }

    #[test]
    fn workers_that_wait_for_who_hands_out_work_are_not_held_up() {
        // 2 sleeps on a timer and hands out work to 3, 4 and 5, which wake each other in a burst.
        let held = held(&[
            (3, 2_000, &[(2, "timer", 1_900), (2, "running", 50)]),
            (4, 2_000, &[(2, "timer", 1_900), (3, "running", 5)]),
            (5, 2_000, &[(2, "timer", 1_900), (4, "running", 5)]),
        ]);
        let at_one = places(&[(3, false, 5), (4, false, 5), (5, false, 5)]);
        assert_eq!(Locks::of(&held, &at_one), Locks::default());
        // Each at a word of its own, as a runtime parks them: nothing is known.
        let parked = places(&[(3, false, 5), (4, false, 6), (5, false, 7)]);
        assert_eq!(Locks::of(&held, &parked).ns, 0);
    }

    #[test]
    fn who_never_waits_for_a_lock_may_hold_it() {
        let held = held(&[(3, 500, &[(2, "disk", 450), (2, "running", 50)])]);
        let locks = Locks::of(&held, &places(&[(3, true, 5)]));
        assert_eq!((locks.ns, locks.longest()), (500, Some((2, 500, "disk"))));
    }

    #[test]
    fn it_is_looked_where_something_can_be_found_alone() {
        let held = held(&[(3, 500, &[(2, "disk", 450)]), (4, 900, &[])]);
        assert_eq!(candidates(&held, 400, |_| 1), [(2, 1), (3, 1)].into());
        assert!(candidates(&held, 451, |_| 1).is_empty());
    }
}

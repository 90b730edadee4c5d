//! The subjects that cost most, each with a counter of its own; the others share one.
//!
//! What comes is counted once, for the subject if it has a counter of its own at that time, else for
//! the rest. So no counter ever runs backwards: a subject that gets a counter counts what comes from
//! then on, and the rest keeps what it had. As long as there is room, every subject has a counter
//! from its first value on, but for those that had to be forgotten of late.
//!
//! Cost decays, so that what costs now counts, not what did yesterday. A subject without a counter
//! takes the place of one that costs clearly less, and far less if that got its counter of late. One that is
//! gone gives way to any other, but keeps its counter until then. Counters of those that gave way are
//! remembered, within bounds, and go on where they were if their subject gets its place back. One that
//! had to be forgotten gets no place before nothing is compared with it any more.

use std::collections::BTreeMap;
use std::hash::Hash;

use super::amount::Amount;
use super::bounded::{Bounded, Foldable};
use super::remembered::Remembered;

/// Time in which a cost counts half, ns.
const HALF_LIFE_NS: f64 = 60e9;
/// How many times the cost of one with a counter another must cost to take its place.
const TAKEOVER: f64 = 2.0;
/// The same while the one with a counter has not had it for long: who begins to cost much is shown at
/// once.
const EARLY_TAKEOVER: f64 = 16.0;
/// For how long that is, ns.
const STAY_NS: u64 = 60_000_000_000;
/// Subjects without a counter whose cost is kept, and counters that are remembered, for each place:
/// those of the largest number that there ever was, since limits may be lowered and raised again.
const KEPT: usize = 4;
/// Costs are scaled up instead of decaying; beyond this scale all begin anew, before they overflow.
const LARGEST_SCALE: f64 = 1e30;

/// A counter.
#[derive(Debug, Default)]
struct Place<V> {
    amount: V,
    cost: f64,
    since_ns: u64,
    gone_ns: Option<u64>,
}

impl<V> Place<V> {
    /// The cost beyond which another subject takes the place.
    fn bar(&self, at_ns: u64) -> f64 {
        if self.gone_ns.is_some() {
            0.0
        } else if self.since_ns.saturating_add(STAY_NS) <= at_ns {
            self.cost * TAKEOVER
        } else {
            self.cost * EARLY_TAKEOVER
        }
    }
}

/// A subject without a counter.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    cost: f64,
    /// Until when it has to stay without one, ns.
    away_until_ns: u64,
}

/// The counters.
#[derive(Debug)]
pub struct Fold<K: Hash + Eq, V> {
    /// The largest number of places that there was.
    largest: usize,
    places: Bounded<K, Place<V>>,
    waiting: BTreeMap<K, Waiting>,
    remembered: Remembered<K, V>,
    /// Scale of the costs, and the time of scale 1.
    scale: f64,
    began_ns: u64,
    at_ns: u64,
    folded: u64,
}

impl<K: Foldable + Hash, V: Amount> Fold<K, V> {
    /// Room for that many subjects, the rest not counted.
    pub fn new(limit: usize) -> Self {
        Self {
            largest: limit,
            places: Bounded::new(limit),
            waiting: BTreeMap::new(),
            remembered: Remembered::default(),
            scale: 1.0,
            began_ns: 0,
            at_ns: 0,
            folded: 0,
        }
    }

    /// Makes room for another number of subjects. Those that cost least give way.
    pub fn set_limit(&mut self, limit: usize) {
        self.largest = self.largest.max(limit);
        self.places.set_most(limit);
        while self.places.taken() > limit {
            let cheapest = self.places.own().min_by(|a, b| a.1.cost.total_cmp(&b.1.cost));
            let Some(out) = cheapest.map(|(key, _)| key.clone()) else { break };
            if let Some(place) = self.places.remove(&out) {
                if place.gone_ns.is_none() {
                    self.waiting
                        .insert(out.clone(), Waiting { cost: place.cost, away_until_ns: 0 });
                    self.folded += 1;
                }
                self.remembered.insert(out, place.amount, self.at_ns);
            }
        }
        self.forget_oldest();
        self.forget_cheap();
    }

    /// Turns to the next time; what is added from now on came until then. Subjects change places.
    pub fn advance(&mut self, at_ns: u64) {
        self.at_ns = self.at_ns.max(at_ns);
        let passed = self.at_ns.saturating_sub(self.began_ns) as f64;
        self.scale = (passed / HALF_LIFE_NS).exp2();
        if self.scale > LARGEST_SCALE {
            for (_, place) in self.places.iter_mut() {
                place.cost /= self.scale;
            }
            for waiting in self.waiting.values_mut() {
                waiting.cost /= self.scale;
            }
            (self.scale, self.began_ns) = (1.0, self.at_ns);
        }
        self.change_places();
    }

    /// Counts something.
    pub fn add(&mut self, key: &K, more: &V, cost: u64) {
        let cost = cost as f64 * self.scale;
        if let Some(place) = self.places.get_mut(key) {
            place.amount.add(more);
            place.cost += cost;
            place.gone_ns = None;
            return;
        }
        let rest = key.rest();
        if *key != rest
            && let Some(out) = self.room()
            && self.away_until_ns(key) <= self.at_ns
        {
            let before = self.waiting.remove(key).map_or(0.0, |waiting| waiting.cost);
            let (mut amount, _) = self.replace(key, out.as_ref());
            amount.add(more);
            self.admit(key.clone(), amount, before + cost);
            self.forget_oldest();
            return;
        }
        if *key != rest {
            if let Some(waiting) = self.waiting.get_mut(key) {
                waiting.cost += cost;
            } else {
                let away_until_ns = self.away_until_ns(key);
                self.waiting.insert(key.clone(), Waiting { cost, away_until_ns });
                self.folded += 1;
                self.forget_cheap();
            }
        }
        self.places.value(rest).amount.add(more);
    }

    /// A subject is gone: nothing more is to be expected of it.
    pub fn release(&mut self, key: &K) {
        self.waiting.remove(key);
        if let Some(place) = self.places.get_mut(key) {
            place.gone_ns.get_or_insert(self.at_ns);
        }
    }

    /// Every counter, in order.
    pub fn counters(&self) -> impl Iterator<Item = (&K, &V)> {
        self.places.iter().map(|(key, place)| (key, &place.amount))
    }

    /// How often a subject became one of the rest: because it had no room, or gave way. One that
    /// comes back after it was forgotten counts again.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Until when a subject has to stay without a counter.
    fn away_until_ns(&self, key: &K) -> u64 {
        let waiting = self.waiting.get(key).map(|waiting| waiting.away_until_ns);
        waiting.unwrap_or_else(|| self.remembered.away_until_ns(key))
    }

    /// A place that can be had: a free one (`Some(None)`), else that of a subject that is gone, by its
    /// key; `None` where there is neither.
    fn room(&self) -> Option<Option<K>> {
        if !self.places.is_full() {
            return Some(None);
        }
        let gone = self.places.own().filter_map(|(key, place)| Some((place.gone_ns?, key)));
        gone.min().map(|(_, key)| Some(key.clone()))
    }

    fn admit(&mut self, key: K, amount: V, cost: f64) {
        let place = Place { amount, cost, since_ns: self.at_ns, gone_ns: None };
        *self.places.value(key) = place;
    }

    /// Takes the place of `out`, if any, for `key`: the counter of `key` as it is remembered, and
    /// the cost of `out`.
    fn replace(&mut self, key: &K, out: Option<&K>) -> (V, f64) {
        let amount = self.remembered.take(key).unwrap_or_default();
        let Some(out) = out else { return (amount, 0.0) };
        let Some(place) = self.places.remove(out) else { return (amount, 0.0) };
        self.remembered.insert(out.clone(), place.amount, self.at_ns);
        (amount, place.cost)
    }

    /// Keeps the counters that gave way last.
    fn forget_oldest(&mut self) {
        let most = (self.largest * (KEPT + 1)).saturating_sub(self.places.taken());
        for (key, until_ns) in self.remembered.trim(most, self.at_ns) {
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.away_until_ns = until_ns;
            }
        }
    }

    fn change_places(&mut self) {
        self.give_to_expensive();
        // Only now: one that was remembered may just have got its place back, behind others that
        // got theirs.
        self.forget_oldest();
    }

    fn give_to_expensive(&mut self) {
        // Every turn gives a place to one who costs more than any that is dismissed, so it ends.
        while let Some((key, cost)) = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.away_until_ns <= self.at_ns)
            .max_by(|a, b| a.1.cost.total_cmp(&b.1.cost))
            .map(|(key, waiting)| (key.clone(), waiting.cost))
        {
            let cheapest = self
                .places
                .own()
                .map(|(key, place)| (place.bar(self.at_ns), key))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((bar, out)) = cheapest else { return };
            if cost <= bar {
                return;
            }
            let out = out.clone();
            let was_gone = self.places.get(&out).is_some_and(|place| place.gone_ns.is_some());
            let (amount, left) = self.replace(&key, Some(&out));
            self.waiting.remove(&key);
            self.admit(key, amount, cost);
            if !was_gone {
                self.waiting.insert(out, Waiting { cost: left, away_until_ns: 0 });
                self.folded += 1;
            }
        }
    }

    /// Keeps the costs of those who may get a place soonest.
    fn forget_cheap(&mut self) {
        let most = (self.places.most() * KEPT).max(1);
        if self.waiting.len() < 2 * most {
            return;
        }
        let mut costs: Vec<f64> = self.waiting.values().map(|waiting| waiting.cost).collect();
        costs.sort_by(|a, b| b.total_cmp(a));
        let Some(least) = costs.get(most).copied() else { return };
        // Of several that cost the same, all go.
        self.waiting.retain(|_, waiting| waiting.cost > least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remembered::COMPARED_NS;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    const SECOND: u64 = 1_000_000_000;
    /// Stands for the rest.
    const REST: u16 = u16::MAX;

    impl Foldable for u16 {
        fn rest(&self) -> Self {
            REST
        }
    }

    fn sums(fold: &Fold<u16, u64>) -> Vec<(u16, u64)> {
        fold.counters().map(|(key, amount)| (*key, *amount)).collect()
    }

    #[test]
    fn with_room_for_all_nothing_is_folded() {
        let mut fold = Fold::new(3);
        for step in 0..100 {
            fold.advance(step * SECOND);
            for key in [1, 2, 3] {
                fold.add(&key, &u64::from(key), u64::from(key));
            }
        }
        assert_eq!(sums(&fold), [(1, 100), (2, 200), (3, 300)]);
        assert_eq!(fold.folded(), 0);
    }

    #[test]
    fn the_expensive_take_the_places_of_the_cheap() {
        let mut fold = Fold::new(2);
        fold.add(&1, &10, 10);
        fold.add(&2, &5, 5);
        fold.add(&3, &50, 50);
        fold.advance(STAY_NS - 1);
        assert_eq!(sums(&fold), [(1, 10), (2, 5), (REST, 50)]);
        fold.advance(STAY_NS);
        fold.add(&3, &7, 7);
        assert_eq!(sums(&fold), [(1, 10), (3, 7), (REST, 50)]);
        // Counted when it came too late, and when the other gave way.
        assert_eq!(fold.folded(), 2);
        fold.add(&2, &1, 1);
        assert_eq!(sums(&fold), [(1, 10), (3, 7), (REST, 51)]);
        assert_eq!(fold.folded(), 2);
    }

    #[test]
    fn who_costs_far_more_is_reported_at_once() {
        let mut fold = Fold::new(2);
        fold.add(&1, &10, 10);
        fold.add(&2, &5, 5);
        fold.add(&3, &1000, 1000);
        fold.advance(SECOND);
        fold.add(&3, &7, 7);
        assert_eq!(sums(&fold), [(1, 10), (3, 7), (REST, 1000)]);
    }

    #[test]
    fn two_of_a_size_do_not_change_places() {
        let mut fold = Fold::new(1);
        for step in 0..1000 {
            fold.advance(step * SECOND);
            fold.add(&1, &10, 10);
            fold.add(&2, &15, 15);
        }
        assert_eq!(sums(&fold), [(1, 10_000), (REST, 15_000)]);
        assert_eq!(fold.folded(), 1);
    }

    #[test]
    fn what_was_expensive_long_ago_gives_way() {
        let mut fold = Fold::new(1);
        fold.add(&1, &1_000_000, 1_000_000);
        for step in 0..3_600 {
            fold.advance(step * SECOND);
            fold.add(&2, &1, 1);
        }
        let now = sums(&fold);
        assert_eq!(now[0].0, 2);
        assert_eq!(now[0].1 + now[1].1, 3_600);
    }

    #[test]
    fn what_costs_now_is_compared_at_any_time() {
        let mut fold = Fold::new(1);
        fold.advance(3_600 * SECOND);
        fold.add(&1, &10, 10);
        fold.add(&2, &50, 50);
        fold.advance(3_600 * SECOND + STAY_NS);
        fold.add(&2, &7, 7);
        assert_eq!(sums(&fold), [(2, 7), (REST, 50)]);
    }

    #[test]
    fn one_that_costs_much_is_not_forgotten_for_many_that_cost_little() {
        let mut fold = Fold::new(1);
        fold.add(&0, &1, 1_000);
        fold.add(&1, &1, 900);
        let mut most = 0;
        for cheap in 2..100 {
            fold.add(&cheap, &1, u64::from(cheap));
            assert!(fold.waiting.len() >= usize::from(cheap).min(KEPT));
            most = most.max(fold.waiting.len());
        }
        // Costs are put in order seldom, so up to twice as many are kept.
        assert_eq!(most, 2 * KEPT - 1);
        fold.add(&1, &1, 1_200);
        fold.advance(STAY_NS);
        fold.add(&1, &5, 5);
        assert_eq!(sums(&fold), [(1, 5), (REST, 100)]);
    }

    #[test]
    fn those_who_wait_are_bounded_even_where_all_cost_the_same() {
        let mut fold = Fold::new(1);
        for key in 0..100 {
            fold.add(&key, &1, 5);
            assert!(fold.waiting.len() < 2 * KEPT);
        }
        assert_eq!(sums(&fold), [(0, 1), (REST, 99)]);
    }

    #[test]
    fn one_whose_counter_was_forgotten_stays_away_while_that_is_compared() {
        let mut fold = Fold::new(1);
        // Each takes the place of the one before, of which more are gone than are remembered.
        for key in 0..=KEPT as u16 + 1 {
            fold.add(&key, &10, 10);
            fold.release(&key);
        }
        fold.add(&0, &3, 3);
        assert!(!sums(&fold).iter().any(|(key, _)| *key == 0));
        // Where it waits already as where it comes anew.
        fold.advance(COMPARED_NS - 1);
        fold.add(&0, &3, 3);
        fold.release(&0);
        fold.add(&0, &3, 3);
        assert_eq!(sums(&fold), [(KEPT as u16 + 1, 10), (REST, 9)]);
        fold.advance(2 * COMPARED_NS);
        fold.add(&0, &4, 4);
        assert_eq!(sums(&fold), [(0, 4), (REST, 9)]);
    }

    #[test]
    fn one_that_comes_back_goes_on_where_it_was() {
        let mut fold = Fold::new(1);
        fold.add(&1, &10, 10);
        fold.release(&1);
        assert_eq!(sums(&fold), [(1, 10)]);
        fold.add(&2, &20, 20);
        assert_eq!((sums(&fold), fold.folded()), (vec![(2, 20)], 0));
        fold.release(&2);
        fold.add(&1, &5, 5);
        assert_eq!(sums(&fold), [(1, 15)]);
    }

    #[test]
    fn one_that_comes_back_behind_others_goes_on_where_it_was() {
        let mut fold = Fold::new(2);
        // Each two push out the two before, until no more can be remembered.
        for turn in 0..=KEPT as u16 {
            for key in [2 * turn, 2 * turn + 1] {
                fold.add(&key, &1, 1 << (4 * turn));
            }
            fold.advance(u64::from(turn + 1) * STAY_NS);
        }
        assert_eq!(fold.remembered.len(), 2 * KEPT);
        // The oldest that is remembered comes back behind a new one, whose place makes one more to
        // remember.
        fold.add(&100, &1, 1 << 40);
        fold.add(&0, &1, 1 << 39);
        fold.advance((KEPT as u64 + 2) * STAY_NS);
        assert_eq!(sums(&fold)[..2], [(0, 1), (100, 0)]);
        assert_eq!(fold.remembered.len(), 2 * KEPT);
    }

    #[test]
    fn costs_do_not_overflow() {
        let mut fold = Fold::new(1);
        for hour in 0..24 * 365 {
            fold.advance(hour * 3_600 * SECOND);
            fold.add(&1, &1, u64::MAX);
            fold.add(&2, &1, 3);
        }
        assert_eq!(sums(&fold)[0], (1, 24 * 365));
        assert!(fold.places.own().all(|(_, place)| place.cost.is_finite() && place.cost > 0.0));
    }

    /// What may happen: time, values, ends.
    #[derive(Clone, Debug)]
    enum Step {
        Advance(u64),
        Add(u16, u64),
        Release(u16),
        Limit(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0u8..13, any::<u16>(), any::<u16>()).prop_map(|(kind, key, amount)| match kind {
            12 => Step::Limit(usize::from(key % 8)),
            0 | 1 => Step::Advance(u64::from(amount) * SECOND / 300),
            2 => Step::Release(key % 40),
            // A few cost much more than the others.
            _ => Step::Add(key % 40, u64::from(amount) >> (key % 4 * 3)),
        })
    }

    proptest! {
        #[test]
        fn every_value_counts_once_and_nothing_runs_backwards(
            mut limit in 0usize..8,
            steps in proptest::collection::vec(step(), 0..400),
        ) {
            let mut fold: Fold<u16, u64> = Fold::new(limit);
            let (mut at, mut all, mut forgotten, mut largest) = (0, 0, 0, limit);
            // What a scraper saw that forgets nothing: value and time.
            let mut seen: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
            for step in steps {
                let mut before: BTreeMap<u16, u64> =
                    fold.remembered.iter().map(|(key, amount)| (*key, *amount)).collect();
                before.extend(sums(&fold));
                let had: BTreeMap<u16, bool> = fold
                    .places
                    .own()
                    .map(|(key, place)| (*key, place.gone_ns.is_some()))
                    .collect();
                let (mut added, is_limit) = (0, matches!(step, Step::Limit(_)));
                match step {
                    Step::Advance(by) => {
                        at += by;
                        fold.advance(at);
                    }
                    Step::Add(key, amount) => {
                        fold.add(&key, &amount, amount);
                        added = amount;
                        all += amount;
                    }
                    Step::Release(key) => fold.release(&key),
                    Step::Limit(to) => {
                        limit = to;
                        largest = largest.max(limit);
                        fold.set_limit(limit);
                    }
                }
                // In the counters that are shown, exactly what was added came to exactly one.
                let now: BTreeMap<u16, u64> = sums(&fold).into_iter().collect();
                let mut grown = Vec::new();
                for (key, amount) in &now {
                    let known = before.get(key).copied().unwrap_or(0);
                    prop_assert!(*amount >= known, "{} ran back from {} to {}", key, known, amount);
                    grown.extend(amount.checked_sub(known).filter(|grown| *grown > 0));
                    let (known, known_at) = seen.get(key).copied().unwrap_or_default();
                    let is_compared = known_at + COMPARED_NS > at;
                    prop_assert!(
                        *amount >= known || !is_compared,
                        "{} came back with {} instead of {}", key, amount, known
                    );
                    seen.insert(*key, (*amount, at));
                }
                if added > 0 {
                    prop_assert_eq!(grown, vec![added]);
                } else {
                    prop_assert!(grown.is_empty());
                }
                // One that is still there gives way only to another that costs clearly more.
                let came = fold.places.own().filter(|(key, _)| !had.contains_key(key));
                let dearest = came.map(|(_, place)| place.cost).fold(0.0, f64::max);
                let stays = |key: &u16| fold.places.own().any(|(own, _)| own == key);
                for (key, _) in had.iter().filter(|(key, gone)| !**gone && !stays(key)) {
                    let cost = fold.waiting.get(key).map(|waiting| waiting.cost);
                    prop_assert!(
                        is_limit || cost.is_some_and(|cost| dearest > cost * TAKEOVER),
                        "{} gave way at {:?} to one of {}", key, cost, dearest
                    );
                }
                // Nothing is forgotten unless more was to be remembered than may be.
                let most = (KEPT + 1) * largest;
                let kept: BTreeMap<u16, u64> =
                    fold.remembered.iter().map(|(key, amount)| (*key, *amount)).collect();
                let is_kept = |key: &u16| now.contains_key(key) || kept.contains_key(key);
                for (_, amount) in before.iter().filter(|(key, _)| !is_kept(key)) {
                    prop_assert_eq!(kept.len() + fold.places.taken(), most);
                    forgotten += amount;
                }
                let in_memory: u64 = kept.values().sum();
                prop_assert_eq!(now.values().sum::<u64>() + in_memory + forgotten, all);
                prop_assert!(fold.places.taken() <= limit && now.len() <= limit + 1);
                prop_assert!(fold.waiting.len() <= (2 * KEPT * limit).max(2));
                prop_assert!(kept.len() + fold.places.taken() <= most);
                prop_assert!(fold.waiting.keys().all(|key| fold.places.get(key).is_none()));
            }
        }
    }
}

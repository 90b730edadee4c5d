//! The subjects that cost most, each with a counter of its own; the others share one.
//!
//! What comes is counted once, for the subject if it has a counter of its own at that time, else for
//! the rest. So no counter ever falls while it is shown: a subject that gets a counter counts from 0 what comes from then
//! on, and the rest keeps what it had. As long as there is room, every subject has a counter from its first value on.
//!
//! Cost decays, so that what costs now counts, not what did yesterday. A subject without a counter
//! takes the place of one that costs clearly less, and far less if that got its counter of late. One that is
//! gone gives way to any other, but keeps its counter until then.

use std::collections::BTreeMap;

use super::amount::Amount;
use super::bounded::{Bounded, Foldable};

/// Time in which a cost counts half, ns.
const HALF_LIFE_NS: f64 = 60e9;
/// How many times the cost of one with a counter another must cost to take its place.
const TAKEOVER: f64 = 2.0;
/// The same while the one with a counter has not had it for long: who begins to cost much is shown at once.
const EARLY_TAKEOVER: f64 = 16.0;
/// For how long that is, ns.
const STAY_NS: u64 = 60_000_000_000;
/// Subjects without a counter whose cost is kept, for each place.
const KEPT: usize = 4;
/// Costs are scaled up instead of decaying; beyond this scale all begin anew, before they overflow.
const LARGEST_SCALE: f64 = 1e30;

#[derive(Debug, Default)]
struct HeavyHitterCounter<V> {
    amount: V,
    /// What it counts came after that time; 0 = after the first.
    from_ns: u64,
    cost: f64,
    since_ns: u64,
    gone_ns: Option<u64>,
}

impl<V> HeavyHitterCounter<V> {
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

#[derive(Debug)]
pub struct Fold<K, V> {
    places: Bounded<K, HeavyHitterCounter<V>>,
    /// What subjects without a counter cost.
    waiting: BTreeMap<K, f64>,
    /// Scale of the costs, and the time of scale 1.
    scale: f64,
    began_ns: u64,
    before_ns: u64,
    at_ns: u64,
    folded: u64,
}

impl<K: Foldable, V: Amount> Fold<K, V> {
    /// Room for that many subjects, the rest not counted.
    pub fn new(limit: usize) -> Self {
        Self {
            places: Bounded::new(limit),
            waiting: BTreeMap::new(),
            scale: 1.0,
            began_ns: 0,
            before_ns: 0,
            at_ns: 0,
            folded: 0,
        }
    }

    /// Makes room for another number of subjects. Those that cost least give way.
    pub fn set_limit(&mut self, limit: usize) {
        self.places.set_most(limit);
        while self.places.taken() > limit {
            let cheapest = self.places.own().min_by(|a, b| a.1.cost.total_cmp(&b.1.cost));
            let Some(out) = cheapest.map(|(key, _)| key.clone()) else { break };
            self.dismiss(out);
        }
        self.forget_cheap();
    }

    /// Turns to the next time; what is added from now on came until then. Subjects change places.
    pub fn advance(&mut self, at_ns: u64) {
        self.before_ns = self.at_ns;
        self.at_ns = self.at_ns.max(at_ns);
        let passed = self.at_ns.saturating_sub(self.began_ns) as f64;
        self.scale = (passed / HALF_LIFE_NS).exp2();
        if self.scale > LARGEST_SCALE {
            for (_, place) in self.places.iter_mut() {
                place.cost /= self.scale;
            }
            for cost in self.waiting.values_mut() {
                *cost /= self.scale;
            }
            (self.scale, self.began_ns) = (1.0, self.at_ns);
        }
        self.give_to_expensive();
    }

    pub fn add(&mut self, key: &K, more: &V, cost: u64) {
        let cost = cost as f64 * self.scale;
        if let Some(place) = self.places.get_mut(key) {
            place.amount.add(more);
            place.cost += cost;
            place.gone_ns = None;
            return;
        }
        let rest = key.rest();
        if *key == rest {
            return self.places.value(rest).amount.add(more);
        }
        let before = self.waiting.get(key).copied();
        if self.make_room() {
            self.waiting.remove(key);
            self.admit(key.clone(), more.clone(), self.before_ns, before.unwrap_or(0.0) + cost);
            return;
        }
        *self.waiting.entry(key.clone()).or_default() += cost;
        if before.is_none() {
            self.folded += 1;
            self.forget_cheap();
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

    /// Every counter, in order, with the time from which on it counts, ns; 0 = from the first on.
    pub fn counters(&self) -> impl Iterator<Item = (&K, &V, u64)> {
        self.places.iter().map(|(key, place)| (key, &place.amount, place.from_ns))
    }

    /// How often a subject became one of the rest: because it had no room, or gave way.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Whether there is a free place: if need be, that of the subject that has been gone for longest.
    fn make_room(&mut self) -> bool {
        if !self.places.is_full() {
            return true;
        }
        let gone = self.places.own().filter_map(|(key, place)| Some((place.gone_ns?, key)));
        let Some(out) = gone.min().map(|(_, key)| key.clone()) else { return false };
        self.dismiss(out);
        true
    }

    fn admit(&mut self, key: K, amount: V, from_ns: u64, cost: f64) {
        let place =
            HeavyHitterCounter { amount, from_ns, cost, since_ns: self.at_ns, gone_ns: None };
        *self.places.value(key) = place;
    }

    /// Takes a subject's counter from it.
    fn dismiss(&mut self, out: K) {
        let Some(place) = self.places.remove(&out) else { return };
        if place.gone_ns.is_none() {
            self.waiting.insert(out, place.cost);
            self.folded += 1;
        }
    }

    fn give_to_expensive(&mut self) {
        // Every turn gives a place to one who costs more than any that is dismissed, so it ends.
        while let Some((key, cost)) = self.waiting.iter().max_by(|a, b| a.1.total_cmp(b.1)) {
            let cheapest = self
                .places
                .own()
                .map(|(key, place)| (place.bar(self.at_ns), key))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((bar, out)) = cheapest else { return };
            if *cost <= bar {
                return;
            }
            let (key, cost, out) = (key.clone(), *cost, out.clone());
            self.dismiss(out);
            self.waiting.remove(&key);
            self.admit(key, V::default(), self.before_ns, cost);
        }
    }

    /// Keeps the costs of those who may get a place soonest.
    fn forget_cheap(&mut self) {
        let most = (self.places.most() * KEPT).max(1);
        if self.waiting.len() < 2 * most {
            return;
        }
        let mut costs: Vec<f64> = self.waiting.values().copied().collect();
        costs.sort_by(|a, b| b.total_cmp(a));
        let Some(least) = costs.get(most).copied() else { return };
        // Of several that cost the same, all go.
        self.waiting.retain(|_, cost| *cost > least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        fold.counters().map(|(key, amount, _)| (*key, *amount)).collect()
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
    fn one_that_gave_way_begins_anew() {
        let begins = |fold: &Fold<u16, u64>| -> Vec<(u16, u64, u64)> {
            fold.counters().map(|(key, amount, from_ns)| (*key, *amount, from_ns)).collect()
        };
        let mut fold = Fold::new(1);
        fold.advance(SECOND);
        fold.add(&1, &10, 10);
        fold.release(&1);
        assert_eq!(begins(&fold), [(1, 10, 0)]);
        fold.advance(2 * SECOND);
        fold.add(&2, &20, 20);
        // What is added came since the time before.
        assert_eq!((begins(&fold), fold.folded()), (vec![(2, 20, SECOND)], 0));
        fold.release(&2);
        fold.advance(3 * SECOND);
        fold.add(&1, &5, 5);
        assert_eq!(begins(&fold), [(1, 5, 2 * SECOND)]);
        // One that takes the place of another.
        fold.add(&3, &1_000, 1_000);
        fold.advance(4 * SECOND);
        fold.add(&3, &7, 7);
        assert_eq!(begins(&fold), [(3, 7, 3 * SECOND), (REST, 1_000, 0)]);
    }

    #[test]
    fn one_that_comes_back_to_its_place_goes_on() {
        let mut fold = Fold::new(1);
        fold.add(&1, &10, 10);
        fold.release(&1);
        fold.add(&1, &5, 5);
        assert_eq!(sums(&fold), [(1, 15)]);
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
        fn every_value_counts_once_and_nothing_that_stays_is_lower(
            mut limit in 0usize..8,
            steps in proptest::collection::vec(step(), 0..400),
        ) {
            let mut fold: Fold<u16, u64> = Fold::new(limit);
            let (mut at, mut all, mut dismissed) = (0, 0, 0);
            for step in steps {
                let before: BTreeMap<u16, (u64, u64)> =
                    fold.counters().map(|(key, amount, from)| (*key, (*amount, from))).collect();
                let had: BTreeMap<u16, bool> = fold
                    .places
                    .own()
                    .map(|(key, place)| (*key, place.gone_ns.is_some()))
                    .collect();
                let mut added = 0;
                // As samples follow each other.
                at += 1;
                if let Step::Advance(by) = step {
                    at += by;
                }
                fold.advance(at);
                // One that is still there gives way only to another that costs clearly more.
                let came = fold.places.own().filter(|(key, _)| !had.contains_key(key));
                let dearest = came.map(|(_, place)| place.cost).fold(0.0, f64::max);
                let stays = |key: &u16| fold.places.own().any(|(own, _)| own == key);
                for (key, _) in had.iter().filter(|(key, gone)| !**gone && !stays(key)) {
                    let cost = fold.waiting.get(key).copied();
                    prop_assert!(
                        cost.is_some_and(|cost| dearest > cost * TAKEOVER),
                        "{} gave way at {:?} to one of {}", key, cost, dearest
                    );
                }
                match step {
                    Step::Advance(_) => {}
                    Step::Add(key, amount) => {
                        fold.add(&key, &amount, amount);
                        added = amount;
                        all += amount;
                    }
                    Step::Release(key) => fold.release(&key),
                    Step::Limit(to) => {
                        limit = to;
                        fold.set_limit(limit);
                    }
                }
                // In the counters that are shown, exactly what was added came to exactly one.
                let now: BTreeMap<u16, (u64, u64)> =
                    fold.counters().map(|(key, amount, from)| (*key, (*amount, from))).collect();
                let mut grown = Vec::new();
                for (key, (amount, from)) in &now {
                    let is_same = |(_, then): &&(u64, u64)| then == from;
                    let known = before.get(key).filter(is_same).map_or(0, |(amount, _)| *amount);
                    prop_assert!(*amount >= known, "{} fell from {} to {}", key, known, amount);
                    grown.extend(amount.checked_sub(known).filter(|grown| *grown > 0));
                    // One that begins anew does so later.
                    let known_from = before.get(key).map_or(0, |(_, from)| *from);
                    prop_assert!(*from >= known_from && *from <= at);
                }
                if added > 0 {
                    prop_assert_eq!(grown, vec![added]);
                } else {
                    prop_assert!(grown.is_empty());
                }
                let goes_on = |key: &u16, from: u64| now.get(key).is_some_and(|(_, now)| *now == from);
                let left = before.iter().filter(|(key, (_, from))| !goes_on(key, *from));
                dismissed += left.map(|(_, (amount, _))| amount).sum::<u64>();
                let shown = now.values().map(|(amount, _)| amount).sum::<u64>();
                prop_assert_eq!(shown + dismissed, all);
                prop_assert!(fold.places.taken() <= limit && now.len() <= limit + 1);
                prop_assert!(fold.waiting.len() <= (2 * KEPT * limit).max(2));
                prop_assert!(fold.waiting.keys().all(|key| fold.places.get(key).is_none()));
            }
        }
    }
}

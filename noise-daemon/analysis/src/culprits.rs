//! Who is charged with the delays of an incident: sums by culprit and cause, and their ranking.
//!
//! First is who is charged with most beyond what is usual for it in as long a time: whom a subject
//! always waits for did not disturb it.
//!
//! Delay that has no known culprit is reported as `untracked`, never spread over those that have one.

use std::collections::BTreeMap;

use noise_common::charge::Cause;
use noise_common::signals::Signal;

use super::name::{Name, is_catch_all};
use super::watched::Watched;

/// The least part of a culprit that is named before the victim's own threads.
const GOOD_PART: f64 = 0.25;

/// Most culprits of an incident that are listed by name: more than anyone reads, and what a busy host has in a window.
const MOST_CULPRITS: usize = 32;

/// Most that are summed up by name; where there are more, half of them stay. One that does a little in each window has
/// time to come to more than others before it has to make room.
const MOST_SUMS: usize = 4 * MOST_CULPRITS;

/// Part of the delays of a window, charged to who caused it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Charge {
    pub culprit: Name,
    pub cause: Cause,
    pub charged_ns: u64,
}

/// Part of an incident's delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Time {
    pub seconds: f64,
    /// Of all delays of the incident, 0 to 1.
    pub share: f64,
}

impl Time {
    fn new(part_ns: u64, whole_ns: u64) -> Self {
        let share = if whole_ns > 0 { part_ns as f64 / whole_ns as f64 } else { 0.0 };
        Self { seconds: part_ns as f64 / 1e9, share }
    }
}

/// One who is charged with a part of an incident's delays.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Culprit<C> {
    pub culprit: C,
    pub cause: Cause,
    /// How much, of all delays.
    pub time: Time,
    /// How much beyond what is usual for it, of all that is beyond; 0 where nothing is.
    pub beyond: Time,
}

impl<C> Culprit<C> {
    /// Its part in the disturbance, 0 to 1: of what is beyond the usual, or of all delays where nothing is.
    pub fn part(&self, nothing_beyond: bool) -> f64 {
        if nothing_beyond { self.time.share } else { self.beyond.share }
    }
}

impl<C: Eq> Culprit<C> {
    /// Whether both are the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        is_same((&self.culprit, self.cause), (&other.culprit, other.cause))
    }
}

/// Whether two culprits are the same. A cgroup is the same for its own tasks and for others'.
fn is_same<C: Eq>((one, how): (&C, Cause), (other, with): (&C, Cause)) -> bool {
    (how == with || how.is_of_cgroup() && with.is_of_cgroup()) && one == other
}

/// Whether no culprit is charged with more than usual.
pub(super) fn nothing_beyond<C>(culprits: &[Culprit<C>]) -> bool {
    culprits.iter().all(|culprit| culprit.beyond.seconds <= 0.0)
}

/// The charges of an incident, the largest beyond the usual first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranking {
    pub culprits: Vec<Culprit<Name>>,
    /// Those that had no room.
    pub others: Time,
    pub untracked: Time,
    /// All that is beyond the usual, those without a name included.
    pub beyond_seconds: f64,
}

impl Ranking {
    /// The same with the first other cgroup that did a good part in front of the victim's own threads, of waits for a CPU: a
    /// victim that gets less CPU time than before has its threads queue behind each other.
    pub fn others_first(mut self, watched: Watched) -> Self {
        let nothing_beyond = nothing_beyond(&self.culprits);
        let is_other = |one: &Culprit<Name>| {
            one.cause == Cause::Foreign
                && !is_catch_all(&one.culprit)
                && one.part(nothing_beyond) >= GOOD_PART
        };
        let is_behind = self.culprits.first().is_some_and(|first| first.cause == Cause::Own);
        if watched == Signal::CgroupRunqueueWait
            && is_behind
            && let Some(other) = self.culprits.iter().position(is_other)
            && let Some(before) = self.culprits.get_mut(..=other)
        {
            before.rotate_right(1);
        }
        self
    }

    /// Both as one; at most [`MOST_CULPRITS`] are listed by name.
    pub fn together(one: &Self, other: &Self) -> Self {
        let seconds = |ranking: &Self| {
            let named: f64 = ranking.culprits.iter().map(|culprit| culprit.time.seconds).sum();
            named + ranking.others.seconds + ranking.untracked.seconds
        };
        let whole = seconds(one) + seconds(other);
        let beyond_seconds = one.beyond_seconds + other.beyond_seconds;
        let part = |seconds: f64, whole: f64| {
            let share = if whole > 0.0 { seconds / whole } else { 0.0 };
            Time { seconds, share }
        };
        let mut sums: BTreeMap<(Cause, &Name), (f64, f64)> = BTreeMap::new();
        for culprit in one.culprits.iter().chain(&other.culprits) {
            let (time, beyond) = sums.entry((culprit.cause, &culprit.culprit)).or_default();
            *time += culprit.time.seconds;
            *beyond += culprit.beyond.seconds;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        // The order of the map settles ties.
        sums.sort_by(|(_, (time, beyond)), (_, (with, more))| {
            more.total_cmp(beyond).then_with(|| with.total_cmp(time))
        });
        let no_room = sums.split_off(sums.len().min(MOST_CULPRITS));
        let others = no_room.iter().map(|(_, (time, _))| time).sum::<f64>()
            + one.others.seconds
            + other.others.seconds;
        let culprit = |((cause, who), (time, beyond)): ((Cause, &Name), (f64, f64))| Culprit {
            culprit: who.clone(),
            cause,
            time: part(time, whole),
            beyond: part(beyond, beyond_seconds),
        };
        Self {
            culprits: sums.into_iter().map(culprit).collect(),
            others: part(others, whole),
            untracked: part(one.untracked.seconds + other.untracked.seconds, whole),
            beyond_seconds,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct ChargeSums {
    #[serde(with = "written")]
    charged_ns: BTreeMap<(Cause, Name), u64>,
    others_ns: u64,
    untracked_ns: u64,
}

impl ChargeSums {
    /// The charges of one window, of which at most [`MOST_CULPRITS`] are listed by name.
    pub fn new(charges: &[Charge]) -> Self {
        let mut sums = Self::default();
        for charge in charges.iter().filter(|charge| charge.charged_ns > 0) {
            if charge.cause == Cause::Untracked {
                sums.untracked_ns = sums.untracked_ns.saturating_add(charge.charged_ns);
            } else {
                sums.charge((charge.cause, charge.culprit.clone()), charge.charged_ns);
            }
        }
        sums.prune(MOST_CULPRITS);
        sums
    }

    /// Adds the charges of another.
    pub fn add(&mut self, other: &Self) {
        for (key, charged_ns) in &other.charged_ns {
            self.charge(key.clone(), *charged_ns);
        }
        self.others_ns = self.others_ns.saturating_add(other.others_ns);
        self.untracked_ns = self.untracked_ns.saturating_add(other.untracked_ns);
        if self.charged_ns.len() > MOST_SUMS {
            self.prune(MOST_SUMS / 2);
        }
    }

    fn charge(&mut self, key: (Cause, Name), charged_ns: u64) {
        let sum = self.charged_ns.entry(key).or_default();
        *sum = sum.saturating_add(charged_ns);
    }

    fn prune(&mut self, limit: usize) {
        while self.charged_ns.len() > limit {
            let least = self.charged_ns.iter().min_by_key(|(_, charged_ns)| **charged_ns);
            let Some(key) = least.map(|(key, _)| key.clone()) else { return };
            let charged_ns = self.charged_ns.remove(&key).unwrap_or_default();
            self.others_ns = self.others_ns.saturating_add(charged_ns);
        }
    }

    fn halve(&mut self) {
        self.charged_ns.values_mut().for_each(|charged_ns| *charged_ns /= 2);
        self.charged_ns.retain(|_, charged_ns| *charged_ns > 0);
        self.others_ns /= 2;
        self.untracked_ns /= 2;
    }

    /// Ranks the charges against all delays, `delays_ns`, and against those that are usual in as
    /// long a time: what has no culprit is untracked. Shares add up to 1, even where more
    /// was charged than was delayed because a wait was charged in one window and ended in the next. At most
    /// [`MOST_CULPRITS`] are listed by name.
    pub fn ranking(&self, delays_ns: u64, usual: &Expected<'_>) -> Ranking {
        let named_ns = self
            .charged_ns
            .values()
            .fold(self.others_ns, |sum, charged_ns| sum.saturating_add(*charged_ns));
        let untracked_ns = self.untracked_ns.max(delays_ns.saturating_sub(named_ns));
        let whole_ns = named_ns.saturating_add(untracked_ns);
        let mut sums: Vec<_> = self
            .charged_ns
            .iter()
            .map(|(key, ns)| (key, *ns, ns.saturating_sub(usual.of(key))))
            .collect();
        // The order of the map settles ties.
        sums.sort_by_key(|(_, ns, beyond_ns)| std::cmp::Reverse((*beyond_ns, *ns)));
        let beyond_others_ns = self.others_ns.saturating_sub(usual.others());
        let beyond_untracked_ns = untracked_ns.saturating_sub(usual.untracked());
        let beyond_ns = sums
            .iter()
            .map(|(.., beyond_ns)| *beyond_ns)
            .fold(beyond_others_ns.saturating_add(beyond_untracked_ns), u64::saturating_add);
        let no_room = sums.split_off(sums.len().min(MOST_CULPRITS));
        let others_ns =
            no_room.iter().fold(self.others_ns, |sum, (_, ns, _)| sum.saturating_add(*ns));
        let culprits = sums
            .into_iter()
            .map(|((cause, culprit), ns, own_ns)| Culprit {
                culprit: culprit.clone(),
                cause: *cause,
                time: Time::new(ns, whole_ns),
                beyond: Time::new(own_ns, beyond_ns),
            })
            .collect();
        Ranking {
            culprits,
            others: Time::new(others_ns, whole_ns),
            untracked: Time::new(untracked_ns, whole_ns),
            beyond_seconds: beyond_ns as f64 / 1e9,
        }
    }

    /// What was charged to one of these.
    pub fn charged_to(&self, whom: &[&Culprit<Name>]) -> u64 {
        let by_them = self.charged_ns.iter().filter(|((cause, culprit), _)| {
            whom.iter().any(|one| is_same((&one.culprit, one.cause), (culprit, *cause)))
        });
        by_them.fold(0, |sum, (_, charged_ns)| sum.saturating_add(*charged_ns))
    }
}

/// Charges that are usual, over the time that they were learnt in.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Usual {
    charged: ChargeSums,
    covered_ns: u64,
    windows: u64,
}

/// Usual charges of a time of some length.
pub(super) struct Expected<'a> {
    usual: &'a Usual,
    length_ns: u64,
}

impl Usual {
    /// Learns a window, of which `delays_ns` were lost; after `half_life` further ones it weighs half.
    pub fn learn(&mut self, charged: &ChargeSums, delays_ns: u64, length_ns: u64, half_life: u64) {
        self.charged.add(charged);
        let named_ns =
            charged.charged_ns.values().fold(charged.others_ns, |sum, ns| sum.saturating_add(*ns));
        let unsaid_ns = delays_ns.saturating_sub(named_ns).saturating_sub(charged.untracked_ns);
        self.charged.untracked_ns = self.charged.untracked_ns.saturating_add(unsaid_ns);
        self.learn_quiet(length_ns);
        self.windows = self.windows.saturating_add(1);
        if self.windows >= half_life {
            self.windows = 0;
            self.covered_ns /= 2;
            self.charged.halve();
        }
    }

    /// Time in which nothing happened.
    pub fn learn_quiet(&mut self, length_ns: u64) {
        self.covered_ns = self.covered_ns.saturating_add(length_ns);
    }

    /// The same for what outlives the daemon, with at most [`MOST_CULPRITS`] by name.
    pub fn brief(&self) -> Self {
        let mut brief = self.clone();
        brief.charged.prune(MOST_CULPRITS);
        brief
    }

    /// What is usual in a time of that length.
    pub fn within(&self, length_ns: u64) -> Expected<'_> {
        Expected { usual: self, length_ns }
    }
}

impl Expected<'_> {
    fn scaled(&self, charged_ns: u64) -> u64 {
        match self.usual.covered_ns {
            0 => 0,
            covered_ns => {
                let product = u128::from(charged_ns) * u128::from(self.length_ns);
                u64::try_from(product / u128::from(covered_ns)).unwrap_or(u64::MAX)
            }
        }
    }

    fn of(&self, key: &(Cause, Name)) -> u64 {
        self.usual.charged.charged_ns.get(key).map_or(0, |charged_ns| self.scaled(*charged_ns))
    }

    fn others(&self) -> u64 {
        self.scaled(self.usual.charged.others_ns)
    }

    fn untracked(&self) -> u64 {
        self.scaled(self.usual.charged.untracked_ns)
    }
}

mod written {
    //! Charges as files have them that outlive the daemon: a list, because what they are known by is more than a word.

    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Cause, Name};

    type Key = (Cause, Name);

    pub fn serialize<S: Serializer>(
        own: &BTreeMap<Key, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(own)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        reader: D,
    ) -> Result<BTreeMap<Key, u64>, D::Error> {
        Ok(Vec::deserialize(reader)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::name;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    fn charge(culprit: u64, cause: Cause, charged_ns: u64) -> Charge {
        Charge { culprit: name(culprit), cause, charged_ns }
    }

    /// Charges of which so many have room.
    fn named(charges: &[Charge], room: usize) -> ChargeSums {
        let mut sums = ChargeSums::new(charges);
        sums.prune(room);
        sums
    }

    #[test]
    fn charges_add_up_and_the_largest_comes_first() {
        let mut sums = ChargeSums::new(&[
            charge(1, Cause::Foreign, 2_000_000_000),
            charge(2, Cause::Hardirq, 3_000_000_000),
        ]);
        sums.add(&ChargeSums::new(&[charge(1, Cause::Foreign, 2_000_000_000)]));
        let ranking = sums.ranking(10_000_000_000, &Usual::default().within(0));
        let first = &ranking.culprits[0];
        assert_eq!((&*first.culprit, first.cause), ("1", Cause::Foreign));
        assert_eq!(first.time, Time { seconds: 4.0, share: 0.4 });
        assert_eq!(ranking.culprits[1].time.share, 0.3);
        assert_eq!(ranking.untracked, Time { seconds: 3.0, share: 0.3 });
        assert_eq!(ranking.others, Time::default());
    }

    #[test]
    fn who_is_charged_as_always_comes_behind_who_is_not() {
        let mut usual = Usual::default();
        let always = ChargeSums::new(&[charge(1, Cause::Own, 400)]);
        for _ in 0..10 {
            usual.learn(&always, 500, 1000, 100);
        }
        let mut disturbed = ChargeSums::default();
        for _ in 0..4 {
            let charges = [charge(1, Cause::Own, 450), charge(2, Cause::Foreign, 200)];
            disturbed.add(&ChargeSums::new(&charges));
        }
        let ranking = disturbed.ranking(3000, &usual.within(4000));
        let ranked: Vec<_> =
            ranking.culprits.iter().map(|who| (&*who.culprit, who.beyond.seconds * 1e9)).collect();
        assert_eq!(ranked, [("2", 800.0), ("1", 200.0)]);
        assert!((ranking.culprits[0].beyond.share - 0.8).abs() < 1e-9);
        assert!((ranking.culprits[1].time.share - 0.6).abs() < 1e-9);
        // As much as always, in as long a time: nothing is beyond, and the sums rank.
        let same = always.ranking(500, &usual.within(1000));
        assert!(nothing_beyond(&same.culprits));
        assert_eq!(&*same.culprits[0].culprit, "1");
    }

    #[test]
    fn another_cgroup_that_did_a_good_part_comes_before_the_victims_own_threads() {
        let ranked = |foreign_ns: u64, watched: Signal| -> Vec<String> {
            let charges = [
                charge(1, Cause::Own, 1_000 - foreign_ns - 10),
                charge(2, Cause::Hardirq, 10),
                charge(3, Cause::Foreign, foreign_ns),
            ];
            let ranking = ChargeSums::new(&charges).ranking(1_000, &Usual::default().within(0));
            let culprits = ranking.others_first(watched.into()).culprits;
            culprits.iter().map(|one| one.culprit.to_string()).collect()
        };
        assert_eq!(ranked(300, Signal::CgroupRunqueueWait), ["3", "1", "2"]);
        assert_eq!(ranked(200, Signal::CgroupRunqueueWait), ["1", "3", "2"], "a small part");
        // Who floods a disk waits for himself most.
        assert_eq!(ranked(300, Signal::BlockDeviceWait), ["1", "3", "2"]);
    }

    #[test]
    fn what_is_usual_stays_so_when_what_was_learnt_is_halved() {
        let charges = [
            charge(1, Cause::Own, 400_000_000),
            charge(2, Cause::Own, 80_000_000),
            charge(0, Cause::Untracked, 40_000_000),
        ];
        let always = named(&charges, 1);
        for half_life in [1, 3, 100] {
            let mut usual = Usual::default();
            for _ in 0..10 {
                usual.learn(&always, 560_000_000, 1_000_000_000, half_life);
            }
            let beyond = |length_ns| {
                let ranking = always.ranking(560_000_000, &usual.within(length_ns));
                (ranking.culprits[0].beyond.seconds, ranking.beyond_seconds)
            };
            for (length_ns, own, all) in [(1_000_000_000, 0.0, 0.0), (500_000_000, 0.2, 0.28)] {
                let is = beyond(length_ns);
                assert!(
                    (is.0 - own).abs() < 1e-7 && (is.1 - all).abs() < 1e-7,
                    "{half_life} {is:?}"
                );
            }
        }
    }

    #[test]
    fn what_was_usual_long_ago_is_so_no_more() {
        let [before, now] =
            [1, 2].map(|culprit| ChargeSums::new(&[charge(culprit, Cause::Foreign, 400_000_000)]));
        let mut usual = Usual::default();
        for windows in [(&before, 100), (&now, 40)] {
            for _ in 0..windows.1 {
                usual.learn(windows.0, 400_000_000, 1_000_000_000, 10);
            }
        }
        let beyond = |sums: &ChargeSums| {
            sums.ranking(400_000_000, &usual.within(1_000_000_000)).culprits[0].beyond.seconds
        };
        assert!(beyond(&before) > 0.36 && beyond(&now) < 0.04, "{}", beyond(&before));
    }

    #[test]
    fn two_as_one_keep_all_that_each_had() {
        let usual = Usual::default();
        let own = |culprit, charged_ns| charge(culprit, Cause::Own, charged_ns);
        let one = named(&[own(1, 400), own(2, 80), own(3, 20)], 2);
        let others = (4..).take(MOST_CULPRITS - 1).map(|culprit| own(culprit, 90));
        let other = ChargeSums::new(&others.chain([own(1, 300), own(99, 10)]).collect::<Vec<_>>());
        let (one, other) =
            (one.ranking(600, &usual.within(0)), other.ranking(3_200, &usual.within(0)));
        let both = Ranking::together(&one, &other);
        let ns = |time: &Time| ((time.seconds * 1e9).round(), (time.share * 3_800.0).round());
        let named: Vec<_> =
            both.culprits.iter().map(|one| (&*one.culprit, ns(&one.time))).collect();
        assert_eq!(named.len(), MOST_CULPRITS);
        assert_eq!(named[..2], [("1", (700.0, 700.0)), ("10", (90.0, 90.0))]);
        // The second of the first has no room either.
        assert_eq!(ns(&both.others), (110.0, 110.0));
        assert_eq!(ns(&both.untracked), (200.0, 200.0));
        assert_eq!((both.beyond_seconds * 1e9).round(), 3_800.0);
        let nothing = ChargeSums::default().ranking(0, &Usual::default().within(0));
        assert_eq!(Ranking::together(&nothing, &nothing), nothing);
    }

    #[test]
    fn who_does_a_little_in_each_window_is_named_for_all_of_it() {
        let foreign = |culprit, charged_ns| charge(culprit, Cause::Foreign, charged_ns);
        let large: Vec<_> = (0..32).map(|culprit| foreign(culprit, 1_000 + culprit)).collect();
        let mut sums = ChargeSums::new(&large);
        for _ in 0..200 {
            sums.add(&ChargeSums::new(&[foreign(40, 10)]));
        }
        let ranking = sums.ranking(0, &Usual::default().within(0));
        let first = &ranking.culprits[0];
        assert_eq!((&*first.culprit, (first.time.seconds * 1e9).round()), ("40", 2_000.0));
        assert_eq!(ranking.culprits.len(), MOST_CULPRITS);
        // The smallest of the large ones has no room.
        assert_eq!((ranking.others.seconds * 1e9).round(), 1_000.0);
        (100..400).for_each(|culprit| sums.add(&ChargeSums::new(&[foreign(culprit, 1)])));
        assert!(sums.charged_ns.len() <= MOST_SUMS);
        let usual = Usual { charged: sums, ..Usual::default() }.brief().charged;
        let named = usual.charged_ns.values().sum::<u64>();
        assert_eq!((usual.charged_ns.len(), named + usual.others_ns), (32, 34_796));
    }

    #[test]
    fn one_culprit_with_two_causes_is_reported_twice() {
        let charges = [charge(1, Cause::Foreign, 5), charge(1, Cause::Kthread, 6)];
        assert_eq!(
            ChargeSums::new(&charges).ranking(11, &Usual::default().within(0)).culprits.len(),
            2
        );
    }

    #[test]
    fn untracked_is_what_was_said_or_what_is_missing() {
        let said = ChargeSums::new(&[charge(0, Cause::Untracked, 70)])
            .ranking(70, &Usual::default().within(0));
        assert!(said.culprits.is_empty());
        assert_eq!(said.untracked.share, 1.0);
        let unsaid = ChargeSums::default().ranking(70, &Usual::default().within(0));
        assert_eq!(unsaid.untracked.share, 1.0);
        assert_eq!(
            ChargeSums::default().ranking(0, &Usual::default().within(0)).untracked,
            Time::default()
        );
        let both = [charge(0, Cause::Untracked, 30), charge(1, Cause::Foreign, 40)];
        let both = ChargeSums::new(&both).ranking(100, &Usual::default().within(0));
        assert_eq!((both.untracked.share, both.culprits[0].time.share), (0.6, 0.4));
    }

    #[test]
    fn those_without_room_are_reported_as_one() {
        let charges = [
            charge(1, Cause::Foreign, 10),
            charge(2, Cause::Foreign, 60),
            charge(3, Cause::Foreign, 30),
        ];
        let ranking = named(&charges, 1).ranking(100, &Usual::default().within(0));
        assert_eq!(ranking.culprits.len(), 1);
        assert_eq!(&*ranking.culprits[0].culprit, "2");
        assert_eq!(ranking.others.share, 0.4);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one_within_the_bound(
            charges in proptest::collection::vec((0u64..256, any::<u32>()), 0..120),
            delays in any::<u32>(),
        ) {
            let mut sums = ChargeSums::default();
            for (culprit, charged) in &charges {
                let one = [charge(*culprit, Cause::Foreign, u64::from(*charged))];
                sums.add(&ChargeSums::new(&one));
            }
            let ranking = sums.ranking(u64::from(delays), &Usual::default().within(0));
            prop_assert!(ranking.culprits.len() <= MOST_CULPRITS);
            let sum = ranking.culprits.iter().map(|culprit| culprit.time.share).sum::<f64>()
                + ranking.others.share
                + ranking.untracked.share;
            let nothing = delays == 0 && charges.iter().all(|(_, charged)| *charged == 0);
            prop_assert!((sum - if nothing { 0.0 } else { 1.0 }).abs() < 1e-9, "{}", sum);
            let mut reversed = charges.clone();
            reversed.reverse();
            let all = |charges: &[(u64, u32)]| {
                let charges: Vec<_> = charges
                    .iter()
                    .map(|(culprit, charged)| charge(*culprit, Cause::Own, u64::from(*charged)))
                    .collect();
                ChargeSums::new(&charges)
            };
            prop_assert_eq!(all(&charges), all(&reversed));
        }
    }
}

//! Who is charged with the delays of an incident: sums by culprit and cause, and their ranking.
//!
//! What was charged to nobody is told as `untracked`, never spread over those who are known.

use std::collections::BTreeMap;

use noise_common::charge::Cause;

use super::window::Charge;

/// Part of an incident's delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Time {
    /// How much, seconds.
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
    /// Who.
    pub culprit: C,
    /// How.
    pub cause: Cause,
    /// How much.
    pub time: Time,
}

/// The charges of an incident, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranking<C> {
    pub culprits: Vec<Culprit<C>>,
    /// Those that had no room.
    pub others: Time,
    pub untracked: Time,
}

/// Sums of charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger<C> {
    charged_ns: BTreeMap<(Cause, C), u64>,
    others_ns: u64,
    untracked_ns: u64,
}

impl<C> Default for Ledger<C> {
    fn default() -> Self {
        Self { charged_ns: BTreeMap::new(), others_ns: 0, untracked_ns: 0 }
    }
}

impl<C: Clone + Ord> Ledger<C> {
    /// The charges of one window, of which at most `limit` are told apart.
    pub fn new(charges: &[Charge<C>], limit: usize) -> Self {
        let mut ledger = Self::default();
        for charge in charges.iter().filter(|charge| charge.charged_ns > 0) {
            if charge.cause == Cause::Untracked {
                ledger.untracked_ns = ledger.untracked_ns.saturating_add(charge.charged_ns);
            } else {
                ledger.charge((charge.cause, charge.culprit.clone()), charge.charged_ns);
            }
        }
        ledger.prune(limit);
        ledger
    }

    /// Adds the charges of another; at most `limit` are told apart.
    pub fn add(&mut self, other: &Self, limit: usize) {
        for (key, charged_ns) in &other.charged_ns {
            self.charge(key.clone(), *charged_ns);
        }
        self.others_ns = self.others_ns.saturating_add(other.others_ns);
        self.untracked_ns = self.untracked_ns.saturating_add(other.untracked_ns);
        self.prune(limit);
    }

    fn charge(&mut self, key: (Cause, C), charged_ns: u64) {
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

    /// Ranks the charges against all delays, `delays_ns`: what nobody was charged with is
    /// untracked. Shares add up to 1, even where more was charged than was delayed because a wait
    /// was charged in one window and ended in the next.
    pub fn ranking(&self, delays_ns: u64) -> Ranking<C> {
        let named_ns = self
            .charged_ns
            .values()
            .fold(self.others_ns, |sum, charged_ns| sum.saturating_add(*charged_ns));
        let untracked_ns = self.untracked_ns.max(delays_ns.saturating_sub(named_ns));
        let whole_ns = named_ns.saturating_add(untracked_ns);
        let mut sums: Vec<_> = self.charged_ns.iter().collect();
        // The order of the map settles ties.
        sums.sort_by_key(|(_, charged_ns)| std::cmp::Reverse(**charged_ns));
        let culprits = sums
            .into_iter()
            .map(|((cause, culprit), charged_ns)| Culprit {
                culprit: culprit.clone(),
                cause: *cause,
                time: Time::new(*charged_ns, whole_ns),
            })
            .collect();
        Ranking {
            culprits,
            others: Time::new(self.others_ns, whole_ns),
            untracked: Time::new(untracked_ns, whole_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    fn charge(culprit: u8, cause: Cause, charged_ns: u64) -> Charge<u8> {
        Charge { culprit, cause, charged_ns }
    }

    #[test]
    fn charges_add_up_and_the_largest_comes_first() {
        let mut ledger = Ledger::new(
            &[charge(1, Cause::Foreign, 2_000_000_000), charge(2, Cause::Hardirq, 3_000_000_000)],
            8,
        );
        ledger.add(&Ledger::new(&[charge(1, Cause::Foreign, 2_000_000_000)], 8), 8);
        let ranking = ledger.ranking(10_000_000_000);
        let first = &ranking.culprits[0];
        assert_eq!((first.culprit, first.cause), (1, Cause::Foreign));
        assert_eq!(first.time, Time { seconds: 4.0, share: 0.4 });
        assert_eq!(ranking.culprits[1].time.share, 0.3);
        assert_eq!(ranking.untracked, Time { seconds: 3.0, share: 0.3 });
        assert_eq!(ranking.others, Time::default());
    }

    #[test]
    fn one_culprit_with_two_causes_is_told_twice() {
        let charges = [charge(1, Cause::Foreign, 5), charge(1, Cause::Kthread, 6)];
        assert_eq!(Ledger::new(&charges, 8).ranking(11).culprits.len(), 2);
    }

    #[test]
    fn untracked_is_what_was_said_or_what_is_missing() {
        let said = Ledger::new(&[charge(0, Cause::Untracked, 70)], 8).ranking(70);
        assert!(said.culprits.is_empty());
        assert_eq!(said.untracked.share, 1.0);
        let unsaid = Ledger::<u8>::default().ranking(70);
        assert_eq!(unsaid.untracked.share, 1.0);
        assert_eq!(Ledger::<u8>::default().ranking(0).untracked, Time::default());
        let both = [charge(0, Cause::Untracked, 30), charge(1, Cause::Foreign, 40)];
        let both = Ledger::new(&both, 8).ranking(100);
        assert_eq!((both.untracked.share, both.culprits[0].time.share), (0.6, 0.4));
    }

    #[test]
    fn those_without_room_are_told_as_one() {
        let charges = [
            charge(1, Cause::Foreign, 10),
            charge(2, Cause::Foreign, 60),
            charge(3, Cause::Foreign, 30),
        ];
        let ranking = Ledger::new(&charges, 1).ranking(100);
        assert_eq!(ranking.culprits.len(), 1);
        assert_eq!(ranking.culprits[0].culprit, 2);
        assert_eq!(ranking.others.share, 0.4);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one_within_the_bound(
            charges in proptest::collection::vec((any::<u8>(), any::<u32>()), 0..60),
            delays in any::<u32>(),
            limit in 1usize..8,
        ) {
            let mut ledger = Ledger::default();
            for (culprit, charged) in &charges {
                let one = [charge(*culprit, Cause::Foreign, u64::from(*charged))];
                ledger.add(&Ledger::new(&one, limit), limit);
            }
            let ranking = ledger.ranking(u64::from(delays));
            prop_assert!(ranking.culprits.len() <= limit);
            let sum = ranking.culprits.iter().map(|culprit| culprit.time.share).sum::<f64>()
                + ranking.others.share
                + ranking.untracked.share;
            let nothing = delays == 0 && charges.iter().all(|(_, charged)| *charged == 0);
            prop_assert!((sum - if nothing { 0.0 } else { 1.0 }).abs() < 1e-9, "{}", sum);
            let mut reversed = charges.clone();
            reversed.reverse();
            let all = |charges: &[(u8, u32)]| {
                let charges: Vec<_> = charges
                    .iter()
                    .map(|(culprit, charged)| charge(*culprit, Cause::Own, u64::from(*charged)))
                    .collect();
                Ledger::new(&charges, limit)
            };
            prop_assert_eq!(all(&charges), all(&reversed));
        }
    }
}

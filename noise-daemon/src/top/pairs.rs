//! PURE: what each victim and culprit had with each other, step by step.
//!
//! Steps come once, but a screen is made of them again and again, from thousands of pairs and a
//! hundred steps. So names are compared when a step comes, not when it is looked at.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use noise_common::charge::{CHARGE_CAUSES, Cause, Charged, RESOURCES, Resource};

use super::history::Deed;

/// A victim, and who did it.
pub type Pair = (Arc<str>, Arc<str>);

/// What a pair cost in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time that the victim lost, ns.
    pub ns: u64,
    /// Delays of which that is a part.
    pub delays: u64,
    /// How often the culprit took a CPU that the victim had.
    pub preemptions: u64,
    causes: u16,
    resources: u16,
}

impl Cost {
    /// Adds what came in another time.
    pub fn add(&mut self, more: &Self) {
        self.ns += more.ns;
        self.delays += more.delays;
        self.preemptions += more.preemptions;
        self.causes |= more.causes;
        self.resources |= more.resources;
    }

    /// Why, of the time.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        let bits = self.causes;
        CHARGE_CAUSES.into_iter().filter(move |cause| bits & (1 << *cause as u8) != 0)
    }

    /// What the victim waited for, or lost.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        let bits = self.resources;
        RESOURCES.into_iter().filter(move |resource| bits & (1 << *resource as u8) != 0)
    }

    /// Whether nobody held what the victim waited for, as far as is known.
    pub fn is_rest(&self) -> bool {
        self.causes().all(|cause| matches!(cause, Cause::Idle | Cause::Untracked))
    }

    fn of(deed: &Deed, charged: Charged) -> Self {
        if deed.resource == Resource::Preemption {
            return Self { preemptions: charged.count, ..Self::default() };
        }
        Self {
            ns: charged.ns,
            delays: charged.count,
            preemptions: 0,
            causes: 1 << deed.cause as u8,
            resources: 1 << deed.resource as u8,
        }
    }
}

/// The costs of one pair, by the time of the step on the clock of the samples, ns; steps without
/// any are missing.
pub type Costs = VecDeque<(u64, Cost)>;

/// The costs of every pair.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Names are long and begin alike: to compare them on the way to each takes longer than this.
    pairs: HashMap<Pair, Costs>,
    lost: VecDeque<(u64, u64)>,
}

impl Pairs {
    /// Takes the next step.
    pub(super) fn push(&mut self, at_ns: u64, deeds: &BTreeMap<Deed, Charged>) {
        let mut lost_ns = 0;
        for (deed, charged) in deeds {
            let pair = (Arc::clone(&deed.victim), Arc::clone(&deed.culprit));
            let costs = self.pairs.entry(pair).or_default();
            let cost = Cost::of(deed, *charged);
            lost_ns += cost.ns;
            match costs.back_mut() {
                Some((newest_ns, sum)) if *newest_ns == at_ns => sum.add(&cost),
                _ => costs.push_back((at_ns, cost)),
            }
        }
        self.lost.push_back((at_ns, lost_ns));
    }

    /// Forgets the steps before that time, ns, and pairs that had nothing since.
    pub(super) fn forget_before(&mut self, at_ns: u64) {
        while self.lost.front().is_some_and(|(then_ns, _)| *then_ns < at_ns) {
            self.lost.pop_front();
        }
        self.pairs.retain(|_, costs| {
            while costs.front().is_some_and(|(then_ns, _)| *then_ns < at_ns) {
                costs.pop_front();
            }
            !costs.is_empty()
        });
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
        self.lost.clear();
    }

    /// What all of them lost, by the time of the step, both ns.
    pub fn lost(&self) -> &VecDeque<(u64, u64)> {
        &self.lost
    }

    /// Every pair, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Pair, &Costs)> {
        self.pairs.iter()
    }

    /// One pair's costs.
    pub fn get(&self, victim: &str, culprit: &str) -> Option<(&Pair, &Costs)> {
        self.pairs.get_key_value(&(Arc::from(victim), Arc::from(culprit)))
    }
}

/// The sum of all that came after a time, ns.
pub fn after(costs: &Costs, from_ns: u64) -> Cost {
    let mut sum = Cost::default();
    let recent = costs.iter().rev().take_while(|(at_ns, _)| *at_ns > from_ns);
    recent.for_each(|(_, cost)| sum.add(cost));
    sum
}

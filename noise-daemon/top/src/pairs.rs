//! PURE: what each victim and culprit had with each other.
//!
//! Steps come once, but a screen is made of them again and again, from thousands of pairs and a
//! hundred steps. So names are compared when a step comes, not when it is looked at.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use noise_common::charge::{CHARGE_CAUSES, Cause, RESOURCES, Resource};
use noise_model::{Amount as _, Interference};

/// A victim, and who did it.
pub type Pair = (Arc<str>, Arc<str>);

/// What a pair cost in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time that the victim lost, ns, its requests and packets each by itself.
    pub ns: u64,
    /// How much of that its threads lost: see [`Interference::of_threads_ns`].
    pub threads_ns: u64,
    /// How much of that it was held up by something else: see [`Interference::held_up_ns`].
    pub held_up_ns: u64,
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
        self.ns.add(&more.ns);
        self.threads_ns.add(&more.threads_ns);
        self.held_up_ns.add(&more.held_up_ns);
        self.delays.add(&more.delays);
        self.preemptions.add(&more.preemptions);
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

    /// Whether no one is known to have held what the victim waited for.
    pub fn is_rest(&self) -> bool {
        self.causes().all(|cause| matches!(cause, Cause::Idle | Cause::Untracked))
    }

    fn of(charge: &Interference) -> Self {
        let charged = charge.charged;
        if charge.resource == Resource::Preemption {
            return Self { preemptions: charged.count, ..Self::default() };
        }
        Self {
            ns: charged.ns,
            threads_ns: charge.of_threads_ns(),
            held_up_ns: charge.held_up_ns(),
            delays: charged.count,
            preemptions: 0,
            causes: 1 << charge.cause as u8,
            resources: 1 << charge.resource as u8,
        }
    }
}

/// A pair in the costs of the steps.
pub type Id = u32;

/// Of a pair that is in some step.
#[derive(Clone, Debug)]
struct KnownPair {
    pair: Pair,
    steps: u32,
    /// Where it is in the newest that it is in.
    at: usize,
}

/// What pairs had in the steps, and who they are.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Names are long and begin alike: to compare them on the way to each takes longer than this.
    ids: HashMap<Pair, Id>,
    known: Vec<Option<KnownPair>>,
    free: Vec<Id>,
    costs: VecDeque<Vec<(Id, Cost)>>,
}

impl Pairs {
    /// Adds the next step.
    pub(super) fn push(&mut self, charges: &[Interference]) {
        let mut costs: Vec<(Id, Cost)> = Vec::with_capacity(charges.len());
        for charge in charges {
            let cost = Cost::of(charge);
            let Some((id, known)) = self.known(charge) else { continue };
            match costs.get_mut(known.at).filter(|(other, _)| *other == id) {
                Some((_, sum)) => sum.add(&cost),
                None => {
                    known.steps += 1;
                    known.at = costs.len();
                    costs.push((id, cost));
                }
            }
        }
        self.costs.push_back(costs);
    }

    fn known(&mut self, charge: &Interference) -> Option<(Id, &mut KnownPair)> {
        let pair = (Arc::clone(&charge.victim), Arc::clone(&charge.culprit));
        let id = match self.ids.get(&pair) {
            Some(id) => *id,
            None => {
                let id = self.free.pop().unwrap_or(self.known.len() as Id);
                let new = Some(KnownPair { pair: pair.clone(), steps: 0, at: 0 });
                match self.known.get_mut(id as usize) {
                    Some(free) => *free = new,
                    None => self.known.push(new),
                }
                self.ids.insert(pair, id);
                id
            }
        };
        Some((id, self.known.get_mut(id as usize)?.as_mut()?))
    }

    /// Forgets the oldest step, and pairs that are in no other.
    pub(super) fn forget_oldest(&mut self) {
        for (id, _) in self.costs.pop_front().into_iter().flatten() {
            let Some(slot) = self.known.get_mut(id as usize) else { continue };
            let Some(known) = slot else { continue };
            known.steps = known.steps.saturating_sub(1);
            if known.steps == 0 {
                self.ids.remove(&known.pair);
                *slot = None;
                self.free.push(id);
            }
        }
    }

    /// What each pair had in so many of the newest steps together, if anything.
    pub fn sums(&self, steps: usize) -> impl Iterator<Item = (Id, &Pair, Cost)> {
        let mut sums = vec![Cost::default(); self.known.len()];
        for (id, cost) in self.costs().rev().take(steps).flatten() {
            if let Some(sum) = sums.get_mut(*id as usize) {
                sum.add(cost);
            }
        }
        let all = (0..).zip(sums).filter(|(_, cost)| *cost != Cost::default());
        all.filter_map(|(id, cost)| Some((id, self.pair(id)?, cost)))
    }

    /// What each pair had in each step, in no particular order; the newest step last.
    pub fn costs(&self) -> impl DoubleEndedIterator<Item = &[(Id, Cost)]> {
        self.costs.iter().map(|costs| &**costs)
    }

    /// What a pair had in each step, if anything; the newest last.
    pub fn costs_of(&self, id: Id) -> impl DoubleEndedIterator<Item = Option<Cost>> {
        let own = move |costs: &[(Id, Cost)]| {
            costs.iter().find(|(one, _)| *one == id).map(|(_, cost)| *cost)
        };
        self.costs().map(own)
    }

    /// How many ids there are, or were: all are below.
    pub fn bound(&self) -> usize {
        self.known.len()
    }

    /// Whether no pair is in any step.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn pair(&self, id: Id) -> Option<&Pair> {
        self.known.get(id as usize)?.as_ref().map(|known| &known.pair)
    }

    pub fn id(&self, victim: &str, culprit: &str) -> Option<Id> {
        self.ids.get(&(Arc::from(victim), Arc::from(culprit))).copied()
    }
}

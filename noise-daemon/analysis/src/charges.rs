//! Who was charged between two samples, sorted by what they are charged for.

use std::collections::BTreeMap;
use std::sync::Arc;

use noise_common::charge::Resource;
use noise_common::signals::Signal;
use noise_common::subject::SubjectKind;
use noise_model::{Interference, Step};

use super::culprits::Charge;
use super::name::Name;

/// What the same culprits are charged for: all delays of one resource, of one victim or at one place.
///
/// Charges are not kept by operation of a device nor by what made a task runnable: the series of a
/// signal that differ only in these share a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pool {
    resource: Resource,
    /// Victim or place; none = all of them.
    of: Option<Name>,
}

impl Pool {
    /// The pool that the delays of a signal are charged from; none for signals that are causes.
    pub fn new(signal: Signal, labels: &[String]) -> Option<Self> {
        let info = signal.info();
        let of = match info.subject {
            SubjectKind::Kinds(_) => None,
            _ => labels.first().map(|of| of.as_str().into()),
        };
        Some(Self { resource: info.resource?, of })
    }

    fn of_charge(charge: &Interference) -> Option<Self> {
        if !charge.resource.is_timed() {
            return None;
        }
        let of = match charge.resource.place() {
            None => &charge.victim,
            Some(_) => &charge.place,
        };
        Some(Self { resource: charge.resource, of: Some(Arc::clone(of)) })
    }
}

/// What was charged between two samples.
#[derive(Default)]
pub(super) struct StepCharges {
    pools: BTreeMap<Pool, Vec<Charge>>,
}

impl StepCharges {
    /// Those of a step.
    pub fn of_step(step: &Step) -> Self {
        let mut charges = Self::default();
        for one in step.charges.iter().filter(|one| one.charged.ns > 0) {
            let Some(pool) = Pool::of_charge(one) else { continue };
            let (culprit, charged_ns) = (Arc::clone(&one.culprit), one.charged.ns);
            let charge = Charge { culprit, cause: one.cause, charged_ns };
            charges.pools.entry(pool).or_default().push(charge);
        }
        charges
    }

    /// What was taken from each victim while it ran.
    pub fn taken_from_running(&self) -> impl Iterator<Item = (&Name, &[Charge])> {
        let first = Pool { resource: Resource::Running, of: None };
        self.pools
            .range(first..)
            .take_while(|(pool, _)| pool.resource == Resource::Running)
            .filter_map(|(pool, charges)| Some((pool.of.as_ref()?, &**charges)))
    }

    /// The part of a pool's charges that falls to `part_ns` of its `whole_ns` of delays.
    pub fn of(&self, pool: &Pool, part_ns: u64, whole_ns: u64) -> Vec<Charge> {
        let every = Pool { resource: pool.resource, of: None };
        let charges: Vec<&Charge> = match &pool.of {
            Some(_) => self.pools.get(pool).into_iter().flatten().collect(),
            None => self
                .pools
                .range(every..)
                .take_while(|(other, _)| other.resource == pool.resource)
                .flat_map(|(_, charges)| charges)
                .collect(),
        };
        charges
            .into_iter()
            .map(|charge| Charge {
                charged_ns: portion(charge.charged_ns, part_ns, whole_ns),
                ..charge.clone()
            })
            .collect()
    }
}

/// `ns * part / whole`.
fn portion(ns: u64, part: u64, whole: u64) -> u64 {
    if part >= whole {
        return ns;
    }
    u64::try_from(u128::from(ns) * u128::from(part) / u128::from(whole)).unwrap_or(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::charge::{Cause, Charged};
    use noise_model::Sample;

    fn pair(resource: Resource, at: &str, victim: &str, culprit: &str, ns: u64) -> Interference {
        Interference {
            resource,
            cause: Cause::Foreign,
            place: at.into(),
            victim: victim.into(),
            culprit: culprit.into(),
            charged: Charged { ns, count: 1 },
        }
    }

    fn between(before: &[Interference], after: &[Interference]) -> StepCharges {
        let [before, after] =
            [before, after].map(|all| Sample { interference: all.to_vec(), ..Sample::default() });
        StepCharges::of_step(&Step::between(&before, &after))
    }

    fn sums(charges: &[Charge]) -> Vec<(&str, u64)> {
        charges.iter().map(|charge| (&*charge.culprit, charge.charged_ns)).collect()
    }

    fn cgroup(name: &str) -> Pool {
        Pool::new(Signal::CgroupRunqueueWait, &[name.to_owned()]).unwrap()
    }

    #[test]
    fn charges_are_the_growth_of_the_victims_own_pairs() {
        let before = [
            pair(Resource::Cpu, "", "/a", "/hog", 100),
            pair(Resource::Cpu, "", "/b", "/hog", 100),
        ];
        let after = [
            pair(Resource::Cpu, "", "/a", "/hog", 150),
            pair(Resource::Cpu, "", "/b", "/hog", 107),
            pair(Resource::Running, "", "/a", "timer", 900),
        ];
        let charges = between(&before, &after);
        assert_eq!(sums(&charges.of(&cgroup("/a"), 60, 60)), [("/hog", 50)]);
        assert_eq!(sums(&charges.of(&cgroup("/c"), 60, 60)), []);
        let taken: Vec<_> =
            charges.taken_from_running().map(|(victim, of)| (&**victim, sums(of))).collect();
        assert_eq!(taken, [("/a", vec![("timer", 900)])]);
        let host = Pool::new(Signal::RunqueueWait, &["wakeup".to_owned()]).unwrap();
        assert_eq!(sums(&charges.of(&host, 60, 60)), [("/hog", 50), ("/hog", 7)]);
    }

    #[test]
    fn operations_share_the_charges_of_their_device() {
        let device = Pool::new(Signal::BlockQueueWait, &["vda".into(), "read".into()]).unwrap();
        let before = [pair(Resource::BlockQueue, "vda", "/a", "/hog", 0)];
        let after = [pair(Resource::BlockQueue, "vda", "/a", "/hog", 900)];
        let charges = between(&before, &after);
        assert_eq!(sums(&charges.of(&device, 250, 1000)), [("/hog", 225)]);
    }

    #[test]
    fn totals_that_began_anew_count_from_nothing() {
        let before = [pair(Resource::Cpu, "", "/a", "/b", 1000)];
        let after =
            [pair(Resource::Cpu, "", "/a", "/b", 40), pair(Resource::Cpu, "", "/a", "/new", 60)];
        let charges = between(&before, &after);
        assert_eq!(sums(&charges.of(&cgroup("/a"), 100, 100)), [("/b", 40), ("/new", 60)]);
    }

    #[test]
    fn signals_that_are_causes_have_no_culprits() {
        assert_eq!(Pool::new(Signal::Hardirq, &["36".into(), "virtio1".into()]), None);
    }
}

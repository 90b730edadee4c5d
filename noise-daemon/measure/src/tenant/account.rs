//! PURE: what came between two samples, of one subject.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_model::{Histogram, Sample, Step};

use super::subject::Usage;

/// What one culprit took, or for how long it was in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    pub cause: Cause,
    pub culprit: Arc<str>,
    pub ns: u64,
}

/// The time of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectAccount {
    /// How long it was looked at, ns.
    pub passed_ns: u64,
    /// CPU time that it had in that time, interrupts included.
    pub ran: Usage,
    /// What interrupts and the hypervisor took of that, most first.
    pub stolen: Vec<Charge>,
    /// Its waits for a CPU.
    pub waits: Histogram,
    /// Who was in the way meanwhile, most first. The sum is that of the waits.
    pub behind: Vec<Charge>,
}

impl SubjectAccount {
    /// What came between two samples for the victims with these labels.
    pub fn between(before: &Sample, after: &Sample, labels: &BTreeSet<String>, ran: Usage) -> Self {
        let step = Step::between(before, after);
        let mut waits = Histogram::default();
        for (cgroup, delays) in step.delays_of(Signal::CgroupRunqueueWait) {
            if cgroup.first().is_some_and(|cgroup| labels.contains(cgroup)) {
                waits.add(&delays);
            }
        }
        Self {
            passed_ns: after.at_ns.saturating_sub(before.at_ns),
            ran,
            stolen: charges(&step, labels, Resource::Running),
            waits,
            behind: charges(&step, labels, Resource::Cpu),
        }
    }

    /// What was taken altogether, ns.
    pub fn stolen_ns(&self) -> u64 {
        self.stolen.iter().map(|charge| charge.ns).sum()
    }
}

fn charges(step: &Step, labels: &BTreeSet<String>, resource: Resource) -> Vec<Charge> {
    let mut sums: BTreeMap<(Cause, &Arc<str>), u64> = BTreeMap::new();
    for one in step.charges_of(resource).iter().filter(|one| labels.contains(&*one.victim)) {
        *sums.entry((one.cause, &one.culprit)).or_default() += one.charged.ns;
    }
    let sums = sums.into_iter().filter(|(_, ns)| *ns != 0);
    let mut charges: Vec<Charge> = sums
        .map(|((cause, culprit), ns)| Charge { cause, culprit: Arc::clone(culprit), ns })
        .collect();
    charges.sort_by_key(|charge| std::cmp::Reverse(charge.ns));
    charges
}

#[cfg(test)]
pub mod sampled {
    //! Two samples, as they could have been.

    use std::collections::BTreeSet;
    use std::sync::Arc;

    use noise_common::charge::{Cause, Charged, Resource};
    use noise_common::signals::Signal;

    use super::{SubjectAccount, Usage};
    use noise_model::{Histogram, Interference, Sample, Series};

    fn sample(at_ns: u64, times: u64) -> Sample {
        let charge = |resource, cause, victim: &str, culprit: &str, ns: u64| Interference {
            resource,
            cause,
            place: Arc::from(""),
            victim: Arc::from(victim),
            culprit: Arc::from(culprit),
            charged: Charged { ns: ns * times, count: times },
        };
        let totals = Histogram::new(700_000 * times, [(40, 2 * times)]);
        let series = Series {
            signal: Signal::CgroupRunqueueWait,
            labels: ["~task".to_owned()].into(),
            totals,
            recent_max_ns: 0,
        };
        Sample {
            at_ns,
            series: vec![series],
            interference: vec![
                charge(Resource::Cpu, Cause::Own, "~task", "~task", 100_000),
                charge(Resource::Cpu, Cause::Foreign, "~task", "/hog", 600_000),
                charge(Resource::Cpu, Cause::Foreign, "/other", "/hog", 9),
                charge(Resource::Running, Cause::Hardirq, "~task", "local_timer", 50_000),
                charge(Resource::Running, Cause::Softirq, "~task", "net_rx", 70_000),
            ],
            ..Sample::default()
        }
    }

    /// What came between them.
    pub fn account() -> SubjectAccount {
        let labels = BTreeSet::from(["~task".to_owned()]);
        let (before, after) = (sample(1_000_000_000, 1), sample(3_000_000_000, 3));
        SubjectAccount::between(&before, &after, &labels, Usage::Known(1_500_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::sampled::account;

    #[test]
    fn an_account_is_what_came_between() {
        let account = account();
        assert_eq!(account.passed_ns, 2_000_000_000);
        assert_eq!((account.waits.count(), account.waits.sum_ns), (4, 1_400_000));
        let rows: Vec<(&str, u64)> =
            account.behind.iter().map(|charge| (&*charge.culprit, charge.ns)).collect();
        assert_eq!(rows, [("/hog", 1_200_000), ("~task", 200_000)]);
        assert_eq!(account.stolen_ns(), 240_000);
        assert_eq!(&*account.stolen[0].culprit, "net_rx");
    }
}

//! What cgroups lost of late by the counters, as charged between samples: for what, and by whom. What stopped them that no
//! kernel event says (their own CPU quotas, the hypervisor) is summed, and beside it is how long threads of the host
//! reclaimed memory.
//!
//! A wait is charged when it ends, so one that goes on is in none of the steps that are kept. Nor are charges that are too
//! short to be worth a word, but those of what no event says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_model::{Sample, Step};

use super::name::Name;

/// Steps that are kept: a minute or more where samples are taken twice a second and clients ask for others.
const MOST_STEPS: usize = 600;
/// Charges that are kept, of all of these steps, 48 bytes each: more than a minute where 200 pairs are charged with several
/// causes in each.
const MOST_CHARGES: usize = 65_536;
/// Charges that are answered of some cgroups, the longest.
const MOST_ANSWERED: usize = 256;
/// The least charge of a step that is kept, ns: 0.04 % of half a second.
const LEAST_NS: u64 = 200_000;

/// What some cgroups lost between two times.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stopped {
    /// From then on, ns on the clock of the samples.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// Their waits for a CPU while their quotas were used up, ns.
    pub quota_ns: u64,
    /// What the hypervisor took while they ran or waited, ns.
    pub hypervisor_ns: u64,
    /// Direct reclaim of memory by threads of the host, ns; `None` where it is not measured.
    pub host_reclaim_ns: Option<u64>,
    /// All that they were charged with, the longest first; none of a daemon that does not say.
    #[serde(default)]
    pub charges: Vec<Charged>,
}

/// What one culprit is charged with.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Charged {
    /// For what.
    pub resource: Resource,
    /// Why.
    pub cause: Cause,
    /// Who.
    pub culprit: Name,
    /// How long, ns.
    pub ns: u64,
}

/// What one culprit was charged with in a step.
#[derive(Debug)]
struct Charge {
    victim: Name,
    charged: Charged,
}

/// Whether no kernel event says how long such a cause takes.
const fn is_unseen(cause: Cause) -> bool {
    matches!(cause, Cause::Throttle | Cause::Steal)
}

/// What came between two samples.
#[derive(Debug)]
struct Part {
    start_ns: u64,
    end_ns: u64,
    host_reclaim_ns: Option<u64>,
    charges: Vec<Charge>,
}

/// The latest steps.
#[derive(Debug, Default)]
pub struct Stops {
    parts: VecDeque<Part>,
    charges: usize,
}

impl Stops {
    /// Takes the next step, and the sample that it led to.
    pub fn advance(&mut self, sample: &Sample, step: &Step) {
        // The first one has all since the programs were attached.
        if step.start_ns == 0 || step.start_ns >= step.end_ns {
            return;
        }
        let is_kept = |cause, ns| ns > 0 && (is_unseen(cause) || ns >= LEAST_NS);
        let timed = step.charges.iter().filter(|one| one.resource.is_timed());
        let charges: Vec<Charge> = timed
            .filter(|one| is_kept(one.cause, one.charged.ns))
            .map(|one| Charge {
                victim: Name::clone(&one.victim),
                charged: Charged {
                    resource: one.resource,
                    cause: one.cause,
                    culprit: Name::clone(&one.culprit),
                    ns: one.charged.ns,
                },
            })
            .collect();
        let is_measured = sample.series.iter().any(|one| one.signal == Signal::DirectReclaim);
        self.charges += charges.len();
        self.parts.push_back(Part {
            start_ns: step.start_ns,
            end_ns: step.end_ns,
            host_reclaim_ns: is_measured.then(|| step.lost_ns(Signal::DirectReclaim)),
            charges,
        });
        while self.parts.len() > MOST_STEPS || self.charges > MOST_CHARGES {
            let Some(oldest) = self.parts.pop_front() else { break };
            self.charges -= oldest.charges.len();
        }
    }

    /// What these cgroups lost in the steps of which at least half lies behind that time; `None` where there is none.
    pub fn since(&self, cgroups: &BTreeSet<Name>, since_ns: u64) -> Option<Stopped> {
        let is_behind = |part: &&Part| part.start_ns / 2 + part.end_ns / 2 >= since_ns;
        let mut parts = self.parts.iter().filter(is_behind);
        let first = parts.next()?;
        let mut stopped = Stopped { from_ns: first.start_ns, ..Stopped::default() };
        let mut sums: BTreeMap<(Resource, Cause, &Name), u64> = BTreeMap::new();
        for part in [first].into_iter().chain(parts) {
            stopped.to_ns = part.end_ns;
            if let Some(ns) = part.host_reclaim_ns {
                let sum = stopped.host_reclaim_ns.unwrap_or(0);
                stopped.host_reclaim_ns = Some(sum.saturating_add(ns));
            }
            let own = part.charges.iter().filter(|charge| cgroups.contains(&charge.victim));
            for Charged { resource, cause, culprit, ns } in own.map(|charge| &charge.charged) {
                let sum = sums.entry((*resource, *cause, culprit)).or_default();
                *sum = sum.saturating_add(*ns);
                match cause {
                    Cause::Throttle => stopped.quota_ns = stopped.quota_ns.saturating_add(*ns),
                    Cause::Steal => {
                        stopped.hypervisor_ns = stopped.hypervisor_ns.saturating_add(*ns);
                    }
                    _ => {}
                }
            }
        }
        let charged = |((resource, cause, culprit), ns): ((_, _, &Name), u64)| Charged {
            resource,
            cause,
            culprit: Name::clone(culprit),
            ns,
        };
        stopped.charges = sums.into_iter().map(charged).collect();
        stopped.charges.sort_by_key(|charged| Reverse(charged.ns));
        stopped.charges.truncate(MOST_ANSWERED);
        Some(stopped)
    }
}

#[cfg(test)]
mod tests {
    use noise_model::{Histogram, Interference, Series};

    use super::*;

    const STEP_NS: u64 = 500;

    /// The sample at the end of a step, by what was charged up to then.
    fn sample(number: u64, charged: &[(Resource, Cause, &str, u64)]) -> Sample {
        let mut interference: Vec<_> = charged
            .iter()
            .map(|(resource, cause, victim, ns)| Interference {
                resource: *resource,
                cause: *cause,
                place: "".into(),
                victim: (*victim).into(),
                culprit: cause.name().into(),
                charged: noise_common::charge::Charged { ns: *ns, count: 1 },
            })
            .collect();
        interference.sort_by(Interference::order);
        let series = Series {
            signal: Signal::DirectReclaim,
            labels: [].into(),
            totals: Histogram::of(&vec![7; number as usize]),
            recent_max_ns: 0,
        };
        Sample {
            at_ns: 1000 + number * STEP_NS,
            interference,
            series: vec![series],
            ..Sample::default()
        }
    }

    fn of(cgroups: &[&str]) -> BTreeSet<Name> {
        cgroups.iter().map(|name| Name::from(*name)).collect()
    }

    #[test]
    fn what_stopped_a_cgroup_in_the_asked_time_is_summed() {
        use Cause::{Foreign, Steal, Throttle};
        use Resource::{Cpu, Preemption, Running};
        let charged = |resource, cause: Cause, ns| Charged {
            resource,
            cause,
            culprit: cause.name().into(),
            ns,
        };
        let samples = [
            sample(0, &[(Cpu, Throttle, "a", 5)]),
            sample(1, &[(Cpu, Throttle, "a", 15), (Cpu, Throttle, "b", 100)]),
            sample(
                2,
                &[
                    (Cpu, Throttle, "a", 45),
                    (Cpu, Throttle, "b", 1100),
                    (Cpu, Foreign, "a", LEAST_NS),
                    // Too short to be worth a word.
                    (Running, Foreign, "a", LEAST_NS - 1),
                    (Cpu, Steal, "a", 3),
                    (Running, Steal, "a", 4),
                    (Preemption, Steal, "a", 999),
                ],
            ),
        ];
        let mut stops = Stops::default();
        let mut before = Sample::default();
        for sample in samples {
            stops.advance(&sample, &Step::between(&before, &sample));
            before = sample;
        }
        let whole = Stopped {
            from_ns: 1000,
            to_ns: 2000,
            quota_ns: 40,
            hypervisor_ns: 7,
            host_reclaim_ns: Some(14),
            charges: vec![
                charged(Cpu, Foreign, LEAST_NS),
                charged(Cpu, Throttle, 40),
                charged(Running, Steal, 4),
                charged(Cpu, Steal, 3),
            ],
        };
        assert_eq!(stops.since(&of(&["a"]), 0), Some(whole.clone()));
        // More than half of the first step lies before.
        assert_eq!(stops.since(&of(&["a"]), 1250).unwrap().from_ns, 1000);
        let last = stops.since(&of(&["a"]), 1300).unwrap();
        assert_eq!((last.from_ns, last.quota_ns, last.host_reclaim_ns), (1500, 30, Some(7)));
        assert_eq!(last.charges[1], charged(Cpu, Throttle, 30));
        assert_eq!(stops.since(&of(&["a", "b"]), 1300).unwrap().quota_ns, 1030);
        let none = Stopped { quota_ns: 0, hypervisor_ns: 0, charges: Vec::new(), ..whole };
        assert_eq!(stops.since(&of(&["c"]), 0), Some(none));
        assert_eq!(stops.since(&of(&["a"]), 2000), None);
    }

    #[test]
    fn a_busy_host_is_remembered_for_a_minute() {
        let mut stops = Stops::default();
        let names: Vec<String> = (0..200).map(|number| format!("/{number:03}")).collect();
        let mut before = sample(0, &[]);
        // A minute, with two steps in a second.
        for number in 1..=120 {
            let pairs = names.iter().flat_map(|name| {
                let (quota, other) = (number, number * LEAST_NS);
                let name = name.as_str();
                [(Cause::Throttle, quota), (Cause::Foreign, other)]
                    .map(|(cause, ns)| (Resource::Cpu, cause, name, ns))
            });
            let sample =
                Sample { series: Vec::new(), ..sample(number, &pairs.collect::<Vec<_>>()) };
            stops.advance(&sample, &Step::between(&before, &sample));
            before = sample;
        }
        assert_eq!(stops.since(&of(&["/007"]), 0).unwrap().quota_ns, 120);
    }

    #[test]
    fn it_stays_small() {
        let mut stops = Stops::default();
        let names: Vec<String> = (0..200).map(|number| format!("/{number}")).collect();
        let mut before = sample(0, &[]);
        for number in 1..1000 {
            let charged: Vec<_> = names
                .iter()
                .map(|name| (Resource::Cpu, Cause::Throttle, name.as_str(), number))
                .collect();
            let sample = Sample { series: Vec::new(), ..sample(number, &charged) };
            stops.advance(&sample, &Step::between(&before, &sample));
            before = sample;
        }
        assert!(stops.parts.len() <= MOST_STEPS && stops.charges <= MOST_CHARGES);
        let kept: usize = stops.parts.iter().map(|part| part.charges.len()).sum();
        assert_eq!(kept, stops.charges);
        let stopped = stops.since(&of(&["/7"]), 0).unwrap();
        assert_eq!((stopped.quota_ns, stopped.host_reclaim_ns), (stops.parts.len() as u64, None));
    }
}

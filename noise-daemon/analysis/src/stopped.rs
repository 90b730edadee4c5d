//! What cgroups lost of late by the counters, as charged between samples: for what, and by whom. What stopped them that no
//! kernel event says (their own CPU quotas, the hypervisor) is summed, and beside it is how long threads of the host
//! reclaimed memory. How many delays there were is counted as well: what is usual of so many.
//!
//! A wait is charged when it ends, so one that goes on is in none of the steps that are kept. Nor are charges that are too
//! short to be worth a word, but those of what no event says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_model::{Sample, Step};

use super::name::Name;
use super::watched::Watched;

/// Steps that are kept: a minute or more where samples are taken twice a second and clients ask for others.
const MOST_STEPS: usize = 600;
/// Bytes of charges and counts that are kept, of all of these steps: more than a minute where 200 pairs are charged with
/// two causes in each, and all of them have delays.
const MOST_BYTES: usize = 3 << 20;
/// Charges that are answered of some cgroups, the longest.
const MOST_ANSWERED: usize = 256;
/// The least charge of a step that is kept, ns: 0.04 % of half a second.
const LEAST_NS: u64 = 200_000;
/// Signals whose delays are counted.
const COUNTED: [Signal; 2] = [Signal::CgroupRunqueueWait, Signal::UninterruptibleWait];

/// What some cgroups lost between two times.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stopped {
    /// From then on, ns on the clock of the samples.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Their waits for a CPU while their quotas were used up, ns.
    pub quota_ns: u64,
    /// What the hypervisor took while they ran or waited, ns.
    pub hypervisor_ns: u64,
    /// Direct reclaim of memory by threads of the host, ns; `None` where it is not measured.
    pub host_reclaim_ns: Option<u64>,
    /// All that they were charged with, the longest first; none of a daemon that does not say.
    #[serde(default)]
    pub charges: Vec<StopCharges>,
    /// How many delays of a signal they had, of each that is counted; none of a daemon that does not say.
    #[serde(default)]
    pub delays: Vec<(Watched, u64)>,
}

impl Stopped {
    /// Adds what others of the same victim lost in the same time.
    pub fn add(&mut self, more: Self) {
        self.quota_ns = self.quota_ns.saturating_add(more.quota_ns);
        self.hypervisor_ns = self.hypervisor_ns.saturating_add(more.hypervisor_ns);
        self.charges.extend(more.charges);
        for (watched, count) in more.delays {
            match self.delays.iter_mut().find(|(own, _)| *own == watched) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => self.delays.push((watched, count)),
            }
        }
    }
}

/// What one culprit is charged with.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StopCharges {
    pub resource: Resource,
    pub cause: Cause,
    pub culprit: Name,
    pub ns: u64,
}

/// What one culprit was charged with in a step.
#[derive(Debug)]
struct CulpritCharge {
    victim: Name,
    charged: StopCharges,
}

/// How many delays one cgroup had in a step, of each signal that is counted.
#[derive(Debug)]
struct DelayCount {
    victim: Name,
    delays: [u32; COUNTED.len()],
}

/// Whether no kernel event says how long such a cause takes.
const fn is_unseen(cause: Cause) -> bool {
    matches!(cause, Cause::Throttle | Cause::Steal)
}

/// What came between two samples.
#[derive(Debug)]
struct SampleInterval {
    start_ns: u64,
    end_ns: u64,
    host_reclaim_ns: Option<u64>,
    charges: Vec<CulpritCharge>,
    counts: Vec<DelayCount>,
}

impl SampleInterval {
    /// What it takes of [`MOST_BYTES`].
    const fn bytes(&self) -> usize {
        self.charges.len() * size_of::<CulpritCharge>()
            + self.counts.len() * size_of::<DelayCount>()
    }
}

/// How many delays each cgroup had in a step.
fn counts(step: &Step) -> Vec<DelayCount> {
    let mut counts: BTreeMap<&str, [u32; COUNTED.len()]> = BTreeMap::new();
    for (place, signal) in COUNTED.into_iter().enumerate() {
        for (labels, delays) in step.delays_of(signal) {
            let Some(label) = labels.first().filter(|_| delays.count() > 0) else { continue };
            if let Some(count) = counts.entry(label).or_default().get_mut(place) {
                *count = u32::try_from(delays.count()).unwrap_or(u32::MAX);
            }
        }
    }
    // Who had delays is charged for them: the name is there already.
    let names: BTreeMap<&str, &Name> =
        step.charges.iter().map(|charge| (&*charge.victim, &charge.victim)).collect();
    let count = |(label, delays)| DelayCount {
        victim: names.get(label).map_or_else(|| Name::from(label), |name| Name::clone(name)),
        delays,
    };
    counts.into_iter().map(count).collect()
}

#[derive(Debug, Default)]
pub struct Stops {
    parts: VecDeque<SampleInterval>,
    bytes: usize,
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
        let charges: Vec<CulpritCharge> = timed
            .filter(|one| is_kept(one.cause, one.charged.ns))
            .map(|one| CulpritCharge {
                victim: Name::clone(&one.victim),
                charged: StopCharges {
                    resource: one.resource,
                    cause: one.cause,
                    culprit: Name::clone(&one.culprit),
                    ns: one.charged.ns,
                },
            })
            .collect();
        let is_measured = sample.series.iter().any(|one| one.signal == Signal::DirectReclaim);
        let part = SampleInterval {
            start_ns: step.start_ns,
            end_ns: step.end_ns,
            host_reclaim_ns: is_measured.then(|| step.lost_ns(Signal::DirectReclaim)),
            charges,
            counts: counts(step),
        };
        self.bytes += part.bytes();
        self.parts.push_back(part);
        while self.parts.len() > MOST_STEPS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.parts.pop_front() else { break };
            self.bytes -= oldest.bytes();
        }
    }

    /// What these cgroups lost in the steps of which at least half lies behind that time, else in the last one, where that ends
    /// behind it: of a daemon that gets no CPU, steps are long. `None` where there is none.
    pub fn since(&self, cgroups: &BTreeSet<Name>, since_ns: u64) -> Option<Stopped> {
        let middle_ns = |part: &SampleInterval| part.start_ns / 2 + part.end_ns / 2;
        let last = self.parts.back().filter(|last| last.end_ns > since_ns)?;
        let since_ns = since_ns.min(middle_ns(last));
        let mut parts = self.parts.iter().filter(|part| middle_ns(part) >= since_ns);
        let first = parts.next()?;
        let mut stopped = Stopped { from_ns: first.start_ns, ..Stopped::default() };
        let mut sums: BTreeMap<(Resource, Cause, &Name), u64> = BTreeMap::new();
        let mut delays = [0_u64; COUNTED.len()];
        for part in [first].into_iter().chain(parts) {
            stopped.to_ns = part.end_ns;
            if let Some(ns) = part.host_reclaim_ns {
                let sum = stopped.host_reclaim_ns.unwrap_or(0);
                stopped.host_reclaim_ns = Some(sum.saturating_add(ns));
            }
            for count in part.counts.iter().filter(|count| cgroups.contains(&count.victim)) {
                for (sum, delays) in delays.iter_mut().zip(count.delays) {
                    *sum = sum.saturating_add(u64::from(delays));
                }
            }
            let own = part.charges.iter().filter(|charge| cgroups.contains(&charge.victim));
            for StopCharges { resource, cause, culprit, ns } in own.map(|charge| &charge.charged) {
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
        let charged = |((resource, cause, culprit), ns): ((_, _, &Name), u64)| StopCharges {
            resource,
            cause,
            culprit: Name::clone(culprit),
            ns,
        };
        stopped.charges = sums.into_iter().map(charged).collect();
        stopped.charges.sort_by_key(|charged| Reverse(charged.ns));
        stopped.charges.truncate(MOST_ANSWERED);
        stopped.delays = COUNTED.into_iter().map(Watched::from).zip(delays).collect();
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
        let series = |signal, label: Option<&str>, delays: u64| Series {
            signal,
            labels: label.map(str::to_owned).into_iter().collect(),
            totals: Histogram::of(&vec![7; delays as usize]),
            recent_max_ns: 0,
        };
        let mut series = vec![
            series(Signal::DirectReclaim, None, number),
            series(Signal::CgroupRunqueueWait, Some("a"), 10 * number),
            series(Signal::CgroupRunqueueWait, Some("b"), 100 * number),
            series(Signal::UninterruptibleWait, Some("b"), 3 * number),
        ];
        series.sort_by_key(|one| one.signal);
        Sample { at_ns: 1000 + number * STEP_NS, interference, series, ..Sample::default() }
    }

    fn of(cgroups: &[&str]) -> BTreeSet<Name> {
        cgroups.iter().map(|name| Name::from(*name)).collect()
    }

    #[test]
    fn what_stopped_a_cgroup_in_the_asked_time_is_summed() {
        use Cause::{Foreign, Steal, Throttle};
        use Resource::{Cpu, Preemption, Running};
        let charged = |resource, cause: Cause, ns| StopCharges {
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
        let delays = |cpu, uninterruptible| {
            let counts = [cpu, uninterruptible];
            let watched = COUNTED.into_iter().map(Watched::from);
            watched.zip(counts).collect::<Vec<_>>()
        };
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
            delays: delays(20, 0),
        };
        assert_eq!(stops.since(&of(&["a"]), 0), Some(whole.clone()));
        // More than half of the first step lies before.
        assert_eq!(stops.since(&of(&["a"]), 1250).unwrap().from_ns, 1000);
        let last = stops.since(&of(&["a"]), 1300).unwrap();
        assert_eq!((last.from_ns, last.quota_ns, last.host_reclaim_ns), (1500, 30, Some(7)));
        assert_eq!(last.charges[1], charged(Cpu, Throttle, 30));
        assert_eq!(stops.since(&of(&["a", "b"]), 1300).unwrap().quota_ns, 1030);
        let mut both = stops.since(&of(&["a", "b"]), 1300).unwrap();
        assert_eq!(both.delays, delays(110, 3));
        let none = Stopped {
            quota_ns: 0,
            hypervisor_ns: 0,
            charges: Vec::new(),
            delays: delays(0, 0),
            ..whole.clone()
        };
        assert_eq!(stops.since(&of(&["c"]), 0), Some(none));
        // Of the last step, which goes further back than is asked for, all is counted.
        assert_eq!(stops.since(&of(&["a"]), 1999).unwrap(), last);
        assert_eq!(stops.since(&of(&["a"]), 2000), None);
        // An older daemon counts none.
        both.add(Stopped { delays: Vec::new(), ..whole.clone() });
        assert_eq!((both.delays.clone(), both.quota_ns), (delays(110, 3), 1030 + 40));
        both.add(whole);
        assert_eq!(both.delays, delays(130, 3));
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
            let totals = Histogram::of(&vec![7; number as usize]);
            let delayed = |signal, name: &String| Series {
                signal,
                labels: [name.clone()].into(),
                totals: totals.clone(),
                recent_max_ns: 0,
            };
            let mut series = Vec::new();
            for signal in COUNTED {
                series.extend(names.iter().map(|name| delayed(signal, name)));
            }
            let sample = Sample { series, ..sample(number, &pairs.collect::<Vec<_>>()) };
            stops.advance(&sample, &Step::between(&before, &sample));
            before = sample;
        }
        let stopped = stops.since(&of(&["/007"]), 0).unwrap();
        assert_eq!(stopped.quota_ns, 120);
        assert_eq!(stopped.delays, COUNTED.map(|signal| (signal.into(), 120)));
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
        assert!(stops.parts.len() <= MOST_STEPS && stops.bytes <= MOST_BYTES);
        let kept: usize = stops.parts.iter().map(SampleInterval::bytes).sum();
        assert_eq!(kept, stops.bytes);
        let stopped = stops.since(&of(&["/7"]), 0).unwrap();
        assert_eq!((stopped.quota_ns, stopped.host_reclaim_ns), (stops.parts.len() as u64, None));
    }
}

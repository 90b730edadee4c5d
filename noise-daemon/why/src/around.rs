//! What a daemon knows of a victim beside the events: its usual, what stopped it, incidents, and between two frames
//! what the programs charged to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use noise_analysis::{LEAST_WINDOWS, Level, Report, Usual as Learnt, Watched};
use noise_common::charge::{Cause, RESOURCES};
use noise_common::signals::Signal;
use noise_model::{HeldUp, Histogram, Step};
use noise_serve::IncidentsDocument;
use noise_serve::victim::VictimDocument;
use noise_system::procfs;
use noise_wire::Frame;
use serde::{Serialize, Serializer};

use super::counted::Counted;
use super::known::together;

/// Incidents that ended so long ago are related still.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
/// Incidents that are kept, the latest of them.
const MOST_INCIDENTS: usize = 10;
/// Cgroups whose last minutes are kept.
const MOST_TRENDS: usize = 4;
/// Charges that are kept.
const MOST_CHARGES: usize = 200;

/// What is usual of a signal of the victim's cgroups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Usual {
    /// `cgroup_runqueue_wait`: waits for a CPU; `uninterruptible_wait`; `interruption`: what interrupts and the
    /// hypervisor took while it ran.
    pub signal: &'static str,
    /// `baseline`: as incidents have it; `since_start`: all since the daemon's programs were attached.
    pub from: &'static str,
    /// The mean delay, ns.
    pub mean_ns: Option<f64>,
    /// 99 of 100 are not longer, ns.
    pub p99_ns: Option<u64>,
    /// Delays in a second; not known of all since the start.
    pub rate: Option<f64>,
    /// Seconds of delay in a second, likewise.
    pub lost: Option<f64>,
    /// For how long it has been so, ns, where a disturbance lasted so long that it was adopted as what is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted_for_ns: Option<u64>,
}

/// What stopped the victim that no event says. Figures that are not known are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stops {
    /// The time that it was counted in: whole steps of the daemon's counters.
    pub span_ns: u64,
    /// Waits for a CPU while the cgroups' quotas were used up; `None` where the kernel does not say.
    pub quota_ns: Option<u64>,
    /// What the hypervisor took while it ran or waited.
    pub hypervisor_ns: u64,
    /// Of the whole host: what threads spent in direct reclaim of memory.
    pub host_reclaim_ns: Option<u64>,
    /// Of the whole host: what the hypervisor took.
    pub host_steal_ns: Option<u64>,
}

/// What was charged to the victim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChargedToVictim {
    pub resource: &'static str,
    pub cause: &'static str,
    pub culprit: String,
    pub ns: u64,
}

/// What the daemon's ledger has of the same time, between two frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LedgerExtract {
    /// How long it was.
    pub span_ns: u64,
    /// Waits for a CPU.
    pub waits: u64,
    pub waited_ns: u64,
    /// Who was charged with what, the longest first.
    pub charges: Vec<ChargedToVictim>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Around {
    /// What is usual, where that is known.
    pub usual: Vec<Usual>,
    /// What stopped it, where a daemon counted that.
    pub stopped: Option<Stops>,
    /// The labels of its cgroups.
    #[serde(skip)]
    pub labels: BTreeSet<String>,
    /// What they were charged with in that time, where no frame was taken at its begin.
    #[serde(skip)]
    pub counted: Option<Counted>,
    /// How each of its cgroups was held up over the last minutes.
    pub trends: Vec<HeldUp>,
    /// What the ledger has, where it was read at the begin and the end.
    pub ledger: Option<LedgerExtract>,
    /// Incidents of the victim, or by it, that are open or ended in the last minutes.
    #[serde(serialize_with = "written")]
    pub incidents: Vec<Arc<Report>>,
    /// Numbers of those that are open and that the victim suffers from.
    #[serde(skip)]
    pub suffers: Vec<u64>,
    /// What is disturbed now, each with for how long it has been, ns.
    #[serde(skip)]
    pub disturbed: Vec<(Watched, u64)>,
    /// What is kept of them.
    pub kept: Vec<Kept>,
    /// Whether this kernel does not say how long a quota stopped a thread: who had the CPU meanwhile is charged for that.
    #[serde(skip)]
    pub is_quota_untold: bool,
}

/// Kernel events of an incident's begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    pub incident: u64,
    /// What there is, and how to see it; or why there is nothing.
    pub sentence: String,
}

/// As `/api/v1/incidents` has them.
fn written<S: Serializer>(incidents: &[Arc<Report>], serializer: S) -> Result<S::Ok, S::Error> {
    let document = serde_json::to_value(IncidentsDocument::new(incidents.to_vec(), Vec::new()));
    let document = document.map_err(serde::ser::Error::custom)?;
    document.get("incidents").serialize(serializer)
}

impl Around {
    /// Nothing, as no daemon was asked.
    pub fn unasked() -> Self {
        Self { is_quota_untold: !kernel_says_quota(), ..Self::default() }
    }

    /// What frames say of those with these labels, and what a daemon knows of them. The first frame was taken at the
    /// begin of the time that is looked at, or there is none.
    pub fn of(
        labels: &BTreeSet<String>,
        first: Option<&Frame>,
        last: &Frame,
        known: Option<VictimDocument>,
    ) -> Self {
        let (learnt, stopped) = known.map(|known| (known.usual, known.stopped)).unwrap_or_default();
        let counted = stopped.as_ref().map(Counted::of);
        let says_quota = kernel_says_quota();
        let ledger = first.map(|first| ledger(labels, first, last));
        let stopped = match (first, &ledger) {
            (Some(first), Some(ledger)) => Some(between(ledger, first, last, says_quota)),
            _ => stopped.map(|stopped| Stops {
                span_ns: stopped.to_ns.saturating_sub(stopped.from_ns),
                quota_ns: Some(stopped.quota_ns).filter(|_| says_quota),
                hypervisor_ns: stopped.hypervisor_ns,
                host_reclaim_ns: stopped.host_reclaim_ns,
                host_steal_ns: None,
            }),
        };
        let incidents = incidents(labels, last);
        let (suffers, disturbed) = labels
            .iter()
            .flat_map(|label| last.overview.suffers(label))
            .map(|(report, episode)| {
                let since = last.time.duration_since(episode.start).as_nanos();
                (report.id, (episode.signal, u64::try_from(since).unwrap_or(0)))
            })
            .unzip();
        let kept = |report: &Arc<Report>| {
            let trace = last.overview.trace(report.id)?;
            Some(Kept { incident: report.id, sentence: trace.sentence() })
        };
        let kept = incidents.iter().filter_map(kept).collect();
        let trends = |label: &String| last.trends.as_ref()?.held_up(label);
        let trends = labels.iter().filter_map(trends).take(MOST_TRENDS).collect();
        let usual = usual(labels, &learnt, last);
        let labels = labels.clone();
        Self {
            labels,
            usual,
            stopped,
            counted,
            trends,
            ledger,
            incidents,
            suffers,
            disturbed,
            kept,
            is_quota_untold: !says_quota,
        }
    }

    /// For how long a signal has been disturbed, ns, where it is.
    pub fn disturbed_for_ns(&self, signal: Watched) -> Option<u64> {
        let own = self.disturbed.iter().filter(|(disturbed, _)| *disturbed == signal);
        own.map(|(_, ns)| *ns).max()
    }

    /// What is usual of a signal.
    pub fn usual_of(&self, signal: impl Into<Watched>) -> Option<&Usual> {
        let signal = signal.into().name();
        self.usual.iter().find(|usual| usual.signal == signal)
    }
}

/// Whether this host's kernel says how long a quota stopped a thread.
fn kernel_says_quota() -> bool {
    says_quota(procfs::text("/proc/sys/kernel/osrelease").ok().as_deref())
}

/// Whether a kernel of that release says how long a quota stopped a thread: from 6.6 on.
fn says_quota(release: Option<&str>) -> bool {
    let mut numbers = release.unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    next().zip(next()).is_none_or(|version| version >= (6, 6))
}

/// What is usual of each signal that concerns a victim: its baseline, else all since the daemon's start.
fn usual(labels: &BTreeSet<String>, learnt: &[Learnt], frame: &Frame) -> Vec<Usual> {
    let of = |signal: Watched| {
        let own = learnt.iter().filter(|one| one.signal == signal);
        let windows = own.clone().map(|one| one.windows).max().unwrap_or(0);
        let adopted = own.clone().filter_map(|one| one.adopted_since_ns).max();
        let levels: Vec<Level> = own.map(|one| one.level).collect();
        match together(&levels).filter(|_| windows >= LEAST_WINDOWS) {
            Some(level) => Some(Usual {
                signal: signal.name(),
                from: "baseline",
                mean_ns: level.mean_ns,
                p99_ns: level.p99_ns,
                rate: Some(level.rate),
                lost: Some(level.lost),
                // Of several, the shortest: none of them was otherwise since then.
                adopted_for_ns: adopted.map(|since_ns| frame.sample.at_ns.saturating_sub(since_ns)),
            }),
            None => since_start(labels, signal, frame),
        }
    };
    let signals = [
        Signal::CgroupRunqueueWait.into(),
        Signal::UninterruptibleWait.into(),
        Watched::Interruption,
    ];
    signals.into_iter().filter_map(of).collect()
}

fn since_start(labels: &BTreeSet<String>, signal: Watched, frame: &Frame) -> Option<Usual> {
    let mut all = Histogram::default();
    for series in &frame.sample.series {
        let is_its = series.labels.first().is_some_and(|label| labels.contains(label));
        if signal == series.signal && is_its {
            all.add(&series.totals);
        }
    }
    let count = all.count();
    (count > 0).then(|| Usual {
        signal: signal.name(),
        from: "since_start",
        mean_ns: Some(all.sum_ns as f64 / count as f64),
        p99_ns: all.quantile_ns(0.99),
        rate: None,
        lost: None,
        adopted_for_ns: None,
    })
}

/// What stopped it between two frames.
fn between(ledger: &LedgerExtract, first: &Frame, last: &Frame, says_quota: bool) -> Stops {
    let step = Step::between(&first.sample, &last.sample);
    let charged = |cause: Cause| {
        let own = ledger.charges.iter().filter(|charge| charge.cause == cause.name());
        own.fold(0_u64, |sum, charge| sum.saturating_add(charge.ns))
    };
    let is_measured = last.sample.series.iter().any(|one| one.signal == Signal::DirectReclaim);
    Stops {
        span_ns: ledger.span_ns,
        quota_ns: Some(charged(Cause::Throttle)).filter(|_| says_quota),
        hypervisor_ns: charged(Cause::Steal),
        host_reclaim_ns: is_measured.then(|| step.lost_ns(Signal::DirectReclaim)),
        host_steal_ns: Some(step.stolen_ns()),
    }
}

fn ledger(labels: &BTreeSet<String>, first: &Frame, last: &Frame) -> LedgerExtract {
    let step = Step::between(&first.sample, &last.sample);
    let mut waits = Histogram::default();
    for (own, delays) in step.delays_of(Signal::CgroupRunqueueWait) {
        if own.first().is_some_and(|label| labels.contains(label)) {
            waits.add(&delays);
        }
    }
    let mut sums: BTreeMap<(&'static str, Cause, &str), u64> = BTreeMap::new();
    for resource in RESOURCES.into_iter().filter(|resource| resource.is_timed()) {
        let charges = step.charges_of(resource).iter();
        for one in charges.filter(|one| labels.contains(&*one.victim)) {
            let sum = sums.entry((resource.name(), one.cause, &one.culprit)).or_default();
            *sum = sum.saturating_add(one.charged.ns);
        }
    }
    let charged = |((resource, cause, culprit), ns): ((_, Cause, &str), u64)| ChargedToVictim {
        resource,
        cause: cause.name(),
        culprit: culprit.to_owned(),
        ns,
    };
    let mut charges: Vec<_> = sums.into_iter().map(charged).collect();
    charges.sort_by(|one, other| other.ns.cmp(&one.ns).then(one.culprit.cmp(&other.culprit)));
    charges.truncate(MOST_CHARGES);
    LedgerExtract {
        span_ns: last.sample.at_ns.saturating_sub(first.sample.at_ns),
        waits: waits.count(),
        waited_ns: waits.sum_ns,
        charges,
    }
}

/// Those that the victim suffers from, or has a part in.
fn incidents(labels: &BTreeSet<String>, frame: &Frame) -> Vec<Arc<Report>> {
    let is_recent = |report: &Report| {
        let since = frame.time.checked_sub(RECENT).unwrap_or(Timestamp::UNIX_EPOCH);
        report.open || report.end() >= since
    };
    let is_related = |report: &Report| {
        report.episodes().any(|episode| {
            labels.contains(&*episode.subject)
                || episode.culprits.iter().any(|culprit| {
                    labels.contains(&*culprit.culprit) && culprit.cause == Cause::Foreign
                })
        })
    };
    let related = frame.overview.incidents.iter().rev();
    let related = related.filter(|report| is_recent(report) && is_related(report));
    let mut related: Vec<_> = related.take(MOST_INCIDENTS).cloned().collect();
    related.reverse();
    related
}

#[cfg(test)]
mod tests {
    use noise_model::{Sample, Series};

    use super::*;

    fn frame(series: Vec<Series>) -> Frame {
        let sample = Sample { series, at_ns: 10, ..Sample::default() };
        Frame { sample: Arc::new(sample), ..Frame::default() }
    }

    #[test]
    fn a_young_baseline_gives_way_to_all_since_the_start() {
        let level = |mean_ns| Level {
            p50_ns: None,
            p99_ns: Some(64),
            mean_ns: Some(mean_ns),
            rate: 2.0,
            lost: 0.5,
        };
        let learnt = |windows| Learnt {
            signal: Signal::CgroupRunqueueWait.into(),
            subject: "/a".into(),
            windows,
            level: level(7.0),
            adopted_since_ns: Some(4),
        };
        let series = Series {
            signal: Signal::CgroupRunqueueWait,
            labels: ["/a".to_owned()].into(),
            totals: Histogram::of(&[10, 30]),
            recent_max_ns: 0,
        };
        let other = Series { labels: ["/b".to_owned()].into(), ..series.clone() };
        let (frame, labels) = (frame(vec![series, other]), BTreeSet::from(["/a".to_owned()]));
        let found = usual(&labels, &[learnt(LEAST_WINDOWS)], &frame);
        assert_eq!(
            (found[0].from, found[0].mean_ns, found[0].lost),
            ("baseline", Some(7.0), Some(0.5))
        );
        assert_eq!(found[0].adopted_for_ns, Some(6));
        let found = usual(&labels, &[learnt(LEAST_WINDOWS - 1)], &frame);
        assert_eq!(
            (found[0].from, found[0].mean_ns, found[0].lost),
            ("since_start", Some(20.0), None)
        );
        assert_eq!(found.len(), 1);
        assert_eq!(usual(&BTreeSet::new(), &[], &frame), []);
    }

    #[test]
    fn what_a_kernel_does_not_say_is_not_known() {
        let older = [Some("6.5.13-1-amd64"), Some("5.10.0"), Some("4.19.0-27-cloud-amd64")];
        let newer = [Some("6.6.0"), Some("6.12.1+bpo"), Some("7.0"), Some("strange"), None];
        assert!(older.iter().all(|release| !says_quota(*release)));
        assert!(newer.iter().all(|release| says_quota(*release)));
    }
}

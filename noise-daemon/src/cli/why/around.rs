//! What a daemon knows of a victim beside the events: its usual, incidents, and between two frames what the
//! programs charged to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use noise_analysis::{Report, Watched};
use noise_common::charge::{Cause, RESOURCES};
use noise_common::signals::Signal;
use noise_model::{Histogram, Step};
use noise_serve::IncidentsDocument;
use noise_system::procfs;
use noise_wire::Frame;
use serde::{Serialize, Serializer};

use crate::state;

/// Incidents that ended so long ago are related still.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
/// Incidents that are kept, the latest of them.
const MOST_INCIDENTS: usize = 10;
/// Charges that are kept.
const MOST_CHARGES: usize = 200;

/// What is usual of the victim's waits for a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Usual {
    /// `baseline`: as incidents have it; `since_start`: all since the daemon's programs were attached.
    pub from: &'static str,
    /// The mean wait, ns.
    pub mean_ns: f64,
    /// 99 of 100 are not longer, ns.
    pub p99_ns: Option<u64>,
    /// Waits in a second; not known of all since the start.
    pub rate: Option<f64>,
    /// Seconds of waiting in a second, likewise.
    pub lost: Option<f64>,
}

/// What was charged to the victim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Charged {
    /// For what.
    pub resource: &'static str,
    /// Why.
    pub cause: &'static str,
    /// Whom.
    pub culprit: String,
    /// How long.
    pub ns: u64,
}

/// What the daemon's ledger has of the same time, between two frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// How long it was.
    pub span_ns: u64,
    /// Waits for a CPU.
    pub waits: u64,
    /// All together.
    pub waited_ns: u64,
    /// Who was charged with what, the longest first.
    pub charges: Vec<Charged>,
    /// Of the whole host: what threads spent in direct reclaim of memory.
    pub host_reclaim_ns: u64,
    /// Of the whole host: what the hypervisor took.
    pub host_steal_ns: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Around {
    /// What is usual, where that is known.
    pub usual: Option<Usual>,
    /// What the ledger has, where it was read at the begin and the end.
    pub ledger: Option<Ledger>,
    /// Incidents of the victim, or by it, that are open or ended in the last minutes.
    #[serde(serialize_with = "written")]
    pub incidents: Vec<Arc<Report>>,
}

/// As `/api/v1/incidents` has them.
fn written<S: Serializer>(incidents: &[Arc<Report>], serializer: S) -> Result<S::Ok, S::Error> {
    let document = serde_json::to_value(IncidentsDocument::new(incidents.to_vec(), Vec::new()));
    let document = document.map_err(serde::ser::Error::custom)?;
    document.get("incidents").serialize(serializer)
}

impl Around {
    /// What frames say of those with these labels; the first frame was taken at the begin of the time that is
    /// looked at, or there is none.
    pub fn of(labels: &BTreeSet<String>, name: &str, first: Option<&Frame>, last: &Frame) -> Self {
        Self {
            usual: baseline(name).or_else(|| since_start(labels, last)),
            ledger: first.map(|first| ledger(labels, first, last)),
            incidents: incidents(labels, last),
        }
    }

    /// What the ledger says that the victim's own quota took, ns.
    pub fn throttled_ns(&self) -> u64 {
        let charges = self.ledger.iter().flat_map(|ledger| &ledger.charges);
        let throttled = charges.filter(|charge| charge.cause == Cause::Throttle.name());
        throttled.fold(0, |sum, charge| sum.saturating_add(charge.ns))
    }
}

/// What a daemon on this host has learnt and left on the disk since this boot.
fn baseline(name: &str) -> Option<Usual> {
    let left = state::read(Path::new(state::DEFAULT_DIRECTORY)).ok().flatten()?;
    let boot = procfs::text("/proc/sys/kernel/random/boot_id").ok()?;
    if left.baselines.boot != boot.trim() {
        return None;
    }
    let watched = Watched::from(Signal::CgroupRunqueueWait);
    let is_it = |of: &Watched, subject: &str| *of == watched && subject == name;
    let learnt = left.baselines.learnt.into_iter().find(|one| is_it(&one.signal, &one.subject))?;
    let level = learnt.baseline.level();
    Some(Usual {
        from: "baseline",
        mean_ns: level.mean_ns?,
        p99_ns: level.p99_ns,
        rate: Some(level.rate),
        lost: Some(level.lost),
    })
}

fn since_start(labels: &BTreeSet<String>, frame: &Frame) -> Option<Usual> {
    let mut all = Histogram::default();
    for series in &frame.sample.series {
        let is_its = series.labels.first().is_some_and(|label| labels.contains(label));
        if series.signal == Signal::CgroupRunqueueWait && is_its {
            all.add(&series.totals);
        }
    }
    let count = all.count();
    (count > 0).then(|| Usual {
        from: "since_start",
        mean_ns: all.sum_ns as f64 / count as f64,
        p99_ns: all.quantile_ns(0.99),
        rate: None,
        lost: None,
    })
}

fn ledger(labels: &BTreeSet<String>, first: &Frame, last: &Frame) -> Ledger {
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
    let charged = |((resource, cause, culprit), ns): ((_, Cause, &str), u64)| Charged {
        resource,
        cause: cause.name(),
        culprit: culprit.to_owned(),
        ns,
    };
    let mut charges: Vec<_> = sums.into_iter().map(charged).collect();
    charges.sort_by(|one, other| other.ns.cmp(&one.ns).then(one.culprit.cmp(&other.culprit)));
    charges.truncate(MOST_CHARGES);
    Ledger {
        span_ns: last.sample.at_ns.saturating_sub(first.sample.at_ns),
        waits: waits.count(),
        waited_ns: waits.sum_ns,
        charges,
        host_reclaim_ns: step.lost_ns(Signal::DirectReclaim),
        host_steal_ns: step.stolen_ns(),
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

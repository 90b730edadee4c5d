//! The daemon's charges for one victim against the referee's, over the same stretch of time.
//!
//! The referee knows threads; a [`Cast`] says which cgroup each belongs to, or which kernel thread it
//! is. Tasks of no group that the test planted are one culprit, [`OTHERS`], on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::compare::Observation;
use crate::group::Group;
use crate::pairing::charges::{Charge, Entrance, Holder, charges, entrances};
use crate::prom::{LabelSet, Scrape, label_set};
use crate::task::kernel_threads;

/// The metric that says who did it.
pub const INTERFERENCE: &str = "noised_interference_seconds_total";

/// The culprit that stands for every group which the test did not plant.
pub const OTHERS: &str = "(others)";

/// Part of a resource's total by which any charge may differ: a moment between a program's stamp and
/// that of the trace belongs to the one here and to the other there.
const BOUNDARY_SHARE: f64 = 0.005;

/// What the daemon may leave without a culprit, of a resource's total.
const UNTRACKED_SHARE: f64 = 0.1;

/// Pieces of time shorter than so many times the distance of two stamps are mostly that distance.
const SHORT: f64 = 2.0;

/// Seconds that are not worth a dispute: a few stamps that are apart, a few pieces of code that found cold caches.
const FLOOR: f64 = 0.000_5;

/// Causes that say it all.
const OWN_CULPRITS: [&str; 5] = ["nmi", "throttle", "steal", "idle", "untracked"];

/// Who is who among threads.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    groups: BTreeMap<i32, String>,
    kernel: BTreeMap<i32, String>,
}

impl Cast {
    /// Looks who is in these groups now, and which kernel threads there are.
    pub fn look(groups: &[&Group]) -> Result<Self> {
        let mut cast = Self::default();
        for group in groups {
            let threads = group.threads()?;
            cast.groups.extend(threads.into_iter().map(|thread| (thread, group.label())));
        }
        for thread in kernel_threads()? {
            let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
            cast.kernel.insert(thread, family(name.trim()).to_owned());
        }
        Ok(cast)
    }

    /// The threads of a group.
    pub fn threads(&self, group: &Group) -> BTreeSet<i32> {
        let label = group.label();
        let own = self.groups.iter().filter(|(_, found)| **found == label);
        own.map(|(thread, _)| *thread).collect()
    }

    fn knows(&self, label: &str) -> bool {
        self.groups.values().any(|group| group == label)
    }

    /// Cause and culprit of what `holder` did to `victim`; nothing where the referee cannot tell.
    fn charge(&self, victim: &str, holder: &Holder) -> Option<(&'static str, String)> {
        Some(match holder {
            Holder::Task(pid) => match (self.groups.get(pid), self.kernel.get(pid)) {
                (Some(group), _) if group == victim => ("self", group.clone()),
                (Some(group), _) => ("foreign", group.clone()),
                (None, Some(name)) => ("kthread", name.clone()),
                (None, None) => ("foreign", OTHERS.to_owned()),
            },
            // Tests start them, from the group that the test itself is in.
            Holder::Newcomer(_) => ("foreign", OTHERS.to_owned()),
            Holder::Idle => ("idle", String::new()),
            Holder::Hardirq(name) | Holder::Vector(name) => ("hardirq", name.to_string()),
            Holder::Softirq(name) => ("softirq", name.to_string()),
            Holder::Nmi => ("nmi", String::new()),
            Holder::Unknown => return None,
        })
    }
}

/// A kernel thread's name without what tells it from its like.
fn family(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// What was charged with what: resource, cause, culprit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blame {
    /// What the victim had to do without.
    pub resource: String,
    /// Why.
    pub cause: String,
    /// Because of whom.
    pub culprit: String,
}

/// Seconds that the referee charges: at least, and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// What ended between the scrapes for certain.
    pub least: f64,
    /// What may have.
    pub most: f64,
    /// Pieces of time of which that is the sum.
    pub pieces: u64,
}

/// One victim's charges by both.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// By the daemon, seconds.
    pub found: BTreeMap<Blame, f64>,
    /// By the referee.
    pub expected: BTreeMap<Blame, Bounds>,
    /// Seconds of the victim's waits, by resource, of which the referee does not know the culprit.
    pub unknown: BTreeMap<String, f64>,
    /// How far two stamps of one event may be apart, seconds.
    resolution: f64,
}

/// What the daemon charged between two scrapes for this victim. A series that is lower than it was has given way meanwhile, and
/// counts from 0 since it came back.
pub fn charged(first: &Scrape, last: &Scrape, victim: &str) -> Result<BTreeMap<Blame, f64>> {
    let earlier = first.series(INTERFERENCE);
    let mut found: BTreeMap<Blame, f64> = BTreeMap::new();
    for (labels, seconds) in last.series(INTERFERENCE) {
        let label = |name: &str| labels.get(name).cloned().with_context(|| format!("no {name}"));
        let before = earlier.get(&labels).filter(|before| **before <= seconds);
        let grown = seconds - before.unwrap_or(&0.0);
        if label("victim")? == victim && grown > 0.0 {
            let (resource, cause) = (label("resource")?, label("cause")?);
            *found.entry(Blame { resource, cause, culprit: label("culprit")? }).or_default() +=
                grown;
        }
    }
    Ok(found)
}

/// The part of the time between two scrapes for which others kept this victim from a CPU, or the
/// hypervisor did. Who is its own noise is not among the others.
/// Errors: if a charge lacks a label.
pub fn kept_by_others(
    (first, last): (&Scrape, &Scrape),
    time: Duration,
    victim: &str,
    is_own: impl Fn(&str) -> bool,
) -> Result<f64> {
    let charges = charged(first, last, victim)?;
    let by_others = charges.iter().filter(|(blame, _)| {
        blame.resource == "cpu" && blame.cause != "idle" && !is_own(&blame.culprit)
    });
    Ok(by_others.map(|(_, seconds)| seconds).sum::<f64>() / time.as_secs_f64())
}

impl Account {
    /// Both sides' charges for what was done to `victim`.
    pub fn of(seen: &Observation, victim: &Group, cast: &Cast) -> Result<Self> {
        let label = victim.label();
        let mut account = Self { resolution: seen.resolution_ns / 1e9, ..Self::default() };
        for (mut blame, seconds) in charged(&seen.first, &seen.last, &label)? {
            if blame.cause == "foreign" && !cast.knows(&blame.culprit) {
                OTHERS.clone_into(&mut blame.culprit);
            }
            if blame.cause == "kthread" {
                blame.culprit = family(&blame.culprit).to_owned();
            }
            if OWN_CULPRITS.contains(&&*blame.cause) {
                blame.culprit.clear();
            }
            *account.found.entry(blame).or_default() += seconds;
        }
        let mut charges = charges(&seen.trace.events, &cast.threads(victim));
        println!("{label}: {} waits by ftrace", charges.waits);
        let entrances = entrances(&seen.trace.events);
        let entered = |charge: &Charge, when: fn(&Entrance) -> u64| {
            entrances.get(&charge.pid).is_none_or(|entrance| charge.end_ns > when(entrance))
        };
        let all_ns = |charges: &[Charge]| charges.iter().map(|charge| charge.ns).sum::<u64>();
        let before_ns = all_ns(&charges.waiting);
        charges.waiting.retain(|charge| entered(charge, |entrance| entrance.at_ns));
        let outside_ns = before_ns - all_ns(&charges.waiting);
        println!("{outside_ns} ns waited before its threads entered");
        charges.running.retain(|charge| entered(charge, |entrance| entrance.turn_end_ns));
        for (resource, charges) in [("cpu", &charges.waiting), ("running", &charges.running)] {
            account.expect(seen, resource, &label, cast, charges);
        }
        *account.unknown.entry("cpu".to_owned()).or_default() += charges.doubtful_ns as f64 / 1e9;
        Ok(account)
    }

    fn expect(
        &mut self,
        seen: &Observation,
        resource: &str,
        victim: &str,
        cast: &Cast,
        charges: &[Charge],
    ) {
        for charge in charges {
            let (certain, possible) = seen.covers(charge.end_ns);
            let seconds = charge.ns as f64 / 1e9;
            match cast.charge(victim, &charge.holder) {
                Some((cause, culprit)) => {
                    let (resource, cause) = (resource.to_owned(), cause.to_owned());
                    let bounds =
                        self.expected.entry(Blame { resource, cause, culprit }).or_default();
                    bounds.least += if certain { seconds } else { 0.0 };
                    bounds.most += if possible { seconds } else { 0.0 };
                    bounds.pieces += u64::from(possible);
                }
                None if possible => {
                    *self.unknown.entry(resource.to_owned()).or_default() += seconds;
                }
                None => {}
            }
        }
    }

    /// Adds what the referee charges for waits in queues.
    pub fn expect_queued(
        &mut self,
        seen: &Observation,
        resource: &str,
        victim: &Group,
        cast: &Cast,
        charges: &[Charge],
    ) {
        self.expect(seen, resource, &victim.label(), cast, charges);
    }

    /// Adds seconds of waits of which the referee cannot tell whose they are.
    pub fn doubt(&mut self, resource: &str, seconds: f64) {
        *self.unknown.entry(resource.to_owned()).or_default() += seconds;
    }

    /// The referee's seconds of one cause, all culprits together.
    pub fn expected_of(&self, resource: &str, cause: &str) -> f64 {
        let fits = |blame: &Blame| blame.resource == resource && blame.cause == cause;
        let rows = self.expected.iter().filter(|(blame, _)| fits(blame));
        rows.map(|(_, bounds)| f64::midpoint(bounds.least, bounds.most)).sum()
    }

    /// The daemon's seconds of one cause, all culprits together.
    pub fn found_of(&self, resource: &str, cause: &str) -> f64 {
        let fits = |blame: &Blame| blame.resource == resource && blame.cause == cause;
        self.found.iter().filter(|(blame, _)| fits(blame)).map(|(_, seconds)| seconds).sum()
    }

    /// Requires that the daemon's worst culprit is one of the planted.
    /// Errors: if it is another, and if it is another by ftrace too: then the machine was too busy to tell.
    pub fn ensure_first(&self, planted: &[String], resources: &[&str]) -> Result<()> {
        let found = rank(&self.found, resources);
        let middle = |bounds: &Bounds| f64::midpoint(bounds.least, bounds.most);
        let expected =
            self.expected.iter().map(|(blame, bounds)| (blame.clone(), middle(bounds))).collect();
        let expected = rank(&expected, resources);
        let is_planted = |ranking: &[(String, f64)]| {
            ranking.first().is_some_and(|(culprit, _)| planted.contains(culprit))
        };
        ensure!(
            is_planted(&expected),
            "the recording is inconclusive: planted were {planted:?}, but by ftrace {expected:?} \
             delayed the victim"
        );
        ensure!(is_planted(&found), "planted were {planted:?}, noised has {found:?}");
        Ok(())
    }

    /// Prints both sides.
    /// Errors: if a charge of these resources differs by more than `share` of it, next to what belongs to
    /// none for certain.
    pub fn verdict(&self, resources: &[&str], share: f64) -> Result<()> {
        let mut text = format!(
            "{:<8} {:<10} {:<40} {:>11} {:>11} {:>7}\n",
            "resource", "cause", "culprit", "noised s", "ftrace s", "diff %"
        );
        let mut faults = Vec::new();
        let keys: BTreeSet<&Blame> = self.found.keys().chain(self.expected.keys()).collect();
        for blame in keys.into_iter().filter(|blame| resources.contains(&&*blame.resource)) {
            let found = self.found.get(blame).copied().unwrap_or_default();
            let bounds = self.expected.get(blame).copied().unwrap_or_default();
            let tolerance = self.tolerance(blame, bounds, share);
            let differs = !self.beyond_sight(blame)
                && (found < bounds.least - tolerance || found > bounds.most + tolerance);
            let middle = f64::midpoint(bounds.least, bounds.most);
            let percent = if middle > 0.0 { (found / middle - 1.0) * 100.0 } else { 0.0 };
            let Blame { resource, cause, culprit } = blame;
            writeln!(
                text,
                "{resource:<8} {cause:<10} {culprit:<40} {found:>11.6} {middle:>11.6} {percent:>7.2}{}",
                if differs { "  <-- differs" } else { "" }
            )?;
            if differs {
                faults.push(format!(
                    "{resource} {cause} {culprit}: {found:.6} s, ftrace has {:.6}..={:.6} s",
                    bounds.least, bounds.most
                ));
            }
        }
        println!("{text}not known to ftrace: {:?}", self.unknown);
        for resource in resources {
            let (untracked, total) = (self.found_of(resource, "untracked"), self.total(resource));
            if untracked > UNTRACKED_SHARE * total + self.unknown_of(resource) {
                faults.push(format!("{resource}: of {total:.6} s, {untracked:.6} s are untracked"));
            }
        }
        ensure!(!self.found.is_empty(), "noised charges no culprit in {INTERFERENCE}");
        if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
    }

    /// Whether ftrace has no event for such a charge, or the daemon says that it has none itself.
    fn beyond_sight(&self, blame: &Blame) -> bool {
        ["steal", "untracked"].contains(&&*blame.cause)
    }

    fn unknown_of(&self, resource: &str) -> f64 {
        self.unknown.get(resource).copied().unwrap_or_default()
    }

    /// Seconds by which a charge may differ. What one side cannot charge is with somebody on the
    /// other.
    fn tolerance(&self, blame: &Blame, bounds: Bounds, share: f64) -> f64 {
        let resource = &blame.resource;
        let clocks = bounds.pieces as f64 * self.resolution;
        let clocks = if bounds.most < SHORT * clocks { clocks } else { 0.0 };
        FLOOR
            + share * bounds.most
            + BOUNDARY_SHARE * self.total(resource)
            + clocks
            + self.unknown_of(resource)
            + self.found_of(resource, "steal")
            + self.found_of(resource, "untracked")
    }

    fn total(&self, resource: &str) -> f64 {
        let rows = self.expected.iter().filter(|(blame, _)| blame.resource == resource);
        rows.map(|(_, bounds)| bounds.most).sum()
    }
}

/// Requires that the daemon counts the victim's preemptions as the referee does, by who took the CPU.
/// Errors: if one count differs by more than a hundredth, the switches that the recording lacks, and those by
/// or from a process that had not entered its group yet.
pub fn ensure_preemptions(seen: &Observation, victim: &Group, cast: &Cast) -> Result<()> {
    const METRIC: &str = "noised_preemptions_total";
    let label = victim.label();
    let mut found: BTreeMap<(String, String), f64> = BTreeMap::new();
    for (labels, count) in seen.counters(METRIC)? {
        let value = |name: &str| labels.get(name).cloned().with_context(|| format!("no {name}"));
        if value("victim")? == label {
            let (relation, culprit) = (value("relation")?, value("culprit")?);
            let culprit = match relation.as_str() {
                "foreign" if !cast.knows(&culprit) => OTHERS.to_owned(),
                "kthread" => family(&culprit).to_owned(),
                _ => culprit,
            };
            *found.entry((relation, culprit)).or_default() += count;
        }
    }
    let entrances = entrances(&seen.trace.events);
    let mut before_entrance = 0.0;
    let mut expected: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for preemption in charges(&seen.trace.events, &cast.threads(victim)).preemptions {
        let outside = |pid: &i32| {
            entrances.get(pid).is_some_and(|entrance| preemption.end_ns <= entrance.turn_end_ns)
        };
        let by_outsider = matches!(&preemption.holder, Holder::Task(pid) if outside(pid));
        before_entrance += f64::from(u8::from(by_outsider || outside(&preemption.pid)));
        let (certain, possible) = seen.covers(preemption.end_ns);
        if let Some((relation, culprit)) = cast.charge(&label, &preemption.holder) {
            let (least, most) = expected.entry((relation.to_owned(), culprit)).or_default();
            *least += f64::from(u8::from(certain));
            *most += f64::from(u8::from(possible));
        }
    }
    let gaps: usize = seen.trace.sights.values().map(|sight| sight.gaps).sum();
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    for key in keys {
        let count = found.get(key).copied().unwrap_or_default();
        let (least, most) = expected.get(key).copied().unwrap_or_default();
        println!(
            "preempted by {key:?}: noised {count}, ftrace {least}..={most}; \
             {before_entrance} before an entrance, {gaps} gaps"
        );
        let margin = gaps as f64 + most / 100.0 + before_entrance;
        ensure!(
            (least - margin..=most + margin).contains(&count),
            "preempted by {key:?} {count} times, ftrace has {least}..={most}"
        );
    }
    ensure!(!found.is_empty(), "noised counts no preemption in {METRIC}");
    Ok(())
}

/// Culprits of these resources by seconds, the worst first. Idleness is charged to none of them, and what the victim
/// does to itself is no other's.
pub fn rank(charged: &BTreeMap<Blame, f64>, resources: &[&str]) -> Vec<(String, f64)> {
    let mut culprits: BTreeMap<&str, f64> = BTreeMap::new();
    for (blame, seconds) in charged {
        if resources.contains(&&*blame.resource) && !["idle", "self"].contains(&&*blame.cause) {
            *culprits.entry(&blame.culprit).or_default() += seconds;
        }
    }
    let mut ranking: Vec<_> =
        culprits.into_iter().map(|(culprit, seconds)| (culprit.to_owned(), seconds)).collect();
    ranking.sort_by(|one, other| other.1.total_cmp(&one.1));
    ranking
}

/// Requires that the charges for waiting sum to the waits, of a group that came and went during the
/// observation. A wait of which the end was not seen is in no histogram, but what of it passed before the thread
/// moved to its last CPU is charged, where the daemon still knew when and where the wait began.
/// Errors: if they do not.
pub fn ensure_sums(seen: &Observation, victim: &Group, cast: &Cast) -> Result<()> {
    let waits = seen.last.histograms("noised_cgroup_runqueue_wait_seconds")?;
    let label = victim.label();
    let waits = waits
        .get(&label_set(&[("cgroup", &label)]))
        .with_context(|| format!("noised has no waits of {label}"))?;
    let own = |labels: &LabelSet| {
        labels.get("victim") == Some(&label)
            && labels.get("resource").is_some_and(|resource| resource == "cpu")
    };
    let charged: f64 = seen
        .last
        .series(INTERFERENCE)
        .into_iter()
        .filter(|(labels, _)| own(labels))
        .map(|(_, seconds)| seconds)
        .sum();
    let moved_ns = charges(&seen.trace.events, &cast.threads(victim)).moved_ns;
    let (waited, moved) = (waits.sum_seconds, moved_ns as f64 / 1e9);
    println!(
        "{label} waited {waited} s and was charged for {charged} s; {moved} s of waits without an end were \
         charged at moves"
    );
    // Floating-point numbers on either side.
    let margin = 1e-9 * waited.max(1.0);
    // Stamps of the moves.
    let stamps = if moved_ns > 0 { FLOOR } else { 0.0 };
    let most = moved * (1.0 + BOUNDARY_SHARE) + stamps + margin;
    ensure!(
        (-margin..=most).contains(&(charged - waited)),
        "{label}: charges of {charged} s for waits of {waited} s, with {moved} s charged at moves of waits \
         that have no end"
    );
    Ok(())
}

//! Who is held up: a row for each victim, those with open incidents first, then the worst, with who does it.
//!
//! They are ranked by the time that something else held them up: others, interrupts, their quota, the hypervisor.
//! Work that waits for itself, or for a CPU that is waking up, loses time as well, but no other work is to blame.

mod page;

pub use self::page::page as open;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use noise_analysis::{Process, Report, Side, Usual, processes};
use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_model::labels::{OTHER, ROOT, spoken_briefly};
use noise_model::words::{culprit_briefly, why};
use noise_model::{Amount as _, Histogram};
use noise_verdict::{Account, ChargedCulprit, Finding, held_up, mostly};

use super::recent::{Recent, empty};
use super::{cells, tally, threads, totals};
use crate::pairs::Cost;
use crate::{Cell, Column, History, ScreenLook, Table, TableRow, Tone};

/// Victims with a row of their own, those with open incidents first.
const SHOWN: usize = 200;
/// Who was held up for less of the time, and suffers from no incident, lacks nothing.
const LEAST_LOST: f64 = 0.01;

/// One victim in the time that is looked at.
struct VictimRow<'a> {
    name: &'a str,
    /// All that it lost.
    whole: Cost,
    /// Who held it up most.
    culprit: Option<(&'a str, Cost)>,
}

/// The victims, those with open incidents first, then who was held up most.
fn victims<'a>(history: &'a History, recent: &Recent<'_>) -> Vec<VictimRow<'a>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut victims: Vec<VictimRow<'a>> = Vec::new();
    let sums = history.pairs().sums(recent.steps.len());
    for (_, (name, culprit), cost) in sums.filter(|(.., cost)| cost.ns > 0) {
        let place = *places.entry(name).or_insert_with(|| {
            victims.push(VictimRow { name, whole: Cost::default(), culprit: None });
            victims.len() - 1
        });
        let Some(victim) = victims.get_mut(place) else { continue };
        victim.whole.add(&cost);
        let most = victim.culprit.map_or(0, |(_, most)| most.held_up_ns);
        if cost.held_up_ns > most {
            victim.culprit = Some((culprit, cost));
        }
    }
    let frame = history.latest();
    let disturbed: BTreeSet<&str> =
        frame.into_iter().flat_map(|frame| frame.overview.victims()).map(|name| &**name).collect();
    // Before the second reading, it is not known what they lost.
    let is_known = !recent.steps.is_empty();
    let quiet = disturbed.iter().filter(|name| is_known && !places.contains_key(**name));
    victims.extend(quiet.map(|name| VictimRow { name, whole: Cost::default(), culprit: None }));
    let rank = |one: &VictimRow<'_>| Reverse((one.whole.held_up_ns, one.whole.threads_ns));
    victims.sort_by_key(|one| (!disturbed.contains(one.name), rank(one), one.name));
    victims.truncate(SHOWN);
    victims
}

/// What each of these victims was mainly held up for, and why most by its main culprit.
fn lacking<'a>(
    recent: &Recent<'_>,
    victims: &[VictimRow<'a>],
) -> HashMap<&'a str, (Option<Account>, Option<Cause>)> {
    // For how long, ns, by whether the main culprit did it.
    type HeldUp = BTreeMap<(Resource, Cause, bool), u64>;
    let all = victims.iter().map(|one| (one.name, (one.culprit, HeldUp::new())));
    let mut all: HashMap<&str, _> = all.collect();
    for step in &recent.steps {
        // Those of a victim are beside each other.
        for own in step.charges.chunk_by(|one, other| Arc::ptr_eq(&one.victim, &other.victim)) {
            let victim = own.first().and_then(|first| all.get_mut(&*first.victim));
            let Some((culprit, sums)) = victim else { continue };
            for one in own.iter().filter(|one| one.held_up_ns() > 0) {
                let is_main = culprit.is_some_and(|(name, _)| *name == *one.culprit);
                sums.entry((one.resource, one.cause, is_main)).or_default().add(&one.held_up_ns());
            }
        }
    }
    let lacks = |(victim, (_, sums)): (&'a str, (_, HeldUp))| {
        let own = sums.iter().filter(|((.., is_main), _)| *is_main);
        let cause = totals::main_cause(own.map(|((_, cause, _), ns)| (*cause, *ns)));
        let charges = sums.iter().map(|((resource, cause, _), ns)| (*resource, *cause, *ns));
        (victim, (mostly(charges), cause))
    };
    all.into_iter().map(lacks).collect()
}

/// How a cgroup usually waits for a CPU, where that is known.
fn usual<'a>(history: &'a History, cgroup: &str) -> Option<&'a Usual> {
    history.latest()?.overview.usual.iter().find(|usual| *usual.subject == *cgroup)
}

/// Numbers of the incidents that a cgroup suffers from, and what it lacks in each.
fn incidents(history: &History, victim: &str) -> Vec<(u64, &'static str)> {
    let latest = history.latest().into_iter();
    latest
        .flat_map(|frame| frame.overview.suffers(victim))
        .map(|(report, episode)| (report.id, report.resource_of(episode).name()))
        .collect()
}

fn columns() -> Vec<Column> {
    vec![
        cells::names("victim", "victim", 14).grows().help("Who was delayed: a cgroup."),
        cells::numbers("held up", "held_up_seconds_per_second", 9).help(
            "Time in a second that something else kept it waiting: others, interrupts, its CPU \
             quota, the hypervisor; of all its threads, and of each of its requests to disks and \
             packets by itself. Rows are ranked by it, behind those with open incidents.",
        ),
        cells::names("lacks", "resource", 6).help(
            "What it was mainly held up for: cpu, quota, disk, network, …; empty below 1 % of \
             the time.",
        ),
        cells::names("main culprit", "culprit", 16)
            .grows()
            .help("Who held it up most, and that culprit's part of what held it up."),
        cells::names("why", "why", 14)
            .help("How: another cgroup had what it waited for, an interrupt took its CPU, …"),
        cells::numbers("p99 wait", "p99_seconds", 8)
            .help("99 of 100 waits for a CPU were no longer."),
        cells::numbers("usual", "usual_p99_seconds", 8).help("The same as learnt of calm times."),
        cells::pictures("15 minutes", "held_up_over_time", 10)
            .help("Held up over the last 15 minutes, or as long as is known."),
        cells::numbers("all lost", "lost_seconds_per_second", 9).help(
            "All time that its threads lost in a second: also behind their own work, for CPUs \
                 that were idle, and asleep until a disk was done. One thread loses 1 s/s at most; \
                 requests and packets are not added.",
        ),
        cells::numbers("now", "open_incidents", 4).help("Incidents that it suffers from."),
    ]
}

/// Who it is; of the root cgroup, with the thread that waited longest.
fn named(history: &History, victim: &str) -> Cell {
    match threads::first_victim(history, victim) {
        Some(first) => Cell::Named {
            name: spoken_briefly(victim).to_owned(),
            notes: vec![format!(", {first}")],
        },
        None => cells::cgroup(victim),
    }
}

/// A row for each victim.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let recent = Recent::new(history, look);
    let victims = victims(history, &recent);
    let waits: HashMap<&str, Histogram> =
        tally::recent_by_labels(history, &recent, Signal::CgroupRunqueueWait)
            .into_iter()
            .filter_map(|(labels, delays)| Some((labels.first()?.as_str(), delays)))
            .collect();
    let lacks = lacking(&recent, &victims);
    let row = |victim: &VictimRow<'_>| {
        let open = incidents(history, victim.name).len();
        let short = history.latest().and_then(|frame| frame.overview.short_of_memory(victim.name));
        let mark = if open > 0 { format!("●{open}") } else { String::new() };
        let (mainly, cause) = lacks.get(victim.name).copied().unwrap_or_default();
        let (culprit, why) = match (&short, victim.culprit) {
            (Some(by), _) => {
                (Cell::Named { name: by.clone().into_owned(), notes: Vec::new() }, cells::text(""))
            }
            (None, Some((name, cost))) => {
                let share = cells::ratio(cost.held_up_ns as f64, victim.whole.held_up_ns as f64);
                let mut notes = vec![format!(" {}", noise_text::units::share(share))];
                let first = threads::first_culprit(history, victim.name, name);
                notes.extend(first.map(|first| format!(", {first}")));
                let name = cause.map_or(name, |cause| culprit_briefly(cause, name));
                let why = cause.map_or("", why);
                (Cell::Named { name: name.to_owned(), notes }, cells::text(why))
            }
            (None, None) => (cells::text(""), cells::text("")),
        };
        let is_little = open == 0 && recent.lost(victim.whole.held_up_ns) < LEAST_LOST;
        let lacks = short.map(|_| Account::Memory).or(mainly.filter(|_| !is_little));
        let usual = usual(history, victim.name).and_then(|usual| usual.level.p99_ns);
        let tone = match (open, victim.whole.held_up_ns) {
            (1.., _) => Tone::Alarm,
            (_, 0) => Tone::Dim,
            _ if victim.name == OTHER => Tone::Dim,
            _ => Tone::Plain,
        };
        TableRow {
            key: victim.name.to_owned(),
            cells: vec![
                named(history, victim.name),
                cells::lost(recent.lost(victim.whole.held_up_ns)),
                cells::text(lacks.map_or("", Account::name)),
                culprit,
                why,
                waits
                    .get(victim.name)
                    .map_or_else(cells::nothing, |delays| tally::quantile(delays, 0.99)),
                usual.map_or_else(cells::nothing, |ns| cells::duration(ns as f64)),
                Cell::Spark(history.trends().victim(victim.name)),
                cells::lost(recent.lost(victim.whole.threads_ns)),
                Cell::Number { text: mark, value: Some(open as f64) },
            ],
            tone,
        }
    };
    Table {
        title: format!("Who is held up, incidents first, {}", cells::length(recent.seconds)),
        columns: columns(),
        rows: victims.iter().map(row).collect(),
        sorted_by: 1,
        empty: empty(history, "No delays.").into(),
    }
}

/// What a victim suffers from: the findings of its open incidents; without one, what held it up in the time that is
/// looked at, by counters.
pub fn findings(history: &History, look: &ScreenLook, victim: &str) -> Vec<Finding> {
    let Some(frame) = history.latest() else { return Vec::new() };
    let overview = &frame.overview;
    let mut reports: Vec<&Report> = overview.suffers(victim).map(|(report, _)| report).collect();
    reports.dedup_by_key(|report| report.id);
    if !reports.is_empty() {
        return reports.iter().flat_map(|one| one.findings_of(victim, &look.zone)).collect();
    }
    let recent = Recent::new(history, look);
    let mut sums: BTreeMap<(Resource, Cause, &str), u64> = BTreeMap::new();
    let charges = recent.steps.iter().flat_map(|step| &step.charges);
    for one in charges.filter(|one| *one.victim == *victim && one.held_up_ns() > 0) {
        sums.entry((one.resource, one.cause, &one.culprit)).or_default().add(&one.held_up_ns());
    }
    let outliers = overview.outliers.iter().map(|one| &**one);
    let known = processes(outliers, victim, &overview.commands);
    let threads = |cause, of: &str| {
        let is_cgroup = Cause::is_of_cgroup(cause);
        let own = known.iter().filter(|one| one.side == Side::Culprit && *one.of == *of);
        own.filter(|_| is_cgroup && of == ROOT).map(Process::thread).collect()
    };
    let charged = sums.iter().map(|((resource, cause, name), ns)| {
        let (name, cause, ns) = (*name, *cause, *ns);
        let threads = threads(cause, name);
        (*resource, ChargedCulprit { name, cause, ns, beyond_ns: 0, part: 0.0, threads })
    });
    held_up(charged, (recent.seconds * 1e9) as u64)
}

/// Whose delays a row is about, unless it stands for several.
pub fn victim(key: &str) -> Option<String> {
    (!key.starts_with('~')).then(|| key.to_owned())
}

#[cfg(test)]
mod tests;

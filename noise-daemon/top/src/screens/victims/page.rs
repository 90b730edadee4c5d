//! One victim: who held it up and where, over all resources, and what can be done.

use std::collections::BTreeMap;

use noise_analysis::Remedy;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::signals::Signal;
use noise_model::labels::{ROOT, spoken, spoken_briefly};
use noise_model::words::{culprit_briefly, why};
use noise_model::{Amount as _, Interference};
use noise_text::units;
use noise_verdict::{Finding, called};

use super::{VictimRow, findings, incidents, lacking, usual, victims};
use crate::heat::heatmap;
use crate::screens::cells;
use crate::screens::recent::Recent;
use crate::screens::{tally, threads};
use crate::{Block, History, Page, ScreenLook, Table, TableRow, Tone};

/// Culprits that are listed.
const LISTED: usize = 40;
/// Remedies that are listed.
const REMEDIES: usize = 6;

/// Who did it, by resource, cause, place and name.
type VictimCharges<'a> = BTreeMap<(Resource, Cause, &'a str, &'a str), Charged>;

/// What the row with that key opens.
pub fn page(history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let recent = Recent::new(history, look);
    let all = victims(history, &recent);
    let victim = all.iter().find(|one| one.name == key)?;
    let trend = history.trends().victim(key);
    let known = cells::length(history.trends().seconds());
    let charges = charges(&recent, key);
    let mut blocks = vec![
        Block::Text(lines(history, &recent, victim)),
        tally::graph(&format!("Held up per second, over the last {known}"), trend, units::lost),
        Block::Table(table(&recent, &charges)),
    ];
    blocks.extend(threads::of_victim(history, key));
    blocks.extend(remedies(&findings(history, look, key)));
    blocks.push(Block::Heatmap(heatmap(
        history,
        "How long it waited for a CPU, over time",
        Signal::CgroupRunqueueWait,
        |labels| labels.first().is_some_and(|label| label == key),
    )));
    Some(Page { title: format!("{}: who holds it up", spoken_briefly(key)), blocks })
}

fn lines(history: &History, recent: &Recent<'_>, victim: &VictimRow<'_>) -> Vec<(String, Tone)> {
    let name = spoken(victim.name);
    let was = if victim.name == ROOT { "were" } else { "was" };
    let length = cells::length(recent.seconds);
    let held_up_ns = victim.whole.held_up_ns;
    let first = match victim.culprit {
        Some((culprit, cost)) => {
            let share = units::share(cells::ratio(cost.held_up_ns as f64, held_up_ns as f64));
            let lacks = lacking(recent, std::slice::from_ref(victim));
            let cause = lacks.get(victim.name).and_then(|(_, cause)| *cause);
            let why = cause.map_or("not known", why);
            let culprit = cause.map_or(culprit, |cause| called(cause, culprit));
            format!(
                "{name} {was} held up {} in the last {length}, {share} of it by {culprit} ({why}).",
                units::lost(recent.lost(held_up_ns)),
            )
        }
        None => format!("Nothing else held {name} up in the last {length}."),
    };
    let mut lines = vec![(first, Tone::Strong)];
    let charges = recent.steps.iter().flat_map(|step| &step.charges);
    let own = charges.filter(|one| *one.victim == *victim.name && one.held_up_ns() == 0);
    let own_ns = own.map(Interference::of_threads_ns).fold(0, u64::saturating_add);
    if own_ns > 0 {
        let own = units::lost(recent.lost(own_ns));
        lines.push((
            format!("It also lost {own} behind its own work, for CPUs that were idle, in sleeps that a device ended, or for reasons that are not known."),
            Tone::Plain,
        ));
    }
    if let Some(usual) = usual(history, victim.name) {
        let usual = units::known_duration(usual.level.p99_ns);
        lines.push((
            format!("99 of 100 of its waits for a CPU are usually no longer than {usual}."),
            Tone::Plain,
        ));
    }
    for (id, resource) in incidents(history, victim.name) {
        lines.push((format!("Incident {id} is open: {resource}."), Tone::Alarm));
    }
    lines
}

fn charges<'a>(recent: &Recent<'a>, victim: &str) -> VictimCharges<'a> {
    let mut sums = VictimCharges::new();
    let all = recent.steps.iter().flat_map(|step| &step.charges);
    for charge in all.filter(|one| one.resource != Resource::Preemption && *one.victim == *victim) {
        let Interference { resource, cause, place, culprit, charged, .. } = charge;
        sums.entry((*resource, *cause, &**place, &**culprit)).or_default().add(charged);
    }
    sums
}

fn table(recent: &Recent<'_>, charges: &VictimCharges<'_>) -> Table {
    let whole_ns: u64 = charges.values().map(|charged| charged.ns).fold(0, u64::saturating_add);
    let mut longest: Vec<_> = charges.iter().collect();
    longest.sort_by_key(|(key, charged)| (std::cmp::Reverse(charged.ns), **key));
    let row = |((resource, cause, place, culprit), charged): (
        &(Resource, Cause, &str, &str),
        &Charged,
    )| TableRow {
        key: format!("{} {} {place} {culprit}", resource.name(), cause.name()),
        cells: vec![
            cells::text(culprit_briefly(*cause, culprit)),
            cells::text(why(*cause)),
            cells::text(match place.is_empty() {
                true => resource.name().to_owned(),
                false => format!("{} {place}", resource.name()),
            }),
            cells::lost(recent.lost(charged.ns)),
            cells::share(charged.ns as f64, whole_ns as f64),
            cells::rate(recent.per_second(charged.count as f64)),
            cells::mean(charged.ns, charged.count),
        ],
        tone: match cause {
            Cause::Own | Cause::Idle | Cause::Untracked => Tone::Dim,
            _ => Tone::Plain,
        },
    };
    Table {
        title: format!("What it lost, by whom, in the last {}", cells::length(recent.seconds)),
        columns: vec![
            cells::names("culprit", "culprit", 14).grows().help("Who did it."),
            cells::names("why", "why", 14).help("How."),
            cells::names("for", "resource", 12).help("What it waited for, or lost."),
            cells::numbers("lost", "lost_seconds_per_second", 9).help("Time lost in a second."),
            cells::pictures("share", "share", 11).help("Its part of all of these."),
            cells::numbers("parts", "parts_per_second", 8)
                .help("Parts of delays in a second: one for each turn of the culprit within one."),
            cells::numbers("mean", "mean_seconds", 8).help("How long one part is."),
        ],
        rows: longest.into_iter().take(LISTED).map(row).collect(),
        sorted_by: 3,
        empty: "Nothing in that time.".into(),
    }
}

/// What can be done about its incidents, as their verdicts have it. What is usual needs no remedy.
fn remedies(findings: &[Finding]) -> Option<Block> {
    let mut remedies: Vec<Remedy> = Vec::new();
    for one in findings.iter().flat_map(|finding| &finding.remedies) {
        if !remedies.contains(&one.remedy) {
            remedies.push(one.remedy);
        }
    }
    let mut lines = vec![("What can be done".to_owned(), Tone::Strong)];
    for remedy in remedies.into_iter().take(REMEDIES) {
        let advice = remedy.advice();
        lines.push((advice.setting.to_owned(), Tone::Plain));
        lines.push((format!("  {} {}", advice.effect, advice.cost), Tone::Dim));
    }
    (lines.len() > 1).then_some(Block::Text(lines))
}

//! Two phases of a scenario, as numbers.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;

use super::{Phase, Stage};
use crate::attribution::{Blame, INTERFERENCE};
use crate::prom::LabelSet;

/// Seconds charged for a resource, if there are any.
fn total(charged: &BTreeMap<Blame, f64>, resource: &str) -> Option<f64> {
    let fits = charged.iter().filter(|(blame, _)| blame.resource == resource);
    fits.map(|(_, seconds)| *seconds).reduce(|sum, one| sum + one)
}

/// Rows of what a victim was charged for in all, by resource.
pub(super) fn charged_rows(stage: &dyn Stage, quiet: &Phase, noisy: &Phase) -> Result<Vec<Row>> {
    let victim = stage.victim().label();
    let (before, after) = (quiet.charged(&victim)?, noisy.charged(&victim)?);
    let row = |resource: &&'static str| Row {
        name: format!("{resource} wait of {victim}"),
        unit: "s",
        quiet: total(&before, resource),
        noisy: total(&after, resource),
    };
    Ok(stage.resources().iter().map(row).collect())
}

/// Culprits that are shown.
const SHOWN: usize = 8;

/// One figure in both phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// Without the culprits.
    pub quiet: Option<f64>,
    /// Beside them.
    pub noisy: Option<f64>,
}

impl Row {
    /// A row of known figures.
    pub fn new(name: impl Into<String>, unit: &'static str, quiet: f64, noisy: f64) -> Self {
        Self { name: name.into(), unit, quiet: Some(quiet), noisy: Some(noisy) }
    }

    /// Rows for total, count and average of a delay, given as count and seconds.
    pub fn delay(name: &str, quiet: (f64, f64), noisy: (f64, f64)) -> [Self; 3] {
        let average = |(count, seconds): (f64, f64)| (count > 0.0).then(|| seconds / count * 1e6);
        [
            Self::new(format!("{name}: count"), "", quiet.0, noisy.0),
            Self::new(format!("{name}: total"), "us", quiet.1 * 1e6, noisy.1 * 1e6),
            Self {
                name: format!("{name}: average"),
                unit: "us",
                quiet: average(quiet),
                noisy: average(noisy),
            },
        ]
    }
}

/// Figures that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// What they are about.
    pub title: String,
    /// The figures.
    pub rows: Vec<Row>,
}

/// Who delayed the victim, in both phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CulpritRow {
    /// As the daemon names it.
    pub culprit: String,
    /// What it took.
    pub resource: String,
    /// How.
    pub cause: String,
    /// Seconds without the planted culprits.
    pub quiet_seconds: f64,
    /// Seconds beside them.
    pub noisy_seconds: f64,
    /// Whether it was planted.
    pub planted: bool,
}

/// A scenario's outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was planted.
    pub plot: String,
    /// The cgroup that was delayed.
    pub victim: String,
    /// Who was to delay it.
    pub planted: Vec<String>,
    /// Lengths of the two phases.
    pub seconds: [f64; 2],
    /// The case's own figures.
    pub sections: Vec<Section>,
    /// Context switches in each window of 500 ms, quiet and noisy.
    pub switches_per_window: [Vec<f64>; 2],
    /// The culprits, the worst of the noisy phase first.
    pub culprits: Vec<CulpritRow>,
    /// The culprit that the daemon charges most in the noisy phase.
    pub named: Option<String>,
    /// Incidents that were opened in the two phases.
    pub incidents: [Option<f64>; 2],
    /// What cannot be shown, and why.
    pub unshown: Vec<String>,
}

impl Report {
    /// Compares two phases.
    pub fn new(stage: &dyn Stage, quiet: &Phase, noisy: &Phase) -> Result<Self> {
        let victim = stage.victim().label();
        let planted = stage.planted();
        let (before, after) = (quiet.charged(&victim)?, noisy.charged(&victim)?);
        let of_stage = |blame: &&Blame| stage.resources().contains(&&*blame.resource);
        let blames: BTreeSet<&Blame> = before.keys().chain(after.keys()).filter(of_stage).collect();
        let mut culprits: Vec<CulpritRow> = blames
            .into_iter()
            .map(|blame| CulpritRow {
                culprit: blame.culprit.clone(),
                resource: blame.resource.clone(),
                cause: blame.cause.clone(),
                quiet_seconds: before.get(blame).copied().unwrap_or_default(),
                noisy_seconds: after.get(blame).copied().unwrap_or_default(),
                planted: planted.contains(&blame.culprit),
            })
            .collect();
        culprits.sort_by(|one, other| other.noisy_seconds.total_cmp(&one.noisy_seconds));
        culprits.truncate(SHOWN);
        let named = crate::attribution::rank(&after, stage.resources());
        let named = named.into_iter().next().map(|(culprit, _)| culprit);
        let mut unshown = stage.unshown();
        if !noisy.has(INTERFERENCE) {
            unshown.push(format!("who delayed the victim: noised exports no {INTERFERENCE}"));
        } else if named.is_none() {
            unshown.push("who delayed the victim: noised charges no culprit for it".to_owned());
        }
        let folded = |labels: &LabelSet| labels.values().any(|metric| metric == INTERFERENCE);
        let series = noisy.last.series("noised_series_folded_total");
        let folded: f64 = series.iter().filter(|(it, _)| folded(it)).map(|(_, count)| count).sum();
        if folded > 0.0 {
            unshown.push(format!(
                "what noised folded into ~other: it had no series left for {folded:.0} of those who \
                 delayed a victim"
            ));
        }
        let incidents = [quiet.incidents(), noisy.incidents()];
        if incidents.contains(&None) {
            unshown.push("incidents: noised exports no noised_incidents_total".to_owned());
        }
        Ok(Self {
            plot: stage.plot(),
            victim,
            planted,
            seconds: [quiet.seconds, noisy.seconds],
            sections: stage.sections(quiet, noisy)?,
            switches_per_window: [quiet.switches.clone(), noisy.switches.clone()],
            culprits,
            named,
            incidents,
            unshown,
        })
    }
}

//! What `noised trace compare` says of two recordings, as far as it is judged.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::program::EXECUTION;
use crate::daemon::run_noised;
use crate::scratch::argument;

/// All of it.
#[derive(Debug, Deserialize)]
pub struct Said {
    /// Both sets.
    pub executions: Both<Vec<Run>>,
    /// Rules that hold.
    pub flagged: Vec<Flag>,
    /// The cluster of each execution, -1 between clusters.
    pub clusters: Both<Vec<i64>>,
    /// What is too long, what lost the most first.
    pub anomalies: Vec<Anomaly>,
}

/// Of each set.
#[derive(Debug, Deserialize)]
pub struct Both<T> {
    /// The normal one.
    pub normal: T,
    /// The sample.
    pub sample: T,
}

/// An execution.
#[derive(Debug, Deserialize)]
pub struct Run {
    /// `KIND-ROUND`.
    pub key: String,
    /// Its begin, nanoseconds since the epoch of the recording's clock.
    pub from_ns: u64,
}

impl Run {
    fn kind(&self) -> &str {
        self.key.split_once('-').map_or(&self.key, |(kind, _)| kind)
    }
}

/// A rule that holds.
#[derive(Debug, Deserialize)]
pub struct Flag {
    /// For which state.
    pub state: String,
    /// For people.
    pub reason: String,
}

/// An execution that is too long in a state.
#[derive(Debug, Deserialize)]
pub struct Anomaly {
    /// Its number in the sample.
    pub execution: usize,
    /// The state.
    pub state: String,
    /// Where the time was lost, the most first.
    pub places: Vec<Place>,
}

/// A place where time was lost.
#[derive(Debug, Deserialize)]
pub struct Place {
    /// From then on.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// The time that is more than usual.
    pub lost_ns: f64,
    /// For whom.
    pub culprits: Vec<Culprit>,
}

/// Who took a part of a wait.
#[derive(Debug, Deserialize)]
pub struct Culprit {
    /// How.
    pub cause: String,
    /// For so long.
    pub ns: u64,
}

/// The arguments of the command.
pub fn arguments<'a>(normal: &'a Path, sample: &'a Path) -> Result<[&'a str; 6]> {
    Ok(["trace", "compare", argument(normal)?, argument(sample)?, "--execution", EXECUTION])
}

/// Compares two recordings.
///
/// # Errors
/// If the command fails.
pub fn compare(normal: &Path, sample: &Path, options: &[&str]) -> Result<Said> {
    let arguments = arguments(normal, sample)?;
    let outcome = run_noised(&[&arguments[..], &["--json"], options].concat())?;
    ensure!(
        outcome.code == 0,
        "noised trace compare ends with {}: {}",
        outcome.code,
        outcome.stderr
    );
    serde_json::from_str(&outcome.stdout).context("what noised trace compare prints")
}

impl Said {
    /// States that are flagged, each once.
    pub fn states(&self) -> Vec<&str> {
        let mut states: Vec<_> = self.flagged.iter().map(|flag| &*flag.state).collect();
        states.dedup();
        states
    }

    /// Of an execution of the sample: in which state it lost the most, and where.
    pub fn first_place(&self, execution: usize) -> Option<(&str, &Place)> {
        let first = self.anomalies.iter().find(|anomaly| anomaly.execution == execution)?;
        Some((&first.state, first.places.first()?))
    }

    /// How many of the normal executions are in a cluster of their own kind: one of which most executions are of that kind. One
    /// between clusters is in none.
    pub fn with_their_kind(&self) -> (usize, usize) {
        let (runs, labels) = (&self.executions.normal, &self.clusters.normal);
        let mut clusters: BTreeMap<i64, BTreeMap<&str, usize>> = BTreeMap::new();
        for (run, label) in runs.iter().zip(labels).filter(|(_, label)| **label >= 0) {
            *clusters.entry(*label).or_default().entry(run.kind()).or_default() += 1;
        }
        let most = |kinds: &BTreeMap<&str, usize>| kinds.values().copied().max().unwrap_or(0);
        (clusters.values().map(most).sum(), runs.len())
    }
}

impl Place {
    /// Whether most of it lies between two times.
    pub fn is_mostly_within(&self, from_ns: u64, to_ns: u64) -> bool {
        let within_ns = self.to_ns.min(to_ns).saturating_sub(self.from_ns.max(from_ns));
        within_ns > (self.to_ns - self.from_ns) / 2
    }

    /// What is charged to a cause, nanoseconds.
    pub fn ns_of(&self, cause: &str) -> u64 {
        self.culprits.iter().filter(|one| one.cause == cause).map(|one| one.ns).sum()
    }

    /// What is charged to anyone.
    pub fn charged_ns(&self) -> u64 {
        self.culprits.iter().map(|one| one.ns).sum()
    }
}

//! What `noised trace compare` says of two recordings, as far as it is judged.

use std::collections::BTreeMap;
use std::path::Path as Folder;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::program::EXECUTION;
use crate::daemon::run_noised;
use crate::scratch::argument;

/// All of it.
#[derive(Debug, Deserialize)]
pub struct Said {
    /// Both sets.
    pub executions: Both<Vec<Run>>,
    /// Rules that hold by more than recordings differ by, which one recording a side cannot tell.
    pub flagged: Vec<Flag>,
    /// Rules that hold.
    pub effects: Vec<Flag>,
    /// Clusters.
    pub clusters: Clusters,
    /// What is too long, what lost the most first.
    pub anomalies: Vec<Anomaly>,
}

/// Clusters of executions.
#[derive(Debug, Deserialize)]
pub struct Clusters {
    /// The cluster of each normal execution, -1 between clusters.
    pub normal: Vec<i64>,
    /// The one that each counts with: its own, or the nearest.
    pub kinds: Both<Vec<i64>>,
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
pub fn arguments<'a>(normal: &'a Folder, sample: &'a Folder) -> Result<[&'a str; 6]> {
    Ok(["trace", "compare", argument(normal)?, argument(sample)?, "--execution", EXECUTION])
}

/// Compares two recordings.
/// Errors: if the command fails.
pub fn compare(normal: &Folder, sample: &Folder) -> Result<Said> {
    let arguments = arguments(normal, sample)?;
    run_noised(&[&arguments[..], &["--json"]].concat())?.json().context("noised trace compare")
}

impl Said {
    /// Rules that are named, the best known first.
    pub fn named(&self) -> impl Iterator<Item = &Flag> {
        self.flagged.iter().chain(&self.effects)
    }

    /// States that are named, each once.
    pub fn states(&self) -> Vec<&str> {
        let mut states: Vec<_> = self.named().map(|flag| &*flag.state).collect();
        states.dedup();
        states
    }

    /// Of an execution of the sample: in which state it lost the most, and where.
    pub fn first_place(&self, execution: usize) -> Option<(&str, &Place)> {
        let first = self.anomalies.iter().find(|anomaly| anomaly.execution == execution)?;
        Some((&first.state, first.places.first()?))
    }

    /// How many of the normal executions are with their own kind, by these clusters: those of the kind that most of their cluster
    /// are of. One between clusters, where these are none, is not.
    pub fn with_their_kind(&self, labels: &[i64]) -> usize {
        let runs = &self.executions.normal;
        let mut clusters: BTreeMap<i64, BTreeMap<&str, usize>> = BTreeMap::new();
        for (run, label) in runs.iter().zip(labels).filter(|(_, label)| **label >= 0) {
            *clusters.entry(*label).or_default().entry(run.kind()).or_default() += 1;
        }
        let most = |kinds: &BTreeMap<&str, usize>| kinds.values().copied().max().unwrap_or(0);
        clusters.values().map(most).sum()
    }
}

impl Place {
    /// From when until when it is.
    pub const fn span(&self) -> Span {
        Span { from_ns: self.from_ns, to_ns: self.to_ns }
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

/// A part of an execution's time.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    /// From then on.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
}

impl Span {
    /// Whether most of it lies in another one.
    pub fn is_mostly_in(self, other: Self) -> bool {
        let (from_ns, to_ns) = (self.from_ns.max(other.from_ns), self.to_ns.min(other.to_ns));
        to_ns.saturating_sub(from_ns) > self.to_ns.saturating_sub(self.from_ns) / 2
    }
}

/// An execution with its path.
#[derive(Debug, Deserialize)]
pub struct Path {
    /// `KIND-ROUND`.
    pub key: String,
    /// Its parts, from its begin to its end.
    pub path: Vec<Span>,
}

/// The paths of a recording.
/// Errors: if the command fails.
pub fn paths(recording: &Folder) -> Result<Vec<Path>> {
    #[derive(Deserialize)]
    struct Document {
        executions: Vec<Path>,
    }
    let options = ["trace", "critical-path", argument(recording)?, "--execution", EXECUTION];
    let document: Document = run_noised(&[&options[..], &["--json"]].concat())?.json()?;
    Ok(document.executions)
}

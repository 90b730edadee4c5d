//! PURE: what became of incidents between two answers of a daemon. Each event comes once, whatever the daemon does
//! meanwhile: a restart, numbers that begin anew, or an answer that is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use noise_analysis::{Cause, Culprit, Episode, KeptTrace, Name, Report, Watched};
use noise_model::labels::spoken;

use crate::subjects::Subjects;
use noise_pages::incidents::Listing;

/// Incidents that are remembered; a daemon lists at most 4,096 that are over.
const MOST: usize = 1 << 14;
/// By how much of the whole another culprit has to be ahead of the one that was named, before that is an event.
const AHEAD: f64 = 0.1;

noise_common::named! {
    /// What became of an incident.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ChangeKind {
        /// It was open when this began.
        Open = "open",
        Opened = "opened",
        /// Something of it changed.
        Changed = "changed",
        /// It is over, and does not come back.
        Closed = "closed",
        /// It turned out to be a part of another one.
        Merged = "merged",
    }
}

/// What became of one.
#[derive(Clone, Debug)]
pub struct Happened {
    pub kind: ChangeKind,
    /// The incident as it is known now.
    pub report: Arc<Report>,
    /// What was kept of its begin, where that is known.
    pub trace: Option<Arc<KeptTrace>>,
    /// What changed, in sentences.
    pub changes: Vec<String>,
    /// The incident that it is a part of.
    pub into: Option<u64>,
}

/// An incident that was seen.
#[derive(Clone, Debug)]
enum SeenIncident {
    /// It goes on, or may come back.
    Live {
        report: Arc<Report>,
        trace: Option<Arc<KeptTrace>>,
        /// The culprit that was named.
        named: Option<(Name, Cause)>,
    },
    /// It is over, since then.
    Over(Timestamp),
}

impl SeenIncident {
    /// Whether a report is of the same incident, not of another one with the same number.
    fn is_of(&self, report: &Report) -> bool {
        let end = match self {
            // All its times move where the clock is set, or the host slept.
            Self::Live { report: before, .. } if is_same(&before.main, &report.main) => {
                return true;
            }
            Self::Live { report: before, .. } => before.end(),
            Self::Over(end) => *end,
        };
        report.start() <= end
    }
}

fn is_over(report: &Report) -> bool {
    !report.open && !report.resting
}

/// Finds what became of incidents.
#[derive(Debug, Default)]
pub struct Follower {
    subjects: Subjects,
    known: BTreeMap<u64, SeenIncident>,
    has_begun: bool,
}

impl Follower {
    /// One that knows none.
    pub fn new(subjects: Subjects) -> Self {
        Self { subjects, ..Self::default() }
    }

    /// What became of incidents since the answer before, or what is open now.
    pub fn take(&mut self, listing: &Listing) -> Vec<Happened> {
        let mut all = Vec::new();
        for report in &listing.incidents {
            let trace = listing.traces.iter().find(|trace| trace.incident == report.id);
            self.see(report, trace.cloned(), &mut all);
        }
        self.part(listing, &mut all);
        self.has_begun = true;
        while self.known.len() > MOST {
            self.known.pop_first();
        }
        all
    }

    fn see(
        &mut self,
        report: &Arc<Report>,
        trace: Option<Arc<KeptTrace>>,
        all: &mut Vec<Happened>,
    ) {
        let mut say = |kind, changes: Vec<String>| {
            let (report, trace) = (Arc::clone(report), trace.clone());
            all.push(Happened { kind, report, trace, changes, into: None });
        };
        let known = self.known.get(&report.id).filter(|known| known.is_of(report));
        let mut named = main_culprit(report);
        match known {
            None if !self.subjects.have(report) => return,
            None if self.has_begun => {
                say(ChangeKind::Opened, Vec::new());
                if is_over(report) {
                    say(ChangeKind::Closed, Vec::new());
                }
            }
            None if !is_over(report) => say(ChangeKind::Open, Vec::new()),
            None => {}
            Some(SeenIncident::Over(..)) => return,
            Some(SeenIncident::Live { .. }) if is_over(report) => {
                say(ChangeKind::Closed, Vec::new())
            }
            Some(SeenIncident::Live { report: before, trace: kept, named: known }) => {
                let mut changes = changes(before, report);
                match is_another(known.as_ref(), &report.main) {
                    true => {
                        let by = report.by_whom_of(&report.main);
                        changes.push(format!("first culprit now: {by}"));
                    }
                    false => named.clone_from(known),
                }
                let first = |trace: &Option<Arc<KeptTrace>>| trace.as_ref()?.waits.first().cloned();
                if let Some(wait) = first(&trace).filter(|_| first(kept).is_none()) {
                    changes.push(format!("its longest wait when it opened: {wait}"));
                }
                if !changes.is_empty() {
                    say(ChangeKind::Changed, changes);
                }
            }
        }
        let known = match is_over(report) {
            true => SeenIncident::Over(report.end()),
            false => SeenIncident::Live { report: Arc::clone(report), trace, named },
        };
        self.known.insert(report.id, known);
    }

    /// What went on, and is not in the answer any more.
    fn part(&mut self, listing: &Listing, all: &mut Vec<Happened>) {
        for (id, known) in &mut self.known {
            let SeenIncident::Live { report, trace, .. } = known else { continue };
            if listing.incidents.iter().any(|one| one.id == *id) {
                continue;
            }
            let into = listing.incidents.iter().find(|one| one.id < *id && is_part(report, one));
            let (kind, changes) = match into {
                Some(into) => {
                    (ChangeKind::Merged, vec![format!("it is a part of incident {}", into.id)])
                }
                None => {
                    let lost = "the daemon was restarted, and does not know it any more";
                    (ChangeKind::Closed, vec![lost.to_owned()])
                }
            };
            let into = into.map(|into| into.id);
            let over = SeenIncident::Over(report.end());
            let (report, trace) = (Arc::clone(report), trace.clone());
            all.push(Happened { kind, report, trace, changes, into });
            *known = over;
        }
    }
}

/// Whether what one incident was about is a part of another, which was there meanwhile.
fn is_part(report: &Report, other: &Report) -> bool {
    let main = &report.main;
    let is_meanwhile = |one: &Episode| one.start <= report.end() && one.end >= report.start();
    !is_over(other) && other.episodes().any(|one| is_same(one, main) && is_meanwhile(one))
}

fn is_same(one: &Episode, other: &Episode) -> bool {
    (one.signal, &one.subject) == (other.signal, &other.subject)
}

fn main_culprit(report: &Report) -> Option<(Name, Cause)> {
    report.main.culprits.first().map(|first| (Arc::clone(&first.culprit), first.cause))
}

/// Whether another culprit than the one that was named did most by now, by more than chance changes it to and fro.
fn is_another(named: Option<&(Name, Cause)>, episode: &Episode) -> bool {
    let Some(first) = episode.culprits.first() else { return false };
    let Some((name, cause)) = named else { return true };
    let nothing_beyond = episode.nothing_beyond();
    let is_named = |one: &&Culprit<Name>| (&one.culprit, one.cause) == (name, *cause);
    let before = episode.culprits.iter().find(is_named);
    let before = before.map_or(0.0, |one| one.part(nothing_beyond));
    first.part(nothing_beyond) >= before + AHEAD
}

/// Whose delays these are, and which: what is lacking may change with the first culprit.
fn whose(episode: &Episode) -> String {
    let delays = match episode.signal {
        Watched::Signal(signal) => match signal.info() {
            info if info.delays.is_empty() => info.name,
            info => info.delays,
        },
        Watched::Interruption => "CPU time lost to interrupts",
    };
    format!("{} ({delays})", spoken(&episode.subject))
}

/// What is different, in sentences.
fn changes(before: &Report, report: &Report) -> Vec<String> {
    let mut changes = Vec::new();
    if !is_same(&before.main, &report.main) {
        changes.push(format!("it is about {} now", whose(&report.main)));
    }
    for episode in report.episodes() {
        let whose = whose(episode);
        match before.episodes().find(|one| is_same(one, episode)).map(Episode::is_active) {
            None => {
                let rose = episode.headline().map(|headline| format!(": {}", headline.rise()));
                let rose = rose.unwrap_or_default();
                let by = report.by_whom_of(episode);
                changes.push(format!("also disturbed: {whose}{rose}; first culprit: {by}"));
            }
            Some(true) if !episode.is_active() => changes.push(format!("{whose} is calm")),
            Some(false) if episode.is_active() => {
                changes.push(format!("{whose} is disturbed again"))
            }
            Some(_) => {}
        }
    }
    if report.untold > before.untold {
        changes.push(format!("{} more are disturbed, and not listed", report.untold));
    }
    changes
}

#[cfg(test)]
mod tests;

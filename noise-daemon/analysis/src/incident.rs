//! An incident as plain data: what was unusual, from when to when, by how much, and by whom.

use noise_model::Histogram;

use super::culprits::{Culprit, Ranking, Time};
use super::level::Level;
use super::name::Name;
use super::remedy::recommended;
use super::rules::Rule;
use super::watched::Watched;
use noise_common::remedy::Remedy;

/// Why an incident ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The signal came back to its baseline, nothing more happened, or another culprit took over.
    Over,
    /// It lasted so long that it became the baseline.
    Adopted,
    /// The subject is gone.
    Vanished,
    /// The daemon stopped while it was open, or watched something else from then on.
    Unwatched,
}

/// A signal of a subject that left its own baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    pub signal: Watched,
    pub subject: Name,
    /// Begin of the first disturbed window, ns on the clock of the windows.
    pub start_ns: u64,
    /// End of the last disturbed window, ns; of the newest window while the incident is open.
    pub end_ns: u64,
    /// How long the signal was disturbed from start to end, ns: calm in between is left out.
    pub disturbed_ns: u64,
    /// Why it ended; `None` while it is open.
    pub ending: Option<Ending>,
    /// The rule that it broke.
    pub rule: Rule,
    /// The baseline at its begin.
    pub before: Level,
    pub delays: Histogram,
    /// How the signal behaved meanwhile.
    pub after: Level,
    /// Delay beyond what as many events usually have, seconds; below 0 where it was less.
    pub lost_seconds: f64,
    /// Who is charged with the delays, who did most beyond the usual first.
    pub culprits: Vec<Culprit<Name>>,
    /// Charged to culprits that had no room in the list.
    pub others: Time,
    /// What has no known culprit.
    pub untracked: Time,
    /// All that is charged beyond the usual, seconds.
    pub beyond_seconds: f64,
    /// What can be done about its main causes; empty where nothing is known to help.
    pub remedies: Vec<Remedy>,
}

impl Incident {
    /// Two of the same signal of the same subject as one, with the calm between them left out.
    pub(super) fn together(one: &Self, other: &Self) -> Self {
        let (first, then) =
            if one.start_ns <= other.start_ns { (one, other) } else { (other, one) };
        let last = if first.end_ns > then.end_ns { first } else { then };
        let mut delays = first.delays.clone();
        delays.add(&then.delays);
        let disturbed_ns = first.disturbed_ns.saturating_add(then.disturbed_ns);
        let both = Ranking::together(&first.ranking(), &then.ranking());
        let Ranking { culprits, others, untracked, beyond_seconds } =
            both.others_first(first.signal);
        Self {
            signal: first.signal,
            subject: first.subject.clone(),
            start_ns: first.start_ns,
            end_ns: last.end_ns,
            disturbed_ns,
            ending: last.ending,
            rule: first.rule,
            before: first.before,
            after: Level::new(&delays, disturbed_ns),
            delays,
            lost_seconds: first.lost_seconds + then.lost_seconds,
            remedies: recommended(first.signal, &culprits),
            culprits,
            others,
            untracked,
            beyond_seconds,
        }
    }

    fn ranking(&self) -> Ranking {
        Ranking {
            culprits: self.culprits.clone(),
            others: self.others,
            untracked: self.untracked,
            beyond_seconds: self.beyond_seconds,
        }
    }
}

/// An incident that began or ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It began; what it says is provisional.
    Opened(Incident),
    Closed(Incident),
}

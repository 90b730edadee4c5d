//! Incidents and long waits as they are reported and kept: on the wall clock, so that they outlive
//! the boot.

use std::sync::Arc;

use noise_model::OutlierRecord;

use super::beside::Beside;
use super::culprits::{Culprit, Time};
use super::incident::{Ending, Incident};
use super::level::Level;
use super::name::Name;
use super::process::Process;
use super::rules::Rule;
use super::watched::Watched;
use jiff::Timestamp;
use noise_common::remedy::Remedy;

/// One moment on all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// On that of the samples, ns: it stands still while the host is suspended.
    pub at_ns: u64,
    /// How long the host was suspended since it booted, ns.
    pub suspended_ns: u64,
    pub now: Timestamp,
}

impl Clock {
    /// A time of the samples' clock, since when the host was not suspended, on the wall, to the millisecond; the clocks are
    /// not read at once.
    pub fn wall(&self, at_ns: u64) -> Timestamp {
        self.wall_since_boot(self.since_boot_ns(at_ns))
    }

    /// The same since boot, suspends included, ns: that names the same moment whatever becomes of the other clocks.
    pub(super) fn since_boot_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_add(self.suspended_ns)
    }

    /// A time since boot, suspends included, on the wall as it is set now, to the millisecond.
    pub(super) fn wall_since_boot(&self, since_boot_ns: u64) -> Timestamp {
        const MILLISECOND_NS: i128 = 1_000_000;
        let ns = self.now.as_nanosecond() - i128::from(self.since_boot_ns(self.at_ns))
            + i128::from(since_boot_ns);
        let whole_ns = (ns + MILLISECOND_NS / 2).div_euclid(MILLISECOND_NS) * MILLISECOND_NS;
        Timestamp::from_nanosecond(whole_ns).unwrap_or(self.now)
    }
}

/// One signal of one subject that left its baseline: an [`Incident`] on the wall clock.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Episode {
    /// What was unusual, written as its name.
    pub signal: Watched,
    pub subject: Name,
    /// Begin of the first disturbed window.
    pub start: Timestamp,
    /// End of the last disturbed window; while it is open, when this was known.
    pub end: Timestamp,
    /// How long it was disturbed until then: calm in between is left out. 0 where an
    /// older noised did not say it.
    #[serde(default)]
    pub seconds: f64,
    /// Why it ended; none while it is open.
    pub ending: Option<Ending>,
    /// The rule that it broke.
    pub rule: Rule,
    /// The baseline at its begin.
    pub before: Level,
    /// How the signal behaved while it was disturbed.
    pub after: Level,
    /// Delay beyond what as many events usually have, seconds; below 0 where it was less.
    pub lost_seconds: f64,
    /// Who is charged with the delays, who did most beyond the usual first.
    pub culprits: Vec<Culprit<Name>>,
    /// Charged to culprits that had no room in the list.
    pub others: Time,
    /// What has no known culprit.
    pub untracked: Time,
    /// What can be done about its main causes.
    pub remedies: Vec<Remedy>,
}

impl Episode {
    /// Of an incident that began, and ended if it did, so long after the boot, suspends included, ns.
    pub(super) fn new(
        incident: &Incident,
        start_ns: u64,
        end_ns: Option<u64>,
        clock: Clock,
    ) -> Self {
        let end = end_ns.map_or(clock.wall(incident.end_ns), |ns| clock.wall_since_boot(ns));
        let until = if incident.ending.is_none() { end.max(clock.now) } else { end };
        let known_seconds = incident.disturbed_ns as f64 / 1e9;
        Self {
            signal: incident.signal,
            subject: Arc::clone(&incident.subject),
            start: clock.wall_since_boot(start_ns),
            end: until,
            seconds: known_seconds + until.duration_since(end).as_secs_f64(),
            ending: incident.ending,
            rule: incident.rule,
            before: incident.before,
            after: incident.after,
            lost_seconds: incident.lost_seconds,
            culprits: incident.culprits.clone(),
            others: incident.others,
            untracked: incident.untracked,
            remedies: incident.remedies.clone(),
        }
    }

    /// Whether it goes on.
    pub fn is_active(&self) -> bool {
        self.ending.is_none()
    }

    /// How long it was disturbed, seconds; an older noised did not say it.
    pub fn disturbed_seconds(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.seconds,
            false => self.end.duration_since(self.start).as_secs_f64(),
        }
    }
}

/// An incident, with all that it shows in.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Counts up, also across restarts as long as the state is kept.
    pub id: u64,
    /// Whether any of it goes on.
    pub open: bool,
    /// What it is about: what opened it, requests of a device where that sleeps for them, or the cgroup
    /// that lost most where the root cgroup is disturbed beside others.
    #[serde(flatten)]
    pub main: Episode,
    /// What joined it, being explained by the same: each signal of a subject once, what lost most first.
    pub also: Vec<Episode>,
    /// How many more joined it.
    pub untold: u64,
    /// Whether all of it has ended, but what comes back soon is still the same incident.
    #[serde(default)]
    pub resting: bool,
    /// The threads behind its culprits and its victims, where single waits of these were reported.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// What the host says beside it.
    #[serde(flatten)]
    pub beside: Beside,
}

impl Report {
    /// One with that number, of which nothing more is known.
    pub fn new(id: u64, open: bool, main: Episode, also: Vec<Episode>) -> Self {
        Self {
            id,
            open,
            main,
            also,
            untold: 0,
            resting: false,
            processes: Vec::new(),
            beside: Beside::default(),
        }
    }

    /// What it is about, and the others.
    pub fn episodes(&self) -> impl Iterator<Item = &Episode> {
        [&self.main].into_iter().chain(&self.also)
    }

    /// When the first of it began.
    pub fn start(&self) -> Timestamp {
        self.episodes().map(|episode| episode.start).fold(self.main.start, Timestamp::min)
    }

    /// What lists of incidents go by: when the first of it began; of those that began together, its number.
    pub fn order(&self) -> (Timestamp, u64) {
        (self.start(), self.id)
    }

    /// Whether a time is one of it.
    pub fn is_during(&self, at: Timestamp) -> bool {
        at >= self.start() && (self.open || at <= self.end())
    }

    /// When the last of it ended; while it is open, when this was known.
    pub fn end(&self) -> Timestamp {
        self.episodes().map(|episode| episode.end).fold(self.main.end, Timestamp::max)
    }

    /// As it is known after the daemon that watched it has stopped.
    pub fn unwatched(mut self) -> Self {
        (self.open, self.resting) = (false, false);
        for episode in [&mut self.main].into_iter().chain(&mut self.also) {
            episode.ending = episode.ending.or(Some(Ending::Unwatched));
        }
        self.forget_commands();
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReportedOutlier {
    pub time: Timestamp,
    #[serde(flatten)]
    pub wait: OutlierRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_name_the_same_moment() {
        let now: Timestamp = "2026-11-21T09:00:00.0004Z".parse().unwrap();
        let clock = Clock { at_ns: 7_000_000_000, suspended_ns: 0, now };
        let text = |at_ns| clock.wall(at_ns).to_string();
        assert_eq!(text(7_000_000_000), "2026-11-21T09:00:00Z");
        assert_eq!(text(5_500_000_000), "2026-11-21T08:59:58.5Z");
        assert_eq!(text(8_000_000_000), "2026-11-21T09:00:01Z");
        let before_the_epoch = Clock { at_ns: 1 << 40, suspended_ns: 0, now: Timestamp::default() };
        assert!(before_the_epoch.wall(0) < Timestamp::default());
    }
}

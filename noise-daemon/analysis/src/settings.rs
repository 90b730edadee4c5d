//! Thresholds and bounds of the analysis, with their defaults. Counts of windows are meant for
//! windows of half a second; while it is calm, they take a second.

use noise_common::signals::in_reading_order;
use thiserror::Error;

use super::watched::Watched;

/// A quarter of an hour: a baseline follows the hours of a day, and no disturbance of some minutes.
const HALF_LIFE_WINDOWS: u64 = 1800;

/// What is watched unless configured otherwise: the signals whose rows say so, which are delays of
/// work, and what is taken from it while it runs.
///
/// Interrupts themselves are not watched. What they delay or take from is, and they are named there
/// as culprits. Waits of the whole host are watched where those by cgroup are not measured.
fn watched() -> Vec<Watched> {
    let signals = in_reading_order().filter(|info| info.watched);
    signals.map(|info| Watched::Signal(info.signal)).chain([Watched::Interruption]).collect()
}

/// When an incident opens and closes, and how much is kept.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Whether incidents are looked for at all.
    pub enabled: bool,
    /// What they are looked for in.
    pub watch: Vec<Watched>,
    /// Time lost beyond the usual, seconds per second, below which nothing is an incident.
    pub minimum_lost: f64,
    /// The same for [`Watched::Interruption`]. Where no CPU loses as large a part of its time to interrupts and the
    /// hypervisor, none opens: work on many CPUs loses a little on each.
    pub minimum_taken: f64,
    /// Latest windows with events that are held against the baseline.
    pub recent_windows: usize,
    /// Windows, with or without events, that must be calm before an incident is over.
    pub closing_windows: usize,
    /// Calm windows with events that a baseline is learnt from before it is used.
    pub warmup_windows: u64,
    /// Most signals of subjects that have a baseline at a time. A host with hundreds of pods needs more, one with little memory
    /// less, so it is no constant.
    pub subjects: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            watch: watched(),
            minimum_lost: 0.01,
            minimum_taken: 0.1,
            recent_windows: 30,
            closing_windows: 10,
            warmup_windows: 120,
            subjects: 512,
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name} must be {expected}")]
pub struct SettingsError {
    /// The key as written in the configuration.
    pub name: &'static str,
    pub expected: &'static str,
}

impl Settings {
    /// Whether the analysis can work with these.
    /// Errors name the first setting that is out of its range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let rules = [
            (
                self.minimum_lost.is_finite() && self.minimum_lost >= 0.0,
                "minimum-lost",
                "0 or more seconds per second",
            ),
            (
                self.minimum_taken.is_finite() && self.minimum_taken >= 0.0,
                "minimum-taken",
                "0 or more seconds per second",
            ),
            ((4..=1024).contains(&self.recent_windows), "recent-windows", "from 4 to 1024"),
            ((2..=1024).contains(&self.closing_windows), "closing-windows", "from 2 to 1024"),
            (self.warmup_windows >= 2, "warmup-windows", "2 or more"),
            ((1..=65_536).contains(&self.subjects), "subjects", "from 1 to 65536"),
        ];
        rules
            .into_iter()
            .find(|(holds, ..)| !holds)
            .map_or(Ok(()), |(_, name, expected)| Err(SettingsError { name, expected }))
    }

    /// Time beyond the usual, seconds per second, below which nothing is an incident.
    pub(super) fn minimum(&self, watched: Watched) -> f64 {
        match watched {
            Watched::Signal(_) => self.minimum_lost,
            Watched::Interruption => self.minimum_taken,
        }
    }

    /// Windows after which a subject that is never silent is judged.
    pub(super) fn first_judged(&self) -> u64 {
        self.warmup_windows.saturating_add(self.recent_windows as u64)
    }

    /// Calm windows with events after which what was learnt weighs half.
    pub(super) fn half_life(&self) -> u64 {
        HALF_LIFE_WINDOWS.max(self.warmup_windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::signals::Signal;

    #[test]
    fn defaults_work_and_may_be_left_out() {
        assert_eq!(Settings::default().check(), Ok(()));
        assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
        let some: Settings = toml::from_str("minimum-lost = 0.5").unwrap();
        assert_eq!(some.minimum_lost, 0.5);
        assert!(toml::from_str::<Settings>("minimum-lots = 0.5").is_err());
    }

    #[test]
    fn signals_are_watched_by_name_and_counts_not_at_all() {
        let watch = |text: &str| toml::from_str::<Settings>(text).map(|settings| settings.watch);
        assert_eq!(watch("watch = [\"hardirq\"]"), Ok(vec![Signal::Hardirq.into()]));
        assert_eq!(watch("watch = [\"interruption\"]"), Ok(vec![Watched::Interruption]));
        assert_eq!(watch("watch = []"), Ok(Vec::new()));
        for wrong in ["runqueue", "context_switch"] {
            let error = watch(&format!("watch = [\"{wrong}\"]")).unwrap_err();
            assert!(error.message().contains(wrong), "{error}");
            assert!(error.message().contains("cgroup_runqueue_wait"), "{error}");
        }
    }

    #[test]
    fn what_cannot_work_is_named() {
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().unwrap_err().name
        };
        assert_eq!(with(|settings| settings.minimum_lost = -1.0), "minimum-lost");
        assert_eq!(with(|settings| settings.minimum_taken = f64::INFINITY), "minimum-taken");
        assert_eq!(with(|settings| settings.recent_windows = 3), "recent-windows");
        assert_eq!(with(|settings| settings.closing_windows = 1), "closing-windows");
        assert_eq!(with(|settings| settings.warmup_windows = 1), "warmup-windows");
        assert_eq!(with(|settings| settings.subjects = 0), "subjects");
    }
}

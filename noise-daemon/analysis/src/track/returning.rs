//! Disturbances that come back, such as a job of every minute: none lasts long enough to become the baseline, and yet they are
//! usual once they have come back for as long as a lasting one is an incident.
//!
//! From then on, one of them is an incident only where it is longer than the others, or worse, by the mean of its windows. What is
//! worse or longer again and again becomes usual, too: it moves the usual a little each time.

use super::super::baseline::Baseline;
use super::super::rules;
use super::super::settings::Settings;
use super::super::window::Slice;
use super::{ADOPT_NS, FORGET_NS};

/// One that takes so many times the longest of late is longer than usual.
const LONGER: f64 = 1.5;
/// How the longest of late changes with each one that is shorter, and with each that is longer than usual.
const SHRINKS: f64 = 0.99;
const GROWS: f64 = 1.1;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(in super::super) struct Returning {
    /// When the first of them began, ns, and when the latest one ended.
    since_ns: u64,
    end_ns: u64,
    /// The longest of late, ns.
    longest_ns: f64,
    /// What their windows are like.
    baseline: Baseline,
}

impl Returning {
    /// The first one, whose windows are like this.
    pub fn new((start_ns, end_ns): (u64, u64), baseline: Baseline) -> Self {
        let longest_ns = end_ns.saturating_sub(start_ns) as f64;
        Self { since_ns: start_ns, end_ns, longest_ns, baseline }
    }

    /// What its windows are like.
    pub const fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Whether one that begins then is the next one.
    pub const fn goes_on(&self, start_ns: u64) -> bool {
        start_ns.saturating_sub(self.end_ns) < FORGET_NS
    }

    /// Whether one that begins then is usual, unless it is worse or longer.
    pub const fn is_usual(&self, start_ns: u64) -> bool {
        self.goes_on(start_ns) && start_ns.saturating_sub(self.since_ns) >= ADOPT_NS
    }

    /// Whether one that has lasted so long, and has these latest windows, is more than usual.
    pub fn is_exceeded<'s>(
        &self,
        length_ns: u64,
        latest: impl Iterator<Item = &'s Slice>,
        settings: &Settings,
    ) -> bool {
        let means: Vec<f64> = latest.filter_map(Slice::mean_ns).collect();
        let is_enough = means.len() >= rules::least_windows(settings).min(settings.closing_windows);
        length_ns as f64 > LONGER * self.longest_ns
            || is_enough && rules::exceeds(&means, &self.baseline)
    }

    /// Takes the next one, when it is over. `learnt` is the baseline with its windows: those of one that is longer than usual
    /// are too many.
    pub fn add(&mut self, (start_ns, end_ns): (u64, u64), learnt: Baseline) {
        let length_ns = end_ns.saturating_sub(start_ns) as f64;
        if self.is_usual(start_ns) && length_ns > LONGER * self.longest_ns {
            self.longest_ns *= GROWS;
        } else {
            self.longest_ns = length_ns.max(SHRINKS * self.longest_ns);
            self.baseline = learnt;
        }
        self.end_ns = end_ns;
    }

    /// Whether what was read from a file can be.
    pub fn is_plausible(&self) -> bool {
        self.longest_ns.is_finite() && self.longest_ns >= 0.0 && self.baseline.is_plausible()
    }

    /// The same with another half-life.
    pub fn with_half_life(self, half_life: u64) -> Self {
        Self { baseline: self.baseline.with_half_life(half_life), ..self }
    }
}

//! The steps that a look takes into account, one by one: to sum up what a screen shows of them is
//! less than to sum up all of them.

use crate::top::{History, Look, Step};

/// What came in the time that is looked at.
#[derive(Debug)]
pub(super) struct Recent<'a> {
    /// After that time, ns on the clock of the samples.
    pub from_ns: u64,
    /// How long it was.
    pub seconds: f64,
    /// The steps, the newest first.
    pub steps: Vec<&'a Step>,
}

impl<'a> Recent<'a> {
    pub(super) fn new(history: &'a History, look: &Look) -> Self {
        let newest_ns = history.latest().map_or(0, |frame| frame.sample.at_ns);
        let from_ns = newest_ns.saturating_sub((look.seconds * 1e9) as u64).max(look.since_ns);
        let steps: Vec<&Step> = history.steps_since(from_ns).collect();
        Self {
            // The newest step counts in any case.
            from_ns: steps
                .first()
                .map_or(from_ns, |step| from_ns.min(step.at_ns.saturating_sub(1))),
            seconds: steps.iter().map(|step| step.span.seconds).sum(),
            steps,
        }
    }

    /// Of so many in that time, how many in a second.
    pub(super) fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }

    /// Seconds lost in a second.
    pub(super) fn lost(&self, ns: u64) -> f64 {
        self.per_second(ns as f64 / 1e9)
    }
}

/// What is shown instead of rows that there are none of.
pub(super) fn empty(history: &History, otherwise: &'static str) -> &'static str {
    match history.steps().next() {
        Some(_) => otherwise,
        None => "The first numbers come with the second reading.",
    }
}

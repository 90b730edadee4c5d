//! The steps that a look takes into account, one by one: to sum up what a screen shows of them is
//! less than to sum up all of them.

use noise_model::Step;

use crate::{History, ScreenLook};

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
    pub(super) fn new(history: &'a History, look: &ScreenLook) -> Self {
        let from_ns = look.from_ns(history);
        let steps: Vec<&Step> = history.steps_since(from_ns).collect();
        Self {
            // The newest step counts in any case.
            from_ns: steps
                .first()
                .map_or(from_ns, |step| from_ns.min(step.end_ns.saturating_sub(1))),
            seconds: steps.iter().map(|step| step.seconds()).sum(),
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

#[cfg(test)]
mod tests {
    use noise_common::signals::Signal;

    use super::*;
    use crate::generated::{Made, history};

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn sums_go_back_to_a_time_but_have_the_newest_step() {
        let drops =
            |seconds: u64| Made::new(seconds).count(Signal::PacketDrop, &["x"], seconds * seconds);
        let history = history([drops(1), drops(2), drops(3), drops(6)]);
        let events = |step: &Step| -> u64 {
            step.counts_of(Signal::PacketDrop).map(|(_, count)| count).sum()
        };
        let sum = |seconds, since_ns| {
            let recent =
                Recent::new(&history, &ScreenLook { seconds, since_ns, ..ScreenLook::default() });
            (recent.seconds, recent.steps.iter().map(|step| events(step)).sum::<u64>())
        };
        assert_eq!(sum(f64::INFINITY, 0), (5.0, 35));
        assert_eq!(sum(f64::INFINITY, 2 * SECOND_NS), (4.0, 32));
        assert_eq!(sum(f64::INFINITY, 2 * SECOND_NS - 1), (5.0, 35));
        assert_eq!(sum(f64::INFINITY, 6 * SECOND_NS), (3.0, 27));
        assert_eq!(sum(f64::INFINITY, u64::MAX), (3.0, 27));
        assert_eq!(sum(0.0, 0), (3.0, 27));
        assert_eq!(sum(3.5, 0), (4.0, 32));
        assert_eq!(sum(f64::NAN, 0), (3.0, 27));
        let rates = history.over_time(|step| step.per_second(events(step) as f64));
        assert_eq!(rates, [3.0, 5.0, 9.0]);
        let times: Vec<_> = history.steps_since(2 * SECOND_NS).map(|step| step.end_ns).collect();
        assert_eq!(times, [6 * SECOND_NS, 3 * SECOND_NS]);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        let history = History::default();
        let none = Recent::new(&history, &ScreenLook::default());
        assert!(none.steps.is_empty());
        assert_eq!((none.per_second(5.0), none.lost(5)), (0.0, 0.0));
    }
}

//! Every signal, all its subjects together, those that are gone included: the little that is kept to
//! look back at.

use noise_common::signals::{SIGNAL_COUNT, SIGNALS, Signal};

use super::histogram::Histogram;
use super::step::Step;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    pub totals: Histogram,
    /// The longest value of the last step, ns.
    pub recent_max_ns: u64,
    /// Everything since attach, of counters.
    pub count: u64,
}

/// Every signal at one time.
#[derive(Clone, Debug)]
pub struct Sums {
    pub at_ns: u64,
    signals: Vec<Sum>,
}

impl Default for Sums {
    fn default() -> Self {
        Self { at_ns: 0, signals: vec![Sum::default(); SIGNAL_COUNT] }
    }
}

impl Sums {
    /// Adds what came in the next step.
    pub fn add(&mut self, step: &Step) {
        self.at_ns = step.end_ns;
        for (info, sum) in SIGNALS.iter().zip(&mut self.signals) {
            sum.recent_max_ns = step.longest_ns(info.signal);
            for (_, delays) in step.delays_of(info.signal) {
                sum.totals.add(&delays);
            }
            for (_, count) in step.counts_of(info.signal) {
                sum.count = sum.count.saturating_add(count);
            }
        }
    }

    pub fn signal(&self, signal: Signal) -> Option<&Sum> {
        self.signals.get(signal as usize)
    }
}

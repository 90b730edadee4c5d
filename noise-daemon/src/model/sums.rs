//! What a sample says of each signal, all its subjects together: the little that is kept of samples
//! to look back at.

use noise_common::signals::{SIGNAL_COUNT, Signal};

use super::sample::{Sample, Totals};

/// One signal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    /// Everything since attach.
    pub totals: Totals,
    /// The longest value since the previous sample, ns.
    pub recent_max_ns: u64,
    /// Everything since attach, of counters.
    pub count: u64,
}

/// Every signal at one time.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// When, ns.
    pub at_ns: u64,
    signals: Vec<Sum>,
}

impl Sums {
    /// Those of a sample, in the memory of others that nobody needs. Subjects of cgroups come and
    /// go, so their sum since attach comes apart.
    pub fn of(sample: &Sample, of_cgroups: &Totals, spare: Self) -> Self {
        let Self { mut signals, .. } = spare;
        signals.clear();
        signals.resize(SIGNAL_COUNT, Sum::default());
        for series in &sample.series {
            let Some(sum) = signals.get_mut(series.signal as usize) else { continue };
            sum.recent_max_ns = sum.recent_max_ns.max(series.recent_max_ns);
            if series.signal != Signal::CgroupRunqueueWait {
                sum.totals.add(&series.totals);
            }
        }
        if let Some(sum) = signals.get_mut(Signal::CgroupRunqueueWait as usize) {
            sum.totals = of_cgroups.clone();
        }
        for count in &sample.counts {
            if let Some(sum) = signals.get_mut(count.signal as usize) {
                sum.count += count.total;
            }
        }
        Self { at_ns: sample.at_ns, signals }
    }

    /// One signal; `None` before anything was sampled.
    pub fn signal(&self, signal: Signal) -> Option<&Sum> {
        self.signals.get(signal as usize)
    }
}

//! PURE: what came between two samples: the one difference of samples, for the status page, incidents,
//! the terminal view and accounts of one tenant.
//!
//! Histograms count since the programs were attached, so a step is the difference of two readings. What
//! was not there before began at 0, and so did what has less than before: a device that was created
//! again under its name, or a daemon that was restarted. All of it came since, and [`StepDelays::began`]
//! says so. What counts since boot (steal, page faults) says nothing of what came there.

use std::borrow::Cow;

use noise_common::charge::{Charged, Resource};
use noise_common::loss::Loss;
use noise_common::signals::{SIGNALS, Signal};
use noise_text::joined::{in_order, joined, side_by_side};

use super::amount::total;
use super::changes::{grown, since_boot};
use super::histogram::{Among, Histogram};
use super::sample::{Count, Interference, Label, Labels, Sample, Series};

mod cpus;
mod names;
#[cfg(test)]
mod tests;

pub use cpus::{Cpu, TAKERS, Taker};
use names::{Listed, by_known_name, key, listed};
pub use names::{SeriesNames, by_labels};

/// What came between two samples, each kind in order in one piece: a screen goes through a hundred
/// of them. What did not change is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Time of the earlier sample, ns.
    pub start_ns: u64,
    /// Time of the later sample, ns.
    pub end_ns: u64,
    delays: Vec<Delayed>,
    /// Those of all histograms.
    counts: Vec<u64>,
    by_signal: [Whole; SIGNALS.len()],
    /// Events by signal and label values.
    counters: Vec<(Label, u64)>,
    /// Who delayed whom, with what was charged in that time.
    pub charges: Vec<Interference>,
    /// What was taken from CPUs, and waited for them.
    pub cpus: Vec<Cpu>,
    /// Page faults by kind.
    pub page_faults: Vec<(Cow<'static, str>, u64)>,
    /// Events that could not be counted.
    pub dropped: u64,
    /// Histograms that the later sample does not have.
    pub gone_series: Vec<Label>,
    /// Charges that the later sample does not have, as they were.
    pub gone_charges: Vec<Interference>,
}

/// Delays of one signal and its label values.
#[derive(Clone, Debug, PartialEq)]
struct Delayed {
    key: Label,
    began: bool,
    histogram: Histogram<Among>,
}

/// All delays of one signal. Steps are many and far apart in memory, so these are not searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Whole {
    /// Its own among all.
    first: usize,
    end: usize,
    lost_ns: u64,
    longest_ns: u64,
}

/// Delays that came in a step.
#[derive(Clone, Copy, Debug)]
pub struct StepDelays<'a> {
    pub signal: Signal,
    /// Values of its labels.
    pub labels: &'a Labels,
    /// Counting began in the step, so it is not known when in it: there was no such series before,
    /// or it had more.
    pub began: bool,
    pub histogram: Histogram<&'a [u64]>,
}

impl Step {
    pub fn between(earlier: &Sample, later: &Sample) -> Self {
        Self::made(earlier, later, [None; 2])
    }

    /// The same with the names of both samples, which can be those of other steps: so each is in memory
    /// once, and read once for both.
    pub fn named(earlier: (&Sample, &SeriesNames), later: (&Sample, &SeriesNames)) -> Self {
        Self::made(earlier.0, later.0, [Some(earlier.1), Some(later.1)])
    }

    /// The step between these two samples: this one if it is, else a new one. A consumer that skips
    /// samples needs others than those that are published.
    pub fn or_between(&self, earlier: &Sample, later: &Sample) -> Cow<'_, Self> {
        match (self.start_ns, self.end_ns) == (earlier.at_ns, later.at_ns) {
            true => Cow::Borrowed(self),
            false => Cow::Owned(Self::between(earlier, later)),
        }
    }

    fn made(earlier: &Sample, later: &Sample, names: [Option<&SeriesNames>; 2]) -> Self {
        let mut step = Self { start_ns: earlier.at_ns, end_ns: later.at_ns, ..Self::default() };
        let [before, now] = names.map(|names| names.map(|names| &*names.series));
        step.put_delays(listed(&earlier.series, before), listed(&later.series, now));
        let [before, now] = names.map(|names| names.map(|names| &*names.counts));
        step.put_counters(listed(&earlier.counts, before), listed(&later.counts, now));
        step.put_charges(earlier, later);
        step.cpus = cpus::between(earlier, later);
        let [before, now] = [earlier, later].map(|sample| in_order(&sample.page_faults, Ord::cmp));
        for (before, (kind, now)) in joined(before, now, |a, b| a.0.cmp(&b.0)) {
            let came = since_boot(before.map(|(_, count)| *count), *now);
            if came > 0 {
                step.page_faults.push((kind.clone(), came));
            }
        }
        step.dropped = grown(&lost(later), Some(&lost(earlier)));
        step
    }

    fn put_delays(&mut self, before: Vec<Listed<'_, Series>>, now: Vec<Listed<'_, Series>>) {
        for both in side_by_side(before, now, by_known_name) {
            match both {
                (before, Some(now)) => {
                    self.put_delay(|| key(now), before.map(|(_, before)| before), now.1);
                }
                (Some(gone), None) => self.gone_series.push(key(gone)),
                (None, None) => {}
            }
        }
    }

    fn put_counters(&mut self, before: Vec<Listed<'_, Count>>, now: Vec<Listed<'_, Count>>) {
        for (before, now) in joined(before, now, by_known_name) {
            let came = grown(&now.1.total, before.map(|(_, before)| &before.total));
            if came > 0 {
                self.counters.push((key(now), came));
            }
        }
    }

    /// Adds delays; those of later label values come later.
    fn put_delay(&mut self, key: impl FnOnce() -> Label, before: Option<&Series>, now: &Series) {
        let Some(whole) = self.by_signal.get_mut(now.signal as usize) else { return };
        whole.longest_ns = whole.longest_ns.max(now.recent_max_ns);
        let before = before.map(|before| &before.totals);
        if before == Some(&now.totals) {
            return;
        }
        let before = before.filter(|before| now.totals.reaches(before));
        let mut histogram = now.totals.since_among(before, &mut self.counts);
        histogram.max_ns = now.recent_max_ns;
        let at = self.delays.len();
        whole.first = if whole.end == 0 { at } else { whole.first };
        whole.end = at + 1;
        whole.lost_ns = whole.lost_ns.saturating_add(histogram.sum_ns);
        self.delays.push(Delayed { key: key(), began: before.is_none(), histogram });
    }

    fn put_charges(&mut self, earlier: &Sample, later: &Sample) {
        let [before, now] =
            [earlier, later].map(|sample| in_order(&sample.interference, Interference::order));
        for both in side_by_side(before, now, |a, b| a.order(b)) {
            match both {
                (before, Some(now)) => {
                    let charged = grown(&now.charged, before.map(|before| &before.charged));
                    if charged != Charged::default() {
                        self.charges.push(Interference { charged, ..now.clone() });
                    }
                }
                (Some(gone), None) => self.gone_charges.push(gone.clone()),
                (None, None) => {}
            }
        }
    }

    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// What came in a second, of so many.
    pub fn per_second(&self, amount: f64) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { amount / seconds } else { 0.0 }
    }

    /// All delays, by signal and label values.
    pub fn delays(&self) -> impl Iterator<Item = StepDelays<'_>> {
        self.delays.iter().map(|Delayed { key: (signal, labels), began, histogram }| StepDelays {
            signal: *signal,
            labels,
            began: *began,
            histogram: histogram.among(&self.counts),
        })
    }

    /// The delays of a signal by label values, in their order.
    pub fn delays_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, Histogram<&[u64]>)> {
        let own = self.by_signal.get(signal as usize);
        let own = own.and_then(|own| self.delays.get(own.first..own.end)).unwrap_or_default();
        own.iter().map(|Delayed { key, histogram, .. }| (&key.1, histogram.among(&self.counts)))
    }

    /// What all delays of a signal took together, ns.
    pub fn lost_ns(&self, signal: Signal) -> u64 {
        self.by_signal.get(signal as usize).map_or(0, |whole| whole.lost_ns)
    }

    /// The longest delay of a signal in the windows that were open meanwhile, ns; 0 where there was none.
    pub fn longest_ns(&self, signal: Signal) -> u64 {
        self.by_signal.get(signal as usize).map_or(0, |whole| whole.longest_ns)
    }

    /// The events of a signal by label values, in their order.
    pub fn counts_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, u64)> {
        let own = run(&self.counters, |((own, _), _)| *own, signal);
        own.iter().map(|((_, labels), count)| (labels, *count))
    }

    pub fn charges_of(&self, resource: Resource) -> &[Interference] {
        run(&self.charges, |one| one.resource, resource)
    }

    /// What the hypervisor took from all CPUs, ns.
    pub fn stolen_ns(&self) -> u64 {
        total(self.cpus.iter().map(|cpu| cpu.taken_by(Taker::Steal)))
    }
}

/// Events that were lost so far. None of the others is a loss: what is reported late is reported, a
/// long wait that is not reported individually is counted, and what began before the programs were
/// attached is not theirs.
fn lost(sample: &Sample) -> u64 {
    let lost = |reason: &Loss| {
        !matches!(reason, Loss::RateLimited | Loss::RingFullDelayed | Loss::NoStart)
    };
    let drops = sample.drops.iter().filter(|(_, reason, _)| lost(reason));
    total(drops.map(|(_, _, count)| *count))
}

/// Those of one kind, where kinds come in order.
pub fn run<T, K: Ord>(all: &[T], kind: impl Fn(&T) -> K, wanted: K) -> &[T] {
    let first = all.partition_point(|one| kind(one) < wanted);
    let rest = all.get(first..).unwrap_or_default();
    let end = rest.partition_point(|one| kind(one) == wanted);
    rest.get(..end).unwrap_or_default()
}

//! PURE: from samples to what consumers show. No clock, no file, no kernel: a recorded stream of
//! samples gives the same answer as the live one.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod amount;
mod begins;
mod blame;
mod bounded;
mod cgroups;
mod changes;
mod fold;
mod histogram;
mod host;
pub mod labels;
mod longest;
pub mod memory;
mod name;
pub mod names;
mod outlier;
pub mod pressure;
mod sample;
pub mod setup;
mod step;
mod sums;
mod trends;
pub mod words;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use noise_common::charge::Charged;
use noise_common::signals::{ExportKind, SIGNALS, Signal};

pub use amount::{Amount, total};
use begins::Begins;
pub use begins::Exported;
use blame::{Attribution, of_others};
pub use blame::{INTERFERENCE_METRIC, Limits, PREEMPTIONS_METRIC, Relation, Victim};
pub use bounded::{Bounded, Foldable};
pub use cgroups::{CgroupInfo, Cgroups};
pub use histogram::Histogram;
pub use host::Host;
pub use longest::Longest;
pub use names::SharedNames;
pub use outlier::{OutlierPart, OutlierRecord};
pub use step::{Cpu, SeriesNames, Step, StepDelays, TAKERS, Taker, by_labels, run};
use sums::Sums;
pub use trends::{HeldUp, MOST_TREND_BYTES, TRENDS_NS, Trends};

pub use sample::{
    Count, CpuNoise, HookSample, Interference, Label, Labels, NoiseSource, Recorder, Reload,
    Sample, Series,
};

/// How far back rates and quantiles look, ns.
const HORIZON_NS: u64 = 5_000_000_000;

/// One signal, all its subjects together, over the last seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub signal: Signal,
    /// Why it is not measured here, if it is not.
    pub absent: Option<String>,
    /// Events per second.
    pub rate: f64,
    /// Median, ns; `None` for counters and where nothing happened.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// Seconds of delay per second.
    pub lost: f64,
    pub total: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub sample: Arc<Sample>,
    /// Every signal, in table order.
    pub signals: Vec<Summary>,
    /// Who delayed whom: those that cost most, and the rest as `~other`.
    pub interference: Vec<Exported<(Relation, Charged)>>,
    /// Who took the CPU from whom, counted: the same.
    pub preemptions: Vec<Exported<(Relation, Charged)>>,
    /// Delays of signals by cgroup, in order: of those that were delayed most, and the rest as `~other`.
    pub folded_series: Vec<Exported<Series>>,
    /// How many series were folded into `~other`, by metric.
    pub folded: Vec<(Cow<'static, str>, u64)>,
    /// Who was held up most over the last seconds, the worst first.
    pub victims: Vec<Victim>,
    /// What the last 15 minutes were like.
    pub trends: Arc<Trends>,
    series_begins: Begins<Series>,
    counts_begins: Begins<Count>,
}

impl Model {
    /// The histograms to export, in order, but for those that are folded.
    pub fn series(&self) -> Vec<Exported<Cow<'_, Series>>> {
        self.series_begins.exported(of_others(&self.sample))
    }

    /// The counters to export, in order.
    pub fn counts(&self) -> Vec<Exported<Cow<'_, Count>>> {
        self.counts_begins.exported(&self.sample.counts)
    }
}

/// Builds models from consecutive samples.
#[derive(Debug)]
pub struct Builder {
    newest: Option<Arc<Sample>>,
    /// What it adds up to.
    now: Sums,
    /// What there was at times that are looked back at, the newest last.
    history: VecDeque<Sums>,
    attribution: Attribution,
    trends: Arc<Trends>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Builder {
    /// One that has seen no sample.
    pub fn new(limits: Limits) -> Self {
        let attribution = Attribution::new(limits, HORIZON_NS);
        let (now, history) = (Sums::default(), VecDeque::new());
        Self { newest: None, now, history, attribution, trends: Arc::default() }
    }

    pub fn set_limits(&mut self, limits: Limits) {
        self.attribution.set_limits(limits);
    }

    pub fn model(&self) -> Model {
        let Some(sample) = self.newest.clone() else { return Model::default() };
        let signals = SIGNALS.iter().map(|info| self.summary(info.signal, &sample)).collect();
        let mut folded: Vec<(Cow<'static, str>, u64)> = self
            .attribution
            .folded()
            .into_iter()
            .map(|(metric, count)| (metric.into(), count))
            .collect();
        for (metric, count) in &sample.folded {
            match folded.iter_mut().find(|(known, _)| known == metric) {
                Some((_, sum)) => *sum += count,
                None => folded.push((metric.clone(), *count)),
            }
        }
        Model {
            series_begins: self.attribution.series_begins(),
            counts_begins: self.attribution.counts_begins(),
            sample,
            signals,
            interference: self.attribution.interference(),
            preemptions: self.attribution.preemptions(),
            folded_series: self.attribution.folded_series(),
            folded,
            victims: self.attribution.victims(),
            trends: Arc::clone(&self.trends),
        }
    }

    /// The next sample, and the step to it.
    pub fn advance(&mut self, sample: &Arc<Sample>, step: &Step) {
        let previous = self.newest.replace(Arc::clone(sample));
        if previous.is_some() {
            self.remember();
        }
        let previous = previous.unwrap_or_default();
        let step = step.or_between(&previous, sample);
        self.attribution.advance(&previous, sample, &step);
        // Copied only where an answer that shows them is still being written.
        Arc::make_mut(&mut self.trends).push(&step);
        // Keep the newest sums that are older than the horizon as the reference.
        while self.history.get(1).is_some_and(|next| next.at_ns + HORIZON_NS <= sample.at_ns) {
            self.history.pop_front();
        }
        self.now.add(&step);
    }

    fn remember(&mut self) {
        let now = &self.now;
        // Scrapes may come at any rate; a few samples a second are enough to look back.
        if self.history.back().is_none_or(|last| now.at_ns >= last.at_ns + HORIZON_NS / 20) {
            self.history.push_back(now.clone());
        }
    }

    fn summary(&self, signal: Signal, sample: &Sample) -> Summary {
        let now = &self.now;
        let before = self.history.front();
        let seconds =
            before.map_or(0.0, |before| now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9);
        let per_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
        let reason = sample.absent.iter().find(|(other, _)| *other == signal);
        let mut summary = Summary {
            signal,
            absent: reason.map(|(_, reason)| reason.clone()),
            rate: 0.0,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            lost: 0.0,
            total: 0,
        };
        let Some(sum) = now.signal(signal) else { return summary };
        let earlier = before.and_then(|before| before.signal(signal));
        if matches!(signal.info().kind, ExportKind::Counter) {
            summary.total = sum.count;
            let delta = sum.count.saturating_sub(earlier.map_or(0, |earlier| earlier.count));
            summary.rate = per_second(delta as f64);
            return summary;
        }
        let delta = match earlier {
            Some(earlier) => sum.totals.since(&earlier.totals),
            None => sum.totals.clone(),
        };
        summary.total = sum.totals.count();
        summary.rate = per_second(delta.count() as f64);
        summary.lost = per_second(delta.sum_ns as f64 / 1e9);
        summary.p50_ns = delta.quantile_ns(0.5);
        summary.p99_ns = delta.quantile_ns(0.99);
        summary.max_ns = self
            .history
            .iter()
            .skip(1)
            .chain([now])
            .filter_map(|sums| sums.signal(signal))
            .map(|sum| sum.recent_max_ns)
            .max()
            .filter(|max| *max > 0);
        summary
    }
}

#[cfg(any(test, feature = "fixtures"))]
impl Builder {
    /// The model after one more sample.
    pub fn model_after(&mut self, sample: Sample) -> Model {
        let step = Step::between(self.newest.as_deref().unwrap_or(&Sample::default()), &sample);
        self.advance(&Arc::new(sample), &step);
        self.model()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, values: &[u64]) -> Sample {
        let series = Series {
            signal: Signal::RunqueueWait,
            labels: ["wakeup".into()].into(),
            totals: Histogram::of(values),
            recent_max_ns: values.iter().copied().max().unwrap_or(0),
        };
        Sample { at_ns, series: vec![series], ..Sample::default() }
    }

    #[test]
    fn rates_and_quantiles_come_from_the_difference() {
        let mut builder = Builder::default();
        builder.model_after(sample(1_000_000_000, &[1 << 20; 10]));
        let mut values = vec![1 << 20; 10];
        values.extend([1 << 10; 99]);
        values.push(1 << 30);
        let model = builder.model_after(sample(2_000_000_000, &values));
        let summary = &model.signals[Signal::RunqueueWait as usize];
        assert_eq!(summary.rate, 100.0);
        assert_eq!(summary.p50_ns, Some(1 << 10));
        assert_eq!(summary.p99_ns, Some(1 << 10));
        assert_eq!(summary.max_ns, Some(1 << 30));
        assert_eq!(summary.total, 110);
    }

    #[test]
    fn the_first_sample_has_totals_but_no_rate() {
        let model = Builder::default().model_after(sample(1_000_000_000, &[5000]));
        let summary = &model.signals[Signal::RunqueueWait as usize];
        assert_eq!((summary.rate, summary.total), (0.0, 1));
    }

    #[test]
    fn a_step_from_another_sample_changes_nothing() {
        let samples =
            (1..5_u64).map(|at| sample(at * 500_000_000, &vec![1 << (10 + at); at as usize]));
        let samples: Vec<Arc<Sample>> = samples.map(Arc::new).collect();
        let shown = |step: &dyn Fn(usize) -> Step| {
            let mut builder = Builder::default();
            let advance = |(at, sample)| builder.advance(sample, &step(at));
            samples.iter().enumerate().for_each(advance);
            format!("{:?}", builder.model())
        };
        let none = Sample::default();
        let before =
            |at: usize, back: usize| at.checked_sub(back).map_or(&none, |at| &*samples[at]);
        let own = shown(&|at| Step::between(before(at, 1), &samples[at]));
        assert_eq!(own, shown(&|_| Step::default()));
        assert_eq!(own, shown(&|at| Step::between(before(at, 2), &samples[at])));
    }

    #[test]
    fn history_is_bounded() {
        let mut builder = Builder::default();
        for step in 0..10_000 {
            builder.model_after(sample(step * 1_000_000, &[5000]));
        }
        assert!(builder.history.len() <= 30, "{}", builder.history.len());
    }
}

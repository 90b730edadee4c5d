//! PURE: the last minutes, as what came between one frame and the next.
//!
//! Counters run for ever, so a step is the difference of two frames. What is missing in a frame is
//! gone, and begins at 0 if it comes again; the same holds for all where a daemon was started anew.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::event::Drop;
use noise_common::signals::{SIGNALS, Signal};

use super::pairs::Pairs;
use crate::model::{Interference, Series, Totals};
use crate::wire::Frame;

mod delta;
mod pool;
#[cfg(test)]
mod tests;

pub use delta::Delta;
use pool::Pool;

/// Steps that are kept.
const STEPS: usize = 1_200;
/// How far back steps are kept, ns.
const HORIZON_NS: u64 = 120_000_000_000;

/// Label values of a series.
pub type Labels = Arc<[String]>;

/// Delays of one signal and subject, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// By length.
    pub totals: Totals,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Delays {
    /// Adds those of a step.
    pub fn add(&mut self, more: &Delta) {
        more.add_to(&mut self.totals);
        self.max_ns = self.max_ns.max(more.max_ns);
    }
}

/// Who delayed whom, where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    /// What the victim had to wait for, or what was taken from it.
    pub resource: Resource,
    /// Why.
    pub cause: Cause,
    /// A device or interface; empty for CPUs.
    pub place: Arc<str>,
    /// Who was delayed.
    pub victim: Arc<str>,
    /// Who did it.
    pub culprit: Arc<str>,
}

/// What came in some time. What did not change is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// How long it was.
    pub seconds: f64,
    /// Delays by signal and label values.
    pub delays: BTreeMap<(Signal, Labels), Delta>,
    /// Events by signal and label values.
    pub counts: BTreeMap<(Signal, Labels), u64>,
    /// Who delayed whom.
    pub deeds: BTreeMap<Deed, Charged>,
    /// What interrupts took from each CPU, ns, by CPU and source.
    pub interrupted: BTreeMap<(u32, Cow<'static, str>), u64>,
    /// What tasks waited for each CPU, ns.
    pub waited: BTreeMap<u32, u64>,
    /// What the hypervisor took from each CPU, ns.
    pub stolen: BTreeMap<u32, u64>,
    /// Page faults by kind.
    pub page_faults: BTreeMap<Cow<'static, str>, u64>,
    /// Events that could not be counted.
    pub dropped: u64,
}

/// What came between two frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The time of the second, on the wall.
    pub time: Timestamp,
    /// The same on the clock of the samples, ns.
    pub at_ns: u64,
    /// What came.
    pub span: Span,
}

/// The last minutes.
#[derive(Clone, Debug, Default)]
pub struct History {
    latest: Option<Arc<Frame>>,
    steps: VecDeque<Step>,
    pairs: Pairs,
    names: Names,
    /// The series of the newest frame, in order.
    series: Vec<(Signal, Labels)>,
}

/// The names in the steps.
#[derive(Clone, Debug, Default)]
struct Names {
    texts: Pool<str>,
    labels: Pool<[String]>,
}

fn grow<K: Ord + Clone>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        // Most are there already; to ask for an entry would take a copy of each.
        match sums.get_mut(key) {
            Some(sum) => *sum += count,
            None => drop(sums.insert(key.clone(), *count)),
        }
    }
}

impl Span {
    /// Adds what came in another time.
    pub fn add(&mut self, more: &Self) {
        self.seconds += more.seconds;
        for (key, delays) in &more.delays {
            match self.delays.get_mut(key) {
                Some(sum) => sum.add(delays),
                None => drop(self.delays.insert(key.clone(), delays.clone())),
            }
        }
        grow(&mut self.counts, &more.counts);
        for (deed, charged) in &more.deeds {
            let sum = self.deeds.entry(deed.clone()).or_default();
            sum.ns += charged.ns;
            sum.count += charged.count;
        }
        grow(&mut self.interrupted, &more.interrupted);
        grow(&mut self.waited, &more.waited);
        grow(&mut self.stolen, &more.stolen);
        grow(&mut self.page_faults, &more.page_faults);
        self.dropped += more.dropped;
    }

    /// The delays of a signal by label values, in their order.
    pub fn delays_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, &Delta)> {
        let own = self.delays.range((signal, Labels::default())..);
        own.take_while(move |((other, _), _)| *other == signal)
            .map(|((_, labels), delays)| (labels, delays))
    }

    /// The events of a signal by label values, in their order.
    pub fn counts_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, u64)> {
        let own = self.counts.range((signal, Labels::default())..);
        own.take_while(move |((other, _), _)| *other == signal)
            .map(|((_, labels), count)| (labels, *count))
    }

    /// All delays of a signal together.
    pub fn of(&self, signal: Signal) -> Delays {
        let mut sum = Delays::default();
        self.delays_of(signal).for_each(|(_, delays)| sum.add(delays));
        sum
    }

    /// What came in a second, of so many.
    pub fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }
}

/// What of each counter is new; of one that was not there before, or has less than then, all.
fn fresh<K: Ord + Clone>(
    before: impl IntoIterator<Item = (K, u64)>,
    now: impl IntoIterator<Item = (K, u64)>,
) -> BTreeMap<K, u64> {
    let before: BTreeMap<K, u64> = before.into_iter().collect();
    now.into_iter()
        .map(|(key, now)| {
            let grown = before.get(&key).and_then(|before| now.checked_sub(*before));
            (key, grown.unwrap_or(now))
        })
        .filter(|(_, grown)| *grown > 0)
        .collect()
}

/// The same of counters that run since boot: one that was not there before, as that of a CPU that
/// came online, or has less than then, says nothing of what is new.
fn grown<K: Ord + Clone>(before: &[(K, u64)], now: &[(K, u64)]) -> BTreeMap<K, u64> {
    let before: BTreeMap<&K, u64> = before.iter().map(|(key, count)| (key, *count)).collect();
    now.iter()
        .filter_map(|(key, now)| {
            let grown = now.checked_sub(*before.get(key)?).filter(|grown| *grown > 0)?;
            Some((key.clone(), grown))
        })
        .collect()
}

/// In order, whoever sent them; they are already, unless somebody did otherwise.
fn in_order<T>(all: &[T], order: fn(&T, &T) -> Ordering) -> Vec<&T> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by(|a, b| order(a, b));
    all
}

/// Each of the newer with what it was before, if it was there. Both are in order.
fn joined<'a, T>(
    before: &[&'a T],
    now: &[&'a T],
    order: fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = (Option<&'a T>, &'a T)> {
    let mut before = before.iter().copied().peekable();
    now.iter().copied().map(move |one| {
        // One comparison for most.
        while let Some(other) = before.peek() {
            match order(other, one) {
                Ordering::Less => drop(before.next()),
                Ordering::Equal => return (before.next(), one),
                Ordering::Greater => break,
            }
        }
        (None, one)
    })
}

fn by_labels(a: &Series, b: &Series) -> Ordering {
    (a.signal, &a.labels).cmp(&(b.signal, &b.labels))
}

/// The name of what interrupts, without a copy of its own where it is known.
fn own(source: &str) -> Cow<'static, str> {
    let mut known = SIGNALS.iter().filter_map(|info| info.interrupts);
    known.find(|known| *known == source).map_or_else(|| source.to_owned().into(), Cow::Borrowed)
}

/// What came between two frames. The series of the newer one are known in order.
fn between(before: &Frame, now: &Frame, names: &mut Names, known: &[(Signal, Labels)]) -> Span {
    let (old, new) = (&before.sample, &now.sample);
    let mut span =
        Span { seconds: new.at_ns.saturating_sub(old.at_ns) as f64 / 1e9, ..Span::default() };
    let series = [old, new].map(|sample| in_order(&sample.series, by_labels));
    let mut delays = Vec::with_capacity(new.series.len());
    for ((before, one), key) in joined(&series[0], &series[1], by_labels).zip(known) {
        let delta = match before {
            Some(before) if before.totals == one.totals => continue,
            Some(before) if before.totals.count() <= one.totals.count() => {
                Delta::since(&one.totals, &before.totals, one.recent_max_ns)
            }
            _ => Delta::of(&one.totals, one.recent_max_ns),
        };
        delays.push((key.clone(), delta));
    }
    span.delays = delays.into_iter().collect();
    let mut counts = |frame: &Frame| -> Vec<_> {
        let counts = frame.sample.counts.iter();
        counts.map(|one| ((one.signal, names.labels.one(&one.labels)), one.total)).collect()
    };
    span.counts = fresh(counts(before), counts(now));
    let pairs = [old, new].map(|sample| in_order(&sample.interference, Interference::order));
    let mut deeds = Vec::new();
    for (before, one) in joined(&pairs[0], &pairs[1], Interference::order) {
        let known = before.map(|before| before.charged).unwrap_or_default();
        let grown = (one.charged.ns.checked_sub(known.ns))
            .zip(one.charged.count.checked_sub(known.count))
            .map_or(one.charged, |(ns, count)| Charged { ns, count });
        if grown != Charged::default() {
            deeds.push((names.deed(one), grown));
        }
    }
    span.deeds = deeds.into_iter().collect();
    let interrupted = |frame: &Frame| -> Vec<_> {
        let all = frame.sample.interrupted.iter();
        all.map(|(cpu, source, ns)| ((*cpu, own(source)), *ns)).collect()
    };
    span.interrupted = fresh(interrupted(before), interrupted(now));
    span.waited = fresh(old.waited.clone(), new.waited.clone());
    span.stolen = grown(&old.stolen, &new.stolen);
    span.page_faults = grown(&old.page_faults, &new.page_faults);
    // None of these is a loss: what is told late is told, a long wait that is not told one by one is
    // counted, and what began before the programs were attached is not theirs.
    let lost = |reason: &Drop| {
        !matches!(reason, Drop::RateLimited | Drop::RingFullDelayed | Drop::NoStart)
    };
    let dropped = |frame: &Frame| {
        let drops = frame.sample.drops.iter().filter(|(_, reason, _)| lost(reason));
        drops.map(|(_, _, count)| count).sum::<u64>()
    };
    span.dropped = dropped(now).saturating_sub(dropped(before));
    span
}

impl Names {
    fn series(&mut self, frame: &Frame) -> Vec<(Signal, Labels)> {
        let series = in_order(&frame.sample.series, by_labels).into_iter();
        series.map(|one| (one.signal, self.labels.one(&one.labels))).collect()
    }

    fn deed(&mut self, one: &Interference) -> Deed {
        Deed {
            resource: one.resource,
            cause: one.cause,
            place: self.texts.one(&one.place),
            victim: self.texts.one(&one.victim),
            culprit: self.texts.one(&one.culprit),
        }
    }
}

impl History {
    /// Takes the next frame. One that is older than the last, or of another host, begins anew.
    pub fn push(&mut self, frame: Arc<Frame>) {
        self.series = self.names.series(&frame);
        if let Some(before) = self.latest.take() {
            let (then_ns, now_ns) = (before.sample.at_ns, frame.sample.at_ns);
            if now_ns < then_ns || before.host.name != frame.host.name {
                self.steps.clear();
                self.pairs.clear();
            } else if now_ns > then_ns {
                let span = between(&before, &frame, &mut self.names, &self.series);
                self.pairs.push(now_ns, &span.deeds);
                self.steps.push_back(Step { time: frame.time, at_ns: now_ns, span });
            }
        }
        let newest_ns = frame.sample.at_ns;
        while self.steps.len() > STEPS
            || self.steps.front().is_some_and(|step| step.at_ns + HORIZON_NS < newest_ns)
        {
            self.steps.pop_front();
        }
        self.pairs.forget_before(self.steps.front().map_or(newest_ns, |step| step.at_ns));
        self.latest = Some(frame);
    }

    /// The newest frame.
    pub fn latest(&self) -> Option<&Arc<Frame>> {
        self.latest.as_ref()
    }

    /// The series of a signal that the newest frame has, by label values, in their order.
    pub fn series_of(&self, signal: Signal) -> impl Iterator<Item = &Labels> {
        let first = self.series.partition_point(|(other, _)| *other < signal);
        let own = self.series.iter().skip(first).take_while(move |(other, _)| *other == signal);
        own.map(|(_, labels)| labels)
    }

    /// What came from one frame to the next, the newest last.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter()
    }

    /// What came since a time on the clock of the samples, ns, all together; but the newest step at
    /// least.
    pub fn since(&self, from_ns: u64) -> Span {
        let mut sum = Span::default();
        self.steps_since(from_ns).for_each(|step| sum.add(&step.span));
        sum
    }

    /// The steps of that time, the newest first.
    pub fn steps_since(&self, from_ns: u64) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter().rev().enumerate();
        steps
            .take_while(move |(index, step)| *index == 0 || step.at_ns > from_ns)
            .map(|(_, step)| step)
    }

    /// What each victim and culprit had with each other.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// What came in the last seconds, all together.
    pub fn last(&self, seconds: f64) -> Span {
        let newest_ns = self.latest.as_ref().map_or(0, |frame| frame.sample.at_ns);
        self.since(newest_ns.saturating_sub((seconds * 1e9) as u64))
    }

    /// A number of each step, the newest last.
    pub fn over_time(&self, number: impl Fn(&Span) -> f64) -> Vec<f64> {
        self.steps.iter().map(|step| number(&step.span)).collect()
    }
}

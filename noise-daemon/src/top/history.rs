//! PURE: the last minutes, as what came between one frame and the next.
//!
//! Counters run for ever, so a step is the difference of two frames. What is missing in a frame is
//! gone, and begins at 0 if it comes again; the same holds for all where a daemon was started anew.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::event::Drop;
use noise_common::signals::Signal;

use super::pairs::Pairs;
use crate::model::Totals;
use crate::wire::Frame;

#[cfg(test)]
mod tests;

/// Steps that are kept.
const STEPS: usize = 1_200;
/// How far back steps are kept, ns.
const HORIZON_NS: u64 = 120_000_000_000;

/// Delays of one signal and subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// By length.
    pub totals: Totals,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Delays {
    /// Adds others.
    pub fn add(&mut self, more: &Self) {
        self.totals.add(&more.totals);
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
    pub delays: BTreeMap<(Signal, Vec<String>), Delays>,
    /// Events by signal and label values.
    pub counts: BTreeMap<(Signal, Vec<String>), u64>,
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

    /// All delays of a signal together.
    pub fn of(&self, signal: Signal) -> Delays {
        let mut sum = Delays::default();
        let own = self.delays.iter().filter(|((other, _), _)| *other == signal);
        own.for_each(|(_, delays)| sum.add(delays));
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

/// What came between two frames.
fn between(before: &Frame, now: &Frame) -> Span {
    let (old, new) = (&before.sample, &now.sample);
    let known: BTreeMap<_, _> =
        old.series.iter().map(|one| ((one.signal, &one.labels), &one.totals)).collect();
    let mut span =
        Span { seconds: new.at_ns.saturating_sub(old.at_ns) as f64 / 1e9, ..Span::default() };
    for one in &new.series {
        let totals = match known.get(&(one.signal, &one.labels)) {
            Some(before) if **before == one.totals => continue,
            Some(before) if before.count() <= one.totals.count() => one.totals.since(before),
            _ => one.totals.clone(),
        };
        let delays = Delays { totals, max_ns: one.recent_max_ns };
        span.delays.insert((one.signal, one.labels.clone()), delays);
    }
    let counts = |frame: &Frame| -> Vec<_> {
        let counts = frame.sample.counts.iter();
        counts.map(|one| ((one.signal, one.labels.clone()), one.total)).collect()
    };
    span.counts = fresh(counts(before), counts(now));
    let deeds: BTreeMap<_, _> =
        old.interference.iter().map(|one| (deed(one), one.charged)).collect();
    for one in &new.interference {
        let deed = deed(one);
        let known = deeds.get(&deed).copied().unwrap_or_default();
        let grown = (one.charged.ns.checked_sub(known.ns))
            .zip(one.charged.count.checked_sub(known.count))
            .map_or(one.charged, |(ns, count)| Charged { ns, count });
        if grown != Charged::default() {
            span.deeds.insert(deed, grown);
        }
    }
    let interrupted = |frame: &Frame| -> Vec<_> {
        let all = frame.sample.interrupted.iter();
        all.map(|(cpu, source, ns)| ((*cpu, source.clone()), *ns)).collect()
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

fn deed(one: &crate::model::Interference) -> Deed {
    Deed {
        resource: one.resource,
        cause: one.cause,
        place: Arc::clone(&one.place),
        victim: Arc::clone(&one.victim),
        culprit: Arc::clone(&one.culprit),
    }
}

impl History {
    /// Takes the next frame. One that is older than the last, or of another host, begins anew.
    pub fn push(&mut self, frame: Arc<Frame>) {
        if let Some(before) = self.latest.take() {
            let (then_ns, now_ns) = (before.sample.at_ns, frame.sample.at_ns);
            if now_ns < then_ns || before.host.name != frame.host.name {
                self.steps.clear();
                self.pairs.clear();
            } else if now_ns > then_ns {
                let span = between(&before, &frame);
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

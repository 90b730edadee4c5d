//! PURE: what came between two frames.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use noise_common::charge::Charged;
use noise_common::event::Drop;
use noise_common::signals::Signal;

use super::cpus;
use super::span::{Deed, Key, Span, by_labels};
use crate::model::{Count, Interference, Sample, Series};
use crate::top::pairs::Pairs;
use crate::wire::Frame;

/// In order, whoever sent them; they are already, unless somebody did otherwise.
pub(super) fn in_order<T>(all: &[T], order: impl Fn(&T, &T) -> Ordering) -> Vec<&T> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by(|a, b| order(a, b));
    all
}

/// Each of the newer with what it was before, if it was there. Both are in order.
pub fn joined<A, B>(
    before: impl IntoIterator<Item = A>,
    now: impl IntoIterator<Item = B>,
    order: impl Fn(&A, &B) -> Ordering,
) -> impl Iterator<Item = (Option<A>, B)> {
    let mut before = before.into_iter().peekable();
    now.into_iter().map(move |one| {
        // One comparison for most.
        while let Some(other) = before.peek() {
            match order(other, &one) {
                Ordering::Less => drop(before.next()),
                Ordering::Equal => return (before.next(), one),
                Ordering::Greater => break,
            }
        }
        (None, one)
    })
}

/// What of a counter is new; of one that was not there before, or has less than then, all.
pub(super) fn fresh(before: Option<u64>, now: u64) -> u64 {
    before.and_then(|before| now.checked_sub(before)).unwrap_or(now)
}

/// The same of a counter that runs since boot: one that was not there before, as that of a CPU that
/// came online, or has less than then, says nothing of what is new.
pub(super) fn grown(before: Option<u64>, now: u64) -> u64 {
    before.and_then(|before| now.checked_sub(before)).unwrap_or_default()
}

/// What is measured by signal and label values, and how much of it there was so far.
trait Labelled {
    fn told(&self) -> (Signal, &[String], u64);
}

impl Labelled for Series {
    fn told(&self) -> (Signal, &[String], u64) {
        (self.signal, &self.labels, self.totals.sum_ns)
    }
}

impl Labelled for Count {
    fn told(&self) -> (Signal, &[String], u64) {
        (self.signal, &self.labels, self.total)
    }
}

fn by_told<T: Labelled>(a: &T, b: &T) -> Ordering {
    let ((signal, labels, _), (other, others, _)) = (a.told(), b.told());
    signal.cmp(&other).then_with(|| labels.cmp(others))
}

/// The series and counters of a frame, in order, with what each was so far: ns, or events. Label
/// values that stay are one and the same from frame to frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub series: Vec<(Key, u64)>,
    pub counts: Vec<(Key, u64)>,
}

impl Known {
    /// Those of the next frame.
    pub(super) fn next(&self, sample: &Sample) -> Self {
        Self {
            series: next(&self.series, &sample.series),
            counts: next(&self.counts, &sample.counts),
        }
    }
}

fn next<T: Labelled>(known: &[(Key, u64)], now: &[T]) -> Vec<(Key, u64)> {
    let order = |known: &&(Key, u64), one: &&T| {
        let ((signal, labels), (other, others, _)) = (&known.0, one.told());
        signal.cmp(&other).then_with(|| labels[..].cmp(others))
    };
    let named = joined(known, in_order(now, by_told), order).map(|(known, one)| {
        let (signal, own, total) = one.told();
        let labels = known.map_or_else(|| Arc::from(own), |((_, labels), _)| Arc::clone(labels));
        ((signal, labels), total)
    });
    named.collect()
}

fn by_key(a: &Key, b: &Key) -> Ordering {
    a.0.cmp(&b.0).then_with(|| by_labels(&a.1, &b.1))
}

/// What came between two frames, each with what is known of it.
pub(super) fn between(before: (&Frame, &Known), now: (&Frame, &Known), pairs: &mut Pairs) -> Span {
    let (old, new) = (&before.0.sample, &now.0.sample);
    let mut span = Span::default();
    span.seconds = new.at_ns.saturating_sub(old.at_ns) as f64 / 1e9;
    let order = |a: &(&(Key, u64), &Series), b: &(&(Key, u64), &Series)| by_key(&a.0.0, &b.0.0);
    let [then, them] = [(old, before.1), (new, now.1)]
        .map(|(sample, known)| known.series.iter().zip(in_order(&sample.series, by_told)));
    for (then, ((key, _), one)) in joined(then, them, order) {
        let earlier = then.map(|(_, earlier)| &earlier.totals);
        if earlier == Some(&one.totals) {
            continue;
        }
        let earlier = earlier.filter(|earlier| earlier.count() <= one.totals.count());
        span.delay(key, &one.totals, earlier, one.recent_max_ns);
    }
    let order = |a: &&(Key, u64), b: &&(Key, u64)| by_key(&a.0, &b.0);
    for (then, (key, total)) in joined(&before.1.counts, &now.1.counts, order) {
        let count = fresh(then.map(|(_, total)| *total), *total);
        if count > 0 {
            span.counts.push((key.clone(), count));
        }
    }
    span.cpus = cpus::between(old, new);
    span.deeds = deeds(old, new);
    span.costs = pairs.costs(&span.deeds);
    let order = |a: &&(_, u64), b: &&(_, u64)| Cow::cmp(&a.0, &b.0);
    let faults = [old, new].map(|sample| in_order(&sample.page_faults, |a, b| a.0.cmp(&b.0)));
    let [then, them] = faults;
    for (then, (kind, count)) in joined(then, them, order) {
        let count = grown(then.map(|(_, count)| *count), *count);
        if count > 0 {
            span.page_faults.push((kind.clone(), count));
        }
    }
    span.dropped = dropped(new).saturating_sub(dropped(old));
    span
}

fn deeds(old: &Sample, new: &Sample) -> Vec<(Deed, Charged)> {
    let [then, them] = [old, new].map(|sample| in_order(&sample.interference, Interference::order));
    let mut deeds = Vec::new();
    for (then, one) in joined(then, them, |a, b| a.order(b)) {
        let known = then.map(|then| then.charged).unwrap_or_default();
        let grown = (one.charged.ns.checked_sub(known.ns))
            .zip(one.charged.count.checked_sub(known.count))
            .map_or(one.charged, |(ns, count)| Charged { ns, count });
        if grown != Charged::default() {
            deeds.push((Deed::of(one), grown));
        }
    }
    deeds
}

/// Events that were lost so far. None of the others is a loss: what is told late is told, a long
/// wait that is not told one by one is counted, and what began before the programs were attached is
/// not theirs.
fn dropped(sample: &Sample) -> u64 {
    let lost = |reason: &Drop| {
        !matches!(reason, Drop::RateLimited | Drop::RingFullDelayed | Drop::NoStart)
    };
    let drops = sample.drops.iter().filter(|(_, reason, _)| lost(reason));
    drops.map(|(_, _, count)| count).sum()
}

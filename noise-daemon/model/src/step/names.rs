//! PURE: names of what is measured, so that each is in memory once in all steps that have it.

use std::cmp::Ordering;
use std::sync::Arc;

use noise_common::signals::Signal;

use crate::joined::{in_order, joined};
use crate::sample::{Count, Sample, Series};

/// Label values of a series.
pub type Labels = Arc<[String]>;

/// A signal and its label values.
pub type Key = (Signal, Labels);

/// In order of the names, which need not be read where they are one and the same.
pub fn by_labels(a: &Labels, b: &Labels) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

/// What is measured by signal and label values, and how much of it there was so far.
pub(super) trait Named {
    fn named(&self) -> (Signal, &[String], u64);
}

impl Named for Series {
    fn named(&self) -> (Signal, &[String], u64) {
        (self.signal, &self.labels, self.totals.sum_ns)
    }
}

impl Named for Count {
    fn named(&self) -> (Signal, &[String], u64) {
        (self.signal, &self.labels, self.total)
    }
}

pub(super) fn by_name<T: Named>(a: &T, b: &T) -> Ordering {
    let ((signal, labels, _), (other, others, _)) = (a.named(), b.named());
    signal.cmp(&other).then_with(|| labels.cmp(others))
}

/// The name of one that is at some place of these, or its own.
pub(super) fn key<T: Named>(names: Option<&[(Key, u64)]>, at: usize, one: &T) -> Key {
    let known = names.and_then(|names| names.get(at)).map(|(key, _)| key.clone());
    known.unwrap_or_else(|| {
        let (signal, labels, _) = one.named();
        (signal, labels.into())
    })
}

/// The series and counters of a sample, in order, with what each was so far: ns, or events. Label
/// values that stay are one and the same from sample to sample.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Of the histograms.
    pub series: Vec<(Key, u64)>,
    /// Of the counters.
    pub counts: Vec<(Key, u64)>,
}

impl Names {
    /// Those of the next sample.
    pub fn next(&self, sample: &Sample) -> Self {
        Self {
            series: next(&self.series, &sample.series),
            counts: next(&self.counts, &sample.counts),
        }
    }
}

fn next<T: Named>(known: &[(Key, u64)], now: &[T]) -> Vec<(Key, u64)> {
    let order = |known: &&(Key, u64), one: &&T| {
        let ((signal, labels), (other, others, _)) = (&known.0, one.named());
        signal.cmp(&other).then_with(|| labels[..].cmp(others))
    };
    let named = joined(known, in_order(now, by_name), order).map(|(known, one)| {
        let (signal, own, total) = one.named();
        let labels = known.map_or_else(|| Arc::from(own), |((_, labels), _)| Arc::clone(labels));
        ((signal, labels), total)
    });
    named.collect()
}

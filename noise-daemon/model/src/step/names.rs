//! PURE: names of what is measured, so that each is in memory once in all steps that have it.

use std::cmp::Ordering;
use std::sync::Arc;

use noise_common::signals::Signal;
use noise_text::joined::{in_order, joined};

use crate::sample::{Count, Label, Labels, Sample, Series};

/// In order of the names, which need not be read where they are one and the same.
pub fn by_labels(a: &Labels, b: &Labels) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

/// What is measured by signal and label values, and how much of it there was so far.
pub(super) trait Named {
    fn named(&self) -> (Signal, &Labels, u64);
}

impl Named for Series {
    fn named(&self) -> (Signal, &Labels, u64) {
        (self.signal, &self.labels, self.totals.sum_ns)
    }
}

impl Named for Count {
    fn named(&self) -> (Signal, &Labels, u64) {
        (self.signal, &self.labels, self.total)
    }
}

pub(super) fn by_name<T: Named>(a: &T, b: &T) -> Ordering {
    let ((signal, labels, _), (other, others, _)) = (a.named(), b.named());
    signal.cmp(&other).then_with(|| by_labels(labels, others))
}

/// A series or counter of a sample, and how much of it there was so far: ns, or events.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Label,
    pub total: u64,
    /// Where the sample has it.
    at: usize,
}

/// The series and counters of a sample, in the order of their names. Label values that stay are one and
/// the same from sample to sample, so that steps between samples need not read them.
#[derive(Clone, Debug, Default)]
pub struct SeriesNames {
    pub series: Vec<Entry>,
    pub counts: Vec<Entry>,
}

impl SeriesNames {
    /// Those of the next sample.
    pub fn next(&self, sample: &Sample) -> Self {
        Self {
            series: next(&self.series, &sample.series),
            counts: next(&self.counts, &sample.counts),
        }
    }
}

fn next<T: Named>(known: &[Entry], now: &[T]) -> Vec<Entry> {
    let order = |known: &&Entry, (_, one): &(usize, &T)| {
        let ((signal, labels), (other, others, _)) = (&known.key, one.named());
        signal.cmp(&other).then_with(|| by_labels(labels, others))
    };
    let mut now: Vec<(usize, &T)> = now.iter().enumerate().collect();
    // In order already, unless a peer or a file broke that rule.
    now.sort_by(|(_, a), (_, b)| by_name(*a, *b));
    let named = joined(known, now, order).map(|(known, (at, one))| {
        let key = known.map_or_else(|| own_key(one), |known| known.key.clone());
        Entry { key, total: one.named().2, at }
    });
    named.collect()
}

/// One of a sample, with its name where that is known.
pub(super) type Listed<'a, T> = (Option<&'a Label>, &'a T);

/// All of a sample in order: that of their names, where these are known.
pub(super) fn listed<'a, T: Named>(all: &'a [T], names: Option<&'a [Entry]>) -> Vec<Listed<'a, T>> {
    let Some(names) = names else {
        return in_order(all, by_name).into_iter().map(|one| (None, one)).collect();
    };
    let found = |entry: &'a Entry| Some((Some(&entry.key), all.get(entry.at)?));
    names.iter().filter_map(found).collect()
}

/// By names that need not be read where they are known to both, and are one and the same.
pub(super) fn by_known_name<T: Named>(a: &Listed<'_, T>, b: &Listed<'_, T>) -> Ordering {
    match (a.0, b.0) {
        (Some((signal, labels)), Some((other, others))) => {
            signal.cmp(other).then_with(|| by_labels(labels, others))
        }
        _ => by_name(a.1, b.1),
    }
}

/// The name of one.
pub(super) fn key<T: Named>((known, one): Listed<'_, T>) -> Label {
    known.cloned().unwrap_or_else(|| own_key(one))
}

fn own_key<T: Named>(one: &T) -> Label {
    let (signal, labels, _) = one.named();
    (signal, Arc::clone(labels))
}

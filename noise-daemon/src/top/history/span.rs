//! PURE: what came in one step, each kind in order in one piece: a screen goes through a hundred of
//! them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use noise_common::charge::{Cause, Charged, Resource};
use noise_common::signals::{SIGNALS, Signal};

use super::cpus::{Cpu, Taker};
use super::delta::{Delta, put};
use crate::model::{Interference, Totals};
use crate::top::pairs::{Cost, Id};

/// Label values of a series.
pub type Labels = Arc<[String]>;

/// A signal and its label values.
pub(super) type Key = (Signal, Labels);

/// As the names are, which need not be read where they are one and the same.
pub fn by_labels(a: &Labels, b: &Labels) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

/// Who delayed whom, where.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Deed {
    pub(super) fn of(one: &Interference) -> Self {
        Self {
            resource: one.resource,
            cause: one.cause,
            place: Arc::clone(&one.place),
            victim: Arc::clone(&one.victim),
            culprit: Arc::clone(&one.culprit),
        }
    }
}

/// Delays of one signal and its label values.
#[derive(Clone, Debug, PartialEq)]
struct Delayed {
    key: Key,
    counts: Range<u32>,
    sum_ns: u64,
    max_ns: u64,
}

/// All delays of one signal. Steps are many and far apart in memory, so these are not searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Whole {
    /// Its own among all.
    first: usize,
    end: usize,
    lost_ns: u64,
}

/// What came in some time. What did not change is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// How long it was.
    pub seconds: f64,
    delays: Vec<Delayed>,
    /// Those of all delays.
    buckets: Vec<u64>,
    by_signal: [Whole; SIGNALS.len()],
    /// Events by signal and label values.
    pub(super) counts: Vec<(Key, u64)>,
    /// Who delayed whom, by resource.
    pub deeds: Vec<(Deed, Charged)>,
    /// The same by victim and culprit, in no particular order.
    pub costs: Vec<(Id, Cost)>,
    /// What was taken from CPUs, and waited for them.
    pub cpus: Vec<Cpu>,
    /// Page faults by kind.
    pub page_faults: Vec<(Cow<'static, str>, u64)>,
    /// Events that could not be counted.
    pub dropped: u64,
}

impl Span {
    /// Adds delays; those of later label values come later.
    pub(super) fn delay(&mut self, key: &Key, now: &Totals, earlier: Option<&Totals>, max_ns: u64) {
        let start = self.buckets.len() as u32;
        let sum_ns = put(&mut self.buckets, now, earlier);
        let counts = start..self.buckets.len() as u32;
        let at = self.delays.len();
        self.delays.push(Delayed { key: key.clone(), counts, sum_ns, max_ns });
        if let Some(whole) = self.by_signal.get_mut(key.0 as usize) {
            let first = if whole.end == 0 { at } else { whole.first };
            *whole = Whole { first, end: at + 1, lost_ns: whole.lost_ns + sum_ns };
        }
    }

    /// The delays of a signal by label values, in their order.
    pub fn delays_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, Delta<'_>)> {
        let own = self.by_signal.get(signal as usize);
        let own = own.and_then(|own| self.delays.get(own.first..own.end)).unwrap_or_default();
        own.iter().map(|Delayed { key, counts, sum_ns, max_ns }| {
            let counts = self.buckets.get(counts.start as usize..counts.end as usize);
            let counts = counts.unwrap_or_default();
            (&key.1, Delta { counts, sum_ns: *sum_ns, max_ns: *max_ns })
        })
    }

    /// What all delays of a signal took together, ns.
    pub fn lost_ns(&self, signal: Signal) -> u64 {
        self.by_signal.get(signal as usize).map_or(0, |whole| whole.lost_ns)
    }

    /// The events of a signal by label values, in their order.
    pub fn counts_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, u64)> {
        let own = run(&self.counts, |((own, _), _)| *own, signal);
        own.iter().map(|((_, labels), count)| (labels, *count))
    }

    /// The charges for some resource.
    pub fn deeds_of(&self, resource: Resource) -> &[(Deed, Charged)] {
        run(&self.deeds, |(deed, _)| deed.resource, resource)
    }

    /// What the hypervisor took from all CPUs, ns.
    pub fn stolen_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.taken_by(Taker::Steal)).sum()
    }

    /// What came in a second, of so many.
    pub fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }
}

/// Those of one kind, where kinds come in order.
pub(super) fn run<T, K: Ord>(all: &[T], kind: impl Fn(&T) -> K, wanted: K) -> &[T] {
    let first = all.partition_point(|one| kind(one) < wanted);
    let rest = all.get(first..).unwrap_or_default();
    let end = rest.partition_point(|one| kind(one) == wanted);
    rest.get(..end).unwrap_or_default()
}

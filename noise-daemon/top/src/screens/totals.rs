//! Sums of counters, in the time that is looked at.

use std::collections::BTreeMap;

use noise_common::charge::Cause;
use noise_model::{Amount as _, Step, total};

use super::recent::Recent;

/// A number of each step, in the time that is looked at.
pub(super) fn of(recent: &Recent<'_>, number: impl Fn(&Step) -> u64) -> u64 {
    total(recent.steps.iter().map(|step| number(step)))
}

/// Numbers by name, in the time that is looked at.
pub(super) fn by<'a, K: Ord, I: Iterator<Item = (K, u64)>>(
    recent: &Recent<'a>,
    numbers: impl Fn(&'a Step) -> I,
) -> BTreeMap<K, u64> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for (name, number) in recent.steps.iter().flat_map(|step| numbers(step)) {
        sums.entry(name).or_default().add(&number);
    }
    sums
}

/// What took most of the time, of times with their causes.
pub(super) fn main_cause(times: impl Iterator<Item = (Cause, u64)>) -> Option<Cause> {
    let mut by_cause: BTreeMap<Cause, u64> = BTreeMap::new();
    times.for_each(|(cause, ns)| by_cause.entry(cause).or_default().add(&ns));
    by_cause.into_iter().max_by_key(|(_, ns)| *ns).map(|(cause, _)| cause)
}

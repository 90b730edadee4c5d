//! Sums of counters, in the time that is looked at and over time.

use std::collections::BTreeMap;

use noise_model::{Amount as _, Step};

use super::recent::Recent;
use crate::History;

/// A number of each step: all of them in the time that is looked at, and each per second.
pub(super) fn of(
    history: &History,
    recent: &Recent<'_>,
    number: impl Fn(&Step) -> u64,
) -> (u64, Vec<f64>) {
    let mut sum = 0_u64;
    let trend = history.steps().map(|step| {
        let number = number(step);
        if step.end_ns > recent.from_ns {
            sum.add(&number);
        }
        step.per_second(number as f64)
    });
    let trend = trend.collect();
    (sum, trend)
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

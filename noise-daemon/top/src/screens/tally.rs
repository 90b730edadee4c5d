//! One signal's delays, in the time that is looked at and over all that is known, in one pass over
//! the steps.

use noise_common::hist::{BUCKETS, bucket_of, upper_bound_ns};
use noise_common::signals::{Signal, SignalInfo};
use noise_model::{Histogram, Labels, Step, by_labels};
use noise_text::joined::joined;
use noise_text::units;

use super::cells;
use super::recent::Recent;
use crate::{Block, Cell, Column, History, Table, TableRow, Tone};

/// Delays in the time that is looked at, and seconds lost per second over time.
#[derive(Debug, Default)]
pub(super) struct DelayTally {
    pub delays: Histogram,
    pub trend: Vec<f64>,
}

/// All of a signal together.
pub(super) fn whole(history: &History, recent: &Recent<'_>, signal: Signal) -> DelayTally {
    let mut tally = DelayTally::default();
    for step in &recent.steps {
        step.delays_of(signal).for_each(|(_, delays)| tally.delays.add(&delays));
    }
    tally.trend = history.trends().signal(signal);
    tally
}

/// The label values of a signal that the newest frame has, whether anything happened or not.
fn known<T: Default>(history: &History, signal: Signal) -> Vec<(&Labels, T)> {
    let mut labels: Vec<&Labels> = history.series_of(signal).map(|(labels, _)| labels).collect();
    // Each is there once, unless a peer or a file broke that rule.
    labels.dedup();
    labels.into_iter().map(|labels| (labels, T::default())).collect()
}

/// Adds what a step has of each; both are in order of the labels.
fn add<T>(
    known: &mut [(&Labels, T)],
    step: &Step,
    signal: Signal,
    mut add: impl FnMut(&mut T, &Histogram<&[u64]>),
) {
    let order = |own: &&mut (&Labels, T), one: &(&Labels, _)| by_labels(own.0, one.0);
    for (own, (_, delays)) in joined(known, step.delays_of(signal), order) {
        if let Some((_, sum)) = own {
            add(sum, &delays);
        }
    }
}

/// A signal by labels, with what it was over time.
pub(super) fn over_time<'a>(
    history: &'a History,
    recent: &Recent<'_>,
    signal: Signal,
) -> Vec<(&'a Labels, DelayTally)> {
    let mut known: Vec<(&Labels, DelayTally)> = known(history, signal);
    let steps = history.steps().count();
    known.iter_mut().for_each(|(_, tally)| tally.trend = vec![0.0; steps]);
    for (index, step) in history.steps().enumerate() {
        add(&mut known, step, signal, |tally, delays| {
            if let Some(value) = tally.trend.get_mut(index) {
                *value = step.per_second(delays.sum_ns as f64 / 1e9);
            }
            if step.end_ns > recent.from_ns {
                tally.delays.add(delays);
            }
        });
    }
    known
}

/// The same without what it was over time, which costs most.
pub(super) fn recent_by_labels<'a>(
    history: &'a History,
    recent: &Recent<'_>,
    signal: Signal,
) -> Vec<(&'a Labels, Histogram)> {
    let mut known: Vec<(&Labels, Histogram)> = known(history, signal);
    for step in &recent.steps {
        add(&mut known, step, signal, |sum, delays| sum.add(delays));
    }
    known
}

fn beyond() -> Cell {
    let bound_ns = upper_bound_ns(BUCKETS - 2).unwrap_or_default() as f64;
    Cell::Number { text: format!(">{}", units::duration(bound_ns)), value: Some(bound_ns / 1e9) }
}

/// The longest delay; the bound of its bucket where another reader has taken the exact one.
pub(super) fn longest(delays: &Histogram) -> Cell {
    match delays.last_bucket() {
        None => cells::nothing(),
        Some(bucket) if bucket_of(delays.max_ns) >= bucket => cells::duration(delays.max_ns as f64),
        Some(bucket) => upper_bound_ns(bucket).map_or_else(beyond, |ns| cells::duration(ns as f64)),
    }
}

/// Up to how long so many of the delays were; not longer than the longest.
pub(super) fn quantile(delays: &Histogram, quantile: f64) -> Cell {
    let Some(last) = delays.last_bucket() else { return cells::nothing() };
    let exact = bucket_of(delays.max_ns) == last;
    match delays.quantile_ns(quantile) {
        Some(ns) if exact => cells::duration(ns.min(delays.max_ns) as f64),
        Some(ns) => cells::duration(ns as f64),
        None => longest(delays),
    }
}

/// Rate, quantiles, longest and loss: the cells of [`columns`].
pub(super) fn numbers(recent: &Recent<'_>, delays: &Histogram) -> Vec<Cell> {
    vec![
        cells::rate(recent.per_second(delays.count() as f64)),
        quantile(delays, 0.5),
        quantile(delays, 0.99),
        longest(delays),
        cells::lost(recent.lost(delays.sum_ns)),
    ]
}

/// The columns of [`numbers`].
pub(super) fn columns() -> [Column; 5] {
    [
        cells::numbers("rate", "rate_per_second", 8).help("Events per second."),
        cells::numbers("p50", "p50_seconds", 7).help("Half of them took that long at most."),
        cells::numbers("p99", "p99_seconds", 7).help("99 of 100 took that long at most."),
        cells::numbers("max", "max_seconds", 7).help("The longest."),
        cells::numbers("lost", "lost_seconds_per_second", 9)
            .help("Time lost to it in each second."),
    ]
}

/// A table of a signal's series.
pub(super) fn series(history: &History, recent: &Recent<'_>, info: &SignalInfo) -> Table {
    let names_of = info.labels;
    let last = names_of.len().saturating_sub(1);
    let names = names_of.iter().enumerate().map(|(index, label)| {
        let name = cells::names(label, label, 10).help("Where or of what kind.");
        Column { grows: index == last, ..name }
    });
    let rows =
        recent_by_labels(history, recent, info.signal).into_iter().map(|(labels, delays)| {
            let of_label = |index| labels.get(index).map_or("", String::as_str);
            let mut cells: Vec<Cell> =
                (0..names_of.len()).map(|index| cells::text(of_label(index))).collect();
            cells.extend(numbers(recent, &delays));
            let quiet = delays.is_empty();
            TableRow { key: labels.join(" "), cells, tone: tone(quiet) }
        });
    Table {
        title: info.table.to_owned(),
        rows: rows.collect(),
        sorted_by: names_of.len() + 4,
        columns: names.chain(columns()).collect(),
        empty: super::recent::empty(history, "None since the start.").into(),
    }
}

/// The tone of a row, by whether nothing happened.
pub(super) fn tone(quiet: bool) -> Tone {
    if quiet { Tone::Dim } else { Tone::Plain }
}

/// Values over time with the largest of them as it reads.
pub(super) fn graph(title: &str, values: Vec<f64>, reads: fn(f64) -> String) -> Block {
    let largest = reads(values.iter().copied().fold(0.0, f64::max));
    Block::Graph { title: title.to_owned(), values, largest }
}

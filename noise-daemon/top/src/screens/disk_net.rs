//! Devices and interfaces: the wait for one's turn, against that for the device itself.

mod page;
#[cfg(test)]
mod tests;

pub use self::page::page as open;

use std::collections::BTreeMap;
use std::sync::Arc;

use noise_common::charge::Cause;
use noise_common::shown::{Shown, Stage, WAYS, Way};
use noise_common::signals::{SIGNALS, Signal};
use noise_common::subject::SubjectKind;
use noise_model::{Amount as _, Histogram, Interference, Labels, Step, by_labels};
use noise_text::joined::joined;

use super::recent::{Recent, empty};
use super::{cells, tally};
use crate::{Cell, Column, History, ScreenLook, Table, TableRow, Tone};

/// Between the parts of a row's key; no name holds it.
const BETWEEN: char = '\0';

/// What is shown of a signal here.
pub(super) fn place(signal: Signal) -> Option<(Way, Stage)> {
    match signal.info().shown {
        Shown::Way { way, stage } => Some((way, stage)),
        _ => None,
    }
}

/// The signals that a row is made of.
pub(super) fn signals(way: Way) -> impl Iterator<Item = Signal> {
    let all = SIGNALS.iter().map(|info| info.signal);
    all.filter(move |signal| place(*signal).is_some_and(|(own, _)| own == way))
}

/// Whether there are no delays, but events that are counted.
pub(super) fn is_counted(way: Way) -> bool {
    signals(way).all(|signal| !signal.info().is_delay())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceSubject<'a> {
    pub way: Way,
    /// A device, interface or reason.
    pub name: &'a str,
    pub operation: &'a str,
}

impl<'a> DeviceSubject<'a> {
    fn new(signal: Signal, labels: &'a [String]) -> Option<Self> {
        let (way, _) = place(signal)?;
        let operation = match (signal.info().subject, labels) {
            (SubjectKind::Request, [_, operation, ..]) => operation,
            _ => way.name(),
        };
        Some(Self { way, name: labels.first()?, operation })
    }

    /// Label values of its signals.
    pub(super) fn labels(&self) -> Vec<String> {
        match self.way {
            Way::Block => vec![self.name.to_owned(), self.operation.to_owned()],
            _ => vec![self.name.to_owned()],
        }
    }

    fn key(&self) -> String {
        let Self { way, name, operation } = self;
        format!("{}{BETWEEN}{name}{BETWEEN}{operation}", way.name())
    }

    /// That of a row's key.
    pub(super) fn parse(key: &'a str) -> Option<Self> {
        let (way, rest) = key.split_once(BETWEEN)?;
        let (name, operation) = rest.split_once(BETWEEN)?;
        let way = WAYS.into_iter().find(|one| one.name() == way)?;
        Some(Self { way, name, operation })
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct DeviceWaits {
    /// The turn in the queue; of what is received, the delivery.
    pub queue: Histogram,
    pub device: Histogram,
    /// What is only counted.
    pub events: u64,
}

impl DeviceWaits {
    /// Requests or packets. Not all of them wait in a queue.
    pub(super) fn count(&self) -> u64 {
        match self.device.count() {
            0 => self.queue.count().max(self.events),
            count => count,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.count() == 0 && self.queue.count() == 0
    }

    fn add(&mut self, signal: Signal, delays: &Histogram<&[u64]>) {
        match place(signal) {
            Some((_, Stage::Device)) => self.device.add(delays),
            _ => self.queue.add(delays),
        }
    }
}

/// The charges of a step that are about the places of some way.
pub(super) fn charges(step: &Step, way: Way) -> impl Iterator<Item = &Interference> {
    let resources = signals(way).filter_map(|signal| signal.info().resource);
    resources.flat_map(|resource| step.charges_of(resource))
}

#[derive(Debug)]
pub(super) struct Rows<'a> {
    pub subjects: Vec<DeviceSubject<'a>>,
    /// What each is made of, with its index, by signal and label values.
    sources: Vec<(Signal, Labels, usize)>,
}

impl<'a> Rows<'a> {
    /// All that is known.
    pub(super) fn known(history: &'a History) -> Self {
        let all = WAYS.into_iter().flat_map(signals).flat_map(|signal| {
            let series = history.series_of(signal).map(|(labels, ns)| (labels, ns > 0));
            let counters = history.counters_of(signal).map(|labels| (labels, true));
            series.chain(counters).filter_map(move |(labels, is_used)| {
                Some((DeviceSubject::new(signal, labels)?, is_used, signal, labels))
            })
        });
        let all: Vec<_> = all.collect();
        let used = all.iter().filter(|(_, is_used, ..)| *is_used);
        let mut subjects: Vec<DeviceSubject<'_>> = used.map(|(subject, ..)| *subject).collect();
        subjects.sort_unstable();
        subjects.dedup();
        let sources = all.iter().filter_map(|(subject, _, signal, labels)| {
            let row = subjects.binary_search(subject).ok()?;
            Some((*signal, Arc::clone(labels), row))
        });
        Self { sources: sources.collect(), subjects }
    }

    pub(super) fn one(subject: DeviceSubject<'a>) -> Self {
        let labels = Labels::from(subject.labels());
        let sources = signals(subject.way).map(|signal| (signal, Arc::clone(&labels), 0)).collect();
        Self { subjects: vec![subject], sources }
    }

    /// Of what there is by signal, that of each row, with its index.
    fn matched<'b, T, I: Iterator<Item = (&'b Labels, T)>>(
        &self,
        of: impl Fn(Signal) -> I,
    ) -> impl Iterator<Item = (usize, Signal, T)> {
        self.sources.chunk_by(|a, b| a.0 == b.0).flat_map(move |own| {
            let all = own.first().map(|(signal, ..)| of(*signal)).into_iter().flatten();
            let pairs = joined(own, all, |(_, own, _), (labels, _)| by_labels(own, labels));
            pairs.filter_map(|(own, (_, what))| own.map(|(signal, _, row)| (*row, *signal, what)))
        })
    }

    /// What came for each.
    pub(super) fn waits(&self, recent: &Recent<'_>) -> Vec<DeviceWaits> {
        let mut waits = vec![DeviceWaits::default(); self.subjects.len()];
        for step in &recent.steps {
            for (row, signal, delays) in self.matched(|signal| step.delays_of(signal)) {
                if let Some(waits) = waits.get_mut(row) {
                    waits.add(signal, &delays);
                }
            }
            for (row, _, count) in self.matched(|signal| step.counts_of(signal)) {
                if let Some(waits) = waits.get_mut(row) {
                    waits.events.add(&count);
                }
            }
        }
        waits
    }

    /// What each lost in a second, in each step; of what is only counted, how often it came.
    pub(super) fn trends(&self, history: &History) -> Vec<Vec<f64>> {
        let mut trends = vec![vec![0.0; history.steps().count()]; self.subjects.len()];
        for (index, step) in history.steps().enumerate() {
            let lost = self.matched(|signal| step.delays_of(signal));
            let lost = lost.map(|(row, _, delays)| (row, delays.sum_ns as f64 / 1e9));
            let events = self.matched(|signal| step.counts_of(signal));
            let events = events.map(|(row, _, count)| (row, count as f64));
            for (row, amount) in lost.chain(events) {
                if let Some(value) = trends.get_mut(row).and_then(|trend| trend.get_mut(index)) {
                    *value += step.per_second(amount);
                }
            }
        }
        trends
    }
}

/// A culprit at a place, what it took there, and what all did, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Worst<'a> {
    culprit: &'a str,
    cause: Option<Cause>,
    ns: u64,
    whole_ns: u64,
}

/// Who took most at each place, of those who are known.
fn worst<'a>(recent: &Recent<'a>) -> BTreeMap<(Way, &'a str), Worst<'a>> {
    let mut sums: BTreeMap<(Way, &str, &str, Cause), u64> = BTreeMap::new();
    for way in WAYS {
        for one in recent.steps.iter().flat_map(|step| charges(step, way)) {
            let key = (way, &*one.place, &*one.culprit, one.cause);
            sums.entry(key).or_default().add(&one.charged.ns);
        }
    }
    let mut worst: BTreeMap<(Way, &str), Worst<'_>> = BTreeMap::new();
    for ((way, place, culprit, cause), ns) in sums {
        let most = worst.entry((way, place)).or_default();
        most.whole_ns.add(&ns);
        let is_known = !matches!(cause, Cause::Idle | Cause::Untracked);
        if is_known && ns > most.ns {
            *most = Worst { culprit, cause: Some(cause), ns, ..*most };
        }
    }
    worst
}

impl Worst<'_> {
    fn cell(&self) -> Cell {
        let Self { culprit, ns, whole_ns, .. } = self;
        match self.cause {
            Some(cause) => {
                cells::culprit(culprit, cause, cells::ratio(*ns as f64, *whole_ns as f64))
            }
            None if *whole_ns > 0 => cells::text("not known"),
            None => cells::text(""),
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        cells::names("name", "name", 10).help("The device or interface; of drops, the reason."),
        cells::names("what", "operation", 7).help("What is done with it."),
        cells::numbers("rate", "per_second", 8).help("Requests or packets in a second."),
        cells::numbers("lost", "lost_seconds_per_second", 9)
            .help("Time that requests or packets spent in the queue and the device, in a second."),
        cells::numbers("queue p50", "queue_p50_seconds", 9).help(
            "Half of them had their turn within that time; of what is received: were delivered.",
        ),
        cells::numbers("q p99", "queue_p99_seconds", 8).help("The same of 99 in 100."),
        cells::numbers("dev p50", "device_p50_seconds", 8)
            .help("Half were served within that time."),
        cells::numbers("dev p99", "device_p99_seconds", 8).help("The same of 99 in 100."),
        cells::names("worst culprit", "worst_culprit", 16).grows().help(
            "Who delayed others most there, all operations together; of those who are known.",
        ),
        cells::pictures("trend", "lost_over_time", 12)
            .help("What was lost over the last two minutes."),
    ]
}

/// Devices and interfaces, by what was lost.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let recent = Recent::new(history, look);
    let rows = Rows::known(history);
    let worst = worst(&recent);
    let all = rows.subjects.iter().zip(rows.waits(&recent)).zip(rows.trends(history));
    let rows = all
        // What was counted long ago is of no interest.
        .filter(|((subject, waits), _)| !is_counted(subject.way) || !waits.is_none())
        .map(|((subject, waits), trend)| {
            let culprit = worst.get(&(subject.way, subject.name)).copied().unwrap_or_default();
            row(&recent, subject, &waits, culprit, trend)
        });
    Table {
        title: format!("Devices and interfaces, {}", cells::length(recent.seconds)),
        rows: rows.collect(),
        columns: columns(),
        sorted_by: 3,
        empty: empty(history, "No device and no interface was used.").into(),
    }
}

fn row(
    recent: &Recent<'_>,
    subject: &DeviceSubject<'_>,
    waits: &DeviceWaits,
    worst: Worst<'_>,
    trend: Vec<f64>,
) -> TableRow {
    let is_counted = is_counted(subject.way);
    let lost = match is_counted {
        true => cells::nothing(),
        false => cells::lost(recent.lost(waits.queue.sum_ns.saturating_add(waits.device.sum_ns))),
    };
    let tone = match (waits.is_none(), is_counted) {
        (true, _) => Tone::Dim,
        (false, true) => Tone::Strong,
        (false, false) => Tone::Plain,
    };
    let cells = vec![
        cells::text(subject.name),
        cells::text(subject.operation),
        cells::rate(recent.per_second(waits.count() as f64)),
        lost,
        tally::quantile(&waits.queue, 0.5),
        tally::quantile(&waits.queue, 0.99),
        tally::quantile(&waits.device, 0.5),
        tally::quantile(&waits.device, 0.99),
        worst.cell(),
        Cell::Spark(trend),
    ];
    TableRow { key: subject.key(), cells, tone }
}

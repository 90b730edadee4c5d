//! Frames for tests, each thing said in one line, and what tables made of them show.

use std::sync::Arc;

use jiff::Timestamp;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::signals::Signal;
use noise_model::{Count, Histogram, Host, Interference, Labels, Sample, Series};
use noise_wire::Frame;

use super::{Cell, History, Table, TableRow};

/// A frame that is being made. Delays and counters are those since attach.
#[derive(Clone, Debug, Default)]
pub struct Made {
    pub host: Host,
    pub sample: Sample,
    pub overview: noise_analysis::Overview,
}

fn owned(labels: &[&str]) -> Labels {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

impl Made {
    /// That many seconds after the boot.
    pub fn new(seconds: u64) -> Self {
        let host = Host { name: "here".to_owned(), cpus: vec![0, 1], ..Host::default() };
        let sample = Sample { at_ns: seconds * 1_000_000_000, ..Sample::default() };
        Self { host, sample, ..Self::default() }
    }

    pub fn delays(mut self, signal: Signal, labels: &[&str], values: &[u64]) -> Self {
        self.sample.series.push(Series {
            signal,
            labels: owned(labels),
            totals: Histogram::of(values),
            recent_max_ns: values.iter().copied().max().unwrap_or(0),
        });
        self.sample.series.sort_by(|a, b| (a.signal, &a.labels).cmp(&(b.signal, &b.labels)));
        self
    }

    pub fn count(mut self, signal: Signal, labels: &[&str], total: u64) -> Self {
        self.sample.counts.push(Count { signal, labels: owned(labels), total });
        self
    }

    pub fn interrupted(mut self, cpu: u32, source: &'static str, ns: u64) -> Self {
        self.sample.interrupted.push((cpu, source.into(), ns));
        self
    }

    pub fn waited(mut self, cpu: u32, ns: u64) -> Self {
        self.sample.waited.push((cpu, ns));
        self
    }

    pub fn stolen(mut self, cpu: u32, ns: u64) -> Self {
        self.sample.stolen.push((cpu, ns));
        self
    }

    pub fn page_faults(mut self, kind: &'static str, count: u64) -> Self {
        self.sample.page_faults.push((kind.into(), count));
        self
    }

    pub fn charge(mut self, victim: &str, cause: Cause, culprit: &str, ns: u64) -> Self {
        self.sample.interference.push(Interference {
            resource: Resource::Running,
            cause,
            place: "".into(),
            victim: victim.into(),
            culprit: culprit.into(),
            charged: Charged { ns, count: 1 },
        });
        self
    }

    pub fn frame(self) -> Arc<Frame> {
        let time = Timestamp::from_nanosecond(self.sample.at_ns.into()).unwrap();
        let (host, sample) = (Arc::new(self.host), Arc::new(self.sample));
        Arc::new(Frame { time, host, sample, overview: self.overview, trends: None })
    }
}

pub fn history(made: impl IntoIterator<Item = Made>) -> History {
    let mut history = History::default();
    made.into_iter().for_each(|made| history.push(made.frame()));
    history
}

pub fn row(table: &Table, key: &str) -> TableRow {
    table.rows.iter().find(|row| row.key == key).unwrap().clone()
}

/// The cells of a row as they are shown; shares and trends with their values.
pub fn read(row: &TableRow) -> Vec<String> {
    let read = |cell: &Cell| match cell {
        Cell::Text(text) | Cell::Number { text, .. } => text.clone(),
        Cell::Named { name, notes } => Cell::words(name, notes),
        Cell::Share(share) => format!("{share}"),
        Cell::Spark(values) => format!("{values:?}"),
    };
    row.cells.iter().map(read).collect()
}

//! Histories for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use noise_analysis::{Report, ReportedOutlier};
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::signals::Signal;
use noise_model::{Count, Histogram, Interference, Label, Sample, Series};
use noise_wire::Frame;

use crate::History;

/// When the first frame is, ns, and on the wall, s.
pub const BEGIN: (u64, i64) = (1_000_000_000_000, 1_795_000_000);

type Parties = (Resource, Cause, Arc<str>, Arc<str>, Arc<str>);

/// A host whose counters grow, with a frame every second.
pub struct Made {
    pub history: History,
    pub incidents: Vec<Arc<Report>>,
    pub outliers: Vec<Arc<ReportedOutlier>>,
    frames: u64,
    charged: BTreeMap<Parties, Charged>,
    delays: BTreeMap<Label, Histogram>,
    counts: BTreeMap<Label, u64>,
}

impl Made {
    pub fn new() -> Self {
        Self {
            history: History::default(),
            incidents: Vec::new(),
            outliers: Vec::new(),
            frames: 0,
            charged: BTreeMap::new(),
            delays: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// A culprit delays a victim.
    #[expect(clippy::too_many_arguments, reason = "one for each part of a charge")]
    pub fn charge(
        &mut self,
        resource: Resource,
        cause: Cause,
        place: &str,
        victim: &str,
        culprit: &str,
        ns: u64,
        count: u64,
    ) {
        let key = (resource, cause, place.into(), victim.into(), culprit.into());
        let charged = self.charged.entry(key).or_default();
        charged.ns += ns;
        charged.count += count;
    }

    /// A culprit of another cgroup delays a victim.
    pub fn foreign(
        &mut self,
        resource: Resource,
        place: &str,
        victim: &str,
        culprit: &str,
        ns: u64,
        count: u64,
    ) {
        self.charge(resource, Cause::Foreign, place, victim, culprit, ns, count);
    }

    /// The daemon forgets a pair.
    pub fn forget(&mut self, victim: &str, culprit: &str) {
        self.charged.retain(|(_, _, _, one, other), _| **one != *victim || **other != *culprit);
    }

    /// So many delays of a length.
    pub fn delay(&mut self, signal: Signal, labels: &[&str], ns: u64, count: u64) {
        let labels = labels.iter().map(ToString::to_string).collect();
        let totals = self.delays.entry((signal, labels)).or_default();
        totals.record(ns, count);
    }

    pub fn count(&mut self, signal: Signal, label: &str, count: u64) {
        *self.counts.entry((signal, [label.to_owned()].into())).or_default() += count;
    }

    /// The daemon starts anew.
    pub fn restart(&mut self) {
        self.charged.clear();
        self.delays.clear();
        self.counts.clear();
    }

    /// Adds the frame of a second later.
    pub fn frame(&mut self) {
        let interference = self.charged.iter().map(|(key, charged)| Interference {
            resource: key.0,
            cause: key.1,
            place: Arc::clone(&key.2),
            victim: Arc::clone(&key.3),
            culprit: Arc::clone(&key.4),
            charged: *charged,
        });
        let series = self.delays.iter().map(|((signal, labels), totals)| Series {
            signal: *signal,
            labels: labels.clone(),
            totals: totals.clone(),
            recent_max_ns: 0,
        });
        let counts = self.counts.iter().map(|((signal, labels), total)| Count {
            signal: *signal,
            labels: labels.clone(),
            total: *total,
        });
        let sample = Sample {
            at_ns: BEGIN.0 + self.frames * 1_000_000_000,
            interference: interference.collect(),
            series: series.collect(),
            counts: counts.collect(),
            ..Sample::default()
        };
        let mut frame = Frame {
            time: jiff::Timestamp::from_second(BEGIN.1 + self.frames as i64).unwrap(),
            sample: Arc::new(sample),
            ..Frame::default()
        };
        frame.overview.incidents.clone_from(&self.incidents);
        frame.overview.outliers.clone_from(&self.outliers);
        self.history.push(Arc::new(frame));
        self.frames += 1;
    }
}

//! A report as series over slices of time.

use std::collections::BTreeMap;

use crate::DetourReport;
use crate::shares::{Shares, SourceKey};

/// Shortest slice of time, ns: 100 ms.
pub const SLICE_NS: u64 = 100_000_000;

/// What happened in each slice, of all CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceTally {
    pub lost_ns: Vec<f64>,
    /// How many: parts of a source, or, in total, detours.
    pub events: Vec<f64>,
}

/// A report, cut into slices.
#[derive(Clone, Debug)]
pub struct Series {
    /// How many slices; 0 where nothing was measured.
    pub slices: usize,
    /// Time of all CPUs in one slice, s.
    pub slice_seconds: f64,
    pub total: SliceTally,
    /// Each source that had a share.
    pub sources: BTreeMap<SourceKey, SliceTally>,
}

impl SliceTally {
    fn new(slices: usize) -> Self {
        Self { lost_ns: vec![0.0; slices], events: vec![0.0; slices] }
    }

    fn add(&mut self, slice: usize, lost_ns: f64, events: u64) {
        if let (Some(lost), Some(count)) = (self.lost_ns.get_mut(slice), self.events.get_mut(slice))
        {
            *lost += lost_ns;
            *count += events as f64;
        }
    }
}

impl Series {
    /// Cuts each CPU's time into the same number of slices, as many as the shortest measurement
    /// has, one at least. A detour belongs to the slice that it begins in; those shorter than
    /// `from_ns` are left out.
    pub fn new(report: &DetourReport, from_ns: u64) -> Self {
        let cpus = || report.cpus.iter().filter(|cpu| cpu.duration_ns > 0);
        let shortest_ns = cpus().map(|cpu| cpu.duration_ns).min();
        let slices = shortest_ns.map_or(0, |shortest_ns| (shortest_ns / SLICE_NS).max(1) as usize);
        let mut series = Self {
            slices,
            slice_seconds: report.measured_ns() as f64 / 1e9 / slices.max(1) as f64,
            total: SliceTally::new(slices),
            sources: BTreeMap::new(),
        };
        let shares = Shares::of(report);
        for cpu in cpus() {
            for detour in cpu.detours.iter().filter(|detour| detour.duration_ns >= from_ns) {
                let slice = detour.start_ns as f64 / cpu.duration_ns as f64 * slices as f64;
                let slice = (slice as usize).min(slices - 1);
                let lost_ns = detour.duration_ns as f64;
                series.total.add(slice, lost_ns, 1);
                for share in shares.shares(detour) {
                    let Some(key) = shares.keys().get(share.key) else { continue };
                    if !series.sources.contains_key(key) {
                        series.sources.insert(key.clone(), SliceTally::new(slices));
                    }
                    if let Some(tally) = series.sources.get_mut(key) {
                        tally.add(slice, lost_ns * share.of_detour, share.events);
                    }
                }
            }
        }
        series
    }

    /// A source that has no share.
    pub fn nothing(&self) -> SliceTally {
        SliceTally::new(self.slices)
    }
}

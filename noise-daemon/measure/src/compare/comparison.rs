//! The comparison of two reports.

use std::collections::BTreeSet;

use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

use super::bootstrap::{draw, sum};
use super::series::{SLICE_NS, Series, SliceTally};
use super::verdict::{Evidence, FEWEST_SLICES, Figure};
use crate::DetourReport;
use crate::shares::SourceKey;

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct CompareOptions {
    /// Share of intervals that have the true value in them, 0..1.
    pub confidence: f64,
    /// How often slices are drawn again.
    pub resamples: u32,
    /// Where chance begins: the same seed gives the same result.
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Side {
    /// Name of the host.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// When it was measured.
    pub started: jiff::Timestamp,
    pub cpus: Vec<u32>,
    /// Time of all CPUs together, s.
    pub cpu_seconds: f64,
    /// Slices of time that it was cut into.
    pub slices: usize,
}

/// One source, or all of them.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ComparedSource {
    /// The source; None in total.
    pub source: Option<SourceKey>,
    /// Time lost, ns per second of one CPU.
    pub lost_ns_per_second: Figure,
    /// How many per second of one CPU: a source's events, or in total detours.
    pub events_per_second: Figure,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// How they were compared.
    #[serde(flatten)]
    pub options: CompareOptions,
    /// Detours from this length on were compared, ns.
    pub from_ns: u64,
    pub a: Side,
    pub b: Side,
    pub total: ComparedSource,
    /// Each source that either has, those first that take most time.
    pub sources: Vec<ComparedSource>,
    /// What makes the comparison doubtful.
    pub warnings: Vec<String>,
}

/// A source's tallies in both reports, and the sums of their draws.
struct Compared {
    source: Option<SourceKey>,
    tallies: [SliceTally; 2],
    lost: Vec<(f64, f64)>,
    events: Vec<(f64, f64)>,
}

/// Compares B with A.
pub fn compare(a: &DetourReport, b: &DetourReport, options: CompareOptions) -> Comparison {
    let thresholds = || [a, b].into_iter().flat_map(|report| &report.cpus);
    let from_ns = thresholds().map(|cpu| cpu.threshold_ns).max().unwrap_or(0);
    let series = [a, b].map(|report| Series::new(report, from_ns));
    let mut pairs = pairs(&series);
    if series.iter().all(|series| series.slices >= FEWEST_SLICES) {
        resample(&mut pairs, &series, options);
    }
    let mut lines = pairs.iter().map(|pair| pair.line(&series, options.confidence));
    // The first pair is the total.
    let total =
        lines.next().unwrap_or_else(|| Compared::of(None, Default::default()).line(&series, 0.5));
    let mut sources: Vec<ComparedSource> = lines.collect();
    let most = |line: &ComparedSource| line.lost_ns_per_second.a.max(line.lost_ns_per_second.b);
    sources.sort_by(|one, other| most(other).total_cmp(&most(one)));
    let [side_a, side_b] = [(a, &series[0]), (b, &series[1])].map(|(report, series)| Side {
        host: report.host.clone(),
        kernel: report.kernel.clone(),
        started: report.started,
        cpus: report.cpus.iter().map(|cpu| cpu.cpu).collect(),
        cpu_seconds: report.measured_ns() as f64 / 1e9,
        slices: series.slices,
    });
    let mut warnings = doubts(&side_a, &side_b);
    if thresholds().any(|cpu| cpu.threshold_ns != from_ns) {
        warnings
            .push(format!("thresholds differ: only detours of {from_ns} ns and more are compared"));
    }
    warnings
        .extend([("A", a), ("B", b)].into_iter().filter_map(|(name, report)| lost(name, report)));
    Comparison { options, from_ns, a: side_a, b: side_b, total, sources, warnings }
}

fn pairs(series: &[Series; 2]) -> Vec<Compared> {
    let [a, b] = series;
    let keys: BTreeSet<&SourceKey> = a.sources.keys().chain(b.sources.keys()).collect();
    let total = Compared::of(None, [a.total.clone(), b.total.clone()]);
    let source = |key: &SourceKey| {
        let tally =
            |series: &Series| series.sources.get(key).cloned().unwrap_or_else(|| series.nothing());
        Compared::of(Some(key.clone()), [tally(a), tally(b)])
    };
    std::iter::once(total).chain(keys.into_iter().map(source)).collect()
}

/// All sources are drawn at once, as they came.
fn resample(pairs: &mut [Compared], series: &[Series; 2], options: CompareOptions) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut times = [vec![0.0; series[0].slices], vec![0.0; series[1].slices]];
    for _ in 0..options.resamples {
        times.iter_mut().for_each(|times| draw(&mut random, times));
        for pair in &mut *pairs {
            let [a, b] = &pair.tallies;
            let rate = |sum: f64, place: usize| series[place].rate(sum);
            let lost = (sum(&a.lost_ns, &times[0]), sum(&b.lost_ns, &times[1]));
            let events = (sum(&a.events, &times[0]), sum(&b.events, &times[1]));
            pair.lost.push((rate(lost.0, 0), rate(lost.1, 1)));
            pair.events.push((rate(events.0, 0), rate(events.1, 1)));
        }
    }
}

impl Series {
    /// Per second of one CPU, from a sum over all slices; 0 where nothing was measured.
    fn rate(&self, sum: f64) -> f64 {
        let seconds = self.slices as f64 * self.slice_seconds;
        if seconds > 0.0 { sum / seconds } else { 0.0 }
    }
}

impl Compared {
    fn of(source: Option<SourceKey>, tallies: [SliceTally; 2]) -> Self {
        Self { source, tallies, lost: Vec::new(), events: Vec::new() }
    }

    fn line(&self, series: &[Series; 2], confidence: f64) -> ComparedSource {
        let [a, b] = &self.tallies;
        let all = |values: &[f64]| values.iter().sum::<f64>();
        let events = all(&a.events) + all(&b.events);
        let figure = |a: &[f64], b: &[f64], drawn: &[(f64, f64)]| {
            let evidence = Evidence { drawn, events, confidence };
            Figure::new(series[0].rate(all(a)), series[1].rate(all(b)), evidence)
        };
        ComparedSource {
            source: self.source.clone(),
            lost_ns_per_second: figure(&a.lost_ns, &b.lost_ns, &self.lost),
            events_per_second: figure(&a.events, &b.events, &self.events),
        }
    }
}

fn doubts(a: &Side, b: &Side) -> Vec<String> {
    let mut doubts = Vec::new();
    if a.host != b.host {
        doubts.push(format!("hosts differ: {} and {}", a.host, b.host));
    }
    if a.kernel != b.kernel {
        doubts.push(format!("kernels differ: {} and {}", a.kernel, b.kernel));
    }
    if a.cpus != b.cpus {
        let list =
            |side: &Side| side.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        doubts.push(format!(
            "CPUs differ: {} and {}; rates are those of the average CPU",
            list(a),
            list(b)
        ));
    }
    for (name, side) in [("A", a), ("B", b)] {
        if side.slices < FEWEST_SLICES {
            let needed = FEWEST_SLICES as f64 * SLICE_NS as f64 / 1e9;
            doubts.push(format!(
                "{name} is too short to rule out chance: measure for {needed} s at least, \
                 better for a minute"
            ));
        }
    }
    doubts
}

fn lost(name: &str, report: &DetourReport) -> Option<String> {
    let detours: u64 = report.cpus.iter().map(|cpu| cpu.lost_detours).sum();
    let events: u64 = report.cpus.iter().map(|cpu| cpu.lost_events).sum();
    match (detours, events) {
        (0, 0) => None,
        (0, _) => Some(format!(
            "{name} lost {events} events: some of its detours are charged to the wrong source"
        )),
        _ => Some(format!(
            "{name} lost {detours} detours and {events} events: its figures are too small"
        )),
    }
}

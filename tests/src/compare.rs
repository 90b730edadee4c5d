//! The daemon's figures against the referee's, over the same stretch of time.
//!
//! Two scrapes bound the stretch, and marks in the trace bound each scrape. What happened for
//! certain between the scrapes is counted from the end of the first to the beginning of the second;
//! what may have, from the beginning of the first to the end of the second. A count has to lie
//! between the two, less what the daemon says it dropped. So there is no margin to choose.
//!
//! A sum may differ by 3 %, or by what the two clocks' places differ: the daemon reads the clock in
//! its program, ftrace in the probe that runs after it. The distance lies between nothing and one
//! run of that program plus one record of ftrace, and a delay is off by at most the difference of
//! two such distances. Both are measured while the test runs: the kernel's own statistics give the
//! mean run of each program, the shortest gap between two records bounds the cost of a record. The
//! samples of a rare series find cold caches, which the kernel's means do not show: those are allowed
//! what was measured once ([`COLD_NS`]).
//!
//! Where the processor is emulated, an instruction takes as long as it takes: sums are printed there,
//! and only counts are judged.

mod programs;
mod stamps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use self::programs::missed_runs;
pub use self::programs::slowest_program_ns;
use self::stamps::{COLD_NS, COLD_SAMPLES_PER_STRAY, SAMPLES_PER_STRAY, apart_ns, cold_samples};
use crate::bpf;
use crate::daemon::Daemon;
use crate::disk::device_name;
use crate::ftrace::blind::{await_turns, ensure_sight, keep_sight};
use crate::ftrace::{Recording, Trace};
use crate::load::Worker;
use crate::namespace::interfaces;
use crate::pairing::{self, Labels, Paired, Sample};
use crate::prom::{Histogram, LabelSet, Scrape};
use crate::task;
use crate::task::{is_emulated, kernel_threads};

/// Work under way when a recording begins has ended by then.
const SETTLE: Duration = Duration::from_millis(300);
/// Allowed difference of sums.
const SUM_TOLERANCE: f64 = 0.03;

/// Everything seen of one stretch of time.
#[derive(Debug)]
pub struct Observation {
    /// The referee's events.
    pub trace: Trace,
    /// Names of the interfaces of this network namespace.
    interfaces: BTreeSet<String>,
    /// The daemon's figures at the beginning.
    pub first: Scrape,
    /// The daemon's figures at the end.
    pub last: Scrape,
    /// Samples that the daemon says it lost meanwhile, by signal. Ends without a start are not among
    /// them: the referee does not have those either.
    pub dropped: BTreeMap<String, u64>,
    /// Runs of the daemon's programs that the kernel left out meanwhile, by program.
    pub missed: BTreeMap<String, u64>,
    /// How far two stamps of one event may be apart, on average.
    pub resolution_ns: f64,
    window: Window,
}

/// The times of the marks.
#[derive(Clone, Copy, Debug)]
struct Window {
    first_asked: u64,
    first_answered: u64,
    last_asked: u64,
    last_answered: u64,
}

impl Window {
    /// In the stretch for certain.
    fn inner(&self, end_ns: u64) -> bool {
        (self.first_answered..=self.last_asked).contains(&end_ns)
    }

    /// Possibly in the stretch.
    fn outer(&self, end_ns: u64) -> bool {
        (self.first_asked..=self.last_answered).contains(&end_ns)
    }
}

/// The referee at work.
#[derive(Debug)]
pub struct Observer {
    recording: Recording,
    _statistics: bpf::Statistics,
    sight: Vec<Worker>,
}

/// Records `events` while `action` runs between two scrapes.
pub fn observe<T>(
    daemon: &Daemon,
    events: &[&str],
    buffer_mib: usize,
    action: impl FnOnce() -> Result<T>,
) -> Result<(Observation, T)> {
    Observer::start(events, buffer_mib)?.observe(daemon, action)
}

impl Observer {
    /// Begins to record `events`.
    pub fn start(events: &[&str], buffer_mib: usize) -> Result<Self> {
        let sight = keep_sight()?;
        let _statistics = bpf::Statistics::enable()?;
        let recording = Recording::start(events, buffer_mib)?;
        Ok(Self { recording, _statistics, sight })
    }

    /// Runs `action` between two scrapes.
    pub fn observe<T>(
        self,
        daemon: &Daemon,
        action: impl FnOnce() -> Result<T>,
    ) -> Result<(Observation, T)> {
        let recording = self.recording;
        await_turns(&self.sight)?;
        thread::sleep(SETTLE);
        let mut own = interfaces()?;
        let before = bpf::programs_of(daemon.process().pid())?;
        ensure!(!before.is_empty(), "the daemon holds no BPF program");
        recording.mark("first asked")?;
        let first = daemon.metrics()?;
        recording.mark("first answered")?;
        let outcome = action()?;
        thread::sleep(SETTLE);
        recording.mark("last asked")?;
        let last = daemon.metrics()?;
        recording.mark("last answered")?;
        let trace = recording.stop()?;
        ensure_sight(&trace.sights)?;
        own.extend(interfaces()?);
        let after = bpf::programs_of(daemon.process().pid())?;

        let (first, last) = (Scrape::parse(&first)?, Scrape::parse(&last)?);
        let window = Window {
            first_asked: trace.mark_ns("first asked")?,
            first_answered: trace.mark_ns("first answered")?,
            last_asked: trace.mark_ns("last asked")?,
            last_answered: trace.mark_ns("last answered")?,
        };
        let record_ns = trace.shortest_gap_ns as f64;
        let observation = Observation {
            resolution_ns: record_ns + slowest_program_ns(&before, &after),
            missed: missed_runs(&before, &after),
            dropped: dropped(&first, &last),
            trace,
            interfaces: own,
            first,
            last,
            window,
        };
        Ok((observation, outcome))
    }
}

/// What the counters of losses grew by, signal by signal.
fn dropped(first: &Scrape, last: &Scrape) -> BTreeMap<String, u64> {
    let before = first.series("noised_dropped_total");
    let mut dropped = BTreeMap::new();
    for (labels, count) in last.series("noised_dropped_total") {
        let by = (count - before.get(&labels).unwrap_or(&0.0)) as u64;
        let reason = labels.get("reason").map_or("", String::as_str);
        if let Some(signal) = labels.get("where")
            && by > 0
            && !["no_start", "ring_full_delayed", "recursion"].contains(&reason)
        {
            *dropped.entry(signal.clone()).or_default() += by;
        }
    }
    dropped
}

/// What the referee says of one series.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// Values of the samples that count for certain.
    inner: Vec<u64>,
    /// Values of those that may count, the certain ones included.
    outer: Vec<u64>,
    /// Further ends that may count: how many, and their values as far as known.
    orphans: u64,
    orphans_ns: u64,
    /// Pieces of time that were taken off these samples.
    nested: u64,
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    found: f64,
    least: u64,
    most: u64,
    sums: Option<(f64, f64, f64, f64)>,
    faults: Vec<String>,
}

/// A table of the daemon's figures against the referee's.
#[derive(Debug)]
pub struct Table<'a> {
    observation: &'a Observation,
    rows: Vec<Row>,
}

impl Observation {
    /// An empty table.
    pub fn table(&self) -> Table<'_> {
        Table { observation: self, rows: Vec::new() }
    }

    /// The samples that ended between the scrapes for certain.
    pub fn certain<'a>(&'a self, paired: &'a Paired) -> impl Iterator<Item = &'a Sample> {
        paired.samples.iter().filter(|sample| self.window.inner(sample.end_ns))
    }

    /// From the end of the first scrape to the begin of the last one, and from the begin of the first to the
    /// end of the last one.
    pub fn spans(&self) -> [RangeInclusive<u64>; 2] {
        let Window { first_asked, first_answered, last_asked, last_answered } = self.window;
        [first_answered..=last_asked, first_asked..=last_answered]
    }

    /// How far sums of so many stretches of time may be off that are taken from ftrace's stamps.
    pub fn apart_ns(&self, stretches: usize) -> f64 {
        apart_ns(stretches as u64, self.resolution_ns)
    }

    /// How long a program runs that finds cold caches, ns.
    pub fn longest_ns(&self) -> u64 {
        self.resolution_ns as u64 + COLD_NS
    }

    /// Whether what ended then ended between the scrapes: for certain, and possibly.
    pub fn covers(&self, end_ns: u64) -> (bool, bool) {
        (self.window.inner(end_ns), self.window.outer(end_ns))
    }

    fn expected(&self, paired: &Paired) -> BTreeMap<Labels, Expected> {
        let mut series: BTreeMap<Labels, Expected> = BTreeMap::new();
        for sample in paired.samples.iter().filter(|sample| self.window.outer(sample.end_ns)) {
            let expected = series.entry(sample.labels.clone()).or_default();
            expected.outer.push(sample.value_ns);
            if self.window.inner(sample.end_ns) {
                expected.inner.push(sample.value_ns);
            }
            expected.nested += u64::from(sample.nested_ns > 0);
        }
        series
    }

    /// Ends of requests to a device that BPF was not offered.
    pub fn hidden_completions(&self, device: &str) -> u64 {
        self.trace.hidden_completions(device)
    }

    /// What a histogram metric grew by, by the values of these labels.
    pub fn histograms(&self, metric: &str) -> Result<BTreeMap<LabelSet, Histogram>> {
        let earlier = self.first.histograms(metric)?;
        let mut grown = BTreeMap::new();
        for (labels, histogram) in self.last.histograms(metric)? {
            let before = earlier.get(&labels).cloned().unwrap_or_default();
            let histogram = histogram.since(&before);
            ensure!(histogram.count >= 0.0, "{metric} {labels:?} ran backwards");
            grown.insert(labels, histogram);
        }
        Ok(grown)
    }

    /// What a counter grew by.
    pub fn counters(&self, metric: &str) -> Result<BTreeMap<LabelSet, f64>> {
        let earlier = self.first.series(metric);
        let mut grown = BTreeMap::new();
        for (labels, value) in self.last.series(metric) {
            let by = value - earlier.get(&labels).unwrap_or(&0.0);
            ensure!(by >= 0.0, "{metric} {labels:?} ran backwards");
            grown.insert(labels, by);
        }
        Ok(grown)
    }
}

fn label_values(set: &LabelSet, names: &[&str]) -> Result<Labels> {
    ensure!(set.len() == names.len(), "labels {set:?}, expected {names:?}");
    let value = |index: usize| -> Result<Arc<str>> {
        let Some(name) = names.get(index) else { return Ok("".into()) };
        let value = set.get(*name).with_context(|| format!("labels {set:?} lack {name}"))?;
        Ok(value.as_str().into())
    };
    Ok((value(0)?, value(1)?))
}

fn seconds(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / 1e9
}

impl Table<'_> {
    /// Adds a histogram metric.
    pub fn histogram(&mut self, metric: &str, names: &[&str], paired: &Paired) -> Result<()> {
        let mut found = BTreeMap::new();
        for (set, histogram) in self.observation.histograms(metric)? {
            found.insert(label_values(&set, names).context(metric.to_owned())?, histogram);
        }
        let paired = match names {
            ["interface"] => &pairing::net::folded(paired, &self.observation.interfaces),
            _ => paired,
        };
        self.distributed(metric, &found, paired);
        Ok(())
    }

    /// Adds a histogram metric, all its series together.
    pub fn histogram_total(&mut self, metric: &str, paired: &Paired) -> Result<()> {
        let mut total = Histogram::default();
        self.observation.histograms(metric)?.values().for_each(|one| total.add(one));
        self.distributed(metric, &BTreeMap::from([(pairing::label(""), total)]), paired);
        Ok(())
    }

    fn distributed(&mut self, metric: &str, found: &BTreeMap<Labels, Histogram>, paired: &Paired) {
        let expected = self.observation.expected(paired);
        let orphans = orphans(self.observation, paired);
        let keys: BTreeSet<&Labels> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            let found = found.get(key).cloned().unwrap_or_default();
            let mut expected = expected.get(key).cloned().unwrap_or_default();
            (expected.orphans, expected.orphans_ns) = orphans;
            if found.count == 0.0 && expected.outer.is_empty() {
                continue;
            }
            let mut row = self.count_row(metric, key, found.count, &expected);
            self.compare_sum(&mut row, found.sum_seconds, &expected);
            self.compare_buckets(&mut row, &found, &expected, self.dropped(metric));
            self.rows.push(row);
        }
    }

    /// Adds a counter metric whose samples count one each.
    pub fn counter(&mut self, metric: &str, names: &[&str], paired: &Paired) -> Result<()> {
        let mut found = BTreeMap::new();
        for (set, count) in self.observation.counters(metric)? {
            found.insert(label_values(&set, names).context(metric.to_owned())?, count);
        }
        self.counted(metric, &found, paired);
        Ok(())
    }

    /// Adds a counter metric, all its series together.
    pub fn counter_total(&mut self, metric: &str, paired: &Paired) -> Result<()> {
        let total = self.observation.counters(metric)?.values().sum();
        self.counted(metric, &BTreeMap::from([(pairing::label(""), total)]), paired);
        Ok(())
    }

    fn counted(&mut self, metric: &str, found: &BTreeMap<Labels, f64>, paired: &Paired) {
        let expected = self.observation.expected(paired);
        let keys: BTreeSet<&Labels> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            let found = found.get(key).copied().unwrap_or_default();
            let mut expected = expected.get(key).cloned().unwrap_or_default();
            (expected.orphans, expected.orphans_ns) = orphans(self.observation, paired);
            if found > 0.0 || !expected.outer.is_empty() {
                let row = self.count_row(metric, key, found, &expected);
                self.rows.push(row);
            }
        }
    }

    /// Adds a counter of seconds.
    pub fn seconds(&mut self, metric: &str, names: &[&str], paired: &Paired) -> Result<()> {
        let expected = self.observation.expected(paired);
        let mut found = BTreeMap::new();
        for (set, seconds) in self.observation.counters(metric)? {
            found.insert(label_values(&set, names).context(metric.to_owned())?, seconds);
        }
        let keys: BTreeSet<&Labels> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            let found = found.get(key).copied().unwrap_or_default();
            let expected = expected.get(key).cloned().unwrap_or_default();
            if found == 0.0 && expected.outer.is_empty() {
                continue;
            }
            let mut row = Row {
                name: row_name(metric, key),
                found: f64::NAN,
                least: expected.inner.len() as u64,
                most: expected.outer.len() as u64,
                sums: None,
                faults: Vec::new(),
            };
            self.compare_sum(&mut row, found, &expected);
            self.rows.push(row);
        }
        Ok(())
    }

    /// What was lost of the signal of a metric.
    fn dropped(&self, metric: &str) -> u64 {
        let signal = metric.trim_start_matches("noised_");
        let signal = signal.trim_end_matches("_total").trim_end_matches("_seconds");
        self.observation.dropped.get(signal).copied().unwrap_or_default()
    }

    fn count_row(&self, metric: &str, key: &Labels, found: f64, expected: &Expected) -> Row {
        let least = (expected.inner.len() as u64).saturating_sub(self.dropped(metric));
        let most = expected.outer.len() as u64 + expected.orphans;
        let mut row =
            Row { name: row_name(metric, key), found, least, most, sums: None, faults: Vec::new() };
        if found < least as f64 || found > most as f64 {
            row.faults.push(format!("count {found} is not within {least}..={most}"));
        }
        row
    }

    fn compare_sum(&self, row: &mut Row, found: f64, expected: &Expected) {
        let least = seconds(&expected.inner);
        let most = seconds(&expected.outer) + expected.orphans_ns as f64 / 1e9;
        let stamps = expected.outer.len() as u64 + expected.nested;
        let clocks = apart_ns(stamps, self.observation.resolution_ns) / 1e9;
        let tolerance = clocks.max(most * SUM_TOLERANCE);
        row.sums = Some((found, least, most, tolerance));
        if is_emulated() {
            return;
        }
        if found < least - tolerance || found > most + tolerance {
            row.faults.push(format!(
                "sum {found:.6} s is not within {least:.6}..={most:.6} +- {tolerance:.6} s"
            ));
        }
    }

    /// A sample near a bound may fall on either side of it; a few may be off by more, where something
    /// held up the CPU between the two stamps.
    fn compare_buckets(&self, row: &mut Row, found: &Histogram, expected: &Expected, dropped: u64) {
        if is_emulated() {
            return;
        }
        let count = expected.outer.len() as u64;
        let cold = count.min(cold_samples()).div_ceil(COLD_SAMPLES_PER_STRAY);
        let strays = dropped + expected.orphans + count / SAMPLES_PER_STRAY + cold;
        let cold_ns = if count <= cold_samples() { COLD_NS } else { 0 };
        for &(bound, count) in &found.buckets {
            let margin = (4.0 * self.observation.resolution_ns) as u64 + cold_ns + bound / 32;
            let below = |values: &[u64], limit: u64| {
                values.iter().filter(|&&value| value <= limit).count() as u64
            };
            let least = below(&expected.inner, bound.saturating_sub(margin)).saturating_sub(strays);
            let most = below(&expected.outer, bound + margin) + strays;
            if count < least as f64 || count > most as f64 {
                row.faults.push(format!("{count} up to {bound} ns is not within {least}..={most}"));
            }
        }
    }

    /// Requires that the referee saw samples of each of these series (or of one that starts so).
    /// Errors: if one did not occur: agreement on nothing proves nothing.
    pub fn ensure_present(&self, series: &[&str]) -> Result<()> {
        for wanted in series {
            let present = |row: &Row| row.name.starts_with(wanted) && row.least > 0;
            ensure!(
                self.rows.iter().any(present),
                "the recording is inconclusive: the load produced no {wanted}"
            );
        }
        Ok(())
    }

    /// Prints the table.
    /// Errors: if the daemon's figures are not the referee's.
    pub fn verdict(self) -> Result<()> {
        let observation = self.observation;
        let mut text = String::new();
        writeln!(
            text,
            "{} events; stamps apart by up to {:.0} ns (shortest gap {} ns); {} hidden; dropped {:?}; missed {:?}",
            observation.trace.events.len(),
            observation.resolution_ns,
            observation.trace.shortest_gap_ns,
            observation.trace.hidden.len(),
            observation.dropped,
            observation.missed,
        )?;
        writeln!(
            text,
            "{:<66} {:>8} {:>17} {:>7} {:>12} {:>12} {:>7}",
            "series", "noised", "ftrace", "diff %", "noised s", "ftrace s", "diff %"
        )?;
        for row in &self.rows {
            let range = format!("{}..={}", row.least, row.most);
            let middle = (row.least + row.most) as f64 / 2.0;
            write!(
                text,
                "{:<66} {:>8} {:>17} {:>7.2}",
                row.name,
                row.found,
                range,
                percent(row.found, middle)
            )?;
            if let Some((found, least, most, _)) = row.sums {
                let middle = f64::midpoint(least, most);
                write!(text, " {found:>12.6} {middle:>12.6} {:>7.2}", percent(found, middle))?;
            }
            writeln!(text, "{}", if row.faults.is_empty() { "" } else { "  <-- differs" })?;
        }
        println!("{text}");
        let faults: Vec<String> = self
            .rows
            .iter()
            .flat_map(|row| row.faults.iter().map(|fault| format!("{}: {fault}", row.name)))
            .collect();
        if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
    }
}

/// Ends of unknown start or label: each may belong to any series of the signal.
fn orphans(observation: &Observation, paired: &Paired) -> (u64, u64) {
    let possible = paired.orphans.iter().filter(|sample| observation.window.outer(sample.end_ns));
    possible.fold((0, 0), |(count, sum), sample| (count + 1, sum + sample.value_ns))
}

fn row_name(metric: &str, (first, second): &Labels) -> String {
    let values = if second.is_empty() { first.to_string() } else { format!("{first}, {second}") };
    format!("{metric}{{{values}}}")
}

fn percent(found: f64, expected: f64) -> f64 {
    if expected == 0.0 { 0.0 } else { (found - expected) / expected * 100.0 }
}

/// Adds everything that the metric contract has and ftrace can tell.
pub fn all_signals(table: &mut Table<'_>) -> Result<()> {
    let events = table.observation.trace.events.as_slice();
    let interrupts = pairing::interrupts::interrupts(events);
    let block = pairing::block::block_waits(events, device_name);
    table.histogram(
        "noised_runqueue_wait_seconds",
        &["cause"],
        &pairing::runqueue::runqueue_wait(events),
    )?;
    table.counter(
        "noised_context_switches_total",
        &["kind"],
        &pairing::counts::context_switches(events),
    )?;
    table.histogram("noised_hardirq_seconds", &["irq", "name"], &interrupts.hardirq)?;
    table.histogram("noised_vector_seconds", &["vector"], &interrupts.vector)?;
    table.histogram("noised_softirq_seconds", &["vector"], &interrupts.softirq)?;
    table.histogram("noised_nmi_seconds", &[], &interrupts.nmi)?;
    table.histogram(
        "noised_softirq_raise_wait_seconds",
        &["vector"],
        &pairing::raise::softirq_raise_wait(events),
    )?;
    table.seconds(
        "noised_cpu_interrupted_seconds_total",
        &["cpu", "source"],
        &interrupts.by_cpu(),
    )?;
    table.histogram("noised_block_queue_wait_seconds", &["device", "operation"], &block.queue)?;
    table.histogram("noised_block_device_wait_seconds", &["device", "operation"], &block.device)?;
    table.histogram(
        "noised_net_tx_wait_seconds",
        &["interface"],
        &pairing::net::net_tx_wait(events),
    )?;
    table.histogram(
        "noised_net_rx_wait_seconds",
        &["interface"],
        &pairing::net::net_rx_wait(events, &task::pollers()?),
    )?;
    table.histogram(
        "noised_direct_reclaim_seconds",
        &[],
        &pairing::memory::direct_reclaim(events),
    )?;
    table.histogram(
        "noised_compaction_seconds",
        &[],
        &pairing::memory::compaction(events, &kernel_threads()?),
    )?;
    let sleeps = pairing::uninterruptible::uninterruptible_wait(events, &kernel_threads()?);
    table.histogram_total(
        "noised_uninterruptible_wait_seconds",
        &pairing::uninterruptible::together(sleeps),
    )?;
    table
        .counter_total("noised_tcp_retransmits_total", &pairing::counts::tcp_retransmits(events))?;
    table.counter("noised_packet_drops_total", &["reason"], &pairing::counts::packet_drops(events))
}

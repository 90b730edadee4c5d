//! `noised trace delays` of a recording against /metrics of the same seconds.
//!
//! Both are made of the same events with the same stamps: a delay that ended for certain between two scrapes
//! counts in both, and one that ended while a scrape was answered may. What lies between the two bounds has
//! no margin beside, but for two things that are different by definition, of which ftrace has the length:
//!
//! - a recording has a wait begin with the waker, where the daemon has it begin on the run queue;
//! - a thread that moves while it waits is charged for by the daemon when it moves;
//!
//! and for what is [`raced`].

pub mod raced;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use self::raced::Raced;
use crate::attribution::INTERFERENCE;
use crate::compare::Observation;
use crate::daemon::run_noised;

/// A metric, and the label value that identifies one of its series here.
pub type Series = (&'static str, String);

/// How often, and how long together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// How often.
    pub count: f64,
    /// How long, ns.
    pub ns: f64,
}

impl Figure {
    const fn time(ns: f64) -> Self {
        Self { count: 0.0, ns }
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.ns += other.ns;
    }
}

/// Histograms that both have: in a document's words, and as a metric with its label. Of the first three the
/// metric has the time without what nests inside.
const LISTS: [(&str, &str, &str, &str); 8] = [
    ("hardirq", "irq", "noised_hardirq_seconds", "irq"),
    ("vector", "name", "noised_vector_seconds", "vector"),
    ("softirq", "name", "noised_softirq_seconds", "vector"),
    ("softirq_raise_wait", "name", "noised_softirq_raise_wait_seconds", "vector"),
    ("block_queue_wait", "name", "noised_block_queue_wait_seconds", "device"),
    ("block_device_wait", "name", "noised_block_device_wait_seconds", "device"),
    ("net_tx_wait", "interface", "noised_net_tx_wait_seconds", "interface"),
    ("net_rx_wait", "interface", "noised_net_rx_wait_seconds", "interface"),
];
/// Waits for a CPU.
pub const RUNQUEUE: &str = "noised_runqueue_wait_seconds";

/// A thread of a document.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// How long it waited after it was woken, and after it was preempted.
    pub wakeup: Figure,
    /// The same.
    pub preempt: Figure,
    /// Whom it waited for, ns: the cause, and the thread where it was one.
    pub charges: BTreeMap<(String, i64), f64>,
}

/// A document.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Histograms.
    pub series: BTreeMap<Series, Figure>,
    /// Threads by their ids.
    pub threads: BTreeMap<i64, Thread>,
}

fn number(value: &Value, name: &str) -> Result<f64> {
    let number = value.get(name).and_then(Value::as_f64);
    number.with_context(|| format!("{value} has no {name}"))
}

fn figure(value: &Value, ns: &str) -> Result<Figure> {
    Ok(Figure { count: number(value, "count")?, ns: number(value, ns)? })
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v Vec<Value>> {
    value.get(name).and_then(Value::as_array).with_context(|| format!("no {name}"))
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Runs a command of `noised trace` on a recording.
fn run(folder: &Path, arguments: &[&str]) -> Result<String> {
    let path = folder.to_str().context("a path that is not UTF-8")?;
    let outcome = run_noised(&[&["trace"], arguments, &["--json", path]].concat())?;
    ensure!(outcome.code == 0 && outcome.stderr.is_empty(), "{}", outcome.stderr);
    Ok(outcome.stdout)
}

/// By how much the clock of a recording is ahead of CLOCK_MONOTONIC, ns, and how many events it lost.
/// Errors: if it cannot be read.
pub fn clock_and_losses(folder: &Path) -> Result<(u64, u64)> {
    let summary: Value = serde_json::from_str(&run(folder, &["events", "--summary"])?)?;
    let clock = summary.get("clock").context("no clock")?;
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let offset_ns = number(clock, "offset_ns").context("no offset")?;
    Ok((offset_ns, number(&summary, "discarded").context("no losses")?))
}

impl Delays {
    /// Those of a recording that ended in a span of its clock, ns.
    /// Errors: if it cannot be read.
    pub fn of(folder: &Path, span: &RangeInclusive<u64>) -> Result<Self> {
        let (from, to) = (span.start().to_string(), span.end().to_string());
        let document = run(folder, &["delays", "--from", &from, "--to", &to])?;
        Self::parse(&serde_json::from_str(&document)?)
    }

    fn parse(document: &Value) -> Result<Self> {
        let mut delays = Self::default();
        for (name, label, metric, _) in LISTS {
            for row in list(document, name)? {
                let ns = if row.get("net_ns").is_some() { "net_ns" } else { "sum_ns" };
                let label = word(row.get(label).with_context(|| format!("{row} has no {label}"))?);
                delays.series.entry((metric, label)).or_default().add(figure(row, ns)?);
            }
        }
        for row in list(document, "threads")? {
            let tid = row.get("tid").and_then(Value::as_i64).context("no tid")?;
            let waits = row.get("waits").context("no waits")?;
            let wait = |cause: &str| {
                figure(waits.get(cause).with_context(|| format!("no {cause}"))?, "sum_ns")
            };
            let mut thread = Thread {
                wakeup: wait("wakeup")?,
                preempt: wait("preempt")?,
                charges: BTreeMap::new(),
            };
            for charge in list(row, "charges")? {
                let cause = word(charge.get("cause").context("no cause")?);
                let tid = charge.get("tid").and_then(Value::as_i64).unwrap_or(0);
                *thread.charges.entry((cause, tid)).or_default() += number(charge, "ns")?;
            }
            for (cause, figure) in [("wakeup", thread.wakeup), ("preempt", thread.preempt)] {
                let series = (RUNQUEUE, cause.to_owned());
                delays.series.entry(series).or_default().add(figure);
            }
            delays.threads.insert(tid, thread);
        }
        Ok(delays)
    }

    /// What these threads waited, and for whom: by the causes of the metric, as far as threads show them.
    fn charges(&self, who: &dyn Fn(i64) -> bool) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for thread in self.threads.iter().filter(|(tid, _)| who(**tid)).map(|(_, thread)| thread) {
            for ((cause, _), ns) in &thread.charges {
                *sums.entry(cause.clone()).or_default() += ns;
            }
        }
        sums
    }

    /// What of the waits of some threads others of them had, ns.
    pub fn between(&self, victims: &BTreeSet<i32>, culprits: &BTreeSet<i32>) -> f64 {
        let is = |tids: &BTreeSet<i32>, tid: i64| {
            i32::try_from(tid).is_ok_and(|tid| tids.contains(&tid))
        };
        let threads = self.threads.iter().filter(|(tid, _)| is(victims, **tid));
        let charges = threads.flat_map(|(_, thread)| &thread.charges);
        let wanted = charges.filter(|((cause, tid), _)| cause == "thread" && is(culprits, *tid));
        wanted.map(|(_, ns)| ns).sum()
    }
}

/// What a recording has for certain between two scrapes, and what it may have.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// For certain.
    pub inner: Delays,
    /// Possibly.
    pub outer: Delays,
}

/// What the recording cannot have as the daemon has it, ns.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// From wakers to run queues, of the waits that ended in the inner span.
    pub ways_inner_ns: f64,
    /// And in the outer one.
    pub ways_outer_ns: f64,
    /// How far these may be off, whose stamps are ftrace's.
    pub stamps_ns: f64,
    /// Waits that were under way during a scrape, of threads that moved meanwhile.
    pub across_ns: f64,
    /// What may count on either side of the edge of a softirq.
    pub raced: Raced,
}

impl Apart {
    /// By how much the time of waits may be too small and too large, ns.
    pub fn ways(&self) -> (f64, f64) {
        (self.ways_outer_ns + self.stamps_ns, self.stamps_ns - self.ways_inner_ns)
    }

    /// By how much a charge for this cause may be too small and too large, ns.
    fn margins(&self, cause: &str) -> (f64, f64) {
        let sum = |sums: &BTreeMap<&str, f64>| sums.values().sum::<f64>();
        let (begins, ends) = (sum(&self.raced.begins), sum(&self.raced.ends));
        // What one has too much, the other lacks.
        match cause {
            "softirq" => (ends, begins),
            "thread" => (begins, ends),
            _ => (0.0, 0.0),
        }
    }
}

/// What grew by what, between what.
#[derive(Debug)]
struct Row {
    name: String,
    found: Figure,
    least: Figure,
    most: Figure,
}

/// A table of /metrics against a recording.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

fn ns(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}

impl Table {
    /// All histograms.
    /// Errors: if a metric is not as it should be.
    pub fn histograms(&mut self, seen: &Observation, bounds: &Bounds, apart: &Apart) -> Result<()> {
        let lists = LISTS.map(|(_, _, metric, label)| (metric, label));
        for (metric, label) in lists.into_iter().chain([(RUNQUEUE, "cause")]) {
            let mut found: BTreeMap<Series, Figure> = BTreeMap::new();
            for (labels, grown) in seen.histograms(metric)? {
                let label = labels.get(label).with_context(|| format!("{metric}: no {label}"))?;
                let grown = Figure { count: grown.count, ns: ns(grown.sum_seconds) };
                found.entry((metric, label.clone())).or_default().add(grown);
            }
            let of = |delays: &Delays| -> BTreeSet<Series> {
                delays.series.keys().filter(|(name, _)| *name == metric).cloned().collect()
            };
            let mut all: BTreeSet<Series> = found.keys().cloned().collect();
            all.extend(of(&bounds.outer));
            for series in all {
                let of = |delays: &Delays| delays.series.get(&series).copied().unwrap_or_default();
                let (mut least, mut most) = (of(&bounds.inner), of(&bounds.outer));
                if series == (RUNQUEUE, "wakeup".to_owned()) {
                    let (less, more) = apart.ways();
                    least.ns -= less;
                    most.ns += more;
                }
                if metric == "noised_softirq_seconds" {
                    let of = |sums: &BTreeMap<&str, f64>| sums.get(&*series.1).copied();
                    least.ns -= of(&apart.raced.ends).unwrap_or(0.0);
                    most.ns += of(&apart.raced.begins).unwrap_or(0.0);
                }
                let found = found.get(&series).copied().unwrap_or_default();
                let name = format!("{metric}{{{}}}", series.1);
                self.rows.push(Row { name, found, least, most });
            }
        }
        Ok(())
    }

    /// Whom some waited for, by cause.
    /// Errors: if the metric is not as it should be.
    pub fn interference(
        &mut self,
        seen: &Observation,
        victim: Option<&str>,
        who: &dyn Fn(i64) -> bool,
        bounds: &Bounds,
        apart: &Apart,
    ) -> Result<()> {
        let mut found: BTreeMap<String, f64> = BTreeMap::new();
        for (labels, seconds) in seen.counters(INTERFERENCE)? {
            let label = |name: &str| labels.get(name).map_or("", String::as_str);
            if label("resource") == "cpu" && victim.is_none_or(|victim| label("victim") == victim) {
                // A recording does not know cgroups, kernel threads and the hypervisor.
                let cause = match label("cause") {
                    "foreign" | "self" | "kthread" | "steal" => "thread",
                    other => other,
                };
                *found.entry(cause.to_owned()).or_default() += ns(seconds);
            }
        }
        let (mut inner, mut outer) = (bounds.inner.charges(who), bounds.outer.charges(who));
        if victim.is_none() {
            // Among all there are waits of which the daemon does not remember the begin.
            let known = outer.get("untracked").copied().unwrap_or_default();
            let most = found.get("untracked").copied().unwrap_or_default();
            let (none, most) = (Figure::time(0.0), Figure::time(most + apart.across_ns));
            self.figure("what the recording leaves untracked", Figure::time(known), none, most);
            for sums in [&mut found, &mut inner, &mut outer] {
                let untracked = sums.remove("untracked").unwrap_or_default();
                *sums.entry("thread".to_owned()).or_default() += untracked;
            }
        }
        let causes: BTreeSet<&String> = found.keys().chain(outer.keys()).collect();
        for cause in causes {
            let of = |sums: &BTreeMap<String, f64>| sums.get(cause).copied().unwrap_or_default();
            let (less, more) = apart.margins(cause);
            let (ways_ns, _) = apart.ways();
            self.rows.push(Row {
                name: format!("waits of {} for {cause}", victim.unwrap_or("all")),
                found: Figure::time(of(&found)),
                least: Figure::time(of(&inner) - ways_ns - apart.across_ns - less),
                most: Figure::time(of(&outer) + apart.across_ns + more),
            });
        }
        Ok(())
    }

    /// One more charge for threads.
    pub fn charge(
        &mut self,
        name: &str,
        found_ns: f64,
        least_ns: f64,
        most_ns: f64,
        apart: &Apart,
    ) {
        let (less, more) = apart.margins("thread");
        let less = less + apart.ways().0 + apart.across_ns;
        let more = more + apart.across_ns;
        let (least, most) = (Figure::time(least_ns - less), Figure::time(most_ns + more));
        self.figure(name, Figure::time(found_ns), least, most);
    }

    /// One more figure.
    pub fn figure(&mut self, name: &str, found: Figure, least: Figure, most: Figure) {
        self.rows.push(Row { name: name.to_owned(), found, least, most });
    }

    /// Requires that each of these occurred for certain.
    /// Errors: if one did not: agreement on nothing proves nothing.
    pub fn ensure_present(&self, names: &[&str]) -> Result<()> {
        for name in names {
            let is_there = |row: &Row| {
                row.name.starts_with(name) && (row.least.count > 0.0 || row.least.ns > 0.0)
            };
            ensure!(
                self.rows.iter().any(is_there),
                "the recording is inconclusive: the load produced no {name}"
            );
        }
        Ok(())
    }

    /// Prints it.
    /// Errors: if what /metrics has is not within what the recording has.
    pub fn verdict(self) -> Result<()> {
        let mut text = format!(
            "{:<52} {:>8} {:>17} {:>12} {:>27}\n",
            "", "metrics", "recording", "ns", "recording ns"
        );
        let mut faults = Vec::new();
        for Row { name, found, least, most } in &self.rows {
            let is_within = |of: fn(&Figure) -> f64| (of(least)..=of(most)).contains(&of(found));
            let differs = !is_within(|figure| figure.count) || !is_within(|figure| figure.ns);
            let line = format!(
                "{name:<52} {:>8} {:>17} {:>12} {:>27}",
                found.count,
                format!("{}..={}", least.count, most.count),
                found.ns,
                format!("{:.0}..={:.0}", least.ns, most.ns)
            );
            writeln!(text, "{line}{}", if differs { "  <-- differs" } else { "" })?;
            if differs {
                faults.push(line);
            }
        }
        println!("{text}");
        if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(document: &str) -> Delays {
        Delays::parse(&serde_json::from_str(document).unwrap()).unwrap()
    }

    const DOCUMENT: &str = r#"{
        "threads": [{"tid": 7, "waits": {"wakeup": {"count": 1, "sum_ns": 5}, "preempt": {"count": 2, "sum_ns": 9}},
            "charges": [{"tid": 8, "cause": "thread", "ns": 10}, {"cause": "hardirq", "source": "local_timer", "ns": 4}]}],
        "hardirq": [{"irq": 4, "name": "disk", "count": 3, "sum_ns": 40, "net_ns": 30}], "vector": [],
        "softirq": [], "softirq_raise_wait": [{"vector": 1, "name": "timer", "count": 1, "sum_ns": 2}],
        "block_queue_wait": [], "block_device_wait": [], "net_tx_wait": [], "net_rx_wait": []
    }"#;

    #[test]
    fn a_document_is_read_by_the_names_of_metrics() {
        let delays = sample(DOCUMENT);
        let of = |metric, label: &str| delays.series[&(metric, label.to_owned())];
        assert_eq!(of("noised_hardirq_seconds", "4"), Figure { count: 3.0, ns: 30.0 });
        assert_eq!(of("noised_softirq_raise_wait_seconds", "timer").ns, 2.0);
        assert_eq!(of(RUNQUEUE, "preempt"), Figure { count: 2.0, ns: 9.0 });
        assert_eq!(delays.between(&[7].into(), &[8, 9].into()), 10.0);
        assert_eq!(delays.between(&[8].into(), &[7].into()), 0.0);
        let all = delays.charges(&|_| true);
        assert_eq!(all, [("hardirq".to_owned(), 4.0), ("thread".to_owned(), 10.0)].into());
    }

    #[test]
    fn what_lies_outside_the_bounds_is_a_fault() {
        let row = |found, least, most| {
            let figure = |(count, ns)| Figure { count, ns };
            let mut table = Table::default();
            table.figure("waits", figure(found), figure(least), figure(most));
            table
        };
        row((2.0, 7.0), (1.0, 7.0), (2.0, 9.0)).verdict().unwrap();
        assert!(row((3.0, 7.0), (1.0, 7.0), (2.0, 9.0)).verdict().is_err());
        let error = row((2.0, 6.0), (1.0, 7.0), (2.0, 9.0)).verdict().unwrap_err().to_string();
        assert!(error.contains("7..=9"), "{error}");
        assert!(row((1.0, 1.0), (0.0, 0.0), (2.0, 9.0)).ensure_present(&["waits"]).is_err());
    }
}

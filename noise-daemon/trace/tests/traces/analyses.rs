//! What lttng-analyses computes of a trace, beside the same figures of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;

use noise_trace::analysis::Analysis as _;
use noise_trace::delays::document::Spread;
use noise_trace::delays::watch::{Delay, Run, RunQueueWait, Watch};
use noise_trace::delays::{Begin, Delays};
use noise_trace::event::TraceKind;
use noise_trace::events::What;
use noise_trace::record::Source as _;
use serde_json::Value;

use crate::figures::{delays_of, number};
use crate::files::Trace;
use crate::lttng::{self, ALL, Row, Tables, tid, value};
use crate::python;
use crate::schedule::calls;

/// The tables that an analysis prints of all of a trace.
fn tables(trace: &Trace, analysis: &str, options: &[&str]) -> Result<Tables, String> {
    let name = trace.folder.file_name().unwrap().to_str().unwrap();
    let above = python::folder().join(format!("analyses-{analysis}-{name}"));
    let kernel = above.join("kernel");
    fs::create_dir_all(&above).unwrap();
    let _ = fs::remove_file(&kernel);
    symlink(trace.folder.canonicalize().unwrap(), &kernel).unwrap();
    Tables::of(&kernel, analysis, &[&["--no-intersection"], options].concat())
}

/// A row as ours.
fn spread(row: &Value, first: usize) -> Spread {
    let Row { count, sum_ns, max_ns } = lttng::spread(row, first);
    Spread { count, sum_ns, max_ns }
}

/// Waits by thread and end: how and when they began.
#[derive(Default)]
struct Waits(BTreeMap<(i32, u64), (&'static str, u64)>);

impl Watch for Waits {
    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, wait: &RunQueueWait<'_>) {
        self.0.insert((wait.tid, wait.to_ns), (wait.signal, wait.from_ns));
    }

    fn delayed(&mut self, _: &Delay<'_>) {}
}

/// `lttng-schedtop`: each scheduling latency. It begins with `sched_waking` where the trace has that. A thread that is woken while it waits, preempted, waits since
/// the preemption for us, since the wake-up for lttng-schedtop.
pub fn schedtop(trace: &Trace) -> Result<(), String> {
    let tables = tables(trace, "sched.runtop_mi", &[ALL])?;
    let has_waking = trace.layout.has(What::SchedWaking);
    let begin = if has_waking { Begin::Waking } else { Begin::Wakeup };
    let (mut delays, mut ours) = (Delays::new(begin), Waits::default());
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        delays.follow_each(&record.event(), &mut ours);
    }
    let rows = tables.rows("top").map(|row| ((tid(row, 5), value(row, 1)), value(row, 0)));
    let theirs: BTreeMap<_, _> = rows.collect();
    let woken = ours.0.values().filter(|(signal, _)| *signal == "wakeup").count();
    let mut found = 0;
    for ((tid, to_ns), their_ns) in theirs {
        let (signal, from_ns) = ours.0[&(tid, to_ns)];
        let is_equal = match signal {
            "wakeup" => their_ns == from_ns,
            _ => their_ns > from_ns,
        };
        assert!(is_equal, "{tid} until {to_ns}: {signal} since {from_ns} and {their_ns}");
        found += usize::from(signal == "wakeup");
    }
    assert_eq!(found, woken);
    Ok(())
}

/// `lttng-cputop`: time on a CPU by thread. It counts from the first event and up to the last one, ours from
/// switch to switch.
pub fn cputop(trace: &Trace) -> Result<(), String> {
    let tables = tables(trace, "cputop.run_mi", &[ALL])?;
    let document = delays_of(trace);
    let mut ours: BTreeMap<i32, u64> =
        document.threads.iter().map(|thread| (thread.tid, thread.run_ns)).collect();
    let (mut seen, mut current) = (BTreeSet::new(), BTreeMap::new());
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        let TraceKind::SchedSwitch { prev, next, .. } = record.kind() else { continue };
        if seen.insert(prev.tid) {
            *ours.entry(prev.tid).or_default() += record.time_ns - document.from_ns;
        }
        seen.insert(next.tid);
        current.insert(record.cpu, (next.tid, record.time_ns));
    }
    for (tid, since_ns) in current.values() {
        *ours.entry(*tid).or_default() += document.to_ns - since_ns;
    }
    let span = (document.to_ns - document.from_ns) as f64;
    let mut count = 0;
    for row in tables.rows("per-process").filter(|row| tid(row, 0) != 0) {
        let share = row[3]["value"].as_f64().unwrap();
        let ns = (share * span).round() as u64;
        assert_eq!(ours.get(&tid(row, 0)).copied().unwrap_or(0), ns, "{row}");
        count += 1;
    }
    ours.retain(|tid, ns| *tid != 0 && *ns > 0);
    assert!(count >= ours.len(), "{count} and {} threads", ours.len());
    Ok(())
}

/// `lttng-irqstats`: time in interrupts and softirqs, and waits of softirqs. It knows softirqs by the names that
/// LTTng's events had before 2.8, `softirq_entry`, and shows none of a trace with `irq_softirq_entry`.
pub fn irqstats(trace: &Trace) -> Result<(), String> {
    let tables = tables(trace, "irq.runstats_mi", &[])?;
    let document = delays_of(trace);
    let by_number = |class| {
        tables
            .rows(class)
            .map(|row| (number(&row[0]["nr"]) as u32, row))
            .collect::<BTreeMap<_, _>>()
    };
    let hard = by_number("hard-stats");
    assert_eq!(document.hardirq.len(), hard.len());
    for irq in &document.hardirq {
        assert_eq!(irq.whole, spread(hard[&irq.irq.unwrap()], 1), "{}", irq.name);
    }
    let soft = by_number("soft-stats");
    assert_eq!(document.softirq.len(), soft.len());
    for softirq in &document.softirq {
        assert_eq!(softirq.whole, spread(soft[&softirq.vector], 1), "{}", softirq.name);
    }
    for raise in &document.softirq_raise_wait {
        assert_eq!(raise.whole, spread(soft[&raise.vector], 6), "{}", raise.name);
    }
    Ok(())
}

/// `lttng-iolatencytop`: the longest system calls that open, read, write or sync. It needs their events: a
/// trace without them has no rows.
pub fn iolatencytop(trace: &Trace) -> Result<(), String> {
    let tables = tables(trace, "io.runlatencytop_mi", &[])?;
    let calls: BTreeSet<_> = calls(trace)
        .into_iter()
        .map(|call| (call.tid, call.from_ns, call.to_ns, call.name))
        .collect();
    let mut count = 0;
    for row in tables.rows("top-syscall") {
        let [from_ns, to_ns] = ["begin", "end"].map(|end| number(&row[0][end]["value"]));
        let name = row[3]["name"].as_str().unwrap().to_owned();
        assert_eq!(value(row, 2), to_ns - from_ns);
        assert!(calls.contains(&(tid(row, 5), from_ns, to_ns, name)), "{row}");
        count += 1;
    }
    assert!(count > 10, "{count} rows");
    Ok(())
}

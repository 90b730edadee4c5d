//! What `expected.json` says.

use std::collections::BTreeMap;

use noise_common::signals::Signal;
use noise_trace::analysis::Analysis as _;
use noise_trace::delays::Delays;
use noise_trace::delays::document::{Culprit, DelaysDocument, Spread, ThreadDocument};
use noise_trace::event::TraceKind;
use noise_trace::record::Source as _;
use noise_trace::summary::{TraceSummary, UnpairedSwitches, UnpairedThread};
use serde_json::Value;

use crate::files::Trace;

/// As the file names events: system calls together, softirqs without what newer tracers put in front.
fn name(name: &str) -> &str {
    let is_call = ["syscall_", "compat_syscall_", "sys_", "exit_syscall"];
    if is_call.iter().any(|prefix| name.starts_with(prefix)) {
        return "syscall";
    }
    match name.strip_prefix("irq_") {
        Some(softirq) if softirq.starts_with("softirq_") => softirq,
        _ => name,
    }
}

/// A figure of the file.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(value: &Value) -> BTreeMap<String, u64> {
    let numbers = value.as_object().unwrap().iter();
    numbers.map(|(name, value)| (name.clone(), number(value))).collect()
}

/// What the file has of a trace. All of it is compared but the last two: a text, and what no command computes yet.
const LISTS: [&str; 21] = [
    "events",
    "first",
    "last",
    "by_cpu",
    "by_name",
    "switches",
    "waits",
    "victims",
    "culprits",
    "culprits_following_migrations",
    "pairs",
    "irq",
    "softirq",
    "softirq_raise",
    "tx",
    "threads_that_waited",
    "per_thread_waits",
    "run_ns",
    "system_calls",
    "events_note",
    "critical_paths",
];

/// Number, span, kinds and CPUs of events.
pub fn events(trace: &Trace) -> Result<(), String> {
    let mut summary = TraceSummary::new(&trace.layout.clocks[0], trace.layout.env.clone());
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        summary.add(&record);
    }
    summary.finish(&reader.damage());
    assert!(reader.damage().is_none(), "{}", reader.damage());
    let expected = &trace.expected;
    for list in expected.as_object().unwrap().keys() {
        assert!(LISTS.contains(&list.as_str()), "nothing compares `{list}`");
    }
    assert_eq!(summary.count, number(&expected["events"]));
    assert_eq!(summary.from_ns, number(&expected["first"]));
    assert_eq!(summary.to_ns, number(&expected["last"]));
    assert_eq!(summary.discarded, 0);
    let switches = numbers(&expected["switches"]).values().sum();
    let whole = UnpairedSwitches { switches, ..UnpairedSwitches::default() };
    assert_eq!(summary.unpaired_switches, whole);
    assert!(summary.reach.is_whole(), "{}", summary.reach);
    let cpus = summary.cpus.iter().map(|(cpu, count)| (cpu.to_string(), *count));
    assert_eq!(cpus.collect::<BTreeMap<_, _>>(), numbers(&expected["by_cpu"]));
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (found, count) in &summary.events {
        *by_name.entry(name(found).to_owned()).or_default() += count;
    }
    assert_eq!(by_name, numbers(&expected["by_name"]));
    Ok(())
}

/// The same trace, as a kernel records it that hides the thread which leaves its CPUs most often.
pub fn hidden(trace: &Trace) -> Result<(), String> {
    let mut left: BTreeMap<i32, u64> = BTreeMap::new();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        if let TraceKind::SchedSwitch { prev, .. } = record.kind() {
            *left.entry(prev.tid).or_default() += 1;
        }
    }
    left.remove(&0);
    let (hidden, _) = left.into_iter().max_by_key(|(_, count)| *count).unwrap();
    let mut summary = TraceSummary::new(&trace.layout.clocks[0], trace.layout.env.clone());
    // By CPU: whether it was given to that thread, and how often the next switch was another thread's.
    let mut known: BTreeMap<u32, (bool, u64)> = BTreeMap::new();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        if let TraceKind::SchedSwitch { prev, next, .. } = record.kind() {
            if prev.tid == hidden {
                continue;
            }
            let (is_its, count) = known.entry(record.cpu).or_default();
            *count += u64::from(*is_its);
            *is_its = next.tid == hidden;
        }
        summary.add(&record);
    }
    summary.finish(&reader.damage());
    let known = known.into_iter().map(|(cpu, (_, count))| (cpu, count));
    let known: BTreeMap<u32, u64> = known.filter(|(_, count)| *count > 0).collect();
    let found = summary.unpaired_switches;
    assert!(found.count > 5, "{found:?}");
    assert_eq!((found.count, &found.cpus), (known.values().sum::<u64>(), &known));
    let [UnpairedThread { tid, count, is_hidden, .. }] = found.threads.as_slice() else {
        panic!("{:?}", found.threads)
    };
    assert_eq!((*tid, *count, *is_hidden, summary.discarded), (hidden, found.count, true, 0));
    Ok(())
}

pub fn delays_of(trace: &Trace) -> DelaysDocument {
    let mut delays = Delays::default();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        delays.follow(&record.event());
    }
    delays.finish(|_| true, None)
}

/// As the file names threads.
pub fn thread_name(thread: &ThreadDocument) -> String {
    format!("{}-{}", thread.comm, thread.tid)
}

fn sum(spreads: impl Iterator<Item = Spread>) -> Spread {
    spreads.fold(Spread::default(), |all, one| Spread {
        count: all.count + one.count,
        sum_ns: all.sum_ns + one.sum_ns,
        max_ns: all.max_ns.max(one.max_ns),
    })
}

fn assert_spread(found: Spread, expected: &Value, what: &str) {
    let expected = Spread {
        count: number(&expected["n"]),
        sum_ns: number(&expected["sum"]),
        max_ns: number(&expected["max"]),
    };
    assert_eq!(found, expected, "{what}");
}

/// Culprits of all threads against the sums and the five largest that the file has.
fn assert_culprits<'a>(culprits: impl Iterator<Item = &'a Culprit>, expected: &Value) {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut threads: BTreeMap<(i32, &str), u64> = BTreeMap::new();
    for culprit in culprits {
        *causes.entry(culprit.cause).or_default() += culprit.ns;
        if culprit.cause == "thread" {
            *threads.entry((culprit.tid, &culprit.comm)).or_default() += culprit.ns;
        }
    }
    for (ours, theirs) in [("thread", "threads"), ("idle", "idle"), ("untracked", "untracked")] {
        let found = causes.get(ours).copied().unwrap_or(0);
        assert_eq!(found, number(&expected[theirs]), "{theirs}");
    }
    let mut top: Vec<_> =
        threads.iter().map(|((tid, comm), ns)| (format!("{comm}-{tid}"), *ns)).collect();
    top.sort_by_key(|other| std::cmp::Reverse(other.1));
    let expected = expected["top"].as_array().unwrap();
    assert!(top.len() > expected.len());
    for (found, expected) in top.iter().zip(expected) {
        assert_eq!(
            (found.0.as_str(), found.1),
            (expected[0].as_str().unwrap(), number(&expected[1]))
        );
    }
}

/// Waits, culprits, interrupts, softirqs.
pub fn delays(trace: &Trace) -> Result<(), String> {
    let (document, expected) = (delays_of(trace), &trace.expected);
    let threads = &document.threads;
    let all = |pick: fn(&ThreadDocument) -> Spread| sum(threads.iter().map(pick));
    assert_spread(all(|thread| thread.waits.wakeup), &expected["waits"]["wakeup"], "wakeup");
    assert_spread(all(|thread| thread.waits.preempt), &expected["waits"]["preempt"], "preempt");
    let victims = expected["victims"].as_array().unwrap();
    assert!(threads.len() > victims.len());
    for (thread, victim) in threads.iter().zip(victims) {
        let both = sum([thread.waits.wakeup, thread.waits.preempt].into_iter());
        let found = (thread_name(thread), both.count, both.sum_ns, both.max_ns);
        let name = victim[0].as_str().unwrap().to_owned();
        let numbers = [1, 2, 3].map(|place| number(&victim[place]));
        assert_eq!(found, (name, numbers[0], numbers[1], numbers[2]));
    }
    assert_culprits(threads.iter().flat_map(|thread| &thread.culprits), &expected["culprits"]);
    assert_culprits(
        threads.iter().flat_map(|thread| &thread.culprits_following_migrations),
        &expected["culprits_following_migrations"],
    );
    assert_eq!(document.untracked_ns, number(&expected["culprits"]["untracked"]));
    for thread in threads {
        let waited = thread.waits.wakeup.sum_ns + thread.waits.preempt.sum_ns;
        let culprits: u64 = thread.culprits.iter().map(|culprit| culprit.ns).sum();
        let following: u64 =
            thread.culprits_following_migrations.iter().map(|culprit| culprit.ns).sum();
        let charges: u64 = thread.charges.iter().map(|charge| charge.ns).sum();
        assert_eq!([culprits, following, charges], [waited; 3], "{}", thread_name(thread));
    }
    pairs(threads, expected);
    interrupts(&document, expected);
    if let Some(per_thread) = expected.get("per_thread_waits") {
        by_thread(threads, per_thread);
    }
    Ok(())
}

fn pairs(threads: &[ThreadDocument], expected: &Value) {
    let mut pairs: Vec<_> = threads
        .iter()
        .flat_map(|thread| {
            let culprits = thread.culprits.iter().filter(|culprit| culprit.cause == "thread");
            culprits.map(move |culprit| {
                (thread_name(thread), format!("{}-{}", culprit.comm, culprit.tid), culprit.ns)
            })
        })
        .collect();
    pairs.sort_by_key(|other| std::cmp::Reverse(other.2));
    let expected = expected["pairs"].as_array().unwrap();
    assert!(pairs.len() > expected.len());
    for (found, expected) in pairs.iter().zip(expected) {
        let text = |place: usize| expected[place].as_str().unwrap().to_owned();
        assert_eq!(*found, (text(0), text(1), number(&expected[2])));
    }
}

fn interrupts(document: &DelaysDocument, expected: &Value) {
    let irqs = expected["irq"].as_object().unwrap();
    assert_eq!(document.hardirq.len(), irqs.len());
    for handler in &document.hardirq {
        let name = format!("{}:{}", handler.irq.unwrap(), handler.name);
        assert_spread(handler.whole, &irqs[&name], &name);
        assert_eq!(handler.net_ns, number(&irqs[&name]["net"]), "{name}");
    }
    let softirqs = expected["softirq"].as_object().unwrap();
    assert_eq!(document.softirq.len(), softirqs.len());
    for softirq in &document.softirq {
        let expected = &softirqs[&softirq.vector.to_string()];
        assert_spread(softirq.whole, expected, softirq.name);
        assert_eq!(softirq.net_ns, number(&expected["net"]), "{}", softirq.name);
    }
    let raises = expected["softirq_raise"].as_object().unwrap();
    assert_eq!(document.softirq_raise_wait.len(), raises.len());
    for raise in &document.softirq_raise_wait {
        assert_spread(raise.whole, &raises[&raise.vector.to_string()], raise.name);
    }
    if let Some(tx) = expected.get("tx") {
        assert_spread(
            sum(document.packets[&Signal::NetTxWait].iter().map(|tx| tx.whole)),
            tx,
            "tx",
        );
    }
}

fn by_thread(threads: &[ThreadDocument], expected: &Value) {
    let waited =
        |thread: &&ThreadDocument| thread.waits.wakeup.count + thread.waits.preempt.count > 0;
    let expected = expected.as_object().unwrap();
    assert_eq!(threads.iter().filter(waited).count(), expected.len());
    for thread in threads.iter().filter(waited) {
        let expected = &expected[&thread_name(thread)];
        for (kind, found) in [("wakeup", thread.waits.wakeup), ("preempt", thread.waits.preempt)] {
            let pair = (number(&expected[kind][0]), number(&expected[kind][1]));
            assert_eq!((found.count, found.sum_ns), pair, "{} {kind}", thread_name(thread));
        }
        let max_ns = thread.waits.wakeup.max_ns.max(thread.waits.preempt.max_ns);
        assert_eq!(max_ns, number(&expected["max"]), "{}", thread_name(thread));
    }
}

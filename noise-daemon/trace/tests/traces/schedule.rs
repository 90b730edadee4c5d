//! Switches, times on a CPU and system calls, as `expected.json` has them.

use std::collections::{BTreeMap, BTreeSet};

use noise_trace::event::{Comm, TraceKind};
use noise_trace::record::Source as _;
use serde_json::Value;

use crate::figures::{delays_of, number, thread_name};
use crate::files::Trace;

/// Switches by what the thread does that is switched out.
pub fn switches(trace: &Trace) -> Result<(), String> {
    let [mut idle, mut voluntary, mut involuntary] = [0; 3];
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        match record.kind() {
            TraceKind::SchedSwitch { prev, .. } if prev.tid == 0 => idle += 1,
            TraceKind::SchedSwitch { prev_state, .. } if prev_state.stays_runnable() => {
                involuntary += 1
            }
            TraceKind::SchedSwitch { .. } => voluntary += 1,
            _ => {}
        }
    }
    let expected = &trace.expected["switches"];
    let expected = ["idle", "voluntary", "involuntary"].map(|name| number(&expected[name]));
    assert_eq!([idle, voluntary, involuntary], expected);
    Ok(())
}

/// Threads that waited, and for how long each thread ran; of idle tasks all CPUs together.
pub fn runs(trace: &Trace) -> Result<(), String> {
    let document = delays_of(trace);
    if let Some(expected) = trace.expected.get("threads_that_waited") {
        let waits = document.threads.iter().map(|thread| thread.waits);
        let waited = waits.filter(|waits| waits.wakeup.count + waits.preempt.count > 0);
        assert_eq!(waited.count() as u64, number(expected));
    }
    let Some(expected) = trace.expected.get("run_ns") else { return Ok(()) };
    let mut found: BTreeMap<String, u64> = document
        .threads
        .iter()
        .filter(|thread| thread.run_ns > 0)
        .map(|thread| (thread_name(thread), thread.run_ns))
        .collect();
    let (name, idle_ns) = idle(trace);
    found.insert(format!("{name}-0"), idle_ns);
    let expected = expected.as_object().unwrap().iter();
    let expected: BTreeMap<_, _> = expected.map(|(name, ns)| (name.clone(), number(ns))).collect();
    assert_eq!(found, expected);
    Ok(())
}

/// The latest name of an idle task, and the time of all, from switch to switch.
fn idle(trace: &Trace) -> (Comm, u64) {
    let (mut since, mut sum, mut comm) = (BTreeMap::new(), 0, Comm::default());
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        let TraceKind::SchedSwitch { prev, next, .. } = record.kind() else { continue };
        if let Some(since_ns) = since.remove(&record.cpu) {
            sum += record.time_ns - since_ns;
        }
        if next.tid == 0 {
            since.insert(record.cpu, record.time_ns);
        }
        for task in [prev, next] {
            if task.tid == 0 {
                comm = task.comm;
            }
        }
    }
    (comm, sum)
}

pub struct Call {
    pub name: String,
    /// The thread that ran on the CPU of its entry.
    pub tid: i32,
    /// Time of its entry.
    pub from_ns: u64,
    /// Time of its exit.
    pub to_ns: u64,
}

/// System calls in the order of their ends. Those that are entered before the first switch of their CPU are of an
/// unknown thread, and not among them.
pub fn calls(trace: &Trace) -> Vec<Call> {
    let (mut current, mut open) = (BTreeMap::new(), BTreeMap::new());
    let mut calls = Vec::new();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        if let TraceKind::SchedSwitch { next, .. } = record.kind() {
            current.insert(record.cpu, next.tid);
        }
        let Some(tid) = current.get(&record.cpu) else { continue };
        let name = record.name();
        let entry = name.strip_prefix("syscall_entry_").or_else(|| name.strip_prefix("sys_"));
        if let Some(name) = entry {
            open.insert(*tid, (name.to_owned(), record.time_ns));
        } else if (name == "exit_syscall" || name.starts_with("syscall_exit_"))
            && let Some((name, from_ns)) = open.remove(tid)
        {
            calls.push(Call { name, tid: *tid, from_ns, to_ns: record.time_ns });
        }
    }
    calls
}

/// Number, kinds and times of system calls.
pub fn system_calls(trace: &Trace) -> Result<(), String> {
    let expected = &trace.expected["system_calls"];
    let calls = calls(trace);
    let length = |call: &Call| call.to_ns - call.from_ns;
    let all: Vec<u64> = calls.iter().map(length).collect();
    let kinds: BTreeSet<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    for (figure, found) in [
        ("count", all.len() as u64),
        ("kinds", kinds.len() as u64),
        ("total", all.iter().sum()),
        ("min", *all.iter().min().unwrap()),
        ("max", *all.iter().max().unwrap()),
        ("first_duration", all[0]),
    ] {
        assert_eq!(found, number(&expected[figure]), "{figure}");
    }
    let by_name = expected.as_object().unwrap().iter().filter(|(_, value)| value.is_object());
    for (name, expected) in by_name {
        let of: Vec<u64> = calls.iter().filter(|call| call.name == *name).map(length).collect();
        assert_call(name, &of, expected);
    }
    Ok(())
}

fn assert_call(name: &str, of: &[u64], expected: &Value) {
    assert_eq!(of.len() as u64, number(&expected["n"]), "{name}");
    let figures = [("min", of.iter().min().unwrap()), ("max", of.iter().max().unwrap())];
    for (figure, found) in figures {
        if let Some(expected) = expected.get(figure) {
            assert_eq!(*found, number(expected), "{figure} of {name}");
        }
    }
}

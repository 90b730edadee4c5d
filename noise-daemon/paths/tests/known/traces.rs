//! Real traces, and the critical paths that they are known to have.
//!
//! The file's figures name states as Trace Compass does, which differs from ours in what nothing but an
//! interrupt explains: see [`name`]. And they count a thread as waiting that the trace's switches say was
//! running, and as asleep that was woken, as Trace Compass does: see [`Corrections`]. So there are two readings:
//! [`compass`] compares each figure as it stands in the file, [`paths`] proves that the other reading differs from them by
//! these times alone.

use std::collections::{BTreeMap, BTreeSet};

use noise_paths::blame::Blame;
use noise_paths::build::{Builder, Waker};
use noise_paths::document::{PathsDocument, Segment, traced};
use noise_paths::execution::{Wanted, find};
use noise_paths::feed;
use noise_paths::graph::{Graph, Who, WorkerId};
use noise_paths::path::{Path, Step};
use noise_paths::state::State;
use noise_paths::walk::{Bounds, walk};
use noise_trace::delays::Delays;
use noise_trace::event::TraceKind;
use noise_trace::events::What;
use noise_trace::json;
use noise_trace::record::Source as _;
use serde_json::Value;

use crate::drawn::number;
use crate::files::Trace;

type Totals<'a> = BTreeMap<&'a str, u64>;

fn builder(trace: &Trace) -> Builder {
    let waking = trace.layout.has(What::SchedWaking);
    Builder::new(if waking { Waker::Waking } else { Waker::Wakeup })
}

fn graph(trace: &Trace, mut builder: Builder) -> Graph {
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        feed::follow(&mut builder, 0, &record, &record.event());
    }
    builder.finish()
}

/// As the file calls what a step is. What no other worker explains has three names there: at the thread itself, at
/// the begin of what replaces one of its sleeps, and anywhere else.
fn name(before: Option<&Step>, step: &Step) -> &'static str {
    let Step::Stay { state, depth, .. } = step else { return "DEFAULT" };
    let is_begin = matches!(before, Some(Step::Go { action: None, .. }));
    match state {
        State::Running => "RUNNING",
        State::WaitingCpu => "PREEMPTED",
        State::Disk => "BLOCK_DEVICE",
        State::Timer => "TIMER",
        State::Network => "NETWORK",
        _ if *depth == 0 => "BLOCKED",
        _ if *depth == 1 && is_begin => "UNKNOWN",
        _ => "DEFAULT",
    }
}

fn totals(path: &Path) -> Totals<'static> {
    let mut totals = Totals::new();
    for (number, step) in path.steps.iter().enumerate().filter(|(_, step)| step.ns() > 0) {
        let before = number.checked_sub(1).map(|before| &path.steps[before]);
        *totals.entry(name(before, step)).or_default() += step.ns();
    }
    totals
}

fn tid(graph: &Graph, id: WorkerId) -> Option<i32> {
    match graph.get(id).unwrap().who {
        Who::Thread { tid, .. } => Some(tid),
        Who::Idle { .. } | Who::Kernel { .. } => None,
    }
}

/// The only worker that is a thread of that id.
fn thread(graph: &Graph, wanted: i32) -> WorkerId {
    let mut all = graph.workers().map(|(id, _)| id).filter(|id| tid(graph, *id) == Some(wanted));
    let id = all.next().unwrap();
    assert_eq!(all.next(), None);
    id
}

/// Where the file's figures differ from what the trace's own switches say.
#[derive(Default)]
struct Corrections {
    /// Time for which the file has a thread waiting that had the CPU.
    running_ns: u64,
    /// Workers that are on the file's path for such a time alone.
    wakers: BTreeSet<i32>,
    /// Time for which the file has a thread asleep that was woken already: see [`Raced`].
    woken_ns: u64,
}

/// Finds sleeps of a thread that was woken before it was switched away from, and not since: whoever woke it had seen
/// it on its way, and made it runnable once it slept: its `sched_wakeup` comes behind that switch. Nothing ends such a sleep
/// in the file's paths, while its waits have the thread waiting since that `sched_wakeup`.
#[derive(Default)]
struct Raced {
    cpu: u32,
    is_woken: bool,
    since_ns: Option<u64>,
}

impl Raced {
    fn woken(&mut self, cpu: u32) {
        self.is_woken = cpu != self.cpu;
        self.since_ns = None;
    }

    fn left(&mut self, sleeps: bool, now_ns: u64) {
        self.since_ns = (std::mem::take(&mut self.is_woken) && sleeps).then_some(now_ns);
    }

    fn runs(&mut self, cpu: u32, now_ns: u64) -> u64 {
        (self.cpu, self.is_woken) = (cpu, false);
        self.since_ns.take().map_or(0, |since_ns| now_ns - since_ns)
    }
}

impl Corrections {
    /// Two kinds of a thread's time on a CPU: when a state dump says of it that it was created and did not run
    /// yet, which LTTng 2.8 does of threads that run; and between a switch to it from a sleep whose wake-up was not
    /// seen and the next wake-up, which comes while it still runs: there the file has it sleeping on, and what its
    /// waker did in its place.
    fn of(trace: &Trace, graph: &Graph, wanted: i32) -> Self {
        let mut corrections = Self::default();
        let (mut sleeps, mut unseen, mut since_ns, mut dumped) = (false, false, None, false);
        let mut current: BTreeMap<u32, i32> = BTreeMap::new();
        let mut raced = Raced::default();
        let mut reader = trace.reader();
        while let Some(record) = reader.read() {
            let kind = record.kind();
            if let TraceKind::SchedWaking(woken) = &kind
                && woken.task.tid == wanted
            {
                raced.woken(record.cpu);
            }
            match kind {
                TraceKind::SchedSwitch { prev, prev_state, next } => {
                    current.insert(record.cpu, next.tid);
                    if prev.tid == wanted {
                        if std::mem::take(&mut dumped) {
                            corrections.running_ns += record.time_ns - since_ns.unwrap();
                        }
                        (sleeps, since_ns) = (!prev_state.stays_runnable(), None);
                        raced.left(sleeps, record.time_ns);
                    }
                    if next.tid == wanted {
                        corrections.woken_ns += raced.runs(record.cpu, record.time_ns);
                        (unseen, since_ns) = (sleeps, Some(record.time_ns));
                    }
                }
                TraceKind::SchedWaking(woken) if woken.task.tid == wanted => match since_ns {
                    Some(since_ns) if unseen => {
                        let waker = current[&record.cpu];
                        corrections.running_ns +=
                            waited(graph, thread(graph, waker), since_ns, record.time_ns);
                        corrections.wakers.insert(waker);
                        unseen = false;
                    }
                    Some(_) => {}
                    None => sleeps = false,
                },
                TraceKind::StatedumpProcess(task) if task.tid == wanted && since_ns.is_some() => {
                    let mut fields = String::new();
                    json::fields(&record, &mut fields);
                    let fields: Value = serde_json::from_str(&fields).unwrap();
                    // LTTng's number for a thread that was created and did not run yet.
                    dumped = fields["status"] == 1;
                }
                _ => {}
            }
        }
        corrections
    }
}

/// How long a worker waited for a CPU between two times.
fn waited(graph: &Graph, id: WorkerId, from_ns: u64, to_ns: u64) -> u64 {
    let points: Vec<_> = graph.get(id).unwrap().points().collect();
    let waits = points.windows(2).filter(|pair| pair[1].state == Some(State::WaitingCpu));
    waits.map(|pair| pair[1].time_ns.min(to_ns).saturating_sub(pair[0].time_ns.max(from_ns))).sum()
}

/// The waits on a path are divided, each exactly, whoever follows the events.
fn blamed(trace: &Trace, graph: &Graph, path: &Path, name: &str) {
    let wanted = Wanted::Thread(name.parse().unwrap());
    let execution = find(graph, &wanted)[0];
    let traced = traced(graph, name, &execution, path);
    let divided = |delays: Delays| {
        let mut document =
            PathsDocument { executions: vec![traced.clone()], ..PathsDocument::default() };
        let mut blame = Blame::new(&document, delays);
        let mut reader = trace.reader();
        while let Some(record) = reader.read() {
            blame.follow(&record.event(), &mut document);
        }
        blame.finish(&mut document);
        document
    };
    let document = divided(Delays::of_turns());
    for part in &document.executions[0].path {
        let culprits: u64 = part.culprits.iter().map(|culprit| culprit.ns).sum();
        let is_divided = ["waiting_cpu", "disk", "network"].contains(&part.state);
        assert!(is_divided || culprits == 0 || culprits == part.to_ns - part.from_ns, "{part:?}");
        assert!(!is_divided || culprits == part.to_ns - part.from_ns, "{part:?}");
    }
    let with_all = divided(Delays::default());
    let waits = |document: &PathsDocument| {
        let waits = document.executions[0].path.iter().filter(|part| part.state == "waiting_cpu");
        let ns = |part: &Segment| {
            part.culprits.iter().map(|culprit| (culprit.tid, culprit.ns)).collect::<Vec<_>>()
        };
        waits.map(ns).collect::<Vec<_>>()
    };
    assert_eq!(waits(&document), waits(&with_all));
}

fn threads(graph: &Graph, path: &Path) -> BTreeSet<i32> {
    path.workers().iter().filter_map(|id| tid(graph, *id)).collect()
}

/// A path that the file has, with what does not depend on who waits for what.
fn path(graph: &Graph, name: &str, expected: &Value) -> Path {
    let workers = graph.workers().filter(|(id, _)| tid(graph, *id).is_some()).count() as u64;
    // The file's graph has one worker for all idle tasks, and one for the kernel in softirqs.
    assert_eq!(workers + 2, number(&expected["graph_workers"]));
    let id = thread(graph, name.parse().unwrap());
    let (from_ns, to_ns) = graph.get(id).unwrap().life().unwrap();
    let path = walk(graph, id, from_ns, to_ns, Bounds::default()).unwrap();
    assert_eq!(path.fault(id, from_ns, to_ns), None, "{name}");
    assert_eq!(path.cut, 0, "{name}");
    assert_eq!(to_ns - from_ns, number(&expected["span"]), "{name}");
    assert_eq!(path.totals().values().sum::<u64>(), number(&expected["total"]), "{name}");
    let leave = path.steps.iter().find(|step| step.last() != path.steps[0].first());
    let leave = leave.map(|step| (tid(graph, step.last()).unwrap(), step.span().0));
    let leaves_to = expected["first_leaves_to"].as_object();
    let leaves_to = leaves_to.map(|to| (to["tid"].as_i64().unwrap() as i32, number(&to["at"])));
    assert_eq!(leave, leaves_to, "{name}");
    path
}

fn expected_states(expected: &Value) -> Totals<'_> {
    let names = expected["ns"].as_object().unwrap().iter();
    names.map(|(name, ns)| (name.as_str(), number(ns))).collect()
}

/// All paths of the file, each figure as it stands there.
pub fn compass(trace: &Trace) {
    let graph = graph(trace, builder(trace).like_trace_compass());
    for (name, expected) in trace.expected["critical_paths"].as_object().unwrap() {
        let path = path(&graph, name, expected);
        assert_eq!(totals(&path), expected_states(expected), "{name}");
        assert_eq!(threads(&graph, &path).len() as u64, number(&expected["workers"]), "{name}");
    }
}

/// All paths of the file, as the events have them: but for the corrections the same.
pub fn paths(trace: &Trace) {
    let graph = graph(trace, builder(trace));
    for (name, expected) in trace.expected["critical_paths"].as_object().unwrap() {
        let path = path(&graph, name, expected);
        let corrections = Corrections::of(trace, &graph, name.parse().unwrap());
        let mut found = totals(&path);
        *found.get_mut("RUNNING").unwrap() -= corrections.running_ns;
        *found.get_mut("PREEMPTED").unwrap() += corrections.running_ns;
        *found.get_mut("PREEMPTED").unwrap() -= corrections.woken_ns;
        *found.entry("BLOCKED").or_default() += corrections.woken_ns;
        found.retain(|_, ns| *ns > 0);
        assert_eq!(found, expected_states(expected), "{name}");
        let on_path = threads(&graph, &path);
        let all = on_path.union(&corrections.wakers).count() as u64;
        assert_eq!(all, number(&expected["workers"]), "{name}");
        blamed(trace, &graph, &path, name);
        println!(
            "{name}: counted as waiting there, but running: {} ns; as asleep, but woken: {} ns; {} workers, of {all} there",
            corrections.running_ns,
            corrections.woken_ns,
            on_path.len()
        );
    }
}

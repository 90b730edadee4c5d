//! Where the time of threads went: against the way that `perf sched timehist -s --state` counts it, and against the span.

use std::collections::BTreeMap;

use noise_trace::analysis::Analysis as _;
use noise_trace::event::TraceKind;
use noise_trace::follow::Begin;
use noise_trace::record::Source as _;
use noise_trace::states::{StatesDocument, StatesOfThreads, ThreadTimes};

use crate::files::Trace;

fn states_of(trace: &Trace) -> StatesDocument {
    let mut states = StatesOfThreads::new(Begin::Wakeup);
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        states.follow(&record.event());
    }
    states.finish(|_| true, None)
}

/// What perf knows of a thread: `struct thread_runtime` of its `builtin-sched.c`.
#[derive(Clone, Copy, Default)]
struct Runtime {
    /// When it was switched out last, and in which state.
    last_time: Option<u64>,
    last_state: char,
    /// The first wake-up since.
    ready_to_run: Option<u64>,
    run: u64,
    delay: u64,
    preempt: u64,
    sleep: u64,
    iowait: u64,
    /// Not perf's: the first event that says what it does, its creation and its end.
    first: u64,
    created: Option<u64>,
    exits: bool,
    ended: Option<u64>,
}

impl Runtime {
    /// It had no CPU until then; perf counts what is runnable of a sleep as both.
    fn waited(&mut self, until: u64) {
        let is_preempted = self.last_time.is_some() && self.last_state == 'R';
        // A wake-up while it ran is none.
        let ready = self.ready_to_run.filter(|ready| !is_preempted && *ready <= until);
        self.delay += ready.map_or(0, |ready| until - ready);
        let Some(last_time) = self.last_time else { return };
        let waited = ready.unwrap_or(until) - last_time;
        match self.last_state {
            'R' => self.preempt += waited,
            'D' => self.iowait += waited,
            _ => self.sleep += waited,
        }
    }
}

/// Each thread's times are those that perf would count, with what goes on at the end; and they sum to the time from the first
/// event that names the thread to its end.
pub fn perf(trace: &Trace) -> Result<(), String> {
    let document = states_of(trace);
    let mut threads: BTreeMap<i32, Runtime> = BTreeMap::new();
    let mut running: BTreeMap<u32, (i32, u64)> = BTreeMap::new();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        let now = record.time_ns;
        let mut named = |tid: i32| {
            let first = Runtime { first: now, ..Runtime::default() };
            threads.entry(tid).or_insert(first);
        };
        match record.kind() {
            TraceKind::SchedSwitch { prev, prev_state, next } => {
                named(prev.tid);
                named(next.tid);
                let since = running.insert(record.cpu, (next.tid, now)).map(|(_, since)| since);
                let runtime = threads.get_mut(&prev.tid).unwrap();
                match since {
                    // Each CPU has an idle task; all have the same id.
                    _ if prev.tid == 0 => {}
                    Some(since) => {
                        runtime.waited(since);
                        runtime.run += now - since;
                    }
                    // It ran, whatever an event before said.
                    None => runtime.first = now,
                }
                runtime.last_time = Some(now);
                runtime.last_state = match prev_state.bits() & 0xff {
                    0 => 'R',
                    bits if bits.trailing_zeros() == 1 => 'D',
                    _ => 'S',
                };
                runtime.ready_to_run = None;
                if runtime.exits && runtime.last_state != 'R' {
                    runtime.ended = Some(now);
                }
            }
            TraceKind::SchedWakeup(woken) | TraceKind::SchedWakeupNew(woken) => {
                named(woken.task.tid);
                let runtime = threads.get_mut(&woken.task.tid).unwrap();
                runtime.ready_to_run.get_or_insert(now);
                if matches!(record.kind(), TraceKind::SchedWakeupNew(_)) {
                    assert!(runtime.created.replace(now).is_none(), "an id came again");
                }
            }
            TraceKind::SchedProcessExit(task) => {
                named(task.tid);
                threads.get_mut(&task.tid).unwrap().exits = true;
            }
            _ => {}
        }
    }
    let end = document.to_ns;
    for (tid, since) in running.values().filter(|(tid, _)| *tid != 0) {
        let runtime = threads.get_mut(tid).unwrap();
        runtime.waited(*since);
        runtime.run += end - since;
        (runtime.last_time, runtime.ready_to_run) = (None, None);
    }
    threads.remove(&0);
    let found: BTreeMap<i32, &ThreadTimes> =
        document.threads.iter().map(|thread| (thread.tid, thread)).collect();
    let mut unseen = 0;
    for (tid, mut runtime) in threads {
        if runtime.ended.is_none() {
            runtime.waited(end);
        }
        let Some(thread) = found.get(&tid) else {
            assert_eq!(runtime.first, end, "{tid}");
            continue;
        };
        let states = &thread.states;
        assert_eq!(states.running_ns, runtime.run, "{tid} ran");
        assert_eq!(states.runnable_ns, runtime.delay + runtime.preempt, "{tid} was runnable");
        assert_eq!(states.uninterruptible_ns, runtime.iowait, "{tid} could not be woken");
        assert_eq!(states.sleeping_ns + states.stopped_ns, runtime.sleep, "{tid} slept");
        let ended = runtime.ended.unwrap_or(end);
        assert_eq!(thread.span_ns, ended - runtime.created.unwrap_or(document.from_ns), "{tid}");
        assert_eq!(states.sum_ns(), ended - runtime.first, "{tid}");
        assert_eq!(thread.unknown_ns, thread.span_ns - states.sum_ns(), "{tid}");
        unseen += thread.unknown_ns;
    }
    assert!(found.len() > 20 && unseen > 0, "{} threads", found.len());
    Ok(())
}

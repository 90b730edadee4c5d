//! What threads did: how long each ran, waited for a CPU, and slept.
//!
//! From switches and wake-ups, see [`crate::follow`]; waits for a CPU are those of the [delays](crate::delays). Not counted
//! are idle tasks, and what a thread did before the first event that says so, or between lost events and the next one that
//! says so again: that time is unknown, never guessed.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use crate::analysis::Analysis;
use crate::event::{Comm, Event, TraceKind};
use crate::follow::{
    Begin, MAX_CPUS, PassedStretch, ThreadSight, ThreadState, ThreadStep, ThreadStretch, steps,
};
use crate::ftrace::UnreadLines;
use crate::ids::Ids;
use crate::reach::Reach;
use crate::state::Left;
use crate::threads::MAX_TID;

/// States of threads in a recording. Times are in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatesDocument {
    /// Time of the first event, since the epoch of the trace's clock.
    pub from_ns: u64,
    /// Time of the last one.
    pub to_ns: u64,
    /// Events that were lost while recording.
    pub discarded: u64,
    /// CPUs that are not known from its begin to its end.
    #[serde(flatten)]
    pub reach: Reach,
    /// Those that ran longest first.
    pub threads: Vec<ThreadTimes>,
    /// Kinds of events that the recording has none of: without wake-ups, threads sleep until they run.
    pub missing: Vec<&'static str>,
    /// Lines of a text that could not be read, where they are more than 1 %: figures may be far off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_lines: Option<UnreadLines>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadTimes {
    pub tid: i32,
    pub comm: String,
    /// How long it was there: the sum of all that follows.
    pub span_ns: u64,
    #[serde(flatten)]
    pub states: StateTimes,
    pub unknown_ns: u64,
}

/// How long a thread was in each state that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateTimes {
    pub running_ns: u64,
    /// It waited for a CPU.
    pub runnable_ns: u64,
    pub sleeping_ns: u64,
    /// It slept for something that no signal ends, as a disk.
    pub uninterruptible_ns: u64,
    /// It was stopped by a signal or a debugger, or parked.
    pub stopped_ns: u64,
}

impl StateTimes {
    pub fn sum_ns(&self) -> u64 {
        let Self { running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns } = *self;
        let all = [running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns];
        all.into_iter().fold(0, u64::saturating_add)
    }

    fn add(&mut self, state: ThreadState, ns: u64) {
        let sum = match state {
            ThreadState::Running => &mut self.running_ns,
            ThreadState::Woken => &mut self.runnable_ns,
            ThreadState::Off(left_in) => match left_in.left() {
                Left::Runnable => &mut self.runnable_ns,
                Left::Asleep if left_in.waits_uninterruptibly() => &mut self.uninterruptible_ns,
                Left::Asleep if left_in.is_stopped() => &mut self.stopped_ns,
                Left::Asleep => &mut self.sleeping_ns,
                Left::Unknown => return,
            },
            ThreadState::Unseen | ThreadState::Gone => return,
        };
        *sum = sum.saturating_add(ns);
    }
}

#[derive(Debug, Default)]
struct TimedThread {
    comm: Comm,
    stretch: ThreadStretch,
    since_ns: Option<u64>,
    /// How long it, or another one with its id, was there before.
    there_ns: u64,
    states: StateTimes,
}

impl TimedThread {
    fn add(&mut self, passed: &PassedStretch, from_ns: u64) {
        let ns = passed.to_ns.saturating_sub(passed.from_ns.max(from_ns));
        self.states.add(passed.state, ns);
    }

    fn end(&mut self, now_ns: u64) {
        let ns = self.since_ns.take().map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.there_ns = self.there_ns.saturating_add(ns);
    }
}

/// Adds them up while events come in, in the order of time.
#[derive(Debug, Default)]
pub struct StatesOfThreads {
    threads: HashMap<i32, TimedThread>,
    /// Ids whose threads ended and were forgotten.
    gone: Ids,
    sight: ThreadSight,
    begin: Begin,
    from_ns: Option<u64>,
    to_ns: u64,
    reach: Reach,
    /// What was lost since the latest event: behind the last one it ends nothing.
    losses: Vec<Event<'static>>,
    has_switches: bool,
    has_wakeups: bool,
}

impl StatesOfThreads {
    /// Follows who is seen, and ends what a thread was doing of which nothing is seen any more.
    fn see(&mut self, event: &Event<'_>) {
        if let Some(thread) = self.sight.follow(event).and_then(|tid| self.threads.get_mut(&tid))
            && let Some(passed) = ThreadSight::lose_run(&mut thread.stretch, event)
        {
            thread.add(&passed, self.from_ns.unwrap_or(0));
        }
    }

    fn lose(&mut self) {
        for loss in std::mem::take(&mut self.losses) {
            self.see(&loss);
        }
    }

    /// After an exec, a thread has the id of its process's first thread.
    fn rename(&mut self, old_tid: i32, tid: i32, now_ns: u64, from_ns: u64) {
        let Some(old) = self.threads.get_mut(&old_tid) else { return };
        let passed = self.sight.until(&old.stretch, now_ns);
        old.add(&passed, from_ns);
        old.end(now_ns);
        let (mut stretch, comm) = (std::mem::take(&mut old.stretch), old.comm);
        stretch.since_ns = now_ns;
        if (1..MAX_TID).contains(&tid) {
            let thread = self.threads.entry(tid).or_default();
            (thread.stretch, thread.comm) = (stretch, comm);
            thread.since_ns.get_or_insert(now_ns);
        }
    }
}

impl Analysis for StatesOfThreads {
    type Document = StatesDocument;

    fn new(begin: Begin) -> Self {
        Self { begin, ..Self::default() }
    }

    fn follow(&mut self, event: &Event<'_>) {
        let now_ns = event.time_ns;
        if let TraceKind::Lost(loss) = &event.kind {
            self.reach.follow(now_ns, event.cpu, Some(loss));
            self.losses.push(Event {
                time_ns: now_ns,
                cpu: event.cpu,
                kind: TraceKind::Lost(*loss),
            });
            if self.losses.len() >= MAX_CPUS {
                self.lose();
            }
            return;
        }
        self.reach.follow(now_ns, event.cpu, None);
        let from_ns = *self.from_ns.get_or_insert(now_ns);
        self.to_ns = now_ns;
        self.lose();
        self.see(event);
        for (task, step, cpu) in steps(event, self.begin) {
            self.has_switches |= step == ThreadStep::Runs;
            self.has_wakeups |= step == ThreadStep::Wakes;
            if !(1..MAX_TID).contains(&task.tid) {
                continue;
            }
            let thread = self.threads.entry(task.tid).or_default();
            if task.comm != Comm::default() {
                thread.comm = task.comm;
            }
            let is_other = self.gone.remove(task.tid) || thread.stretch.state == ThreadState::Gone;
            // What is known of one that is new is of another thread, whose end was not seen.
            if step == ThreadStep::Begins {
                thread.end(now_ns);
            }
            let is_born = step == ThreadStep::Begins || is_other;
            thread.since_ns.get_or_insert(if is_born { now_ns } else { from_ns });
            let passed = self.sight.step(&mut thread.stretch, (step, cpu), now_ns);
            if let Some(passed) = passed.and_then(|passed| known(passed, step, self.begin)) {
                thread.add(&passed, from_ns);
            }
            if thread.stretch.state == ThreadState::Gone {
                thread.end(now_ns);
            }
        }
        if let TraceKind::SchedProcessExec { tid, old_tid, .. } = &event.kind
            && old_tid != tid
        {
            self.rename(*old_tid, *tid, now_ns, from_ns);
        }
    }

    fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.gone.insert(tid);
    }

    /// What threads do at that time is known.
    fn begin(&mut self, from_ns: u64) {
        self.reach.begin(from_ns);
        // A recording has no time before its first event.
        if self.from_ns.is_none() {
            return;
        }
        self.from_ns = Some(from_ns);
        self.to_ns = self.to_ns.max(from_ns);
        for thread in self.threads.values_mut() {
            (thread.states, thread.there_ns) = (StateTimes::default(), 0);
            thread.since_ns = thread.since_ns.map(|since_ns| since_ns.max(from_ns));
        }
    }

    fn finish(
        self,
        wants: impl Fn(i32) -> bool,
        unread_lines: Option<UnreadLines>,
    ) -> StatesDocument {
        let (from_ns, to_ns) = (self.from_ns.unwrap_or(0), self.to_ns);
        let mut threads = Vec::new();
        for (tid, mut thread) in self.threads {
            if thread.since_ns.is_some() {
                let passed = self.sight.until(&thread.stretch, to_ns);
                if !(passed.is_woken && self.begin == Begin::Waking) {
                    thread.add(&passed, from_ns);
                }
                thread.end(to_ns);
            }
            let TimedThread { comm, there_ns: span_ns, states, .. } = thread;
            let unknown_ns = span_ns.saturating_sub(states.sum_ns());
            if span_ns > 0 && wants(tid) {
                threads.push(ThreadTimes {
                    tid,
                    comm: comm.to_string(),
                    span_ns,
                    states,
                    unknown_ns,
                });
            }
        }
        threads.sort_by_key(|thread| (Reverse(thread.states.running_ns), thread.tid));
        let kinds = [("sched_switch", self.has_switches), ("sched_wakeup", self.has_wakeups)];
        let missing = kinds.into_iter().filter(|(_, is_there)| !is_there).map(|(kind, _)| kind);
        let (discarded, reach, missing) = (self.reach.discarded(), self.reach, missing.collect());
        StatesDocument { from_ns, to_ns, discarded, reach, threads, missing, unread_lines }
    }
}

/// A stretch that ended with a step, where that is what ends such a one: else the event that ended it is missing.
fn known(passed: PassedStretch, step: ThreadStep, begin: Begin) -> Option<PassedStretch> {
    let is_doubtful = passed.is_woken && begin == Begin::Waking;
    if passed.is_lost {
        return Some(passed).filter(|_| !is_doubtful);
    }
    let is_end = matches!(
        (passed.state, step),
        (ThreadState::Running, ThreadStep::Leaves(_))
            | (ThreadState::Woken, ThreadStep::Runs)
            | (ThreadState::Off(_), ThreadStep::Runs | ThreadStep::Wakes)
    );
    // Nothing else has woken it.
    let state = match step {
        ThreadStep::Runs if is_doubtful => ThreadState::Woken,
        _ => passed.state,
    };
    is_end.then_some(PassedStretch { state, ..passed })
}

#[cfg(test)]
mod tests;

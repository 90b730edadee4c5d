//! Which events are wanted: by time, by thread, by process.

use std::collections::BTreeSet;

use crate::event::{Event, Kind};
use crate::threads::Threads;

/// A thread or a process, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// By its id.
    Id(i32),
    /// By its name.
    Named(String),
}

impl Who {
    /// An id where it is a number, else a name.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Named(text.to_owned()), Self::Id)
    }

    fn is_thread(&self, tid: i32, threads: &Threads) -> bool {
        match self {
            Self::Id(id) => tid == *id,
            Self::Named(name) => {
                let name = &name.as_bytes()[..name.len().min(15)];
                // Of the idle tasks each CPU has its own, which no trace lists.
                threads.get(tid).is_some_and(|thread| thread.comm.bytes() == name)
            }
        }
    }

    fn is_process_of(&self, tid: i32, threads: &Threads) -> bool {
        let pid = threads.get(tid).map(|thread| thread.pid).filter(|pid| *pid != 0).unwrap_or(tid);
        self.is_thread(pid, threads)
    }
}

/// What is wanted. An event is of a thread where that runs on the event's CPU, or where the event names it:
/// as the one that is woken, switched to or away from, created …
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// Not before, nanoseconds since the epoch.
    pub from_ns: Option<u64>,
    /// Not after.
    pub to_ns: Option<u64>,
    /// Of this thread only.
    pub thread: Option<Who>,
    /// Of threads of this process only.
    pub process: Option<Who>,
    /// What is known of threads so far.
    pub threads: Threads,
}

impl Select {
    /// Whether threads are to be followed, from the begin of the trace on.
    pub fn follows(&self) -> bool {
        self.thread.is_some() || self.process.is_some()
    }

    /// Whether nothing that comes from here on is wanted.
    pub fn is_over(&self, time_ns: u64) -> bool {
        self.to_ns.is_some_and(|to_ns| time_ns > to_ns)
    }

    /// Whether an event is wanted. All events must pass, in their order.
    pub fn wants(&mut self, event: &Event<'_>) -> bool {
        let is_late = self.from_ns.is_none_or(|from_ns| event.time_ns >= from_ns);
        if !self.follows() {
            return is_late && !self.is_over(event.time_ns);
        }
        let before = self.threads.current(event.cpu);
        // A thread that goes has its name until then, one that comes has it from then on.
        let was_of = is_late && self.is_of(event, before);
        self.threads.follow(event);
        let is_wanted = was_of || (is_late && self.is_of(event, before));
        is_wanted && !self.is_over(event.time_ns)
    }

    /// Follows an event, and notes which of the threads that it is about are wanted, whatever the time.
    pub fn note(&mut self, event: &Event<'_>, wanted: &mut BTreeSet<i32>) {
        self.threads.follow(event);
        for tid in about(event, self.threads.current(event.cpu)).into_iter().flatten() {
            if self.wants_thread(tid) {
                wanted.insert(tid);
            }
        }
    }

    /// Whether a thread is wanted, by what is known of it so far.
    pub fn wants_thread(&self, tid: i32) -> bool {
        self.thread.as_ref().is_none_or(|who| who.is_thread(tid, &self.threads))
            && self.process.as_ref().is_none_or(|who| who.is_process_of(tid, &self.threads))
    }

    fn is_of(&self, event: &Event<'_>, current: Option<i32>) -> bool {
        if matches!(event.kind, Kind::Lost(_)) {
            return true;
        }
        about(event, current).into_iter().flatten().any(|tid| self.wants_thread(tid))
    }
}

/// The threads that an event is about: the one that runs, and those that it names.
fn about(event: &Event<'_>, current: Option<i32>) -> [Option<i32>; 3] {
    let [one, other] = named_by(&event.kind);
    [current, one, other]
}

/// The threads that an event names.
fn named_by(kind: &Kind<'_>) -> [Option<i32>; 2] {
    match kind {
        Kind::SchedSwitch { prev, next, .. } => [Some(prev.tid), Some(next.tid)],
        Kind::SchedWaking(woken) | Kind::SchedWakeup(woken) | Kind::SchedWakeupNew(woken) => {
            [Some(woken.task.tid), None]
        }
        Kind::SchedMigrateTask { task, .. }
        | Kind::SchedProcessExit(task)
        | Kind::SchedProcessFree(task) => [Some(task.tid), None],
        Kind::SchedProcessFork { parent, child, .. } => [Some(parent.tid), Some(child.tid)],
        Kind::SchedProcessExec { tid, .. } => [Some(*tid).filter(|tid| *tid != 0), None],
        Kind::StatedumpProcess(dumped) => [Some(dumped.tid), None],
        Kind::BlockRqInsert(request)
        | Kind::BlockRqIssue(request)
        | Kind::BlockRqRequeue(request) => [Some(request.tid).filter(|tid| *tid != 0), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Comm, Dumped, Task, Woken};

    fn task(name: &str, tid: i32) -> Task {
        Task { comm: Comm::new(name.as_bytes()), tid, prio: 0 }
    }

    /// Which of a few events are wanted: a switch to 5 (of process 4), a wake-up of 6, an event of its own,
    /// a switch to 6.
    fn wanted(select: Select) -> Vec<u64> {
        let mut select = select;
        let dumped = |tid, pid, name: &str| {
            Kind::StatedumpProcess(Dumped { tid, pid, ppid: 1, comm: Comm::new(name.as_bytes()) })
        };
        let switch = |prev, next| Kind::SchedSwitch { prev, prev_state: 0, next };
        let kinds = [
            dumped(4, 4, "main"),
            dumped(5, 4, "worker"),
            switch(task("idle", 0), task("worker", 5)),
            Kind::SchedWaking(Woken { task: task("other", 6), target_cpu: 1 }),
            Kind::Other("syscall_entry_read"),
            switch(task("worker", 5), task("other", 6)),
            Kind::Other("syscall_entry_write"),
        ];
        let events = (0..).zip(kinds).map(|(time_ns, kind)| Event { time_ns, cpu: 0, kind });
        events.filter(|event| select.wants(event)).map(|event| event.time_ns).collect()
    }

    #[test]
    fn events_are_of_who_runs_and_of_who_is_named() {
        let thread = |text: &str| Select { thread: Some(Who::parse(text)), ..Select::default() };
        assert_eq!(wanted(thread("5")), [1, 2, 3, 4, 5]);
        assert_eq!(wanted(thread("worker")), [1, 2, 3, 4, 5]);
        assert_eq!(wanted(thread("other")), [3, 5, 6]);
        assert_eq!(wanted(thread("7")), [0; 0]);
        let process = |text: &str| Select { process: Some(Who::parse(text)), ..Select::default() };
        assert_eq!(wanted(process("4")), [0, 1, 2, 3, 4, 5]);
        assert_eq!(wanted(process("main")), [0, 1, 2, 3, 4, 5]);
        let both = Select { from_ns: Some(4), to_ns: Some(5), ..thread("5") };
        assert_eq!(wanted(both), [4, 5]);
        assert_eq!(wanted(Select { from_ns: Some(5), ..Select::default() }), [5, 6]);
    }
}

//! Which events are wanted: by time, by thread, by process, by cgroup.

use std::collections::BTreeSet;

use crate::event::{Event, TraceKind};
use crate::events;
use crate::threads::Threads;

/// A thread or a process, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadOrProcess {
    Id(i32),
    Named(String),
}

impl ThreadOrProcess {
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

    /// Whether that is a thread of the process.
    pub fn is_process_of(&self, tid: i32, threads: &Threads) -> bool {
        let pid = threads.get(tid).map(|thread| thread.pid).filter(|pid| *pid != 0).unwrap_or(tid);
        self.is_thread(pid, threads)
    }
}

/// A cgroup, as it is asked for: with all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Names of folders, one below the other.
    names: Vec<String>,
    /// The first is right below the root.
    is_from_root: bool,
}

impl Cgroup {
    /// A path from the root, as in /proc/PID/cgroup or below /sys/fs/cgroup, or the last part of one.
    pub fn parse(text: &str) -> Self {
        let path = text.strip_prefix("/sys/fs/cgroup").unwrap_or(text);
        let names = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { names, is_from_root: text.starts_with('/') }
    }

    fn holds(&self, path: &[u8]) -> bool {
        let mut folders = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        loop {
            let mut here = folders.clone();
            if self.names.iter().all(|name| here.next() == Some(name.as_bytes())) {
                return true;
            }
            if self.is_from_root || folders.next().is_none() {
                return false;
            }
        }
    }
}

/// What is wanted. An event is of a thread where that runs on the event's CPU, or where the event names it:
/// as the one that is woken, switched to or away from, created …
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// Not before, nanoseconds since the epoch.
    pub from_ns: Option<u64>,
    pub to_ns: Option<u64>,
    pub thread: Option<ThreadOrProcess>,
    pub process: Option<ThreadOrProcess>,
    pub cgroup: Option<Cgroup>,
    pub threads: Threads,
}

impl Select {
    pub fn is_part(&self) -> bool {
        self.follows() || self.from_ns.is_some() || self.to_ns.is_some()
    }

    /// Whether threads are to be followed, from the begin of the trace on.
    pub fn follows(&self) -> bool {
        self.thread.is_some() || self.process.is_some() || self.cgroup.is_some()
    }

    /// Whether a cgroup is wanted, and no event so far said which one a thread is in.
    pub fn lacks_cgroups(&self) -> bool {
        self.cgroup.is_some() && !self.threads.have_cgroups()
    }

    /// Whether nothing that comes from here on is wanted.
    pub fn is_over(&self, time_ns: u64) -> bool {
        self.to_ns.is_some_and(|to_ns| time_ns > to_ns)
    }

    /// Whether what happens at a time is wanted, whoever it is about.
    pub fn is_in_time(&self, time_ns: u64) -> bool {
        self.from_ns.is_none_or(|from_ns| time_ns >= from_ns) && !self.is_over(time_ns)
    }

    /// Whether an event is wanted. All events must pass, in their order.
    pub fn wants(&mut self, event: &Event<'_>) -> bool {
        let is_in_time = self.is_in_time(event.time_ns);
        if !self.follows() {
            return is_in_time;
        }
        let before = self.threads.current(event.cpu);
        // A thread that goes has its name until then, one that comes has it from then on.
        let was_of = is_in_time && self.is_of(event, before);
        self.threads.follow(event);
        was_of || (is_in_time && self.is_of(event, before))
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
            && self.cgroup.as_ref().is_none_or(|cgroup| {
                self.threads.cgroup(tid).is_some_and(|path| cgroup.holds(path))
            })
    }

    fn is_of(&self, event: &Event<'_>, current: Option<i32>) -> bool {
        if matches!(event.kind, TraceKind::Lost(_)) {
            return true;
        }
        about(event, current).into_iter().flatten().any(|tid| self.wants_thread(tid))
    }
}

/// The threads that an event is about: the one that runs, and those that it names.
pub fn about(event: &Event<'_>, current: Option<i32>) -> [Option<i32>; 3] {
    let [one, other] = events::threads(&event.kind);
    [current, one, other]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Comm, Dumped, Task, Woken};
    use crate::state::LeftIn;

    fn task(name: &str, tid: i32) -> Task {
        Task { comm: Comm::new(name.as_bytes()), tid, prio: 0 }
    }

    /// Which of a few events are wanted: a switch to 5 (of process 4), a wake-up of 6, an event of its own,
    /// a switch to 6.
    fn wanted(select: Select) -> Vec<u64> {
        let mut select = select;
        let dumped = |tid, pid, name: &str| {
            TraceKind::StatedumpProcess(Dumped {
                tid,
                pid,
                ppid: 1,
                comm: Comm::new(name.as_bytes()),
            })
        };
        let switch = |prev, next| TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(0), next };
        let kinds = [
            dumped(4, 4, "main"),
            dumped(5, 4, "worker"),
            switch(task("idle", 0), task("worker", 5)),
            TraceKind::SchedWaking(Woken { task: task("other", 6), target_cpu: 1 }),
            TraceKind::Other("syscall_entry_read"),
            switch(task("worker", 5), task("other", 6)),
            TraceKind::Other("syscall_entry_write"),
        ];
        let events = (0..).zip(kinds).map(|(time_ns, kind)| Event { time_ns, cpu: 0, kind });
        events.filter(|event| select.wants(event)).map(|event| event.time_ns).collect()
    }

    #[test]
    fn events_are_of_who_runs_and_of_who_is_named() {
        let thread =
            |text: &str| Select { thread: Some(ThreadOrProcess::parse(text)), ..Select::default() };
        assert_eq!(wanted(thread("5")), [1, 2, 3, 4, 5]);
        assert_eq!(wanted(thread("worker")), [1, 2, 3, 4, 5]);
        assert_eq!(wanted(thread("other")), [3, 5, 6]);
        assert_eq!(wanted(thread("7")), [0; 0]);
        let process = |text: &str| Select {
            process: Some(ThreadOrProcess::parse(text)),
            ..Select::default()
        };
        assert_eq!(wanted(process("4")), [0, 1, 2, 3, 4, 5]);
        assert_eq!(wanted(process("main")), [0, 1, 2, 3, 4, 5]);
        let both = Select { from_ns: Some(4), to_ns: Some(5), ..thread("5") };
        assert_eq!(wanted(both), [4, 5]);
        assert_eq!(wanted(Select { from_ns: Some(5), ..Select::default() }), [5, 6]);
    }

    #[test]
    fn a_thread_that_is_not_known_is_not_the_idle_task() {
        let mut select = Select { thread: Some(ThreadOrProcess::parse("0")), ..Select::default() };
        let unknown = Woken { task: task("", 0), target_cpu: 1 };
        let kinds = [
            TraceKind::SchedSwitch {
                prev: task("idle", 0),
                prev_state: LeftIn::of(0),
                next: task("worker", 5),
            },
            TraceKind::SchedWaking(unknown),
            TraceKind::SchedProcessWait { comm: Comm::default(), child: 0, prio: 0 },
            TraceKind::SchedSwitch {
                prev: task("worker", 5),
                prev_state: LeftIn::of(0),
                next: task("idle", 0),
            },
        ];
        let events = (0..).zip(kinds).map(|(time_ns, kind)| Event { time_ns, cpu: 0, kind });
        let wanted: Vec<u64> =
            events.filter(|event| select.wants(event)).map(|event| event.time_ns).collect();
        assert_eq!(wanted, [0, 3]);
    }

    #[test]
    fn cgroups_are_wanted_with_all_below_them() {
        let attach =
            |tid, path: &'static str| TraceKind::CgroupAttach { tid, path: path.as_bytes() };
        let fork = TraceKind::SchedProcessFork {
            parent: task("a", 5),
            parent_pid: 5,
            child: task("b", 6),
            child_pid: 6,
        };
        let wake = |tid| TraceKind::SchedWaking(Woken { task: task("x", tid), target_cpu: 1 });
        let kinds = [
            attach(4, "/system.slice/nginx.service"),
            attach(5, "/system.slice/nginx.service/workers"),
            attach(7, "/system.slice"),
            fork,
            wake(6),
            attach(6, "/user.slice"),
            wake(6),
        ];
        let wanted = |text: &str| -> Vec<u64> {
            let cgroup = Some(Cgroup::parse(text));
            let mut select = Select { cgroup, ..Select::default() };
            let events = (0..).zip(kinds).map(|(time_ns, kind)| Event { time_ns, cpu: 0, kind });
            events.filter(|event| select.wants(event)).map(|event| event.time_ns).collect()
        };
        assert_eq!(wanted("nginx.service"), [0, 1, 3, 4, 5]);
        assert_eq!(wanted("/sys/fs/cgroup/system.slice/nginx.service/"), [0, 1, 3, 4, 5]);
        assert_eq!(wanted("nginx.service/workers"), [1, 3, 4, 5]);
        assert_eq!(wanted("/nginx.service"), [0; 0]);
        assert_eq!(wanted("/user.slice"), [5, 6]);
        assert_eq!(wanted("/"), [0, 1, 2, 3, 4, 5, 6]);
        // A thread without one of its own is where its process's first thread is, as is what it creates.
        let thread =
            TraceKind::StatedumpProcess(Dumped { tid: 5, pid: 4, ppid: 1, comm: Comm::new(b"a") });
        let cgroup = Some(Cgroup::parse("nginx.service"));
        let mut select = Select { cgroup, ..Select::default() };
        let fork = TraceKind::SchedProcessFork {
            parent: task("a", 5),
            parent_pid: 4,
            child: task("b", 6),
            child_pid: 6,
        };
        let kinds = [attach(4, "/nginx.service"), thread, fork, wake(5), wake(6), wake(7)];
        let wanted = kinds.map(|kind| select.wants(&Event { time_ns: 0, cpu: 0, kind }));
        assert_eq!(wanted, [true, true, true, true, true, false]);
        let select = Select { cgroup: Some(Cgroup::parse("a")), ..Select::default() };
        assert!(select.lacks_cgroups() && !Select::default().lacks_cgroups());
    }
}

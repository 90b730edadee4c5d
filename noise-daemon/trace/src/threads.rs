//! Who is who while a trace is read: the thread that runs on each CPU, names, and processes.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::event::{Comm, Event, Task, TraceKind};
use crate::follow::{PerCpu, Processor};

/// Thread ids that the kernel gives are below (`PID_MAX_LIMIT`); others are not followed.
pub const MAX_TID: i32 = 1 << 22;
/// Threads that ended, and are known until the kernel frees them, which not every recording says.
const MAX_ENDED: usize = 65_536;
/// Cgroups whose paths are kept, and the longest path.
const MAX_CGROUPS: usize = 65_536;
const MAX_PATH_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub comm: Comm,
    /// Its process; 0 where the trace does not say.
    pub pid: i32,
    /// Whether its end was seen. Its id may come again for another one.
    pub has_ended: bool,
    /// Place of its cgroup's path in [`Threads`], from 1 on; 0 where the trace does not say.
    cgroup: u32,
}

/// Threads by their ids, and what runs where.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    known: HashMap<i32, Thread>,
    /// By process, how many threads it has beside its first.
    others: HashMap<i32, u32>,
    /// Those that ended, the first ones first.
    ended: VecDeque<i32>,
    cpus: PerCpu<Processor>,
    /// Paths of cgroups, and their places by path.
    cgroups: Vec<Box<[u8]>>,
    places: HashMap<Box<[u8]>, u32>,
}

impl Threads {
    pub fn get(&self, tid: i32) -> Option<&Thread> {
        self.known.get(&tid)
    }

    /// The thread that runs on a CPU by the latest switch, whatever was lost since.
    pub fn current(&self, cpu: u32) -> Option<i32> {
        self.cpus.get(cpu)?.latest()
    }

    /// The thread that runs on a CPU, where that is certain.
    pub fn certain(&self, cpu: u32) -> Option<i32> {
        self.cpus.get(cpu)?.current()
    }

    /// The thread of a process that has one alone, as far as is known.
    pub fn only_thread(&self, pid: i32) -> Option<i32> {
        (self.known.contains_key(&pid) && !self.others.contains_key(&pid)).then_some(pid)
    }

    /// The path of a thread's cgroup, where that is known.
    pub fn cgroup(&self, tid: i32) -> Option<&[u8]> {
        let place = self.place(tid).checked_sub(1)?;
        self.cgroups.get(place as usize).map(|path| &**path)
    }

    /// The place of a thread's cgroup: its own or, where the trace does not say, that of its process's first thread.
    fn place(&self, tid: i32) -> u32 {
        let Some(thread) = self.known.get(&tid) else { return 0 };
        match thread.cgroup {
            0 => self.known.get(&thread.pid).map_or(0, |first| first.cgroup),
            place => place,
        }
    }

    /// Whether a cgroup of any thread is known.
    pub fn have_cgroups(&self) -> bool {
        !self.cgroups.is_empty()
    }

    fn attach(&mut self, tid: i32, path: &[u8]) {
        let place = match self.places.get(path) {
            Some(place) => *place,
            None if self.cgroups.len() < MAX_CGROUPS && path.len() <= MAX_PATH_BYTES => {
                self.cgroups.push(path.into());
                let place = self.cgroups.len() as u32;
                self.places.insert(path.into(), place);
                place
            }
            None => 0,
        };
        if let Some(thread) = self.thread(tid) {
            thread.cgroup = place;
        }
    }

    fn thread(&mut self, tid: i32) -> Option<&mut Thread> {
        (1..MAX_TID).contains(&tid).then(|| self.known.entry(tid).or_default())
    }

    /// Notes the process of a thread, in the place of the one that it had.
    fn belongs(&mut self, tid: i32, pid: i32) {
        let Some(thread) = self.thread(tid) else { return };
        let before = std::mem::replace(&mut thread.pid, pid);
        self.leaves(tid, before);
        if pid != tid && pid != 0 {
            *self.others.entry(pid).or_default() += 1;
        }
    }

    /// A thread is of that process no more.
    fn leaves(&mut self, tid: i32, pid: i32) {
        if pid == tid || pid == 0 {
            return;
        }
        if let Some(count) = self.others.get_mut(&pid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.others.remove(&pid);
                if self.known.get(&pid).is_some_and(|first| first.has_ended) {
                    self.ended.push_back(pid);
                }
            }
        }
    }

    fn forget(&mut self, tid: i32) -> Option<Thread> {
        let thread = self.known.remove(&tid)?;
        self.leaves(tid, thread.pid);
        Some(thread)
    }

    fn ends(&mut self, tid: i32) {
        let Some(thread) = self.thread(tid).filter(|thread| !thread.has_ended) else { return };
        thread.has_ended = true;
        // While others of its process go on, it is known what that is called.
        if !self.others.contains_key(&tid) {
            self.ended.push_back(tid);
        }
        while self.ended.len() > MAX_ENDED
            && let Some(first) = self.ended.pop_front()
        {
            if self.known.get(&first).is_some_and(|thread| thread.has_ended) {
                self.forget(first);
            }
        }
    }

    fn named(&mut self, task: &Task) {
        if let Some(thread) = self.thread(task.tid)
            && task.comm != Comm::default()
        {
            thread.comm = task.comm;
        }
    }

    /// Follows an event that says who runs.
    fn runs(&mut self, event: &Event<'_>) {
        if let Some(cpu) = self.cpus.of(event.cpu) {
            cpu.follow(event);
        }
    }

    pub fn follow(&mut self, event: &Event<'_>) {
        match &event.kind {
            TraceKind::SchedSwitch { prev, prev_state, next } => {
                self.named(prev);
                self.named(next);
                self.runs(event);
                if prev_state.has_ended() {
                    self.ends(prev.tid);
                }
            }
            TraceKind::Lost(_) => self.runs(event),
            TraceKind::SchedWaking(woken) | TraceKind::SchedWakeup(woken) => {
                self.named(&woken.task)
            }
            TraceKind::SchedWakeupNew(woken) => {
                self.named(&woken.task);
                // The fork that gave the id again may be lost.
                if let Some(thread) = self.thread(woken.task.tid) {
                    thread.has_ended = false;
                }
            }
            TraceKind::SchedProcessFork { parent, parent_pid, child, child_pid } => {
                self.named(parent);
                if *parent_pid != 0 {
                    self.belongs(parent.tid, *parent_pid);
                }
                let cgroup = self.place(parent.tid);
                // An id that is given again is another thread.
                self.belongs(child.tid, *child_pid);
                if let Some(thread) = self.thread(child.tid) {
                    let (comm, has_ended) = (child.comm, false);
                    *thread = Thread { comm, has_ended, cgroup, ..*thread };
                }
            }
            TraceKind::StatedumpProcess(dumped) => {
                self.belongs(dumped.tid, dumped.pid);
                if let Some(thread) = self.thread(dumped.tid) {
                    // The dump reads names while threads run on; what a switch said is as new.
                    if thread.comm == Comm::default() {
                        thread.comm = dumped.comm;
                    }
                }
            }
            TraceKind::SchedProcessFree(task) => {
                self.forget(task.tid);
            }
            // One that was not its process's first thread has that one's id from then on.
            TraceKind::SchedProcessExec { tid, old_tid, .. } if *old_tid > 0 && old_tid != tid => {
                if let Some(before) = self.forget(*old_tid) {
                    self.belongs(*tid, before.pid);
                    if let Some(thread) = self.thread(*tid) {
                        *thread = before;
                    }
                }
                self.runs(event);
            }
            TraceKind::SchedProcessExit(task) => {
                self.named(task);
                self.ends(task.tid);
            }
            TraceKind::CgroupAttach { tid, path } => self.attach(*tid, path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Dumped;
    use crate::fixtures::{switch, task, wakeup};

    #[test]
    fn a_process_of_one_thread_is_known_whatever_comes_and_goes() {
        let mut threads = Threads::default();
        let mut only = |kind: TraceKind<'_>| {
            threads.follow(&Event { time_ns: 0, cpu: 0, kind });
            // As it is counted where all are looked at.
            let is_other = |(tid, thread): (&i32, &Thread)| thread.pid == 5 && *tid != 5;
            let expected = threads.known.contains_key(&5) && !threads.known.iter().any(is_other);
            assert_eq!(threads.only_thread(5), expected.then_some(5), "{kind:?}");
            expected
        };
        let dumped =
            |tid, pid| TraceKind::StatedumpProcess(Dumped { tid, pid, ..Dumped::default() });
        let fork = |parent, parent_pid, child, child_pid| TraceKind::SchedProcessFork {
            parent: task(parent),
            parent_pid,
            child: task(child),
            child_pid,
        };
        let exec = |old_tid, tid| TraceKind::SchedProcessExec { filename: b"x", tid, old_tid };
        for (kind, expected) in [
            (dumped(5, 5), true),
            (dumped(6, 5), false),
            (dumped(6, 5), false),
            (fork(5, 5, 7, 5), false),
            (TraceKind::SchedProcessFree(task(6)), false),
            (fork(5, 5, 7, 7), true),
            (fork(5, 5, 8, 5), false),
            // It takes the place of the first.
            (exec(8, 5), true),
            (fork(5, 5, 9, 5), false),
            (TraceKind::SchedProcessFree(task(9)), true),
            (fork(5, 5, MAX_TID, 5), true),
            (TraceKind::SchedProcessFree(task(5)), false),
        ] {
            assert_eq!(only(kind), expected, "{kind:?}");
        }
        assert!(threads.others.is_empty());
    }

    #[test]
    fn threads_that_ended_are_forgotten_where_no_event_says_that_they_are_freed() {
        let mut threads = Threads::default();
        let most = i32::try_from(MAX_ENDED).unwrap();
        let mut follow = |kind| threads.follow(&Event { time_ns: 0, cpu: 0, kind });
        for tid in 1..=2 * most {
            let end = match tid % 2 {
                0 => TraceKind::SchedProcessExit(task(tid)),
                _ => switch(tid, 0x20, 0),
            };
            follow(wakeup(tid, 0));
            follow(end);
        }
        follow(wakeup(2 * most + 1, 0));
        assert_eq!(threads.known.len(), MAX_ENDED + 1);
        assert!(threads.get(most).is_none() && threads.get(most + 1).is_some());
    }

    #[test]
    fn the_first_thread_of_a_process_that_goes_on_is_known_after_its_end() {
        let most = i32::try_from(MAX_ENDED).unwrap();
        let dumped = Dumped { tid: 2, pid: 1, ..Dumped::default() };
        let mut threads = Threads::default();
        let mut follow = |kind| threads.follow(&Event { time_ns: 0, cpu: 0, kind });
        follow(TraceKind::StatedumpProcess(dumped));
        (1..=1 + 2 * most).filter(|tid| *tid != 2).for_each(|tid| {
            follow(TraceKind::SchedProcessExit(task(tid)));
        });
        assert!(threads.get(1).is_some() && threads.get(3).is_none());
        // Once all of it has ended, it is one of those.
        for tid in [2].into_iter().chain(3..=3 + 4 * most) {
            threads.follow(&Event {
                time_ns: 0,
                cpu: 0,
                kind: TraceKind::SchedProcessExit(task(tid)),
            });
        }
        assert!(threads.get(1).is_none() && threads.get(2).is_none());
    }
}

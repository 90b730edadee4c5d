//! Switches whose other half is missing, although no event was lost.
//!
//! What a switch takes a CPU from is what the switch before gave it to. Where it is not, the switch away from that thread
//! is not recorded. On some kernels neither BPF programs nor ftrace are called while certain threads run, those
//! of process 1 for example: the switches to such a thread are recorded, and none away from it is. Recordings of single
//! processes lack such halves, too.
//!
//! Not counted are switches at places where events were lost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::Serialize;

use crate::crowd::MOST_THREADS;
use crate::event::{Comm, Event, TraceKind};
use crate::follow::{PerCpu, Processor};
use crate::threads::MAX_TID;

/// Threads that are counted each.
const MAX_THREADS: usize = 65_536;
/// So many switches to a thread, and none away from it, show that it is hidden: a single one may be an accident.
const ENOUGH: u64 = 2;

/// A thread that a CPU was given to, and that no switch took it from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnpairedThread {
    pub tid: i32,
    pub comm: String,
    /// Its process, where the trace says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub count: u64,
    /// No switch away from it is in the trace.
    #[serde(rename = "hidden")]
    pub is_hidden: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnpairedSwitches {
    /// All switches.
    pub switches: u64,
    /// Those of them that take a CPU from another thread than the one that had got it.
    pub count: u64,
    /// The same by CPU.
    pub cpus: BTreeMap<u32, u64>,
    /// By the thread that had got the CPU; the most frequent first.
    pub threads: Vec<UnpairedThread>,
}

#[derive(Clone, Debug, Default)]
struct SwitchedCpu {
    processor: Processor,
    /// The name of the thread that has got it.
    comm: Comm,
    unpaired: u64,
    idle_unpaired: u64,
    has_left_idle: bool,
}

/// Follows all switches of a trace.
#[derive(Clone, Debug, Default)]
pub struct SwitchPairs {
    from_ns: u64,
    switches: u64,
    cpus: PerCpu<SwitchedCpu>,
    unpaired: HashMap<i32, (Comm, u64)>,
    /// A bit for each thread id: whether a switch away from such a thread was seen.
    left: Vec<u64>,
    /// Processes by thread.
    processes: HashMap<i32, i32>,
}

impl SwitchPairs {
    /// Only switches from that time on are counted.
    pub fn since(from_ns: u64) -> Self {
        Self { from_ns, ..Self::default() }
    }

    /// Whether an event of this kind says something about switches.
    pub const fn is_followed(kind: &TraceKind<'_>) -> bool {
        matches!(
            kind,
            TraceKind::SchedSwitch { .. }
                | TraceKind::SchedProcessExec { .. }
                | TraceKind::SchedProcessFork { .. }
                | TraceKind::StatedumpProcess(_)
                | TraceKind::Lost(_)
        )
    }

    /// Takes the next event.
    pub fn follow(&mut self, event: &Event<'_>) {
        match &event.kind {
            TraceKind::SchedSwitch { .. } => self.switch(event),
            TraceKind::SchedProcessExec { .. } | TraceKind::Lost(_) => {
                if let Some(cpu) = self.cpus.of(event.cpu) {
                    cpu.processor.follow(event);
                }
            }
            TraceKind::SchedProcessFork { child, child_pid, .. } => {
                self.belongs(child.tid, *child_pid);
            }
            TraceKind::StatedumpProcess(dumped) => self.belongs(dumped.tid, dumped.pid),
            _ => {}
        }
    }

    fn belongs(&mut self, tid: i32, pid: i32) {
        let has_room = self.processes.len() < MOST_THREADS as usize;
        if (1..MAX_TID).contains(&tid) && pid > 0 && (has_room || self.processes.contains_key(&tid))
        {
            self.processes.insert(tid, pid);
        }
    }

    fn switch(&mut self, event: &Event<'_>) {
        let TraceKind::SchedSwitch { prev, next, .. } = &event.kind else { return };
        let is_counted = event.time_ns >= self.from_ns;
        self.switches += u64::from(is_counted);
        if prev.tid > 0 {
            self.leaves(prev.tid);
        }
        let Some(cpu) = self.cpus.of(event.cpu) else { return };
        cpu.has_left_idle |= prev.tid == 0;
        let unpaired = cpu.processor.unpaired(prev.tid).filter(|_| is_counted);
        cpu.processor.follow(event);
        let comm = std::mem::replace(&mut cpu.comm, next.comm);
        let Some(tid) = unpaired else { return };
        cpu.unpaired += 1;
        if tid == 0 {
            cpu.idle_unpaired += 1;
        } else if self.unpaired.len() < MAX_THREADS || self.unpaired.contains_key(&tid) {
            let (name, count) = self.unpaired.entry(tid).or_default();
            (*name, *count) = (comm, *count + 1);
        }
    }

    fn leaves(&mut self, tid: i32) {
        let Some((place, bit)) = place(tid) else { return };
        if place >= self.left.len() {
            self.left.resize(place + 1, 0);
        }
        if let Some(bits) = self.left.get_mut(place) {
            *bits |= bit;
        }
    }

    fn has_left(&self, tid: i32) -> bool {
        place(tid)
            .is_none_or(|(place, bit)| self.left.get(place).is_some_and(|bits| bits & bit != 0))
    }

    pub fn finish(self) -> UnpairedSwitches {
        let cpus = (0..).zip(self.cpus.all()).map(|(number, cpu)| (number, cpu.unpaired));
        let cpus: BTreeMap<u32, u64> = cpus.filter(|(_, count)| *count > 0).collect();
        let idle = (0..).zip(self.cpus.all()).filter(|(_, cpu)| cpu.idle_unpaired > 0);
        let idle = idle.map(|(number, cpu): (u32, &SwitchedCpu)| UnpairedThread {
            tid: 0,
            comm: format!("swapper/{number}"),
            pid: None,
            count: cpu.idle_unpaired,
            is_hidden: cpu.idle_unpaired >= ENOUGH && !cpu.has_left_idle,
        });
        let threads = self.unpaired.iter().map(|(tid, (comm, count))| UnpairedThread {
            tid: *tid,
            comm: comm.to_string(),
            pid: self.processes.get(tid).copied(),
            count: *count,
            is_hidden: *count >= ENOUGH && !self.has_left(*tid),
        });
        let mut threads: Vec<_> = idle.chain(threads).collect();
        threads.sort_by_key(|thread| (Reverse(thread.count), thread.tid));
        UnpairedSwitches { switches: self.switches, count: cpus.values().sum(), cpus, threads }
    }
}

/// Where a thread's bit is; `None` for an id that no thread has.
fn place(tid: i32) -> Option<(usize, u64)> {
    let number = usize::try_from(tid).ok().filter(|_| tid < MAX_TID)?;
    Some((number / 64, 1 << (number % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Dumped, LostEvents};
    use crate::fixtures::switch;

    /// Follows events, each with its time and CPU.
    fn found(
        from_ns: u64,
        events: impl IntoIterator<Item = (u64, u32, TraceKind<'static>)>,
    ) -> UnpairedSwitches {
        let mut pairs = SwitchPairs::since(from_ns);
        for (time_ns, cpu, kind) in events {
            pairs.follow(&Event { time_ns, cpu, kind });
        }
        pairs.finish()
    }

    fn thread(tid: i32, pid: Option<i32>, count: u64, is_hidden: bool) -> UnpairedThread {
        UnpairedThread { tid, comm: format!("t{tid}"), pid, count, is_hidden }
    }

    #[test]
    fn threads_that_no_switch_leads_away_from_are_hidden() {
        let dumped = |tid| TraceKind::StatedumpProcess(Dumped { tid, pid: 1, ..Dumped::default() });
        let events = [
            (1, 0, dumped(1)),
            (1, 0, dumped(40)),
            (10, 0, switch(7, 0, 1)),
            // 1 to 8 is missing.
            (20, 0, switch(8, 0, 0)),
            (25, 1, switch(9, 0, 40)),
            (30, 0, switch(0, 0, 1)),
            (35, 1, switch(5, 0, 6)),
            (40, 0, switch(7, 0, 8)),
            // One of 6 is missing, others are there.
            (45, 1, switch(9, 0, 6)),
            (50, 1, switch(6, 0, 9)),
            (55, 1, switch(9, 0, 40)),
        ];
        let unpaired = found(0, events);
        assert_eq!((unpaired.switches, unpaired.count), (9, 4));
        assert_eq!(unpaired.cpus, BTreeMap::from([(0, 2), (1, 2)]));
        let expected =
            [thread(1, Some(1), 2, true), thread(6, None, 1, false), thread(40, Some(1), 1, false)];
        assert_eq!(unpaired.threads, expected);
        // Before a time, they are followed and not counted.
        let unpaired = found(40, events);
        assert_eq!((unpaired.switches, unpaired.count), (4, 2));
        assert_eq!(unpaired.cpus, BTreeMap::from([(0, 1), (1, 1)]));
    }

    #[test]
    fn idle_tasks_are_told_apart_by_their_cpus() {
        let events = [
            (10, 0, switch(7, 0, 0)),
            (10, 1, switch(8, 0, 0)),
            (20, 0, switch(0, 0, 7)),
            (20, 1, switch(9, 0, 0)),
            (30, 1, switch(9, 0, 0)),
        ];
        let unpaired = found(0, events);
        let hidden = UnpairedThread { comm: "swapper/1".to_owned(), ..thread(0, None, 2, true) };
        assert_eq!(unpaired.threads, [hidden]);
        assert_eq!(unpaired.cpus, BTreeMap::from([(1, 2)]));
    }

    #[test]
    fn lost_events_and_execs_are_no_missing_halves() {
        let lost = LostEvents { events: 3, packets: 0, from_ns: 12, to_ns: 30 };
        let exec = TraceKind::SchedProcessExec { filename: b"x", tid: 4, old_tid: 5 };
        let unpaired = found(
            0,
            [
                (10, 0, switch(7, 0, 8)),
                (12, 0, TraceKind::Lost(lost)),
                (20, 0, switch(9, 0, 8)),
                // The one before was within the loss.
                (40, 0, switch(9, 0, 5)),
                (41, 0, exec),
                (42, 0, switch(4, 0, 5)),
            ],
        );
        assert_eq!(unpaired, UnpairedSwitches { switches: 4, ..UnpairedSwitches::default() });
    }

    #[test]
    fn ids_that_no_thread_has_take_no_memory() {
        let mut pairs = SwitchPairs::default();
        for (time_ns, tid) in (0..).zip([i32::MAX, MAX_TID, -5]) {
            let kind = switch(tid, 0, tid - 1);
            pairs.follow(&Event { time_ns, cpu: 0, kind });
        }
        assert_eq!(pairs.left.len(), 0);
        assert!(pairs.finish().threads.iter().all(|thread| !thread.is_hidden));
    }
}

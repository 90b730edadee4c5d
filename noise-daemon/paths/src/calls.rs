//! How much of the running time of paths was spent in system calls: where a trace has their begins and ends, the
//! rest is user time. Interrupts count for what they interrupt.
//!
//! A thread whose first event of a call is an end was in one up to then; one that begins a call then was not. Of a
//! thread without such an event nothing is known, nor of a part in which events were lost.

use foldhash::{HashMap, HashSet};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{PerCpu, Processor};
use noise_trace::sight::Sight;

use crate::document::{PathsDocument, Segment};

/// A part of a path in which a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunInterval {
    from_ns: u64,
    to_ns: u64,
    execution: usize,
    /// Its place in that one's path.
    place: usize,
}

/// A thread that runs in parts of paths.
#[derive(Debug, Default)]
struct PathThread {
    /// Those of these parts that have not begun, the first one last.
    parts: Vec<RunInterval>,
    /// Those that have begun, and were not over when it ran last.
    open: Vec<RunInterval>,
    /// Whether it is in a call, where that is known.
    in_call: Option<bool>,
    /// Since when it runs, in nanoseconds.
    since_ns: Option<u64>,
    /// How long it ran in its parts before the first event that says whether that was in a call.
    before: CallTimes,
}

impl PathThread {
    fn begin_parts(&mut self, time_ns: u64) {
        while let Some(part) = self.parts.pop_if(|part| part.from_ns < time_ns) {
            self.open.push(part);
        }
    }

    /// It ran until then, in a call or not: the time is added to the parts that it lies in.
    fn ran_until(&mut self, time_ns: u64, found: &mut CallTimes) {
        let Some(since_ns) = self.since_ns.replace(time_ns) else { return };
        self.begin_parts(time_ns);
        let sums = if self.in_call.is_none() { &mut self.before } else { found };
        let counts = self.in_call != Some(false);
        for part in self.open.iter().filter(|part| part.to_ns > since_ns) {
            let ns = time_ns.min(part.to_ns).saturating_sub(since_ns.max(part.from_ns));
            let sum = sums.entry((part.execution, part.place)).or_default();
            *sum = sum.saturating_add(if counts { ns } else { 0 });
        }
        self.open.retain(|part| part.to_ns > time_ns);
    }

    /// It has no CPU while events are lost: it may run, and leave its call, where it is not seen.
    fn lose(&mut self, unclear: &mut HashSet<(usize, usize)>) {
        unclear.extend(self.before.drain().map(|(part, _)| part));
        self.in_call = None;
    }

    fn parts_at(&mut self, time_ns: u64) -> impl Iterator<Item = (usize, usize)> {
        self.begin_parts(time_ns);
        let own = self.open.iter().filter(move |part| part.to_ns > time_ns);
        own.map(|part| (part.execution, part.place))
    }

    /// It is in a call from now on, or not any more.
    fn turn(&mut self, time_ns: u64, in_call: bool, found: &mut CallTimes) {
        self.ran_until(time_ns, found);
        for (part, ns) in self.before.drain() {
            let sum = found.entry(part).or_default();
            *sum = sum.saturating_add(if in_call { 0 } else { ns });
        }
        self.in_call = Some(in_call);
    }
}

/// Time in calls, by execution and place in its path.
type CallTimes = HashMap<(usize, usize), u64>;

/// Looks for it while the events of one recording come once more, in the order of time.
#[derive(Debug, Default)]
pub struct Calls {
    threads: HashMap<i32, PathThread>,
    cpus: PerCpu<Processor>,
    found: CallTimes,
    /// Parts in which events were lost, by execution and place.
    unclear: HashSet<(usize, usize)>,
    /// When events of all CPUs are there.
    sight: Sight,
    last_ns: u64,
    is_over: bool,
}

impl Calls {
    /// For the running parts of these paths that are of that recording.
    pub fn of(document: &PathsDocument, machine: u16) -> Self {
        let mut threads: HashMap<i32, PathThread> = HashMap::default();
        let mut last_ns = 0;
        let is_wanted =
            |part: &Segment| part.recording == machine && part.state == "running" && part.tid > 0;
        for (execution, traced) in document.executions.iter().enumerate() {
            let parts = traced.path.iter().enumerate().filter(|(_, part)| is_wanted(part));
            for (place, part) in parts {
                let (from_ns, to_ns) = (part.from_ns, part.to_ns);
                last_ns = last_ns.max(to_ns);
                let own = threads.entry(part.tid).or_default();
                own.parts.push(RunInterval { from_ns, to_ns, execution, place });
            }
        }
        let sort =
            |thread: &mut PathThread| thread.parts.sort_unstable_by(|one, other| other.cmp(one));
        threads.values_mut().for_each(sort);
        let is_over = threads.is_empty();
        Self { threads, last_ns, is_over, ..Self::default() }
    }

    /// Whether all of these parts lie before the latest event.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn follow(&mut self, event: &Event<'_>) {
        let time_ns = event.time_ns;
        self.is_over |= time_ns > self.last_ns;
        self.sight.follow(event);
        let Some(cpu) = self.cpus.of(event.cpu) else { return };
        let current = cpu.follow(event);
        match &event.kind {
            TraceKind::SchedSwitch { prev, next, .. } => {
                if let Some(thread) = self.threads.get_mut(&prev.tid) {
                    thread.ran_until(time_ns, &mut self.found);
                    thread.since_ns = None;
                    if !self.sight.is_whole() {
                        thread.lose(&mut self.unclear);
                    }
                }
                if let Some(thread) = self.threads.get_mut(&next.tid) {
                    thread.since_ns = Some(time_ns);
                }
            }
            TraceKind::SyscallEntry(_) | TraceKind::SyscallExit(_) | TraceKind::Other(_) => {
                let Some(in_call) = begins_call(&event.kind) else { return };
                if let Some(thread) = current.and_then(|tid| self.threads.get_mut(&tid)) {
                    thread.turn(time_ns, in_call, &mut self.found);
                }
            }
            // Its calls before that came under another id.
            TraceKind::SchedProcessExec { tid, old_tid, .. } if *old_tid > 0 && old_tid != tid => {
                if let Some(thread) = self.threads.get_mut(tid) {
                    self.unclear.extend(thread.parts_at(time_ns));
                    (thread.since_ns, thread.in_call) = (None, None);
                }
            }
            TraceKind::Lost(_) => {
                if let Some(thread) = current.and_then(|tid| self.threads.get_mut(&tid)) {
                    self.unclear.extend(thread.parts_at(time_ns));
                    (thread.since_ns, thread.in_call) = (None, None);
                }
                let asleep = self.threads.values_mut().filter(|thread| thread.since_ns.is_none());
                asleep.for_each(|thread| thread.lose(&mut self.unclear));
            }
            _ => {}
        }
    }

    /// Puts what was found into the paths.
    pub fn finish(mut self, document: &mut PathsDocument) {
        for thread in self.threads.values_mut() {
            if thread.in_call.is_some() && thread.since_ns.is_some_and(|ns| ns < self.last_ns) {
                thread.ran_until(self.last_ns, &mut self.found);
            }
        }
        let known = self.found.into_iter().filter(|(part, _)| !self.unclear.contains(part));
        for ((execution, place), ns) in known {
            let traced = document.executions.get_mut(execution);
            let Some(traced) = traced else { continue };
            let sum = traced.in_calls_ns.unwrap_or(0);
            traced.in_calls_ns = Some(sum.saturating_add(ns));
            if let Some(part) = traced.path.get_mut(place) {
                part.in_calls_ns = Some(ns);
            }
        }
    }
}

/// Whether an event is the begin of a system call (`true`) or its end, by the names that LTTng and ftrace have for
/// them; `None` of another.
pub fn begins_call(kind: &TraceKind<'_>) -> Option<bool> {
    let name = match kind {
        TraceKind::SyscallEntry(_) => return Some(true),
        TraceKind::SyscallExit(_) => return Some(false),
        TraceKind::Other(name) => name,
        _ => return None,
    };
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let is_end = ["exit_syscall", "syscall_exit", "sys_exit"];
    // LTTng 2.0 has it for the begin of that call, which has no end.
    if name != "sys_exit_group" && is_end.iter().any(|begin| name.starts_with(begin)) {
        return Some(false);
    }
    ["syscall_entry", "sys_"].iter().any(|begin| name.starts_with(begin)).then_some(true)
}

#[cfg(test)]
mod tests {
    use noise_common::store::calls::CALLS;
    use noise_trace::event::LostEvents;
    use noise_trace::ipc::{Call, Object, Return};

    use super::*;
    use crate::document::Traced;
    use noise_trace::fixtures::switch;

    fn part(tid: i32, from_ns: u64, to_ns: u64) -> Segment {
        Segment { tid, state: "running", from_ns, to_ns, ..Segment::default() }
    }

    /// What is found of these parts of one path.
    fn found(parts: &[Segment], events: &[(u64, u32, TraceKind<'static>)]) -> Vec<Option<u64>> {
        let traced = Traced { path: parts.to_vec(), ..Traced::default() };
        let mut document = PathsDocument { executions: vec![traced], ..PathsDocument::default() };
        let mut calls = Calls::of(&document, 0);
        for (time_ns, cpu, kind) in events {
            calls.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind });
        }
        calls.finish(&mut document);
        document.executions[0].path.iter().map(|part| part.in_calls_ns).collect()
    }

    const ENTRY: TraceKind<'static> = TraceKind::Other("syscall_entry_read");
    const EXIT: TraceKind<'static> = TraceKind::Other("syscall_exit_read");

    #[test]
    fn running_time_is_divided_by_the_begins_and_ends_of_calls() {
        // 7 runs from 100 to 200 and from 300 to 400, in a call from 150 on, over its sleep, until 320.
        let events = [
            (100, 0, switch(0, 0, 7)),
            (150, 0, ENTRY),
            (200, 0, switch(7, 0, 0)),
            // Those of others.
            (210, 0, EXIT),
            (300, 1, switch(0, 0, 7)),
            (320, 1, EXIT),
            (400, 1, switch(7, 0, 0)),
        ];
        assert_eq!(found(&[part(7, 100, 200), part(7, 300, 400)], &events), [Some(50), Some(20)]);
        // A part of its turn, and one that lies in others of several paths.
        let parts = [part(7, 160, 170), part(7, 310, 330), part(7, 310, 400), part(8, 100, 400)];
        assert_eq!(found(&parts, &events), [Some(10), Some(10), Some(10), None]);
        let asleep = Segment { state: "disk", ..part(7, 200, 300) };
        assert_eq!(found(&[asleep], &events), [None]);
    }

    #[test]
    fn parts_that_are_over_are_not_looked_at_again() {
        // One lasts all the time, beside many.
        let short = (0..100).map(|number| part(7, 100 * number, 100 * number + 50));
        let path = short.chain([part(7, 0, 10_000)]).collect();
        let traced = Traced { path, ..Traced::default() };
        let mut document = PathsDocument { executions: vec![traced], ..PathsDocument::default() };
        let mut calls = Calls::of(&document, 0);
        calls.follow(&Event { time_ns: 0, cpu: 0, kind: switch(0, 0, 7) });
        for time_ns in (0..10_000).step_by(10) {
            let kind = if time_ns % 20 == 0 { ENTRY } else { EXIT };
            calls.follow(&Event { time_ns, cpu: 0, kind });
            assert!(calls.threads[&7].open.len() <= 2);
        }
        calls.finish(&mut document);
        let found = document.executions[0].path.iter().map(|part| part.in_calls_ns);
        // Of each 20 ns, 10 are in a call.
        let expected = std::iter::repeat_n(30, 100).chain([5_000]);
        assert!(found.eq(expected.map(Some)));
    }

    #[test]
    fn what_came_before_the_first_event_is_known_from_it() {
        let parts = [part(7, 100, 200), part(7, 300, 400), part(9, 100, 150)];
        let events = [
            (50, 0, switch(0, 0, 7)),
            (60, 1, switch(0, 0, 9)),
            (200, 0, switch(7, 0, 0)),
            (300, 0, switch(0, 0, 7)),
            (310, 0, TraceKind::Other("exit_syscall")),
            (500, 0, switch(7, 0, 0)),
        ];
        // Of 9 there is none.
        assert_eq!(found(&parts, &events), [Some(100), Some(10), None]);
        let user =
            [(50, 0, switch(0, 0, 7)), (180, 0, TraceKind::Other("compat_syscall_entry_futex"))];
        assert_eq!(found(&parts[..1], &user), [Some(20)]);
    }

    #[test]
    fn after_a_loss_it_is_not_known() {
        let lost = TraceKind::Lost(LostEvents { events: 3, packets: 0, from_ns: 120, to_ns: 130 });
        let events =
            [(100, 0, switch(0, 0, 7)), (110, 0, ENTRY), (130, 0, lost), (200, 0, switch(7, 0, 0))];
        assert_eq!(found(&[part(7, 100, 200), part(7, 200, 300)], &events), [None, None]);
    }

    #[test]
    fn calls_before_an_exec_that_changed_the_id_are_not_known() {
        // 9 takes the id of its process's first thread; its path has that id throughout.
        let exec = TraceKind::SchedProcessExec { filename: b"x", tid: 7, old_tid: 9 };
        let events = [
            (100, 0, switch(0, 0, 9)),
            (110, 0, ENTRY),
            (150, 0, exec),
            (160, 0, EXIT),
            (180, 0, ENTRY),
            (200, 0, switch(7, 0, 0)),
            (300, 0, switch(0, 0, 7)),
            (310, 0, EXIT),
            (400, 0, switch(7, 0, 0)),
        ];
        assert_eq!(found(&[part(7, 100, 200), part(7, 300, 400)], &events), [None, Some(10)]);
    }

    #[test]
    fn a_thread_without_a_cpu_may_leave_its_call_where_events_are_lost() {
        let lost = TraceKind::Lost(LostEvents { events: 0, packets: 0, from_ns: 130, to_ns: 180 });
        let events = [
            (100, 0, switch(0, 0, 7)),
            (110, 0, ENTRY),
            (120, 0, switch(7, 0, 0)),
            (130, 1, lost),
            (200, 0, switch(0, 0, 7)),
            (300, 0, switch(7, 0, 0)),
        ];
        assert_eq!(found(&[part(7, 200, 300)], &events), [None]);
    }

    #[test]
    fn names_of_calls_are_those_of_all_tracers() {
        for begin in [
            "syscall_entry_exit_group",
            "sys_exit_group",
            "sys_open",
            "compat_sys_open",
            "sys_enter_read",
        ] {
            assert_eq!(begins_call(&TraceKind::Other(begin)), Some(true), "{begin}");
        }
        for end in ["exit_syscall", "syscall_exit_read", "compat_syscall_exit_read", "sys_exit"] {
            assert_eq!(begins_call(&TraceKind::Other(end)), Some(false), "{end}");
        }
        assert_eq!(begins_call(&TraceKind::Other("sched_switch")), None);
        // Those that are known better.
        let (info, object) = (&CALLS[0], Object::default());
        let call = Call { info, tid: 7, arguments: [0; 3], object };
        assert_eq!(begins_call(&TraceKind::SyscallEntry(call)), Some(true));
        let end = Return { info, tid: 7, ret: 0, object, peeks: false };
        assert_eq!(begins_call(&TraceKind::SyscallExit(end)), Some(false));
    }
}

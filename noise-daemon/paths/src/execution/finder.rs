//! Executions between two delimiters, found while the events of a recording pass.
//!
//! A begin belongs to the next end of the same thread; of marks with a key, to the next end with that key of the
//! same user, whichever thread sets it; of requests and connections in packets, to what is sent next on the same
//! connection. Where two begins stand before an end, which of them it ends is not known, and neither is an execution.
//! Between events that may be missing nothing is known either; marks are no kernel events, and are not lost with them.
//! Requests and connections of recordings with calls are found by [`SocketCalls`].
//!
//! What is held grows with the executions that are under way and were found, up to bounds, not with the events.

use std::collections::HashMap;

use noise_text::clean::as_text;
use noise_trace::event::{Event, OLDEST_MARK_NS, ProgramMark, TraceKind};
use noise_trace::record::{Record, Stored};
use noise_trace::sight::Sight;
use noise_trace::threads::Threads;
use noise_trace::value::{Shape, Value, Visit};

use super::delimited::{Delimited, DelimiterTally, MAX_FOUND};
use super::grammar::{Condition, Pattern};
use super::server::{Port, Step};
use super::sockets::SocketCalls;
use super::{Execution, Wanted};
use crate::build::Builder;
use crate::graph::Graph;

/// Executions that are under way at once; those beyond are counted.
const MAX_OPEN: usize = 65_536;
/// Names of events that are looked at once each.
const MAX_NAMES: usize = 65_536;
/// The longest key of a mark; what programs send has at most 128 bytes.
const MOST_KEY_BYTES: usize = 1024;

/// Fields and contexts in which tracers name the thread that an event is of.
const THREAD_FIELDS: [&str; 2] = ["perf_tid", "tid"];

/// What a begin and an end have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ExecutionKey {
    Thread(i32),
    Key { uid: u32, key: Box<[u8]> },
    Connection(u64),
}

#[derive(Clone, Copy, Debug)]
struct OngoingExecution {
    from_ns: u64,
    begins: u64,
    /// See [`Step::Begins`].
    connection: Option<u32>,
    is_lost: bool,
}

impl DelimiterTally {
    fn unended(&mut self, open: OngoingExecution) {
        match open {
            OngoingExecution { is_lost: true, begins, .. } => self.lost += begins,
            OngoingExecution { begins: 1, .. } => self.unfinished += 1,
            OngoingExecution { begins, .. } => self.overlapping += begins,
        }
    }
}

/// What an event is by its name alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EventRole {
    begins: bool,
    ends: bool,
}

/// Finds the executions of one kind in one recording.
#[derive(Clone, Debug)]
pub struct Finder {
    wanted: Wanted,
    machine: u16,
    from_ns: u64,
    to_ns: u64,
    threads: Threads,
    /// By the numbers that a format gives to its events.
    known: HashMap<usize, EventRole>,
    open: HashMap<ExecutionKey, OngoingExecution>,
    found: Vec<Delimited>,
    tally: DelimiterTally,
    /// The same of delimiters before the time that is asked for.
    before: DelimiterTally,
    /// Whether there was an event of those names; for marks, of that name.
    seen: EventRole,
    port: Port,
    sockets: Option<Box<SocketCalls>>,
    /// Whether an event was of a port.
    has_ports: bool,
}

impl Finder {
    /// For these executions of a recording; `None` for those that the graph knows by itself.
    pub fn new(wanted: &Wanted, machine: u16) -> Option<Self> {
        if matches!(wanted, Wanted::Thread(_) | Wanted::Process(_)) {
            return None;
        }
        Some(Self {
            wanted: wanted.clone(),
            machine,
            from_ns: 0,
            to_ns: u64::MAX,
            threads: Threads::default(),
            known: HashMap::new(),
            open: HashMap::new(),
            found: Vec::new(),
            tally: DelimiterTally::default(),
            before: DelimiterTally::default(),
            seen: EventRole::default(),
            port: Port::default(),
            sockets: SocketCalls::of(wanted).map(Box::new),
            has_ports: false,
        })
    }

    /// Executions that begin and end between two times alone, and what is none there.
    #[must_use]
    pub const fn within(mut self, from_ns: u64, to_ns: u64) -> Self {
        (self.from_ns, self.to_ns) = (from_ns, to_ns);
        self
    }

    /// Takes the next event of the recording, which the builder has taken.
    pub fn follow<'t>(
        &mut self,
        record: &Record<impl Stored<'t>>,
        event: &Event<'t>,
        builder: &Builder,
    ) {
        let before_ns = match &event.kind {
            TraceKind::Mark(mark) => mark.before_ns,
            _ => 0,
        };
        if event.time_ns.saturating_sub(before_ns) > self.to_ns {
            return;
        }
        match &event.kind {
            TraceKind::Lost(_) if !matches!(self.wanted, Wanted::Mark { .. }) => {
                self.open.values_mut().for_each(|open| open.is_lost = true);
            }
            TraceKind::Mark(mark) => self.mark(event, mark, builder),
            // Their ids are given anew.
            TraceKind::SchedProcessFork { child, .. } => {
                self.give_up(&ExecutionKey::Thread(child.tid))
            }
            TraceKind::SchedWakeupNew(woken) => self.give_up(&ExecutionKey::Thread(woken.task.tid)),
            TraceKind::SchedProcessExec { tid, old_tid, .. } if old_tid != tid => {
                self.give_up(&ExecutionKey::Thread(*tid));
                if let Some(open) = self.open.remove(&ExecutionKey::Thread(*old_tid)) {
                    self.open.insert(ExecutionKey::Thread(*tid), open);
                }
            }
            _ => {}
        }
        self.event(record, event, builder);
        self.packet(record, event, builder);
        // The end of a call is of what its begin says.
        if let Some(sockets) = &mut self.sockets {
            sockets.follow(record, event);
        }
        self.threads.follow(event);
        if let TraceKind::SchedSwitch { prev, .. } = &event.kind {
            let own = ExecutionKey::Thread(prev.tid);
            if self.open.contains_key(&own) && builder.has_ended(self.machine, prev.tid) {
                self.give_up(&own);
            }
        }
    }

    /// What is under way there has no end.
    fn give_up(&mut self, common: &ExecutionKey) {
        if let Some(open) = self.open.remove(common) {
            self.tally(open.from_ns).unended(open);
        }
    }

    /// Where a delimiter of that time is counted that makes no execution.
    const fn tally(&mut self, time_ns: u64) -> &mut DelimiterTally {
        if time_ns >= self.from_ns { &mut self.tally } else { &mut self.before }
    }

    /// Whether packets say what executions are, and not calls.
    pub const fn is_by_packets(&self) -> bool {
        self.port.has_headers
    }

    /// Calls on sockets, where they say what executions are.
    fn calls(&self) -> Option<&SocketCalls> {
        let is_of_port = matches!(self.wanted, Wanted::Request(_) | Wanted::Connection(_));
        self.sockets.as_deref().filter(|_| is_of_port && !self.port.has_headers)
    }

    /// Those that are over, in the order in which that became known.
    pub fn over(&mut self, graph: &Graph) -> &[Delimited] {
        let span = (self.from_ns, self.to_ns);
        match self.calls().is_some() {
            true => self.sockets.as_mut().map_or(&[], |calls| calls.over(graph, span)),
            false => &self.found,
        }
    }

    /// Since when something is under way that may become an execution: what begins later counts from `now_ns` on, but for marks
    /// that come late.
    pub fn needed_ns(&self, now_ns: u64) -> u64 {
        let late_ns = match self.wanted {
            Wanted::Mark { .. } => 2 * OLDEST_MARK_NS,
            _ => 0,
        };
        let may_be = |open: &&OngoingExecution| !open.is_lost && open.begins == 1;
        let open = self.open.values().filter(may_be).map(|open| open.from_ns).min();
        let called = self.calls().and_then(SocketCalls::needed_ns);
        let under_way = open.into_iter().chain(called).min().unwrap_or(u64::MAX);
        under_way.min(now_ns.saturating_sub(late_ns))
    }

    /// The executions, and what is none; of the threads of that graph.
    pub fn finish(mut self, graph: &Graph) -> (Vec<Delimited>, DelimiterTally) {
        for open in std::mem::take(&mut self.open).into_values() {
            self.tally(open.from_ns).unended(open);
        }
        match self.sockets.filter(|_| !self.port.has_headers) {
            Some(sockets) if !matches!(self.wanted, Wanted::Events(_)) => {
                sockets.finish(graph, (self.from_ns, self.to_ns))
            }
            _ => (self.found, self.tally),
        }
    }

    /// Where there is no execution: which delimiter the recording has none of, and what to do.
    pub fn lacks(&self) -> Option<String> {
        let lacking = match &self.wanted {
            Wanted::Events(events) => {
                let (begin, end) = &**events;
                let name = match self.seen {
                    EventRole { begins: false, .. } => &begin.name,
                    EventRole { ends: false, .. } => &end.name,
                    EventRole { .. } if self.sockets.is_some() && !self.has_ports => {
                        return Some(
                            "this recording says of no such event which port it is of; `noised record --own --events \
                             sched,io,ipc` records the ports of calls on sockets"
                                .to_owned(),
                        );
                    }
                    EventRole { .. } => return None,
                };
                format!(
                    "this recording has no event {name}; `noised trace events --summary` lists those that it has"
                )
            }
            Wanted::Mark { .. } if self.seen == EventRole::default() => {
                "this recording has no such mark; programs set them while it is recorded, see `noised mark --help`"
                    .to_owned()
            }
            Wanted::Request(port) | Wanted::Connection(port) => {
                let sockets = self.sockets.as_ref();
                match self.port {
                    Port { has_headers: true, has_packets: true, .. } => return None,
                    Port { has_headers: true, .. } => {
                        format!("this recording has no packet of port {port}")
                    }
                    _ if sockets.is_some_and(|sockets| sockets.has_ports()) => {
                        return sockets.and_then(|sockets| sockets.lacks(*port));
                    }
                    _ => "this recording has neither calls on sockets, as `noised record --own --events sched,io,ipc` \
                          records them, nor packets with headers of TCP, as LTTng records them since its version 2.8; \
                          record either, or name what begins and ends with mark:NAME or event:BEGIN..END"
                        .to_owned(),
                }
            }
            _ => return None,
        };
        Some(lacking)
    }

    /// The thread that runs on a CPU, where that is certain.
    fn running(&self, cpu: u32) -> Option<i32> {
        self.threads.certain(cpu).filter(|tid| *tid > 0)
    }

    fn mark(&mut self, event: &Event<'_>, mark: &ProgramMark<'_>, builder: &Builder) {
        let Wanted::Mark { name, key } = &self.wanted else { return };
        let is_wanted = name.as_bytes() == mark.name
            && key.as_ref().is_none_or(|key| key.as_bytes() == mark.key);
        if !is_wanted {
            return;
        }
        let tid = match mark.tid {
            // The recording has it; where it does not, a process of one thread leaves no choice.
            0 => self.threads.only_thread(mark.pid),
            tid => Some(tid),
        };
        let common = match (mark.key, tid) {
            ([], Some(tid)) => Some(ExecutionKey::Thread(tid)),
            ([], None) => None,
            (key, _) if key.len() > MOST_KEY_BYTES => None,
            (key, _) => Some(ExecutionKey::Key { uid: mark.uid, key: key.into() }),
        };
        let time_ns = event.time_ns.saturating_sub(mark.before_ns);
        self.seen = EventRole { begins: true, ends: true };
        let Some(common) = common else {
            self.tally(time_ns).strangers += 1;
            return;
        };
        match mark.begins {
            true => self.begin(common, time_ns, builder),
            false => self.end(&common, time_ns, tid, builder),
        }
    }

    fn event<'t>(
        &mut self,
        record: &Record<impl Stored<'t>>,
        event: &Event<'t>,
        builder: &Builder,
    ) {
        let Wanted::Events(events) = &self.wanted else { return };
        let (begin, end) = &**events;
        let named =
            |name: &str| EventRole { begins: is_named(begin, name), ends: is_named(end, name) };
        let of = match record.number() {
            None => named(record.name()),
            Some(number) if self.known.len() < MAX_NAMES => {
                *self.known.entry(number).or_insert_with(|| named(record.name()))
            }
            Some(number) => self.known.get(&number).copied().unwrap_or_default(),
        };
        if of == EventRole::default() || record.loss().is_some() {
            return;
        }
        self.seen =
            EventRole { begins: self.seen.begins || of.begins, ends: self.seen.ends || of.ends };
        let tid = stated(record).or_else(|| self.running(event.cpu));
        let ports = self.sockets.as_ref().and_then(|sockets| sockets.ports(record, tid));
        self.has_ports |= ports.is_some();
        let is_it = |pattern: &Pattern| {
            holds(pattern, record)
                && pattern.is_of(tid, &self.threads)
                && (!pattern.has_ports() || ports.is_some_and(|ports| pattern.is_at(ports)))
        };
        let begins = of.begins && is_it(begin);
        let ends = of.ends && is_it(end);
        if !begins && !ends {
            return;
        }
        let Some(tid) = tid else {
            self.tally(event.time_ns).strangers += 1;
            return;
        };
        let common = ExecutionKey::Thread(tid);
        // One that does both ends what is under way, and begins the next.
        if ends && (!begins || self.open.contains_key(&common)) {
            self.end(&common, event.time_ns, Some(tid), builder);
        }
        if begins {
            self.begin(common, event.time_ns, builder);
        }
    }

    fn packet<'t>(
        &mut self,
        record: &Record<impl Stored<'t>>,
        event: &Event<'t>,
        builder: &Builder,
    ) {
        let (port, is_whole) = match self.wanted {
            Wanted::Request(port) => (port, false),
            Wanted::Connection(port) => (port, true),
            _ => return,
        };
        match self.port.follow(port, is_whole, record, event) {
            Some(Step::Begins { flow, connection }) => {
                let common = ExecutionKey::Connection(flow);
                // More of what is under way.
                let is_more =
                    |open: &OngoingExecution| connection.is_none() || connection == open.connection;
                if self.open.get(&common).is_some_and(is_more) {
                    return;
                }
                self.give_up(&common);
                self.begin(common.clone(), event.time_ns, builder);
                if let Some(open) = self.open.get_mut(&common) {
                    open.connection = connection;
                }
            }
            Some(Step::GivenUp(flow)) => self.give_up(&ExecutionKey::Connection(flow)),
            Some(Step::Ends(flow)) => {
                let common = ExecutionKey::Connection(flow);
                // An answer may have several packets.
                if self.open.contains_key(&common) {
                    self.end(&common, event.time_ns, self.running(event.cpu), builder);
                }
            }
            Some(Step::EndsUnseen(flow)) => {
                if let Some(open) = self.open.remove(&ExecutionKey::Connection(flow)) {
                    self.tally(open.from_ns).strangers += 1;
                }
            }
            None => {}
        }
    }

    fn begin(&mut self, common: ExecutionKey, from_ns: u64, builder: &Builder) {
        if let Some(open) = self.open.get_mut(&common) {
            open.begins += 1;
            return;
        }
        if self.open.len() >= MAX_OPEN {
            self.tally(from_ns).beyond += 1;
            return;
        }
        let is_seen = builder.sight(self.machine).is_none_or(Sight::is_whole);
        let is_lost = !is_seen && !matches!(self.wanted, Wanted::Mark { .. });
        self.open
            .insert(common, OngoingExecution { from_ns, begins: 1, connection: None, is_lost });
    }

    fn end(&mut self, common: &ExecutionKey, to_ns: u64, tid: Option<i32>, builder: &Builder) {
        let Some(open) = self.open.remove(common) else {
            self.tally(to_ns).unbegun += 1;
            return;
        };
        let from_ns = open.from_ns;
        let worker = tid.and_then(|tid| builder.thread(self.machine, tid));
        let (is_before, is_full) = (from_ns < self.from_ns, self.found.len() >= MAX_FOUND);
        let tally = self.tally(from_ns);
        let worker = match worker {
            _ if open.is_lost || open.begins > 1 => return tally.unended(open),
            None => return tally.strangers += 1,
            Some(_) if from_ns >= to_ns => return tally.momentary += 1,
            Some(_) if is_full => return tally.beyond += 1,
            Some(_) if is_before => return,
            Some(worker) => worker,
        };
        let key = match common {
            ExecutionKey::Thread(_) | ExecutionKey::Connection(_) => None,
            ExecutionKey::Key { key, .. } => Some(as_text(key).into_owned()),
        };
        let execution = Execution { worker, from_ns, to_ns, has_begin: true, has_end: true };
        let number = Some(self.found.len());
        self.found.push(Delimited { execution, number, key });
    }
}

fn is_named(pattern: &Pattern, name: &str) -> bool {
    let rest = || name.rsplit(':').next();
    name == pattern.name || (!pattern.name.contains(':') && rest() == Some(&pattern.name))
}

/// Sees the fields outside of all others.
struct Outer<F> {
    name: String,
    depth: u32,
    see: F,
}

impl<F: FnMut(&str, &Value<'_>)> Visit for Outer<F> {
    fn name(&mut self, name: &str) {
        if self.depth == 0 {
            self.name.clear();
            self.name.push_str(name.strip_prefix('_').unwrap_or(name));
        }
    }

    fn value(&mut self, value: Value<'_>) {
        if self.depth == 0 {
            (self.see)(&self.name, &value);
        }
    }

    fn begin(&mut self, _: Shape) {
        self.depth += 1;
    }

    fn end(&mut self, _: Shape) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Whether an event's fields are as a pattern has them. A field that is not there is nothing.
fn holds<'t>(pattern: &Pattern, record: &Record<impl Stored<'t>>) -> bool {
    if pattern.conditions.is_empty() {
        return true;
    }
    let mut held = vec![false; pattern.conditions.len()];
    let see = |name: &str, value: &Value<'_>| {
        let of = |condition: &&Condition| condition.field == name;
        for (held, condition) in held.iter_mut().zip(&pattern.conditions) {
            *held |= of(&condition) && condition.holds(value);
        }
    };
    record.visit(&mut Outer { name: String::new(), depth: 0, see });
    held.iter().all(|held| *held)
}

/// The thread that an event itself names as its own.
fn stated<'t>(record: &Record<impl Stored<'t>>) -> Option<i32> {
    let mut tid = None;
    let mut see = |name: &str, value: &Value<'_>| {
        let number = match value {
            Value::Unsigned { value, .. } => i32::try_from(*value).ok(),
            Value::Signed { value, .. } => i32::try_from(*value).ok(),
            _ => None,
        };
        if THREAD_FIELDS.contains(&name) && tid.is_none() {
            tid = number.filter(|tid| *tid > 0);
        }
    };
    // A field `tid` is whom an event is about; a context, whose it is.
    let perf = |name: &str, value: &Value<'_>| {
        if name == THREAD_FIELDS[0] {
            see(name, value);
        }
    };
    record.visit(&mut Outer { name: String::new(), depth: 0, see: perf });
    record.visit_contexts(&mut Outer { name: String::new(), depth: 0, see }, |_| {});
    tid
}

#[cfg(test)]
mod tests;

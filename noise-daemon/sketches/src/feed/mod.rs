//! Events of a trace, of any tracer, as what sketches are made of.
//!
//! Our own recordings say with each call what it is about. In those of LTTng the descriptor says so, as far as the calls
//! that made it, or the state dump, are in the trace; the two ends of a connection of TCP cannot be joined then, those of
//! pipes, pairs of sockets and futexes can. Fields are read by their names, so that what a trace lacks is left out.

mod calls;
mod descriptors;
mod exits;
mod fields;
mod sockets;
pub mod transfers;

use core::net::SocketAddr;

use foldhash::{HashMap, HashSet};
use noise_trace::contexts::{Contexts, CpuContext};
use noise_trace::event::{Comm, Event, TraceKind};
use noise_trace::follow::PerCpu;
use noise_trace::ipc::read::call_name;
use noise_trace::record::{Record, Stored};
use noise_trace::sight::Sight;
use noise_trace::threads::{MAX_TID, Threads};

use self::calls::Does;
use self::descriptors::Descriptors;
use self::fields::{Fields, Noised};
use self::sockets::Sockets;
use crate::follow::Follower;
use crate::input::{Act, Arrived, ChannelObject, Input, Known, Local, What};
use crate::system::System;

/// The thread that makes all threads of the kernel.
const KTHREADD: i32 = 2;
/// Names of events whose sort is kept.
const MAX_NAMES: usize = 1 << 16;
/// Objects that were seen.
const MAX_SEEN: usize = 1 << 20;
/// Threads that are in a call at a time; calls of others are not followed.
const MAX_CALLS: usize = if cfg!(test) { 64 } else { 1 << 18 };
/// Files that a state dump lists; of one that has so many, some may be missing.
const MAX_DUMPED: usize = if cfg!(test) { 64 } else { 65_536 };
/// `IPPROTO_TCP`.
const TCP: u64 = 6;

/// What an event that the model of events leaves alone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SketchEventKind {
    Enters,
    Leaves,
    Second,
    Connection,
    Arrived,
    SocketDump,
    FileDump,
    Generated,
    Delivered,
    Nothing,
}

impl SketchEventKind {
    fn named(name: &str) -> Self {
        match name.rsplit(':').next().unwrap_or(name) {
            "noised_other" => Self::Second,
            "noised_connection" => Self::Connection,
            "sk_data_ready" => Self::Arrived,
            "noised_statedump_socket" => Self::SocketDump,
            "lttng_statedump_file_descriptor" => Self::FileDump,
            "signal_generate" => Self::Generated,
            "signal_deliver" => Self::Delivered,
            name => match call_name(name) {
                Some((_, true)) => Self::Enters,
                Some((_, false)) => Self::Leaves,
                None => Self::Nothing,
            },
        }
    }
}

#[derive(Clone, Debug)]
struct PendingCall {
    does: Does,
    /// What it receives from, or waits for.
    from: Option<ChannelObject>,
    /// What it sends to.
    to: Option<ChannelObject>,
    noised: Option<Noised>,
    /// Between which addresses its bytes went, where it says so. A socket of UDP that serves many, or asks many, has no other
    /// end of its own.
    addresses: [Option<SocketAddr>; 2],
    fd: i64,
    op: u64,
    family: u64,
    kind: u64,
    peeks: bool,
}

impl PendingCall {
    fn object(&self) -> Option<ChannelObject> {
        self.to.or(self.from)
    }

    /// The ports of the socket that it is about, its own first; 0 = none.
    fn ports(&self) -> Option<[u16; 2]> {
        if let [Some(local), Some(remote)] = self.addresses {
            return Some([local.port(), remote.port()]);
        }
        self.noised.and_then(|noised| noised.ports())
    }
}

/// What becomes of the calls of a recording.
pub trait CallSink {
    fn follow(&mut self, input: &Input<'_>);

    /// Bytes came to a socket of TCP.
    fn arrived(&mut self, _arrived: &Arrived) {}

    /// Someone listens on a port when a recording begins.
    fn listens(&mut self, _port: u16) {}

    /// A unix socket is bound when a recording begins; `out` is the number of what it sends.
    fn is_bound(&mut self, _out: u64) {}

    /// A call of a kind that is not followed.
    fn not_followed(&mut self, _call: &str) {}
}

impl CallSink for Follower {
    fn follow(&mut self, input: &Input<'_>) {
        Self::follow(self, input);
    }

    fn listens(&mut self, port: u16) {
        Self::listens(self, port);
    }

    fn is_bound(&mut self, out: u64) {
        Self::is_bound(self, out);
    }

    fn not_followed(&mut self, call: &str) {
        Self::not_followed(self, call);
    }
}

/// Both get all.
impl<A: CallSink, B: CallSink> CallSink for (A, B) {
    fn follow(&mut self, input: &Input<'_>) {
        self.0.follow(input);
        self.1.follow(input);
    }

    fn arrived(&mut self, arrived: &Arrived) {
        self.0.arrived(arrived);
        self.1.arrived(arrived);
    }

    fn listens(&mut self, port: u16) {
        self.0.listens(port);
        self.1.listens(port);
    }

    fn is_bound(&mut self, out: u64) {
        self.0.is_bound(out);
        self.1.is_bound(out);
    }

    fn not_followed(&mut self, call: &str) {
        self.0.not_followed(call);
        self.1.not_followed(call);
    }
}

#[derive(Clone, Debug, Default)]
struct MachineState {
    threads: Threads,
    contexts: PerCpu<Contexts>,
    descriptors: Descriptors,
    calls: HashMap<i32, PendingCall>,
    /// Calls that a signal interrupted.
    interrupted: HashMap<i32, PendingCall>,
    /// Who is waited for is said by `sched_wakeup`.
    by_wakeup: bool,
    /// Pipes and sockets that were there when it began, where it says so.
    dumped: HashSet<u64>,
    has_dump: bool,
    /// Pipes and sockets that were seen.
    seen: HashSet<(bool, u64)>,
    has_losses: bool,
    /// When events of all its CPUs are there.
    sight: Sight,
    sorts: Vec<Option<SketchEventKind>>,
}

impl MachineState {
    /// A state dump lists a pipe or a socket.
    fn lists(&mut self, id: u64) {
        if self.dumped.len() < MAX_DUMPED {
            self.dumped.insert(id);
        }
    }
}

/// Notes the call that a thread is in, where there is room for it.
fn note(calls: &mut HashMap<i32, PendingCall>, tid: i32, call: PendingCall) {
    if calls.len() < MAX_CALLS || calls.contains_key(&tid) {
        calls.insert(tid, call);
    }
}

/// Hands on what events say of calls.
#[derive(Clone, Debug, Default)]
pub struct CallReader<S> {
    sink: S,
    machines: Vec<MachineState>,
    sockets: Sockets,
}

/// What slices and edges are made with.
pub type Feed = CallReader<Follower>;

#[derive(Clone, Copy, Debug)]
struct EventStamp {
    time_ns: u64,
    machine: u16,
    cpu: u32,
}

impl Feed {
    pub fn finish(self) -> System {
        self.sink.finish()
    }
}

impl<S: CallSink> CallReader<S> {
    pub fn new(sink: S) -> Self {
        Self { sink, machines: Vec::new(), sockets: Sockets::default() }
    }

    pub const fn sink(&self) -> &S {
        &self.sink
    }

    pub fn into_sink(self) -> S {
        self.sink
    }

    /// A recording has no `sched_waking`.
    pub fn wakes_by_wakeup(&mut self, machine: u16) {
        self.machine(machine).by_wakeup = true;
    }

    /// The ports of the socket of the call that a thread is in, the socket's own first; 0 = none.
    pub fn ports(&self, machine: u16, tid: i32) -> Option<[u16; 2]> {
        self.machines.get(usize::from(machine))?.calls.get(&tid)?.ports()
    }

    fn machine(&mut self, machine: u16) -> &mut MachineState {
        let place = usize::from(machine);
        if self.machines.len() <= place {
            self.machines.resize_with(place + 1, MachineState::default);
        }
        &mut self.machines[place]
    }

    fn emit(&mut self, at: EventStamp, tid: i32, what: What<'_>) {
        let EventStamp { time_ns, machine, cpu } = at;
        self.sink.follow(&Input { time_ns, machine, cpu, tid, what });
    }

    /// Takes the next record of one of several recordings, and the event that it is.
    pub fn follow<'t>(
        &mut self,
        machine: u16,
        record: &Record<impl Stored<'t>>,
        event: &Event<'t>,
    ) {
        let at = EventStamp { time_ns: event.time_ns, machine, cpu: event.cpu };
        let of = self.machine(machine);
        let mut in_task = true;
        if let Some(contexts) = of.contexts.of(event.cpu) {
            in_task = contexts.running() == CpuContext::Task;
            contexts.follow(event);
        }
        of.descriptors.pass();
        let by_wakeup = of.by_wakeup;
        let was_whole = of.sight.is_whole();
        of.sight.follow(event);
        if !was_whole {
            self.unseen(at, event);
        }
        self.names(at, event);
        self.machine(machine).threads.follow(event);
        match &event.kind {
            TraceKind::SchedSwitch { prev, prev_state, next } => {
                let sleeps = !prev_state.stays_runnable();
                self.emit(at, 0, What::Switch { prev: prev.tid, sleeps, next: next.tid });
            }
            TraceKind::SchedWaking(woken) => {
                self.emit(at, 0, What::Waking { tid: woken.task.tid, in_task });
            }
            TraceKind::SchedWakeup(woken) if by_wakeup => {
                self.emit(at, 0, What::Waking { tid: woken.task.tid, in_task });
            }
            TraceKind::SchedProcessFork { parent, child, child_pid, .. } => {
                let pid = self.pid(machine, parent.tid);
                let (parent, child, of) = (parent.tid, child.tid, *child_pid);
                self.emit(at, 0, What::Created { parent, child, pid: of });
                if of == child || of == 0 {
                    self.machine(machine).descriptors.fork(pid, child);
                }
            }
            TraceKind::SchedProcessExit(task) => {
                self.emit(at, 0, What::Exited(task.tid));
                let of = self.machine(machine);
                of.calls.remove(&task.tid);
                of.interrupted.remove(&task.tid);
                if self.pid(machine, task.tid) == task.tid {
                    self.machine(machine).descriptors.forget(task.tid);
                }
            }
            TraceKind::Lost(loss) => {
                self.emit(at, 0, What::Lost { until_ns: loss.to_ns });
                let of = self.machine(machine);
                of.has_losses = true;
                of.calls.clear();
                of.interrupted.clear();
                of.descriptors.forget_all();
            }
            TraceKind::StatedumpEnd => self.machine(machine).has_dump = true,
            TraceKind::StatedumpStart
            | TraceKind::StatedumpProcess(_)
            | TraceKind::SchedProcessExec { .. }
            | TraceKind::SchedWakeup(_)
            | TraceKind::SchedWakeupNew(_)
            | TraceKind::SchedMigrateTask { .. } => {}
            _ => self.other(at, record),
        }
    }

    /// Since the event before, events of some CPU are missing. A thread that leaves its CPU may go on there with its call,
    /// and its process with its descriptors.
    fn unseen(&mut self, at: EventStamp, event: &Event<'_>) {
        self.emit(at, 0, What::Unseen);
        let of = self.machine(at.machine);
        of.descriptors.forget_all();
        if let TraceKind::SchedSwitch { prev, .. } = &event.kind {
            of.calls.remove(&prev.tid);
            of.interrupted.remove(&prev.tid);
        }
    }

    /// Hands on what an event says of names and processes.
    fn names(&mut self, at: EventStamp, event: &Event<'_>) {
        let mut known = |tid: i32, pid: i32, comm: Comm, is_kernel: bool| {
            let of = self.machine(at.machine).threads.get(tid);
            let is_new = of.is_none_or(|of| {
                (comm != Comm::default() && of.comm != comm) || (pid != 0 && of.pid != pid)
            });
            if is_new || is_kernel {
                self.emit(at, 0, What::Known(Known { tid, pid, comm, is_kernel }));
            }
        };
        match &event.kind {
            TraceKind::SchedSwitch { prev, next, .. } => {
                known(prev.tid, 0, prev.comm, false);
                known(next.tid, 0, next.comm, false);
            }
            TraceKind::SchedProcessFork { parent, parent_pid, .. } => {
                known(parent.tid, *parent_pid, parent.comm, false);
            }
            TraceKind::StatedumpProcess(dumped) => {
                let is_kernel = dumped.tid == KTHREADD || dumped.ppid == KTHREADD;
                known(dumped.tid, dumped.pid, dumped.comm, is_kernel);
            }
            TraceKind::SchedProcessExec { filename, tid, .. } => {
                let name = filename.rsplit(|byte| *byte == b'/').next().unwrap_or(filename);
                known(*tid, 0, Comm::new(name.get(..15).unwrap_or(name)), false);
            }
            _ => {}
        }
    }

    fn pid(&mut self, machine: u16, tid: i32) -> i32 {
        let thread = self.machine(machine).threads.get(tid);
        thread.map(|thread| thread.pid).filter(|pid| *pid != 0).unwrap_or(tid)
    }

    fn sort<'t>(&mut self, machine: u16, record: &Record<impl Stored<'t>>) -> SketchEventKind {
        let Some(number) = record.number().filter(|number| *number < MAX_NAMES) else {
            return SketchEventKind::named(record.name());
        };
        let sorts = &mut self.machine(machine).sorts;
        if sorts.len() <= number {
            sorts.resize(number + 1, None);
        }
        match sorts.get_mut(number) {
            Some(Some(sort)) => *sort,
            Some(place) => *place.insert(SketchEventKind::named(record.name())),
            None => SketchEventKind::Nothing,
        }
    }

    fn other<'t>(&mut self, at: EventStamp, record: &Record<impl Stored<'t>>) {
        let machine = at.machine;
        let sort = self.sort(machine, record);
        if sort == SketchEventKind::Nothing {
            return;
        }
        let fields = Fields::of(record);
        let named = i32::try_from(fields.tid).ok().filter(|tid| (1..MAX_TID).contains(tid));
        let current = self.machine(machine).threads.current(at.cpu);
        let Some(tid) = named.or(current).filter(|tid| *tid > 0) else {
            // No thread that runs makes the state dump.
            match sort {
                SketchEventKind::SocketDump => self.socket_dumped(machine, &fields),
                SketchEventKind::FileDump => self.file_dumped(machine, &fields),
                SketchEventKind::Arrived => self.arrived(at, &fields),
                _ => {}
            }
            return;
        };
        match sort {
            SketchEventKind::Enters => {
                if let Some((call, _)) = call_name(record.name()) {
                    self.enters(at, tid, call, &fields);
                }
            }
            SketchEventKind::Leaves => {
                let call = call_name(record.name()).map_or("", |(call, _)| call);
                self.leaves(at, tid, call, &fields);
            }
            SketchEventKind::Second => {
                let object = self.sockets.object(machine, &fields.noised, [None; 2]);
                if let Some(call) = self.machine(machine).calls.get_mut(&tid)
                    && call.does == Does::Move
                {
                    call.to = object.or(call.to);
                }
            }
            SketchEventKind::Connection => {
                let addresses = fields.addresses();
                if let Some(call) = self.machine(machine).calls.get_mut(&tid)
                    && call.noised.is_some_and(|noised| noised.id == fields.inode)
                {
                    call.addresses = addresses;
                }
                self.sockets.known(machine, fields.inode, addresses, fields.namespace);
            }
            SketchEventKind::Arrived => self.arrived(at, &fields),
            SketchEventKind::SocketDump => self.socket_dumped(machine, &fields),
            SketchEventKind::FileDump => self.file_dumped(machine, &fields),
            SketchEventKind::Generated => self.generated(at, &fields),
            SketchEventKind::Delivered => {
                if is_by_thread(fields.code) {
                    let pid = self.pid(machine, tid);
                    let number = fields.sig as i32;
                    let signal = Local::Signal { pid, number };
                    let taken = Act::Taken(signal, crate::input::Much::One);
                    self.emit(at, tid, What::Act(taken));
                }
            }
            SketchEventKind::Nothing => {}
        }
    }

    fn arrived(&mut self, at: EventStamp, fields: &Fields) {
        let Noised { kind, id, position, .. } = fields.noised;
        if let (sockets::kind::TCP, Some(ports)) = (kind, fields.noised.ports()) {
            let EventStamp { time_ns, machine, .. } = at;
            self.sink.arrived(&Arrived { time_ns, machine, id, ports, position });
        }
    }

    fn generated(&mut self, at: EventStamp, fields: &Fields) {
        let contexts = self.machine(at.machine).contexts.get(at.cpu);
        let in_task = contexts.is_none_or(|contexts| contexts.running() == CpuContext::Task);
        let target = i32::try_from(fields.pid).unwrap_or(0);
        if in_task && target > 0 && fields.result == 0 && is_by_thread(fields.code) {
            let pid = self.pid(at.machine, target);
            let signal = Local::Signal { pid, number: fields.sig as i32 };
            self.emit(at, 0, What::Act(Act::Posted(signal)));
        }
    }

    fn socket_dumped(&mut self, machine: u16, fields: &Fields) {
        let addresses = fields.addresses();
        if let [Some(local), Some(remote)] = addresses
            && fields.protocol == TCP
            && remote.port() == 0
        {
            self.sink.listens(local.port());
        }
        self.sockets.known(machine, fields.inode, addresses, fields.namespace);
    }

    fn file_dumped(&mut self, machine: u16, fields: &Fields) {
        // A pipe that has a name in a file system has none of these.
        if fields.is_ours {
            self.machine(machine).lists(fields.noised.id);
        }
        if fields.noised.kind == sockets::kind::UNIX {
            self.sink.is_bound(sockets::unix(machine, fields.noised.id));
        }
        let Some(object) = descriptors::dumped(&fields.name) else { return };
        let of = self.machine(machine);
        if let Some((_, id)) = numbered(&object) {
            of.lists(id);
        }
        let pid = i32::try_from(fields.pid).unwrap_or(0);
        of.descriptors.set(pid, fields.fd, object);
    }

    /// A pipe or a socket is used: whether it was made in the time of the recording, and this is the first that is seen
    /// of it, so that nothing was in it before.
    fn is_fresh(&mut self, machine: u16, object: &ChannelObject) -> bool {
        let Some(numbered) = numbered(object) else { return false };
        let of = self.machine(machine);
        let is_first = of.seen.len() < MAX_SEEN && of.seen.insert(numbered);
        let is_known = of.dumped.contains(&numbered.1) || of.dumped.len() >= MAX_DUMPED;
        let is_listed = of.has_dump && !of.dumped.is_empty();
        is_first && is_listed && !is_known && !of.has_losses
    }
}

/// The number of a pipe or a socket, and whether it is a pipe.
const fn numbered(object: &ChannelObject) -> Option<(bool, u64)> {
    match object {
        ChannelObject::End(end) => Some((false, end.id)),
        ChannelObject::Local(Local::Pipe { inode, .. }) => Some((true, *inode)),
        ChannelObject::Local(_) => None,
    }
}

/// Whether a signal is of a thread that sent it, by `si_code`: `SI_USER`, `SI_QUEUE`, `SI_TKILL`.
const fn is_by_thread(code: i64) -> bool {
    matches!(code, 0 | -1 | -6)
}

#[cfg(test)]
mod tests;

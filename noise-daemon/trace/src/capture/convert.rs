//! Events of the store as events of the model.

use noise_common::hooks::Edge;
use noise_common::store::event::{NO_SECTOR, Payload, StoredRequest, StoredWoken, shown_state};
use noise_common::store::{EventKind, StoredEvent};

use super::ipc::{self, Addresses};
use super::names::{CapturedNames, Look};
use crate::event;
use crate::event::{Comm, Task, TraceKind};
use crate::follow::Processor;
use crate::rwbs;
use crate::state::LeftIn;

/// LTTng's priorities are the kernel's less this (`MAX_RT_PRIO`).
const REAL_TIME: i32 = 100;
/// Bytes of a sector, as a shift.
const SECTOR_SHIFT: u32 = 9;
/// What a thread is left in that is gone.
const GONE: u32 = 0x10;

/// Operations of a request (`REQ_OP_*` of the kernel's `blk_types.h`, the same from 4.19 on).
const READ: u8 = 0;
const WRITE: u8 = 1;
const FLUSH: u8 = 2;
const DISCARD: u8 = 3;
const SECURE_ERASE: u8 = 5;
const WRITE_ZEROES: u8 = 9;

const TCP: u32 = 6;

/// The priority of most threads, as the kernel has it.
const USUAL_PRIORITY: i16 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    tid: u32,
    priority: i16,
}

impl Running {
    pub const fn tid(self) -> u32 {
        self.tid
    }
}

/// Where an event happened.
pub struct On<'c> {
    pub cpu: u32,
    pub processor: &'c mut Processor<Running>,
    /// Addresses that came before the event that they belong to.
    pub addresses: &'c mut Addresses,
}

struct TaskResolver<'n, L> {
    names: &'n mut CapturedNames,
    look: &'n mut L,
    cpu: u32,
    now_ns: u64,
}

impl<L: Look> TaskResolver<'_, L> {
    fn task(&mut self, tid: u32, priority: i16) -> Task {
        let comm = self.names.thread(tid, self.cpu, self.now_ns, self.look);
        Task { comm, tid: tid.cast_signed(), prio: i32::from(priority) - REAL_TIME }
    }

    fn woken(&mut self, woken: StoredWoken) -> event::Woken {
        let task = self.task(woken.tid, woken.priority);
        event::Woken { task, target_cpu: woken.cpu }
    }

    fn switch(&mut self, from: Running, left_in: u32, to: Running) -> TraceKind<'static> {
        let prev = self.task(from.tid, from.priority);
        if left_in == GONE {
            self.names.gone(from.tid);
        }
        let next = self.task(to.tid, to.priority);
        TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(left_in.into()), next }
    }

    /// A thread begins, with its maker's name.
    fn started(&mut self, tid: u32, maker: u32) {
        let comm = self.task(maker, 0).comm;
        self.names.started(tid, comm, self.now_ns);
    }

    fn fork(&mut self, parent_tid: u32, child_tid: u32, child_pid: u32) -> TraceKind<'static> {
        // A thread is of its maker's process.
        let known = self.names.process(parent_tid);
        let parent_pid = if child_pid == child_tid { known } else { child_pid };
        let parent = Task { prio: 0, ..self.task(parent_tid, 0) };
        self.names.created(child_tid, child_pid, parent_tid, parent.comm, self.now_ns);
        TraceKind::SchedProcessFork {
            parent,
            parent_pid: parent_pid.cast_signed(),
            child: Task { tid: child_tid.cast_signed(), ..parent },
            child_pid: child_pid.cast_signed(),
        }
    }
}

const fn flags(request: &StoredRequest) -> u32 {
    let operation = match request.operation {
        READ => rwbs::READ,
        WRITE | WRITE_ZEROES => rwbs::WRITE,
        FLUSH => rwbs::FLUSH,
        DISCARD => rwbs::DISCARD,
        SECURE_ERASE => rwbs::DISCARD | rwbs::SECURE,
        _ => 0,
    };
    let mut flags = operation;
    if request.readahead {
        flags |= rwbs::RAHEAD;
    }
    if request.sync {
        flags |= rwbs::SYNC;
    }
    if request.meta {
        flags |= rwbs::META;
    }
    if request.fua {
        flags |= rwbs::FUA;
    }
    if request.preflush {
        flags |= rwbs::PREFLUSH;
    }
    flags
}

/// A step of a block request, with the thread that asks for it.
fn block<'t>(which: EventKind, request: &StoredRequest, asker: &'t Task) -> TraceKind<'t> {
    let is_done = which == EventKind::BlockComplete;
    let sector = match request.sector {
        NO_SECTOR if !is_done => 0,
        sector => sector,
    };
    let request = event::Request {
        dev: request.device,
        sector,
        sectors: request.bytes >> SECTOR_SHIFT,
        bytes: request.bytes,
        rwbs: flags(request),
        tid: asker.tid,
        comm: asker.comm.bytes(),
        error: -i32::from(request.error),
    };
    match which {
        EventKind::BlockInsert => TraceKind::BlockRqInsert(request),
        EventKind::BlockIssue => TraceKind::BlockRqIssue(request),
        EventKind::BlockRequeue => TraceKind::BlockRqRequeue(request),
        EventKind::BlockMerge => TraceKind::BlockRqMerge(request),
        _ => TraceKind::BlockRqComplete(request),
    }
}

/// A thread runs another program, and has a name by it: hands that event of the model on.
pub fn exec(
    (tid, old_tid): (u32, u32),
    comm: Comm,
    now_ns: u64,
    on: On<'_>,
    names: &mut CapturedNames,
    write: impl FnOnce(&TraceKind<'_>) -> bool,
) {
    if tid != old_tid {
        names.gone(old_tid);
    }
    names.renamed(tid, comm, now_ns);
    if let Some(running) = on.processor.current() {
        on.processor.goes_to(Some(Running { tid, ..running }), now_ns);
    }
    write(&TraceKind::SchedProcessExec {
        filename: comm.bytes(),
        tid: tid.cast_signed(),
        old_tid: old_tid.cast_signed(),
    });
}

/// Hands the event of the model on, unless it is one that is not known.
pub fn kind(
    event: &StoredEvent,
    on: On<'_>,
    names: &mut CapturedNames,
    look: &mut impl Look,
    write: impl FnOnce(&TraceKind<'_>) -> bool,
) {
    let (Some(which), Some(payload)) = (event.kind(), event.payload()) else { return };
    let On { cpu, processor, addresses } = on;
    let current = processor.current();
    let priority = |tid: u32| {
        let running = current.filter(|running| running.tid == tid);
        running.map_or(USUAL_PRIORITY, |known| known.priority)
    };
    let mut who = TaskResolver { names, look, cpu, now_ns: event.time_ns };
    let kind = match payload {
        Payload::Switch { prev_tid, prev_prio, prev_state, preempted, next_tid, next_prio } => {
            let next = Running { tid: next_tid, priority: next_prio };
            processor.goes_to(Some(next), event.time_ns);
            let previous = Running { tid: prev_tid, priority: prev_prio };
            who.switch(previous, shown_state(prev_state, preempted), next)
        }
        Payload::Waking(woken) => TraceKind::SchedWaking(who.woken(woken)),
        Payload::WakeupNew(woken) => {
            // Its maker is what runs here.
            if let Some(maker) = current {
                who.started(woken.tid, maker.tid);
            }
            TraceKind::SchedWakeupNew(who.woken(woken))
        }
        Payload::Migrate { task, to } => TraceKind::SchedMigrateTask {
            task: who.task(task.tid, task.priority),
            orig_cpu: task.cpu,
            dest_cpu: to,
        },
        Payload::Fork { parent_tid, child_tid, child_pid } => {
            who.fork(parent_tid, child_tid, child_pid)
        }
        Payload::Exit { tid, .. } => TraceKind::SchedProcessExit(who.task(tid, priority(tid))),
        Payload::Wait { tid, child } => {
            let Task { comm, prio, .. } = who.task(tid, priority(tid));
            TraceKind::SchedProcessWait { comm, child: child.cast_signed(), prio }
        }
        // An exec is written with the name that follows it.
        Payload::Exec { .. } => return,
        Payload::Name { comm } => {
            if let Some(running) = current {
                who.names.renamed(running.tid, Comm::new(&comm), event.time_ns);
            }
            return;
        }
        Payload::IrqEntry { irq } => {
            TraceKind::IrqHandlerEntry { irq, name: who.names.interrupt(irq, who.look) }
        }
        Payload::IrqExit { irq, handled } => TraceKind::IrqHandlerExit { irq, ret: handled.into() },
        Payload::Vector { vector, edge, number } => match edge {
            Edge::Entry => TraceKind::VectorEntry { which: vector, vector: number.into() },
            Edge::Exit => TraceKind::VectorExit { which: vector, vector: number.into() },
        },
        Payload::SoftirqRaise { vector } => TraceKind::SoftirqRaise { vec: vector.into() },
        Payload::Softirq { vector, edge: Edge::Entry } => {
            TraceKind::SoftirqEntry { vec: vector.into() }
        }
        Payload::Softirq { vector, edge: Edge::Exit } => {
            TraceKind::SoftirqExit { vec: vector.into() }
        }
        Payload::Nmi { duration_ns } => {
            let delta_ns = i64::try_from(duration_ns).unwrap_or(i64::MAX);
            // How many causes it handled is in neither the store nor the recording.
            TraceKind::NmiHandler { delta_ns, handled: 0 }
        }
        Payload::HrtimerEntry { hrtimer, function, now_ns } => {
            TraceKind::HrtimerExpireEntry { hrtimer, function, now: now_ns }
        }
        Payload::HrtimerExit { hrtimer } => TraceKind::HrtimerExpireExit { hrtimer },
        Payload::Throttled { tid, throttled_ns } => {
            TraceKind::Throttled { task: Task { prio: 0, ..who.task(tid, 0) }, throttled_ns }
        }
        Payload::Block(request) => {
            let asker = match current {
                Some(running) => who.task(running.tid, 0),
                None => Task { tid: -1, ..Task::default() },
            };
            write(&block(which, &request, &asker));
            return;
        }
        Payload::Net(packet) => {
            let name = who.names.interface(packet.interface, packet.namespace, who.look);
            let packet = event::Packet { skb: packet.skb, len: packet.bytes, name };
            match which {
                EventKind::NetQueue => TraceKind::NetDevQueue(packet),
                EventKind::NetXmit => TraceKind::NetDevStartXmit(packet),
                _ => TraceKind::NetifReceiveSkb(packet),
            }
        }
        Payload::CallEntry(call) => match ipc::entry(&call) {
            Some(kind) => kind,
            None => return,
        },
        Payload::CallExit(call) => match ipc::exit(&call) {
            Some(kind) => kind,
            None => return,
        },
        Payload::CallOther(other) => ipc::other(&other),
        Payload::Connection(ends, protocol) => {
            TraceKind::Connection(addresses.connection(&ends, protocol.into(), event.time_ns))
        }
        Payload::SockState { ends, from, to } => TraceKind::InetSockSetState {
            connection: addresses.connection(&ends, TCP, event.time_ns),
            from: from.into(),
            to: to.into(),
        },
        Payload::Address { address, is_remote } => {
            addresses.note(address, is_remote, event.time_ns);
            return;
        }
        Payload::Transfer(transfer) => ipc::transfer(which, &transfer),
        Payload::Signal(signal) => ipc::signal(which, &signal, who.task(signal.tid, 0)),
        Payload::NetDrop { skb, reason } => TraceKind::SkbKfree { skb, reason },
        Payload::TcpRetransmit { skb, interface, namespace } => {
            let name = who.names.interface(interface, namespace, who.look);
            TraceKind::TcpRetransmitSkb(event::Packet { skb, len: 0, name })
        }
    };
    write(&kind);
}

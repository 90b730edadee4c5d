//! Events of the store as events of the model.

use noise_common::store::event::{NO_SECTOR, StoredRequest};
use noise_common::store::{EventKind, StoredEvent};

use super::ipc::{self, Addresses};
use super::names::{CapturedNames, Look};
use crate::event;
use crate::event::{Comm, Task, TraceKind};
use crate::follow::Processor;
use crate::ipc::Signal;
use crate::rwbs;
use crate::state::LeftIn;

/// LTTng's priorities are the kernel's less this (`MAX_RT_PRIO`).
const REAL_TIME: i32 = 100;
/// Bytes of a sector, as a shift.
const SECTOR_SHIFT: u32 = 9;
/// What a thread is left in that is gone.
const GONE: i64 = 0x10;

/// Operations of a request (`REQ_OP_*` of the kernel's `blk_types.h`, the same from 4.19 on).
const READ: u8 = 0;
const WRITE: u8 = 1;
const FLUSH: u8 = 2;
const DISCARD: u8 = 3;
const SECURE_ERASE: u8 = 5;
const WRITE_ZEROES: u8 = 9;

const TCP: u32 = 6;

/// The priority of most threads.
const USUAL_PRIORITY: i32 = 20;

/// Where an event happened.
pub struct On<'c> {
    pub cpu: u32,
    pub processor: &'c mut Processor<Task>,
    /// Addresses that came before the event that they belong to.
    pub addresses: &'c mut Addresses,
}

/// What the flags of a request in the store are, from the lowest bit on.
const FLAGS: [u32; 5] = [rwbs::SYNC, rwbs::META, rwbs::FUA, rwbs::PREFLUSH, rwbs::RAHEAD];

fn flags(request: &StoredRequest) -> u32 {
    let operation = match request.operation {
        READ => rwbs::READ,
        WRITE | WRITE_ZEROES => rwbs::WRITE,
        FLUSH => rwbs::FLUSH,
        DISCARD => rwbs::DISCARD,
        SECURE_ERASE => rwbs::DISCARD | rwbs::SECURE,
        _ => 0,
    };
    let own = (0..).zip(FLAGS).filter(|(bit, _)| request.flags >> bit & 1 == 1);
    own.fold(operation, |all, (_, flag)| all | flag)
}

const fn unnamed(tid: u32, prio: i32) -> Task {
    Task { comm: Comm([0; 16]), tid: tid.cast_signed(), prio }
}

fn woken(event: &StoredEvent) -> event::Woken {
    let [tid, target_cpu, ..] = event.numbers();
    event::Woken { task: unnamed(tid, i32::from(event.priority()) - REAL_TIME), target_cpu }
}

/// A step of a block request; who asks for it is not known.
fn block(event: &StoredEvent) -> event::Request<'static> {
    let request = event.request();
    let is_done = event.kind() == Some(EventKind::BlockComplete);
    event::Request {
        dev: request.device,
        sector: if request.sector == NO_SECTOR && !is_done { 0 } else { request.sector },
        sectors: request.bytes >> SECTOR_SHIFT,
        bytes: request.bytes,
        rwbs: flags(&request),
        tid: -1,
        comm: b"",
        error: -i32::from(request.error),
    }
}

fn packet(event: &StoredEvent) -> event::Packet<'static> {
    let [.., len, _] = event.numbers();
    event::Packet { skb: event.words[0], len, name: b"" }
}

/// The event of the model, without names; `None` of what is none by itself.
pub fn kind(event: &StoredEvent, addresses: &mut Addresses) -> Option<TraceKind<'static>> {
    let (which, time_ns) = (event.kind()?, event.time_ns);
    let [id, other, third, _] = event.numbers();
    let [first, second] = event.words;
    let vec = event.small.into();
    Some(match which {
        EventKind::Switch => {
            let (priority, left_in, next_priority) = event.left_in();
            TraceKind::SchedSwitch {
                prev: unnamed(id, i32::from(priority) - REAL_TIME),
                prev_state: LeftIn::of(left_in.into()),
                next: unnamed(other, i32::from(next_priority) - REAL_TIME),
            }
        }
        EventKind::Waking => TraceKind::SchedWaking(woken(event)),
        EventKind::WakeupNew => TraceKind::SchedWakeupNew(woken(event)),
        EventKind::Migrate => {
            let event::Woken { task, target_cpu } = woken(event);
            TraceKind::SchedMigrateTask { task, orig_cpu: target_cpu, dest_cpu: third }
        }
        EventKind::Fork => TraceKind::SchedProcessFork {
            parent: unnamed(id, 0),
            parent_pid: 0,
            child: unnamed(other, 0),
            child_pid: third.cast_signed(),
        },
        EventKind::Exec => {
            let (tid, old_tid) = (id.cast_signed(), other.cast_signed());
            TraceKind::SchedProcessExec { filename: b"", tid, old_tid }
        }
        EventKind::Exit => TraceKind::SchedProcessExit(unnamed(id, USUAL_PRIORITY)),
        EventKind::Wait => TraceKind::SchedProcessWait {
            comm: Comm::default(),
            child: other.cast_signed(),
            prio: USUAL_PRIORITY,
        },
        EventKind::IrqEntry => TraceKind::IrqHandlerEntry { irq: id, name: b"" },
        EventKind::IrqExit => TraceKind::IrqHandlerExit { irq: id, ret: (other != 0).into() },
        EventKind::VectorEntry => {
            TraceKind::VectorEntry { which: event.vector()?, vector: event.detail.into() }
        }
        EventKind::VectorExit => {
            TraceKind::VectorExit { which: event.vector()?, vector: event.detail.into() }
        }
        EventKind::SoftirqRaise => TraceKind::SoftirqRaise { vec },
        EventKind::SoftirqEntry => TraceKind::SoftirqEntry { vec },
        EventKind::SoftirqExit => TraceKind::SoftirqExit { vec },
        EventKind::Nmi => {
            // How many causes it handled is in neither the store nor the recording.
            let delta_ns = i64::try_from(first).unwrap_or(i64::MAX);
            TraceKind::NmiHandler { delta_ns, handled: 0 }
        }
        EventKind::HrtimerEntry => {
            let (hrtimer, function) = event.hrtimer();
            TraceKind::HrtimerExpireEntry { hrtimer, function, now: second.cast_signed() }
        }
        EventKind::HrtimerExit => TraceKind::HrtimerExpireExit { hrtimer: first },
        EventKind::Throttled => TraceKind::Throttled { task: unnamed(id, 0), throttled_ns: second },
        EventKind::BlockInsert => TraceKind::BlockRqInsert(block(event)),
        EventKind::BlockIssue => TraceKind::BlockRqIssue(block(event)),
        EventKind::BlockRequeue => TraceKind::BlockRqRequeue(block(event)),
        EventKind::BlockMerge => TraceKind::BlockRqMerge(block(event)),
        EventKind::BlockComplete => TraceKind::BlockRqComplete(block(event)),
        EventKind::NetQueue => TraceKind::NetDevQueue(packet(event)),
        EventKind::NetXmit => TraceKind::NetDevStartXmit(packet(event)),
        EventKind::NetReceive => TraceKind::NetifReceiveSkb(packet(event)),
        EventKind::NetDrop => TraceKind::SkbKfree { skb: first, reason: third },
        EventKind::TcpRetransmit => {
            TraceKind::TcpRetransmitSkb(event::Packet { len: 0, ..packet(event) })
        }
        EventKind::CallEntry => ipc::entry(event)?,
        EventKind::CallExit => ipc::exit(event)?,
        EventKind::CallOther => ipc::other(event),
        EventKind::Connection => {
            let protocol = event.small.into();
            TraceKind::Connection(addresses.connection(&event.ends(), protocol, time_ns))
        }
        EventKind::SockState => TraceKind::InetSockSetState {
            connection: addresses.connection(&event.ends(), TCP, time_ns),
            from: (event.small & 0xf).into(),
            to: (event.small >> 4).into(),
        },
        EventKind::Address => {
            addresses.note(event.text(), event.small != 0, time_ns);
            return None;
        }
        // It is written with the exec before it.
        EventKind::Name => return None,
        EventKind::SockSend | EventKind::SockReceive | EventKind::DataReady => {
            ipc::transfer(which, event)
        }
        EventKind::SignalGenerate | EventKind::SignalDeliver => ipc::signal(which, &event.signal()),
    })
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
        on.processor.goes_to(Some(Task { tid: tid.cast_signed(), ..running }), now_ns);
    }
    write(&TraceKind::SchedProcessExec {
        filename: comm.bytes(),
        tid: tid.cast_signed(),
        old_tid: old_tid.cast_signed(),
    });
}

/// Hands the event of the model on, with names, unless it is one that is not known.
pub fn named(
    event: &StoredEvent,
    on: On<'_>,
    names: &mut CapturedNames,
    look: &mut impl Look,
    write: impl FnOnce(&TraceKind<'_>) -> bool,
) {
    let On { cpu, processor, addresses } = on;
    let (current, now_ns) = (processor.current(), event.time_ns);
    let Some(mut kind) = kind(event, addresses) else {
        if let Some(running) = current.filter(|_| event.kind() == Some(EventKind::Name)) {
            names.renamed(running.tid.cast_unsigned(), Comm::new(&event.text()), now_ns);
        }
        return;
    };
    let priority = |tid: i32| {
        current.filter(|running| running.tid == tid).map_or(USUAL_PRIORITY, |known| known.prio)
    };
    let asker;
    match &mut kind {
        TraceKind::SchedSwitch { prev, prev_state, next } => {
            processor.goes_to(Some(*next), now_ns);
            prev.comm = names.thread(prev.tid.cast_unsigned(), cpu, now_ns, look);
            if prev_state.bits() == GONE {
                names.gone(prev.tid.cast_unsigned());
            }
            next.comm = names.thread(next.tid.cast_unsigned(), cpu, now_ns, look);
        }
        TraceKind::SchedWakeupNew(event::Woken { task, .. }) => {
            // Its maker is what runs here.
            if let Some(maker) = current {
                let comm = names.thread(maker.tid.cast_unsigned(), cpu, now_ns, look);
                names.started(task.tid.cast_unsigned(), comm, now_ns);
            }
            task.comm = names.thread(task.tid.cast_unsigned(), cpu, now_ns, look);
        }
        TraceKind::SchedWaking(event::Woken { task, .. })
        | TraceKind::SchedMigrateTask { task, .. }
        | TraceKind::Throttled { task, .. }
        | TraceKind::SignalGenerate(Signal { task, .. })
        | TraceKind::SignalDeliver(Signal { task, .. }) => {
            task.comm = names.thread(task.tid.cast_unsigned(), cpu, now_ns, look);
        }
        TraceKind::SchedProcessFork { parent, parent_pid, child, child_pid } => {
            let [maker, made, pid, _] = event.numbers();
            // A thread is of its maker's process.
            let known = names.process(maker).cast_signed();
            *parent_pid = if pid == made { known } else { *child_pid };
            parent.comm = names.thread(maker, cpu, now_ns, look);
            child.comm = parent.comm;
            names.created(made, pid, maker, parent.comm, now_ns);
        }
        TraceKind::SchedProcessExit(task) => {
            task.comm = names.thread(task.tid.cast_unsigned(), cpu, now_ns, look);
            task.prio = priority(task.tid);
        }
        TraceKind::SchedProcessWait { comm, prio, .. } => {
            let [tid, ..] = event.numbers();
            *comm = names.thread(tid, cpu, now_ns, look);
            *prio = priority(tid.cast_signed());
        }
        TraceKind::IrqHandlerEntry { irq, name } => *name = names.interrupt(*irq, look),
        TraceKind::BlockRqInsert(request)
        | TraceKind::BlockRqIssue(request)
        | TraceKind::BlockRqRequeue(request)
        | TraceKind::BlockRqMerge(request)
        | TraceKind::BlockRqComplete(request) => {
            if let Some(Task { tid, .. }) = current {
                asker = names.thread(tid.cast_unsigned(), cpu, now_ns, look);
                (request.tid, request.comm) = (tid, asker.bytes());
            }
        }
        TraceKind::NetDevQueue(packet)
        | TraceKind::NetDevStartXmit(packet)
        | TraceKind::NetifReceiveSkb(packet)
        | TraceKind::TcpRetransmitSkb(packet) => {
            let [.., interface] = event.numbers();
            packet.name = names.interface(interface, event.detail, look);
        }
        _ => {}
    }
    write(&kind);
}

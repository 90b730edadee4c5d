//! Events that Perfetto has a type for.

use noise_common::hooks::Vector;
use noise_protobuf::Message;
use noise_text::clean::as_text;

use crate::event::{Comm, Packet, Request, Task, TraceKind, Woken};
use crate::rwbs;

/// Writes an event with its type; false where Perfetto has none for it, and nothing is written.
pub fn typed(message: &mut Message, kind: &TraceKind<'_>, add_prio: i32) -> bool {
    let prio = |task: &Task| task.prio.saturating_add(add_prio);
    match kind {
        TraceKind::SchedSwitch { prev, prev_state, next } => message.message(4, |event| {
            comm(event, 1, &prev.comm);
            event.signed(2, prev.tid);
            event.signed(3, prio(prev));
            event.signed(4, prev_state.bits());
            comm(event, 5, &next.comm);
            event.signed(6, next.tid);
            event.signed(7, prio(next));
        }),
        TraceKind::SchedWakeup(who) => woken(message, 17, who, add_prio),
        TraceKind::SchedWaking(who) => woken(message, 20, who, add_prio),
        TraceKind::SchedWakeupNew(who) => woken(message, 114, who, add_prio),
        TraceKind::SchedMigrateTask { task, orig_cpu, dest_cpu } => message.message(491, |event| {
            comm(event, 1, &task.comm);
            event.signed(2, task.tid);
            event.signed(3, prio(task));
            event.unsigned(4, *orig_cpu);
            event.unsigned(5, *dest_cpu);
        }),
        TraceKind::SchedProcessFork { parent, child, .. } => message.message(239, |event| {
            comm(event, 1, &parent.comm);
            event.signed(2, parent.tid);
            comm(event, 3, &child.comm);
            event.signed(4, child.tid);
        }),
        TraceKind::SchedProcessExec { filename, tid, .. } => message.message(237, |event| {
            event.text(1, &as_text(filename));
            event.signed(2, *tid);
        }),
        TraceKind::SchedProcessExit(task) => message.message(238, |event| {
            comm(event, 1, &task.comm);
            event.signed(2, task.tid);
            event.signed(4, prio(task));
        }),
        TraceKind::SchedProcessFree(task) => message.message(240, |event| {
            comm(event, 1, &task.comm);
            event.signed(2, task.tid);
            event.signed(3, prio(task));
        }),
        TraceKind::SchedProcessWait { comm: name, child, prio } => message.message(242, |event| {
            comm(event, 1, name);
            event.signed(2, *child);
            event.signed(3, prio.saturating_add(add_prio));
        }),
        TraceKind::IrqHandlerEntry { irq, name } => message.message(36, |event| {
            event.unsigned(1, *irq);
            event.text(2, &as_text(name));
        }),
        TraceKind::IrqHandlerExit { irq, ret } => message.message(37, |event| {
            event.unsigned(1, *irq);
            event.signed(2, *ret);
        }),
        TraceKind::SoftirqEntry { vec } => number(message, 24, *vec),
        TraceKind::SoftirqExit { vec } => number(message, 25, *vec),
        TraceKind::SoftirqRaise { vec } => number(message, 26, *vec),
        TraceKind::VectorEntry { which: Vector::LocalTimer, vector } => {
            number(message, 559, *vector)
        }
        TraceKind::VectorExit { which: Vector::LocalTimer, vector } => {
            number(message, 560, *vector)
        }
        TraceKind::HrtimerExpireEntry { hrtimer, function, now } => message.message(553, |event| {
            event.unsigned(1, *hrtimer);
            event.signed(2, *now);
            event.unsigned(3, *function);
        }),
        TraceKind::HrtimerExpireExit { hrtimer } => {
            message.message(554, |event| event.unsigned(1, *hrtimer));
        }
        TraceKind::BlockRqIssue(request) => block(message, 45, request, 5, Some(6)),
        TraceKind::BlockRqInsert(request) => block(message, 126, request, 5, Some(6)),
        TraceKind::BlockRqComplete(request) => block(message, 125, request, 5, None),
        TraceKind::BlockRqRequeue(request) => block(message, 129, request, 5, None),
        TraceKind::NetDevXmit { packet, rc } => message.message(361, |event| {
            event.unsigned(1, packet.len);
            event.text(2, &as_text(packet.name));
            event.signed(3, *rc);
            event.unsigned(4, packet.skb);
        }),
        TraceKind::NetifReceiveSkb(packet) => received(message, 360, packet, [1, 2, 3]),
        TraceKind::NapiGroReceive(packet) => received(message, 365, packet, [7, 10, 15]),
        _ => return false,
    }
    true
}

fn comm(event: &mut Message, field: u32, comm: &Comm) {
    event.text(field, &as_text(comm.bytes()));
}

fn number(message: &mut Message, field: u32, number: u32) {
    message.message(field, |event| event.unsigned(1, number));
}

fn woken(message: &mut Message, field: u32, woken: &Woken, add_prio: i32) {
    message.message(field, |event| {
        comm(event, 1, &woken.task.comm);
        event.signed(2, woken.task.tid);
        event.signed(3, woken.task.prio.saturating_add(add_prio));
        event.unsigned(5, woken.target_cpu);
    });
}

fn block(
    message: &mut Message,
    field: u32,
    request: &Request<'_>,
    rwbs_field: u32,
    comm: Option<u32>,
) {
    message.message(field, |event| {
        event.unsigned(1, request.dev);
        event.unsigned(2, request.sector);
        event.unsigned(3, request.sectors);
        if let Some(comm) = comm {
            event.unsigned(4, request.bytes);
            event.text(comm, &as_text(request.comm));
        }
        event.text(rwbs_field, &rwbs::letters(request.rwbs));
    });
}

fn received(message: &mut Message, field: u32, packet: &Packet<'_>, fields: [u32; 3]) {
    let [len, name, skb] = fields;
    message.message(field, |event| {
        event.unsigned(len, packet.len);
        event.text(name, &as_text(packet.name));
        event.unsigned(skb, packet.skb);
    });
}

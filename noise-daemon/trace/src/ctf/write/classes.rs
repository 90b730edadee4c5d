//! The events of a recording, their names and fields as LTTng has them, and their numbers.
//!
//! Numbers below 31 fit into the short head of an event: those are the frequent ones.

use noise_common::hooks::{Edge, Hook, VECTOR_HOOKS, Vector};
use noise_common::store::calls::{CALLS, CallInfo};

use crate::event::Kind;
use crate::ipc::FUTEX_ADDRESS;
use crate::what::{CALL_OTHER, CONNECTION, MARK, STATEDUMP_SOCKET, THROTTLED};

/// How a field is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The name of a task: 16 characters.
    Comm,
    /// 32 bits with a sign.
    Signed,
    /// 32 bits without.
    Unsigned,
    /// 64 bits with a sign.
    LongSigned,
    /// 64 bits without.
    LongUnsigned,
    /// 64 bits that people read in base 16.
    Address,
    /// A text of any length.
    Text,
    /// The number of a kind of object, in 8 bits, which has a name.
    Object,
    /// 8 bits without a sign.
    Byte,
}

/// A field.
pub type Field = (&'static str, Type);

const SWITCH: &[Field] = &[
    ("prev_comm", Type::Comm),
    ("prev_tid", Type::Signed),
    ("prev_prio", Type::Signed),
    ("prev_state", Type::LongSigned),
    ("next_comm", Type::Comm),
    ("next_tid", Type::Signed),
    ("next_prio", Type::Signed),
];
const WOKEN: &[Field] = &[
    ("comm", Type::Comm),
    ("tid", Type::Signed),
    ("prio", Type::Signed),
    ("target_cpu", Type::Signed),
];
const MIGRATE: &[Field] = &[
    ("comm", Type::Comm),
    ("tid", Type::Signed),
    ("prio", Type::Signed),
    ("orig_cpu", Type::Signed),
    ("dest_cpu", Type::Signed),
];
const FORK: &[Field] = &[
    ("parent_comm", Type::Comm),
    ("parent_tid", Type::Signed),
    ("parent_pid", Type::Signed),
    ("child_comm", Type::Comm),
    ("child_tid", Type::Signed),
    ("child_pid", Type::Signed),
];
const EXEC: &[Field] =
    &[("filename", Type::Text), ("tid", Type::Signed), ("old_tid", Type::Signed)];
const EXIT: &[Field] = &[("comm", Type::Comm), ("tid", Type::Signed), ("prio", Type::Signed)];
const SOFTIRQ: &[Field] = &[("vec", Type::Unsigned)];
const REQUEST: &[Field] = &[
    ("dev", Type::Unsigned),
    ("sector", Type::LongUnsigned),
    ("nr_sector", Type::Unsigned),
    ("bytes", Type::Unsigned),
    ("tid", Type::Signed),
    ("rwbs", Type::Unsigned),
    ("comm", Type::Comm),
];
const MERGED: &[Field] = &[
    ("dev", Type::Unsigned),
    ("sector", Type::LongUnsigned),
    ("nr_sector", Type::Unsigned),
    ("rwbs", Type::Unsigned),
    ("tid", Type::Signed),
    ("comm", Type::Comm),
];
const DONE: &[Field] = &[
    ("dev", Type::Unsigned),
    ("sector", Type::LongUnsigned),
    ("nr_sector", Type::Unsigned),
    ("error", Type::Signed),
    ("rwbs", Type::Unsigned),
];
const PACKET: &[Field] =
    &[("skbaddr", Type::Address), ("len", Type::Unsigned), ("name", Type::Text)];
const PROCESS: &[Field] = &[
    ("tid", Type::Signed),
    ("vtid", Type::Signed),
    ("pid", Type::Signed),
    ("vpid", Type::Signed),
    ("ppid", Type::Signed),
    ("vppid", Type::Signed),
    ("name", Type::Comm),
    ("type", Type::Signed),
    ("mode", Type::Signed),
    ("submode", Type::Signed),
    ("status", Type::Signed),
    ("ns_level", Type::Signed),
    ("ns_inum", Type::Unsigned),
];

const MARKED: &[Field] = &[
    ("action", Type::Text),
    ("name", Type::Text),
    ("key", Type::Text),
    ("pid", Type::Signed),
    ("tid", Type::Signed),
    ("uid", Type::Unsigned),
    ("before_ns", Type::LongUnsigned),
];

/// Events before those of interrupt vectors.
const FIRST: &[(&str, &[Field])] = &[
    ("sched_switch", SWITCH),
    ("sched_waking", WOKEN),
    ("sched_wakeup_new", WOKEN),
    ("sched_migrate_task", MIGRATE),
    ("irq_handler_entry", &[("irq", Type::Signed), ("name", Type::Text)]),
    ("irq_handler_exit", &[("irq", Type::Signed), ("ret", Type::Signed)]),
    ("irq_softirq_raise", SOFTIRQ),
    ("irq_softirq_entry", SOFTIRQ),
    ("irq_softirq_exit", SOFTIRQ),
    ("block_rq_insert", REQUEST),
    ("block_rq_issue", REQUEST),
    ("block_rq_requeue", DONE),
    ("block_rq_complete", DONE),
    ("block_rq_merge", MERGED),
    ("net_dev_queue", PACKET),
    ("net_dev_start_xmit", PACKET),
    ("netif_receive_skb", PACKET),
    ("skb_kfree", &[("skbaddr", Type::Address), ("reason", Type::Unsigned)]),
    (
        "timer_hrtimer_expire_entry",
        &[("hrtimer", Type::Address), ("now", Type::LongSigned), ("function", Type::Address)],
    ),
    ("timer_hrtimer_expire_exit", &[("hrtimer", Type::Address)]),
];
const FIRST_VECTOR: u32 = FIRST.len() as u32;
const VECTOR: &[Field] = &[("vector", Type::Signed)];
const LAST_AT: u32 = FIRST_VECTOR + VECTOR_HOOKS.len() as u32;

/// Events behind them.
const LAST: &[(&str, &[Field])] = &[
    ("nmi_handler", &[("delta_ns", Type::LongSigned)]),
    ("tcp_retransmit_skb", &[("skbaddr", Type::Address), ("name", Type::Text)]),
    ("sched_process_fork", FORK),
    ("sched_process_exec", EXEC),
    ("sched_process_exit", EXIT),
    ("lttng_statedump_start", &[]),
    ("lttng_statedump_process_state", PROCESS),
    (
        "lttng_statedump_interrupt",
        &[("irq", Type::Unsigned), ("name", Type::Text), ("action", Type::Text)],
    ),
    ("lttng_statedump_block_device", &[("dev", Type::Unsigned), ("diskname", Type::Text)]),
    ("lttng_statedump_network_interface", &[("name", Type::Text)]),
    ("lttng_statedump_end", &[]),
    // LTTng has none like it.
    ("statedump_cgroup", &[("tid", Type::Signed), ("path", Type::Text)]),
    (MARK, MARKED),
    (CALL_OTHER, &[("fd", Type::Signed), TID, OBJECT, ID, PEER, POSITION]),
    (CONNECTION, CONNECTED),
    (
        "inet_sock_set_state",
        &[
            ("oldstate", Type::Unsigned),
            ("newstate", Type::Unsigned),
            ("sport", Type::Unsigned),
            ("dport", Type::Unsigned),
            ("protocol", Type::Unsigned),
            ("saddr", Type::Text),
            ("daddr", Type::Text),
            ID,
            NET_NS,
        ],
    ),
    ("sock_send_length", TRANSFER),
    ("sock_recv_length", TRANSFER),
    ("sk_data_ready", &[OBJECT, ID, PEER, POSITION]),
    (
        "signal_generate",
        &[
            ("sig", Type::Signed),
            ("code", Type::Signed),
            ("comm", Type::Comm),
            ("pid", Type::Signed),
            ("group", Type::Signed),
            ("result", Type::Signed),
        ],
    ),
    ("signal_deliver", &[("sig", Type::Signed), ("code", Type::Signed), TID]),
    (
        "lttng_statedump_file_descriptor",
        &[
            ("pid", Type::Signed),
            ("fd", Type::Signed),
            ("flags", Type::Unsigned),
            ("filename", Type::Text),
            OBJECT,
            ID,
            PEER,
        ],
    ),
    (STATEDUMP_SOCKET, CONNECTED),
    (
        THROTTLED,
        &[("comm", Type::Comm), ("tid", Type::Signed), ("throttled_ns", Type::LongUnsigned)],
    ),
];

const NET_NS: Field = ("net_ns", Type::Unsigned);
const TRANSFER: &[Field] = &[("ret", Type::Signed), OBJECT, ID, PEER, POSITION];
const CONNECTED: &[Field] = &[
    ("inode", Type::Unsigned),
    ("protocol", Type::Unsigned),
    ("local_address", Type::Text),
    ("local_port", Type::Unsigned),
    ("remote_address", Type::Text),
    ("remote_port", Type::Unsigned),
    NET_NS,
];

/// What ours has of system calls beside the fields of LTTng.
const TID: Field = ("noised_tid", Type::Signed);
const OBJECT: Field = ("noised_object", Type::Object);
const ID: Field = ("noised_id", Type::LongUnsigned);
const PEER: Field = ("noised_peer", Type::Unsigned);
const POSITION: Field = ("noised_position", Type::Unsigned);
const PEEK: Field = ("noised_peek", Type::Byte);
const RETURNED: &[Field] = &[("ret", Type::LongSigned), TID, OBJECT, ID, PEER, POSITION, PEEK];
/// The first number of calls: two of each, begin and end.
const CALLS_AT: u32 = LAST_AT + LAST.len() as u32;

/// Fields of a call's begin.
fn called(info: &CallInfo) -> Vec<Field> {
    let argument = |(name, _): &(&'static str, u8)| {
        let of = if *name == FUTEX_ADDRESS { Type::Address } else { Type::Signed };
        (*name, of)
    };
    info.fields.iter().map(argument).chain([TID, OBJECT, ID, PEER]).collect()
}

/// All events, in order of their numbers; those of calls where a recording may have them.
pub fn all(has_calls: bool) -> impl Iterator<Item = (String, Vec<Field>)> {
    let plain = |(name, fields): &(&str, &'static [Field])| ((*name).to_owned(), fields.to_vec());
    let vector = |hook: &Hook| (format!("x86_irq_vectors_{}", hook.tracepoint()), VECTOR.to_vec());
    let call = |info: &CallInfo| {
        let name = |edge: &str| format!("syscall_{edge}_{}", info.name);
        [(name("entry"), called(info)), (name("exit"), RETURNED.to_vec())]
    };
    let calls = if has_calls { CALLS } else { &[] };
    FIRST
        .iter()
        .map(plain)
        .chain(VECTOR_HOOKS.iter().map(vector))
        .chain(LAST.iter().map(plain))
        .chain(calls.iter().flat_map(call))
}

/// The number of a call's begin; that of its end is the next.
fn call(info: &CallInfo) -> Option<u32> {
    Some(CALLS_AT + 2 * u32::try_from(CallInfo::place(info.number)?).ok()?)
}

const fn vector(which: Vector, edge: Edge) -> u32 {
    let exit = match edge {
        Edge::Entry => 0,
        Edge::Exit => 1,
    };
    FIRST_VECTOR + 2 * which as u32 + exit
}

/// Whether an event of that number is part of a state dump.
pub const fn is_dumped(number: u32) -> bool {
    (number >= LAST_AT + 5 && number < LAST_AT + 12)
        || number == LAST_AT + 21
        || number == LAST_AT + 22
}

/// The number of an event; `None` of those that our recordings do not have.
#[inline]
pub fn number(kind: &Kind<'_>) -> Option<u32> {
    Some(match kind {
        Kind::SchedSwitch { .. } => 0,
        Kind::SchedWaking(_) => 1,
        Kind::SchedWakeupNew(_) => 2,
        Kind::SchedMigrateTask { .. } => 3,
        Kind::IrqHandlerEntry { .. } => 4,
        Kind::IrqHandlerExit { .. } => 5,
        Kind::SoftirqRaise { .. } => 6,
        Kind::SoftirqEntry { .. } => 7,
        Kind::SoftirqExit { .. } => 8,
        Kind::BlockRqInsert(_) => 9,
        Kind::BlockRqIssue(_) => 10,
        Kind::BlockRqRequeue(_) => 11,
        Kind::BlockRqComplete(_) => 12,
        Kind::BlockRqMerge(_) => 13,
        Kind::NetDevQueue(_) => 14,
        Kind::NetDevStartXmit(_) => 15,
        Kind::NetifReceiveSkb(_) => 16,
        Kind::SkbKfree { .. } => 17,
        Kind::HrtimerExpireEntry { .. } => 18,
        Kind::HrtimerExpireExit { .. } => 19,
        Kind::VectorEntry { which, .. } => vector(*which, Edge::Entry),
        Kind::VectorExit { which, .. } => vector(*which, Edge::Exit),
        Kind::NmiHandler { .. } => LAST_AT,
        Kind::TcpRetransmitSkb(_) => LAST_AT + 1,
        Kind::SchedProcessFork { .. } => LAST_AT + 2,
        Kind::SchedProcessExec { .. } => LAST_AT + 3,
        Kind::SchedProcessExit(_) => LAST_AT + 4,
        Kind::StatedumpStart => LAST_AT + 5,
        Kind::StatedumpProcess(_) => LAST_AT + 6,
        Kind::StatedumpInterrupt { .. } => LAST_AT + 7,
        Kind::StatedumpBlockDevice { .. } => LAST_AT + 8,
        Kind::StatedumpInterface { .. } => LAST_AT + 9,
        Kind::StatedumpEnd => LAST_AT + 10,
        Kind::CgroupAttach { .. } => LAST_AT + 11,
        Kind::Mark(_) => LAST_AT + 12,
        Kind::CallOther(_) => LAST_AT + 13,
        Kind::Connection(_) => LAST_AT + 14,
        Kind::InetSockSetState { .. } => LAST_AT + 15,
        Kind::SockSendLength(_) => LAST_AT + 16,
        Kind::SockRecvLength(_) => LAST_AT + 17,
        Kind::SkDataReady(_) => LAST_AT + 18,
        Kind::SignalGenerate(_) => LAST_AT + 19,
        Kind::SignalDeliver(_) => LAST_AT + 20,
        Kind::StatedumpFile { .. } => LAST_AT + 21,
        Kind::StatedumpSocket(_) => LAST_AT + 22,
        Kind::Throttled { .. } => LAST_AT + 23,
        Kind::SyscallEntry(of) => call(of.info)?,
        Kind::SyscallExit(of) => call(of.info)? + 1,
        _ => return None,
    })
}

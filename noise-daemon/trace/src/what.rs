//! Kinds of events by their names, and which fields make them up, whatever tracer wrote them.

use noise_common::hooks::{Edge, Hook, VECTOR_HOOKS, Vector};

use noise_common::store::calls::CallInfo;

use crate::event::{Comm, Dumped, Kind, Mark, Packet, Request, Task, Woken};
pub use crate::fields::{Fields, Wanted};
use crate::ipc::read as ipc;

/// A kind, before its fields are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "as the variants of `Kind`, which say more")]
pub enum What {
    SchedSwitch,
    SchedWaking,
    SchedWakeup,
    SchedWakeupNew,
    SchedMigrateTask,
    SchedProcessFork,
    SchedProcessExec,
    SchedProcessExit,
    SchedProcessFree,
    IrqHandlerEntry,
    IrqHandlerExit,
    SoftirqRaise,
    SoftirqEntry,
    SoftirqExit,
    VectorEntry(Vector),
    VectorExit(Vector),
    NmiHandler,
    HrtimerExpireEntry,
    HrtimerExpireExit,
    BlockRqInsert,
    BlockRqIssue,
    BlockRqComplete,
    BlockRqRequeue,
    BlockRqMerge,
    NetDevQueue,
    NetDevStartXmit,
    NetDevXmit,
    NetifReceiveSkb,
    NetifRx,
    NapiGroReceive,
    SkbKfree,
    TcpRetransmitSkb,
    SyscallEntry(&'static CallInfo),
    SyscallExit(&'static CallInfo),
    CallOther,
    Connection,
    InetSockSetState,
    SockSendLength,
    SockRecvLength,
    SkDataReady,
    SignalGenerate,
    SignalDeliver,
    StatedumpFile,
    StatedumpSocket,
    StatedumpStart,
    StatedumpProcess,
    StatedumpInterrupt,
    StatedumpBlockDevice,
    StatedumpInterface,
    StatedumpEnd,
    CgroupAttach,
    Throttled,
    Mark,
    Other,
}

/// Names of one kind, without the prefixes that [`What::named`] takes off.
const NAMES: &[(&str, What)] = &[
    ("sched_switch", What::SchedSwitch),
    ("sched_waking", What::SchedWaking),
    ("sched_wakeup", What::SchedWakeup),
    ("sched_wakeup_new", What::SchedWakeupNew),
    ("sched_migrate_task", What::SchedMigrateTask),
    ("sched_process_fork", What::SchedProcessFork),
    ("sched_process_exec", What::SchedProcessExec),
    ("sched_process_exit", What::SchedProcessExit),
    ("sched_process_free", What::SchedProcessFree),
    ("irq_handler_entry", What::IrqHandlerEntry),
    ("irq_handler_exit", What::IrqHandlerExit),
    ("softirq_raise", What::SoftirqRaise),
    ("softirq_entry", What::SoftirqEntry),
    ("softirq_exit", What::SoftirqExit),
    ("nmi_handler", What::NmiHandler),
    ("hrtimer_expire_entry", What::HrtimerExpireEntry),
    ("hrtimer_expire_exit", What::HrtimerExpireExit),
    ("block_rq_insert", What::BlockRqInsert),
    ("block_rq_issue", What::BlockRqIssue),
    ("block_rq_complete", What::BlockRqComplete),
    ("block_rq_requeue", What::BlockRqRequeue),
    ("block_rq_merge", What::BlockRqMerge),
    ("net_dev_queue", What::NetDevQueue),
    ("net_dev_start_xmit", What::NetDevStartXmit),
    ("net_dev_xmit", What::NetDevXmit),
    ("netif_receive_skb", What::NetifReceiveSkb),
    ("net_if_receive_skb", What::NetifReceiveSkb),
    ("netif_rx", What::NetifRx),
    ("napi_gro_receive_entry", What::NapiGroReceive),
    ("net_napi_gro_receive_entry", What::NapiGroReceive),
    ("skb_kfree", What::SkbKfree),
    ("kfree_skb", What::SkbKfree),
    ("tcp_retransmit_skb", What::TcpRetransmitSkb),
    ("lttng_statedump_start", What::StatedumpStart),
    ("lttng_statedump_process_state", What::StatedumpProcess),
    ("lttng_statedump_interrupt", What::StatedumpInterrupt),
    ("lttng_statedump_block_device", What::StatedumpBlockDevice),
    ("lttng_statedump_network_interface", What::StatedumpInterface),
    ("lttng_statedump_end", What::StatedumpEnd),
    ("cgroup_attach_task", What::CgroupAttach),
    ("statedump_cgroup", What::CgroupAttach),
    (CALL_OTHER, What::CallOther),
    (CONNECTION, What::Connection),
    ("inet_sock_set_state", What::InetSockSetState),
    ("sock_send_length", What::SockSendLength),
    ("sock_recv_length", What::SockRecvLength),
    ("sk_data_ready", What::SkDataReady),
    ("signal_generate", What::SignalGenerate),
    ("signal_deliver", What::SignalDeliver),
    ("lttng_statedump_file_descriptor", What::StatedumpFile),
    (STATEDUMP_SOCKET, What::StatedumpSocket),
    (THROTTLED, What::Throttled),
    (MARK, What::Mark),
];

/// The name of the event that says what a quota took, which LTTng does not have.
pub const THROTTLED: &str = "noised_throttled";
/// The name of marks in our recordings; LTTng has none like them.
pub const MARK: &str = "noised_mark";
/// The name of a call's second object in our recordings.
pub const CALL_OTHER: &str = "noised_other";
/// The names of a socket's addresses there.
pub const CONNECTION: &str = "noised_connection";
/// See there: of the sockets that there were at the begin.
pub const STATEDUMP_SOCKET: &str = "noised_statedump_socket";
/// The action of a mark that begins something, and of one that ends it.
pub const MARK_ACTIONS: [&str; 2] = ["begin", "end"];

const TID: Wanted = &["tid", "pid"];
const TASK: &[Wanted] = &[&["comm"], TID, &["prio"]];
const WOKEN: &[Wanted] = &[&["comm"], TID, &["prio"], &["target_cpu"]];
const IRQ: &[Wanted] = &[&["irq"], &["ret"]];
const SOFTIRQ: &[Wanted] = &[&["vec"]];
const REQUEST: &[Wanted] = &[
    &["dev"],
    &["sector"],
    &["nr_sector"],
    &["bytes"],
    &["rwbs"],
    &["tid"],
    &["comm"],
    &["error", "errors"],
];
const PACKET: &[Wanted] = &[&["skbaddr"], &["len"], &["name", "dev"], &["rc"]];

impl What {
    /// The kind of an event of that name.
    pub fn named(name: &str) -> Self {
        // perf puts the subsystem in front: `sched:sched_switch`.
        let full = name.rsplit(':').next().unwrap_or(name);
        let name = full;
        let without = |prefix: &str, kind: &str| {
            name.strip_prefix(prefix).filter(|rest| rest.starts_with(kind))
        };
        let name = without("irq_", "softirq_").or_else(|| without("timer_", "hrtimer_"));
        let name = name.unwrap_or(full);
        if let Some((_, what)) = NAMES.iter().find(|(known, _)| *known == name) {
            return *what;
        }
        let vector = name.strip_prefix("x86_irq_vectors_").unwrap_or(name);
        match VECTOR_HOOKS.iter().find(|hook| hook.tracepoint() == vector) {
            Some(Hook::Vector(which, Edge::Entry)) => Self::VectorEntry(*which),
            Some(Hook::Vector(which, Edge::Exit)) => Self::VectorExit(*which),
            _ => match ipc::edge(full) {
                Some((info, true)) => Self::SyscallEntry(info),
                Some((info, false)) => Self::SyscallExit(info),
                None => Self::Other,
            },
        }
    }

    /// Whether it is a step of a block request.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Self::BlockRqInsert
                | Self::BlockRqIssue
                | Self::BlockRqComplete
                | Self::BlockRqRequeue
                | Self::BlockRqMerge
        )
    }

    /// The fields that [`kind`] asks for, by their numbers.
    pub const fn wanted(self) -> &'static [Wanted] {
        match self {
            Self::SchedSwitch => &[
                &["prev_comm"],
                &["prev_tid", "prev_pid"],
                &["prev_prio"],
                &["prev_state"],
                &["next_comm"],
                &["next_tid", "next_pid"],
                &["next_prio"],
            ],
            Self::SchedWaking | Self::SchedWakeup | Self::SchedWakeupNew => WOKEN,
            Self::SchedMigrateTask => &[&["comm"], TID, &["prio"], &["orig_cpu"], &["dest_cpu"]],
            Self::SchedProcessFork => &[
                &["parent_comm", "comm"],
                &["parent_tid"],
                &["parent_pid", "pid"],
                &["child_comm"],
                &["child_tid"],
                &["child_pid"],
            ],
            Self::SchedProcessExec => &[&["filename"], TID, &["old_tid", "old_pid"]],
            Self::SchedProcessExit | Self::SchedProcessFree => TASK,
            Self::IrqHandlerEntry => &[&["irq"], &["name"]],
            Self::IrqHandlerExit => IRQ,
            Self::SoftirqRaise | Self::SoftirqEntry | Self::SoftirqExit => SOFTIRQ,
            Self::VectorEntry(_) | Self::VectorExit(_) => &[&["vector"]],
            Self::NmiHandler => &[&["delta_ns"], &["handled"]],
            Self::HrtimerExpireEntry => &[&["hrtimer"], &["function"], &["now"]],
            Self::HrtimerExpireExit => &[&["hrtimer"]],
            Self::BlockRqInsert
            | Self::BlockRqIssue
            | Self::BlockRqComplete
            | Self::BlockRqRequeue
            | Self::BlockRqMerge => REQUEST,
            Self::NetDevQueue
            | Self::NetDevStartXmit
            | Self::NetDevXmit
            | Self::NetifReceiveSkb
            | Self::NetifRx
            | Self::NapiGroReceive
            | Self::TcpRetransmitSkb => PACKET,
            Self::SkbKfree => &[&["skbaddr"], &["reason"]],
            Self::SyscallEntry(_) => ipc::ENTRY,
            Self::SyscallExit(_) => ipc::EXIT,
            Self::CallOther => ipc::SECOND,
            Self::Connection | Self::InetSockSetState | Self::StatedumpSocket => ipc::CONNECTION,
            Self::SockSendLength | Self::SockRecvLength | Self::SkDataReady => ipc::TRANSFER,
            Self::SignalGenerate | Self::SignalDeliver => ipc::SIGNAL,
            Self::StatedumpFile => ipc::OPEN_FILE,
            Self::StatedumpProcess => &[&["tid"], &["pid"], &["ppid"], &["name"]],
            Self::StatedumpInterrupt => &[&["irq"], &["name"], &["action"]],
            Self::StatedumpBlockDevice => &[&["dev"], &["diskname"]],
            Self::StatedumpInterface => &[&["name"]],
            Self::CgroupAttach => &[TID, &["path", "dst_path"], &["dst_root"]],
            Self::Throttled => &[&["comm"], TID, &["throttled_ns"]],
            Self::Mark => {
                &[&["action"], &["name"], &["key"], &["pid"], &["tid"], &["uid"], &["before_ns"]]
            }
            Self::StatedumpStart | Self::StatedumpEnd | Self::Other => &[],
        }
    }
}

/// A task from three fields in a row.
#[inline(always)]
fn task<'t>(fields: &impl Fields<'t>, first: usize) -> Task {
    Task {
        comm: Comm::new(fields.text(first)),
        tid: fields.int(first + 1) as i32,
        prio: fields.int(first + 2) as i32,
    }
}

fn woken<'t>(fields: &impl Fields<'t>) -> Woken {
    Woken { task: task(fields, 0), target_cpu: fields.int(3) as u32 }
}

fn request<'t>(fields: &impl Fields<'t>) -> Request<'t> {
    Request {
        dev: fields.int(0) as u32,
        sector: fields.int(1),
        sectors: fields.int(2) as u32,
        bytes: fields.int(3) as u32,
        rwbs: fields.int(4) as u32,
        tid: fields.int(5) as i32,
        comm: fields.text(6),
        error: fields.int(7) as i32,
    }
}

fn packet<'t>(fields: &impl Fields<'t>) -> Packet<'t> {
    Packet { skb: fields.int(0), len: fields.int(1) as u32, name: fields.text(2) }
}

/// Reads what an event of a kind consists of.
#[inline]
pub fn kind<'t>(what: What, name: &'t str, fields: &impl Fields<'t>) -> Kind<'t> {
    let vec = || fields.int(0) as u32;
    match what {
        What::SchedSwitch => Kind::SchedSwitch {
            prev: task(fields, 0),
            prev_state: fields.state(3),
            next: task(fields, 4),
        },
        What::SchedWaking => Kind::SchedWaking(woken(fields)),
        What::SchedWakeup => Kind::SchedWakeup(woken(fields)),
        What::SchedWakeupNew => Kind::SchedWakeupNew(woken(fields)),
        What::SchedMigrateTask => Kind::SchedMigrateTask {
            task: task(fields, 0),
            orig_cpu: fields.int(3) as u32,
            dest_cpu: fields.int(4) as u32,
        },
        What::SchedProcessFork => fork(fields),
        What::SchedProcessExec => Kind::SchedProcessExec {
            filename: fields.text(0),
            tid: fields.int(1) as i32,
            old_tid: fields.int(2) as i32,
        },
        What::SchedProcessExit => Kind::SchedProcessExit(task(fields, 0)),
        What::SchedProcessFree => Kind::SchedProcessFree(task(fields, 0)),
        What::IrqHandlerEntry => Kind::IrqHandlerEntry { irq: vec(), name: fields.text(1) },
        What::IrqHandlerExit => Kind::IrqHandlerExit { irq: vec(), ret: fields.int(1) as i32 },
        What::SoftirqRaise => Kind::SoftirqRaise { vec: vec() },
        What::SoftirqEntry => Kind::SoftirqEntry { vec: vec() },
        What::SoftirqExit => Kind::SoftirqExit { vec: vec() },
        What::VectorEntry(which) => Kind::VectorEntry { which, vector: vec() },
        What::VectorExit(which) => Kind::VectorExit { which, vector: vec() },
        What::NmiHandler => {
            Kind::NmiHandler { delta_ns: fields.int(0) as i64, handled: fields.int(1) as i32 }
        }
        What::HrtimerExpireEntry => Kind::HrtimerExpireEntry {
            hrtimer: fields.int(0),
            function: fields.int(1),
            now: fields.int(2) as i64,
        },
        What::HrtimerExpireExit => Kind::HrtimerExpireExit { hrtimer: fields.int(0) },
        What::BlockRqInsert => Kind::BlockRqInsert(request(fields)),
        What::BlockRqIssue => Kind::BlockRqIssue(request(fields)),
        What::BlockRqComplete => Kind::BlockRqComplete(request(fields)),
        What::BlockRqRequeue => Kind::BlockRqRequeue(request(fields)),
        What::BlockRqMerge => Kind::BlockRqMerge(request(fields)),
        What::NetDevQueue => Kind::NetDevQueue(packet(fields)),
        What::NetDevStartXmit => Kind::NetDevStartXmit(packet(fields)),
        What::NetDevXmit => Kind::NetDevXmit { packet: packet(fields), rc: fields.int(3) as i32 },
        What::NetifReceiveSkb => Kind::NetifReceiveSkb(packet(fields)),
        What::NetifRx => Kind::NetifRx(packet(fields)),
        What::NapiGroReceive => Kind::NapiGroReceive(packet(fields)),
        What::SkbKfree => Kind::SkbKfree {
            skb: fields.int(0),
            reason: if fields.has(1) { fields.int(1) as u32 } else { u32::MAX },
        },
        What::TcpRetransmitSkb => Kind::TcpRetransmitSkb(packet(fields)),
        What::SyscallEntry(info) => Kind::SyscallEntry(ipc::call(info, fields)),
        What::SyscallExit(info) => Kind::SyscallExit(ipc::call_exit(info, fields)),
        What::CallOther => Kind::CallOther(ipc::second(fields)),
        What::Connection => Kind::Connection(ipc::connection(fields)),
        What::InetSockSetState => Kind::InetSockSetState {
            connection: ipc::connection(fields),
            from: fields.int(7) as u32,
            to: fields.int(8) as u32,
        },
        What::SockSendLength => Kind::SockSendLength(ipc::transfer(fields)),
        What::SockRecvLength => Kind::SockRecvLength(ipc::transfer(fields)),
        What::SkDataReady => Kind::SkDataReady(ipc::transfer(fields).object),
        What::SignalGenerate => Kind::SignalGenerate(ipc::signal(fields)),
        What::SignalDeliver => Kind::SignalDeliver(ipc::signal(fields)),
        What::StatedumpFile => ipc::open_file(fields),
        What::StatedumpSocket => Kind::StatedumpSocket(ipc::connection(fields)),
        What::StatedumpStart => Kind::StatedumpStart,
        What::StatedumpProcess => Kind::StatedumpProcess(Dumped {
            tid: fields.int(0) as i32,
            pid: fields.int(1) as i32,
            ppid: fields.int(2) as i32,
            comm: Comm::new(fields.text(3)),
        }),
        What::StatedumpInterrupt => {
            Kind::StatedumpInterrupt { irq: vec(), name: fields.text(1), action: fields.text(2) }
        }
        What::StatedumpBlockDevice => {
            Kind::StatedumpBlockDevice { dev: fields.int(0) as u32, name: fields.text(1) }
        }
        What::StatedumpInterface => Kind::StatedumpInterface { name: fields.text(0) },
        What::StatedumpEnd => Kind::StatedumpEnd,
        // Hierarchies of version 1 have other numbers, and may disagree with each other.
        What::CgroupAttach if fields.int(2) != 0 => Kind::Other(name),
        What::CgroupAttach => {
            Kind::CgroupAttach { tid: fields.int(0) as i32, path: fields.text(1) }
        }
        What::Throttled => Kind::Throttled {
            task: Task { comm: Comm::new(fields.text(0)), tid: fields.int(1) as i32, prio: 0 },
            throttled_ns: fields.int(2),
        },
        What::Mark => Kind::Mark(Mark {
            begins: fields.text(0) == MARK_ACTIONS[0].as_bytes(),
            name: fields.text(1),
            key: fields.text(2),
            pid: fields.int(3) as i32,
            tid: fields.int(4) as i32,
            uid: fields.int(5) as u32,
            before_ns: fields.int(6),
        }),
        What::Other => Kind::Other(name),
    }
}

/// The kernel's own event has thread ids in fields named `parent_pid` and `child_pid`, LTTng's has them in
/// `parent_tid` and `child_tid` and the processes in the others.
fn fork<'t>(fields: &impl Fields<'t>) -> Kind<'t> {
    let ids = |tid: usize| match fields.has(tid) {
        true => (fields.int(tid) as i32, fields.int(tid + 1) as i32),
        false => (fields.int(tid + 1) as i32, 0),
    };
    let task = |comm: usize, tid: i32| Task { comm: Comm::new(fields.text(comm)), tid, prio: 0 };
    let ((parent, parent_pid), (child, child_pid)) = (ids(1), ids(4));
    Kind::SchedProcessFork { parent: task(0, parent), parent_pid, child: task(3, child), child_pid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_tracers_are_known() {
        for (name, what) in [
            ("sched_switch", What::SchedSwitch),
            ("sched:sched_switch", What::SchedSwitch),
            ("irq_softirq_entry", What::SoftirqEntry),
            ("softirq_entry", What::SoftirqEntry),
            ("timer_hrtimer_expire_entry", What::HrtimerExpireEntry),
            ("hrtimer_expire_exit", What::HrtimerExpireExit),
            ("local_timer_entry", What::VectorEntry(Vector::LocalTimer)),
            ("x86_irq_vectors_reschedule_exit", What::VectorExit(Vector::Reschedule)),
            ("irq_vectors:call_function_single_exit", What::VectorExit(Vector::CallFunctionSingle)),
            ("nmi:nmi_handler", What::NmiHandler),
            ("syscall_entry_openat", What::Other),
            ("timer_start", What::Other),
            ("", What::Other),
        ] {
            assert_eq!(What::named(name), what, "{name}");
        }
    }
}

//! The model: one type for an event of any origin, with the fields that analyses compute with.
//!
//! Kinds are those of the event classes `sched`, `io` and `ipc`, the state dump at the begin of a recording, and
//! lost events at their place. Everything else keeps its name. Names and fields that tracers spelled
//! differently over the years are one kind here: `softirq_entry` and `irq_softirq_entry`, `sched:sched_switch`
//! with `prev_pid` and `sched_switch` with `prev_tid`.

use noise_common::hooks::Vector;

use crate::ipc::{Call, Connection, Object, Return, Second, Signal, Transfer};
use crate::state::LeftIn;
pub use crate::task::{Comm, Task};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'t> {
    /// When, in nanoseconds since the epoch of the trace's clock.
    pub time_ns: u64,
    pub cpu: u32,
    pub kind: TraceKind<'t>,
}

/// A thread that wakes up, or moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    pub task: Task,
    pub target_cpu: u32,
}

/// A block request, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Request<'t> {
    /// The device, as the kernel numbers it (20 bits minor).
    pub dev: u32,
    pub sector: u64,
    pub sectors: u32,
    /// Bytes, where the trace has them.
    pub bytes: u32,
    /// What it does, as bits.
    pub rwbs: u32,
    /// The thread that asked for it, where the trace has it.
    pub tid: i32,
    pub comm: &'t [u8],
    /// Of a completion: the error, 0 = none.
    pub error: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet<'t> {
    /// Address of its buffer.
    pub skb: u64,
    pub len: u32,
    pub name: &'t [u8],
}

/// A thread that was there when the recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    pub tid: i32,
    pub pid: i32,
    pub ppid: i32,
    pub comm: Comm,
}

/// How much older than its datagram a mark may be, by the time that its program gives.
pub const OLDEST_MARK_NS: u64 = 10_000_000_000;

/// A begin or an end that a program stated itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramMark<'t> {
    pub begins: bool,
    /// What begins or ends.
    pub name: &'t [u8],
    /// Which one of several; may be empty.
    pub key: &'t [u8],
    /// The process that set it.
    pub pid: i32,
    /// The thread that it is of; 0 where that is not known.
    pub tid: i32,
    /// The user who set it.
    pub uid: u32,
    /// It is of so long before the event, in nanoseconds: by the time that the program gave.
    pub before_ns: u64,
}

/// Events that were not recorded. Where both numbers are 0, it is not known how many: what a CPU did before the oldest
/// events of it that were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostEvents {
    /// How many, as far as that is known.
    pub events: u64,
    /// Whole packets that are missing; how many events they held is unknown.
    pub packets: u64,
    /// Not before then, in nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Calls `$then!` with the events that have a row in `events/`: the file of the row, the event's name, and its contents.
macro_rules! for_each_event {
    ($then:ident) => {
        $then! {
            // In the order of their numbers in recordings, with those of vectors in front of `events::AFTER_VECTORS` and those of
            // calls behind all. Numbers below 31 fit into the short head of an event: those are the frequent ones.
            recorded {
                /// A CPU goes from one thread to another.
                sched::SchedSwitch {
                    prev: Task,
                    prev_state: LeftIn,
                    next: Task,
                },
                /// A thread is about to be woken, seen by its waker.
                sched::SchedWaking(Woken),
                sched::SchedWakeupNew(Woken),
                sched::SchedMigrateTask {
                    task: Task,
                    orig_cpu: u32,
                    dest_cpu: u32,
                },
                irq::IrqHandlerEntry {
                    irq: u32,
                    /// The name that its driver gave.
                    name: &'t [u8],
                },
                irq::IrqHandlerExit {
                    irq: u32,
                    /// What it returned: 1 where it was for this handler.
                    ret: i32,
                },
                irq::SoftirqRaise { vec: u32 },
                irq::SoftirqEntry { vec: u32 },
                irq::SoftirqExit { vec: u32 },
                block::BlockRqInsert(Request<'t>),
                block::BlockRqIssue(Request<'t>),
                block::BlockRqRequeue(Request<'t>),
                block::BlockRqComplete(Request<'t>),
                block::BlockRqMerge(Request<'t>),
                net::NetDevQueue(Packet<'t>),
                net::NetDevStartXmit(Packet<'t>),
                /// A received packet goes up to the protocols.
                net::NetifReceiveSkb(Packet<'t>),
                /// The kernel dropped a packet.
                net::SkbKfree {
                    /// Address of its buffer.
                    skb: u64,
                    /// Why, by the kernel's numbers; all ones where it gives none.
                    reason: u32,
                },
                /// The function of a high-resolution timer begins.
                irq::HrtimerExpireEntry {
                    /// Address of the timer.
                    hrtimer: u64,
                    /// Address of its function, where the trace has it.
                    function: u64,
                    /// The time on the timer's clock, in nanoseconds.
                    now: i64,
                },
                irq::HrtimerExpireExit {
                    /// Address of the timer.
                    hrtimer: u64,
                },
                irq::NmiHandler {
                    delta_ns: i64,
                    /// How many causes it handled.
                    handled: i32,
                },
                net::TcpRetransmitSkb(Packet<'t>),
                sched::SchedProcessFork {
                    parent: Task,
                    parent_pid: i32,
                    child: Task,
                    /// Its process: its own id, or its maker's process where it is a thread of that. 0 where the
                    /// trace does not say.
                    child_pid: i32,
                },
                sched::SchedProcessExec {
                    /// The program's file; in our recordings, the name that the thread has from then on.
                    filename: &'t [u8],
                    tid: i32,
                    /// The id that it had before: another one where it was not its process's first thread.
                    old_tid: i32,
                },
                sched::SchedProcessExit(Task),
                dump::StatedumpStart,
                /// A thread that was there.
                dump::StatedumpProcess(Dumped),
                /// An interrupt that has a handler.
                dump::StatedumpInterrupt {
                    irq: u32,
                    name: &'t [u8],
                    action: &'t [u8],
                },
                dump::StatedumpBlockDevice {
                    /// As the kernel numbers it.
                    dev: u32,
                    name: &'t [u8],
                },
                dump::StatedumpInterface { name: &'t [u8] },
                dump::StatedumpEnd,
                /// From now on a thread is in a cgroup.
                dump::CgroupAttach {
                    tid: i32,
                    /// The cgroup's path from the root of its hierarchy.
                    path: &'t [u8],
                },
                /// A program began or ended something.
                marks::Mark(ProgramMark<'t>),
                /// The second object of a system call of communication.
                calls::CallOther(Second),
                /// The addresses of a socket: of the call that ends next, on the same CPU.
                calls::Connection(Connection),
                /// A socket of the internet is in another state, one of the kernel's `TCP_*`.
                calls::InetSockSetState {
                    connection: Connection,
                    from: u32,
                    to: u32,
                },
                calls::SockSendLength(Transfer),
                calls::SockRecvLength(Transfer),
                /// A socket has something to receive; of TCP, the position is how far it has got.
                calls::SkDataReady(Object),
                /// A signal is sent, by what runs on that CPU.
                calls::SignalGenerate(Signal),
                calls::SignalDeliver(Signal),
                /// A file of communication that a process had open when the recording began.
                dump::StatedumpFile {
                    pid: i32,
                    fd: i32,
                    /// Its flags, as `open` has them.
                    flags: u32,
                    /// `socket:[INODE]`, `pipe:[INODE]`, `anon_inode:[eventfd]` …, or the path of a FIFO.
                    filename: &'t [u8],
                    /// What it is, where the trace says so; a socket of any kind is a socket.
                    object: Object,
                },
                /// A socket that there was when the recording began.
                dump::StatedumpSocket(Connection),
                /// A part of a thread's wait for a CPU was its own quota's. It comes right before the switch or the
                /// migration that ends the wait on that CPU, at the same time.
                sched::Throttled {
                    /// The thread, without its priority.
                    task: Task,
                    throttled_ns: u64,
                },
                /// The thread that runs begins to wait for its children.
                sched::SchedProcessWait {
                    comm: Comm,
                    /// The process, or group of processes, that it waits for; 0 = any child.
                    child: i32,
                    prio: i32,
                },
            }
            // Other tracers alone have them.
            foreign {
                /// A thread was made runnable; on the CPU that does so.
                sched::SchedWakeup(Woken),
                /// The last of a thread is gone.
                sched::SchedProcessFree(Task),
                /// The interface's driver took a packet, or not.
                net::NetDevXmit {
                    packet: Packet<'t>,
                    /// What the driver said: 0 where it took it.
                    rc: i32,
                },
                /// A received packet waits for its softirq.
                net::NetifRx(Packet<'t>),
                /// A driver hands a received packet over with others.
                net::NapiGroReceive(Packet<'t>),
            }
        }
    };
}

pub(crate) use for_each_event;

macro_rules! define_kinds {
    ($($origin:ident {
        $($(#[$doc:meta])* $family:ident::$event:ident $(($($only:tt)*))? $({$($parts:tt)*})?,)*
    })*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum TraceKind<'t> {
            $($($(#[$doc])* $event $(($($only)*))? $({$($parts)*})?,)*)*
            /// A vector of the CPU itself begins: local timer, reschedule, calls of functions …
            VectorEntry {
                which: Vector,
                vector: u32,
            },
            VectorExit {
                which: Vector,
                vector: u32,
            },
            /// A thread begins a system call of communication.
            SyscallEntry(Call),
            SyscallExit(Return),
            Lost(LostEvents),
            /// Any other event, by its name.
            Other(&'t str),
        }
    };
}

for_each_event!(define_kinds);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tasks_are_cut_and_end_at_a_zero() {
        assert_eq!(Comm::new(b"kworker/u16:0-events").to_string(), "kworker/u16:0-ev");
        assert_eq!(Comm::new(b"a\0b").bytes(), b"a");
        assert_eq!(Comm::default().bytes(), b"");
    }
}

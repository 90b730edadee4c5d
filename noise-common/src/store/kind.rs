//! What events there are, and their classes.

use crate::hooks::Hook;

crate::named! {
    /// What events are about. The discriminant is the number of its bit; options have the name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u32)]
    pub enum Class all CLASSES {
        /// The scheduler and interrupts: what a critical path needs.
        Sched = "sched",
        /// Block devices and the network.
        Io = "io",
        /// Communication of threads and processes: its system calls, and signals.
        Ipc = "ipc",
    }
}

/// The classes that a flight recorder may keep, and that a recording has unless others are asked for.
pub const USUAL_CLASSES: [Class; 2] = [Class::Sched, Class::Io];

impl Class {
    pub fn from_name(name: &str) -> Option<Self> {
        CLASSES.into_iter().find(|class| class.name() == name)
    }

    /// Its bit among those that are on.
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

macro_rules! define_kinds {
    ($($variant:ident = $number:literal $class:ident $name:literal $doc:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum EventKind {
            $(#[doc = $doc] $variant = $number,)*
        }

        /// All kinds, in order of their numbers.
        pub const KINDS: &[EventKind] = &[$(EventKind::$variant,)*];

        impl EventKind {
            /// The kind with that number; 0 is none.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub const fn class(self) -> Class {
                match self {
                    $(Self::$variant => Class::$class,)*
                }
            }

            /// The kernel's name of the tracepoint; of a vector, without the vector's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

define_kinds! {
    Switch = 1 Sched "sched_switch" "A CPU goes from one thread to another.";
    Waking = 2 Sched "sched_waking" "A thread is woken, by what runs on this CPU.";
    WakeupNew = 3 Sched "sched_wakeup_new" "A thread that was created is put on a run queue.";
    Migrate = 4 Sched "sched_migrate_task" "A thread that does not run is put on another CPU.";
    Fork = 5 Sched "sched_process_fork" "A thread is created.";
    Exec = 6 Sched "sched_process_exec" "A process becomes another program.";
    Exit = 7 Sched "sched_process_exit" "A thread ends.";
    IrqEntry = 8 Sched "irq_handler_entry" "A handler of a device interrupt begins.";
    IrqExit = 9 Sched "irq_handler_exit" "It ends.";
    VectorEntry = 10 Sched "vector_entry" "An interrupt vector begins.";
    VectorExit = 11 Sched "vector_exit" "It ends.";
    SoftirqRaise = 12 Sched "softirq_raise" "A softirq vector is raised on this CPU.";
    SoftirqEntry = 13 Sched "softirq_entry" "A softirq vector begins.";
    SoftirqExit = 14 Sched "softirq_exit" "It ends.";
    Nmi = 15 Sched "nmi_handler" "A handler of NMIs has run.";
    Name = 16 Sched "name" "The thread that runs has another name: behind an exec.";
    HrtimerEntry = 17 Sched "hrtimer_expire_entry" "The function of a high-resolution timer begins.";
    HrtimerExit = 18 Sched "hrtimer_expire_exit" "It ends.";
    Throttled = 19 Sched "throttled" "A part of a wait for a CPU that ends was its own quota's.";
    Wait = 20 Sched "sched_process_wait" "A thread begins to wait for its children.";
    BlockInsert = 32 Io "block_rq_insert" "A request is handed to the I/O scheduler.";
    BlockIssue = 33 Io "block_rq_issue" "A request is handed to the driver.";
    BlockRequeue = 34 Io "block_rq_requeue" "The driver gave a request back.";
    BlockMerge = 35 Io "block_rq_merge" "A request became part of another.";
    BlockComplete = 36 Io "block_rq_complete" "Some or all of a request is done.";
    NetQueue = 40 Io "net_dev_queue" "A packet is handed to an interface.";
    NetXmit = 41 Io "net_dev_start_xmit" "A packet is handed to the driver.";
    NetReceive = 42 Io "netif_receive_skb" "A packet arrives.";
    NetDrop = 43 Io "kfree_skb" "The kernel dropped a packet.";
    TcpRetransmit = 44 Io "tcp_retransmit_skb" "A segment is sent again.";
    SockSend = 48 Io "sock_send_length" "Something was sent by a socket.";
    SockReceive = 49 Io "sock_recv_length" "Something was received by a socket.";
    SockState = 50 Io "inet_sock_set_state" "A socket of the internet is in another state.";
    DataReady = 51 Io "sk_data_ready" "A socket has something to receive.";
    CallEntry = 64 Ipc "sys_enter" "A thread begins a system call.";
    CallExit = 65 Ipc "sys_exit" "It ends.";
    CallOther = 66 Ipc "call_other" "The second object of a call: behind its begin, or its end.";
    Connection = 67 Ipc "connection" "The addresses of a socket: before the end of a call.";
    Address = 68 Ipc "address" "An address of IPv6 of the connection, or the change of a socket, behind it.";
    SignalGenerate = 70 Ipc "signal_generate" "A signal is sent to a thread, or a process.";
    SignalDeliver = 71 Ipc "signal_deliver" "A thread takes a signal.";
}

impl Hook {
    /// The class of the events that its program writes; `None` where it writes none.
    pub fn class(self) -> Option<Class> {
        match self {
            Self::Vector(..) => Some(EventKind::VectorEntry.class()),
            _ => {
                KINDS.iter().find(|kind| kind.name() == self.tracepoint()).map(|kind| kind.class())
            }
        }
    }
}

//! One event, as it lies in the store.

use super::ipc::{
    Caller, Other, StoredCall, StoredEnds, StoredReturn, StoredSignal, StoredTransfer,
};
pub use super::kind::{CLASSES, Class, EventKind, KINDS, USUAL_CLASSES};
pub use super::raw::{Body, StoredEvent};
use super::raw::{high, low, pair};
use crate::hooks::{Edge, Hook, Vector};

/// Bits of a word that holds a sector; beside it are some of the request's address.
const SECTOR_BITS: u32 = 48;
const SECTOR_MASK: u64 = (1 << SECTOR_BITS) - 1;
/// Requests do not lie closer to each other than this many bits of their addresses.
const REQUEST_SHIFT: u32 = 6;

/// Bits that all addresses of the kernel have on x86-64, with five levels of page tables, too.
const KERNEL_HALF: u64 = 0xff << 56;

/// Bits of a request's flags in the kernel's `blk_types.h` above the operation, the same from 4.14 on.
const REQ_SYNC: u32 = 11;
const REQ_FUA: u32 = 17;

/// `TASK_REPORT` and neighbours of the kernel's `sched.h`: the states that tracers name.
const REPORTED: u32 = 0x7f;
const UNINTERRUPTIBLE: u32 = 0x2;
const DEAD: u32 = 0x80;
const IDLE: u32 = 0x402;
const RTLOCK_WAIT: u32 = 0x1000;
const FROZEN: u32 = 0x8000;
/// What they show of a dead thread, and of an idle kernel thread.
const SHOWN_DEAD: u32 = 0x10;
const SHOWN_IDLE: u32 = 0x80;

/// A thread that is woken, created or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredWoken {
    pub tid: u32,
    /// Its priority as the kernel counts: 0 to 99 real time, 100 to 139 the others, -1 deadline.
    pub priority: i16,
    /// The CPU that it is on.
    pub cpu: u32,
}

/// What the kernel has in the place of the first sector of a request without any. Tracers show it of a
/// completion, and 0 of the other steps.
pub const NO_SECTOR: u64 = u64::MAX;

/// A step of a block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    /// Major and minor number, `major << 20 | minor`; 0 where it has no disk.
    pub device: u32,
    /// First sector, 512 bytes each; [`NO_SECTOR`] where it has none, as of a flush.
    pub sector: u64,
    /// Bytes of the request; of a completion: the bytes done.
    pub bytes: u32,
    /// The operation, `REQ_OP_*` of the kernel's `blk_types.h`.
    pub operation: u8,
    /// It is waited for (`REQ_SYNC`).
    pub sync: bool,
    /// It is about metadata (`REQ_META`).
    pub meta: bool,
    /// It goes to the medium before it is done (`REQ_FUA`).
    pub fua: bool,
    /// A flush goes ahead of it (`REQ_PREFLUSH`).
    pub preflush: bool,
    /// It is read ahead (`REQ_RAHEAD`).
    pub readahead: bool,
    /// The error of a completion, 0 to 255 as the kernel's `blk_status_t`, else 0.
    pub error: u8,
    /// Some bits of its address: requests under way that are about the same sector mostly differ in it.
    pub tag: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPacket {
    /// Address of its `sk_buff`.
    pub skb: u64,
    pub bytes: u32,
    /// Index of the interface, 0 where it is not known.
    pub interface: u32,
    /// Low bits of the inode number of the interface's network namespace.
    pub namespace: u16,
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// `sched_switch`. The state as the kernel has it in `__state`, 0 = runnable; `preempted` where the
    /// thread was switched away from without having asked for it.
    Switch {
        prev_tid: u32,
        prev_prio: i16,
        prev_state: u32,
        preempted: bool,
        next_tid: u32,
        next_prio: i16,
    },
    /// `sched_waking`; the CPU is the one that it ran on last.
    Waking(StoredWoken),
    WakeupNew(StoredWoken),
    /// `sched_migrate_task`; the CPU is the one that it leaves.
    Migrate {
        task: StoredWoken,
        to: u32,
    },
    /// `sched_process_fork`: threads, and the child's process.
    Fork {
        parent_tid: u32,
        child_tid: u32,
        child_pid: u32,
    },
    /// `sched_process_exec`; where a thread is not its process's first, it takes that one's id.
    Exec {
        tid: u32,
        old_tid: u32,
    },
    /// The name of the thread that runs, up to its first zero.
    Name {
        comm: [u8; 16],
    },
    Exit {
        tid: u32,
        pid: u32,
    },
    /// `sched_process_wait`: the thread that waits, and the process, or group, that it waits for; 0 = any child.
    Wait {
        tid: u32,
        child: u32,
    },
    IrqEntry {
        irq: u32,
    },
    /// `irq_handler_exit`; whether the handler had something to do.
    IrqExit {
        irq: u32,
        handled: bool,
    },
    /// `<vector>_entry` and `<vector>_exit`, with the number that the kernel has for it.
    Vector {
        vector: Vector,
        edge: Edge,
        number: u16,
    },
    SoftirqRaise {
        vector: u8,
    },
    Softirq {
        vector: u8,
        edge: Edge,
    },
    /// `nmi_handler`, at its end.
    Nmi {
        duration_ns: u64,
    },
    /// `hrtimer_expire_entry`: addresses of the timer and of its function, 0 where this kernel does not say,
    /// and the time on the timer's clock, ns.
    HrtimerEntry {
        hrtimer: u64,
        function: u64,
        now_ns: i64,
    },
    HrtimerExit {
        hrtimer: u64,
    },
    /// Of the thread's wait that the switch or migration just before ends, its quota took so much.
    Throttled {
        tid: u32,
        throttled_ns: u64,
    },
    /// `block_rq_*`; which of them, says the kind.
    Block(StoredRequest),
    /// `net_dev_queue`, `net_dev_start_xmit` or `netif_receive_skb`; which of them, says the kind.
    Net(StoredPacket),
    /// `kfree_skb`; `u32::MAX` where the kernel gives no reason.
    NetDrop {
        skb: u64,
        reason: u32,
    },
    /// `tcp_retransmit_skb`, over that interface.
    TcpRetransmit {
        skb: u64,
        interface: u32,
        namespace: u16,
    },
    /// `sys_enter`, of a call of [`super::calls::CALLS`].
    CallEntry(StoredCall),
    CallExit(StoredReturn),
    /// The second object of a call.
    CallOther(Other),
    /// The addresses of a socket, and its protocol.
    Connection(StoredEnds, u8),
    /// An address of IPv6 of what follows.
    Address {
        address: [u8; 16],
        is_remote: bool,
    },
    /// `sock_send_length`, `sock_recv_length` or `sk_data_ready`; which of them, says the kind.
    Transfer(StoredTransfer),
    /// `inet_sock_set_state`: from one of the kernel's `TCP_*` to another.
    SockState {
        ends: StoredEnds,
        from: u8,
        to: u8,
    },
    /// `signal_generate` or `signal_deliver`; which of them, says the kind.
    Signal(StoredSignal),
}

impl Payload {
    /// The threads that it names; 0 where there is none, and of the idle task.
    pub const fn tids(&self) -> [u32; 2] {
        match *self {
            Self::Switch { prev_tid, next_tid, .. } => [prev_tid, next_tid],
            Self::Waking(woken) | Self::WakeupNew(woken) | Self::Migrate { task: woken, .. } => {
                [woken.tid, 0]
            }
            Self::Fork { parent_tid, child_tid, .. } => [parent_tid, child_tid],
            Self::Exec { tid, .. }
            | Self::Exit { tid, .. }
            | Self::Wait { tid, .. }
            | Self::Throttled { tid, .. }
            | Self::CallEntry(StoredCall { caller: Caller { tid, .. }, .. })
            | Self::CallExit(StoredReturn { caller: Caller { tid, .. }, .. })
            | Self::CallOther(Other { caller: Caller { tid, .. }, .. })
            | Self::Signal(StoredSignal { tid, .. }) => [tid, 0],
            Self::Name { .. }
            | Self::IrqEntry { .. }
            | Self::IrqExit { .. }
            | Self::Vector { .. }
            | Self::SoftirqRaise { .. }
            | Self::Softirq { .. }
            | Self::Nmi { .. }
            | Self::HrtimerEntry { .. }
            | Self::HrtimerExit { .. }
            | Self::Block(_)
            | Self::Net(_)
            | Self::NetDrop { .. }
            | Self::TcpRetransmit { .. }
            | Self::Connection(..)
            | Self::Address { .. }
            | Self::Transfer(_)
            | Self::SockState { .. } => [0; 2],
        }
    }
}

/// Priorities fit into eight bits: -1 is 255.
#[inline(always)]
const fn priority(byte: u8) -> i16 {
    if byte == u8::MAX { -1 } else { byte as i16 }
}

impl Body {
    /// `sched_switch`; the state is 0 of a thread that was preempted.
    #[inline(always)]
    pub const fn switch(
        previous: (u32, u32),
        state: u32,
        preempted: bool,
        next: (u32, u32),
        time_ns: u64,
    ) -> Self {
        let priorities = (previous.1 & 0xff) | (next.1 & 0xff) << 8;
        let words = [pair(previous.0, next.0), pair(state, priorities)];
        Self::new(EventKind::Switch, preempted as u8, 0, words, time_ns)
    }

    /// A thread with its priority, on that CPU; `to` is another CPU where it moves there.
    #[inline(always)]
    pub const fn task(
        kind: EventKind,
        tid: u32,
        priority: u32,
        cpu: u32,
        to: u32,
        time_ns: u64,
    ) -> Self {
        Self::new(kind, priority as u8, 0, [pair(tid, cpu), to as u64], time_ns)
    }

    /// `sched_process_*`: up to three ids.
    #[inline(always)]
    pub const fn process(kind: EventKind, ids: [u32; 3], time_ns: u64) -> Self {
        let [first, second, third] = ids;
        Self::new(kind, 0, 0, [pair(first, second), third as u64], time_ns)
    }

    /// The name of the thread that runs, as it lies in memory.
    #[inline(always)]
    pub const fn name(comm: [u64; 2], time_ns: u64) -> Self {
        Self::new(EventKind::Name, 0, 0, comm, time_ns)
    }

    #[inline(always)]
    pub const fn irq(kind: EventKind, irq: u32, result: u32, time_ns: u64) -> Self {
        Self::new(kind, 0, 0, [pair(irq, result), 0], time_ns)
    }

    /// `<vector>_entry` and `<vector>_exit`, with the kernel's number.
    #[inline(always)]
    pub const fn vector(kind: EventKind, vector: Vector, number: u16, time_ns: u64) -> Self {
        Self::new(kind, vector as u8, number, [0; 2], time_ns)
    }

    #[inline(always)]
    pub const fn softirq(kind: EventKind, vector: u8, time_ns: u64) -> Self {
        Self::new(kind, vector, 0, [0; 2], time_ns)
    }

    #[inline(always)]
    pub const fn nmi(duration_ns: u64, time_ns: u64) -> Self {
        Self::new(EventKind::Nmi, 0, 0, [duration_ns, 0], time_ns)
    }

    /// `hrtimer_expire_entry`. Of the addresses, only those bits are kept in which they differ: a timer lies
    /// in the kernel's half of memory, a function in its last 2 GiB (or is 0).
    #[inline(always)]
    pub const fn hrtimer(hrtimer: u64, function: u64, now_ns: u64, time_ns: u64) -> Self {
        let place = pair(function as u32, hrtimer as u32);
        let (detail, small) = ((hrtimer >> 32) as u16, (hrtimer >> 48) as u8);
        Self::new(EventKind::HrtimerEntry, small, detail, [place, now_ns], time_ns)
    }

    #[inline(always)]
    pub const fn hrtimer_exit(hrtimer: u64, time_ns: u64) -> Self {
        Self::new(EventKind::HrtimerExit, 0, 0, [hrtimer, 0], time_ns)
    }

    /// So much of a thread's wait that ends now was its quota's.
    #[inline(always)]
    pub const fn throttled(tid: u32, throttled_ns: u64, time_ns: u64) -> Self {
        Self::new(EventKind::Throttled, 0, 0, [tid as u64, throttled_ns], time_ns)
    }

    /// `block_rq_*`. `flags` are the kernel's, the operation in the low byte; the error of a completion
    /// is a `blk_status_t` or, on older kernels, an errno.
    #[inline(always)]
    pub const fn block(
        kind: EventKind,
        (request, sector): (u64, u64),
        (device, bytes): (u32, u32),
        flags: u32,
        error: u8,
        time_ns: u64,
    ) -> Self {
        let letters = (flags >> REQ_SYNC & 3) | (flags >> REQ_FUA & 7) << 2;
        let detail = (flags & 0xff | letters << 8) as u16;
        let place = sector & SECTOR_MASK | request >> REQUEST_SHIFT << SECTOR_BITS;
        Self::new(kind, error, detail, [place, pair(device, bytes)], time_ns)
    }

    /// A packet, or what is known of it; of a drop, the reason in the place of its length.
    #[inline(always)]
    pub const fn net(
        kind: EventKind,
        skb: u64,
        bytes: u32,
        (interface, namespace): (u32, u32),
        time_ns: u64,
    ) -> Self {
        Self::new(kind, 0, namespace as u16, [skb, pair(bytes, interface)], time_ns)
    }

    /// The event's words in the order in which they are written, with its number; the last makes it whole.
    #[inline(always)]
    pub const fn words(&self, number: u64) -> [(usize, u64); 4] {
        let head = self.head | number & 0xffff_ffff;
        [(0, self.time_ns), (2, self.words[0]), (3, self.words[1]), (1, head)]
    }
}

impl StoredEvent {
    /// Copies an event that may be written meanwhile, word by word: the number first, which is written last.
    #[inline(always)]
    pub fn copy(mut word: impl FnMut(usize) -> u64) -> Self {
        let head = word(1);
        let time_ns = word(0);
        Self {
            time_ns,
            number: head as u32,
            kind: (head >> 32) as u8,
            small: (head >> 40) as u8,
            detail: (head >> 48) as u16,
            words: [word(2), word(3)],
        }
    }

    /// Its kind; `None` where nothing was written yet.
    pub const fn kind(&self) -> Option<EventKind> {
        EventKind::from_number(self.kind)
    }

    /// It as it is sent: little-endian, in the order of the fields.
    pub fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let [first, second] = self.words;
        let head = u64::from(self.number)
            | u64::from(self.kind) << 32
            | u64::from(self.small) << 40
            | u64::from(self.detail) << 48;
        let mut bytes = [0; size_of::<Self>()];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.time_ns, head, first, second]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        Self::copy(|word| {
            let (words, _) = bytes.as_chunks();
            words.get(word).map_or(0, |word| u64::from_le_bytes(*word))
        })
    }

    const fn woken(&self) -> StoredWoken {
        let [first, _] = self.words;
        StoredWoken { tid: low(first), priority: priority(self.small), cpu: high(first) }
    }

    fn request(&self) -> StoredRequest {
        let [place, size] = self.words;
        let operation = self.detail as u8;
        let flag = |bit: u32| self.detail >> (8 + bit) & 1 == 1;
        let sector = place & SECTOR_MASK;
        StoredRequest {
            device: low(size),
            sector: if sector == SECTOR_MASK { NO_SECTOR } else { sector },
            bytes: high(size),
            operation,
            sync: flag(0),
            meta: flag(1),
            fua: flag(2),
            preflush: flag(3),
            readahead: flag(4),
            error: self.small,
            tag: (place >> SECTOR_BITS) as u16,
        }
    }

    /// What it says; `None` of a kind that is unknown.
    pub fn payload(&self) -> Option<Payload> {
        let [first, second] = self.words;
        Some(match self.kind()? {
            EventKind::Switch => Payload::Switch {
                prev_tid: low(first),
                prev_prio: priority(high(second) as u8),
                prev_state: low(second),
                preempted: self.small != 0,
                next_tid: high(first),
                next_prio: priority((high(second) >> 8) as u8),
            },
            EventKind::Waking => Payload::Waking(self.woken()),
            EventKind::WakeupNew => Payload::WakeupNew(self.woken()),
            EventKind::Migrate => Payload::Migrate { task: self.woken(), to: low(second) },
            EventKind::Fork => Payload::Fork {
                parent_tid: low(first),
                child_tid: high(first),
                child_pid: low(second),
            },
            EventKind::Exec => Payload::Exec { tid: low(first), old_tid: high(first) },
            EventKind::Exit => Payload::Exit { tid: low(first), pid: high(first) },
            EventKind::Wait => Payload::Wait { tid: low(first), child: high(first) },
            EventKind::Name => {
                let mut comm = [0; 16];
                for (place, word) in comm.chunks_exact_mut(8).zip(self.words) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                Payload::Name { comm }
            }
            EventKind::IrqEntry => Payload::IrqEntry { irq: low(first) },
            EventKind::IrqExit => Payload::IrqExit { irq: low(first), handled: high(first) != 0 },
            EventKind::VectorEntry => self.vector(Edge::Entry)?,
            EventKind::VectorExit => self.vector(Edge::Exit)?,
            EventKind::SoftirqRaise => Payload::SoftirqRaise { vector: self.small },
            EventKind::SoftirqEntry => Payload::Softirq { vector: self.small, edge: Edge::Entry },
            EventKind::SoftirqExit => Payload::Softirq { vector: self.small, edge: Edge::Exit },
            EventKind::Nmi => Payload::Nmi { duration_ns: first },
            EventKind::HrtimerEntry => Payload::HrtimerEntry {
                hrtimer: KERNEL_HALF
                    | u64::from(self.small) << 48
                    | u64::from(self.detail) << 32
                    | u64::from(high(first)),
                function: i64::from(low(first).cast_signed()).cast_unsigned(),
                now_ns: second.cast_signed(),
            },
            EventKind::HrtimerExit => Payload::HrtimerExit { hrtimer: first },
            EventKind::Throttled => Payload::Throttled { tid: low(first), throttled_ns: second },
            EventKind::BlockInsert
            | EventKind::BlockIssue
            | EventKind::BlockRequeue
            | EventKind::BlockMerge
            | EventKind::BlockComplete => Payload::Block(self.request()),
            EventKind::NetQueue | EventKind::NetXmit | EventKind::NetReceive => {
                Payload::Net(StoredPacket {
                    skb: first,
                    bytes: low(second),
                    interface: high(second),
                    namespace: self.detail,
                })
            }
            EventKind::NetDrop => Payload::NetDrop { skb: first, reason: low(second) },
            EventKind::TcpRetransmit => Payload::TcpRetransmit {
                skb: first,
                interface: high(second),
                namespace: self.detail,
            },
            EventKind::CallEntry => Payload::CallEntry(self.call()),
            EventKind::CallExit => Payload::CallExit(self.call_exit()),
            EventKind::CallOther => Payload::CallOther(self.call_other()),
            EventKind::Connection => Payload::Connection(self.ends(), self.small),
            EventKind::Address => {
                Payload::Address { address: self.address(), is_remote: self.small != 0 }
            }
            EventKind::SockSend | EventKind::SockReceive | EventKind::DataReady => {
                Payload::Transfer(self.transfer())
            }
            EventKind::SockState => Payload::SockState {
                ends: self.ends(),
                from: self.small & 0xf,
                to: self.small >> 4,
            },
            EventKind::SignalGenerate | EventKind::SignalDeliver => Payload::Signal(self.signal()),
        })
    }

    fn vector(&self, edge: Edge) -> Option<Payload> {
        let hook = crate::hooks::VECTOR_HOOKS.get(2 * usize::from(self.small))?;
        let Hook::Vector(vector, _) = *hook else { return None };
        Some(Payload::Vector { vector, edge, number: self.detail })
    }
}

/// A thread's state as tracers show it, from the state in which it was switched away from: 0 runnable,
/// else one bit; `preempted` has the bit above them all, 0x100.
///
/// The kernel's `__trace_sched_switch_state` does the same, and distinguishes
/// a zombie (0x20) from a thread that is gone at once (0x10); here both are 0x10.
pub const fn shown_state(state: u32, preempted: bool) -> u32 {
    if preempted {
        return 0x100;
    }
    if state & IDLE == IDLE {
        return SHOWN_IDLE;
    }
    if state & DEAD != 0 {
        return SHOWN_DEAD;
    }
    let reported =
        if state & (RTLOCK_WAIT | FROZEN) != 0 { UNINTERRUPTIBLE } else { state & REPORTED };
    // The highest bit.
    if reported == 0 { 0 } else { 1 << reported.ilog2() }
}

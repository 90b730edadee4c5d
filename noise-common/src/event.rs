//! Layout of the memory that the programs write and the daemon reads.
//!
//! One [`CpuState`] per possible CPU lies in a memory-mapped array: a program finds all its state
//! with one array look-up, the daemon reads it without a system call. What is keyed by something
//! that comes and goes (irq, device, interface) is a [`Cell`] in a per-CPU hash. A closed window
//! travels through the ring buffer as the very [`Cell`] that collected it.

use crate::charge::{
    CHARGE_CAUSES, CHARGE_SLOTS, ChargeKey, ChargeSlot, Charged, RESOURCES, Resource,
};
use crate::hist::BUCKETS;
use crate::ledger::{CONTEXTS, Division, Ledger, Waiting};
use crate::nesting::{Frame, Taken};
use crate::queue::Share;
use crate::signals::{CELLS_PER_CPU, SIGNAL_COUNT, SOFTIRQ_VECTORS, Signal};

/// One histogram of one window on one CPU. Also the record of the ring buffer.
///
/// `head` and `tail` name the window. They differ, or are 0, while the cell is unused or being
/// reset, so a reader that copies front to back knows whether its copy is whole: a program resets
/// by clearing `tail`, then `head`, then the body, and opens by writing `head`, then `tail`.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Cell {
    /// Number of the window in which the first event fell (time / window length); 0 = none.
    pub head: u64,
    /// When the next event pushes this window out, ns; 0 = never used.
    pub closes_ns: u64,
    /// What the signal is about: an irq, a device and operation, an interface, a vector.
    pub subject: u64,
    /// The signal's number.
    pub signal: u32,
    /// The CPU that collected this.
    pub cpu: u32,
    /// Exact sum of all values, ns.
    pub sum_ns: u64,
    /// The longest value, ns.
    pub max_ns: u64,
    /// Counts; the number of values is their sum.
    pub buckets: [u32; BUCKETS],
    /// Equal to `head` while the cell is in use.
    pub tail: u64,
}

impl CpuState {
    /// Whether a signal is switched on.
    #[inline(always)]
    pub const fn measures(&self, signal: Signal) -> bool {
        self.off & signal.bit() == 0
    }

    /// Whether a start that was stored belongs to a signal that was measured since: while it was
    /// switched off, nobody looked for the end.
    #[inline(always)]
    pub const fn trusts(&self, signal: Signal, start_ns: u64) -> bool {
        start_ns >= self.since_ns[signal as usize]
    }

    /// What has been taken from the CPU up to `now_ns`, with what runs at that moment.
    ///
    /// Exact on the CPU itself; a reading from another CPU may miss or double what begins or ends
    /// at that very moment.
    #[inline(always)]
    pub fn taken_by(&self, now_ns: u64) -> Taken {
        let mut taken = self.taken;
        let outermost = if self.vector.start_ns != 0 {
            self.vector
        } else if self.irqs.depth != 0 {
            self.irqs.frames[0]
        } else {
            Frame { start_ns: u64::MAX, taken_ns: 0 }
        };
        if let Some(net_ns) = outermost.net_ns(now_ns, &taken) {
            taken.hardirq_ns += net_ns;
        }
        if self.softirq_running != 0
            && let Some(net_ns) = self.softirq.net_ns(now_ns, &taken)
        {
            taken.softirq_ns += net_ns;
        }
        taken
    }
}

impl Cell {
    /// A cell that was never used.
    pub const EMPTY: Self = Self {
        head: 0,
        closes_ns: 0,
        subject: 0,
        signal: 0,
        cpu: 0,
        sum_ns: 0,
        max_ns: 0,
        buckets: [0; BUCKETS],
        tail: 0,
    };
}

/// Key of a keyed cell or counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct CellKey {
    /// The signal's number.
    pub signal: u32,
    /// Always 0; keys are compared as bytes.
    pub padding: u32,
    /// What the signal is about.
    pub subject: u64,
}

/// Why something was not counted, or was counted late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Drop {
    /// The end of a pair came before its start by the clock.
    ClockBackwards,
    /// An end whose start was not seen (before the programs were attached, or lost).
    NoStart,
    /// A map had no room for a new entry.
    MapFull,
    /// An index (a pid, a vector) beyond what the maps were sized for.
    OutOfRange,
    /// A 32-bit bucket of one window was full.
    Saturated,
    /// A record of a long wait that the limit on their number suppressed.
    RateLimited,
    /// The ring buffer was full: the window stays open and is sent later, nothing is lost.
    RingFullDelayed,
}

/// All reasons, in order of their discriminants.
pub const DROPS: [Drop; 7] = [
    Drop::ClockBackwards,
    Drop::NoStart,
    Drop::MapFull,
    Drop::OutOfRange,
    Drop::Saturated,
    Drop::RateLimited,
    Drop::RingFullDelayed,
];

impl Drop {
    /// Value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClockBackwards => "clock_backwards",
            Self::NoStart => "no_start",
            Self::MapFull => "map_full",
            Self::OutOfRange => "out_of_range",
            Self::Saturated => "saturated",
            Self::RateLimited => "rate_limited",
            Self::RingFullDelayed => "ring_full_delayed",
        }
    }
}

/// Deepest nesting of `irq_handler_entry` that is followed. Handlers run with interrupts off, so
/// anything above 1 is a driver that enables them.
pub const IRQ_DEPTH: usize = 4;

/// The handlers that run on one CPU, outermost first.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IrqStack {
    /// Number of open handlers.
    pub depth: u32,
    /// Their irq numbers.
    pub irqs: [u32; IRQ_DEPTH],
    /// Always 0.
    pub padding: u32,
    /// Their intervals.
    pub frames: [Frame; IRQ_DEPTH],
}

/// The packet that this CPU's NET_RX softirq received last.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Received {
    /// When; 0 = none, or already used by a wake-up.
    pub at_ns: u64,
    /// The interface, as [`crate::signals::interface_subject`] makes it.
    pub interface: u64,
    /// What hard interrupts had taken by then, ns.
    pub interrupts_ns: u64,
}

/// From the raise of NET_RX to its entry.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Backlog {
    /// The raise.
    pub wait: Waiting,
    /// The entry; 0 where the backlog was short.
    pub until_ns: u64,
    /// What had been taken by then.
    pub taken: Taken,
}

/// Backlogs from this length on delay the delivery of packets noticeably, ns.
pub const BACKLOG_NS: u64 = 10_000;

/// Waits that are divided among those who were ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueWait {
    /// For a block device, in its queue.
    Queue,
    /// At a block device.
    Device,
    /// For an interface, in its queue.
    Transmit,
}

/// Number of the kinds of [`QueueWait`].
pub const QUEUE_WAITS: usize = QueueWait::Transmit as usize + 1;

impl QueueWait {
    /// What was waited for.
    #[inline(always)]
    pub const fn resource(self) -> Resource {
        match self {
            Self::Queue => Resource::BlockQueue,
            Self::Device => Resource::BlockDevice,
            Self::Transmit => Resource::NetTx,
        }
    }
}

/// A charge on its way into the table.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ChargeRequest {
    /// Who is charged with what.
    pub key: ChargeKey,
    /// Time, ns.
    pub ns: u64,
}

/// Everything that programs keep for one CPU. A whole number of cache lines; the compiler is not told
/// so, because LLVM cannot copy what it knows to be aligned to more than 8 bytes.
#[repr(C)]
pub struct CpuState {
    // First what other CPUs read when they wake a task up here, in as few cache lines as possible and
    // apart from what every switch writes.
    /// Net interrupt time so far.
    pub taken: Taken,
    /// The vector that runs (vectors do not nest: interrupts are off).
    pub vector: Frame,
    /// The softirq that runs.
    pub softirq: Frame,
    /// Vector number of the running softirq plus one; 0 = none runs.
    pub softirq_running: u32,
    /// The signals that are switched off, a bit each; the daemon writes it.
    pub off: u32,
    /// Running irq handlers.
    pub irqs: IrqStack,
    /// The packet that this CPU queued last, until it is transmitted or another follows.
    pub queued: PacketTimes,
    /// The packet whose wake-up is awaited.
    pub received: Received,
    /// First raise of each vector since its last entry, ns; 0 = none.
    pub raised_ns: [u64; SOFTIRQ_VECTORS.len()],
    /// What was not counted, by signal and reason.
    pub drops: [[u64; DROPS.len()]; SIGNAL_COUNT],
    /// Switches away from a task that went to sleep (0) or stayed runnable (1).
    pub switches: [u64; 2],
    /// What had been taken from the task that runs, as far as it is charged.
    pub running: Taken,
    /// Up to when that is charged.
    pub running_ns: u64,
    /// Numbers of the newest sources of hardirqs and softirqs then.
    pub running_sources: [u64; 2],
    /// Who ran here.
    pub ledger: Ledger,
    /// The waits that are divided, by [`crate::ledger::Context`].
    pub divisions: [Division; CONTEXTS],
    /// What had been taken when NET_RX was raised.
    pub raised_taken: Taken,
    /// The time for which the NET_RX softirq that runs was kept waiting, where that was long.
    pub backlog: Backlog,
    /// The record of a long wait that is made.
    pub outlier: Outlier,
    /// The waits in queues that are divided, by [`QueueWait`].
    pub shares: [Share; QUEUE_WAITS],
    /// A charge on its way into the table.
    pub charge: ChargeRequest,
    /// The window in which outliers are counted, and how many were told in it.
    pub outliers: [u64; 2],
    /// Length from which on a wait for a CPU is told by a record of its own, ns; the daemon writes it.
    pub outlier_ns: u64,
    /// When each signal was switched on last, ns; the daemon writes it.
    pub since_ns: [u64; SIGNAL_COUNT],
    /// Who is charged with the delays that ended on this CPU.
    pub charges: [ChargeSlot; CHARGE_SLOTS],
    /// Charges for which there was room nowhere, by resource and cause.
    pub unplaced: [[Charged; CHARGE_CAUSES.len()]; RESOURCES.len()],
    /// Always 0; puts the head of each cell into one cache line.
    pub gap: [u64; 3],
    /// Always zero: the initial value of new keyed cells (too large for a program's stack).
    pub empty: Cell,
    /// Cells of the signals whose subjects are known at build time, and direct-mapped ones of the
    /// other signals.
    pub cells: [Cell; CELLS_PER_CPU],
}

/// A block request on its way. Times are 0 where that stage is not under way.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct RequestTimes {
    /// Inserted into, or put back on, the queue.
    pub queued_ns: u64,
    /// Issued to the driver.
    pub issued_ns: u64,
    /// What the device's queue had served when the request entered it.
    pub queue_mark: u64,
    /// What the device had served when it got the request.
    pub device_mark: u64,
    /// The cgroup that issued it.
    pub cgroup: u64,
}

impl RequestTimes {
    /// A request of which nothing is known yet.
    pub const NONE: Self =
        Self { queued_ns: 0, issued_ns: 0, queue_mark: 0, device_mark: 0, cgroup: 0 };
}

/// Culprits that an [`Outlier`] names.
pub const OUTLIER_PARTS: usize = 16;

/// Length of a task's name in words, the terminating zero included (the kernel's `TASK_COMM_LEN`).
/// Programs move words faster than bytes.
pub const COMM_WORDS: usize = 2;

/// A part of a long wait. A record of the ring buffer holds as many as it has room for, the
/// latest ones; what the others sum to is told beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct OutlierPart {
    /// Who; what the number is depends on the cause.
    pub culprit: u64,
    /// How much, ns.
    pub ns: u64,
    /// Number of the [`crate::charge::Cause`].
    pub cause: u32,
    /// The thread that ran; 0 where it was none.
    pub pid: u32,
    /// Its name.
    pub comm: [u64; COMM_WORDS],
}

/// A wait for a CPU that was longer than its threshold: a record of the ring buffer, told apart
/// from a [`Cell`] by its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Outlier {
    /// When the wait ended, ns on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long it was, ns.
    pub wait_ns: u64,
    /// The cgroup that waited.
    pub victim: u64,
    /// Part of the wait that no part below tells, ns.
    pub rest_ns: u64,
    /// The thread that waited.
    pub pid: u32,
    /// The CPU on which it ran in the end.
    pub cpu: u32,
    /// Its name.
    pub comm: [u64; COMM_WORDS],
    /// Index into [`crate::signals::CAUSES`]: what made it runnable.
    pub made_runnable: u32,
    /// How many parts there are.
    pub parts_used: u32,
    /// The parts.
    pub parts: [OutlierPart; OUTLIER_PARTS],
}

/// Tasks that may reclaim or compact memory at once.
pub const TASKS: usize = 512;

/// Key of what a task does, by the signal's number.
#[inline(always)]
pub const fn task_key(signal: u32, pid: u32) -> u64 {
    (signal as u64) << 32 | pid as u64
}

/// Slots of the direct-mapped table of packets under way; a power of two.
pub const PACKET_SLOTS: usize = 4096;

/// A packet between `net_dev_queue` and `net_dev_start_xmit`.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct PacketTimes {
    /// Address of the `sk_buff`; 0 = free slot.
    pub skb: u64,
    /// When it was queued.
    pub queued_ns: u64,
    /// Its length then. A segment that reuses the memory of a packet which software segmentation
    /// consumed is always shorter, so it is not taken for that packet.
    pub len: u64,
    /// What the interface's queue had served then.
    pub mark: u64,
    /// The cgroup of its socket.
    pub cgroup: u64,
}

impl PacketTimes {
    /// No packet.
    pub const NONE: Self = Self { skb: 0, queued_ns: 0, len: 0, mark: 0, cgroup: 0 };
}

/// Slot of a packet in the direct-mapped table (Fibonacci hashing).
#[inline(always)]
pub const fn packet_slot(skb: u64) -> u32 {
    (skb.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PACKET_SLOTS.trailing_zeros())) as u32
}

#[cfg(feature = "user")]
mod user {
    use super::{Cell, CellKey, PacketTimes, RequestTimes};

    // SAFETY: all are `repr(C)` without padding and valid for any bytes, as the derived
    // `bytemuck::Pod` proves.
    unsafe impl aya::Pod for Cell {}
    // SAFETY: as above.
    unsafe impl aya::Pod for CellKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for PacketTimes {}
    // SAFETY: as above.
    unsafe impl aya::Pod for RequestTimes {}
}

const _: () = assert!(size_of::<Cell>() == 512);
const _: () = assert!(core::mem::offset_of!(CpuState, cells).is_multiple_of(64));
const _: () = assert!(size_of::<CellKey>() == 16);
const _: () = assert!(size_of::<Outlier>() == 704);
const _: () = assert!(size_of::<CpuState>().is_multiple_of(64));
const _: () = assert!(PACKET_SLOTS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn drop_reasons_are_in_order_and_unique() {
        let mut names = BTreeSet::new();
        for (index, drop) in DROPS.iter().enumerate() {
            assert_eq!(*drop as usize, index);
            assert!(names.insert(drop.name()));
        }
    }

    #[test]
    fn packet_slots_stay_in_the_table() {
        for skb in [0, 1, 0xffff_8880_0000_0100, u64::MAX] {
            assert!((packet_slot(skb) as usize) < PACKET_SLOTS);
        }
    }
}

//! Layout of the memory that the programs write and the daemon reads.
//!
//! One [`CpuState`] per possible CPU lies in a memory-mapped array: a program finds all its state
//! with one array look-up, the daemon reads it without a system call. What is keyed by something
//! that comes and goes (irq, device, interface) is a [`Cell`] in a per-CPU hash. A closed window
//! travels through the ring buffer as the very [`Cell`] that collected it: see [`crate::record`].

use crate::charge::{CHARGE_CAUSES, CHARGE_SLOTS, ChargeRequest, ChargeSlot, Charged, RESOURCES};
use crate::header::Header;
use crate::hist::BUCKETS;
use crate::ledger::{COMM_WORDS, CONTEXTS, Division, Ledger};
use crate::loss::LOSSES;
use crate::nesting::{Nesting, Suspended, Taken};
use crate::queue::{QUEUE_WAITS, Share};
use crate::signals::{Backlog, CELLS_PER_CPU, Received, SIGNAL_COUNT, SOFTIRQ_VECTORS, Signal};
use crate::store::{Class, CpuParts};

/// One histogram of one window on one CPU. Also a record of the ring buffer.
///
/// `head` and `tail` name the window. They differ, or are 0, while the cell is unused or being
/// reset, so a reader that copies front to back knows whether its copy is whole: a program resets
/// by clearing `tail`, then `head`, then the body, and opens by writing `head`, then `tail`.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Cell {
    /// What this is as a record: the signal, and the CPU that collected it.
    pub header: Header,
    /// Number of the window in which the first event fell (time / window length); 0 = none.
    pub head: u64,
    /// When the next event pushes this window out, ns; 0 = never used.
    pub closes_ns: u64,
    /// What the signal is about: an irq, a device and operation, an interface, a vector.
    pub subject: u64,
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
    #[inline(always)]
    pub const fn measures(&self, signal: Signal) -> bool {
        self.off & signal.bit() == 0
    }

    /// Whether events of a class are written to the store.
    #[inline(always)]
    pub const fn records(&self, class: Class) -> bool {
        self.events & class.bit() != 0
    }

    /// Whether a start that was stored belongs to a signal that was measured since: while it was
    /// switched off, no program looked for the end.
    #[inline(always)]
    pub const fn trusts(&self, signal: Signal, start_ns: u64) -> bool {
        start_ns >= self.since_ns[signal as usize]
    }
}

impl Cell {
    /// A cell that was never used.
    pub const EMPTY: Self = Self {
        header: Header::NONE,
        head: 0,
        closes_ns: 0,
        subject: 0,
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
    pub signal: u32,
    /// Always 0; keys are compared as bytes.
    pub padding: u32,
    /// What the signal is about.
    pub subject: u64,
}

/// The per-CPU hashes, for what finds no place in [`CpuState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// Cells of subjects that come and go.
    Cells,
    /// Counters of such subjects.
    Counts,
    Charges,
}

pub const HASHES: usize = 3;

/// Words of 8 bytes by which [`CpuState`] without its cells falls short of whole cache lines. How many
/// there are of most arrays follows from the tables; the rest is two words more than whole lines.
const GAP_WORDS: usize = {
    let by_signal = SIGNAL_COUNT * (LOSSES.len() + 1);
    let by_resource = RESOURCES.len() * CHARGE_CAUSES.len() * (size_of::<Charged>() / 8);
    let by_wait = QUEUE_WAITS * (size_of::<Share>() / 8);
    (8 - (by_signal + by_resource + by_wait + 2) % 8) % 8
};

/// Everything that programs keep for one CPU. A whole number of cache lines; the type is not marked as
/// aligned, because LLVM cannot copy what it knows to be aligned to more than 8 bytes.
#[repr(C)]
pub struct CpuState {
    // First what other CPUs read when they wake a task up here, in as few cache lines as possible and
    // apart from what every switch writes.
    /// The interrupts that run, and what those before them took.
    pub nesting: Nesting,
    /// The signals that are switched off, a bit each; the daemon writes it.
    pub off: u32,
    /// Classes of events that are written to the store, a bit each; the daemon writes it.
    pub events: u32,
    /// The packet that this CPU queued last, until it is transmitted or another follows.
    pub queued: PacketTimes,
    /// The packet whose wake-up is awaited.
    pub received: Received,
    /// This CPU's parts of the event store. Near the front, where one instruction reaches it, and with the
    /// part that nearly every event goes to in a cache line that the same programs use anyway.
    pub store: CpuParts,
    /// First raise of each vector since its last entry, ns; 0 = none.
    pub raised_ns: [u64; SOFTIRQ_VECTORS.len()],
    /// What was not counted, by signal and reason.
    pub drops: [[u64; LOSSES.len()]; SIGNAL_COUNT],
    /// Switches away from a task that went to sleep (0) or stayed runnable (1).
    pub switches: [u64; 2],
    /// What had been taken from the task that runs, as far as it is charged.
    pub running: Taken,
    /// Up to when that is charged.
    pub running_ns: u64,
    /// Numbers of the newest sources of hardirqs and softirqs then.
    pub running_sources: [u64; 2],
    pub ledger: Ledger,
    /// The waits that are divided, by [`crate::ledger::Context`].
    pub divisions: [Division; CONTEXTS],
    /// What had been taken when NET_RX was raised.
    pub raised_taken: Taken,
    /// The time for which the NET_RX softirq that runs was kept waiting, where that was long.
    pub backlog: Backlog,
    /// The record of a long wait that is made.
    pub outlier: Outlier,
    /// The waits in queues that are divided, by [`crate::queue::QueueWait`].
    pub shares: [Share; QUEUE_WAITS],
    /// A charge on its way into the table.
    pub charge: ChargeRequest,
    /// The window in which outliers are counted, and how many were sent in it.
    pub outliers: [u64; 2],
    /// Length from which on a wait for a CPU is sent as a record of its own, ns; the daemon writes it.
    pub outlier_ns: u64,
    /// When each signal was switched on last, ns; the daemon writes it.
    pub since_ns: [u64; SIGNAL_COUNT],
    /// Who is charged with the delays that ended on this CPU.
    pub charges: [ChargeSlot; CHARGE_SLOTS],
    /// Charges for which there was room nowhere, by resource and cause.
    pub unplaced: [[Charged; CHARGE_CAUSES.len()]; RESOURCES.len()],
    /// How far this CPU's events were when it last woke the daemon for an old part of a wait.
    pub woken_at: u64,
    /// System calls of 32-bit programs that began while calls were written to the store: they are left out.
    pub foreign_calls: u64,
    /// 1 for each [`Hash`] once this CPU put something into it: the daemon looks into no other.
    pub hashed: [u64; HASHES],
    /// With PREEMPT_RT: the softirq whose task does not run.
    pub suspended: Suspended,
    /// How many cells were taken into use: the daemon looks for new ones where this changed.
    pub claims: u64,
    /// Always 0; puts the head of each cell into one cache line.
    pub gap: [u64; GAP_WORDS],
    /// Always zero: the initial value of new keyed cells (too large for a program's stack).
    pub empty: Cell,
    /// Cells of the signals whose subjects are known at build time, and direct-mapped ones of the other signals.
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

/// A part of a long wait. A record of the ring buffer holds as many as it has room for, the
/// latest ones; the others are summed up in [`Outlier::rest_ns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct OutlierPart {
    /// Who; what the number is depends on the cause.
    pub culprit: u64,
    pub ns: u64,
    /// Number of the [`crate::charge::Cause`].
    pub cause: u32,
    /// The thread that ran; 0 where it was none.
    pub pid: u32,
    pub comm: [u64; COMM_WORDS],
}

/// A wait for a CPU that was longer than its threshold: a record of the ring buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Outlier {
    /// What this is as a record: the signal, and the CPU on which the thread ran in the end.
    pub header: Header,
    /// When the wait ended, ns on CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub wait_ns: u64,
    /// The cgroup that waited.
    pub victim: u64,
    /// What the parts below do not cover of the wait, ns.
    pub rest_ns: u64,
    /// The thread that waited.
    pub pid: u32,
    /// Index into [`crate::signals::CAUSES`]: what made it runnable.
    pub made_runnable: u16,
    pub parts_used: u16,
    pub comm: [u64; COMM_WORDS],
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
    pub queued_ns: u64,
    /// Its length then. A segment that reuses the memory of a packet which software segmentation
    /// consumed is always shorter, so it is not mistaken for that packet.
    pub len: u64,
    /// What the interface's queue had served then.
    pub mark: u64,
    /// The cgroup of its socket.
    pub cgroup: u64,
}

impl PacketTimes {
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
// The depth and the part that nearly every event goes to, in one cache line.
const _: () = assert!(core::mem::offset_of!(CpuState, store) % 64 <= 40);
const _: () = assert!(core::mem::offset_of!(CpuState, store) < 1 << 15);
const _: () = assert!(size_of::<CellKey>() == 16);
const _: () = assert!(size_of::<Outlier>() == 704);
const _: () = assert!(size_of::<CpuState>().is_multiple_of(64));
const _: () = assert!(PACKET_SLOTS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_slots_stay_in_the_table() {
        for skb in [0, 1, 0xffff_8880_0000_0100, u64::MAX] {
            assert!((packet_slot(skb) as usize) < PACKET_SLOTS);
        }
    }
}

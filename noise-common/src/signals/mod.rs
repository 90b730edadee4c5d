//! Signals: what is known of each before it is measured.
//!
//! A signal is one kind of delay: a pair of kernel events and what lies between, or a count of
//! one event. The daemon, the exporter and the status page iterate the table of them.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
pub use crate::hooks::{VECTORS, Vector};
use crate::remedy::{Remedies, Remedy};
use crate::shown::{RECENT, Shown};
use crate::subject::{Domain, SubjectKind};

mod block_device_wait;
mod block_queue_wait;
mod cgroup_runqueue_wait;
mod compaction;
mod context_switch;
mod direct_reclaim;
mod hardirq;
mod net_rx_wait;
mod net_tx_wait;
mod nmi;
mod packet_drop;
mod runqueue_wait;
mod softirq;
mod softirq_raise_wait;
mod table;
mod tcp_retransmit;
mod uninterruptible_wait;
mod vector;

pub use block_queue_wait::{OPERATIONS, block_subject, operation_of, split_block_subject};
pub use net_rx_wait::{BACKLOG_NS, Backlog, Received, polls_packets};
pub use net_tx_wait::{OTHER_INTERFACE, interface_subject};
pub use runqueue_wait::CAUSES;
pub use softirq::{BLOCK, NET_RX, SOFTIRQ_VECTORS};
pub use table::{CELLS_PER_CPU, SIGNALS, in_reading_order, of_subject};
pub use uninterruptible_wait::is_uninterruptible_wait;

/// Histogram buckets that a signal is exported with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// 25 buckets, `le` = 2^10 … 2^34 ns.
    Fine,
    /// 13 buckets, `le` = 4^5 … 4^17 ns.
    Wide,
}

impl Buckets {
    /// Exponents of two of the upper bounds, in ns.
    pub fn exponents(self) -> impl Iterator<Item = u32> {
        let step = match self {
            Self::Fine => 1,
            Self::Wide => 2,
        };
        (10..=34).step_by(step)
    }
}

/// Where the kernel side keeps a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Histograms in [`crate::event::CpuState::cells`], one per subject 0, 1, … .
    Fixed { subjects: usize },
    /// Histograms of subjects that come and go: on each CPU, one of a few direct-mapped cells in
    /// [`crate::event::CpuState::cells`], or, where another subject has that cell, the per-CPU
    /// hash. A subject keeps its place.
    Keyed,
    /// Histograms of many subjects that come and go: on each CPU, sets of a few cells in
    /// [`crate::event::CpuState::cells`]. A cell whose window is over may be taken over by another
    /// subject; what finds no cell is counted for [`crate::charge::UNKNOWN`] in the last one.
    Rotating,
    /// Counters in [`crate::event::CpuState::switches`].
    Switches,
    /// Counters in the per-CPU hash, by subject.
    KeyedCounter,
}

impl Storage {
    /// How many cells of [`crate::event::CpuState::cells`] the signal has on each CPU.
    pub const fn cells(self) -> usize {
        match self {
            Self::Fixed { subjects } => subjects,
            Self::Keyed => KEYED_SLOTS,
            Self::Rotating => ROTATING_CELLS + 1,
            Self::Switches | Self::KeyedCounter => 0,
        }
    }
}

/// Direct-mapped cells of each keyed signal on each CPU, a power of two: more than the devices that
/// one CPU is busy with at a time, few enough to stay small on large hosts.
const KEYED_SLOTS: usize = 16;

/// The direct-mapped cell of a subject among its signal's (Fibonacci hashing).
#[inline(always)]
pub const fn keyed_slot(subject: u64) -> usize {
    (subject.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KEYED_SLOTS.trailing_zeros())) as usize
}

/// Cells of each rotating signal on each CPU that subjects share, a power of two.
pub const ROTATING_CELLS: usize = 128;

/// Cells that may hold one subject of a rotating signal.
pub const ROTATING_WAYS: usize = 4;

/// The first cell of a rotating signal that may hold a subject; the others are that number xor 1, 2 and 3.
#[inline(always)]
pub const fn rotating_slot(subject: u64) -> usize {
    (subject.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ROTATING_CELLS.trailing_zeros())) as usize
}

/// What a signal is exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportKind {
    /// A histogram of seconds.
    Histogram(Buckets),
    Counter,
}

/// Everything that is known about a signal before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct SignalInfo {
    pub signal: Signal,
    /// Stem of its name: file, metric, column, configuration key.
    pub name: &'static str,
    pub metric: &'static str,
    /// One sentence: what is measured, from which event to which.
    pub help: &'static str,
    pub kind: ExportKind,
    pub labels: &'static [&'static str],
    /// Hooks without which the signal cannot be measured.
    pub hooks: &'static [Hook],
    /// Further hooks that it uses where the kernel has them.
    pub optional_hooks: &'static [Hook],
    /// Kernel fields without which it cannot be measured.
    pub fields: &'static [&'static str],
    /// Where the kernel side keeps it.
    pub storage: Storage,
    /// The source of `noised_cpu_interrupted_seconds_total` that its time counts for.
    pub interrupts: Option<&'static str>,
    /// From which event to which, in a few words, for the table of signals in the documentation.
    pub between: &'static str,
    /// What is to be said there of the values of its labels; mostly nothing.
    pub values: &'static str,
    /// Its delays in an incident's events; empty = its name.
    pub delays: &'static str,
    /// What an incident of it is, with words in braces for whose it is, and for now and then.
    pub disturbed: &'static str,
    /// Heading of its subjects on the page of a recording's delays; empty where those of another kind have one in common.
    pub listed: &'static str,
    /// The part of the host that it belongs to.
    pub domain: Domain,
    /// What its delays or events are counted by; the number that the kernel side has for it.
    pub subject: SubjectKind,
    /// The signal whose delays these are once more, counted by another kind of subject.
    pub part_of: Option<Signal>,
    /// What those who are delayed wait for, and are charged with; none of what is counted, of what
    /// is no wait, and of delays whose culprits are not known.
    pub resource: Option<Resource>,
    /// The cause that its time is of the delays of others.
    pub cause: Option<Cause>,
    /// Whether its longest delays are reported one by one.
    pub outliers: bool,
    /// Whether incidents of it are looked for unless configured otherwise: delays of work are;
    /// interrupts appear as culprits of those.
    pub watched: bool,
    /// What helps against causes of its delays; against the other causes, what
    /// [helps](crate::remedy::against) whatever is delayed.
    pub remedies: Remedies,
    /// What helps against the signal itself, whose delays are what takes time from others.
    pub inherent: &'static [Remedy],
    /// Where screens show it besides the overview.
    pub shown: Shown,
    /// Title of the table of its subjects on its page.
    pub table: &'static str,
}

impl SignalInfo {
    /// What a row leaves out: nothing is done with a signal but what its row says. Every row gives the
    /// fields above the empty line itself; their values here only complete the struct.
    const PLAIN: Self = Self {
        signal: Signal::RunqueueWait,
        name: "",
        metric: "",
        help: "",
        kind: ExportKind::Counter,
        labels: &[],
        hooks: &[],
        fields: &[],
        storage: Storage::KeyedCounter,
        between: "",
        domain: Domain::Cpu,
        subject: SubjectKind::Host,

        optional_hooks: &[],
        interrupts: None,
        values: "",
        delays: "",
        disturbed: "{name} of {victim} {rises}",
        listed: "",
        part_of: None,
        resource: None,
        cause: None,
        outliers: false,
        watched: false,
        remedies: &[],
        inherent: &[],
        shown: Shown::Overview,
        table: RECENT,
    };

    /// Whether it is measured as a histogram, not counted.
    pub const fn is_delay(&self) -> bool {
        matches!(self.kind, ExportKind::Histogram(_))
    }

    /// Whether its time is that of tasks which wait for a CPU, each wait once.
    pub const fn is_wait_for_cpu(&self) -> bool {
        matches!(self.resource, Some(Resource::Cpu)) && self.part_of.is_none()
    }

    /// Whether it has so many subjects that only those which cost most are exported by name.
    pub const fn is_folded(&self) -> bool {
        matches!(self.storage, Storage::Rotating)
    }
}

/// Calls `$then!` with the list of signals: variant and room.
macro_rules! for_each_signal {
    ($then:ident) => {
        $then! {
            RunqueueWait runqueue_wait;
            ContextSwitch context_switch;
            Hardirq hardirq;
            Vector vector;
            Softirq softirq;
            SoftirqRaiseWait softirq_raise_wait;
            Nmi nmi;
            BlockQueueWait block_queue_wait;
            BlockDeviceWait block_device_wait;
            NetTxWait net_tx_wait;
            NetRxWait net_rx_wait;
            TcpRetransmit tcp_retransmit;
            PacketDrop packet_drop;
            DirectReclaim direct_reclaim;
            Compaction compaction;
            CgroupRunqueueWait cgroup_runqueue_wait;
            UninterruptibleWait uninterruptible_wait;
        }
    };
}
use for_each_signal;

macro_rules! define_signals {
    ($($variant:ident $room:ident;)*) => {
        /// One kind of delay, or one kind of event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Signal {
            $(#[doc = concat!("`", stringify!($room), "`; see [`Signal::info`].")] $variant,)*
        }

        pub const SIGNAL_COUNT: usize = [$(Signal::$variant),*].len();
    };
}

for_each_signal!(define_signals);

const _: () = assert!(SIGNAL_COUNT <= u32::BITS as usize);

impl Signal {
    /// The signal's bit in [`crate::event::CpuState::off`].
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn neighbouring_subjects_have_cells_of_their_own() {
        let irqs: BTreeSet<usize> = (24..34).map(keyed_slot).collect();
        assert!(irqs.len() >= 7, "{irqs:?}");
        let operations = (0..OPERATIONS.len() as u64).map(|op| block_subject(254, 0, op));
        assert!(operations.map(keyed_slot).all(|slot| slot < KEYED_SLOTS));
    }

    #[test]
    fn buckets_end_where_the_contract_says() {
        for (buckets, count) in [(Buckets::Fine, 25), (Buckets::Wide, 13)] {
            let exponents: std::vec::Vec<u32> = buckets.exponents().collect();
            assert_eq!(exponents.len(), count);
            assert_eq!((exponents[0], exponents[count - 1]), (10, 34));
        }
    }
}

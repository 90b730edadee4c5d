//! The one table of signals.
//!
//! A signal is one kind of delay: a pair of kernel events and what lies between, or a count of
//! one event. The daemon, the exporter and the status page iterate this table.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::remedy::{Remedies, Remedy};
use crate::shown::Shown;
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
mod tcp_retransmit;
mod vector;

pub use block_queue_wait::{OPERATIONS, block_subject, operation_of, split_block_subject};
pub use net_tx_wait::{OTHER_INTERFACE, interface_subject};
pub use runqueue_wait::CAUSES;
pub use softirq::SOFTIRQ_VECTORS;
pub use vector::{VECTORS, Vector};

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
    Fixed {
        /// Number of subjects.
        subjects: usize,
    },
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

/// The first cell of a rotating signal that may hold a subject; the others are that number xor 1, 2
/// and 3.
#[inline(always)]
pub const fn rotating_slot(subject: u64) -> usize {
    (subject.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ROTATING_CELLS.trailing_zeros())) as usize
}

/// What a signal is exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A histogram of seconds.
    Histogram(Buckets),
    /// A counter.
    Counter,
}

/// Everything that is known about a signal before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct SignalInfo {
    /// The signal.
    pub signal: Signal,
    /// Stem of its name: file, metric, column, configuration key.
    pub name: &'static str,
    /// Full metric name.
    pub metric: &'static str,
    /// One sentence: what is measured, from which event to which.
    pub help: &'static str,
    /// Histogram or counter.
    pub kind: Kind,
    /// Labels of the metric.
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
    /// What helps against causes of its delays, besides what [helps](crate::remedy::against)
    /// against a cause whatever is delayed.
    pub remedies: Remedies,
    /// What helps against the signal itself, whose delays are what takes time from others.
    pub inherent: &'static [Remedy],
    /// Where screens show it besides the overview.
    pub shown: Shown,
    /// Title of the table of its subjects on its page.
    pub table: &'static str,
}

impl SignalInfo {
    /// Whether it is measured as a histogram, not counted.
    pub const fn is_delay(&self) -> bool {
        matches!(self.kind, Kind::Histogram(_))
    }

    /// Whether its time is that of tasks which wait for a CPU, each wait once.
    pub const fn is_wait_for_cpu(&self) -> bool {
        matches!(self.resource, Some(Resource::Cpu)) && self.part_of.is_none()
    }

    /// Whether it has so many subjects that only those which cost most are exported by name.
    pub const fn is_folded(&self) -> bool {
        matches!(self.storage, Storage::Rotating)
    }

    /// The signals that count its delays by other kinds of subject.
    pub fn parts(&self) -> impl Iterator<Item = &'static SignalInfo> {
        let whole = self.signal;
        SIGNALS.iter().filter(move |info| info.part_of == Some(whole))
    }
}

/// All signals as people read them: the parts of a signal right behind it.
pub fn in_reading_order() -> impl Iterator<Item = &'static SignalInfo> {
    let whole = SIGNALS.iter().filter(|info| info.part_of.is_none());
    whole.flat_map(|info| [info].into_iter().chain(info.parts()))
}

/// The signals whose subjects are of a kind.
pub fn of_subject(subject: SubjectKind) -> impl Iterator<Item = Signal> {
    SIGNALS.iter().filter(move |info| info.subject == subject).map(|info| info.signal)
}

macro_rules! define_signals {
    ($($variant:ident $room:ident;)*) => {
        /// One kind of delay, or one kind of event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Signal {
            $(#[doc = concat!("`", stringify!($room), "`; see [`Signal::info`].")] $variant,)*
        }

        /// Number of signals.
        pub const SIGNAL_COUNT: usize = [$(Signal::$variant),*].len();

        const INFOS: [SignalInfo; SIGNAL_COUNT] = [$($room::INFO,)*];
    };
}

define_signals! {
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
}

/// The table: `SIGNALS[signal as usize].signal == signal`.
pub static SIGNALS: [SignalInfo; SIGNAL_COUNT] = INFOS;

const _: () = assert!(SIGNAL_COUNT <= u32::BITS as usize);

/// First cell of each signal in [`crate::event::CpuState::cells`], and behind it their number.
const CELL_LAYOUT: [usize; SIGNAL_COUNT + 1] = {
    let mut layout = [0; SIGNAL_COUNT + 1];
    let mut index = 0;
    while index < SIGNAL_COUNT {
        layout[index + 1] = layout[index] + INFOS[index].storage.cells();
        index += 1;
    }
    layout
};

/// Number of cells on each CPU, fixed and direct-mapped ones.
pub const CELLS_PER_CPU: usize = CELL_LAYOUT[SIGNAL_COUNT];

impl Signal {
    /// The signal's row of the table.
    pub fn info(self) -> &'static SignalInfo {
        &SIGNALS[self as usize]
    }

    /// The signal of a number that came from the kernel side.
    pub fn from_number(number: u32) -> Option<Self> {
        SIGNALS.get(number as usize).map(|info| info.signal)
    }

    /// The signal's bit in [`crate::event::CpuState::off`].
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Index of the signal's first cell in [`crate::event::CpuState::cells`].
    pub const fn first_cell(self) -> usize {
        CELL_LAYOUT[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offsets::FIELDS;
    use crate::remedy::against;
    use crate::shown::Stage;
    use std::collections::BTreeSet;

    #[test]
    fn table_order_is_the_discriminant() {
        for (index, info) in SIGNALS.iter().enumerate() {
            assert_eq!(info.signal as usize, index);
            assert_eq!(Signal::from_number(index as u32), Some(info.signal));
        }
        assert_eq!(Signal::from_number(SIGNAL_COUNT as u32), None);
    }

    #[test]
    fn names_are_unique_and_texts_are_not_empty() {
        let mut seen = BTreeSet::new();
        for info in &SIGNALS {
            assert!(seen.insert(info.name), "{} twice", info.name);
            assert!(seen.insert(info.metric), "{} twice", info.metric);
            assert!(info.metric.starts_with("noised_"));
            assert!(info.help.len() > 20, "{} has no help", info.name);
            assert!(info.between.len() > 20, "{} has no row", info.name);
            assert_eq!(info.labels.len(), info.subject.labels(), "{}", info.name);
            assert!(!info.hooks.is_empty() || !info.optional_hooks.is_empty());
            let suffix = match info.kind {
                Kind::Histogram(_) => "_seconds",
                Kind::Counter => "_total",
            };
            assert!(info.metric.ends_with(suffix), "{}", info.metric);
        }
    }

    #[test]
    fn named_fields_exist() {
        for info in &SIGNALS {
            for field in info.fields {
                assert!(FIELDS.iter().any(|known| known.global == *field), "{field}");
            }
        }
    }

    #[test]
    fn what_a_row_says_of_a_signal_agrees() {
        for info in &SIGNALS {
            let name = info.name;
            assert!(info.is_delay() || !info.watched && info.resource.is_none(), "{name}");
            assert!(info.cause.is_some() || info.interrupts.is_none(), "{name}");
            let rows: BTreeSet<_> = info.remedies.iter().map(|(cause, _)| *cause).collect();
            assert_eq!(rows.len(), info.remedies.len(), "{name} has a cause twice");
            for (cause, remedies) in info.remedies {
                // What helps whatever is delayed comes before, and this row would never be read.
                let hidden = !against(*cause).is_empty() || *cause == Cause::Untracked;
                assert!(!hidden && !remedies.is_empty(), "{name}: {cause:?}");
            }
            if let Some(whole) = info.part_of.map(Signal::info) {
                assert!(whole.part_of.is_none() && whole.resource == info.resource, "{name}");
            }
            let place = info.resource.and_then(Resource::place);
            assert!(place.is_none_or(|place| place == info.subject), "{name}");
            if let Shown::Way { way, stage } = info.shown {
                assert_eq!(stage == Stage::Events, !info.is_delay(), "{name}");
                let own = |other: &SignalInfo| other.shown == Shown::Way { way, stage };
                assert_eq!(SIGNALS.iter().filter(|other| own(other)).count(), 1, "{name}");
            }
        }
        let read: BTreeSet<_> = in_reading_order().map(|info| info.signal).collect();
        assert_eq!((read.len(), in_reading_order().count()), (SIGNAL_COUNT, SIGNAL_COUNT));
    }

    #[test]
    fn cells_are_laid_out_without_gaps() {
        let mut next = 0;
        for info in &SIGNALS {
            assert_eq!(info.signal.first_cell(), next);
            next += info.storage.cells();
        }
        assert_eq!(next, CELLS_PER_CPU);
    }

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

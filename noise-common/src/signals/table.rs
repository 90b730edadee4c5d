//! The one table of signals, put together from their rooms.

use super::{
    SIGNAL_COUNT, Signal, SignalInfo, block_device_wait, block_queue_wait, cgroup_runqueue_wait,
    compaction, context_switch, direct_reclaim, for_each_signal, hardirq, net_rx_wait, net_tx_wait,
    nmi, packet_drop, runqueue_wait, softirq, softirq_raise_wait, tcp_retransmit, vector,
};

macro_rules! collect_infos {
    ($($variant:ident $room:ident;)*) => {
        const INFOS: [SignalInfo; SIGNAL_COUNT] = [$($room::INFO,)*];
    };
}

for_each_signal!(collect_infos);

/// The table: `SIGNALS[signal as usize].signal == signal`.
pub static SIGNALS: [SignalInfo; SIGNAL_COUNT] = INFOS;

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

    /// Index of the signal's first cell in [`crate::event::CpuState::cells`].
    pub const fn first_cell(self) -> usize {
        CELL_LAYOUT[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offsets::FIELDS;
    use crate::signals::Kind;
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
    fn cells_are_laid_out_without_gaps() {
        let mut next = 0;
        for info in &SIGNALS {
            assert_eq!(info.signal.first_cell(), next);
            next += info.storage.cells();
        }
        assert_eq!(next, CELLS_PER_CPU);
    }
}

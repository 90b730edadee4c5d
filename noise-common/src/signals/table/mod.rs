//! The one table of signals, put together from their rooms.

use super::{SIGNAL_COUNT, Signal, SignalInfo, for_each_signal};

macro_rules! collect_infos {
    ($($variant:ident $room:ident;)*) => {
        const INFOS: [SignalInfo; SIGNAL_COUNT] = [$(super::$room::INFO,)*];
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
mod tests;

//! The one table of signals, put together from their rooms.

use super::{SIGNAL_COUNT, Signal, SignalInfo, for_each_signal};
use crate::charge::Cause;
use crate::remedy::{Remedy, against};
use crate::subject::SubjectKind;

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
    pub fn info(self) -> &'static SignalInfo {
        &SIGNALS[self as usize]
    }

    /// What helps against its delays by a cause, the least costly first.
    pub fn remedies(self, cause: Cause) -> &'static [Remedy] {
        let row = self.info().remedies.iter().find(|(known, _)| *known == cause);
        row.map_or_else(|| against(cause), |(_, remedies)| *remedies)
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

impl SignalInfo {
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

pub fn of_subject(subject: SubjectKind) -> impl Iterator<Item = Signal> {
    SIGNALS.iter().filter(move |info| info.subject == subject).map(|info| info.signal)
}

#[cfg(test)]
mod tests;

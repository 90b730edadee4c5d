//! What is not counted, and why: every loss is accounted for.

/// Why something was not counted, or was counted late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Loss {
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
pub const LOSSES: [Loss; 7] = [
    Loss::ClockBackwards,
    Loss::NoStart,
    Loss::MapFull,
    Loss::OutOfRange,
    Loss::Saturated,
    Loss::RateLimited,
    Loss::RingFullDelayed,
];

impl Loss {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn reasons_are_in_order_and_unique() {
        let mut names = BTreeSet::new();
        for (index, loss) in LOSSES.iter().enumerate() {
            assert_eq!(*loss as usize, index);
            assert!(names.insert(loss.name()));
        }
    }
}

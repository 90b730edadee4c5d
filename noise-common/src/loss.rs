//! What is not counted, and why: every loss is accounted for.

crate::named! {
    /// Why something was not counted, or was counted late. By its name, a value of the label `reason`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Loss all LOSSES {
        /// The end of a pair came before its start by the clock.
        ClockBackwards = "clock_backwards",
        /// An end whose start was not seen (before the programs were attached, or lost).
        NoStart = "no_start",
        /// A map had no room for a new entry.
        MapFull = "map_full",
        /// An index (a pid, a vector) beyond what the maps were sized for.
        OutOfRange = "out_of_range",
        /// A 32-bit bucket of one window was full.
        Saturated = "saturated",
        /// A record of a long wait that the limit on their number suppressed.
        RateLimited = "rate_limited",
        /// The ring buffer was full: the window stays open and is sent later, nothing is lost.
        RingFullDelayed = "ring_full_delayed",
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

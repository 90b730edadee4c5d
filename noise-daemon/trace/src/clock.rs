//! The clock of a trace and its distance from real time.

const SECOND_NS: i128 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceClock {
    /// Its name, such as `monotonic`.
    pub name: String,
    pub description: String,
    pub frequency_hz: u64,
    /// Its zero, in seconds since the epoch …
    pub offset_s: i64,
    /// … and so many of its own counts.
    pub offset_cycles: i64,
}

impl TraceClock {
    /// One that counts nanoseconds since the epoch.
    pub fn epoch() -> Self {
        Self::plain("epoch")
    }

    /// That of a text of ftrace; its offset is unknown and counts as 0.
    pub fn trace() -> Self {
        Self::plain("ftrace")
    }

    /// That of our recordings, which real time is so far ahead of.
    pub fn ahead_by(offset_ns: u64) -> Self {
        Self { offset_cycles: offset_ns.cast_signed(), ..Self::plain("monotonic") }
    }

    fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            frequency_hz: 1_000_000_000,
            offset_s: 0,
            offset_cycles: 0,
        }
    }

    /// A reading in nanoseconds since the epoch; saturates at 0 and at the largest 64-bit number.
    pub fn time_ns(&self, cycles: u64) -> u64 {
        let cycles = i128::from(self.offset_cycles) + i128::from(cycles);
        let frequency = i128::from(self.frequency_hz.max(1));
        let ns = match frequency {
            SECOND_NS => cycles,
            _ => (cycles * SECOND_NS).div_euclid(frequency),
        };
        let ns = ns + i128::from(self.offset_s) * SECOND_NS;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }

    /// Its zero, in nanoseconds since the epoch.
    pub fn offset_ns(&self) -> u64 {
        self.time_ns(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_become_times_of_the_epoch() {
        let mut clock = TraceClock { offset_s: 2, offset_cycles: 3, ..TraceClock::epoch() };
        assert_eq!((clock.time_ns(4), clock.offset_ns()), (2_000_000_007, 2_000_000_003));
        clock.frequency_hz = 3;
        assert_eq!(clock.time_ns(1), 3_333_333_333);
        clock.offset_s = -9;
        assert_eq!(clock.time_ns(0), 0);
        clock.offset_s = i64::MAX;
        assert_eq!(clock.time_ns(u64::MAX), u64::MAX);
    }
}

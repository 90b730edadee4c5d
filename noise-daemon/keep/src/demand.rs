//! PURE: how large the flight recorder has to be, from how fast the busiest CPU fills its ring. All rings have one size:
//! the programs find their places by arithmetic alone.

use noise_common::store::StoredEvent;

/// Memory for each CPU that no host has less than where none is configured: calm ones become busy.
pub const USUAL_BYTES: u64 = 1 << 20;
/// As [`USUAL_BYTES`], where it is not known how busy the host gets: two seconds of 130,000 events a second. An
/// operator who starts noised because the host is slow needs these two seconds.
const UNKNOWN_BYTES: u64 = 8 << 20;
/// Length of the windows over which filling is measured, ns.
const WINDOW_NS: u64 = 10_000_000_000;
/// Hours whose busiest windows are remembered.
const HOURS: usize = 24;

/// Bytes for each CPU that hold as many seconds at that rate, where it is known.
pub fn needed_bytes(bytes_per_second: Option<u64>, seconds: u64) -> u64 {
    let Some(rate) = bytes_per_second else { return UNKNOWN_BYTES };
    let bytes = rate.saturating_mul(seconds).max(USUAL_BYTES);
    bytes.checked_next_power_of_two().unwrap_or(1 << 63)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct HourlyPeak {
    /// Hours since 1970.
    hour: u64,
    /// What the busiest CPU wrote.
    bytes_per_second: u64,
}

/// The busiest windows of the last day.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Demand(Vec<HourlyPeak>);

impl Demand {
    /// Takes what the busiest CPU wrote in a window that ended so many seconds after 1970.
    pub fn note(&mut self, now_s: u64, bytes_per_second: u64) {
        let hour = now_s / 3_600;
        self.0.retain(|one| one.is_of_day(hour));
        match self.0.last_mut().filter(|last| last.hour == hour) {
            Some(last) => last.bytes_per_second = last.bytes_per_second.max(bytes_per_second),
            None => self.0.push(HourlyPeak { hour, bytes_per_second }),
        }
        // A file may have said anything.
        let surplus = self.0.len().saturating_sub(HOURS);
        self.0.drain(..surplus);
    }

    /// The most that a CPU wrote within the day up to then, bytes per second; `None` where nothing is remembered.
    pub fn busiest(&self, now_s: u64) -> Option<u64> {
        let of_day = self.0.iter().filter(|one| one.is_of_day(now_s / 3_600));
        of_day.map(|one| one.bytes_per_second).max()
    }
}

impl HourlyPeak {
    /// Whether it belongs to the day that ends with this hour.
    const fn is_of_day(&self, hour: u64) -> bool {
        self.hour <= hour && self.hour.saturating_add(HOURS as u64) > hour
    }
}

/// Measures how fast rings fill.
#[derive(Clone, Debug)]
pub struct Meter {
    began_ns: u64,
    /// Events of each CPU by then.
    events: Vec<u64>,
}

impl Meter {
    /// Begins when the CPUs had written so many events.
    pub fn new(now_ns: u64, events: Vec<u64>) -> Self {
        Self { began_ns: now_ns, events }
    }

    /// What the busiest CPU has written since it began, bytes per second.
    pub fn rate(&self, now_ns: u64, events: &[u64]) -> u64 {
        let grown =
            events.iter().zip(&self.events).map(|(now, before)| now.saturating_sub(*before));
        let bytes = u128::from(grown.max().unwrap_or(0)) * size_of::<StoredEvent>() as u128;
        let ns = u128::from(now_ns.saturating_sub(self.began_ns).max(1));
        u64::try_from(bytes * 1_000_000_000 / ns).unwrap_or(u64::MAX)
    }

    /// The same of a window that is over, after which the next one begins.
    pub fn window(&mut self, now_ns: u64, events: impl FnOnce() -> Vec<u64>) -> Option<u64> {
        if now_ns.saturating_sub(self.began_ns) < WINDOW_NS {
            return None;
        }
        let events = events();
        let rate = self.rate(now_ns, &events);
        *self = Self::new(now_ns, events);
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_calm_host_gets_the_usual_size_and_a_busy_one_what_it_needs() {
        assert_eq!(needed_bytes(None, 10), UNKNOWN_BYTES);
        assert_eq!(needed_bytes(Some(0), 10), USUAL_BYTES);
        assert_eq!(needed_bytes(Some(104_000), 10), USUAL_BYTES);
        assert_eq!(needed_bytes(Some(105_000), 10), 2 << 20);
        // 200,000 events a second.
        assert_eq!(needed_bytes(Some(6_400_000), 10), 64 << 20);
        assert_eq!(needed_bytes(Some(u64::MAX), 3_600), 1 << 63);
    }

    #[test]
    fn the_busiest_window_of_a_day_counts() {
        let mut demand = Demand::default();
        assert_eq!(demand.busiest(0), None);
        let at = |hours: u64| 1_800_000_000 + hours * 3_600;
        for (hour, rate, busiest) in [
            (0, 50, 50),
            (0, 900, 900),
            (0, 20, 900),
            (5, 300, 900),
            (23, 1, 900),
            (24, 2, 300),
            (40, 3, 3),
        ] {
            demand.note(at(hour), rate);
            assert_eq!(demand.busiest(at(hour)), Some(busiest), "{hour}");
        }
        // A clock that was set back.
        demand.note(at(0), 7);
        assert_eq!(demand.busiest(at(0)), Some(7));
        // Nothing was noted since.
        assert_eq!((demand.busiest(at(23)), demand.busiest(at(24))), (Some(7), None));
        let text = serde_json::to_string(&demand).unwrap();
        assert_eq!(serde_json::from_str::<Demand>(&text).unwrap(), demand);
    }

    #[test]
    fn windows_have_the_rate_of_the_cpu_that_fills_first() {
        let mut meter = Meter::new(SECOND, vec![1_000, 0, 5]);
        assert_eq!(meter.rate(3 * SECOND, &[1_100, 20, 5]), 50 * 32);
        assert_eq!(meter.window(10 * SECOND, || unreachable!("it is not over")), None);
        assert_eq!(meter.window(11 * SECOND, || vec![2_000, 500, 5]), Some(100 * 32));
        assert_eq!(meter.window(31 * SECOND, || vec![2_000, 500, 45]), Some(2 * 32));
    }

    proptest! {
        #[test]
        fn what_is_needed_holds_the_seconds_and_less_than_twice_as_many(
            rate in any::<u32>(), seconds in 1..3_600_u64,
        ) {
            let (bytes, wanted) = (needed_bytes(Some(rate.into()), seconds), u64::from(rate) * seconds);
            prop_assert!(bytes >= wanted && bytes.is_power_of_two());
            prop_assert!(bytes == USUAL_BYTES || bytes < 2 * wanted);
        }

        #[test]
        fn what_is_remembered_is_bounded(notes in proptest::collection::vec(any::<(u64, u64)>(), 0..200)) {
            let hours = notes.iter().map(|(hour, rate)| HourlyPeak { hour: *hour, bytes_per_second: *rate });
            let mut demand = Demand(hours.collect());
            for (at, rate) in notes {
                demand.note(at, rate);
                prop_assert!(demand.0.len() <= HOURS && demand.busiest(at) >= Some(rate));
            }
        }
    }
}

//! PURE: how large the flight recorder has to be, from how fast the busiest CPU fills its ring. All rings have one size:
//! the programs find their places by arithmetic alone.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use noise_common::store::StoredEvent;

/// Memory for each CPU that no host has less than where none is configured: calm ones become busy.
pub const USUAL_BYTES: u64 = 1 << 20;
/// As [`USUAL_BYTES`], where it is not known how busy the host gets: two seconds of 130,000 events a second. An
/// operator who starts noised because the host is slow needs these two seconds.
const UNKNOWN_BYTES: u64 = 8 << 20;
/// Length of the windows over which filling is measured, ns.
const WINDOW_NS: u64 = 10_000_000_000;
/// Days whose busiest windows are remembered. A weekly or monthly job is one of them.
const DAYS: usize = 35;
/// Days until what was remembered counts half; and days that have to be known before a calm host gets less than
/// [`UNKNOWN_BYTES`].
const WEEK: u64 = 7;
const HOURS_OF_DAY: u64 = 24;

/// What the busiest CPU wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakRate {
    pub bytes_per_second: u64,
    /// Of how many days that is known: a calm day does not show how busy the host gets.
    pub days: usize,
}

impl PeakRate {
    /// One that was just measured.
    pub const fn measured(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, days: 0 }
    }
}

/// Bytes for each CPU that hold as many seconds at that rate, where it is known.
pub fn needed_bytes(peak: Option<PeakRate>, seconds: u64) -> u64 {
    let Some(peak) = peak else { return UNKNOWN_BYTES };
    let least = if peak.days as u64 >= WEEK { USUAL_BYTES } else { UNKNOWN_BYTES };
    let bytes = peak.bytes_per_second.saturating_mul(seconds).max(least);
    bytes.checked_next_power_of_two().unwrap_or(1 << 63)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct DailyPeak {
    /// Hours since 1970, of one of its hours.
    hour: u64,
    /// What the busiest CPU wrote.
    bytes_per_second: u64,
}

/// The busiest windows of the last days.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Demand(Vec<DailyPeak>);

impl Demand {
    /// Takes what the busiest CPU wrote in a window that ended so many seconds after 1970.
    pub fn note(&mut self, now_s: u64, bytes_per_second: u64) {
        let hour = now_s / 3_600;
        self.0.retain(|one| one.days_before(hour).is_some());
        self.0.push(DailyPeak { hour, bytes_per_second });
        // A file may have said anything, and that of an older noised has more of a day.
        self.0.sort_by_key(|one| (one.day(), Reverse(one.bytes_per_second)));
        self.0.dedup_by_key(|one| one.day());
    }

    /// The most that a CPU wrote in the days up to then, where each week that has passed since counts half; `None` where nothing
    /// is remembered.
    pub fn busiest(&self, now_s: u64) -> Option<PeakRate> {
        let hour = now_s / 3_600;
        let rate = |one: &DailyPeak| {
            let weeks = one.days_before(hour)? / WEEK;
            Some(one.bytes_per_second >> weeks)
        };
        let bytes_per_second = self.0.iter().filter_map(rate).max()?;
        let remembered = self.0.iter().filter(|one| one.days_before(hour).is_some());
        let days: BTreeSet<u64> = remembered.map(DailyPeak::day).collect();
        Some(PeakRate { bytes_per_second, days: days.len() })
    }
}

impl DailyPeak {
    const fn day(&self) -> u64 {
        self.hour / HOURS_OF_DAY
    }

    /// How many days ago it was, where it is remembered.
    fn days_before(&self, hour: u64) -> Option<u64> {
        let days = (hour / HOURS_OF_DAY).checked_sub(self.day())?;
        (days < DAYS as u64).then_some(days)
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

    fn known(bytes_per_second: u64, days: usize) -> Option<PeakRate> {
        Some(PeakRate { bytes_per_second, days })
    }

    #[test]
    fn a_calm_host_gets_the_usual_size_and_a_busy_one_what_it_needs() {
        let needed = |rate, seconds| needed_bytes(known(rate, 7), seconds);
        assert_eq!(needed_bytes(None, 10), UNKNOWN_BYTES);
        assert_eq!(needed(0, 10), USUAL_BYTES);
        assert_eq!(needed(104_000, 10), USUAL_BYTES);
        assert_eq!(needed(105_000, 10), 2 << 20);
        // 200,000 events a second.
        assert_eq!(needed(6_400_000, 10), 64 << 20);
        assert_eq!(needed(u64::MAX, 3_600), 1 << 63);
        // Of few days it is not known how busy it gets.
        assert_eq!(needed_bytes(known(104_000, 6), 10), UNKNOWN_BYTES);
        assert_eq!(needed_bytes(Some(PeakRate::measured(6_400_000)), 10), 64 << 20);
    }

    #[test]
    fn the_busiest_window_of_the_last_days_counts() {
        let mut demand = Demand::default();
        assert_eq!(demand.busiest(0), None);
        let at = |days: u64| 1_800_000_000 / 86_400 * 86_400 + days * 86_400;
        for (day, rate, busiest) in [
            (0, 50, (50, 1)),
            (0, 900, (900, 1)),
            (0, 20, (900, 1)),
            // A quiet day, and a quiet week.
            (1, 1, (900, 2)),
            (6, 300, (900, 3)),
            (7, 1, (450, 4)),
            (14, 1, (225, 5)),
            (20, 2, (225, 6)),
            (34, 2, (56, 7)),
            (35, 2, (18, 7)),
            (300, 3, (3, 1)),
        ] {
            demand.note(at(day) + 3_600, rate);
            assert_eq!(demand.busiest(at(day)), known(busiest.0, busiest.1), "{day}");
        }
        // A clock that was set back.
        demand.note(at(0), 7);
        assert_eq!(demand.busiest(at(0)), known(7, 1));
        // Nothing was noted since.
        assert_eq!((demand.busiest(at(6)), demand.busiest(at(35))), (known(7, 1), None));
        let text = serde_json::to_string(&demand).unwrap();
        assert_eq!(serde_json::from_str::<Demand>(&text).unwrap(), demand);
        // An older noised wrote each hour of a day.
        let hour = at(0) / 3_600;
        let older: String = (0..24)
            .map(|one| format!(r#"{{"hour":{},"bytes_per_second":{one}}},"#, hour + one))
            .collect();
        let mut older: Demand =
            serde_json::from_str(&format!("[{}]", older.trim_end_matches(','))).unwrap();
        assert_eq!(older.busiest(at(1)), known(23, 1));
        older.note(at(1), 5);
        assert_eq!((older.busiest(at(1)), older.0.len()), (known(23, 2), 2));
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
            let (bytes, wanted) = (needed_bytes(known(rate.into(), 7), seconds), u64::from(rate) * seconds);
            prop_assert!(bytes >= wanted && bytes.is_power_of_two());
            prop_assert!(bytes == USUAL_BYTES || bytes < 2 * wanted);
        }

        #[test]
        fn what_is_remembered_is_bounded(notes in proptest::collection::vec(any::<(u64, u64)>(), 0..200)) {
            let hours = notes.iter().map(|(hour, rate)| DailyPeak { hour: *hour, bytes_per_second: *rate });
            let mut demand = Demand(hours.collect());
            for (at, rate) in notes {
                demand.note(at, rate);
                let busiest = demand.busiest(at).map(|peak| peak.bytes_per_second);
                prop_assert!(demand.0.len() <= DAYS && busiest >= Some(rate));
            }
        }
    }
}

//! What the analysis is fed with: one slice of time of one signal of one subject.

use noise_common::hist::upper_bound_ns;
use noise_model::Histogram;

use super::culprits::ChargeSums;

/// More events than any host sees in one bucket of one window; sums of such counts do not overflow.
const MOST_EVENTS: u64 = 1 << 40;

/// Delays that ended within one slice of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Begin, ns on the clock that all windows are on.
    pub start_ns: u64,
    /// End, ns on the same clock.
    pub end_ns: u64,
    pub delays: Histogram,
}

impl Window {
    /// Whether it can have been measured: time advances, and the exact sum is one that the counts by bucket allow.
    ///
    /// Differences across a reset of the counters, and readings that caught a histogram between
    /// two of its fields, are found by that. Such a window is better left out than believed.
    pub fn is_plausible(&self) -> bool {
        let (mut least, mut most) = (0u128, Some(0u128));
        for (bucket, count) in self.delays.buckets() {
            let lower_ns = bucket.checked_sub(1).and_then(upper_bound_ns).unwrap_or(0);
            least += u128::from(count) * u128::from(lower_ns);
            most = most
                .zip(upper_bound_ns(bucket))
                .map(|(most, upper_ns)| most + u128::from(count) * u128::from(upper_ns));
        }
        let sum = u128::from(self.delays.sum_ns);
        let few = self.delays.buckets().all(|(_, count)| count <= MOST_EVENTS);
        self.start_ns < self.end_ns && few && least <= sum && most.is_none_or(|most| sum <= most)
    }

    /// Time lost, seconds per second.
    pub(super) fn lost(&self) -> f64 {
        let length_ns = self.end_ns.saturating_sub(self.start_ns).max(1);
        self.delays.sum_ns as f64 / length_ns as f64
    }

    pub fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }
}

/// A window as it is kept while it is recent.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub window: Window,
    pub charged: ChargeSums,
    /// Of what is taken: the part of its time that the CPU lost which lost most, 0 to 1. `None` of delays.
    pub most_taken: Option<f64>,
}

impl Slice {
    pub fn new(window: &Window, charged: ChargeSums) -> Self {
        Self { window: window.clone(), charged, most_taken: None }
    }

    pub fn empty(start_ns: u64, end_ns: u64) -> Self {
        let window = Window { start_ns, end_ns, delays: Histogram::default() };
        Self { window, charged: ChargeSums::default(), most_taken: None }
    }

    pub fn length_ns(&self) -> u64 {
        self.window.end_ns.saturating_sub(self.window.start_ns)
    }

    /// Mean delay, ns; unknown where nothing happened.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.window.delays.count();
        (count > 0).then(|| self.window.delays.sum_ns as f64 / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    fn window(delays: Histogram) -> Window {
        Window { start_ns: 5, end_ns: 10, delays }
    }

    #[test]
    fn a_sum_that_the_counts_do_not_allow_is_not_believed() {
        let mut delays = Histogram::of(&[300, 9000]);
        assert!(window(delays.clone()).is_plausible());
        delays.sum_ns += 1 << 20;
        assert!(!window(delays.clone()).is_plausible());
        delays.sum_ns = 0;
        assert!(!window(delays).is_plausible());
        let countless = Histogram::new(1, [(0, u64::MAX)]);
        assert!(!window(countless).is_plausible());
        let unbounded = Histogram::of(&[1 << 40]);
        assert!(window(unbounded).is_plausible());
        let mut nothing = Histogram::default();
        assert!(window(nothing.clone()).is_plausible());
        nothing.sum_ns = 1;
        assert!(!window(nothing).is_plausible());
    }

    #[test]
    fn slices_keep_all() {
        let delays = Histogram::of(&[1, 300, 300, 9000, 1 << 40]);
        let slice: Slice = Slice::new(&window(delays.clone()), ChargeSums::default());
        assert_eq!((slice.window.delays.count(), slice.length_ns()), (5, 5));
        assert_eq!(slice.window.delays, delays);
        assert_eq!(Slice::empty(5, 10).mean_ns(), None);
    }

    proptest! {
        #[test]
        fn what_was_measured_is_plausible(values in proptest::collection::vec(any::<u32>(), 0..50)) {
            let values: Vec<u64> = values.into_iter().map(u64::from).collect();
            prop_assert!(window(Histogram::of(&values)).is_plausible());
        }
    }
}

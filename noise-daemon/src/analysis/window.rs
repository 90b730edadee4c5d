//! What the analysis is fed with: one slice of time of one signal of one subject.

use noise_common::charge::Cause;
use noise_common::hist::{BUCKETS, upper_bound_ns};

use super::culprits::Ledger;
use crate::model::Totals;

/// More events than any host sees in one bucket of one window; sums of such counts do not overflow.
const MOST_EVENTS: u64 = 1 << 40;

/// Delays that ended within one slice of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Begin, ns on the clock that all windows are on.
    pub start_ns: u64,
    /// End, ns on the same clock.
    pub end_ns: u64,
    /// The delays.
    pub delays: Totals,
}

impl Window {
    /// The window between two readings of the same histogram.
    ///
    /// `None` where time did not advance or a total went back: the counters began anew in between,
    /// and what happened since is not known.
    pub fn between(earlier: (u64, &Totals), later: (u64, &Totals)) -> Option<Self> {
        let ((start_ns, before), (end_ns, after)) = (earlier, later);
        let grew = before.sum_ns <= after.sum_ns
            && before.buckets.iter().zip(&after.buckets).all(|(old, new)| old <= new);
        (start_ns < end_ns && grew).then(|| Self { start_ns, end_ns, delays: after.since(before) })
    }

    /// Whether it can have been measured: time advances, and the exact sum is one that the counts
    /// by bucket allow.
    ///
    /// Differences across a reset of the counters, and readings that caught a histogram between
    /// two of its fields, are told by that. Such a window is better left out than believed.
    pub fn is_plausible(&self) -> bool {
        let (mut least, mut most) = (0u128, Some(0u128));
        let mut lower_ns = 0;
        for (bucket, count) in self.delays.buckets.iter().enumerate() {
            let upper_ns = upper_bound_ns(bucket);
            if *count > 0 {
                least += u128::from(*count) * u128::from(lower_ns);
                most = most
                    .zip(upper_ns)
                    .map(|(most, upper_ns)| most + u128::from(*count) * u128::from(upper_ns));
            }
            lower_ns = upper_ns.unwrap_or(lower_ns);
        }
        let sum = u128::from(self.delays.sum_ns);
        let few = self.delays.buckets.iter().all(|count| *count <= MOST_EVENTS);
        self.start_ns < self.end_ns && few && least <= sum && most.is_none_or(|most| sum <= most)
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.delays.buckets.iter().all(|count| *count == 0)
    }
}

/// Part of the delays of a window, charged to who caused it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Charge<C> {
    /// Who.
    pub culprit: C,
    /// How.
    pub cause: Cause,
    /// How much, ns.
    pub charged_ns: u64,
}

/// A window as it is kept while it is recent: without the empty buckets.
#[derive(Clone, Debug)]
pub(super) struct Slice<C> {
    pub start_ns: u64,
    pub end_ns: u64,
    pub count: u64,
    pub sum_ns: u64,
    pub charged: Ledger<C>,
    buckets: Box<[(u8, u64)]>,
}

/// Bucket numbers are kept in a byte.
const _: () = assert!(BUCKETS <= 1 << u8::BITS);

impl<C: Clone + Ord> Slice<C> {
    pub fn new(window: &Window, charged: Ledger<C>) -> Self {
        let buckets: Box<[_]> =
            (0..=u8::MAX).zip(window.delays.buckets).filter(|(_, count)| *count > 0).collect();
        Self {
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            count: buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)),
            sum_ns: window.delays.sum_ns,
            charged,
            buckets,
        }
    }

    pub fn empty(start_ns: u64, end_ns: u64) -> Self {
        Self {
            start_ns,
            end_ns,
            count: 0,
            sum_ns: 0,
            charged: Ledger::default(),
            buckets: Box::default(),
        }
    }

    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Mean delay, ns; unknown where nothing happened.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    pub fn add_to(&self, totals: &mut Totals) {
        for (bucket, count) in &self.buckets {
            if let Some(own) = totals.buckets.get_mut(usize::from(*bucket)) {
                *own = own.saturating_add(*count);
            }
        }
        totals.sum_ns = totals.sum_ns.saturating_add(self.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::hist::bucket_of;
    use proptest::prelude::{any, prop_assert, proptest};

    fn totals(values: &[u64]) -> Totals {
        let mut totals = Totals::default();
        for value in values {
            totals.buckets[bucket_of(*value)] += 1;
            totals.sum_ns += value;
        }
        totals
    }

    fn window(delays: Totals) -> Window {
        Window { start_ns: 5, end_ns: 10, delays }
    }

    #[test]
    fn a_window_is_the_difference_of_two_readings() {
        let (before, after) = (totals(&[300]), totals(&[300, 9000]));
        let window = Window::between((5, &before), (10, &after)).unwrap();
        assert_eq!(window.delays, totals(&[9000]));
        assert!(window.is_plausible());
    }

    #[test]
    fn there_is_no_window_across_a_reset_or_against_time() {
        let (before, after) = (totals(&[300]), totals(&[9000]));
        assert_eq!(Window::between((5, &before), (10, &after)), None);
        assert_eq!(Window::between((5, &before), (10, &Totals::default())), None);
        assert_eq!(Window::between((10, &before), (10, &before)), None);
        assert_eq!(Window::between((11, &before), (10, &before)), None);
    }

    #[test]
    fn a_sum_that_the_counts_do_not_allow_is_not_believed() {
        let mut delays = totals(&[300, 9000]);
        assert!(window(delays.clone()).is_plausible());
        delays.sum_ns += 1 << 20;
        assert!(!window(delays.clone()).is_plausible());
        delays.sum_ns = 0;
        assert!(!window(delays).is_plausible());
        let mut countless = totals(&[1]);
        countless.buckets[0] = u64::MAX;
        assert!(!window(countless).is_plausible());
        let unbounded = totals(&[1 << 40]);
        assert!(window(unbounded).is_plausible());
        let mut nothing = totals(&[]);
        assert!(window(nothing.clone()).is_plausible());
        nothing.sum_ns = 1;
        assert!(!window(nothing).is_plausible());
    }

    #[test]
    fn slices_keep_all() {
        let delays = totals(&[1, 300, 300, 9000, 1 << 40]);
        let slice: Slice<u8> = Slice::new(&window(delays.clone()), Ledger::default());
        let mut sum = Totals::default();
        slice.add_to(&mut sum);
        assert_eq!(sum, delays);
        assert_eq!((slice.count, slice.length_ns()), (5, 5));
        assert_eq!(Slice::<u8>::empty(5, 10).mean_ns(), None);
    }

    proptest! {
        #[test]
        fn what_was_measured_is_plausible(values in proptest::collection::vec(any::<u32>(), 0..50)) {
            let values: Vec<u64> = values.into_iter().map(u64::from).collect();
            prop_assert!(window(totals(&values)).is_plausible());
        }
    }
}

//! What is usual for one signal of one subject, learnt from its calm windows.
//!
//! Mean, variance and the share of windows above the mean are those of the windows' mean delays,
//! each window with events counting once. They begin as plain averages (Welford's update) and
//! become exponentially weighted once the weight of a window has fallen to that of the half-life.
//! Rate and quantiles come from a histogram that is halved once per half-life. Windows without
//! events have no mean; they count for the rate alone.

use noise_model::Histogram;

use super::level::Level;
use super::window::Slice;

/// Least standard deviation, as part of the mean: a few calm windows may happen to be alike.
const LEAST_DEVIATION: f64 = 0.05;

/// Standard errors that the usual share is raised by before it is held against: it is an estimate,
/// and so is the mean that it refers to.
const SHARE_ERRORS: f64 = 3.0;

/// More than anything of a file can have been counted to.
pub(super) const MOST: u64 = 1 << 56;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Baseline {
    half_life: u64,
    learnt: u64,
    mean_ns: f64,
    variance: f64,
    above: f64,
    #[serde(with = "written")]
    histogram: Histogram,
    covered_ns: u64,
    until_halved: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adopted: Option<AdoptedLevel>,
}

/// A level that a disturbance came to, which lasted so long that it was adopted.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct AdoptedLevel {
    since_ns: u64,
    /// Half way to what was usual before: once the mean is lower, the disturbance is over.
    least_mean_ns: f64,
}

impl Baseline {
    /// One that knows nothing. After `half_life` further windows with events, what a window taught weighs half.
    pub fn new(half_life: u64) -> Self {
        Self {
            half_life: half_life.max(1),
            learnt: 0,
            mean_ns: 0.0,
            variance: 0.0,
            above: 0.0,
            histogram: Histogram::default(),
            covered_ns: 0,
            until_halved: half_life.max(1),
            adopted: None,
        }
    }

    /// Whether what was read from a file can have been learnt.
    pub(super) fn is_plausible(&self) -> bool {
        let positive = |value: f64| value.is_finite() && value >= 0.0;
        // Far from where sums overflow.
        let few = |count: u64| count <= MOST;
        positive(self.mean_ns)
            && positive(self.variance)
            && (0.0..=1.0).contains(&self.above)
            && few(self.learnt)
            && few(self.half_life)
            && (1..=self.half_life).contains(&self.until_halved)
            && (self.learnt > 0 || self.histogram.is_empty())
            && self.adopted.is_none_or(|adopted| positive(adopted.least_mean_ns))
            && self.histogram.buckets().all(|(_, count)| few(count))
    }

    /// The same with another half-life.
    pub(super) fn with_half_life(self, half_life: u64) -> Self {
        let half_life = half_life.max(1);
        Self { half_life, until_halved: self.until_halved.min(half_life), ..self }
    }

    /// Windows with events after which what a window taught weighs half.
    pub(super) fn half_life(&self) -> u64 {
        self.half_life
    }

    pub(super) fn learn(&mut self, slice: &Slice) {
        let Some(mean_ns) = slice.mean_ns() else {
            self.learn_quiet(slice.length_ns());
            return;
        };
        self.learnt += 1;
        let weight = self.weight();
        let distance = mean_ns - self.mean_ns;
        if self.learnt == 1 {
            // There is no mean yet that it could lie above; half is as good as any.
            self.above = 0.5;
        } else {
            let above = if distance > 0.0 { 1.0 } else { 0.0 };
            self.above += weight * (above - self.above);
        }
        self.variance = (1.0 - weight) * (self.variance + weight * distance * distance);
        self.mean_ns += weight * distance;
        self.histogram.add(&slice.window.delays);
        self.learn_quiet(slice.length_ns());
        self.until_halved -= 1;
        if self.until_halved == 0 {
            self.halve();
        }
        self.adopted = self.adopted.filter(|adopted| self.mean_ns >= adopted.least_mean_ns);
    }

    /// Says that all that it learnt is of a disturbance that began then, ns on the clock of the windows, where means were
    /// shorter than the given one before.
    pub(super) fn adopt(&mut self, since_ns: u64, least_mean_ns: f64) {
        self.adopted = Some(AdoptedLevel { since_ns, least_mean_ns });
    }

    /// Since when it is so, ns on the clock of the windows, where that was a disturbance before it was adopted.
    pub fn adopted_since_ns(&self) -> Option<u64> {
        self.adopted.map(|adopted| adopted.since_ns)
    }

    /// Time in which nothing happened.
    pub(super) fn learn_quiet(&mut self, length_ns: u64) {
        self.covered_ns = self.covered_ns.saturating_add(length_ns);
    }

    fn weight(&self) -> f64 {
        let lasting = 1.0 - (-1.0 / self.half_life as f64).exp2();
        (1.0 / self.learnt as f64).max(lasting)
    }

    fn halve(&mut self) {
        self.until_halved = self.half_life;
        self.covered_ns /= 2;
        self.histogram = self.histogram.halved();
    }

    /// Windows with events that it has learnt from.
    pub fn learnt(&self) -> u64 {
        self.learnt
    }

    /// Mean of the windows' mean delays, ns; 0 where nothing was learnt.
    pub fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// Standard deviation of the windows' mean delays, ns, at least a twentieth of their mean.
    pub fn deviation_ns(&self) -> f64 {
        self.variance.max(0.0).sqrt().max(LEAST_DEVIATION * self.mean_ns)
    }

    /// Share of windows that lie above the mean, 0 to 1.
    pub fn share_above(&self) -> f64 {
        self.above
    }

    /// The largest share that what was learnt would still allow for, 0 to 1.
    pub(super) fn share_above_at_most(&self) -> f64 {
        // An exponentially weighted average knows as much as 2 / weight - 1 windows.
        let windows = if self.learnt == 0 { 0.0 } else { 2.0 / self.weight() - 1.0 };
        let windows = windows.min(self.learnt as f64);
        // With one more of each kind (Laplace's rule of succession), a share of 0 has an error too.
        let share = (self.above * windows + 1.0) / (windows + 2.0);
        let error = (share * (1.0 - share) / (windows + 2.0)).sqrt();
        (share + SHARE_ERRORS * error).min(1.0)
    }

    /// Rate and quantiles as learnt.
    pub fn level(&self) -> Level {
        Level::new(&self.histogram, self.covered_ns)
    }
}

mod written {
    //! A histogram as files have it that outlive the daemon. A bucket that does not exist is refused
    //! here: what is recalled is believed.

    use noise_common::hist::BUCKETS;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use noise_model::Histogram;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Written {
        sum_ns: u64,
        buckets: Vec<(usize, u64)>,
    }

    pub fn serialize<S: Serializer>(own: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
        Written { sum_ns: own.sum_ns, buckets: own.buckets().collect() }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Histogram, D::Error> {
        let Written { sum_ns, buckets } = Written::deserialize(reader)?;
        match buckets.iter().find(|(bucket, _)| *bucket >= BUCKETS) {
            Some((bucket, _)) => Err(D::Error::custom(format!("there is no bucket {bucket}"))),
            None => Ok(Histogram::new(sum_ns, buckets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::culprits::ChargeSums;
    use crate::properties::window;
    use proptest::prelude::{prop_assert, proptest};

    fn slice(means: &[u64]) -> Slice {
        Slice::new(&window(0, means), ChargeSums::default())
    }

    fn learnt(half_life: u64, means: impl IntoIterator<Item = u64>) -> Baseline {
        let mut baseline = Baseline::new(half_life);
        for mean in means {
            baseline.learn(&slice(&[mean]));
        }
        baseline
    }

    #[test]
    fn before_the_half_life_it_is_the_plain_average() {
        let baseline = learnt(1000, [1000, 2000, 3000, 6000]);
        assert!((baseline.mean_ns() - 3000.0).abs() < 1e-6);
        assert!((baseline.deviation_ns() - 3_500_000f64.sqrt()).abs() < 1e-6);
        // Half for the first; 2000, 3000 and 6000 each lay above the mean so far.
        assert!((baseline.share_above() - 3.5 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_old_weighs_half_after_the_half_life() {
        let mut baseline = learnt(200, std::iter::repeat_n(1000, 5000));
        for _ in 0..200 {
            baseline.learn(&slice(&[3000]));
        }
        assert!((baseline.mean_ns() - 2000.0).abs() < 1.0, "{}", baseline.mean_ns());
    }

    #[test]
    fn it_survives_being_written() {
        let mut baseline = learnt(100, (1..80).map(|index| index * 1000));
        baseline.adopt(7, 1000.0);
        let text = serde_json::to_string(&baseline).unwrap();
        let read: Baseline = serde_json::from_str(&text).unwrap();
        assert_eq!(read, baseline);
        assert!(read.is_plausible());
        assert!(read.with_half_life(7).is_plausible());
        for (old, new) in [
            ("\"until_halved\":21", "\"until_halved\":0"),
            ("\"mean_ns\":", "\"mean_ns\":-"),
            ("\"learnt\":79", "\"learnt\":18446744073709551615"),
            ("\"learnt\":79", "\"learnt\":0"),
            ("\"half_life\":100", "\"half_life\":18446744073709551615"),
            ("\"buckets\":[", "\"buckets\":[[113,18446744073709551615],"),
            ("\"since_ns\":7,\"least_mean_ns\":", "\"since_ns\":7,\"least_mean_ns\":-"),
        ] {
            assert!(text.contains(old), "{text}");
            let wrong: Baseline = serde_json::from_str(&text.replace(old, new)).unwrap();
            assert!(!wrong.is_plausible());
        }
        let wrong = text.replace("\"buckets\":[", "\"buckets\":[[114,1],");
        assert!(serde_json::from_str::<Baseline>(&wrong).is_err());
    }

    #[test]
    fn windows_without_events_count_for_the_rate_alone() {
        let mut baseline = learnt(1000, [1000, 1000]);
        assert_eq!(baseline.level().rate, 2.0);
        baseline.learn(&slice(&[]));
        baseline.learn(&slice(&[]));
        assert_eq!((baseline.learnt(), baseline.mean_ns()), (2, 1000.0));
        assert_eq!(baseline.level().rate, 1.0);
    }

    #[test]
    fn nothing_learnt_is_finite() {
        let baseline = Baseline::new(0);
        assert_eq!((baseline.mean_ns(), baseline.deviation_ns()), (0.0, 0.0));
        assert!(baseline.share_above_at_most() <= 1.0);
        assert_eq!(baseline.level().p50_ns, None);
    }

    #[test]
    fn alike_windows_have_a_deviation() {
        assert_eq!(learnt(10, [1000; 50]).deviation_ns(), 50.0);
    }

    proptest! {
        #[test]
        fn it_is_stable_far_from_zero(values in proptest::collection::vec(0u64..1000, 2..300)) {
            let offset = 60_000_000_000;
            let baseline = learnt(100, values.iter().map(|value| value + offset));
            prop_assert!(baseline.mean_ns() >= offset as f64 - 1.0);
            prop_assert!(baseline.mean_ns() <= (offset + 1000) as f64 + 1.0);
            prop_assert!(baseline.variance >= 0.0 && baseline.variance <= 1001.0 * 1001.0);
            prop_assert!((0.0..=1.0).contains(&baseline.share_above()));
        }
    }
}

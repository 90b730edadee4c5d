//! How a signal behaved over some time: quantiles, mean and rates.

use noise_model::Histogram;

/// How a signal behaved over some time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// Median delay, ns: the upper bound of its bucket. `None` where nothing happened or it is
    /// beyond the last bound.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns, as the median.
    pub p99_ns: Option<u64>,
    /// Mean delay, ns, exact; `None` where nothing happened.
    pub mean_ns: Option<f64>,
    /// Events per second.
    pub rate: f64,
    /// Seconds of delay per second.
    pub lost: f64,
}

impl Level {
    pub(super) fn new(delays: &Histogram, length_ns: u64) -> Self {
        let count = delays.count();
        let per_second = |value: f64| match length_ns {
            0 => 0.0,
            _ => value / (length_ns as f64 / 1e9),
        };
        Self {
            p50_ns: delays.quantile_ns(0.5),
            p99_ns: delays.quantile_ns(0.99),
            mean_ns: (count > 0).then(|| delays.sum_ns as f64 / count as f64),
            rate: per_second(count as f64),
            lost: per_second(delays.sum_ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_of_nothing_knows_no_delay() {
        let level = Level::new(&Histogram::default(), 1_000_000_000);
        assert_eq!((level.p50_ns, level.p99_ns, level.mean_ns), (None, None, None));
        assert_eq!((level.rate, level.lost), (0.0, 0.0));
    }
}

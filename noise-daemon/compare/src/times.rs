//! Times of both sides in one state.

use serde::Serialize;

/// Times of both sets in one state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    pub state: &'static str,
    /// The mean of the normal executions, nanoseconds.
    pub normal_mean_ns: f64,
    /// Their standard deviation, nanoseconds; 0 of one execution.
    pub normal_deviation_ns: f64,
    /// The mean of the sample, nanoseconds.
    pub sample_mean_ns: f64,
    /// The part of the normal executions that is above their mean.
    pub normal_share: f64,
    /// The part of the sample that is above the normal mean.
    pub sample_share: f64,
    /// By how many standard deviations the sample's mean is above the normal one: those of executions within a side, or
    /// of units where these vary more. Infinite where nothing varies, which is null in JSON.
    pub evidence: f64,
    /// The largest difference between two units of one side, nanoseconds; none where a side has one alone, as the next.
    pub within_ns: Option<f64>,
    /// How often a random division of all units into two such sides gives the sample as much.
    pub chance: Option<f64>,
    /// How often drift of the size that is seen within the sides does.
    pub drift_chance: Option<f64>,
}

impl Times {
    /// How much longer the sample is, nanoseconds.
    pub fn more_ns(&self) -> f64 {
        self.sample_mean_ns - self.normal_mean_ns
    }
}

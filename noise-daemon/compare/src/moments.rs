//! Means, and how much values differ from them.

/// The largest of so many values is left out of [`Moments::trimmed`], and of how many at least.
const TRIMMED: usize = 20;
const LEAST_TRIMMED: usize = 10;

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub mean: f64,
    /// The standard deviation, by n - 1; 0 of one value.
    pub deviation: f64,
}

impl Moments {
    /// Those of some values; zeros of none.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        let mean = values.clone().sum::<f64>() / count.max(1) as f64;
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        Self { mean, deviation: (squares / count.saturating_sub(1).max(1) as f64).sqrt() }
    }

    /// Those of some values without the largest ones: one of each twenty, rounded up, and none of fewer than ten. A few executions
    /// that were disturbed themselves do not hide what is wrong with another one.
    pub fn trimmed(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let left_out =
            if values.len() < LEAST_TRIMMED { 0 } else { values.len().div_ceil(TRIMMED) };
        values.truncate(values.len() - left_out);
        Self::of(values.into_iter())
    }
}

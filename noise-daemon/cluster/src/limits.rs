//! How much is clustered at most, so that time and memory have a bound.

/// How many dimensions there may be: principal components take time with their third power.
pub const MAX_DIMENSIONS: usize = 512;

/// How many numbers all points may have together: 128 MiB of them.
pub const MAX_VALUES: usize = 1 << 24;

/// How many different points there may be: time may grow with the square of their number.
pub const MAX_DISTINCT: usize = 100_000;

/// The largest magnitude of a number: distances stay finite even where they are rounded as scikit-learn does it.
pub const MAX_MAGNITUDE: f64 = 1e100;

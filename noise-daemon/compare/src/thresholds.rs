//! From when on a difference counts.

use serde::Serialize;

use crate::chance;
use crate::vectors::VECTOR_STATES;

/// The least [`Thresholds::chance`] that can be asked for: no test finds less than one permutation among all, and there are
/// two tests of each state.
pub const LEAST_CHANCE: f64 = (2 * VECTOR_STATES) as f64 / (chance::PERMUTATIONS + 1) as f64;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// Standard deviations above the mean.
    pub t1: f64,
    /// How many times the normal share.
    pub t2: f64,
    /// The guard: how often at most chance may make any rule of any state hold, from [`LEAST_CHANCE`] on, and drift flag
    /// any; 1 takes no account of either, so that nothing is flagged.
    pub chance: f64,
    /// The guard: the least growth of the mean, as a part of the mean normal execution; 0 turns this part of it off.
    pub least: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { t1: 1.5, t2: 2.0, chance: 0.01, least: 0.01 }
    }
}

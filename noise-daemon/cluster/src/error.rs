//! Why points cannot be clustered.

use thiserror::Error;

use super::limits::{MAX_DIMENSIONS, MAX_DISTINCT, MAX_MAGNITUDE, MAX_VALUES};

/// Why points cannot be clustered, or clusters not judged.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum ClusterError {
    /// Vectors of length 0.
    #[error("no numbers in the vectors to cluster; choose at least one state or feature")]
    NoDimensions,
    /// Longer vectors than are taken.
    #[error(
        "vectors too long to cluster: {0} numbers, where at most {MAX_DIMENSIONS} are taken; choose fewer states or features"
    )]
    TooManyDimensions(usize),
    /// The last vector is shorter than the others.
    #[error("the last vector is incomplete: {values} numbers in all, {dimensions} in each vector")]
    Ragged {
        /// How many numbers there are.
        values: usize,
        /// How many a vector has.
        dimensions: usize,
    },
    /// More numbers than are taken.
    #[error(
        "too many numbers to cluster: {0}, where at most {MAX_VALUES} are taken; choose fewer executions or fewer states"
    )]
    TooManyValues(usize),
    /// More different vectors than are taken.
    #[error(
        "too many different vectors to cluster: {0}, where at most {MAX_DISTINCT} are taken; choose fewer executions or fewer states"
    )]
    TooManyPoints(usize),
    /// NaN, infinite, or so large that squares of distances overflow.
    #[error(
        "number {} of vector {} is {value}; only finite numbers of at most {MAX_MAGNITUDE:e} can be clustered",
        .dimension + 1,
        .point + 1
    )]
    Value {
        /// Which vector, counted from 0.
        point: usize,
        /// Where in the vector, counted from 0.
        dimension: usize,
        value: f64,
    },
    /// Fewer points than make a dense region; none at all included.
    #[error(
        "too few vectors to cluster: {points}, where at least {min_points} are needed; record more executions, or lower the minimum"
    )]
    TooFewPoints {
        /// How many there are.
        points: usize,
        /// How many are needed.
        min_points: usize,
    },
    /// A single point would be a dense region.
    #[error("the minimum of points in a dense region is {0}; it must be 2 or more")]
    MinPoints(usize),
    /// Negative, or not a number.
    #[error("the largest distance between neighbours is {0}; it must be 0 or more")]
    MaxDistance(f64),
    /// A label is missing, or there is one too many.
    #[error("each vector needs one label; labels: {labels}, vectors: {points}")]
    Labels {
        /// How many there are.
        labels: usize,
        /// How many are needed.
        points: usize,
    },
    /// A silhouette is not defined.
    #[error(
        "a silhouette needs at least 2 clusters, and fewer clusters than vectors; clusters: {clusters}, vectors: {points}"
    )]
    Clusters {
        /// How many clusters there are.
        clusters: usize,
        /// How many vectors are in them.
        points: usize,
    },
}

//! Why points cannot be clustered.

use thiserror::Error;

use super::points::{MAX_DIMENSIONS, MAX_MAGNITUDE, MAX_VALUES};

/// Why points cannot be clustered, or clusters not judged.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum ClusterError {
    /// Vectors of length 0.
    #[error("vectors without numbers cannot be clustered: choose at least one state or feature")]
    NoDimensions,
    /// Longer vectors than are taken.
    #[error(
        "vectors of {0} numbers are too long; at most {MAX_DIMENSIONS} are taken: choose fewer"
    )]
    TooManyDimensions(usize),
    /// The last vector is shorter than the others.
    #[error("{values} numbers are no whole number of vectors with {dimensions} numbers each")]
    Ragged {
        /// How many numbers there are.
        values: usize,
        /// How many a vector has.
        dimensions: usize,
    },
    /// More numbers than are taken.
    #[error(
        "{0} numbers in all are too many; at most {MAX_VALUES} are taken: choose fewer executions or fewer states"
    )]
    TooManyValues(usize),
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
        /// The number.
        value: f64,
    },
    /// Fewer points than make a dense region; none at all included.
    #[error(
        "{points} vectors are too few to be clustered; {min_points} are needed: record more executions, or lower the minimum"
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
    #[error("{labels} labels do not fit {points} vectors; each vector needs one")]
    Labels {
        /// How many there are.
        labels: usize,
        /// How many are needed.
        points: usize,
    },
    /// A silhouette is not defined.
    #[error(
        "a silhouette needs at least 2 clusters, and fewer clusters than vectors; here are {clusters} of {points} vectors"
    )]
    Clusters {
        /// How many clusters there are.
        clusters: usize,
        /// How many vectors are in them.
        points: usize,
    },
}

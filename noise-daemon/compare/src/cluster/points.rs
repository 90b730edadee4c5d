//! Points in a space of several dimensions, and the distance between two: Euclidean.

use super::error::ClusterError;

/// How many dimensions there may be: principal components take time with their third power.
pub const MAX_DIMENSIONS: usize = 512;

/// How many numbers all points may have together: half a gigabyte of them.
pub const MAX_VALUES: usize = 1 << 26;

/// The largest magnitude of a number: distances stay finite even where they are rounded as scikit-learn does it.
pub const MAX_MAGNITUDE: f64 = 1e100;

/// Points of the same number of dimensions. There may be none.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    dimensions: usize,
    values: Vec<f64>,
}

impl Points {
    /// From the numbers of all points, one point after the other.
    ///
    /// # Errors
    /// Without dimensions, with more numbers than [`MAX_DIMENSIONS`] and [`MAX_VALUES`] allow, with a number that is
    /// not finite or beyond [`MAX_MAGNITUDE`], and where the last point is incomplete.
    pub fn new(dimensions: usize, mut values: Vec<f64>) -> Result<Self, ClusterError> {
        match dimensions {
            0 => return Err(ClusterError::NoDimensions),
            1..=MAX_DIMENSIONS => {}
            _ => return Err(ClusterError::TooManyDimensions(dimensions)),
        }
        if values.len() > MAX_VALUES {
            return Err(ClusterError::TooManyValues(values.len()));
        }
        if !values.len().is_multiple_of(dimensions) {
            return Err(ClusterError::Ragged { values: values.len(), dimensions });
        }
        // Negated, so that it finds NaN too.
        let wrong = values.iter().enumerate().find(|(_, value)| !(value.abs() <= MAX_MAGNITUDE));
        if let Some((index, value)) = wrong {
            return Err(ClusterError::Value {
                point: index / dimensions,
                dimension: index % dimensions,
                value: *value,
            });
        }
        for value in &mut values {
            // Negative zeros become positive ones, so that equal points have equal bits.
            *value += 0.0;
        }
        Ok(Self { dimensions, values })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.dimensions
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many numbers each has.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// One after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> + Clone {
        self.values.chunks_exact(self.dimensions)
    }

    /// One of them; empty where there are not so many.
    pub fn point(&self, index: usize) -> &[f64] {
        let begin = index.saturating_mul(self.dimensions);
        self.values.get(begin..begin.saturating_add(self.dimensions)).unwrap_or_default()
    }
}

/// The square of the Euclidean distance. The order of the additions is part of what it says: equal distances have
/// equal bits, and scikit-learn's have the same.
pub fn squared_distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other) * (one - other)).sum()
}

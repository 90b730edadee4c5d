//! Points in a space of several dimensions.

use super::error::ClusterError;
use super::limits::{MAX_DIMENSIONS, MAX_MAGNITUDE, MAX_VALUES};

/// Points of the same number of dimensions. There may be none.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    dimensions: usize,
    values: Vec<f64>,
}

impl Points {
    /// From the numbers of all points, one point after the other.
    /// Errors: without dimensions, with more numbers than [`MAX_DIMENSIONS`] and [`MAX_VALUES`] allow, with a number
    /// that is not finite or beyond [`MAX_MAGNITUDE`], and where the last point is incomplete.
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
        let allowed = -MAX_MAGNITUDE..=MAX_MAGNITUDE;
        let wrong = values.iter().enumerate().find(|(_, value)| !allowed.contains(*value));
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

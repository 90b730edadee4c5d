//! Principal components: the directions in which points differ most, for pictures of many dimensions in two.
//!
//! They are the eigenvectors of the covariance of all dimensions, or of the products of all points where there are
//! fewer of these, by Jacobi's rotations. Deviations below a millionth of the largest count as none, and directions of
//! equal variance are any in their plane; a picture shows neither.

use super::points::Points;

/// What points look like from where they differ most.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// Of each point as many coordinates as were asked for, around the mean of all. Where there are no more directions
    /// in which points differ, they are 0.
    pub coordinates: Vec<Vec<f64>>,
    /// The share of each component in the variance of all dimensions; 0 where there is none.
    pub explained: Vec<f64>,
}

/// Of the largest variance: what is below it is rounding, and its direction means nothing.
const LEAST_SHARE: f64 = 1e-12;

/// Sweeps over all pairs of a matrix; about ten do.
const SWEEPS: usize = 64;

/// Finds so many components. Each points to where its largest number is positive, the first one of equals.
pub fn principal_components(points: &Points, count: usize) -> Components {
    let centred = Centred::new(points);
    let (variances, directions) = centred.directions(count);
    let all: f64 = centred.rows.iter().map(|value| value * value).sum();
    let share = |number: usize| match variances.get(number) {
        Some(variance) if all > 0.0 => variance / all,
        _ => 0.0,
    };
    let along = |row: &[f64], number: usize| {
        let direction = directions.get(number).map_or(&[][..], Vec::as_slice);
        product(row, direction) * centred.scale
    };
    Components {
        coordinates: centred
            .iter()
            .map(|row| (0..count).map(|number| along(row, number)).collect())
            .collect(),
        explained: (0..count).map(share).collect(),
    }
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>() + 0.0
}

/// Points around their mean.
struct Centred {
    dimensions: usize,
    /// Their largest number is 1, so that no square overflows; 0 where points are equal.
    rows: Vec<f64>,
    /// What they are to be multiplied with.
    scale: f64,
}

impl Centred {
    fn new(points: &Points) -> Self {
        let dimensions = points.dimensions();
        let mut means = vec![0.0; dimensions];
        for (index, point) in points.iter().enumerate() {
            for (mean, value) in means.iter_mut().zip(point) {
                // A dimension in which all are equal has that mean, and no variance by rounding.
                *mean += (value - *mean) / (index + 1) as f64;
            }
        }
        let mut rows: Vec<f64> = points
            .iter()
            .flat_map(|point| point.iter().zip(&means).map(|(value, mean)| value - mean))
            .collect();
        let scale = rows.iter().fold(0.0, |scale: f64, value| scale.max(value.abs()));
        if scale > 0.0 {
            for value in &mut rows {
                *value /= scale;
            }
        }
        Self { dimensions, rows, scale }
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.rows.chunks_exact(self.dimensions)
    }

    /// Sums of squares along the first directions, falling, and the directions.
    fn directions(&self, count: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
        let many = self.iter().len() >= self.dimensions;
        let mut matrix = if many { self.covariance() } else { self.products() };
        let mut vectors = matrix.rotate();
        let mut order: Vec<usize> = (0..matrix.size).collect();
        order.sort_by(|one, other| matrix.at(*other, *other).total_cmp(&matrix.at(*one, *one)));
        order.truncate(count);
        let largest = order.first().map_or(0.0, |number| matrix.at(*number, *number));
        order.retain(|number| matrix.at(*number, *number) > LEAST_SHARE * largest);
        let variances = order.iter().map(|number| matrix.at(*number, *number)).collect();
        let direction = |number: &usize| {
            let vector = std::mem::take(&mut vectors[*number]);
            directed(if many { vector } else { self.mixed(&vector) })
        };
        (variances, order.iter().map(direction).collect())
    }

    /// The products of all pairs of dimensions, summed over points.
    fn covariance(&self) -> Matrix {
        let mut matrix = Matrix::new(self.dimensions);
        for row in self.iter() {
            for (one, value) in row.iter().enumerate() {
                let sums = &mut matrix.values[one * matrix.size..(one + 1) * matrix.size];
                for (sum, other) in sums.iter_mut().zip(row) {
                    *sum += value * other;
                }
            }
        }
        matrix
    }

    /// The products of all pairs of points, summed over dimensions.
    fn products(&self) -> Matrix {
        let mut matrix = Matrix::new(self.iter().len());
        for (place, one) in self.iter().enumerate() {
            for (value, other) in matrix.values[place * matrix.size..].iter_mut().zip(self.iter()) {
                *value = product(one, other);
            }
        }
        matrix
    }

    /// The sum of all points, each so many times.
    fn mixed(&self, shares: &[f64]) -> Vec<f64> {
        let mut mixed = vec![0.0; self.dimensions];
        for (row, share) in self.iter().zip(shares) {
            for (sum, value) in mixed.iter_mut().zip(row) {
                *sum += share * value;
            }
        }
        mixed
    }
}

/// Of length 1, or 0, with its largest number positive.
fn directed(mut direction: Vec<f64>) -> Vec<f64> {
    let length = product(&direction, &direction).sqrt();
    let mut largest = 0.0_f64;
    for value in &direction {
        if value.abs() > largest.abs() {
            largest = *value;
        }
    }
    let divisor = length.copysign(largest);
    if length > 0.0 {
        for value in &mut direction {
            *value /= divisor;
        }
    }
    direction
}

struct Matrix {
    size: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn new(size: usize) -> Self {
        Self { size, values: vec![0.0; size * size] }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.size + column]
    }

    /// Rotates it until nothing is left beside the diagonal, which are its eigenvalues then; their eigenvectors.
    fn rotate(&mut self) -> Vec<Vec<f64>> {
        let unit =
            |one: usize| (0..self.size).map(|other| f64::from(u8::from(one == other))).collect();
        let mut vectors: Vec<Vec<f64>> = (0..self.size).map(unit).collect();
        for _ in 0..SWEEPS {
            let mut rotated = false;
            for one in 0..self.size {
                for other in one + 1..self.size {
                    let beside = self.at(one, other);
                    let (first, second) = (self.at(one, one), self.at(other, other));
                    if beside.abs() <= f64::EPSILON * (first * second).abs().sqrt() {
                        continue;
                    }
                    rotated = true;
                    // The smaller of the two angles that leave nothing there.
                    let ratio = (second - first) / (2.0 * beside);
                    let tangent = 1.0_f64.copysign(ratio) / (ratio.abs() + ratio.hypot(1.0));
                    let cosine = 1.0 / tangent.hypot(1.0);
                    let turn = (cosine, tangent * cosine);
                    self.turn(one, other, turn);
                    let (head, tail) = vectors.split_at_mut(other);
                    turned(&mut head[one], &mut tail[0], turn);
                }
            }
            if !rotated {
                break;
            }
        }
        vectors
    }

    fn turn(&mut self, one: usize, other: usize, turn: (f64, f64)) {
        let size = self.size;
        for row in self.values.chunks_exact_mut(size) {
            (row[one], row[other]) = turned_pair(row[one], row[other], turn);
        }
        let (head, tail) = self.values.split_at_mut(other * size);
        turned(&mut head[one * size..(one + 1) * size], &mut tail[..size], turn);
        self.values[one * size + other] = 0.0;
        self.values[other * size + one] = 0.0;
    }
}

fn turned(one: &mut [f64], other: &mut [f64], turn: (f64, f64)) {
    for (one, other) in one.iter_mut().zip(other) {
        (*one, *other) = turned_pair(*one, *other, turn);
    }
}

fn turned_pair(one: f64, other: f64, (cosine, sine): (f64, f64)) -> (f64, f64) {
    (cosine * one - sine * other, sine * one + cosine * other)
}

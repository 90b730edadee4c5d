//! Points in blocks, number by number rather than point by point, so that the processor computes several distances
//! at once. Each is added up in the same order as that of two points alone.

/// How many points a block has.
pub const WIDTH: usize = 16;

/// Points in blocks; what is missing in the last one is infinitely far away.
pub struct Blocks {
    dimensions: usize,
    /// Per block, for each dimension, that number of each of its points.
    columns: Vec<[f64; WIDTH]>,
}

impl Blocks {
    /// Of points with so many numbers, in their order.
    pub fn new<'a>(dimensions: usize, points: impl ExactSizeIterator<Item = &'a [f64]>) -> Self {
        let blocks = points.len().div_ceil(WIDTH);
        let mut columns = vec![[f64::INFINITY; WIDTH]; blocks * dimensions];
        for (index, point) in points.enumerate() {
            let block = columns.iter_mut().skip(index / WIDTH * dimensions);
            for (column, value) in block.zip(point) {
                column[index % WIDTH] = *value;
            }
        }
        Self { dimensions, columns }
    }

    /// The squares of the Euclidean distances of a block's points. The order of additions is part of what this says:
    /// equal distances have equal bits, and scikit-learn's have the same.
    pub fn squares(&self, block: usize, from: &[f64]) -> [f64; WIDTH] {
        let mut squares = [0.0; WIDTH];
        let columns = block * self.dimensions..(block + 1) * self.dimensions;
        for (column, from) in self.columns[columns].iter().zip(from) {
            for (square, value) in squares.iter_mut().zip(column) {
                let beside = from - value;
                *square += beside * beside;
            }
        }
        squares
    }
}

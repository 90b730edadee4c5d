//! A k-d tree over distinct points: how far away the nearest ones are, and which of those that are left is the nearest.
//!
//! It is exact to the last bit. A box's least distance is rounded as that of a point is, number by number, so it is
//! never above the distance of a point in the box, and a box is passed over only where no point in it can count.

use std::collections::BinaryHeap;

use super::blocks::{Blocks, WIDTH};
use super::distinct::Distinct;
use super::points::Points;

/// No point: all are taken.
const NONE: usize = usize::MAX;

/// A box around some distinct points: whole blocks of them, but for the last one. A box of one block has no smaller
/// boxes in it.
struct BoundingBox {
    begin: usize,
    /// The row after its last.
    end: usize,
    /// The two boxes within it.
    children: Option<[usize; 2]>,
    /// The box around it; its own number at the root.
    parent: usize,
    /// The first point in it that is left.
    first: usize,
}

pub struct Tree {
    dimensions: usize,
    nodes: Vec<BoundingBox>,
    /// Per node the least and then the largest number of each dimension.
    bounds: Vec<f64>,
    /// Distinct points, row by row; the rows of a node are beside each other.
    rows: Blocks,
    /// Per row, how many points it stands for.
    weights: Vec<usize>,
    /// Per row, its first point that is left.
    firsts: Vec<usize>,
    /// Per distinct point, its row.
    row_of: Vec<usize>,
    /// Per block, its node.
    leaf_of: Vec<usize>,
}

impl Tree {
    /// Builds it. There must be a point.
    pub fn new(points: &Points, distinct: &Distinct) -> Self {
        let dimensions = points.dimensions();
        let row = |item: &usize| points.point(distinct.first(*item));
        let mut items: Vec<usize> = (0..distinct.len()).collect();
        let mut nodes = vec![BoundingBox::new(0, items.len(), 0)];
        let mut bounds = Vec::new();
        let mut leaf_of = vec![0; items.len().div_ceil(WIDTH)];
        let mut number = 0;
        while let Some(BoundingBox { begin, end, .. }) = nodes.get(number) {
            let (begin, end) = (*begin, *end);
            let inside = &mut items[begin..end];
            let mut lower = vec![f64::INFINITY; dimensions];
            let mut upper = vec![f64::NEG_INFINITY; dimensions];
            for item in &*inside {
                for ((value, lower), upper) in row(item).iter().zip(&mut lower).zip(&mut upper) {
                    *lower = lower.min(*value);
                    *upper = upper.max(*value);
                }
            }
            let blocks = inside.len().div_ceil(WIDTH);
            if blocks > 1 {
                let spread = |dimension: &usize| upper[*dimension] - lower[*dimension];
                let widest = (0..dimensions)
                    .max_by(|one, other| spread(one).total_cmp(&spread(other)))
                    .unwrap_or_default();
                let middle = blocks / 2 * WIDTH;
                inside.select_nth_unstable_by(middle, |one, other| {
                    row(one)[widest].total_cmp(&row(other)[widest])
                });
                nodes[number].children = Some([nodes.len(), nodes.len() + 1]);
                nodes.push(BoundingBox::new(begin, begin + middle, number));
                nodes.push(BoundingBox::new(begin + middle, end, number));
            } else {
                leaf_of[begin / WIDTH] = number;
            }
            bounds.append(&mut lower);
            bounds.append(&mut upper);
            number += 1;
        }
        let mut row_of = vec![0; items.len()];
        for (place, item) in items.iter().enumerate() {
            row_of[*item] = place;
        }
        let mut tree = Self {
            dimensions,
            nodes,
            bounds,
            rows: Blocks::new(dimensions, items.iter().map(row)),
            weights: items.iter().map(|item| distinct.members(*item).len()).collect(),
            firsts: items.iter().map(|item| distinct.first(*item)).collect(),
            row_of,
            leaf_of,
        };
        for number in (0..tree.nodes.len()).rev() {
            tree.nodes[number].first = tree.first_in(number);
        }
        tree
    }

    /// The first point that is left in a node, by those of its rows or its children.
    fn first_in(&self, number: usize) -> usize {
        let BoundingBox { begin, end, children, .. } = &self.nodes[number];
        match children {
            Some([left, right]) => self.nodes[*left].first.min(self.nodes[*right].first),
            None => self.firsts[*begin..*end].iter().copied().min().unwrap_or(NONE),
        }
    }

    /// The first point of all that are left.
    pub fn first(&self) -> Option<usize> {
        self.nodes.first().map(|root| root.first).filter(|first| *first != NONE)
    }

    /// Takes the first point that is left of those that are one distinct point: the next one, if any, is left.
    pub fn take(&mut self, distinct: usize, next: Option<usize>) {
        let row = self.row_of[distinct];
        self.firsts[row] = next.unwrap_or(NONE);
        let mut number = self.leaf_of[row / WIDTH];
        loop {
            let first = self.first_in(number);
            if first == self.nodes[number].first {
                break;
            }
            self.nodes[number].first = first;
            if number == 0 {
                break;
            }
            number = self.nodes[number].parent;
        }
    }

    /// The square of the least distance that a point in a node may have.
    fn least(&self, number: usize, from: &[f64]) -> f64 {
        let begin = number * 2 * self.dimensions;
        let (lower, upper) =
            self.bounds[begin..begin + 2 * self.dimensions].split_at(self.dimensions);
        from.iter()
            .zip(lower)
            .zip(upper)
            .map(|((value, lower), upper)| (lower - value).max(value - upper).max(0.0))
            .map(|beside| beside * beside)
            .sum()
    }

    /// The children of a node, the nearer one last, each with the square of its least distance.
    fn children(&self, number: usize, from: &[f64]) -> Option<[(usize, f64); 2]> {
        let children = self.nodes[number].children?;
        let [one, other] = children.map(|child| (child, self.least(child, from)));
        Some(if one.1 < other.1 { [other, one] } else { [one, other] })
    }

    /// The rows of a block, each with the square of its distance.
    fn squares(&self, node: &BoundingBox, from: &[f64]) -> impl Iterator<Item = (usize, f64)> {
        (node.begin..node.end).zip(self.rows.squares(node.begin / WIDTH, from))
    }

    /// The square of the distance within which there are so many points, those that are equal to `from` among them.
    pub fn reach_of(&self, from: &[f64], count: usize) -> f64 {
        // The nearest ones so far, the farthest of them on top.
        let mut nearest = BinaryHeap::new();
        let (mut found, mut within) = (0, f64::INFINITY);
        let mut ahead = vec![(0, 0.0)];
        while let Some((number, least)) = ahead.pop() {
            if least >= within {
                continue;
            }
            if let Some(children) = self.children(number, from) {
                ahead.extend(children);
                continue;
            }
            for (row, square) in self.squares(&self.nodes[number], from) {
                if square >= within {
                    continue;
                }
                // Squares are never negative, so that their bits are in their order.
                nearest.push((square.to_bits(), self.weights[row]));
                found += self.weights[row];
                while let Some((square, weight)) = nearest.peek()
                    && found >= count
                {
                    within = f64::from_bits(*square);
                    if found - weight < count {
                        break;
                    }
                    found -= weight;
                    nearest.pop();
                }
            }
        }
        within
    }

    /// The nearest of the points that are left, the first one of those that are equally near, and its distance. No
    /// square of a distance is above `limit`. `measure` makes a distance of a square, and must not fall where squares
    /// rise.
    pub fn nearest(
        &self,
        from: &[f64],
        limit: f64,
        measure: impl Fn(f64) -> f64,
    ) -> Option<(f64, usize)> {
        let mut best = (f64::INFINITY, NONE);
        let mut square_of_best = f64::INFINITY;
        let mut ahead = vec![(0, 0.0)];
        while let Some((number, least)) = ahead.pop() {
            let node = &self.nodes[number];
            // What can be said without a measure, which takes time.
            let is_out = |square: f64, point: usize, (square_of_best, best): (f64, usize)| {
                point == NONE || square > limit || (square >= square_of_best && point >= best)
            };
            if is_out(least, node.first, (square_of_best, best.1))
                || (measure(least), node.first) >= best
            {
                continue;
            }
            if let Some(children) = self.children(number, from) {
                ahead.extend(children);
                continue;
            }
            for (row, square) in self.squares(node, from) {
                let point = self.firsts[row];
                if is_out(square, point, (square_of_best, best.1)) {
                    continue;
                }
                let found = (measure(square), point);
                if found < best {
                    (best, square_of_best) = (found, square);
                }
            }
        }
        (best.1 != NONE).then_some(best)
    }
}

impl BoundingBox {
    fn new(begin: usize, end: usize, parent: usize) -> Self {
        Self { begin, end, children: None, parent, first: NONE }
    }
}

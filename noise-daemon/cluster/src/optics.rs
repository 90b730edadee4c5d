//! OPTICS (Ankerst, Breunig, Kriegel, Sander 1999): points in an order in which those of one dense region are beside
//! each other, each with the distance at which it was reached.
//!
//! All figures are scikit-learn's to the last bit where its neighbours come from a k-d tree: distances are rounded to
//! 15 decimals, the core distance counts the point itself, the next point is that with the smallest reachability and
//! the first one of equals, and of several points that reach it equally well the one that came first in the order is
//! its predecessor. Where scikit-learn looks for neighbours by brute force (above 15 dimensions, or where the minimum
//! of points is half of all), its own core distances have an error of rounding, from which other orders may follow.
//!
//! It is Prim's algorithm, and as in Bentley and Friedman's (1978) the points that were passed keep the nearest point
//! that was left when they last looked: the heap of these says who is next, and who looks anew because the one that
//! it found was taken meanwhile. So no pair of points is kept, and most are never compared. Points that are equal are
//! one point here: whichever of them comes first reaches all that the others could.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::distinct::Distinct;
use super::error::ClusterError;
use super::points::Points;
use super::tree::Tree;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpticsSettings {
    /// How many points, itself among them, must be near a point at the core of a dense region; 2 or more.
    pub min_points: usize,
    /// Farther apart are no neighbours; 0 or more, and [`f64::INFINITY`] for no bound.
    pub max_distance: f64,
}

impl Default for OpticsSettings {
    fn default() -> Self {
        Self { min_points: 5, max_distance: f64::INFINITY }
    }
}

/// Points in the order of their clusters. All but the order itself is indexed by point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ordering {
    pub order: Vec<usize>,
    /// The distance at which a point was reached; infinite where it was not.
    pub reachability: Vec<f64>,
    /// The distance within which a point has its minimum of neighbours; infinite where that is too far.
    pub core_distance: Vec<f64>,
    /// The point from which a point was reached.
    pub predecessor: Vec<Option<usize>>,
}

/// As scikit-learn rounds distances: to as many decimals as numbers near 1 have.
fn rounded(distance: f64) -> f64 {
    const DECIMALS: f64 = 1e15;
    (distance * DECIMALS).round_ties_even() / DECIMALS
}

/// Finds the order of points, in a memory that grows with their number alone.
/// Errors: with fewer points than the minimum, none at all included, with more than
/// [`MAX_DISTINCT`](super::MAX_DISTINCT) different ones, and with settings that make no sense.
pub fn optics(points: &Points, settings: &OpticsSettings) -> Result<Ordering, ClusterError> {
    let OpticsSettings { min_points, max_distance } = *settings;
    if min_points < 2 {
        return Err(ClusterError::MinPoints(min_points));
    }
    if max_distance.is_nan() || max_distance < 0.0 {
        return Err(ClusterError::MaxDistance(max_distance));
    }
    if points.len() < min_points {
        return Err(ClusterError::TooFewPoints { points: points.len(), min_points });
    }
    let mut walk = OrderingWalk::new(points, Distinct::new(points)?, settings);
    while walk.step() {}
    Ok(walk.ordering)
}

/// A point that was passed: the bits of the distance to the nearest point that was left when it looked, that point, and
/// its own place in the order. Distances are never negative, so that their bits are in their order.
type SourceHeapEntry = Reverse<(u64, usize, usize)>;

/// The way through the points, and how far it went.
struct OrderingWalk<'a> {
    points: &'a Points,
    distinct: Distinct,
    tree: Tree,
    /// Squares of distances between neighbours are not above.
    limit: f64,
    /// Core distances of the distinct points.
    cores: Vec<f64>,
    /// Which points are in the order.
    passed: Vec<bool>,
    /// How many members of each distinct point are in the order.
    members_passed: Vec<usize>,
    /// The distinct points whose first member is in the order, and which found a point; whose turn it is on top.
    sources: BinaryHeap<SourceHeapEntry>,
    ordering: Ordering,
}

impl<'a> OrderingWalk<'a> {
    fn new(points: &'a Points, distinct: Distinct, settings: &OpticsSettings) -> Self {
        let OpticsSettings { min_points, max_distance } = *settings;
        let tree = Tree::new(points, &distinct);
        let cores: Vec<f64> = (0..distinct.len())
            .map(|number| tree.reach_of(points.point(distinct.first(number)), min_points).sqrt())
            .map(|core| if core > max_distance { f64::INFINITY } else { rounded(core) })
            .collect();
        let of_each = (0..points.len()).map(|point| cores[distinct.of(point)]);
        let ordering = Ordering {
            order: Vec::with_capacity(points.len()),
            reachability: vec![f64::INFINITY; points.len()],
            core_distance: of_each.collect(),
            predecessor: vec![None; points.len()],
        };
        Self {
            points,
            limit: max_distance * max_distance,
            passed: vec![false; points.len()],
            members_passed: vec![0; distinct.len()],
            sources: BinaryHeap::new(),
            distinct,
            tree,
            cores,
            ordering,
        }
    }

    /// Lets the point at that place of the order look for the nearest one that is left.
    fn look(&mut self, place: usize) {
        let point = self.ordering.order[place];
        let core = self.cores[self.distinct.of(point)];
        let measure = |square: f64| rounded(square.sqrt().max(core));
        let found = self.tree.nearest(self.points.point(point), self.limit, measure);
        if let Some((distance, nearest)) = found {
            self.sources.push(Reverse((distance.to_bits(), nearest, place)));
        }
    }

    /// Puts the next point into the order; says whether there was one.
    fn step(&mut self) -> bool {
        // What a point finds when it looks anew is never before what it found then. So whoever is on top and did
        // find a point that is left, has the next one, and no other found it that came before in the order.
        while let Some(Reverse((_, found, place))) = self.sources.peek().copied()
            && self.passed[found]
        {
            self.sources.pop();
            self.look(place);
        }
        let Some(first) = self.tree.first() else { return false };
        let mut point = first;
        if let Some(Reverse((distance, found, place))) = self.sources.peek() {
            point = *found;
            self.ordering.reachability[point] = f64::from_bits(*distance);
            self.ordering.predecessor[point] = self.ordering.order.get(*place).copied();
        }
        let place = self.ordering.order.len();
        self.ordering.order.push(point);
        self.passed[point] = true;
        let number = self.distinct.of(point);
        self.members_passed[number] += 1;
        let members_passed = self.members_passed[number];
        self.tree.take(number, self.distinct.members(number).get(members_passed).copied());
        if members_passed == 1 && self.cores[number].is_finite() {
            self.look(place);
        }
        true
    }
}

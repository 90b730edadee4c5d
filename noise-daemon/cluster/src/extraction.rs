//! Clusters out of an order of points: at one distance, as DBSCAN would find them, or by how steep reachability falls
//! and rises (xi), at whatever distance.
//!
//! Labels are scikit-learn's (`cluster_optics_dbscan`, `cluster_optics_xi` with its correction by predecessors), with
//! `None` for noise. An order that is none, with points missing or named twice, gives labels of no meaning.

use super::optics::Ordering;

/// Per point, the number of its cluster; `None` where it is in none.
pub type ClusterLabels = Vec<Option<usize>>;

/// The clusters that DBSCAN finds at this distance, but for points at their border that were passed before their core.
///
/// All points are noise where the distance is not a number.
pub fn dbscan_labels(ordering: &Ordering, distance: f64) -> ClusterLabels {
    let mut labels = vec![None; ordering.order.len()];
    let mut current = None;
    for point in &ordering.order {
        let far = value(&ordering.reachability, *point) > distance;
        let core = value(&ordering.core_distance, *point) <= distance;
        if far && core {
            current = Some(current.map_or(0, |label: usize| label + 1));
        }
        if (core || !far)
            && let Some(label) = labels.get_mut(*point)
        {
            *label = current;
        }
    }
    labels
}

fn value(values: &[f64], point: usize) -> f64 {
    values.get(point).copied().unwrap_or(f64::INFINITY)
}

/// Clusters between a steep fall and a steep rise of reachability, by `xi` of the higher one at least (OPTICS' figure
/// 19, with the mistakes mended that scikit-learn's documentation names), whose points have their predecessors among them
/// (Schubert, Gertz 2018). Small ones come first: a larger cluster that holds points of one is not seen in labels.
///
/// Steep stretches have no more than `min_points` in a row that are not steep, and clusters no fewer than
/// `min_cluster_size` points. Where `xi` is not within 0 and 1, 1 excluded, there is no cluster.
pub fn xi_labels(
    ordering: &Ordering,
    xi: f64,
    min_points: usize,
    min_cluster_size: usize,
) -> ClusterLabels {
    let mut labels = vec![None; ordering.order.len()];
    if !(0.0..1.0).contains(&xi) {
        return labels;
    }
    let plot = ReachabilityPlot::new(ordering, 1.0 - xi, min_points);
    let mut label = 0;
    plot.clusters(min_cluster_size, |first, last| {
        let members = ordering.order.get(first..=last).unwrap_or_default();
        let is_free = |point: &usize| labels.get(*point).is_some_and(Option::is_none);
        if members.iter().all(is_free) {
            for point in members {
                labels[*point] = Some(label);
            }
            label += 1;
        }
    });
    labels
}

/// A stretch in which reachability falls steeply.
struct Fall {
    first: usize,
    last: usize,
    /// The highest reachability after it, so far.
    between: f64,
}

/// How reachability goes from one point of the order to the next.
#[derive(Clone, Copy, PartialEq)]
enum SlopeDirection {
    Falls,
    Rises,
}

/// Reachability along the order.
struct ReachabilityPlot {
    /// With an infinite one at the end, where the last cluster ends.
    reachability: Vec<f64>,
    /// Where in the order the predecessor of each is.
    predecessor: Vec<Option<usize>>,
    /// 1 - xi.
    rest: f64,
    min_points: usize,
}

impl ReachabilityPlot {
    fn new(ordering: &Ordering, rest: f64, min_points: usize) -> Self {
        let mut place_of = vec![None; ordering.order.len()];
        for (place, point) in ordering.order.iter().enumerate() {
            if let Some(place_of) = place_of.get_mut(*point) {
                *place_of = Some(place);
            }
        }
        let predecessor = |point: &usize| {
            let before = ordering.predecessor.get(*point).copied().flatten()?;
            place_of.get(before).copied().flatten()
        };
        let mut reachability: Vec<f64> =
            ordering.order.iter().map(|point| value(&ordering.reachability, *point)).collect();
        reachability.push(f64::INFINITY);
        let predecessor = ordering.order.iter().map(predecessor).collect();
        Self { reachability, predecessor, rest, min_points }
    }

    fn len(&self) -> usize {
        self.predecessor.len()
    }

    /// From a place to the next one. Between two infinite ones there is no ratio, nor between zeros.
    fn ratio(&self, place: usize) -> f64 {
        self.reachability[place] / self.reachability[place + 1]
    }

    fn way(&self, place: usize) -> Option<SlopeDirection> {
        match self.ratio(place) {
            ratio if ratio > 1.0 => Some(SlopeDirection::Falls),
            ratio if ratio < 1.0 => Some(SlopeDirection::Rises),
            _ => None,
        }
    }

    fn is_steep(&self, place: usize, way: SlopeDirection) -> bool {
        match way {
            SlopeDirection::Falls => self.ratio(place) >= 1.0 / self.rest,
            SlopeDirection::Rises => self.ratio(place) <= self.rest,
        }
    }

    /// Where a steep stretch ends that begins there.
    fn end_of(&self, first: usize, way: SlopeDirection) -> usize {
        let (mut last, mut flat) = (first, 0);
        for place in first..self.len() {
            if self.is_steep(place, way) {
                (last, flat) = (place, 0);
            } else if self.way(place).is_some_and(|other| other != way) {
                break;
            } else {
                flat += 1;
                if flat > self.min_points {
                    break;
                }
            }
        }
        last
    }

    /// Hands over the first and the last place of each cluster, small ones before those around them.
    fn clusters(&self, min_cluster_size: usize, mut found: impl FnMut(usize, usize)) {
        let mut falls: Vec<Fall> = Vec::new();
        let mut between = 0.0_f64;
        let mut place = 0;
        // The place up to which `between` is known.
        while let Some(reachability) = self.reachability.get(place).filter(|_| place < self.len()) {
            between = between.max(*reachability);
            let falls_here = self.is_steep(place, SlopeDirection::Falls);
            if !falls_here && !self.is_steep(place, SlopeDirection::Rises) {
                place += 1;
                continue;
            }
            let way = if falls_here { SlopeDirection::Falls } else { SlopeDirection::Rises };
            self.forget(&mut falls, between);
            let last = self.end_of(place, way);
            match way {
                SlopeDirection::Falls => falls.push(Fall { first: place, last, between: 0.0 }),
                SlopeDirection::Rises => {
                    for fall in falls.iter().rev() {
                        if let Some((first, last)) =
                            self.cluster(fall, place, last, min_cluster_size)
                        {
                            found(first, last);
                        }
                    }
                }
            }
            place = last + 1;
            between = self.reachability[place];
        }
    }

    /// Forgets the falls from which a cluster cannot go on past what is between.
    fn forget(&self, falls: &mut Vec<Fall>, between: f64) {
        falls.retain_mut(|fall| {
            fall.between = fall.between.max(between);
            between.is_finite() && between <= self.reachability[fall.first] * self.rest
        });
    }

    /// The cluster between a fall and a rise, if there is one.
    fn cluster(
        &self,
        fall: &Fall,
        rise: usize,
        end: usize,
        min_cluster_size: usize,
    ) -> Option<(usize, usize)> {
        let (mut first, mut last) = (fall.first, end);
        let (before, after) = (self.reachability[fall.first], self.reachability[end + 1]);
        if after * self.rest < fall.between {
            return None;
        }
        // The higher side is cut to the level of the lower one.
        if before * self.rest >= after {
            while first < fall.last && self.reachability[first + 1] > after {
                first += 1;
            }
        } else if after * self.rest >= before {
            while last > rise && self.reachability[last - 1] > before {
                last -= 1;
            }
        }
        // The last point must be higher than the first, or come from one within.
        while self.reachability[first] <= self.reachability[last] {
            if self.predecessor[last].is_some_and(|place| (first..last).contains(&place)) {
                break;
            }
            last -= 1;
            if last <= first {
                return None;
            }
        }
        let is_cluster = last - first + 1 >= min_cluster_size && first <= fall.last && last >= rise;
        is_cluster.then_some((first, last))
    }
}

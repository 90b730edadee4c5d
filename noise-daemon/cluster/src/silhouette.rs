//! The silhouette (Rousseeuw 1987): how much nearer each point is to the others of its own cluster than to those of
//! the nearest other cluster, from -1 to 1.
//!
//! As in scikit-learn, a point that is alone in its cluster has 0, and so has one that is no farther from other
//! clusters than from its own because both distances are 0. Memory grows with points and clusters, not with pairs.

use std::collections::BTreeMap;

use super::blocks::{Blocks, WIDTH};
use super::distinct::Distinct;
use super::error::ClusterError;
use super::points::Points;

/// How well points fit into their clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Silhouette {
    pub mean: f64,
    pub of_each: Vec<f64>,
}

/// Judges a labelling. Points with equal labels are a cluster; noise has to be left out, or be labelled too.
/// Errors: unless each point has one label, and there are at least 2 clusters and fewer clusters than points.
pub fn silhouette(points: &Points, labels: &[usize]) -> Result<Silhouette, ClusterError> {
    let pass = Pass::new(points, labels)?;
    let groups = MergedClusters::new((0..pass.sizes.len()).map(Some).collect(), &pass.sizes);
    if !groups.are_enough() {
        return Err(ClusterError::Clusters { clusters: groups.count(), points: points.len() });
    }
    let mut of_each = vec![0.0; points.len()];
    pass.run(|point, cluster, sums| {
        if let (Some(value), Some(place)) = (groups.value(cluster, sums), of_each.get_mut(point)) {
            *place = value;
        }
    });
    Ok(Silhouette { mean: of_each.iter().sum::<f64>() / of_each.len() as f64, of_each })
}

/// The mean silhouettes of several ways to merge the clusters of a labelling, in one pass over all pairs of points. A way
/// has for each label the label that it gets; labels with `None`, and those beyond its end, are left out with
/// their points. `None` where a silhouette is not defined: see [`silhouette`].
/// Errors: unless each point has one label.
pub fn merged_silhouettes(
    points: &Points,
    labels: &[usize],
    ways: &[Vec<Option<usize>>],
) -> Result<Vec<Option<f64>>, ClusterError> {
    let pass = Pass::new(points, labels)?;
    let merged = |way: &Vec<Option<usize>>| {
        let to = |label: &usize| way.get(*label).copied().flatten();
        MergedClusters::new(pass.labels.iter().map(to).collect(), &pass.sizes)
    };
    let groups: Vec<MergedClusters> = ways.iter().map(merged).collect();
    let mut totals = vec![0.0; ways.len()];
    pass.run(|_, cluster, sums| {
        for (groups, total) in groups.iter().zip(&mut totals) {
            *total += groups.value(cluster, sums).unwrap_or_default();
        }
    });
    let mean = |(groups, total): (&MergedClusters, f64)| {
        groups.are_enough().then(|| total / groups.points() as f64)
    };
    Ok(groups.iter().zip(totals).map(mean).collect())
}

/// Clusters, some of them merged, some left out.
struct MergedClusters {
    /// Per cluster, its group.
    of: Vec<Option<usize>>,
    /// The clusters that are in a group, with it.
    inside: Vec<(usize, usize)>,
    /// Per group, how many points it has.
    sizes: Vec<usize>,
}

impl MergedClusters {
    fn new(labels: Vec<Option<usize>>, cluster_sizes: &[usize]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut sizes = Vec::new();
        let mut group = |(label, size): (Option<usize>, &usize)| {
            let number = *numbers.entry(label?).or_insert_with(|| {
                sizes.push(0);
                sizes.len() - 1
            });
            sizes[number] += size;
            Some(number)
        };
        let of: Vec<Option<usize>> =
            labels.into_iter().zip(cluster_sizes).map(&mut group).collect();
        let with_group = |(cluster, group): (usize, &Option<usize>)| Some((cluster, (*group)?));
        let inside = of.iter().enumerate().filter_map(with_group).collect();
        Self { of, inside, sizes }
    }

    fn count(&self) -> usize {
        self.sizes.len()
    }

    fn points(&self) -> usize {
        self.sizes.iter().sum()
    }

    fn are_enough(&self) -> bool {
        (2..self.points()).contains(&self.count())
    }

    /// Of a point in that cluster, by the sums of its distances to the points of all clusters. `None` where left out.
    fn value(&self, cluster: usize, cluster_sums: &[f64]) -> Option<f64> {
        let own = self.of.get(cluster).copied().flatten()?;
        let mut sums = vec![0.0; self.count()];
        for (cluster, group) in &self.inside {
            sums[*group] += cluster_sums[*cluster];
        }
        let others = self.sizes[own] - 1;
        if others == 0 {
            return Some(0.0);
        }
        let inside = sums[own] / others as f64;
        let outside = sums
            .iter()
            .zip(&self.sizes)
            .enumerate()
            .filter(|(group, _)| *group != own)
            .map(|(_, (sum, size))| sum / *size as f64)
            .fold(f64::INFINITY, f64::min);
        let larger = inside.max(outside);
        Some(if larger > 0.0 { (outside - inside) / larger } else { 0.0 })
    }
}

/// One pass over all pairs of points.
struct Pass<'a> {
    points: &'a Points,
    distinct: Distinct,
    /// The label of each cluster, rising.
    labels: Vec<usize>,
    /// How many points each cluster has.
    sizes: Vec<usize>,
    /// The cluster of each point.
    clusters: Vec<usize>,
    /// Points that are equal and in one cluster, as one: its place, ...
    heaps: Blocks,
    /// ... its cluster, and how many points it is.
    weights: Vec<(usize, f64)>,
}

impl<'a> Pass<'a> {
    fn new(points: &'a Points, labels: &[usize]) -> Result<Self, ClusterError> {
        if labels.len() != points.len() {
            return Err(ClusterError::Labels { labels: labels.len(), points: points.len() });
        }
        let mut sizes = BTreeMap::new();
        for label in labels {
            *sizes.entry(*label).or_insert(0) += 1;
        }
        let (known, sizes): (Vec<usize>, Vec<usize>) = sizes.into_iter().unzip();
        let cluster = |label: &usize| known.partition_point(|known| known < label);
        let clusters: Vec<usize> = labels.iter().map(cluster).collect();
        let distinct = Distinct::new(points)?;
        let (mut heaps, mut weights) = (Vec::new(), Vec::new());
        for number in 0..distinct.len() {
            let mut inside = BTreeMap::new();
            for member in distinct.members(number) {
                *inside.entry(clusters[*member]).or_insert(0.0) += 1.0;
            }
            for weight in inside {
                heaps.push(points.point(distinct.first(number)));
                weights.push(weight);
            }
        }
        let heaps = Blocks::new(points.dimensions(), heaps.into_iter());
        Ok(Self { points, distinct, labels: known, sizes, clusters, heaps, weights })
    }

    /// Hands over each point with its cluster and the sums of its distances to the points of each cluster.
    fn run(&self, mut each: impl FnMut(usize, usize, &[f64])) {
        let mut sums = vec![0.0; self.sizes.len()];
        for number in 0..self.distinct.len() {
            let from = self.points.point(self.distinct.first(number));
            sums.fill(0.0);
            for (block, weights) in self.weights.chunks(WIDTH).enumerate() {
                let squares = self.heaps.squares(block, from);
                for (square, (cluster, count)) in squares.into_iter().zip(weights) {
                    sums[*cluster] += square.sqrt() * count;
                }
            }
            for member in self.distinct.members(number) {
                each(*member, self.clusters[*member], &sums);
            }
        }
    }
}

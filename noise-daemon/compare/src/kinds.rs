//! Kinds of executions: clusters of their vectors of counts.
//!
//! Counts are taken by their square roots: a count that varies by chance around its mean then varies as much in each state,
//! however large it is, so a rare interrupt does not weigh more than the steps that make a kind, as it does
//! where each state is divided by its standard deviation. OPTICS orders the executions, xi cuts clusters out of the
//! order; those between clusters count with the cluster of the nearest execution that is in one.

use noise_cluster::{
    ClusterError, ClusterLabels, OpticsSettings, Ordering, Points, optics, xi_labels,
};

use crate::vectors::{LENGTH, Vectors};

/// Executions of a set whose kinds can be found: each is held against each other one.
pub const MAX_EXECUTIONS: usize = 10_000;

/// What the vectors were made comparable by, for people.
pub const STANDARDISED: &str = "square roots of counts";

/// How clusters are found.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Clustering {
    /// Executions, itself included, that make one a part of a dense region.
    pub min_points: usize,
    /// How steep the order has to rise and fall where a cluster ends, as a part of the distance.
    pub xi: f64,
    /// Least part of all executions that makes a cluster.
    #[serde(rename = "least_cluster")]
    pub least: f64,
}

impl Default for Clustering {
    fn default() -> Self {
        Self { min_points: 5, xi: 0.05, least: 0.05 }
    }
}

/// The kinds in a set of executions.
#[derive(Clone, Debug, PartialEq)]
pub struct Kinds {
    /// As the clusters have it; none between clusters, and of fewer executions than can be clustered.
    pub labels: ClusterLabels,
    /// Where the order of OPTICS comes from; none where there are too few executions.
    pub ordering: Option<Ordering>,
    /// The kind that each counts with.
    pub kinds: Vec<usize>,
    /// How many kinds there are.
    pub count: usize,
    /// What is not as usual, for people.
    pub note: Option<String>,
}

impl Kinds {
    /// The executions of a kind.
    pub fn members(&self, kind: usize) -> Vec<usize> {
        let all = self.kinds.iter().enumerate();
        all.filter(|(_, own)| **own == kind).map(|(place, _)| place).collect()
    }
}

/// The points of executions: square roots of their counts.
/// Errors: where there are more than can be clustered.
pub fn points<'v>(vectors: impl IntoIterator<Item = &'v Vectors>) -> Result<Points, ClusterError> {
    let roots =
        vectors.into_iter().flat_map(|vectors| vectors.counts.map(|count| (count as f64).sqrt()));
    Points::new(LENGTH, roots.collect())
}

/// The kinds among some executions. Where there are too few of them, each is a kind if `is_each`, else all are one.
/// Errors: settings that no clusters can be found by.
pub fn kinds(
    points: &Points,
    clustering: &Clustering,
    is_each: bool,
) -> Result<Kinds, ClusterError> {
    let count = points.len();
    if count < clustering.min_points {
        let (kinds, what) = match is_each {
            true => ((0..count).collect(), "each is taken by itself"),
            false => (vec![0; count], "all are taken for one kind"),
        };
        return Ok(Kinds {
            labels: vec![None; count],
            ordering: None,
            kinds,
            count: if is_each { count } else { count.min(1) },
            note: Some(format!(
                "there are {count} of the {} executions that a cluster needs: {what}",
                clustering.min_points
            )),
        });
    }
    let settings =
        OpticsSettings { min_points: clustering.min_points, ..OpticsSettings::default() };
    let ordering = optics(points, &settings)?;
    let least = ((clustering.least * count as f64).ceil() as usize).max(clustering.min_points);
    let labels = xi_labels(&ordering, clustering.xi, clustering.min_points, least);
    let clusters = labels.iter().flatten().max().map_or(0, |last| last + 1);
    let (kinds, note) = match clusters {
        0 => (vec![0; count], Some("no clusters: all are taken for one kind".to_owned())),
        _ => (nearest(points, &labels), None),
    };
    let found = Kinds { labels, ordering: Some(ordering), kinds, count: clusters.max(1), note };
    Ok(found)
}

/// Each with the label that it has, or else with that of the nearest that has one.
fn nearest(points: &Points, labels: &ClusterLabels) -> Vec<usize> {
    let labelled: Vec<(usize, usize)> =
        labels.iter().enumerate().filter_map(|(place, label)| Some((place, (*label)?))).collect();
    let of = |(place, label): (usize, &Option<usize>)| {
        label.unwrap_or_else(|| {
            let far =
                |(other, _): &(usize, usize)| distance(points.point(place), points.point(*other));
            let near = labelled.iter().map(|one| (far(one), one.1));
            near.min_by(|one, other| one.0.total_cmp(&other.0)).map_or(0, |near| near.1)
        })
    };
    labels.iter().enumerate().map(of).collect()
}

/// How far apart two points are.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executions of two kinds, with a few others between.
    fn two() -> Vec<Vectors> {
        let one = |running: u64, disk: u64| {
            let mut vectors = Vectors::default();
            vectors.counts[0] = running;
            vectors.counts[4] = disk;
            vectors
        };
        let few = (0..20).map(|number| one(3 + number % 3, 0));
        let many = (0..20).map(|number| one(25 + number % 3, 20 + number % 2));
        few.chain(many).chain([one(6, 1)]).collect()
    }

    #[test]
    fn kinds_are_clusters_and_what_is_near_them() {
        let points = points(&two()).unwrap();
        let found =
            kinds(&points, &Clustering { least: 0.3, ..Clustering::default() }, false).unwrap();
        assert_eq!(found.count, 2, "{:?}", found.labels);
        assert!(found.kinds[..20].iter().all(|kind| *kind == found.kinds[0]));
        assert!(found.kinds[20..40].iter().all(|kind| *kind == found.kinds[20]));
        assert_ne!(found.kinds[0], found.kinds[20]);
        assert_eq!(found.kinds[40], found.kinds[0]);
        assert_eq!(found.members(found.kinds[0]).len(), 21);
    }

    #[test]
    fn too_few_are_said_to_be() {
        let points = points(&two()[..4]).unwrap();
        let found = kinds(&points, &Clustering::default(), true).unwrap();
        assert_eq!((found.count, &*found.kinds), (4, &[0, 1, 2, 3][..]));
        assert!(found.note.unwrap().starts_with("there are 4 of the 5 executions"));
        let found = kinds(&points, &Clustering::default(), false).unwrap();
        assert_eq!((found.count, &*found.kinds), (1, &[0, 0, 0, 0][..]));
    }

    #[test]
    fn equal_executions_are_one_kind() {
        let points = points(&[two()[0]; 30]).unwrap();
        let found = kinds(&points, &Clustering::default(), false).unwrap();
        assert_eq!((found.count, found.kinds), (1, vec![0; 30]));
    }
}

//! Which normal kind each kind of the sample belongs to: Algorithm 2 of the critical-path anomaly paper.
//!
//! A cluster of the sample is merged with each normal one in turn; the one with which the mean silhouette of all
//! (Rousseeuw 1987) is the best is its pair, unless that is negative. A cluster of the sample may hold executions of
//! two kinds, as it will where there are few of each. One that lies nearer to another normal kind than to that of its
//! cluster is paired by itself with the nearest one; there, what it lacks counts more than what it has more, which may be
//! the very thing that is wrong with it.

use noise_cluster::{ClusterError, Points, merged_silhouettes, silhouette};

use crate::kinds::Kinds;

/// How much more it counts that an execution lacks something than that it has more. Of 150 executions into which a convoy at a
/// lock was planted, 137 are nearest to their own kind by 1.5, 146 by 2 and all by 2.5 to 3.5; from 3 on, normal ones
/// begin to count with others.
const LACKING: f64 = 2.5;

/// A kind of the sample and its normal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The kind of the sample.
    pub sample: usize,
    /// The normal kind; none where no merging has a silhouette of 0 or better.
    pub normal: Option<usize>,
    /// The best silhouette; none where there is only one normal kind, and so no other to be far from.
    pub silhouette: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairing {
    /// One for each kind of the sample.
    pub pairs: Vec<Pair>,
    /// The normal kind of each execution of the sample.
    pub kinds: Vec<Option<usize>>,
    /// Executions of the sample that are paired by themselves.
    pub alone: Vec<usize>,
}

/// Pairs the kinds of the sample with normal ones.
/// Errors: with more executions than can be clustered.
pub fn pair(
    (normal, of_normal): (&Points, &Kinds),
    (sample, of_sample): (&Points, &Kinds),
) -> Result<Pairing, ClusterError> {
    let mut pairing = Pairing { kinds: vec![None; sample.len()], ..Pairing::default() };
    let values = normal.iter().chain(sample.iter()).flatten().copied().collect();
    let points = Points::new(normal.dimensions(), values)?;
    let of_normal_kinds = of_normal.kinds.iter().copied();
    let labels = of_normal_kinds.chain(of_sample.kinds.iter().map(|kind| of_normal.count + kind));
    let labels: Vec<usize> = labels.collect();
    let merged = (0..of_sample.count).flat_map(|kind| {
        (0..of_normal.count).map(move |into| {
            let others = (0..of_sample.count).map(move |other| (other == kind).then_some(into));
            (0..of_normal.count).map(Some).chain(others).collect()
        })
    });
    let silhouettes = merged_silhouettes(&points, &labels, &merged.collect::<Vec<_>>())?;
    for (kind, silhouettes) in silhouettes.chunks(of_normal.count.max(1)).enumerate() {
        // Of equals the first. One normal kind has no silhouette, and is the pair of all.
        let value = |silhouette: &Option<f64>| silhouette.unwrap_or(f64::NEG_INFINITY);
        let best = silhouettes.iter().enumerate().rev();
        let best = best.max_by(|one, other| value(one.1).total_cmp(&value(other.1)));
        let silhouette = best.and_then(|best| *best.1);
        let normal_kind = best
            .map(|best| best.0)
            .filter(|_| silhouette.is_none_or(|silhouette| silhouette >= 0.0));
        pairing.pairs.push(Pair { sample: kind, normal: normal_kind, silhouette });
        for member in of_sample.members(kind) {
            let own =
                normal_kind.map(|than| nearest(sample.point(member), than, normal, of_normal));
            if own != normal_kind {
                pairing.alone.push(member);
            }
            if let Some(place) = pairing.kinds.get_mut(member) {
                *place = own;
            }
        }
    }
    pairing.alone.sort_unstable();
    Ok(pairing)
}

/// The mean silhouette of normal kinds; none where that is not defined, as of one kind.
pub fn apartness(points: &Points, kinds: &Kinds) -> Option<f64> {
    silhouette(points, &kinds.kinds).ok().map(|silhouette| silhouette.mean)
}

/// The normal kind that is nearer to an execution than a normal kind, on average, or else that one.
fn nearest(point: &[f64], than: usize, normal: &Points, of_normal: &Kinds) -> usize {
    let mut means = vec![(0.0, 0_usize); of_normal.count];
    for (other, kind) in normal.iter().zip(&of_normal.kinds) {
        if let Some((sum, count)) = means.get_mut(*kind) {
            *sum += distance(point, other);
            *count += 1;
        }
    }
    let mean = |kind: usize| match means.get(kind) {
        Some((sum, count)) if *count > 0 => sum / *count as f64,
        _ => f64::INFINITY,
    };
    (0..of_normal.count).fold(than, |best, kind| if mean(kind) < mean(best) { kind } else { best })
}

/// How far an execution of the sample is from a normal one.
fn distance(point: &[f64], normal: &[f64]) -> f64 {
    let one = |(own, other): (&f64, &f64)| {
        let difference = own - other;
        (if difference < 0.0 { LACKING * difference } else { difference }).powi(2)
    };
    point.iter().zip(normal).map(one).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Points {
        Points::new(1, values.to_vec()).unwrap()
    }

    fn kinds(labels: &[usize]) -> Kinds {
        let count = labels.iter().max().map_or(0, |last| last + 1);
        Kinds {
            labels: labels.iter().copied().map(Some).collect(),
            ordering: None,
            kinds: labels.to_vec(),
            count,
            note: None,
        }
    }

    fn paired(normal: (&Points, &Kinds), sample: (&Points, &Kinds)) -> Pairing {
        pair(normal, sample).unwrap()
    }

    fn two() -> (Points, Kinds) {
        (points(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]), kinds(&[0, 0, 0, 1, 1, 1]))
    }

    #[test]
    fn silhouettes_are_those_of_the_definition() {
        let (points, of) = two();
        // Of 0: inside (1 + 2) / 2, outside 11. Of 1: inside 1, outside 10. Of 2: inside 1.5, outside 9.
        let half = (9.5 / 11.0 + 9.0 / 10.0 + 7.5 / 9.0) / 3.0;
        assert!((apartness(&points, &of).unwrap() - half).abs() < 1e-12);
        assert_eq!(apartness(&points, &kinds(&[0; 6])), None);
    }

    #[test]
    fn kinds_are_paired_with_those_that_are_like_them() {
        let (normal, of_normal) = two();
        let found = paired(
            (&normal, &of_normal),
            (&points(&[11.0, 11.5, 1.0, 0.5]), &kinds(&[0, 0, 1, 1])),
        );
        let pairs: Vec<_> = found.pairs.iter().map(|pair| (pair.sample, pair.normal)).collect();
        assert_eq!(pairs, [(0, Some(1)), (1, Some(0))]);
        assert!(found.pairs.iter().all(|pair| pair.silhouette.is_some_and(|it| it > 0.8)));
        assert_eq!(found.kinds, [Some(1), Some(1), Some(0), Some(0)]);
        assert!(found.alone.is_empty());
    }

    #[test]
    fn what_lies_nearer_to_another_kind_than_its_cluster_is_paired_by_itself() {
        let (normal, of_normal) = two();
        let found = paired(
            (&normal, &of_normal),
            (&points(&[11.0, 12.0, 10.0, 1.0]), &kinds(&[0, 0, 0, 0])),
        );
        assert_eq!(found.pairs[0].normal, Some(1));
        assert_eq!(found.kinds, [Some(1), Some(1), Some(1), Some(0)]);
        assert_eq!(found.alone, [3]);
    }

    #[test]
    fn what_is_lacking_counts_more_than_what_there_is_more() {
        // 6 is as far from 4 as from 8, and lacks nothing of 4.
        let (normal, of_normal) = (points(&[4.0, 4.0, 8.0, 8.0]), kinds(&[0, 0, 1, 1]));
        let found = paired((&normal, &of_normal), (&points(&[6.0, 6.9, 7.9]), &kinds(&[0, 1, 2])));
        assert_eq!(found.kinds, [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn the_best_may_be_none() {
        // Normal kinds that lie within each other, and a large sample far from both.
        let (normal, of_normal) = (points(&[0.0, 2.0, 1.0, 3.0]), kinds(&[0, 0, 1, 1]));
        let found =
            paired((&normal, &of_normal), (&points(&[50.0, -40.0, 60.0]), &kinds(&[0, 0, 0])));
        assert!(found.pairs[0].silhouette.unwrap() < 0.0);
        assert_eq!(found.pairs[0].normal, None);
        assert_eq!(found.kinds, [None; 3]);
        // One normal kind is the pair of all.
        let found =
            paired((&points(&[0.0, 1.0]), &kinds(&[0, 0])), (&points(&[9.0]), &kinds(&[0])));
        assert_eq!(found.pairs, [Pair { sample: 0, normal: Some(0), silhouette: None }]);
    }
}

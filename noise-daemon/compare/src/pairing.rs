//! Which normal kind each kind of the sample belongs to: Algorithm 2 of the critical-path anomaly paper.
//!
//! A cluster of the sample is merged with each normal one in turn; the one with which the mean silhouette of all
//! (Rousseeuw 1987) is the best is its pair, unless that is negative. A cluster of the sample may hold executions of
//! two kinds, as it will where there are few of each: one that lies nearer to another normal kind than to that of its
//! cluster, by its own silhouette, is paired by itself with the nearest one.

use crate::cluster::Points;
use crate::kinds::{Kinds, distance};

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

/// All pairs.
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
pub fn pair(
    (normal, of_normal): (&Points, &Kinds),
    (sample, of_sample): (&Points, &Kinds),
) -> Pairing {
    let mut pairing = Pairing { kinds: vec![None; sample.len()], ..Pairing::default() };
    let far = Distances::new(normal, of_normal, sample);
    for kind in 0..of_sample.count {
        let members = of_sample.members(kind);
        let best = match of_normal.count {
            0 => None,
            1 => Some((0, None)),
            count => {
                let merged = far.to(normal, sample, &members);
                let all =
                    (0..count).map(|normal| (normal, far.silhouette(&merged, &members, normal)));
                // Of equals the first.
                let best = all.rev().max_by(|one, other| one.1.total_cmp(&other.1));
                best.map(|(normal, silhouette)| (normal, Some(silhouette)))
            }
        };
        let silhouette = best.and_then(|best| best.1);
        let normal = best.map(|best| best.0).filter(|_| silhouette.is_none_or(|it| it >= 0.0));
        pairing.pairs.push(Pair { sample: kind, normal, silhouette });
        for &member in &members {
            let own = normal.map(|normal| far.nearer(member, normal));
            if own.is_some() && own != normal {
                pairing.alone.push(member);
            }
            if let Some(place) = pairing.kinds.get_mut(member) {
                *place = own;
            }
        }
    }
    pairing.alone.sort_unstable();
    pairing
}

/// The mean silhouette of normal kinds; none where there are fewer than two.
pub fn silhouette(points: &Points, kinds: &Kinds) -> Option<f64> {
    let none = Points::new(points.dimensions(), Vec::new()).ok()?;
    let far = Distances::new(points, kinds, &none);
    let merged = far.to(points, &none, &[]);
    (kinds.count > 1).then(|| far.silhouette(&merged, &[], 0))
}

/// How far executions are from those of each normal kind: sums of distances.
struct Distances {
    kinds: Vec<usize>,
    sizes: Vec<usize>,
    /// A row for each normal execution, and for each of the sample.
    normal: Vec<Vec<f64>>,
    sample: Vec<Vec<f64>>,
}

/// How far executions are from those of one kind of the sample: sums of distances, of normal ones and of its members.
struct Merged {
    normal: Vec<f64>,
    members: Vec<f64>,
}

impl Distances {
    fn new(normal: &Points, of_normal: &Kinds, sample: &Points) -> Self {
        let mut sizes = vec![0; of_normal.count];
        for kind in &of_normal.kinds {
            if let Some(size) = sizes.get_mut(*kind) {
                *size += 1;
            }
        }
        let row = |point: &[f64]| {
            let mut sums = vec![0.0; of_normal.count];
            for (other, kind) in normal.iter().zip(&of_normal.kinds) {
                if let Some(sum) = sums.get_mut(*kind) {
                    *sum += distance(point, other);
                }
            }
            sums
        };
        let rows = |points: &Points| points.iter().map(row).collect();
        Self { kinds: of_normal.kinds.clone(), sizes, normal: rows(normal), sample: rows(sample) }
    }

    fn to(&self, normal: &Points, sample: &Points, members: &[usize]) -> Merged {
        let sum = |point: &[f64]| {
            members.iter().map(|member| distance(point, sample.point(*member))).sum::<f64>()
        };
        Merged {
            normal: normal.iter().map(sum).collect(),
            members: members.iter().map(|member| sum(sample.point(*member))).collect(),
        }
    }

    /// The mean silhouette of all, with members of the sample merged into a normal kind.
    fn silhouette(&self, merged: &Merged, members: &[usize], into: usize) -> f64 {
        let more = |kind: usize| if kind == into { members.len() } else { 0 };
        let size = |kind: usize| self.sizes.get(kind).map_or(0, |size| size + more(kind));
        let one = |own: usize, sums: &[f64], to_merged: f64| {
            let of = |kind: usize, sum: f64| sum + if kind == into { to_merged } else { 0.0 };
            // Of one that is alone the silhouette is 0.
            if size(own) < 2 {
                return 0.0;
            }
            let (mut inside, mut outside) = (0.0, f64::INFINITY);
            for (kind, sum) in sums.iter().enumerate().filter(|(kind, _)| size(*kind) > 0) {
                let sum = of(kind, *sum);
                match kind == own {
                    true => inside = sum / (size(kind) - 1) as f64,
                    false => outside = outside.min(sum / size(kind) as f64),
                }
            }
            let larger = f64::max(inside, outside);
            if larger > 0.0 { (outside - inside) / larger } else { 0.0 }
        };
        let rows = self.kinds.iter().zip(&self.normal).zip(&merged.normal);
        let normal: f64 = rows.map(|((kind, sums), to)| one(*kind, sums, *to)).sum();
        let rows =
            members.iter().filter_map(|member| self.sample.get(*member)).zip(&merged.members);
        let sample: f64 = rows.map(|(sums, to)| one(into, sums, *to)).sum();
        (normal + sample) / (self.kinds.len() + members.len()).max(1) as f64
    }

    /// The normal kind that is nearer to one of the sample than a normal kind, on average, or else that one.
    fn nearer(&self, member: usize, than: usize) -> usize {
        let Some(sums) = self.sample.get(member) else { return than };
        let mean = |kind: usize| {
            let sum = sums.get(kind).copied().unwrap_or(f64::INFINITY);
            sum / self.sizes.get(kind).map_or(1, |size| *size).max(1) as f64
        };
        (0..self.sizes.len())
            .fold(than, |best, kind| if mean(kind) < mean(best) { kind } else { best })
    }
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

    fn two() -> (Points, Kinds) {
        (points(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]), kinds(&[0, 0, 0, 1, 1, 1]))
    }

    #[test]
    fn silhouettes_are_those_of_the_definition() {
        let (points, of) = two();
        // Of 0: inside (1 + 2) / 2, outside 11. Of 1: inside 1, outside 10. Of 2: inside 1.5, outside 9.
        let half = (9.5 / 11.0 + 9.0 / 10.0 + 7.5 / 9.0) / 3.0;
        assert!((silhouette(&points, &of).unwrap() - half).abs() < 1e-12);
        assert_eq!(silhouette(&points, &kinds(&[0; 6])), None);
    }

    #[test]
    fn kinds_are_paired_with_those_that_are_like_them() {
        let (normal, of_normal) = two();
        let found =
            pair((&normal, &of_normal), (&points(&[11.0, 11.5, 1.0, 0.5]), &kinds(&[0, 0, 1, 1])));
        let pairs: Vec<_> = found.pairs.iter().map(|pair| (pair.sample, pair.normal)).collect();
        assert_eq!(pairs, [(0, Some(1)), (1, Some(0))]);
        assert!(found.pairs.iter().all(|pair| pair.silhouette.is_some_and(|it| it > 0.8)));
        assert_eq!(found.kinds, [Some(1), Some(1), Some(0), Some(0)]);
        assert!(found.alone.is_empty());
    }

    #[test]
    fn what_lies_nearer_to_another_kind_than_its_cluster_is_paired_by_itself() {
        let (normal, of_normal) = two();
        let found =
            pair((&normal, &of_normal), (&points(&[11.0, 12.0, 10.0, 1.0]), &kinds(&[0, 0, 0, 0])));
        assert_eq!(found.pairs[0].normal, Some(1));
        assert_eq!(found.kinds, [Some(1), Some(1), Some(1), Some(0)]);
        assert_eq!(found.alone, [3]);
    }

    #[test]
    fn the_best_may_be_none() {
        // Normal kinds that lie within each other, and a large sample far from both.
        let (normal, of_normal) = (points(&[0.0, 2.0, 1.0, 3.0]), kinds(&[0, 0, 1, 1]));
        let found =
            pair((&normal, &of_normal), (&points(&[50.0, -40.0, 60.0]), &kinds(&[0, 0, 0])));
        assert!(found.pairs[0].silhouette.unwrap() < 0.0);
        assert_eq!(found.pairs[0].normal, None);
        assert_eq!(found.kinds, [None; 3]);
        // One normal kind is the pair of all.
        let found = pair((&points(&[0.0, 1.0]), &kinds(&[0, 0])), (&points(&[9.0]), &kinds(&[0])));
        assert_eq!(found.pairs, [Pair { sample: 0, normal: Some(0), silhouette: None }]);
    }
}

//! Kinds of slices and of sketches: clusters of what they do.
//!
//! The vector of a slice is the natural logarithm of one more than the count of each of its system calls, the same of its
//! stretches without a CPU in steps of an eighth, and the share of its time without a CPU in steps of 1/32. Of more than 510
//! system calls, those count that most slices have. Slices of each marker are clustered by themselves: OPTICS over 1,000 of
//! them, evenly spaced, with 5 points as the minimum, cut at a reachability of one half (a count that is 1.6 times another
//! is as far away). Most slices do exactly what others do, and steep stretches of reachability, which xi looks for, are not
//! there between points at no distance. Every other slice is in the cluster of the one that it is nearest to. Fewer than 10
//! slices of a marker are one cluster. A slice of which the calls are not known is in none.
//!
//! Sketches are clustered in the same way, by the marker of their first slice. The counts in their vectors are those of what
//! they [consist of](crate::whole).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use noise_cluster::{
    ClusterError, ClusterLabels, MAX_DIMENSIONS, OpticsSettings, Points, dbscan_labels, optics,
};

use crate::marker::{ALL, Marker};
use crate::slices::{NONE, Slice};
use crate::summed::wholes;
use crate::system::System;
use crate::tallies::{Profiles, UNKNOWN};
use crate::whole::{Sketch, Wholes};

/// System calls that vectors have, beside the stretches without a CPU and their share.
const MAX_COLUMNS: usize = MAX_DIMENSIONS - 2;
/// Slices of a marker that OPTICS orders.
const MAX_SAMPLE: usize = 1000;
/// Different vectors of a marker whose nearest is looked for; what has another one is in no cluster.
const MAX_VECTORS: usize = 1 << 16;
const MIN_POINTS: usize = 5;
const REACHABILITY: f64 = 0.5;
const FEWEST: usize = 10;

/// What a slice or a sketch did, in steps.
type Steps = (u32, u32, u32);

fn steps(profile: u32, idle_count: u32, idle_ns: u64, ns: u64) -> Steps {
    let count = (f64::from(idle_count).ln_1p() * 8.0).round();
    let share = idle_ns as f64 / ns.max(1) as f64;
    (profile, count as u32, (share.min(1.0) * 32.0).round() as u32)
}

fn of_slice(slice: &Slice) -> Steps {
    steps(slice.profile, slice.idle_count, slice.idle_ns, slice.latency_ns())
}

fn of_sketch(sketch: &Sketch) -> Steps {
    steps(sketch.shape, sketch.idle_count, sketch.idle_ns, sketch.sum_ns)
}

/// What most have, by their numbers, each with its place in vectors.
fn columns(profiles: &Profiles, all: &[Steps]) -> HashMap<u16, usize> {
    let mut places: Vec<u32> = all.iter().map(|(profile, ..)| *profile).collect();
    places.sort_unstable();
    let mut having: BTreeMap<u16, usize> = BTreeMap::new();
    for alike in places.chunk_by(|one, other| one == other) {
        for (number, _) in alike.first().map_or(&[][..], |own| profiles.numbers(*own)) {
            *having.entry(*number).or_default() += alike.len();
        }
    }
    let mut having: Vec<(u16, usize)> = having.into_iter().collect();
    having.sort_by_key(|(_, count)| Reverse(*count));
    having.into_iter().map(|(number, _)| number).zip(0..MAX_COLUMNS).collect()
}

fn vector(profiles: &Profiles, columns: &HashMap<u16, usize>, steps: Steps) -> Vec<f64> {
    let (profile, count, share) = steps;
    let mut vector = vec![0.0; columns.len()];
    for (number, count) in profiles.numbers(profile) {
        if let Some(place) = columns.get(number).and_then(|column| vector.get_mut(*column)) {
            *place = f64::from(*count).ln_1p();
        }
    }
    vector.extend([f64::from(count) / 8.0, f64::from(share) / 32.0]);
    vector
}

/// Puts slices and sketches into clusters, and says how many kinds of slices there are.
/// Errors: what [`optics`] says of vectors that it cannot order.
pub fn cluster(system: &mut System) -> Result<u32, ClusterError> {
    let known = (0..).zip(&system.slices).filter(|(_, slice)| slice.profile != UNKNOWN);
    let by_marker = grouped(known.map(|(id, slice)| (slice.marker, id)));
    let mut count = 0;
    for slices in by_marker {
        let all: Vec<Steps> =
            slices.iter().filter_map(|id| system.slice(*id)).map(of_slice).collect();
        for (id, label) in slices.iter().zip(numbered(labels(&system.profiles, &all)?, &mut count))
        {
            if let Some(slice) = system.slices.get_mut(*id as usize) {
                slice.cluster = label;
            }
        }
    }
    system.wholes = sketches(system)?;
    Ok(count)
}

/// All sketches with their clusters.
fn sketches(system: &System) -> Result<Wholes, ClusterError> {
    let mut wholes = wholes(system);
    let known = (0..).zip(&wholes.all).filter(|(_, sketch)| sketch.shape != UNKNOWN);
    let by_marker =
        grouped(known.filter_map(|(place, sketch)| Some((system.marker_of(sketch)?, place))));
    let mut count = 0;
    for places in by_marker {
        let all: Vec<Steps> = places
            .iter()
            .filter_map(|place| wholes.all.get(*place as usize))
            .map(of_sketch)
            .collect();
        for (place, label) in places.iter().zip(numbered(labels(&wholes.shapes, &all)?, &mut count))
        {
            if let Some(sketch) = wholes.all.get_mut(*place as usize) {
                sketch.cluster = label;
            }
        }
    }
    Ok(wholes)
}

/// What there is of each marker, in the order of [`ALL`].
fn grouped(all: impl Iterator<Item = (Marker, u32)>) -> Vec<Vec<u32>> {
    let mut groups: HashMap<Marker, Vec<u32>> = HashMap::new();
    all.for_each(|(marker, one)| groups.entry(marker).or_default().push(one));
    ALL.iter().filter_map(|marker| groups.remove(marker)).collect()
}

/// The labels of one marker behind those of the markers before, of which there are so many.
fn numbered(labels: Vec<Option<u32>>, count: &mut u32) -> Vec<u32> {
    let first = *count;
    let number = |label: Option<u32>| {
        label.map_or(NONE, |label| {
            *count = (*count).max(first + label + 1);
            first + label
        })
    };
    labels.into_iter().map(number).collect()
}

/// Places that lie evenly among so many, and follow no period of these: multiples of the golden section.
fn spread(number: usize, count: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let part = u128::from((number as u64).wrapping_mul(GOLDEN));
    usize::try_from((part * count as u128) >> 64).unwrap_or(0)
}

/// The places of the slices that OPTICS orders, of so many.
fn sampled(count: usize) -> BTreeSet<usize> {
    if count <= MAX_SAMPLE {
        return (0..count).collect();
    }
    let mut places = BTreeSet::new();
    // Multiples meet in one place where there are few more places than multiples.
    for number in 0.. {
        if places.len() >= MAX_SAMPLE {
            break;
        }
        places.insert(spread(number, count));
    }
    places
}

/// The clusters of what has one marker, from 0 on.
fn labels(profiles: &Profiles, all: &[Steps]) -> Result<Vec<Option<u32>>, ClusterError> {
    let is_one = all.iter().all(|steps| Some(steps) == all.first());
    if is_one || all.len() < FEWEST {
        return Ok(vec![Some(0); all.len()]);
    }
    let columns = columns(profiles, all);
    let sample = sampled(all.len());
    let sample = sample.iter().filter_map(|place| all.get(*place));
    let values: Vec<f64> = sample.flat_map(|steps| vector(profiles, &columns, *steps)).collect();
    let points = Points::new(columns.len() + 2, values)?;
    let settings = OpticsSettings { min_points: MIN_POINTS, ..OpticsSettings::default() };
    let ordering = optics(&points, &settings)?;
    let labels: ClusterLabels = dbscan_labels(&ordering, REACHABILITY);
    let mut known: HashMap<Steps, Option<u32>> = HashMap::new();
    let of = |steps: &Steps| {
        if let Some(label) = known.get(steps) {
            return *label;
        }
        if known.len() >= MAX_VECTORS {
            return None;
        }
        let own = vector(profiles, &columns, *steps);
        let distance = |point: &[f64]| -> f64 {
            point.iter().zip(&own).map(|(one, other)| (one - other) * (one - other)).sum()
        };
        let nearest = points
            .iter()
            .map(distance)
            .enumerate()
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
            .map(|(place, _)| place);
        let label = nearest.and_then(|place| labels.get(place).copied().flatten());
        let label = label.and_then(|label| u32::try_from(label).ok());
        known.insert(*steps, label);
        label
    };
    Ok(all.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::Family;
    use crate::slices::{Ended, State};

    fn slice(marker: Marker, profile: u32, idle_ns: u64) -> Slice {
        Slice {
            ended: Ended::Explicit,
            state: State::Kept,
            profile,
            idle_count: u32::from(idle_ns > 0),
            idle_ns,
            to_ns: 1000,
            true_latency_ns: 1000,
            ..Slice::begins(marker, 0, 0, 0)
        }
    }

    #[test]
    fn kinds_of_slices_are_told_apart() {
        let mut system = System::default();
        let [read, write] = ["read", "write"].map(|name| system.profiles.number(name));
        let few = system.profiles.place(vec![(read, 1)]);
        let many = system.profiles.place(vec![(read, 1), (write, 30)]);
        let marker = Marker::Receive(Family::Tcp);
        for number in 0..3000u64 {
            system.slices.push(match number % 3 {
                0 => slice(marker, few, 0),
                1 => slice(marker, many, 0),
                _ => slice(Marker::Pipe, few, 500),
            });
        }
        assert_eq!(cluster(&mut system).unwrap(), 3);
        let label = |number: usize| system.slices[number].cluster;
        for number in 0..3000 {
            assert_eq!(label(number), label(number % 3), "{number}");
            assert_ne!(label(number), NONE);
        }
        assert!(label(0) != label(1) && label(1) != label(2));
        // As few as a cluster needs: none of them is left out.
        system.slices.clear();
        let rare = [5, 10, 11, 12, 13];
        let profile = |number: &usize| if rare.contains(number) { many } else { few };
        system.slices.extend((0..100).map(|number| slice(marker, profile(&number), 0)));
        assert_eq!(cluster(&mut system).unwrap(), 2);
        for (number, slice) in system.slices.iter().enumerate() {
            assert_eq!(slice.cluster, u32::from(rare.contains(&number)), "{number}");
        }
        for count in [10, 999, 1000, 1001, 1500, 2000, 3000] {
            assert_eq!(sampled(count).len(), count.min(MAX_SAMPLE));
        }
    }

    #[test]
    fn of_very_many_system_calls_those_that_most_slices_have_count() {
        let mut system = System::default();
        let rare: Vec<u16> =
            (0..600).map(|name| system.profiles.number(&format!("call-{name}"))).collect();
        let read = system.profiles.number("read");
        for ten in rare.chunks(10) {
            let calls = ten.iter().map(|call| (*call, 1)).chain([(read, 1)]).collect();
            let profile = system.profiles.place(calls);
            system.slices.push(slice(Marker::Pipe, profile, 0));
        }
        let all: Vec<Steps> = system.slices.iter().map(of_slice).collect();
        let columns = columns(&system.profiles, &all);
        assert_eq!((columns.len(), columns.get(&read)), (510, Some(&0)));
        cluster(&mut system).unwrap();
    }

    #[test]
    fn a_few_are_one_kind_and_none_is_none() {
        let mut system = System::default();
        assert_eq!(cluster(&mut system).unwrap(), 0);
        system.slices.push(slice(Marker::Pipe, 0, 3));
        system.slices.push(slice(Marker::Pipe, 0, 900));
        system.slices.push(slice(Marker::Pipe, UNKNOWN, 3));
        assert_eq!(cluster(&mut system).unwrap(), 1);
        let clusters: Vec<u32> = system.slices.iter().map(|slice| slice.cluster).collect();
        assert_eq!(clusters, [0, 0, NONE]);
    }
}

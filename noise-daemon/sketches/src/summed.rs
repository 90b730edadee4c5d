//! The sketches of a system, summed up as [wholes](crate::whole).

use std::collections::BTreeMap;

use crate::slices::{NONE, Slice, SliceId};
use crate::system::System;
use crate::tallies::{Profiles, UNKNOWN};
use crate::tiers::is_life;
use crate::whole::{Sketch, Wholes};

/// Sums up the sketches of a system.
pub fn wholes(system: &System) -> Wholes {
    let sketch = |id: &SliceId| system.sketches.get(*id as usize).copied().unwrap_or(*id);
    let mut members: Vec<SliceId> = (0..system.slices.len() as SliceId).collect();
    members.sort_by_key(sketch);
    let mut wholes = Wholes::default();
    let mut place = 0;
    for ids in members.chunk_by(|one, other| sketch(one) == sketch(other)) {
        let shape = shape(&mut wholes.shapes, system, ids);
        wholes.all.extend(whole(system, ids, place, shape));
        place += ids.len() as u32;
    }
    Wholes { members, ..wholes }
}

fn shape(shapes: &mut Profiles, system: &System, ids: &[SliceId]) -> u32 {
    let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
    for slice in ids.iter().filter_map(|id| system.slice(*id)) {
        if slice.profile == UNKNOWN {
            return UNKNOWN;
        }
        let tier = shapes.number(&tier_name(system, slice));
        let calls = system.profiles.calls(slice.profile);
        let calls: Vec<_> = calls.map(|(name, count)| (shapes.number(name), count)).collect();
        for (number, count) in calls.into_iter().chain([(tier, 1)]) {
            let sum = counts.entry(number).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    shapes.place(counts.into_iter().collect())
}

/// What slices of one process with one marker are called.
fn tier_name(system: &System, slice: &Slice) -> String {
    let process = system.thread(slice).map(|thread| thread.process.to_string());
    format!("{} of {}", slice.marker.name(), process.unwrap_or_default())
}

fn whole(system: &System, ids: &[SliceId], place: u32, shape: u32) -> Option<Sketch> {
    let of = || ids.iter().filter_map(|id| system.slice(*id));
    let has_work = of().any(|slice| !is_life(slice.marker));
    let counts = |slice: &&Slice| !has_work || !is_life(slice.marker);
    let idle_count = of().fold(0u32, |sum, slice| sum.saturating_add(slice.idle_count));
    let idle_ns = of().fold(0u64, |sum, slice| sum.saturating_add(slice.idle_ns));
    let mean = idle_ns as f64 / f64::from(idle_count.max(1));
    // Of all stretches, from the variance within slices and between their means.
    let square = |slice: &Slice| {
        let off = slice.idle_mean_ns() - mean;
        f64::from(slice.idle_count) * (slice.idle_variance + off * off)
    };
    Some(Sketch {
        first: *ids.first()?,
        place,
        slices: ids.len() as u32,
        from_ns: of().filter(counts).map(|slice| slice.from_ns).min()?,
        to_ns: of().filter(counts).map(|slice| slice.to_ns).max()?,
        sum_ns: of().fold(0u64, |sum, slice| sum.saturating_add(slice.latency_ns())),
        idle_count,
        idle_ns,
        idle_variance: of().map(square).sum::<f64>() / f64::from(idle_count.max(1)),
        shape,
        cluster: NONE,
    })
}

#[cfg(test)]
mod tests {
    use noise_trace::event::Comm;
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::*;
    use crate::follow::NamedOwner;
    use crate::marker::{Family, Marker};
    use crate::slices::{Ended, State};

    fn slice(marker: Marker, thread: u32, (from_ns, to_ns): (u64, u64)) -> Slice {
        let (ended, state) = (Ended::Explicit, State::Kept);
        let begun = Slice::begins(marker, thread, 0, from_ns);
        Slice { ended, state, idle_count: 1, idle_ns: 2, to_ns, ..begun }
    }

    fn process(name: &str) -> NamedOwner {
        let comm = Comm::new(name.as_bytes());
        NamedOwner { machine: 0, tid: 1, pid: 1, comm, process: comm }
    }

    const SEND: Marker = Marker::Send(Family::Tcp);
    const RECEIVE: Marker = Marker::Receive(Family::Tcp);

    /// Sketches of a request to an application, some of which ask a database so many times.
    fn requests(asked: &[usize]) -> System {
        let mut system = System::default();
        system.threads.extend([process("app"), process("db")]);
        for (number, asked) in asked.iter().enumerate() {
            let at = 1000 * number as u64;
            let first = system.slices.len() as SliceId;
            system.slices.push(slice(RECEIVE, 0, (at, at + 100)));
            for _ in 0..*asked {
                system.slices.push(slice(RECEIVE, 1, (at + 10, at + 20)));
            }
            system.sketches.resize(system.slices.len(), first);
        }
        crate::cluster::cluster(&mut system).unwrap();
        system
    }

    #[test]
    fn a_sketch_lasts_as_long_as_its_work() {
        let mut system = System::default();
        system.threads.push(process("app"));
        system.slices.push(slice(Marker::Accept(Family::Tcp), 0, (5, 9000)));
        system.slices.push(slice(SEND, 0, (10, 20)));
        system.slices.push(slice(Marker::Process, 0, (1, 50)));
        system.slices.push(Slice { idle_ns: 6, ..slice(RECEIVE, 0, (15, 40)) });
        system.sketches = vec![0, 0, 2, 0];
        let wholes = wholes(&system);
        let long: Vec<_> = wholes
            .all
            .iter()
            .map(|sketch| (sketch.first, sketch.slices, sketch.from_ns, sketch.to_ns))
            .collect();
        assert_eq!(long, [(0, 3, 10, 40), (2, 1, 1, 50)]);
        let first = wholes.get(0).unwrap();
        assert_eq!(wholes.members(first), [0, 1, 3]);
        // Of stretches of 2, 2 and 6.
        assert_eq!((first.idle_count, first.idle_ns), (3, 10));
        assert!((first.idle_variance - 32.0 / 9.0).abs() < 1e-9, "{}", first.idle_variance);
        assert_eq!(wholes.get(1), None);
    }

    #[test]
    fn sketches_of_one_kind_consist_of_the_same() {
        let asked: Vec<usize> = (0..60).map(|number| if number % 3 == 0 { 4 } else { 1 }).collect();
        let system = requests(&asked);
        let of = |asks: usize| {
            let all = system.wholes.all.iter().zip(&asked).filter(move |(_, own)| **own == asks);
            all.map(|(sketch, _)| sketch.cluster).collect::<Vec<_>>()
        };
        let (many, few) = (of(4), of(1));
        assert!(many.iter().all(|cluster| *cluster == many[0] && *cluster != NONE));
        assert!(few.iter().all(|cluster| *cluster == few[0] && *cluster != NONE));
        assert_ne!(many[0], few[0]);
    }

    #[test]
    fn the_nearest_sketches_are_those_that_consist_of_most_alike() {
        let system = requests(&[2, 9, 3, 2, 0]);
        let wholes = &system.wholes;
        let to = &wholes.all[0];
        let near = wholes.nearest(to, wholes.all.iter(), 3);
        let places: Vec<_> = near
            .iter()
            .map(|near| wholes.all.iter().position(|sketch| sketch.first == near.sketch).unwrap())
            .collect();
        assert_eq!(places, [3, 2, 4]);
        assert_eq!(near[0].distance, 0.0);
        // Of what is not known nothing is said.
        let unknown = Sketch { shape: UNKNOWN, ..*to };
        assert_eq!(wholes.nearest(&unknown, wholes.all.iter(), 3), []);
    }

    proptest! {
        #[test]
        fn distances_are_distances(asked in prop::collection::vec(0..9usize, 3)) {
            let system = requests(&asked);
            let [a, b, c] = [0, 1, 2].map(|place| &system.wholes.all[place]);
            let far = |one, other| system.wholes.distance(one, other).unwrap();
            prop_assert!(far(a, a) == 0.0 && far(a, b) == far(b, a));
            prop_assert!(far(a, c) <= far(a, b) + far(b, c) + 1e-9);
        }
    }
}

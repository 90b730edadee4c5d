//! Sketches as wholes: how long each is, what it consists of, and which others are like it.
//!
//! A sketch lasts from the begin of its first slice to the end of its last one. Connections and threads as wholes do not
//! count in that, unless there is nothing else: they last as long as they are kept. Its *shape* is how many slices it has
//! of each process with each marker, and how often it makes each system call.
//!
//! How far apart two sketches are is the Euclidean distance of the logarithms of one more than these counts, with the
//! logarithm of stretches without a CPU, and their share of all slices' time.

use std::cmp::Ordering;

use serde::Serialize;

use crate::slices::SliceId;
use crate::tallies::{Profiles, UNKNOWN};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sketch {
    /// The smallest number of its slices, which is its own.
    pub first: SliceId,
    /// Its slices: where they begin in [`Wholes`], and how many there are.
    pub(crate) place: u32,
    pub slices: u32,
    /// From then on, nanoseconds since the epoch.
    pub from_ns: u64,
    pub to_ns: u64,
    /// The lengths of all of its slices together.
    pub sum_ns: u64,
    /// Stretches of these without a CPU.
    pub idle_count: u32,
    pub idle_ns: u64,
    /// Their variance, square nanoseconds.
    pub idle_variance: f64,
    /// What it consists of, by the place of that combination: [`UNKNOWN`] where that is not kept.
    pub shape: u32,
    /// The cluster that it is in, from 0 on; [`NONE`](crate::slices::NONE) where it is in none.
    pub cluster: u32,
}

impl Sketch {
    pub const fn latency_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// The mean of its stretches without a CPU, nanoseconds.
    pub fn idle_mean_ns(&self) -> f64 {
        self.idle_ns as f64 / f64::from(self.idle_count.max(1))
    }
}

/// All sketches of a system.
#[derive(Clone, Debug, Default)]
pub struct Wholes {
    /// In the order of their numbers.
    pub all: Vec<Sketch>,
    /// Slices, those of a sketch one behind the other.
    pub(crate) members: Vec<SliceId>,
    /// What sketches consist of.
    pub shapes: Profiles,
}

impl Wholes {
    /// A sketch by the number of its first slice.
    pub fn get(&self, first: SliceId) -> Option<&Sketch> {
        let place = self.all.binary_search_by_key(&first, |sketch| sketch.first).ok()?;
        self.all.get(place)
    }

    /// The slices of a sketch, in the order of their numbers.
    pub fn members(&self, sketch: &Sketch) -> &[SliceId] {
        let from = sketch.place as usize;
        self.members.get(from..from + sketch.slices as usize).unwrap_or_default()
    }

    /// How far apart two sketches are; `None` where what one consists of is not known.
    pub fn distance(&self, one: &Sketch, other: &Sketch) -> Option<f64> {
        if one.shape == UNKNOWN || other.shape == UNKNOWN {
            return None;
        }
        let (mut left, mut right) =
            (self.shapes.numbers(one.shape).iter(), self.shapes.numbers(other.shape).iter());
        let (mut here, mut there) = (left.next(), right.next());
        let log = |count: u32| f64::from(count).ln_1p();
        let mut sum = 0.0;
        // Both are in the order of the numbers.
        while here.is_some() || there.is_some() {
            let number =
                |of: Option<&(u16, u32)>| of.map_or(u32::MAX, |(number, _)| (*number).into());
            let order = number(here).cmp(&number(there));
            let count = |of: Option<&(u16, u32)>| of.map_or(0.0, |(_, count)| log(*count));
            let (a, b) = match order {
                Ordering::Less => (count(here), 0.0),
                Ordering::Equal => (count(here), count(there)),
                Ordering::Greater => (0.0, count(there)),
            };
            sum += (a - b) * (a - b);
            if order.is_le() {
                here = left.next();
            }
            if order.is_ge() {
                there = right.next();
            }
        }
        let share = |sketch: &Sketch| sketch.idle_ns as f64 / sketch.sum_ns.max(1) as f64;
        let idle = log(one.idle_count) - log(other.idle_count);
        let share = share(one) - share(other);
        Some((sum + idle * idle + share * share).sqrt())
    }

    /// The sketches that are nearest to one of some, the nearest first, at most so many.
    pub fn nearest<'w>(
        &'w self,
        to: &Sketch,
        among: impl Iterator<Item = &'w Sketch>,
        most: usize,
    ) -> Vec<Near> {
        let others = among.filter(|sketch| sketch.first != to.first);
        let mut found: Vec<Near> = others
            .filter_map(|sketch| {
                Some(Near { sketch: sketch.first, distance: self.distance(to, sketch)? })
            })
            .collect();
        found.sort_by(|one, other| {
            one.distance.total_cmp(&other.distance).then(one.sketch.cmp(&other.sketch))
        });
        found.truncate(most);
        found
    }
}

/// A sketch that is near to another one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Near {
    pub sketch: SliceId,
    pub distance: f64,
}

//! What a thread did so far, and the difference between two moments of that: idle time and system calls of a slice.

use foldhash::HashMap;

/// System calls that are counted by name; all others count as one.
const MAX_CALLS: usize = 1024;
/// Combinations of counts of system calls that are kept.
const MAX_PROFILES: usize = if cfg!(test) { 64 } else { 1 << 17 };
/// The place of a combination that is not kept.
pub const UNKNOWN: u32 = u32::MAX;
/// What the others are called.
const OTHERS: &str = "others";

/// Stretches without a CPU: sleeping, or waiting for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    pub count: u32,
    /// All of them together, nanoseconds.
    pub sum_ns: u64,
    pub squares: u128,
}

impl Idle {
    pub fn add(&mut self, ns: u64) {
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.squares = self.squares.saturating_add(u128::from(ns) * u128::from(ns));
    }

    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            squares: self.squares.saturating_sub(earlier.squares),
        }
    }
}

/// A moment of a thread, and what it had done by then.
#[derive(Clone, Debug, Default)]
pub struct TallyMark {
    /// When, nanoseconds since the epoch.
    pub at_ns: u64,
    pub idle: Idle,
    /// Counts of system calls, in the order in which the thread began with each.
    pub calls: Box<[u32]>,
}

#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Which ones, in the order in which it began with each.
    names: Vec<u16>,
    counts: Vec<u32>,
}

impl Calls {
    /// One more; its place in the order.
    pub fn add(&mut self, name: u16) -> u16 {
        let place = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.counts.push(0);
            self.names.len() - 1
        });
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.saturating_add(1);
        }
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    /// Counts so far, without the call that is under way where there is one.
    pub fn counts(&self, without: Option<u16>) -> Box<[u32]> {
        let mut counts: Box<[u32]> = self.counts.as_slice().into();
        if let Some(count) = without.and_then(|place| counts.get_mut(usize::from(place))) {
            *count = count.saturating_sub(1);
        }
        counts
    }

    /// What came between two moments, by the numbers of the calls' names.
    pub fn between(&self, from: &TallyMark, to: &TallyMark) -> Vec<(u16, u32)> {
        let mut found: Vec<(u16, u32)> = Vec::new();
        for (place, (name, count)) in self.names.iter().zip(&*to.calls).enumerate() {
            let before = from.calls.get(place).copied().unwrap_or(0);
            if *count > before {
                found.push((*name, count - before));
            }
        }
        found.sort_unstable();
        found
    }
}

/// The names of system calls, and which of them slices have how often: most slices have what others have, too.
#[derive(Clone, Debug)]
pub struct Profiles {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u16>,
    all: Vec<Box<[(u16, u32)]>>,
    places: HashMap<Box<[(u16, u32)]>, u32>,
}

impl Default for Profiles {
    /// The first one has no call.
    fn default() -> Self {
        let none: Box<[(u16, u32)]> = Box::default();
        Self {
            names: Vec::new(),
            numbers: HashMap::default(),
            all: vec![none.clone()],
            places: HashMap::from_iter([(none, 0)]),
        }
    }
}

impl Profiles {
    pub fn number(&mut self, name: &str) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name = if self.names.len() < MAX_CALLS { name } else { OTHERS };
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u16::try_from(self.names.len()).unwrap_or(u16::MAX);
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// The number of a combination; [`UNKNOWN`] where there are too many.
    pub fn place(&mut self, calls: Vec<(u16, u32)>) -> u32 {
        if let Some(place) = self.places.get(calls.as_slice()) {
            return *place;
        }
        if self.all.len() >= MAX_PROFILES {
            return UNKNOWN;
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let calls = calls.into_boxed_slice();
        self.all.push(calls.clone());
        self.places.insert(calls, place);
        place
    }

    /// The calls of a combination, by name.
    pub fn calls(&self, place: u32) -> impl Iterator<Item = (&str, u32)> {
        let calls = self.all.get(place as usize).map_or(&[][..], |calls| calls);
        let name = |number: u16| self.names.get(usize::from(number)).map_or("", |name| name);
        calls.iter().map(move |(number, count)| (name(*number), *count))
    }

    /// The calls of a combination, by the numbers of their names.
    pub fn numbers(&self, place: u32) -> &[(u16, u32)] {
        self.all.get(place as usize).map_or(&[], |calls| calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::SketchCounts;
    use crate::marker::Marker;
    use crate::slices::{Ended, Store};
    use crate::system::System;

    #[test]
    fn what_lies_between_two_moments_counts() {
        let mut calls = Calls::default();
        calls.add(7);
        let from = TallyMark { calls: calls.counts(Some(0)), ..TallyMark::default() };
        calls.add(9);
        calls.add(7);
        let to = TallyMark { calls: calls.counts(None), ..TallyMark::default() };
        assert_eq!(calls.between(&from, &to), [(7, 2), (9, 1)]);
        assert_eq!(calls.between(&to, &to), []);
        let mut idle = Idle::default();
        idle.add(5);
        let before = idle;
        idle.add(3);
        idle.add(4);
        assert_eq!(idle.since(&before), Idle { count: 2, sum_ns: 7, squares: 25 });
    }

    #[test]
    fn a_combination_too_many_is_unknown() {
        let mut profiles = Profiles::default();
        let read = profiles.number("read");
        assert_eq!(profiles.number("read"), read);
        for count in 1..MAX_PROFILES as u32 {
            assert_eq!(profiles.place(vec![(read, count)]), count);
        }
        assert_eq!(profiles.place(vec![(read, MAX_PROFILES as u32)]), UNKNOWN);
        assert_eq!(profiles.calls(UNKNOWN).count(), 0);
        let place = profiles.place(vec![(read, 3)]);
        assert_eq!(profiles.calls(place).collect::<Vec<_>>(), [("read", 3)]);
        assert_eq!(profiles.calls(0).count(), 0);
        // The slices that have it are counted.
        let mut store = Store::default();
        store.profiles = profiles;
        for count in [1, 1000, 1001] {
            let id = store.open(Marker::Pipe, 0, 0, 0);
            store.close(id, Ended::Implicit, 1, &Idle::default(), vec![(read, count)]);
        }
        let system = System::new(store, Vec::new(), SketchCounts::default(), None);
        assert_eq!(system.counts.calls_left_out, 2);
    }
}

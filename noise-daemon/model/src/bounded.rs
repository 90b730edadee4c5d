//! PURE: values by key, at most so many. The keys beyond share one value for each kind, that of the
//! rest, so nothing is lost: all values together are what was put in.
//!
//! First come, first served: a key that has a value keeps it until its owner takes it out. Who is to
//! give way to whom is decided there.

use std::collections::BTreeMap;
use std::iter::from_fn;

use noise_common::charge::UNKNOWN;
use noise_common::event::CellKey;
use noise_common::signals::Signal;

/// A key of a [`Bounded`].
pub trait Foldable: Ord + Clone {
    /// The one that stands for all of its kind without a value of their own. Kinds are few. One that
    /// stands for itself always has a value.
    fn rest(&self) -> Self;
}

impl Foldable for CellKey {
    /// Devices, interfaces, irqs and what is known beforehand are few.
    fn rest(&self) -> Self {
        let is_folded = |signal: Signal| signal.info().is_folded();
        match Signal::from_number(self.signal).is_some_and(is_folded) {
            true => Self { subject: UNKNOWN, ..*self },
            false => *self,
        }
    }
}

#[derive(Debug)]
pub struct Bounded<K, V> {
    most: usize,
    own: BTreeMap<K, V>,
    rest: BTreeMap<K, V>,
}

impl<K: Foldable, V> Bounded<K, V> {
    /// Room for that many keys, the rest not counted.
    pub fn new(most: usize) -> Self {
        Self { most, own: BTreeMap::new(), rest: BTreeMap::new() }
    }

    /// How many keys there is room for.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Makes room for another number of keys. Those that are too many for it stay until they are removed.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// How many keys have a value of their own.
    pub fn taken(&self) -> usize {
        self.own.len()
    }

    /// Whether a new key would count for the rest.
    pub fn is_full(&self) -> bool {
        self.own.len() >= self.most
    }

    /// Whether a key counts for itself: it has a value, or there is room for one.
    pub fn has_room(&self, key: &K) -> bool {
        !self.is_full() || self.own.contains_key(key) || *key == key.rest()
    }

    /// What a key counts in: its own value, if it has one or there is room, else that of the rest. One
    /// that is not there yet is made.
    pub fn value_with(&mut self, key: K, make: impl FnOnce(&K) -> V) -> &mut V {
        let rest = key.rest();
        if key == rest || (self.is_full() && !self.own.contains_key(&key)) {
            self.rest.entry(rest).or_insert_with_key(make)
        } else {
            self.own.entry(key).or_insert_with_key(make)
        }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.own.get(key).or_else(|| self.rest.get(key))
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.own.get_mut(key).or_else(|| self.rest.get_mut(key))
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.own.remove(key).or_else(|| self.rest.remove(key))
    }

    /// The keys that have a value of their own, in order.
    pub fn own(&self) -> impl Iterator<Item = (&K, &V)> {
        self.own.iter()
    }

    /// Every value, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        in_order(self.own.iter(), self.rest.iter())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        in_order(self.own.iter_mut(), self.rest.iter_mut())
    }
}

impl<K: Foldable, V: Default> Bounded<K, V> {
    /// The same as [`Bounded::value_with`], of values that begin at nothing.
    pub fn value(&mut self, key: K) -> &mut V {
        self.value_with(key, |_| V::default())
    }
}

/// Two that are in order, as one.
fn in_order<K: Ord, V>(
    own: impl Iterator<Item = (K, V)>,
    rest: impl Iterator<Item = (K, V)>,
) -> impl Iterator<Item = (K, V)> {
    let (mut own, mut rest) = (own.peekable(), rest.peekable());
    from_fn(move || match (own.peek(), rest.peek()) {
        (Some((own_key, _)), Some((key, _))) if own_key > key => rest.next(),
        (Some(_), _) => own.next(),
        (None, _) => rest.next(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    /// Of four kinds; those of the last are not bounded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Number(u8);

    impl Foldable for Number {
        fn rest(&self) -> Self {
            if self.0 % 4 == 3 { *self } else { Self(252 + self.0 % 4) }
        }
    }

    #[test]
    fn cells_of_cgroups_have_a_common_rest_and_those_of_devices_have_none() {
        let cell = |signal: Signal, subject| CellKey { signal: signal as u32, padding: 0, subject };
        let of_cgroup = cell(Signal::CgroupRunqueueWait, 7);
        assert_eq!(of_cgroup.rest(), cell(Signal::CgroupRunqueueWait, UNKNOWN));
        assert_eq!(of_cgroup.rest().rest(), of_cgroup.rest());
        let of_device = cell(Signal::BlockQueueWait, 7);
        assert_eq!(of_device.rest(), of_device);
        let of_no_signal = CellKey { signal: u32::MAX, ..of_cgroup };
        assert_eq!(of_no_signal.rest(), of_no_signal);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_gives_way(
            mut most in 0usize..6,
            steps in proptest::collection::vec((any::<u8>(), 0u8..64, any::<u16>()), 0..300),
        ) {
            let mut bounded: Bounded<Number, u64> = Bounded::new(most);
            let (mut all, mut taken) = (0, 0);
            for (kind, key, more) in steps {
                let key = Number(key);
                let before: BTreeMap<Number, u64> =
                    bounded.iter().map(|(key, value)| (*key, *value)).collect();
                let had: BTreeSet<Number> = bounded.own().map(|(key, _)| *key).collect();
                match kind {
                    0..16 => {
                        let removed = bounded.remove(&key);
                        prop_assert_eq!(removed, before.get(&key).copied());
                        taken += removed.unwrap_or(0);
                    }
                    16..24 => {
                        most = usize::from(more % 6);
                        bounded.set_most(most);
                    }
                    _ => {
                        let has_room = bounded.has_room(&key);
                        *bounded.value(key) += u64::from(more);
                        all += u64::from(more);
                        let into = if has_room { key } else { key.rest() };
                        let value = before.get(&into).copied().unwrap_or(0) + u64::from(more);
                        prop_assert_eq!(bounded.get(&into), Some(&value));
                        // All others are as they were.
                        for (other, value) in before.iter().filter(|(other, _)| **other != into) {
                            prop_assert_eq!(bounded.get(other), Some(value));
                        }
                        prop_assert!(bounded.own().all(|(own, _)| *own == key || had.contains(own)));
                    }
                }
                prop_assert!(bounded.taken() <= most.max(had.len()));
                prop_assert!(bounded.iter().is_sorted_by(|a, b| a.0 < b.0));
                prop_assert_eq!(bounded.iter().map(|(_, value)| value).sum::<u64>() + taken, all);
                let values: Vec<u64> = bounded.iter().map(|(_, value)| *value).collect();
                prop_assert!(bounded.iter_mut().map(|(_, value)| *value).eq(values));
            }
        }
    }
}

//! A map by cgroup id of bounded size: when it is full, the least recently used entry goes.

use std::collections::{BTreeMap, HashMap};

/// The map. Every operation on one entry takes logarithmic time.
#[derive(Debug)]
pub struct Lru<V> {
    capacity: usize,
    /// Stamp of the last use, and the value.
    entries: HashMap<u64, (u64, V)>,
    /// Ids by stamp: the first is the least recently used.
    order: BTreeMap<u64, u64>,
    stamp: u64,
}

impl<V> Lru<V> {
    /// An empty map of at most `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), order: BTreeMap::new(), stamp: 0 }
    }

    /// The value of an id, which counts as a use.
    pub fn get(&mut self, id: u64) -> Option<&mut V> {
        let (stamp, value) = self.entries.get_mut(&id)?;
        self.stamp += 1;
        self.order.remove(stamp);
        self.order.insert(self.stamp, id);
        *stamp = self.stamp;
        Some(value)
    }

    /// The value of an id, which does not count as a use.
    pub fn peek(&mut self, id: u64) -> Option<&mut V> {
        self.entries.get_mut(&id).map(|(_, value)| value)
    }

    /// Adds or replaces an entry, which counts as a use.
    pub fn insert(&mut self, id: u64, value: V) {
        self.remove(id);
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.entries.remove(&oldest);
        }
        self.stamp += 1;
        self.order.insert(self.stamp, id);
        self.entries.insert(id, (self.stamp, value));
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: u64) {
        if let Some((stamp, _)) = self.entries.remove(&id) {
            self.order.remove(&stamp);
        }
    }

    /// Keeps the entries that the test holds for.
    pub fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        let order = &mut self.order;
        self.entries.retain(|_, (stamp, value)| {
            let kept = keep(value);
            if !kept {
                order.remove(stamp);
            }
            kept
        });
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether one more entry would push another out.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn the_least_recently_used_goes() {
        let mut map = Lru::new(2);
        map.insert(1, 'a');
        map.insert(2, 'b');
        assert_eq!(map.get(1), Some(&mut 'a'));
        assert_eq!(map.peek(2), Some(&mut 'b'));
        map.insert(3, 'c');
        assert_eq!(map.peek(1), Some(&mut 'a'));
        assert_eq!(map.peek(2), None);
        assert_eq!(map.len(), 2);
        map.insert(3, 'd');
        assert_eq!((map.peek(3).copied(), map.len()), (Some('d'), 2));
    }

    #[test]
    fn what_is_taken_out_leaves_no_trace() {
        let mut map = Lru::new(4);
        for id in 0..10_000 {
            map.insert(id, id);
            map.get(id / 2);
        }
        assert!(map.is_full());
        map.retain(|value| value % 2 == 0);
        map.remove(9_998);
        assert_eq!(map.entries.len(), map.order.len());
        assert!(map.len() < 4);
    }

    #[test]
    fn no_room_at_all_is_no_error() {
        let mut map = Lru::new(0);
        map.insert(1, ());
        assert_eq!(map.len(), 0);
    }
}

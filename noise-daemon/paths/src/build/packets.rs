//! Packets on their way, from the worker that sent them.

use std::collections::{HashMap, VecDeque};

use crate::graph::Place;

/// Packets whose arrival is waited for; the oldest are given up first.
const MAX_PACKETS: usize = 65_536;

/// Packets that were seen when they were sent.
#[derive(Debug, Default)]
pub struct Packets {
    /// Who sent it, and its number.
    on_the_way: HashMap<u64, (Place, u64)>,
    /// Their keys and numbers, the oldest first; those that arrived are still in it until they are the oldest.
    order: VecDeque<(u64, u64)>,
    count: u64,
}

impl Packets {
    /// One was sent. The latest of a key counts: earlier ones were lost, and are sent again.
    pub fn sent(&mut self, key: u64, from: Place) {
        self.count += 1;
        self.on_the_way.insert(key, (from, self.count));
        self.order.push_back((key, self.count));
        while self.order.len() > MAX_PACKETS {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.on_the_way.get(&oldest).is_some_and(|(_, latest)| *latest == number) {
                self.on_the_way.remove(&oldest);
            }
        }
    }

    /// One arrived.
    pub fn received(&mut self, key: u64) -> Option<Place> {
        self.on_the_way.remove(&key).map(|(from, _)| from)
    }
}

//! Sums that do not grow without bound.

use foldhash::HashMap;
use noise_common::charge::Cause;
use serde::Serialize;

use crate::event::Comm;

/// Culprits of one thread that are kept apart.
const MAX_PARTIES: usize = 65_536;
/// Culprits of all threads that are kept apart. 35,600 events of 8,900 threads in turn reach that, and take 352 MB in all.
pub const MOST_PARTIES: usize = 1 << 21;

/// Who took a part of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// A thread, or an idle task.
    Thread {
        /// Which of the two.
        cause: Cause,
        tid: i32,
    },
    /// An interrupt, or an unknown cause.
    Other {
        cause: Cause,
        /// Which one: irq, vector.
        source: u64,
    },
}

/// Up to as many are searched one by one: faster than a hash, and most waits have no more.
const SEARCHED: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct Sums {
    parts: Vec<(Party, Comm, u64)>,
    /// Places in that list, where it is longer than [`SEARCHED`].
    places: HashMap<Party, u32>,
    /// It takes no more parties.
    is_closed: bool,
}

impl Sums {
    /// From now on, parties that are not there yet count as untracked.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Forgets all parts, and keeps their memory where that is little.
    pub fn clear(&mut self) {
        if self.parts.len() > SEARCHED {
            *self = Self::default();
        }
        self.parts.clear();
        self.is_closed = false;
    }

    fn find(&mut self, party: Party) -> Option<&mut (Party, Comm, u64)> {
        if self.parts.len() <= SEARCHED {
            return self.parts.iter_mut().find(|(known, _, _)| *known == party);
        }
        self.parts.get_mut(*self.places.get(&party)? as usize)
    }

    /// Adds a part. Beyond the bound it counts as untracked.
    pub fn add(&mut self, party: Party, comm: Comm, ns: u64) {
        if let Some((_, name, sum)) = self.find(party) {
            *name = comm;
            *sum = sum.saturating_add(ns);
            return;
        }
        let untracked = Party::Other { cause: Cause::Untracked, source: 0 };
        let is_full = self.is_closed || self.parts.len() >= MAX_PARTIES;
        if is_full && party != untracked {
            return self.add(untracked, comm, ns);
        }
        self.parts.push((party, comm, ns));
        let unplaced = match self.parts.len() {
            ..=SEARCHED => self.parts.len(),
            length if length == SEARCHED + 1 => 0,
            length => length - 1,
        };
        for (place, (party, _, _)) in (0..).zip(&self.parts).skip(unplaced) {
            self.places.insert(*party, place);
        }
    }

    /// Adds all parts of another one, the largest first: at the bound the small ones lose their names.
    pub fn add_all(&mut self, other: &Self) {
        if !self.is_closed && self.parts.len() + other.parts.len() > MAX_PARTIES {
            for (party, comm, ns) in other.sorted() {
                self.add(party, comm, ns);
            }
            return;
        }
        for (party, comm, ns) in &other.parts {
            self.add(*party, *comm, *ns);
        }
    }

    /// Time that no cause is known for.
    pub fn untracked_ns(&self) -> u64 {
        let untracked = Party::Other { cause: Cause::Untracked, source: 0 };
        self.parts.iter().find(|(party, _, _)| *party == untracked).map_or(0, |(_, _, ns)| *ns)
    }

    /// All, the largest first.
    pub fn sorted(&self) -> Vec<(Party, Comm, u64)> {
        let mut all = self.parts.clone();
        all.sort_by(|one, other| other.2.cmp(&one.2).then(one.0.cmp(&other.0)));
        all
    }
}

/// Number, sum and largest of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub count: u64,
    /// All together, nanoseconds.
    pub sum_ns: u64,
    pub max_ns: u64,
}

impl Spread {
    pub fn add(&mut self, ns: u64) {
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all of another one.
    pub fn add_all(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

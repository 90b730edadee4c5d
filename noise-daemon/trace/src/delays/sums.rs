//! Sums that do not grow without bound.

use std::collections::HashMap;

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

#[derive(Clone, Debug, Default)]
pub struct Sums {
    parties: HashMap<Party, (Comm, u64)>,
    /// It takes no more parties.
    is_closed: bool,
}

impl Sums {
    /// From now on, parties that are not there yet count as untracked.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    pub fn count(&self) -> usize {
        self.parties.len()
    }

    /// Adds a part. Beyond the bound it counts as untracked.
    pub fn add(&mut self, party: Party, comm: Comm, ns: u64) {
        let has_room = !self.is_closed && self.parties.len() < MAX_PARTIES;
        let is_full = !has_room && !self.parties.contains_key(&party);
        let party = match is_full {
            true => Party::Other { cause: Cause::Untracked, source: 0 },
            false => party,
        };
        let (name, sum) = self.parties.entry(party).or_default();
        *name = comm;
        *sum = sum.saturating_add(ns);
    }

    /// Adds all parts of another one, the largest first: at the bound the small ones lose their names.
    pub fn add_all(&mut self, other: &Self) {
        if !self.is_closed && self.parties.len() + other.parties.len() > MAX_PARTIES {
            for (party, comm, ns) in other.sorted() {
                self.add(party, comm, ns);
            }
            return;
        }
        for (party, (comm, ns)) in &other.parties {
            self.add(*party, *comm, *ns);
        }
    }

    /// Time that no cause is known for.
    pub fn untracked_ns(&self) -> u64 {
        let untracked = Party::Other { cause: Cause::Untracked, source: 0 };
        self.parties.get(&untracked).map_or(0, |(_, ns)| *ns)
    }

    /// All, the largest first.
    pub fn sorted(&self) -> Vec<(Party, Comm, u64)> {
        let mut all: Vec<_> =
            self.parties.iter().map(|(party, (comm, ns))| (*party, *comm, *ns)).collect();
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

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
    Thread { cause: Cause, tid: i32 },
    /// An interrupt, or an unknown cause.
    Other {
        cause: Cause,
        /// Which one: irq, vector.
        source: u64,
    },
}

/// Up to as many are searched one by one: faster than a hash, and most waits have no more.
const SEARCHED: usize = 8;

const UNTRACKED: Party = Party::Other { cause: Cause::Untracked, source: 0 };

#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// All of them, up to [`SEARCHED`].
    few: Vec<(Party, Comm, u64)>,
    /// All of them, where there are more.
    many: HashMap<Party, (Comm, u64)>,
    is_closed: bool,
}

impl Sums {
    /// From now on, parties that are not there yet count as untracked.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    pub fn count(&self) -> usize {
        self.few.len() + self.many.len()
    }

    /// Forgets all parts, and keeps their memory where that is little.
    pub fn clear(&mut self) {
        self.few.clear();
        self.many = HashMap::default();
        self.is_closed = false;
    }

    fn find(&mut self, party: Party) -> Option<(&mut Comm, &mut u64)> {
        if self.many.is_empty() {
            let found = self.few.iter_mut().find(|(known, _, _)| *known == party);
            return found.map(|(_, comm, ns)| (comm, ns));
        }
        self.many.get_mut(&party).map(|(comm, ns)| (comm, ns))
    }

    /// Adds a part. Beyond the bound it counts as untracked.
    pub fn add(&mut self, party: Party, comm: Comm, ns: u64) {
        if let Some((name, sum)) = self.find(party) {
            *name = comm;
            *sum = sum.saturating_add(ns);
            return;
        }
        let is_full = self.is_closed || self.count() >= MAX_PARTIES;
        if is_full && party != UNTRACKED {
            return self.add(UNTRACKED, comm, ns);
        }
        if self.many.is_empty() && self.few.len() < SEARCHED {
            self.few.push((party, comm, ns));
        } else {
            let few = std::mem::take(&mut self.few).into_iter().chain([(party, comm, ns)]);
            self.many.extend(few.map(|(party, comm, ns)| (party, (comm, ns))));
        }
    }

    /// Adds all parts of another one, the largest first: at the bound the small ones lose their names.
    pub fn add_all(&mut self, other: &Self) {
        if !self.is_closed && self.count() + other.count() > MAX_PARTIES {
            for (party, comm, ns) in other.sorted() {
                self.add(party, comm, ns);
            }
            return;
        }
        other.each().for_each(|(party, comm, ns)| self.add(party, comm, ns));
    }

    /// Time that no cause is known for.
    pub fn untracked_ns(&self) -> u64 {
        self.each().find(|(party, _, _)| *party == UNTRACKED).map_or(0, |(_, _, ns)| ns)
    }

    fn each(&self) -> impl Iterator<Item = (Party, Comm, u64)> {
        let many = self.many.iter().map(|(party, (comm, ns))| (*party, *comm, *ns));
        self.few.iter().copied().chain(many)
    }

    /// All, the largest first.
    pub fn sorted(&self) -> Vec<(Party, Comm, u64)> {
        let mut all: Vec<_> = self.each().collect();
        all.sort_by(|one, other| other.2.cmp(&one.2).then(one.0.cmp(&other.0)));
        all
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub count: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
}

impl Spread {
    pub fn add(&mut self, ns: u64) {
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn add_all(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

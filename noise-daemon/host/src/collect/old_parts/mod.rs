//! Divides what ledgers have forgotten: the part of a long wait that is older than the turns which its CPU
//! remembers. The programs send it as a record instead of charging it, and the turns are taken from the event
//! store, where they go back further.
//!
//! While a CPU has such waits, its events are followed, before newer ones overwrite them, into a [`History`]
//! that takes less memory. All records that were read by a sample are divided for it: what it has sums to the
//! waits, and nothing that was charged is taken back. What is not known by then is charged to `untracked`, and
//! counted.

mod culprits;
mod follower;
mod history;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noise_common::WINDOW_NS;
use noise_common::charge::{Cause, ChargeKey, ROOT_CGROUP, Resource};
use noise_common::record::OldPart;

use self::culprits::{Culprits, TurnOwner, UNKNOWN};
use self::follower::Follower;
use super::states::CpuStates;
use crate::kernel::EventStore;
use crate::resolve::TaskSubject;

/// For how long a CPU is followed after the latest of its waits, ns.
const FOLLOWED_NS: u64 = 2_000_000_000;
/// Waits that are divided in one window, a microsecond or two each.
const MOST_PARTS: usize = 16_384;
/// Events that are read in one window, some 30 ns each.
const MOST_EVENTS: usize = 1 << 20;
/// Threads that are looked up in one window, some 20 us each.
const MOST_LOOKUPS: usize = 256;
/// Memory for the turns of all CPUs, bytes.
const MOST_TURN_BYTES: usize = 4 << 20;
/// Events that are so young may not all be there, ns: a writer that was interrupted comes later.
const UNSETTLED_NS: u64 = 200_000;

/// What may still be done in the window that lasts.
#[derive(Clone, Copy, Debug)]
struct WindowBudget {
    window: u64,
    parts: usize,
    events: usize,
    lookups: usize,
}

impl WindowBudget {
    fn at(self, now_ns: u64) -> Self {
        let window = now_ns / WINDOW_NS;
        if window == self.window {
            return self;
        }
        Self::of(window)
    }

    const fn of(window: u64) -> Self {
        Self { window, parts: MOST_PARTS, events: MOST_EVENTS, lookups: MOST_LOOKUPS }
    }
}

/// The old parts of waits on all CPUs.
pub struct OldParts {
    events: Option<Arc<Mutex<EventStore>>>,
    /// Records that were read and are to divide.
    pending: Vec<OldPart>,
    culprits: Culprits,
    cpus: BTreeMap<u32, Follower>,
    /// From when on events are written without a pause, ns.
    whole_since_ns: u64,
    budget: WindowBudget,
    undivided: u64,
}

/// Takes what is charged.
pub trait Charging {
    fn charge(&mut self, key: ChargeKey, ns: u64);
}

impl OldParts {
    /// Those to divide from the events of a store, where there is one.
    pub fn new(events: Option<Arc<Mutex<EventStore>>>) -> Self {
        Self {
            events,
            pending: Vec::new(),
            culprits: Culprits::default(),
            cpus: BTreeMap::new(),
            whole_since_ns: 0,
            budget: WindowBudget::of(0),
            undivided: 0,
        }
    }

    /// Waits of which some was charged to `untracked`: the events did not go back far enough, a thread was not
    /// known, or there were too many.
    pub fn undivided(&self) -> u64 {
        self.undivided
    }

    /// Events may have been switched off or on: those from before say nothing about what follows.
    pub fn begin_anew(&mut self, now_ns: u64) {
        self.whole_since_ns = now_ns;
        self.forget();
    }

    fn forget(&mut self) {
        self.cpus = BTreeMap::new();
        self.culprits = Culprits::default();
    }

    /// Takes a record of the ring.
    pub fn take(&mut self, record: OldPart) {
        self.pending.push(record);
    }

    /// Divides what was taken, and charges it: `all` of it, or that of CPUs whose events will be overwritten
    /// soon, for each reading has its cost. Threads that neither a ledger nor a wait shows are looked up.
    pub fn divide(
        &mut self,
        all: bool,
        states: &CpuStates,
        now_ns: u64,
        look_up: impl Fn(u32) -> Option<TaskSubject>,
        charging: &mut impl Charging,
    ) {
        if self.pending.is_empty() && self.cpus.is_empty() {
            return;
        }
        self.budget = self.budget.at(now_ns);
        for record in &self.pending {
            let cpu = self.cpus.entry(record.header.cpu.into()).or_default();
            cpu.wanted_ns = now_ns;
        }
        self.cpus.retain(|_, cpu| cpu.wanted_ns.saturating_add(FOLLOWED_NS) > now_ns);
        if self.culprits.is_full() {
            let turns = self.cpus.values().flat_map(|cpu| cpu.history.culprits());
            let new = self.culprits.renumber(turns);
            self.cpus.values_mut().for_each(|cpu| cpu.history.renumber(&new));
        }
        // No more than that may wait.
        let all = all || self.pending.len() >= MOST_PARTS;
        let due = self.follow(all, states, now_ns);
        let strangers = self.culprits.strangers(self.budget.lookups);
        self.budget.lookups -= strangers.len();
        for tid in strangers {
            let who = look_up(tid).map(|task| match task {
                TaskSubject::Kernel => TurnOwner::kernel_thread(tid),
                TaskSubject::Of(cgroup) => TurnOwner::task(cgroup),
            });
            if let Some(who) = who {
                self.culprits.seen(tid, who, now_ns);
            }
        }
        let mut shares = Vec::new();
        let (now, later) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|record| due.contains(&u32::from(record.header.cpu)));
        self.pending = later;
        let now: Vec<OldPart> = now;
        for record in now {
            let is_affordable = self.budget.parts > 0;
            self.budget.parts = self.budget.parts.saturating_sub(1);
            match self.cpus.get(&u32::from(record.header.cpu)).filter(|_| is_affordable) {
                Some(cpu) => cpu.history.divide(&record.part, &mut shares),
                None => shares = vec![record.part.left_ns],
            }
            self.charge(&record, &shares, charging);
        }
        if self.cpus.is_empty() {
            self.forget();
            noise_system::memory::give_back();
        }
    }

    /// Charges the shares of one wait, which sum to it.
    fn charge(&mut self, record: &OldPart, shares: &[u64], charging: &mut impl Charging) {
        let victim = record.victim;
        let mut untracked_ns = 0;
        for (number, ns) in (UNKNOWN..).zip(shares).filter(|(_, ns)| **ns > 0) {
            match self.culprits.who(number) {
                Some(who) => {
                    let (cause, culprit) = who.blame(victim);
                    charging.charge(key(victim, cause, culprit), *ns);
                }
                None => untracked_ns += ns,
            }
        }
        if untracked_ns > 0 {
            self.undivided += 1;
            charging.charge(key(victim, Cause::Untracked, 0), untracked_ns);
        }
    }

    /// Learns who threads are: those that waited, and those whose turns the ledgers have.
    fn learn(&mut self, cpus: &BTreeSet<u32>, states: &CpuStates) {
        for cpu in cpus {
            for turn in states.turns(*cpu as usize) {
                self.culprits.seen(turn.pid, TurnOwner::of(&turn), turn.start_ns);
            }
        }
        for OldPart { pid, victim, part, .. } in &self.pending {
            // Kernel threads wait in the name of the root, and are in ledgers themselves.
            if *victim > ROOT_CGROUP {
                self.culprits.seen(*pid, TurnOwner::task(*victim), part.end_ns);
            }
        }
    }

    /// Brings the histories up to date that are due, or `all`; which they are.
    fn follow(&mut self, all: bool, states: &CpuStates, now_ns: u64) -> BTreeSet<u32> {
        let events = self.events.clone();
        let mut events = events.as_deref().map(lock);
        let is_due = |cpu: u32, follower: &Follower| {
            all || events.as_ref().is_none_or(|events| follower.is_due(cpu, events))
        };
        let due = self.cpus.iter().filter(|(cpu, follower)| is_due(**cpu, follower));
        let due: BTreeSet<u32> = due.map(|(cpu, _)| *cpu).collect();
        self.learn(&due, states);
        let Some(events) = &mut events else { return due };
        let until_ns = now_ns.saturating_sub(UNSETTLED_NS);
        for (number, cpu) in self.cpus.iter_mut().filter(|(cpu, _)| due.contains(cpu)) {
            let most = self.budget.events;
            if most == 0 {
                break;
            }
            let span = self.whole_since_ns..until_ns;
            match cpu.follow(*number, events, span, most, &mut self.culprits) {
                Ok(read) => self.budget.events = most.saturating_sub(read),
                Err(error) => tracing::debug!(%error, cpu = number, "cannot read events"),
            }
        }
        self.forget_oldest();
        due
    }

    /// Forgets the oldest turns, whichever CPU they are of, where all of them take too much memory.
    fn forget_oldest(&mut self) {
        while self.cpus.values().map(|cpu| cpu.history.bytes()).sum::<usize>() > MOST_TURN_BYTES {
            let histories = self.cpus.values_mut().map(|cpu| &mut cpu.history);
            let oldest = histories.filter(|one| one.is_long()).min_by_key(|one| one.since_ns());
            let Some(oldest) = oldest else { break };
            oldest.forget();
        }
    }
}

fn lock(events: &Mutex<EventStore>) -> MutexGuard<'_, EventStore> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(victim: u64, cause: Cause, culprit: u64) -> ChargeKey {
    let (cause, resource) = (cause as u8, Resource::Cpu as u8);
    ChargeKey { victim, culprit, place: 0, cause, resource, used: 1 }
}

#[cfg(test)]
mod tests;

//! The turns of one CPU, made of its events by the arithmetic of [`noise_common`], further back than its ledger
//! goes. Computes only. Events are read as they lie in the store: the model, with its names, is above this crate.
//!
//! A turn is kept with what interrupts had taken by its begin, as in the ledger, and every [`BLOCK`] turns
//! with the time that each culprit has had until then. So the part of a wait that a ledger has forgotten is
//! divided in a few hundred steps, however many turns it spans.

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

use std::collections::VecDeque;

use noise_common::ledger::Forgotten;
use noise_common::nesting::{MAX_NMI_NS, Nesting};
use noise_common::store::{EventKind, StoredEvent};

use super::culprits::{Culprits, UNKNOWN};

/// Turns of one block.
const BLOCK: usize = 256;

/// A turn; it lasts until the next one begins.
#[derive(Clone, Copy, Debug)]
struct PackedTurn {
    /// Its begin, ns after that of the block.
    start: u32,
    /// What interrupts had taken by then, ns more than at the begin of the block.
    taken: u32,
    /// The number of its culprit.
    who: u32,
}

#[derive(Debug)]
struct TurnBlock {
    start_ns: u64,
    taken_ns: u64,
    turns: Vec<PackedTurn>,
    /// Time that each culprit has had before, ns.
    before: Vec<u64>,
}

impl TurnBlock {
    /// Begin of a turn, and what interrupts had taken by then.
    fn begin(&self, turn: &PackedTurn) -> (u64, u64) {
        (self.start_ns + u64::from(turn.start), self.taken_ns + u64::from(turn.taken))
    }

    /// Time of the turns up to one of them, with their culprits, ns.
    fn until(&self, index: usize) -> impl Iterator<Item = (u32, u64)> {
        let own = self.turns.iter().zip(self.turns.iter().skip(1)).take(index);
        own.map(|(turn, next)| {
            let taken = next.taken.saturating_sub(turn.taken);
            (turn.who, u64::from(next.start.saturating_sub(turn.start).saturating_sub(taken)))
        })
    }

    fn bytes(&self) -> usize {
        BLOCK * size_of::<PackedTurn>() + self.before.len() * size_of::<u64>()
    }
}

/// A turn, by its block and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TurnIndex {
    block: usize,
    index: usize,
}

/// The turns of one CPU.
#[derive(Debug, Default)]
pub struct History {
    nesting: Nesting,
    blocks: VecDeque<TurnBlock>,
    /// Time that each culprit has had, the turn that lasts apart, ns.
    sums: Vec<u64>,
    /// The latest event, ns.
    last_ns: u64,
}

impl History {
    /// Takes the next event, in the order of time.
    pub fn follow(&mut self, event: &StoredEvent, culprits: &mut Culprits) {
        let now_ns = event.time_ns.max(self.last_ns);
        self.last_ns = now_ns;
        let nesting = &mut self.nesting;
        // What has no begin, as after a gap, took nothing that is known.
        let [id, other, ..] = event.numbers();
        let softirq = event.small.into();
        match event.kind() {
            Some(EventKind::Switch) => {
                let who = culprits.of_thread(other, now_ns);
                self.begin_turn(who, now_ns);
            }
            Some(EventKind::Fork) => culprits.forked(id, other, now_ns),
            Some(EventKind::Exit) => culprits.ended(id),
            Some(EventKind::IrqEntry) => {
                let _ = nesting.enter_irq(id, now_ns);
            }
            Some(EventKind::IrqExit) => {
                let _ = nesting.exit_irq(id, now_ns);
            }
            Some(EventKind::VectorEntry) => {
                if let Some(vector) = event.vector() {
                    nesting.enter_vector(vector, now_ns);
                }
            }
            Some(EventKind::VectorExit) => {
                let _ = nesting.exit_vector(now_ns);
            }
            Some(EventKind::SoftirqEntry) => nesting.enter_softirq(softirq, now_ns),
            Some(EventKind::SoftirqExit) => {
                let _ = nesting.exit_softirq(softirq, now_ns);
            }
            Some(EventKind::Nmi) => nesting.handled_nmi(event.words[0].min(MAX_NMI_NS)),
            _ => {}
        }
    }

    /// Events are missing behind the latest one: up to the next switch, it is not known who runs.
    pub fn miss(&mut self) {
        let taken = self.nesting.taken_by(self.last_ns);
        self.nesting = Nesting::default();
        self.nesting.taken = taken;
        if !self.blocks.is_empty() {
            self.begin_turn(UNKNOWN, self.last_ns);
        }
    }

    fn begin_turn(&mut self, who: u32, now_ns: u64) {
        // As the ledger has it: of interrupts that ended. One whose end was not written takes no turn's time.
        let taken_ns = self.nesting.taken.all_ns();
        if let Some(block) = self.blocks.back_mut()
            && let Some(last) = block.turns.last()
        {
            let (start_ns, before_ns) = block.begin(last);
            // What is subtracted here is what the turns say afterwards.
            let taken_ns = taken_ns.max(before_ns);
            let own_ns = (now_ns - start_ns).saturating_sub(taken_ns - before_ns);
            let number = last.who as usize;
            if number >= self.sums.len() {
                self.sums.resize(number + 1, 0);
            }
            if let Some(sum) = self.sums.get_mut(number) {
                *sum += own_ns;
            }
            let start = u32::try_from(now_ns - block.start_ns);
            let taken = u32::try_from(taken_ns - block.taken_ns);
            if let (Ok(start), Ok(taken)) = (start, taken)
                && block.turns.len() < BLOCK
            {
                block.turns.push(PackedTurn { start, taken, who });
                return;
            }
        }
        let mut turns = Vec::with_capacity(BLOCK);
        turns.push(PackedTurn { start: 0, taken: 0, who });
        let before = self.sums.clone();
        self.blocks.push_back(TurnBlock { start_ns: now_ns, taken_ns, turns, before });
    }

    /// Culprits have new numbers, by their old ones. Those that have no turns here may have none.
    pub fn renumber(&mut self, new: &[u32]) {
        let number = |old: u32| new.get(old as usize).copied().unwrap_or(UNKNOWN);
        let fold = |sums: &mut Vec<u64>| {
            let mut folded = Vec::new();
            for (old, ns) in (0..).zip(sums.iter()) {
                give(&mut folded, number(old), *ns);
            }
            *sums = folded;
        };
        fold(&mut self.sums);
        for block in &mut self.blocks {
            fold(&mut block.before);
            block.turns.iter_mut().for_each(|turn| turn.who = number(turn.who));
        }
    }

    /// The numbers of the culprits that have turns, once for each turn.
    pub fn culprits(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().flat_map(|block| block.turns.iter().map(|turn| turn.who))
    }

    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(TurnBlock::bytes).sum()
    }

    /// Begin of the oldest turn, ns.
    pub fn since_ns(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.start_ns)
    }

    /// Whether there are turns that it can forget.
    pub fn is_long(&self) -> bool {
        self.blocks.len() > 1
    }

    /// Forgets the oldest turns, but not the latest.
    pub fn forget(&mut self) {
        if self.is_long() {
            self.blocks.pop_front();
        }
    }

    fn begin(&self, place: TurnIndex) -> Option<u64> {
        let block = self.blocks.get(place.block)?;
        Some(block.begin(block.turns.get(place.index)?).0)
    }

    /// The first turn that `is_late` holds of, as it does of all later ones; else the place behind the last.
    fn first(&self, is_late: impl Fn(u64) -> bool) -> TurnIndex {
        let block = self.blocks.partition_point(|block| !is_late(block.start_ns)).saturating_sub(1);
        let Some(found) = self.blocks.get(block) else { return TurnIndex { block, index: 0 } };
        let index = found.turns.partition_point(|turn| !is_late(found.begin(turn).0));
        match index < found.turns.len() || block + 1 == self.blocks.len() {
            true => TurnIndex { block, index },
            false => TurnIndex { block: block + 1, index: 0 },
        }
    }

    /// The turn before one.
    fn before(&self, place: TurnIndex) -> Option<TurnIndex> {
        if let Some(index) = place.index.checked_sub(1) {
            return Some(TurnIndex { index, ..place });
        }
        let block = place.block.checked_sub(1)?;
        Some(TurnIndex { block, index: self.blocks.get(block)?.turns.len().checked_sub(1)? })
    }

    /// Adds (or takes away) the time of all turns before a place.
    fn sum(&self, place: TurnIndex, shares: &mut [u64], add: bool) {
        let Some(block) = self.blocks.get(place.block) else { return };
        let mut change = |who: usize, ns: u64| {
            if let Some(share) = shares.get_mut(who) {
                *share = if add { share.wrapping_add(ns) } else { share.wrapping_sub(ns) };
            }
        };
        block.before.iter().enumerate().for_each(|(who, ns)| change(who, *ns));
        block.until(place.index).for_each(|(who, ns)| change(who as usize, ns));
    }

    /// Turns from a place on, with their own time, until `take` has enough.
    fn walk(&self, from: TurnIndex, mut take: impl FnMut(u32, u64) -> bool) {
        let blocks = self.blocks.iter().zip(self.blocks.iter().skip(1).map(Some).chain([None]));
        let mut skip = from.index;
        for (block, next) in blocks.skip(from.block) {
            // The last turn of a block ends with the first of the next one.
            let last = block.turns.last().zip(next).map(|(turn, next)| {
                let (start_ns, taken_ns) = block.begin(turn);
                let taken_ns = next.taken_ns.saturating_sub(taken_ns);
                (turn.who, (next.start_ns - start_ns).saturating_sub(taken_ns))
            });
            for (who, ns) in block.until(block.turns.len()).chain(last).skip(skip) {
                if !take(who, ns) {
                    return;
                }
            }
            skip = 0;
        }
    }

    /// Divides the part of a wait that a ledger has forgotten: into `shares` goes the time of each culprit, by
    /// number, ns. They sum to what is to divide; what is not known is with [`UNKNOWN`].
    ///
    /// Where turns took more time than there is to divide, the hypervisor took some, of which there are no
    /// events: then what is not known gives way, and the oldest turns, as in the ledger.
    pub fn divide(&self, part: &Forgotten, shares: &mut Vec<u64>) {
        shares.clear();
        shares.resize(self.sums.len().max(1), 0);
        let end = self.first(|start_ns| start_ns >= part.end_ns);
        if self.begin(end) != Some(part.end_ns) {
            return give(shares, UNKNOWN, part.left_ns);
        }
        let first = self.first(|start_ns| start_ns > part.since_ns).min(end);
        self.sum(end, shares, true);
        self.sum(first, shares, false);
        let whole_ns = shares.iter().fold(0, |sum: u64, share| sum.saturating_add(*share));
        let mut excess_ns = whole_ns.saturating_sub(part.left_ns);
        excess_ns -= take(shares, UNKNOWN, excess_ns);
        if excess_ns > 0 {
            self.walk(first, |who, ns| {
                excess_ns -= take(shares, who, excess_ns.min(ns));
                excess_ns > 0
            });
        }
        // The turn in which the wait began has what is left, at most all of the time.
        let left_ns = part.left_ns.saturating_sub(whole_ns);
        let oldest = self.before(first).zip(self.begin(first));
        let own_ns =
            oldest.map_or(0, |(_, end_ns)| left_ns.min(end_ns.saturating_sub(part.since_ns)));
        if let Some((place, _)) = oldest
            && let Some(turn) =
                self.blocks.get(place.block).and_then(|block| block.turns.get(place.index))
        {
            give(shares, turn.who, own_ns);
        }
        give(shares, UNKNOWN, left_ns - own_ns);
    }
}

fn give(shares: &mut Vec<u64>, who: u32, ns: u64) {
    let number = who as usize;
    if number >= shares.len() {
        shares.resize(number + 1, 0);
    }
    if let Some(share) = shares.get_mut(number) {
        *share += ns;
    }
}

/// Takes at most `ns` from a share; how much that was.
fn take(shares: &mut [u64], who: u32, ns: u64) -> u64 {
    let Some(share) = shares.get_mut(who as usize) else { return 0 };
    let taken_ns = ns.min(*share);
    *share -= taken_ns;
    taken_ns
}

#[cfg(test)]
mod tests;

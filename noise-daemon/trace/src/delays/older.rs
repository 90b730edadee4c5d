//! The turns of one CPU that its ledger has forgotten: what waits that are longer than its memory are
//! divided among.
//!
//! Turns are kept in blocks, each with the time that every party has had before it. So the old part of a wait
//! is divided in a few hundred steps, however many turns it spans.

use std::collections::VecDeque;

use foldhash::HashMap;
use noise_common::ledger::Forgotten;

use super::sums::{Party, Sums};
use crate::event::Comm;

/// Turns of one block.
const BLOCK: usize = 256;
/// Parties that are kept apart: where there are more, all is forgotten.
const MAX_PARTIES: usize = 8192;

/// How long parties had the CPU, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    whole: u64,
    /// Without what interrupts took.
    net: u64,
}

impl Had {
    const fn ns(self, is_net: bool) -> u64 {
        if is_net { self.net } else { self.whole }
    }
}

#[derive(Clone, Copy, Debug)]
struct PartyTurn {
    start_ns: u64,
    had: Had,
    party: u32,
}

#[derive(Debug)]
struct LedgerBlock {
    turns: Vec<PartyTurn>,
    /// By number of the party, what it had had by its begin.
    before: Vec<Had>,
}

impl LedgerBlock {
    fn bytes(&self) -> usize {
        BLOCK * size_of::<PartyTurn>() + self.before.len() * size_of::<Had>()
    }

    fn start_ns(&self) -> u64 {
        self.turns.first().map_or(u64::MAX, |turn| turn.start_ns)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Over {
    pub party: Party,
    pub comm: Comm,
    /// From then on, ns.
    pub start_ns: u64,
    pub end_ns: u64,
    /// How much of that interrupts took, ns.
    pub taken_ns: u64,
}

/// The turns, in the order of time and without gaps.
#[derive(Debug, Default)]
pub struct Older {
    blocks: VecDeque<LedgerBlock>,
    bytes: usize,
    numbers: HashMap<Party, u32>,
    /// By number: the party with its latest name, and what it has had so far.
    parties: Vec<(Party, Comm, Had)>,
}

impl Older {
    /// Takes the next turn; all take no more than about so many bytes.
    pub fn push(&mut self, over: Over, most_bytes: usize) {
        let number = match self.numbers.get(&over.party) {
            Some(number) => *number,
            None => {
                if self.parties.len() >= MAX_PARTIES {
                    *self = Self::default();
                }
                let number = self.parties.len() as u32;
                self.numbers.insert(over.party, number);
                self.parties.push((over.party, over.comm, Had::default()));
                number
            }
        };
        if self.blocks.back().is_none_or(|block| block.turns.len() >= BLOCK) {
            let before = self.parties.iter().map(|(_, _, had)| *had).collect();
            let block = LedgerBlock { turns: Vec::with_capacity(BLOCK), before };
            self.bytes += block.bytes();
            self.blocks.push_back(block);
            while self.bytes > most_bytes
                && self.blocks.len() > 1
                && let Some(first) = self.blocks.pop_front()
            {
                self.bytes -= first.bytes();
            }
        }
        let whole = over.end_ns.saturating_sub(over.start_ns);
        let had = Had { whole, net: whole.saturating_sub(over.taken_ns) };
        if let Some((_, comm, sum)) = self.parties.get_mut(number as usize) {
            *comm = over.comm;
            sum.whole = sum.whole.saturating_add(had.whole);
            sum.net = sum.net.saturating_add(had.net);
        }
        if let Some(block) = self.blocks.back_mut() {
            block.turns.push(PartyTurn { start_ns: over.start_ns, had, party: number });
        }
    }

    /// Divides the old part of a wait, which ends with the latest turn here; what is left of it.
    pub fn divide(&self, old: &Forgotten, is_net: bool, sums: &mut Sums) -> u64 {
        let mut left_ns = old.left_ns;
        let mut add = |number: u32, ns: u64| {
            let ns = ns.min(left_ns);
            if let Some((party, comm, _)) = self.parties.get(number as usize).filter(|_| ns > 0) {
                sums.add(*party, *comm, ns);
                left_ns -= ns;
            }
        };
        // The turn in which the wait began.
        let behind = self.blocks.partition_point(|block| block.start_ns() <= old.since_ns);
        let Some(block) = self.blocks.get(behind.saturating_sub(1)) else { return left_ns };
        let inside = block.turns.partition_point(|turn| turn.start_ns <= old.since_ns);
        let mut until = block.before.clone();
        until.resize(self.parties.len(), Had::default());
        for turn in block.turns.iter().take(inside) {
            if let Some(had) = until.get_mut(turn.party as usize) {
                had.whole = had.whole.saturating_add(turn.had.whole);
                had.net = had.net.saturating_add(turn.had.net);
            }
        }
        for (number, ((_, _, all), until)) in (0..).zip(self.parties.iter().zip(&until)) {
            add(number, all.ns(is_net).saturating_sub(until.ns(is_net)));
        }
        // It has what all turns after it leave.
        if let Some(turn) = inside.checked_sub(1).and_then(|last| block.turns.get(last)) {
            add(turn.party, u64::MAX);
        }
        left_ns
    }
}

#[cfg(test)]
mod tests {
    use noise_common::charge::Cause;

    use super::*;

    fn turn(number: u64) -> Over {
        let tid = (number % 3) as i32;
        let party = Party::Thread { cause: Cause::Foreign, tid };
        let (start_ns, end_ns) = (1000 + 10 * number, 1010 + 10 * number);
        Over { party, comm: Comm::default(), start_ns, end_ns, taken_ns: number % 2 }
    }

    fn divided(older: &Older, since_ns: u64, left_ns: u64, is_net: bool) -> (Vec<u64>, u64) {
        let mut sums = Sums::default();
        let old = Forgotten { since_ns, end_ns: 11_000, left_ns };
        let left_ns = older.divide(&old, is_net, &mut sums);
        let mut parts: Vec<_> =
            sums.sorted().into_iter().map(|(party, _, ns)| (party, ns)).collect();
        parts.sort();
        (parts.into_iter().map(|(_, ns)| ns).collect(), left_ns)
    }

    #[test]
    fn old_parts_are_divided_exactly() {
        let mut older = Older::default();
        (0..1000).for_each(|number| older.push(turn(number), usize::MAX));
        // In the midst of turn 995 of thread 2: 996 to 999 follow.
        assert_eq!(divided(&older, 10_956, 44, false), (vec![20, 10, 14], 0));
        assert_eq!(divided(&older, 10_956, 42, true), (vec![20 - 1, 10 - 1, 10 + 4], 0));
        // All of them, and what was before.
        let (parts, left_ns) = divided(&older, 500, 10_500, false);
        assert_eq!((parts, left_ns), (vec![3340, 3330, 3330], 500));
    }

    #[test]
    fn what_takes_too_much_memory_is_forgotten() {
        let mut older = Older::default();
        (0..1000).for_each(|number| older.push(turn(number), 20_000));
        assert!(older.bytes <= 20_000 && !older.blocks.is_empty());
        let (parts, left_ns) = divided(&older, 1000, 10_000, false);
        assert_eq!(parts.iter().sum::<u64>() + left_ns, 10_000);
        assert!(left_ns > 0);
        let (parts, left_ns) = divided(&older, 10_990, 10, false);
        assert_eq!((parts, left_ns), (vec![10], 0));
    }
}

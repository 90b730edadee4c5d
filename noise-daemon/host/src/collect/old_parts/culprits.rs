//! Who the threads are that events name by their ids: events have no cgroups, charges need them.
//!
//! A thread belongs to the cgroup in which it was seen last, or, where it was not, in which its parent was. Until
//! it is seen, its turns are kept under a number of its own, which gets its culprit later.

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

use std::collections::HashMap;

use noise_common::charge::Cause;
use noise_common::ledger::{COMM_WORDS, Runner, Turn};

/// Numbers that are given before those of one culprit are made one.
const MOST: usize = 4_096;
/// Threads that are known at most.
const MOST_THREADS: usize = 65_536;
/// Parents that are asked for the culprit of a child.
const MOST_ANCESTORS: usize = 16;

/// The number of whoever is not known.
pub const UNKNOWN: u32 = 0;

/// Who had a turn, whoever waited meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnOwner {
    runner: u32,
    /// The cgroup of a task, the thread id of a kernel thread, else 0.
    id: u64,
}

impl TurnOwner {
    pub const fn kernel_thread(tid: u32) -> Self {
        Self { runner: Runner::Kthread as u32, id: tid as u64 }
    }

    pub const fn task(cgroup: u64) -> Self {
        Self { runner: Runner::Task as u32, id: cgroup }
    }

    const IDLE: Self = Self { runner: Runner::Idle as u32, id: 0 };

    pub const fn of(turn: &Turn) -> Self {
        if turn.runner == Runner::Kthread as u32 {
            Self::kernel_thread(turn.pid)
        } else if turn.runner == Runner::Task as u32 {
            Self::task(turn.cgroup)
        } else {
            Self::IDLE
        }
    }

    /// Cause and culprit of what it did to a victim.
    pub fn blame(self, victim: u64) -> (Cause, u64) {
        let Self { runner, id } = self;
        let (cgroup, pid, comm) = (id, id as u32, [0; COMM_WORDS]);
        let turn = Turn { start_ns: 0, taken_ns: 0, cgroup, pid, runner, comm };
        turn.blame(victim, |turn| turn.cgroup)
    }
}

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Unknown,
    Who(TurnOwner),
    /// The same as another number.
    Like(u32),
}

#[derive(Clone, Copy, Debug)]
struct CulpritThread {
    number: u32,
    /// When it was seen, or began, ns.
    at_ns: u64,
    is_begin: bool,
    was_asked_for: bool,
    has_ended: bool,
}

impl CulpritThread {
    fn new(number: u32, at_ns: u64, is_begin: bool) -> Self {
        Self { number, at_ns, is_begin, was_asked_for: false, has_ended: false }
    }
}

/// Culprits by number, and the numbers of threads.
#[derive(Debug)]
pub struct Culprits {
    slots: Vec<Slot>,
    numbers: HashMap<TurnOwner, u32>,
    threads: HashMap<u32, CulpritThread>,
}

impl Default for Culprits {
    fn default() -> Self {
        let slots = vec![Slot::Unknown];
        Self { slots, numbers: HashMap::new(), threads: HashMap::new() }
    }
}

impl Culprits {
    pub fn is_full(&self) -> bool {
        self.slots.len() >= MOST || self.threads.len() >= MOST_THREADS
    }

    /// Gives each culprit that has `turns` or threads one number, and forgets the others, those who are not
    /// known, and the threads that ended: the new numbers of all old ones.
    pub fn renumber(&mut self, turns: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut known: Vec<Option<TurnOwner>> = Vec::with_capacity(self.slots.len());
        known.extend((0..).take(self.slots.len()).map(|old| self.who(old)));
        let is_known = |number: u32| known.get(number as usize).is_some_and(Option::is_some);
        self.threads.retain(|_, thread| is_known(thread.number) && !thread.has_ended);
        if self.threads.len() >= MOST_THREADS / 2 {
            self.threads = HashMap::new();
        }
        let mut is_used = vec![false; known.len()];
        let of_threads = self.threads.values().map(|thread| thread.number);
        for number in turns.chain(of_threads) {
            if let Some(is_used) = is_used.get_mut(number as usize) {
                *is_used = true;
            }
        }
        self.slots.truncate(1);
        self.numbers.clear();
        let used = known.iter().zip(is_used).map(|(who, is_used)| who.filter(|_| is_used));
        let new: Vec<u32> = used.map(|who| who.map_or(UNKNOWN, |who| self.number(who))).collect();
        for thread in self.threads.values_mut() {
            thread.number = new.get(thread.number as usize).copied().unwrap_or(UNKNOWN);
        }
        if self.slots.len() >= MOST / 4 * 3 {
            // They are seen again. The next time, culprits without turns make room.
            self.threads = HashMap::new();
        }
        new
    }

    fn add(&mut self, slot: Slot) -> u32 {
        if self.slots.len() >= MOST {
            return UNKNOWN;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    fn number(&mut self, who: TurnOwner) -> u32 {
        if let Some(number) = self.numbers.get(&who) {
            return *number;
        }
        let number = self.add(Slot::Who(who));
        if number != UNKNOWN {
            self.numbers.insert(who, number);
        }
        number
    }

    /// A thread was seen with its culprit at a time. Where it was seen later already, that counts, and where it
    /// began later, it was another one.
    pub fn seen(&mut self, tid: u32, who: TurnOwner, at_ns: u64) {
        if let Some(known) = self.threads.get(&tid).copied() {
            if at_ns == known.at_ns && self.who(known.number) == Some(who) {
                // The same sight again, as of a turn that a ledger still has.
                return;
            }
            let is_later = at_ns >= known.at_ns;
            let slot = self.slots.get_mut(known.number as usize);
            match slot.filter(|_| known.number != UNKNOWN) {
                // It was not seen before: what it did is that culprit's, too.
                Some(slot @ Slot::Unknown) if is_later || !known.is_begin => *slot = Slot::Who(who),
                Some(slot @ Slot::Like(_)) if is_later => *slot = Slot::Who(who),
                _ if is_later => {}
                _ => return,
            }
        }
        let number = self.number(who);
        self.insert(tid, CulpritThread::new(number, at_ns, false));
    }

    fn insert(&mut self, tid: u32, thread: CulpritThread) {
        if self.threads.len() < MOST_THREADS || self.threads.contains_key(&tid) {
            self.threads.insert(tid, thread);
        }
    }

    /// A thread ends; it may run for a moment still.
    pub fn ended(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.has_ended = true;
        }
    }

    /// A thread was created: until it is seen, it is what its parent is, unless that is a kernel thread, each of
    /// which is a culprit of its own.
    pub fn forked(&mut self, parent: u32, child: u32, at_ns: u64) {
        let of_parent = self.threads.get(&parent).map_or(UNKNOWN, |thread| thread.number);
        let is_kernel = self.who(of_parent).is_some_and(|who| who.runner == Runner::Kthread as u32);
        let slot =
            if is_kernel || of_parent == UNKNOWN { Slot::Unknown } else { Slot::Like(of_parent) };
        match self.threads.get(&child).copied() {
            // It ran on another CPU, whose events were read before.
            Some(CulpritThread { number, at_ns: seen_ns, .. }) if seen_ns >= at_ns => {
                if let Some(own @ Slot::Unknown) = self.slots.get_mut(number as usize)
                    && number != UNKNOWN
                {
                    *own = slot;
                }
            }
            // Another thread may have had that id.
            _ => {
                let number = self.add(slot);
                self.insert(child, CulpritThread::new(number, at_ns, true));
            }
        }
    }

    /// The number of a thread whose turn begins.
    pub fn of_thread(&mut self, tid: u32, at_ns: u64) -> u32 {
        if tid == 0 {
            return self.number(TurnOwner::IDLE);
        }
        if let Some(thread) = self.threads.get(&tid) {
            return thread.number;
        }
        let number = self.add(Slot::Unknown);
        self.insert(tid, CulpritThread::new(number, at_ns, false));
        number
    }

    /// Threads that had turns and are not known, at most so many, each once.
    pub fn strangers(&mut self, most: usize) -> Vec<u32> {
        let is_new = |thread: &CulpritThread| {
            !thread.was_asked_for && thread.number != UNKNOWN && self.who(thread.number).is_none()
        };
        let new = self.threads.iter().filter(|(_, thread)| is_new(thread));
        let new: Vec<u32> = new.map(|(tid, _)| *tid).take(most).collect();
        for tid in &new {
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.was_asked_for = true;
            }
        }
        new
    }

    /// Who has a number, where that is known by now.
    pub fn who(&self, number: u32) -> Option<TurnOwner> {
        let mut number = number;
        for _ in 0..MOST_ANCESTORS {
            match self.slots.get(number as usize)? {
                Slot::Unknown => return None,
                Slot::Who(who) => return Some(*who),
                Slot::Like(other) => number = *other,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TurnOwner = TurnOwner::task(70);
    const B: TurnOwner = TurnOwner::task(71);

    #[test]
    fn whoever_has_a_turn_is_blamed_as_in_the_ledger() {
        assert_eq!(A.blame(70), (Cause::Own, 70));
        assert_eq!(A.blame(71), (Cause::Foreign, 70));
        assert_eq!(TurnOwner::kernel_thread(9).blame(1), (Cause::Kthread, 9));
        let mut culprits = Culprits::default();
        let idle = culprits.of_thread(0, 1);
        assert_eq!(culprits.who(idle).map(|who| who.blame(1)), Some((Cause::Idle, 0)));
    }

    #[test]
    fn a_thread_that_is_known_late_had_its_turns_all_the_same() {
        let mut culprits = Culprits::default();
        let turn = culprits.of_thread(5, 10);
        assert_eq!((culprits.who(turn), culprits.strangers(0)), (None, vec![]));
        assert_eq!((culprits.strangers(9), culprits.strangers(9)), (vec![5], vec![]));
        culprits.seen(5, A, 20);
        assert_eq!(culprits.who(turn), Some(A));
        // From then on it has the number of all of its cgroup.
        assert_eq!(culprits.of_thread(5, 30), culprits.number(A));
        // It moves; an older sight changes nothing.
        culprits.seen(5, B, 40);
        culprits.seen(5, A, 35);
        let now = culprits.of_thread(5, 50);
        assert_eq!((culprits.who(now), culprits.who(turn)), (Some(B), Some(A)));
    }

    #[test]
    fn children_are_what_their_parents_are() {
        let mut culprits = Culprits::default();
        culprits.seen(5, A, 10);
        culprits.forked(5, 6, 20);
        let child = culprits.of_thread(6, 21);
        assert_eq!(culprits.who(child), Some(A));
        // Of a parent that is known later, and in events that come in another order.
        let child = culprits.of_thread(8, 31);
        let parent = culprits.of_thread(7, 29);
        culprits.forked(7, 8, 30);
        assert_eq!((culprits.who(child), culprits.who(parent)), (None, None));
        culprits.seen(7, B, 40);
        assert_eq!((culprits.who(child), culprits.who(parent)), (Some(B), Some(B)));
        // Each kernel thread is a culprit of its own.
        culprits.seen(2, TurnOwner::kernel_thread(2), 10);
        culprits.forked(2, 9, 50);
        let child = culprits.of_thread(9, 51);
        assert_eq!(culprits.who(child), None);
        culprits.seen(9, TurnOwner::kernel_thread(9), 60);
        assert_eq!(culprits.who(child), Some(TurnOwner::kernel_thread(9)));
    }

    #[test]
    fn an_id_that_comes_again_is_another_thread() {
        let mut culprits = Culprits::default();
        culprits.seen(5, A, 10);
        let before = culprits.of_thread(5, 10);
        // Its parent is not known.
        culprits.forked(99, 5, 20);
        let after = culprits.of_thread(5, 21);
        assert_eq!((culprits.who(before), culprits.who(after)), (Some(A), None));
    }

    #[test]
    fn siblings_may_be_in_different_cgroups() {
        let mut culprits = Culprits::default();
        culprits.seen(5, A, 10);
        culprits.forked(5, 6, 20);
        culprits.forked(5, 7, 20);
        let turns = [6, 7].map(|tid| culprits.of_thread(tid, 25));
        culprits.seen(7, B, 30);
        assert_eq!(turns.map(|turn| culprits.who(turn)), [Some(A), Some(B)]);
        assert_eq!(culprits.of_thread(5, 31), culprits.number(A));
        // What had the id before says nothing.
        culprits.forked(99, 7, 40);
        culprits.seen(7, B, 35);
        let turn = culprits.of_thread(7, 41);
        assert_eq!((culprits.who(turn), culprits.who(turns[1])), (None, Some(B)));
    }

    #[test]
    fn numbers_of_one_culprit_become_one() {
        let mut culprits = Culprits::default();
        culprits.seen(5, A, 10);
        culprits.seen(8, B, 10);
        (20..30).for_each(|tid| culprits.forked(5, tid, 20));
        let old = [5, 8, 20, 21, 77].map(|tid| culprits.of_thread(tid, 30));
        culprits.ended(20);
        let new = culprits.renumber(old.into_iter());
        let now = old.map(|number| culprits.who(new[number as usize]));
        assert_eq!(now, [Some(A), Some(B), Some(A), Some(A), None]);
        assert_eq!(culprits.slots.len(), 3);
        assert_eq!(culprits.of_thread(21, 40), culprits.of_thread(5, 40));
        assert!(!culprits.threads.contains_key(&20) && !culprits.threads.contains_key(&77));
    }

    #[test]
    fn a_thread_that_ended_has_ended_though_a_ledger_still_has_its_turn() {
        let mut culprits = Culprits::default();
        culprits.seen(5, A, 10);
        culprits.ended(5);
        culprits.seen(5, A, 10);
        culprits.renumber([].into_iter());
        assert!(culprits.threads.is_empty());
    }

    #[test]
    fn culprits_that_are_gone_make_room_for_others() {
        let mut culprits = Culprits::default();
        let mut kept = UNKNOWN;
        for id in 1..3 * MOST as u32 {
            culprits.seen(id, TurnOwner::task(id.into()), 1);
            let turn = culprits.of_thread(id, 1);
            assert_eq!(culprits.who(turn), Some(TurnOwner::task(id.into())));
            culprits.ended(id);
            if id == 1 {
                kept = turn;
            }
            if culprits.is_full() {
                let new = culprits.renumber([kept].into_iter());
                kept = new[kept as usize];
                assert_eq!((culprits.slots.len(), new[turn as usize]), (2, UNKNOWN));
            }
        }
        assert_eq!(culprits.who(kept), Some(TurnOwner::task(1)));
        // Also where all of them are still there.
        (1..MOST as u32).for_each(|id| culprits.seen(id, TurnOwner::task(id.into()), 2));
        assert!(culprits.is_full());
        for _ in 0..2 {
            kept = culprits.renumber([kept].into_iter())[kept as usize];
        }
        assert_eq!((culprits.slots.len(), culprits.who(kept)), (2, Some(TurnOwner::task(1))));
    }

    #[test]
    fn there_is_an_end_of_numbers() {
        let mut culprits = Culprits::default();
        for tid in 1..2 * MOST as u32 {
            culprits.of_thread(tid, 1);
        }
        assert!(culprits.is_full());
        assert_eq!(culprits.slots.len(), MOST);
        let stranger = culprits.of_thread(u32::MAX, 1);
        assert_eq!((stranger, culprits.who(stranger)), (UNKNOWN, None));
    }
}

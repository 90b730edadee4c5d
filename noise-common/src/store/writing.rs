//! How an event enters the store.
//!
//! A CPU's writers interrupt each other: a program in a task by one in an interrupt, by one in a softirq
//! that is served when that interrupt ends, by one in an NMI. Which of them runs cannot be taken from the
//! kernel's events: when a handler has ended, the way out of its interrupt still wakes threads. And a slot
//! cannot be claimed by an atomic addition that returns what was there: Linux 5.10 has none for programs,
//! and where there is one it costs as much as all the rest.
//!
//! So the writers count themselves. Whoever interrupts has ended before the interrupted goes on, and
//! leaves [`crate::store::CpuParts::depth`] as it found it:
//!
//! - between the load and the store of the depth, an interrupter finds the same depth, and has left that
//!   part again before this writer enters it;
//! - from then on until the depth is restored, an interrupter finds a higher one and writes to another
//!   part, so load and store of [`crate::store::Part::next`] are as good as one step.
//!
//! No two writers of one CPU are in one part at a time, and a part's numbers have no gaps, by plain loads
//! and stores of this CPU. That rests on programs which are not preempted. On a kernel with PREEMPT_RT from
//! 7.0 on, those of the block layer, of the network and of timers that expire in a softirq may be, if an interrupt falls into one of these few
//! instructions and another thread is due: the thread that runs meanwhile uses the next part, the depth is
//! set right by the next switch, and the interrupted event may be missing or in the place of another,
//! which a reader sees by its number.

use core::hint::{black_box, cold_path};

use super::PARTS;
use super::event::Body;

/// The memory that a writer works on, access by access.
pub trait Store {
    /// The place of one event.
    type Slot: Copy;

    fn depth(&mut self) -> u32;

    fn set_depth(&mut self, depth: u32);

    /// Number of the next event of a part.
    fn next(&mut self, part: usize) -> u64;

    fn set_next(&mut self, part: usize, next: u64);

    /// Index in the array of the event of that number.
    fn index(&mut self, part: usize, number: u64) -> u32;

    fn slot(&mut self, index: u32) -> Option<Self::Slot>;

    /// Writes one of the four words of an event.
    fn put(&mut self, slot: Self::Slot, word: usize, value: u64);

    /// Counts an event for which there is no part.
    fn lose(&mut self);
}

/// Writes an event. `after` is the number of writers that are at work when it is done, where that is
/// known; otherwise as many as before.
#[inline(always)]
pub fn write(store: &mut impl Store, body: &Body, after: Option<u32>) {
    let depth = store.depth();
    // Of the first part, which nearly all events go to, places are known when the program is built.
    let claimed = if depth == 0 {
        Some(claim(store, 0))
    } else {
        cold_path();
        let part = black_box(depth) as usize;
        (part < PARTS).then(|| claim(store, part))
    };
    if let Some((index, number)) = claimed {
        if let Some(slot) = store.slot(index) {
            for (word, value) in body.words(number) {
                store.put(slot, word, value);
            }
        }
    } else {
        cold_path();
        store.lose();
    }
    store.set_depth(after.unwrap_or(depth));
}

/// Enters a part, and takes its next number.
#[inline(always)]
fn claim(store: &mut impl Store, part: usize) -> (u32, u64) {
    store.set_depth(part as u32 + 1);
    let number = store.next(part);
    store.set_next(part, number.wrapping_add(1));
    (store.index(part, number), number)
}

//! What of a copied stretch is whole, and what is missing.
//!
//! A part is copied while its CPU goes on writing, from the oldest event to the newest. A writer claims a
//! number ([`Part::next`]) before it touches the slot, and writes the number into the slot last; the reader
//! loads it first ([`StoredEvent::copy`]). So:
//!
//! - an event whose slot was claimed again by the time the copy was done is not believed, whatever it says;
//! - of the others, one is whole where it carries its own number. Where it does not, its writer had not
//!   finished: it is the newest, or was given up.
//!
//! Numbers that are missing are counted, with the reason. This needs stores and loads that others see in
//! their order, as on x86: the programs have no barriers on the oldest kernels that they run on.

use super::{Part, StoredEvent};

/// Why an event is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// Newer ones took its place before it was read.
    Overwritten,
    /// It was not finished when it was read.
    Unfinished,
}

/// Events without interruption that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number of the first.
    pub first: u64,
    pub count: u64,
    pub missing: Missing,
}

/// A piece of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// An event that is whole.
    Event(&'a StoredEvent),
    /// Events that are not.
    Gap(Gap),
}

/// Numbers of events that a part holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldNumbers {
    pub first: u64,
    /// The one behind the last.
    pub end: u64,
}

impl Part {
    /// Events that the part holds at most.
    pub const fn capacity(&self) -> u64 {
        self.mask as u64 + 1
    }

    pub const fn held(&self) -> HeldNumbers {
        HeldNumbers { first: self.next.saturating_sub(self.capacity()), end: self.next }
    }

    /// Index in the array of the event of that number.
    pub const fn index(&self, number: u64) -> u32 {
        self.first + (number as u32 & self.mask)
    }
}

/// A copy of some of a part, in order of its numbers.
#[derive(Clone, Copy, Debug)]
pub struct PartStretch<'a> {
    /// Number of the first event that was wanted. What lies before the copy is missing.
    pub wanted: u64,
    /// Number of the first event of the copy.
    pub first: u64,
    pub events: &'a [StoredEvent],
    /// Events that the part holds at most.
    pub capacity: u64,
    /// The part's [`Part::next`] when the copy was done.
    pub next: u64,
}

impl<'a> PartStretch<'a> {
    /// The events that are whole, in order of their numbers, and the gaps between them.
    ///
    /// That is nearly the order of time: a writer reads the clock before it takes a number, and one that
    /// interrupts it there has the later time and the earlier number.
    pub fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        let mut at = self.wanted.min(self.first);
        let end = self.end();
        let overwritten = self.overwritten().min(end);
        core::iter::from_fn(move || {
            let first = at;
            if at < overwritten {
                at = overwritten;
                let count = at - first;
                return Some(Piece::Gap(Gap { first, count, missing: Missing::Overwritten }));
            }
            while at < end {
                let event = self.event(at);
                if let Some(event) = event
                    && at == first
                {
                    at += 1;
                    return Some(Piece::Event(event));
                }
                if event.is_some() {
                    break;
                }
                at += 1;
            }
            let gap = Gap { first, count: at - first, missing: Missing::Unfinished };
            (gap.count > 0).then_some(Piece::Gap(gap))
        })
    }

    /// The number behind the last.
    fn end(self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }

    /// The first number that was not overwritten by the time the copy was done, and is in it.
    fn overwritten(self) -> u64 {
        self.next.saturating_sub(self.capacity).max(self.first)
    }

    /// From which number on a reader that follows the part goes on: the newest event is left for the next
    /// time where its writer had not finished.
    pub fn resume(self) -> u64 {
        let newest = self.end().saturating_sub(1);
        if newest >= self.overwritten() && self.event(newest).is_none() && !self.events.is_empty() {
            return newest;
        }
        self.end().max(self.wanted)
    }

    /// The event of that number, if it is whole.
    fn event(self, number: u64) -> Option<&'a StoredEvent> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let event = self.events.get(index)?;
        (event.number == number as u32 && event.kind().is_some()).then_some(event)
    }
}

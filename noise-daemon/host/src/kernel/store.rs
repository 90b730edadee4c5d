//! The event store as the daemon reads it: how far each CPU is, and copies of what it holds.
//!
//! Copying makes no program wait. What is mapped into memory for it is given back at once: the kernel
//! counts every page of a mapping as memory of this process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use noise_common::store::reading::{Stretch, copy};
use noise_common::store::{Event, PARTS, Part};

use super::controls::Controls;

/// A writer that interrupts another one has the later time and the earlier number: so far the times of a
/// part may be out of order.
const DISORDER: u64 = 16;

/// What the flight recorder holds, and what went by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Its memory.
    pub bytes: u64,
    /// Events that were written.
    pub events: u64,
    /// Of those, the ones whose place newer ones took before anything read them.
    pub overwritten: u64,
    /// Events that could not be written: too many programs had interrupted each other.
    pub lost: u64,
    /// How far back all CPUs go, ns.
    pub held_ns: u64,
}

/// A copy of some of a part.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// Number of the first event that was wanted.
    pub wanted: u64,
    /// Number of the first event of the copy.
    pub first: u64,
    /// Events that the part holds at most.
    pub capacity: u64,
    /// The part's next number when the copy was done.
    pub next: u64,
    /// The events, those included that are not whole.
    pub events: Vec<Event>,
}

impl Copied {
    /// What of it is whole, and what is missing.
    pub fn stretch(&self) -> Stretch<'_> {
        let Self { wanted, first, capacity, next, ref events } = *self;
        Stretch { wanted, first, events, capacity, next }
    }
}

/// How far a part was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The number behind the last event that was copied.
    copied: u64,
    /// The number behind the last one that is counted as overwritten, or was copied.
    counted: u64,
}

/// The events of all CPUs.
#[derive(Debug)]
pub struct EventStore {
    events: OwnedFd,
    controls: Arc<Controls>,
    /// By CPU and part.
    seen: Vec<Seen>,
    overwritten: u64,
}

/// A part in memory.
struct Mapped {
    map: MmapRaw,
    part: Part,
}

impl Mapped {
    fn event(&self, number: u64) -> Event {
        let slot = (number as u32 & self.part.mask) as usize;
        let words = self.map.as_ptr().cast::<u64>();
        // SAFETY: the mapping holds all events of the part, of four words each. Programs may be writing
        // them, and any words are an event.
        copy(|word| unsafe { words.add(4 * slot + word).read_volatile() })
    }
}

impl EventStore {
    /// The store with that array of events.
    pub(super) fn new(events: OwnedFd, controls: Arc<Controls>) -> Self {
        let seen = vec![Seen::default(); controls.layout().cpus() as usize * PARTS];
        Self { events, controls, seen, overwritten: 0 }
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.controls.layout().cpus()
    }

    fn mapped(&self, part: Part) -> io::Result<Mapped> {
        let event = size_of::<Event>();
        let (offset, len) =
            (u64::from(part.first) * event as u64, part.capacity() as usize * event);
        let map = MmapOptions::new().offset(offset).len(len).map_raw_read_only(&self.events)?;
        Ok(Mapped { map, part })
    }

    /// Number of the first event of a part that may be as late as `from_ns`, of those that it holds.
    ///
    /// # Errors
    /// Where there is no such part, or it cannot be mapped.
    pub fn first_since(&self, cpu: u32, part: usize, from_ns: u64) -> io::Result<u64> {
        let part = self.part(cpu, part)?;
        let mapped = self.mapped(part)?;
        let held = part.held();
        let (mut low, mut high) = (held.first, held.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if mapped.event(middle).time_ns < from_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(DISORDER).max(held.first))
    }

    fn part(&self, cpu: u32, part: usize) -> io::Result<Part> {
        self.controls.part(cpu, part).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Number of the next event of a part.
    ///
    /// # Errors
    /// Where there is no such part.
    pub fn next(&self, cpu: u32, part: usize) -> io::Result<u64> {
        Ok(self.part(cpu, part)?.next)
    }

    /// Copies events of a part, from a number on, up to `most`.
    ///
    /// # Errors
    /// Where there is no such part, or it cannot be mapped.
    pub fn copy(&mut self, cpu: u32, part: usize, from: u64, most: usize) -> io::Result<Copied> {
        let place = cpu as usize * PARTS + part;
        let before = self.part(cpu, part)?;
        let mapped = self.mapped(before)?;
        let held = before.held();
        let first = from.clamp(held.first, held.end);
        let end = held.end.min(first.saturating_add(most as u64));
        let events = (first..end).map(|number| mapped.event(number)).collect();
        // Before the part is looked at again, all has been read.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let next = self.next(cpu, part)?;
        if let Some(seen) = self.seen.get_mut(place) {
            seen.copied = seen.copied.max(end);
        }
        let wanted = from.min(first);
        Ok(Copied { wanted, first, capacity: before.capacity(), next, events })
    }

    /// What it holds at a time, and what went by until then.
    pub fn figures(&mut self, now_ns: u64) -> Figures {
        let layout = self.controls.layout();
        let mut figures =
            Figures { bytes: layout.bytes(), held_ns: u64::MAX, ..Figures::default() };
        for cpu in 0..layout.cpus() {
            figures.lost += self.controls.lost_events(cpu);
            for number in 0..PARTS {
                let Some(part) = self.controls.part(cpu, number) else { continue };
                figures.events += part.next;
                let held = part.held();
                let Some(seen) = self.seen.get_mut(cpu as usize * PARTS + number) else { continue };
                let known = seen.counted.max(seen.copied);
                self.overwritten += held.first.saturating_sub(known);
                seen.counted = known.max(held.first);
                // A CPU that has not come round yet holds all that ever was.
                if number == 0
                    && held.first > 0
                    && let Ok(oldest) = self.oldest(part)
                {
                    let held_ns = now_ns.saturating_sub(oldest.time_ns);
                    figures.held_ns = figures.held_ns.min(held_ns);
                }
            }
        }
        figures.overwritten = self.overwritten;
        figures
    }

    /// The oldest event of a part, of which one page is mapped.
    fn oldest(&self, part: Part) -> io::Result<Event> {
        // Its slot is the one that is written next: the one behind is sure to be whole.
        let behind = part.held().first + 1;
        let page = behind as u32 & part.mask & !(noise_common::store::LEAST_EVENTS - 1);
        let mask = noise_common::store::LEAST_EVENTS - 1;
        let mapped = self.mapped(Part { first: part.first + page, mask, ..part })?;
        Ok(mapped.event(behind))
    }
}

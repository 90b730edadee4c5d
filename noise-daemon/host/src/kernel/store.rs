//! The event store as the daemon reads it: how far each CPU is, and copies of what it holds.
//!
//! Copying makes no program wait. What is mapped into memory for it is given back at once: the kernel
//! counts every page of a mapping as memory of this process. A single event is read by a system call instead.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aya::maps::{Array, Map, MapData};
use memmap2::{MmapOptions, MmapRaw};
use noise_common::store::reading::PartStretch;
use noise_common::store::{PARTS, Part, StoredEvent};
use noise_model::Recorder;

use super::controls::Controls;

/// A writer that interrupts another one has the later time and the earlier number: so far the times of a
/// part may be out of order.
pub const DISORDER: u64 = 16;

/// Words of an event.
const WORDS: usize = size_of::<StoredEvent>() / size_of::<u64>();

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
    pub events: Vec<StoredEvent>,
}

impl Copied {
    /// What of it is whole, and what is missing.
    pub fn stretch(&self) -> PartStretch<'_> {
        let Self { wanted, first, capacity, next, ref events } = *self;
        PartStretch { wanted, first, events, capacity, next }
    }
}

/// The events of all CPUs.
pub struct EventStore {
    events: OwnedFd,
    /// The same, to read a single one.
    single: Array<MapData, [u64; WORDS]>,
    controls: Arc<Controls>,
    /// By CPU and part: the number behind the last event that was copied, or is counted as overwritten.
    seen: Vec<u64>,
    overwritten: u64,
}

/// A part in memory.
struct Mapped {
    map: MmapRaw,
    part: Part,
}

impl Mapped {
    fn event(&self, number: u64) -> StoredEvent {
        let slot = (number as u32 & self.part.mask) as usize;
        let words = self.map.as_ptr().cast::<u64>();
        // SAFETY: the mapping holds all events of the part, of four words each. Programs may be writing
        // them, and any words are an event.
        StoredEvent::copy(|word| unsafe { words.add(WORDS * slot + word).read_volatile() })
    }
}

impl EventStore {
    /// The store with that array of events.
    /// Errors: where it is not one.
    pub(super) fn new(events: OwnedFd, controls: Arc<Controls>) -> io::Result<Self> {
        let seen = vec![0; controls.layout().cpus() as usize * PARTS];
        let single = MapData::from_fd(events.try_clone()?).map_err(io::Error::other)?;
        let single = Array::try_from(Map::Array(single)).map_err(io::Error::other)?;
        Ok(Self { events, single, controls, seen, overwritten: 0 })
    }

    pub fn cpus(&self) -> u32 {
        self.controls.layout().cpus()
    }

    /// Bits of the classes of events that are written now.
    pub fn classes(&self) -> u32 {
        self.controls.classes()
    }

    /// Events that the first part of each CPU has room for.
    pub fn room(&self) -> u64 {
        self.controls.layout().events().into()
    }

    fn mapped(&self, part: Part) -> io::Result<Mapped> {
        let event = size_of::<StoredEvent>();
        let (offset, len) =
            (u64::from(part.first) * event as u64, part.capacity() as usize * event);
        let map = MmapOptions::new().offset(offset).len(len).map_raw_read_only(&self.events)?;
        Ok(Mapped { map, part })
    }

    /// Number of the first event of a part that may be as late as `from_ns`, of those that it holds.
    /// Errors: where there is no such part, or it cannot be mapped.
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

    /// Events of a CPU that more writers than there are parts kept from being written, since the start.
    pub fn lost(&self, cpu: u32) -> u64 {
        self.controls.lost_events(cpu)
    }

    /// System calls of 32-bit programs on a CPU, which are no events, since the start.
    pub fn foreign_calls(&self, cpu: u32) -> u64 {
        self.controls.foreign_calls(cpu)
    }

    /// Events that each CPU has written to its first part, since the start.
    pub fn events(&self) -> Vec<u64> {
        let of_cpu = |cpu| self.controls.part(cpu, 0).map_or(0, |part| part.next);
        (0..self.cpus()).map(of_cpu).collect()
    }

    /// Number of the next event of a part.
    /// Errors: where there is no such part.
    pub fn next(&self, cpu: u32, part: usize) -> io::Result<u64> {
        Ok(self.part(cpu, part)?.next)
    }

    /// Copies events of a part with numbers in a range, the first `most` of those that it still holds.
    /// Errors: where there is no such part, or it cannot be mapped.
    pub fn copy(
        &mut self,
        cpu: u32,
        part: usize,
        wanted: Range<u64>,
        most: usize,
    ) -> io::Result<Copied> {
        let before = self.part(cpu, part)?;
        let mapped = self.mapped(before)?;
        let held = before.held();
        self.pass(cpu, part, held.first);
        let first = held.first.clamp(wanted.start, wanted.end.max(wanted.start));
        let end = held.end.min(wanted.end).min(first.saturating_add(most as u64));
        let events: Vec<StoredEvent> = (first..end).map(|number| mapped.event(number)).collect();
        // Before the part is looked at again, all has been read.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let next = self.next(cpu, part)?;
        if let Some(seen) = self.seen.get_mut(cpu as usize * PARTS + part) {
            *seen = (*seen).max(first + events.len() as u64);
        }
        Ok(Copied { wanted: wanted.start, first, capacity: before.capacity(), next, events })
    }

    /// Counts what of a part was overwritten, up to a number, and was never copied.
    fn pass(&mut self, cpu: u32, part: usize, to: u64) {
        if let Some(seen) = self.seen.get_mut(cpu as usize * PARTS + part) {
            self.overwritten += to.saturating_sub(*seen);
            *seen = (*seen).max(to);
        }
    }

    /// What it holds at a time, and what went by until then.
    pub fn figures(&mut self, now_ns: u64) -> Recorder {
        let layout = self.controls.layout();
        let mut figures = Recorder { bytes: layout.bytes(), ..Recorder::default() };
        let mut held_ns = Vec::with_capacity(layout.cpus() as usize);
        for cpu in 0..layout.cpus() {
            // What could not be written is gone before it could be read, too.
            figures.overwritten += self.controls.lost_events(cpu);
            for number in 0..PARTS {
                let Some(part) = self.controls.part(cpu, number) else { continue };
                figures.events += part.next;
                self.pass(cpu, number, part.held().first);
                if number == 0
                    && let Ok(Some(oldest_ns)) = self.oldest_ns(cpu, number)
                {
                    held_ns.push(now_ns.saturating_sub(oldest_ns));
                }
            }
        }
        figures.overwritten += self.overwritten;
        held_ns.sort_unstable();
        figures.held_ns = held_ns.first().copied().unwrap_or(0);
        figures.held_median_ns = held_ns.get(held_ns.len() / 2).copied().unwrap_or(0);
        figures
    }

    /// From which time on a part holds all events; 0 = all that there ever were.
    /// Errors: where there is no such part, or it cannot be mapped.
    pub fn complete_from_ns(&self, cpu: u32, part: usize) -> io::Result<u64> {
        if self.part(cpu, part)?.held().first == 0 {
            return Ok(0);
        }
        Ok(self.oldest_ns(cpu, part)?.unwrap_or(0))
    }

    /// The time of the oldest event of a part.
    fn oldest_ns(&self, cpu: u32, part: usize) -> io::Result<Option<u64>> {
        oldest(
            || self.part(cpu, part),
            |index| {
                let [time_ns, ..] = self.single.get(&index, 0).map_err(io::Error::other)?;
                Ok(time_ns)
            },
        )
    }
}

/// The time of the oldest event of a part, which `read` reads by its place. What was overwritten meanwhile has the time of
/// a newer event: then a younger one is read, further and further from where the programs write.
fn oldest(
    part: impl Fn() -> io::Result<Part>,
    read: impl Fn(u32) -> io::Result<u64>,
) -> io::Result<Option<u64>> {
    // The slot of the very oldest is the one that is written next.
    let mut ahead = 1;
    loop {
        let before = part()?;
        let oldest = before.held().first + ahead;
        if oldest >= before.next {
            return Ok(None);
        }
        let time_ns = read(before.first + (oldest as u32 & before.mask))?;
        if part()?.held().first < oldest || ahead >= before.capacity() / 2 {
            return Ok(Some(time_ns));
        }
        ahead *= 16;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use noise_common::store::Layout;

    use super::*;

    #[test]
    fn a_time_that_was_overwritten_meanwhile_is_not_the_oldest() {
        let part = Layout::new(1, 1 << 10).part(0, 0);
        let (next, ahead) = (Cell::new(5_000_u64), Cell::new(0_u64));
        let now = || Ok(Part { next: next.get(), ..part });
        // Each event has its number as its time; so many more are written before each is read.
        let read = |index: u32| {
            next.set(next.get() + ahead.get());
            let held = (next.get() - part.capacity()..next.get()).rev();
            Ok(held.into_iter().find(|number| *number as u32 & part.mask == index).unwrap_or(0))
        };
        assert_eq!(oldest(now, read).unwrap(), Some(5_000 - 1_024 + 1));
        ahead.set(20);
        let found = oldest(now, read).unwrap().unwrap();
        let first = next.get() - part.capacity();
        assert!((first..first + 512).contains(&found), "{found} of {first} to {}", next.get());
        next.set(1);
        ahead.set(0);
        assert_eq!(oldest(now, read).unwrap(), None);
    }
}

//! The event store: the latest kernel events of each CPU, in memory that the programs overwrite and the
//! daemon maps.
//!
//! Each CPU has [`PARTS`] parts of one array. A part is a ring of a power of two of [`StoredEvent`]s; each
//! event carries the low bits of its number in its part, so a reader that copies a stretch knows what of
//! it was overwritten meanwhile, and every gap is counted (see [`reading`]).
//!
//! Not in the store: what happened while a class was off, and events of hooks that are not attached.

pub mod calls;
pub mod event;
pub mod ipc;
pub mod kind;
mod raw;
pub mod reading;
pub mod writing;

pub use event::{Class, EventKind, StoredEvent};

/// Writers that may interrupt each other on one CPU: in a task, in a softirq, in an interrupt, in an
/// NMI. Each writes to a part of its own.
pub const PARTS: usize = 4;

/// Events of each part but a CPU's first: a writer that interrupts another one is rare, since writing
/// takes some ten instructions. A power of two.
pub const NESTED_EVENTS: u32 = 256;

/// Events of the parts of one CPU that interrupters write to.
pub const NESTED_EVENTS_PER_CPU: u32 = (PARTS as u32 - 1) * NESTED_EVENTS;

/// The fewest events of a CPU's first part: a page.
pub const LEAST_EVENTS: u32 = 128;

/// One part: a ring of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Part {
    /// Number of the next event, counted on for ever; the programs write it.
    pub next: u64,
    /// Index in the array of the part's first event; the daemon writes it.
    pub first: u32,
    /// Events that it holds, less one: a power of two, less one. The daemon writes it.
    pub mask: u32,
}

/// What a CPU knows of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuParts {
    /// Writers that are at work on this CPU.
    pub depth: u32,
    pub padding: u32,
    /// The parts, by the number of writers that are interrupted.
    pub parts: [Part; PARTS],
    /// Events that more writers than there are parts kept from being written.
    pub lost: u64,
}

/// Where the parts of all CPUs lie in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    cpus: u32,
    events: u32,
}

impl Layout {
    /// For that many CPUs, with at most `events` in the first part of each, rounded down to a power of
    /// two; none where there is room for fewer than [`LEAST_EVENTS`].
    pub const fn new(cpus: u32, events: u32) -> Self {
        let events = if events < LEAST_EVENTS { 0 } else { 1 << events.ilog2() };
        // Entries of an array are counted in 32 bits.
        let all = (events as u64 + NESTED_EVENTS_PER_CPU as u64) * cpus as u64;
        if all > u32::MAX as u64 { Self { cpus, events: 0 } } else { Self { cpus, events } }
    }

    /// Events of the first part of each CPU; 0 = nothing is kept.
    pub const fn events(self) -> u32 {
        self.events
    }

    pub const fn cpus(self) -> u32 {
        self.cpus
    }

    /// Entries of the array.
    pub const fn entries(self) -> u32 {
        if self.events == 0 { 0 } else { (self.events + NESTED_EVENTS_PER_CPU) * self.cpus }
    }

    /// Bytes of the array.
    pub const fn bytes(self) -> u64 {
        self.entries() as u64 * size_of::<StoredEvent>() as u64
    }

    /// A part of a CPU, empty.
    pub const fn part(self, cpu: u32, part: usize) -> Part {
        if part == 0 {
            let (first, mask) = (cpu * self.events, self.events.wrapping_sub(1));
            return Part { next: 0, first, mask };
        }
        let behind = cpu * NESTED_EVENTS_PER_CPU + (part as u32 - 1) * NESTED_EVENTS;
        let first = self.cpus * self.events + behind;
        Part { next: 0, first, mask: NESTED_EVENTS - 1 }
    }
}

const _: () = assert!(size_of::<StoredEvent>() == 32);
const _: () = assert!(NESTED_EVENTS.is_power_of_two() && LEAST_EVENTS.is_power_of_two());

#[cfg(test)]
mod tests;

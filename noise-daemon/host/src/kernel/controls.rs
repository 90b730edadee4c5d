//! What the daemon changes of the programs while they run, through the memory that both share.

use std::io;
use std::os::fd::BorrowedFd;

use memmap2::{MmapOptions, MmapRaw};
use noise_common::event::CpuState;
use noise_common::signals::{SIGNALS, Signal};
use noise_common::store::{Class, Layout, PARTS, Part};

use super::monotonic_ns;

/// What the programs measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub off: Vec<Signal>,
    /// Length from which on a wait for a CPU gets a record of its own, ns.
    pub outlier_ns: u64,
    /// Classes of events that are written to the store, where there is one.
    pub events: Vec<Class>,
}

impl Default for Measured {
    fn default() -> Self {
        Self { off: Vec::new(), outlier_ns: 1_000_000, events: Vec::new() }
    }
}

impl Measured {
    pub fn measures(&self, signal: Signal) -> bool {
        !self.off.contains(&signal)
    }

    fn bits(&self) -> u32 {
        self.off.iter().fold(0, |bits, signal| bits | signal.bit())
    }
}

/// The states of all possible CPUs, as far as the daemon writes them.
#[derive(Debug)]
pub struct Controls {
    map: MmapRaw,
    layout: Layout,
}

impl Controls {
    /// Maps the states of as many CPUs as the event store has, and shows each its parts.
    /// Errors: where the kernel refuses.
    pub fn map(array: BorrowedFd<'_>, layout: Layout) -> io::Result<Self> {
        let states = size_of::<CpuState>() * layout.cpus() as usize;
        let controls = Self { map: MmapOptions::new().len(states).map_raw(&array)?, layout };
        for cpu in 0..layout.cpus() {
            for part in 0..PARTS {
                if let Some(place) = controls.place(cpu, part) {
                    // SAFETY: the pointer lies in the mapping; no program writes events yet.
                    unsafe { place.write_volatile(layout.part(cpu, part)) };
                }
            }
        }
        Ok(controls)
    }

    fn state(&self, cpu: u32) -> Option<*mut CpuState> {
        if cpu >= self.layout.cpus() {
            return None;
        }
        let first = self.map.as_mut_ptr().cast::<CpuState>();
        // SAFETY: the mapping holds this many states.
        Some(unsafe { first.add(cpu as usize) })
    }

    fn place(&self, cpu: u32, part: usize) -> Option<*mut Part> {
        if part >= PARTS {
            return None;
        }
        let state = self.state(cpu)?;
        // SAFETY: the state lies in the mapping and has this many parts.
        Some(unsafe { (&raw mut (*state).store.parts).cast::<Part>().add(part) })
    }

    /// How far a part of the event store is.
    pub fn part(&self, cpu: u32, part: usize) -> Option<Part> {
        let place = self.place(cpu, part)?;
        // SAFETY: the pointer lies in the mapping. A program may be counting on: that is one store.
        let next = unsafe { (&raw const (*place).next).read_volatile() };
        Some(Part { next, ..self.layout.part(cpu, part) })
    }

    /// Events for which a CPU had no part.
    pub fn lost_events(&self, cpu: u32) -> u64 {
        let Some(state) = self.state(cpu) else { return 0 };
        // SAFETY: the state lies in the mapping.
        unsafe { (&raw const (*state).store.lost).read_volatile() }
    }

    /// System calls of 32-bit programs on a CPU, which are no events.
    pub fn foreign_calls(&self, cpu: u32) -> u64 {
        let Some(state) = self.state(cpu) else { return 0 };
        // SAFETY: the state lies in the mapping.
        unsafe { (&raw const (*state).foreign_calls).read_volatile() }
    }

    /// Bits of the classes of events that are written; 0 where there is no CPU.
    pub fn classes(&self) -> u32 {
        let Some(state) = self.state(0) else { return 0 };
        // SAFETY: the state lies in the mapping.
        unsafe { (&raw const (*state).events).read_volatile() }
    }

    /// Where the event store's parts lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Sets what the programs measure, one CPU after the other.
    ///
    /// What was stored of a signal before it was switched off is not believed when it is switched on
    /// again: its end may have been missed.
    pub fn apply(&self, measured: &Measured) {
        let bits = measured.bits();
        let classes = measured.events.iter().fold(0, |bits, class| bits | class.bit());
        let classes = if self.layout.events() == 0 { 0 } else { classes };
        let now_ns = monotonic_ns();
        for state in (0..self.layout.cpus()).filter_map(|cpu| self.state(cpu)) {
            // SAFETY: the state lies in the mapping, which is writable; the programs only read these
            // fields.
            unsafe {
                let before = (&raw const (*state).off).read_volatile();
                for info in &SIGNALS {
                    let bit = info.signal.bit();
                    if before & bit != 0 && bits & bit == 0 {
                        let since = &raw mut (*state).since_ns[info.signal as usize];
                        since.write_volatile(now_ns);
                    }
                }
                std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
                (&raw mut (*state).outlier_ns).write_volatile(measured.outlier_ns);
                (&raw mut (*state).off).write_volatile(bits);
                (&raw mut (*state).events).write_volatile(classes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(controls: &Controls, cpu: u32) -> (u32, u64, u64) {
        let state = controls.state(cpu).unwrap();
        // SAFETY: the state lies in the mapping.
        unsafe {
            let since = (*state).since_ns[Signal::NetTxWait as usize];
            ((*state).off, (*state).outlier_ns, since)
        }
    }

    #[test]
    fn what_is_switched_on_again_is_believed_from_then_on() {
        let map = MmapOptions::new().len(size_of::<CpuState>() * 2).map_anon().unwrap();
        let controls = Controls { map: map.into(), layout: Layout::new(2, 0) };
        controls.apply(&Measured::default());
        assert_eq!(state(&controls, 1), (0, 1_000_000, 0));
        let off = vec![Signal::NetTxWait, Signal::RunqueueWait];
        controls.apply(&Measured { off, outlier_ns: 5, ..Measured::default() });
        assert_eq!(state(&controls, 0), (Signal::NetTxWait.bit() | 1, 5, 0));
        let before = monotonic_ns();
        controls.apply(&Measured {
            off: vec![Signal::RunqueueWait],
            outlier_ns: 5,
            ..Measured::default()
        });
        let (off, _, since) = state(&controls, 1);
        assert_eq!(off, 1);
        assert!(since >= before);
        controls.apply(&Measured {
            off: vec![Signal::RunqueueWait],
            outlier_ns: 6,
            ..Measured::default()
        });
        assert_eq!(state(&controls, 1), (1, 6, since));
    }
}

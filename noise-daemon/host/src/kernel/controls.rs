//! What the daemon changes of the programs while they run, through the memory that both share.

use std::io;
use std::os::fd::BorrowedFd;

use memmap2::{MmapOptions, MmapRaw};
use noise_common::event::CpuState;
use noise_common::signals::{SIGNALS, Signal};

use super::monotonic_ns;

/// What the programs measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Signals that are switched off.
    pub off: Vec<Signal>,
    /// Length from which on a wait for a CPU gets a record of its own, ns.
    pub outlier_ns: u64,
}

impl Default for Measured {
    fn default() -> Self {
        Self { off: Vec::new(), outlier_ns: 1_000_000 }
    }
}

impl Measured {
    /// Whether a signal is switched on.
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
    cpus: usize,
}

impl Controls {
    /// Maps the states of that many CPUs.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn map(array: BorrowedFd<'_>, cpus: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(size_of::<CpuState>() * cpus).map_raw(&array)?;
        Ok(Self { map, cpus })
    }

    /// Sets what the programs measure, one CPU after the other.
    ///
    /// What was stored of a signal before it was switched off is not believed when it is switched on
    /// again: its end may have been missed.
    pub fn apply(&self, measured: &Measured) {
        let bits = measured.bits();
        let now_ns = monotonic_ns();
        for cpu in 0..self.cpus {
            let first = self.map.as_mut_ptr().cast::<CpuState>();
            // SAFETY: the mapping is writable and holds this many states; the programs only read
            // these fields.
            unsafe {
                let state = first.add(cpu);
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
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(controls: &Controls, cpu: usize) -> (u32, u64, u64) {
        let first = controls.map.as_ptr().cast::<CpuState>();
        // SAFETY: the mapping holds this many states.
        unsafe {
            let state = first.add(cpu);
            let since = (*state).since_ns[Signal::NetTxWait as usize];
            ((*state).off, (*state).outlier_ns, since)
        }
    }

    #[test]
    fn what_is_switched_on_again_is_believed_from_then_on() {
        let map = MmapOptions::new().len(size_of::<CpuState>() * 2).map_anon().unwrap();
        let controls = Controls { map: map.into(), cpus: 2 };
        controls.apply(&Measured::default());
        assert_eq!(state(&controls, 1), (0, 1_000_000, 0));
        let off = vec![Signal::NetTxWait, Signal::RunqueueWait];
        controls.apply(&Measured { off, outlier_ns: 5 });
        assert_eq!(state(&controls, 0), (Signal::NetTxWait.bit() | 1, 5, 0));
        let before = monotonic_ns();
        controls.apply(&Measured { off: vec![Signal::RunqueueWait], outlier_ns: 5 });
        let (off, _, since) = state(&controls, 1);
        assert_eq!(off, 1);
        assert!(since >= before);
        controls.apply(&Measured { off: vec![Signal::RunqueueWait], outlier_ns: 6 });
        assert_eq!(state(&controls, 1), (1, 6, since));
    }
}

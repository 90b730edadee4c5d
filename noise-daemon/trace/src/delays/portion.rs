//! A part of a thread's wait for a CPU, divided as it is done live.

use noise_common::ledger::Waiting;

use super::Delays;
use super::document::Culprit;
use super::sums::Sums;
use super::waits::stretch;

/// A wait, or a part of one, that is under way: over the CPUs that the thread waits on.
#[derive(Debug)]
pub struct Portion {
    /// The stretch of it on the CPU where the thread waits now.
    here: Waiting,
    /// What came before that stretch, divided.
    parts: Sums,
}

impl Portion {
    /// The CPU that the thread waits on.
    pub const fn cpu(&self) -> u32 {
        self.here.cpu
    }

    /// Up to then, the thread's quota was used up. Its wait on that CPU may have begun before this part of it.
    pub fn throttled(&mut self, until_ns: u64) {
        self.here.throttled_ns = until_ns.saturating_sub(self.here.since_ns);
    }
}

impl Delays {
    /// A thread waits on a CPU from then on, which is just over.
    pub fn begin_portion(&self, tid: i32, cpu: u32, from_ns: u64) -> Portion {
        Portion { here: stretch(tid, cpu, from_ns, &self.cpus), parts: Sums::default() }
    }

    /// It waits on another CPU from then on.
    pub fn migrate(&self, portion: &mut Portion, cpu: u32, now_ns: u64) {
        self.end_stretch(portion, now_ns);
        portion.here = stretch(portion.here.pid.cast_signed(), cpu, now_ns, &self.cpus);
    }

    /// The wait is over, or that part of it: who ran meanwhile, and what interrupts took, the longest first. They sum to
    /// its time.
    pub fn end_portion(&self, mut portion: Portion, to_ns: u64) -> Vec<Culprit> {
        self.end_stretch(&mut portion, to_ns);
        let mut culprits = self.waits.culprits(&portion.parts);
        for (culprit, (party, _, _)) in culprits.iter_mut().zip(portion.parts.sorted()) {
            if let Some(name) = self.interrupt_name(party) {
                culprit.comm = name;
            }
        }
        culprits
    }

    fn end_stretch(&self, portion: &mut Portion, to_ns: u64) {
        let Portion { here, parts } = portion;
        if here.since_ns < to_ns {
            self.cpus.divide(here, to_ns, &self.cpus.taken(here.cpu, to_ns), parts);
        }
    }
}

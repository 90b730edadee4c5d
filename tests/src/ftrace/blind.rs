//! Where ftrace does not see.
//!
//! There are kernels (a 6.18 guest is one) on which ftrace and perf record nothing that certain tasks
//! do outside of interrupts, one CPU's idle task among them: neither the switch away from such a
//! task, nor a wake-up that it carries out. BPF programs on the same tracepoints run all the same,
//! the kernel's own count of context switches agrees with BPF, and no counter of lost events moves.
//!
//! The gaps show. On a CPU, the task that is switched from has to be the one that was switched to
//! before; where it is not, a switch is missing. [`mend`] puts a [`Kind::LostSwitch`] there, so that
//! the pairing can tell what it does not know. A blind idle task would leave a gap in every sleep,
//! but a CPU that never idles has no such gaps: whoever needs a whole recording keeps the blind CPUs
//! busy with a task that runs only when nothing else wants to ([`keep_sight`]).

use std::collections::{BTreeMap, HashMap};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Recording;
use super::event::{Event, Kind};
use crate::load::Worker;
use crate::task::cpus;

/// More gaps than this share of a CPU's switches (one in so many), and a recording proves little.
const SWITCHES_PER_GAP: usize = 100;

/// So many switches from the idle task show that it is seen.
const SWITCHES_TO_TELL: usize = 50;

/// Switches and gaps of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Switches in the recording.
    pub switches: usize,
    /// Those of them that left the idle task.
    pub from_idle: usize,
    /// Switches that are missing from it.
    pub gaps: usize,
}

impl Sight {
    /// Whether the gaps are few.
    pub fn is_good(&self) -> bool {
        self.gaps * SWITCHES_PER_GAP <= self.switches
    }
}

/// Puts a [`Kind::LostSwitch`] into each gap, before the first event that shows it.
pub fn mend(events: Vec<Event>) -> (Vec<Event>, BTreeMap<u32, Sight>) {
    let mut running: HashMap<u32, i32> = HashMap::new();
    let mut sights: BTreeMap<u32, Sight> = BTreeMap::new();
    let mut mended = Vec::with_capacity(events.len());
    for event in events {
        if let Kind::Switch { prev, next, .. } = event.kind {
            let sight = sights.entry(event.cpu).or_default();
            sight.switches += 1;
            sight.from_idle += usize::from(prev == 0);
            if let Some(lost) = running.insert(event.cpu, next).filter(|&before| before != prev) {
                sight.gaps += 1;
                let kind = Kind::LostSwitch { prev: lost, next: prev };
                mended.push(Event { kind, ..event.clone() });
            }
        }
        mended.push(event);
    }
    (mended, sights)
}

/// Requires that gaps are few.
///
/// # Errors
/// If they are not.
pub fn ensure_sight(sights: &BTreeMap<u32, Sight>) -> Result<()> {
    for (cpu, sight) in sights {
        ensure!(
            sight.is_good(),
            "the recording is inconclusive: of CPU {cpu} ftrace shows {} context switches and \
             leaves out {}",
            sight.switches,
            sight.gaps
        );
    }
    Ok(())
}

/// The CPUs whose idle task ftrace does not see, or that were too busy to tell.
pub fn blind_cpus() -> Result<Vec<u32>> {
    let recording = Recording::start(&["sched:sched_switch"], 8)?;
    let sleepers: Vec<Worker> = (0..cpus())
        .map(|cpu| Worker::start("sleep", &[&cpu.to_string(), "1000"]))
        .collect::<Result<_>>()?;
    thread::sleep(Duration::from_millis(300));
    for sleeper in sleepers {
        sleeper.stop()?;
    }
    let sights = recording.stop()?.sights;
    let seen = |cpu: &u32| {
        sights.get(cpu).is_some_and(|sight| sight.is_good() && sight.from_idle >= SWITCHES_TO_TELL)
    };
    Ok((0..u32::try_from(cpus())?).filter(|cpu| !seen(cpu)).collect())
}

/// Keeps the blind CPUs from idling for as long as the workers live.
pub fn keep_sight() -> Result<Vec<Worker>> {
    blind_cpus()?.into_iter().map(|cpu| Worker::start("soak", &[&cpu.to_string()])).collect()
}

#[cfg(test)]
mod tests {
    use super::{Sight, ensure_sight, mend};
    use crate::ftrace::event::{Event, Kind};
    use crate::pairing::testing::at;

    fn switch(cpu: u32, prev: i32, next: i32) -> Event {
        at(1, cpu, Kind::Switch { prev, runnable: false, next })
    }

    #[test]
    fn a_broken_chain_is_mended_on_its_cpu() {
        let whole = vec![switch(0, 1, 0), switch(1, 7, 8), switch(0, 0, 2), switch(0, 2, 3)];
        assert_eq!(mend(whole.clone()).0, whole);
        let broken = vec![switch(0, 1, 0), switch(1, 7, 0), switch(1, 9, 8), switch(0, 0, 2)];
        let (mended, sights) = mend(broken);
        assert_eq!(mended[2].kind, Kind::LostSwitch { prev: 0, next: 9 });
        assert_eq!(mended.len(), 5);
        assert_eq!(sights[&1], Sight { switches: 2, from_idle: 0, gaps: 1 });
        assert_eq!(sights[&0].from_idle, 1);
        assert!(ensure_sight(&sights).is_err());
    }
}

//! Where ftrace does not see.
//!
//! There are kernels (a 6.18 guest is one) on which ftrace and perf record nothing that certain tasks
//! do outside of interrupts, one CPU's idle task among them: neither the switch away from such a
//! task, nor a wake-up that it carries out. BPF programs on the same tracepoints run all the same,
//! the kernel's own count of context switches agrees with BPF, and no counter of lost events moves.
//!
//! On the same kernels there is a process, PID 1, that is hidden from BPF as well: while one of its
//! threads runs, no program is called, not even in an interrupt that happens to land there (ftrace
//! does record the interrupt). What BPF is never offered, the daemon cannot count, and the recording
//! must not either: see [`hidden_threads`].
//!
//! The gaps show. On a CPU, the task that is switched from has to be the one that was switched to
//! before; where it is not, a switch is missing. [`mend`] puts a [`Kind::LostSwitch`] there, so that
//! the pairing can tell what it does not know. A blind idle task would leave a gap in every sleep,
//! but a CPU that never idles has no such gaps: whoever needs a whole recording keeps the blind CPUs
//! busy with a task that runs only when nothing else wants to ([`keep_sight`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Recording;
use super::event::{Event, Kind};
use crate::load::Worker;
use crate::task::{cpus, sched_stat};

/// More gaps than this share of a CPU's switches (one in so many), and a recording proves little.
const SWITCHES_PER_GAP: usize = 100;

/// So many switches from the idle task show that it is seen.
const SWITCHES_TO_TELL: usize = 50;

/// The longest that a worker which yields to everybody is waited for, and how often it is looked at.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Seconds in which to wait for PID 1 to run.
const LOOKS: usize = 4;
/// Switches to PID 1 that none leads away from: one may be the last of a recording.
const ENOUGH: usize = LOOKS;

/// Switches and gaps of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Switches in the recording.
    pub switches: usize,
    /// Those of them that left the idle task.
    pub from_idle: usize,
    /// Switches that are missing from it, those of hidden threads aside.
    pub gaps: usize,
}

impl Sight {
    /// Whether the gaps are few.
    pub fn is_good(&self) -> bool {
        self.gaps * SWITCHES_PER_GAP <= self.switches
    }
}

/// Puts a [`Kind::LostSwitch`] into each gap, before the first event that shows it.
pub fn mend(events: Vec<Event>, hidden: &BTreeSet<i32>) -> (Vec<Event>, BTreeMap<u32, Sight>) {
    let renamed: HashSet<(i32, i32)> = events
        .iter()
        .filter_map(|event| match event.kind {
            Kind::Exec { pid, old_pid } => Some((old_pid, pid)),
            _ => None,
        })
        .collect();
    let mut running: HashMap<u32, i32> = HashMap::new();
    let mut woken: BTreeSet<i32> = BTreeSet::new();
    let mut sights: BTreeMap<u32, Sight> = BTreeMap::new();
    let mut mended = Vec::with_capacity(events.len());
    for event in events {
        if let Kind::Wakeup { pid } = event.kind
            && hidden.contains(&pid)
        {
            woken.insert(pid);
        }
        if let Kind::Switch { prev, next, .. } = event.kind {
            let sight = sights.entry(event.cpu).or_default();
            sight.switches += 1;
            sight.from_idle += usize::from(prev == 0);
            let before = running.insert(event.cpu, next).filter(|&before| before != prev);
            if let Some(lost) = before.filter(|&before| !renamed.contains(&(before, prev))) {
                let kind = Kind::LostSwitch { prev: lost, next: prev };
                mended.push(Event { kind, ..event.clone() });
                if hidden.contains(&lost) {
                    // Others that are hidden may have run in between.
                    for &pid in woken.iter().filter(|&&pid| pid != lost && pid != prev) {
                        mended.push(Event { kind: Kind::LostTurn { pid }, ..event.clone() });
                    }
                } else {
                    sight.gaps += 1;
                }
            }
            woken.remove(&next);
        }
        mended.push(event);
    }
    (mended, sights)
}

/// Requires that gaps are few.
/// Errors: if they are not.
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

/// Whether PID 1 is hidden: it is where ftrace shows its threads to be switched to, and never from.
fn init_is_hidden() -> Result<bool> {
    static HIDDEN: OnceLock<bool> = OnceLock::new();
    if let Some(hidden) = HIDDEN.get() {
        return Ok(*hidden);
    }
    // A CPU that never idles hides nothing else.
    let _sight = (0..cpus())
        .map(|cpu| Worker::start("soak", &[&cpu.to_string()]))
        .collect::<Result<Vec<_>>>()?;
    let (mut to, mut from) = (0, 0);
    for _ in 0..LOOKS {
        let recording = Recording::start_with(&["sched:sched_switch"], 8, BTreeSet::new())?;
        thread::sleep(Duration::from_secs(1));
        let init = threads_of_init()?;
        for event in recording.stop()?.events {
            if let Kind::Switch { prev, next, .. } = event.kind {
                to += usize::from(init.contains(&next));
                from += usize::from(init.contains(&prev));
            }
        }
        if to > ENOUGH {
            break;
        }
    }
    // One that was too quiet to tell is taken for hidden if not even root may see what it is.
    let hidden = from == 0 && (to > ENOUGH || not_to_be_seen());
    Ok(*HIDDEN.get_or_init(|| hidden))
}

/// Whether this kernel keeps root from looking at PID 1.
fn not_to_be_seen() -> bool {
    fs::read_link("/proc/1/exe").is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn threads_of_init() -> Result<BTreeSet<i32>> {
    let mut threads = BTreeSet::new();
    for entry in fs::read_dir("/proc/1/task").context("listing the threads of PID 1")? {
        threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(threads)
}

/// The threads while which run no BPF program is called. Usually none.
pub fn hidden_threads() -> Result<BTreeSet<i32>> {
    if init_is_hidden()? { threads_of_init() } else { Ok(BTreeSet::new()) }
}

/// Looks at all CPUs: whether ftrace sees their idle tasks, of those that were not too busy to tell.
fn look() -> Result<BTreeMap<u32, bool>> {
    let recording = Recording::start(&["sched:sched_switch"], 8)?;
    let sleepers: Vec<Worker> = (0..cpus())
        .map(|cpu| Worker::start("sleep", &[&cpu.to_string(), "1000"]))
        .collect::<Result<_>>()?;
    thread::sleep(Duration::from_millis(300));
    for sleeper in sleepers {
        sleeper.stop()?;
    }
    let sights = recording.stop()?.sights.into_iter();
    let told = sights.filter(|(_, sight)| !sight.is_good() || sight.from_idle >= SWITCHES_TO_TELL);
    Ok(told.map(|(cpu, sight)| (cpu, sight.is_good())).collect())
}

/// The CPUs whose idle task ftrace does not see, or that were too busy to tell. A kernel that hides a task does so for
/// good, so a CPU about which a look could tell is not looked at again.
fn blind_cpus() -> Result<Vec<u32>> {
    static SEEN: Mutex<BTreeMap<u32, bool>> = Mutex::new(BTreeMap::new());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let all = 0..u32::try_from(cpus())?;
    if all.clone().any(|cpu| !seen.contains_key(&cpu)) {
        for (cpu, is_seen) in look()? {
            seen.entry(cpu).or_insert(is_seen);
        }
    }
    Ok(all.filter(|cpu| seen.get(cpu) != Some(&true)).collect())
}

/// Keeps the blind CPUs from idling for as long as the workers live.
pub fn keep_sight() -> Result<Vec<Worker>> {
    blind_cpus()?.into_iter().map(|cpu| Worker::start("soak", &[&cpu.to_string()])).collect()
}

/// Waits until each of these workers has had its CPU since now, so that whoever records already sees all their waits
/// from the begin. Beside a build, one may wait for more than a second.
/// Errors: if one does not get it in time.
pub fn await_turns(workers: &[Worker]) -> Result<()> {
    let ran = || -> Result<Vec<u64>> {
        workers.iter().map(|worker| Ok(sched_stat(worker.pid())?.run_ns)).collect()
    };
    let before = ran()?;
    let deadline = Instant::now() + LONGEST_WAIT;
    while ran()?.iter().zip(&before).any(|(now, before)| now == before) {
        ensure!(
            Instant::now() < deadline,
            "the recording is inconclusive: what keeps a CPU from idling has waited {LONGEST_WAIT:?} for it"
        );
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Sight, ensure_sight, mend};
    use crate::ftrace::event::{Event, Kind, Left};
    use crate::pairing::testing::at;

    fn switch(cpu: u32, prev: i32, next: i32) -> Event {
        at(1, cpu, Kind::Switch { prev, left: Left::Asleep, next })
    }

    #[test]
    fn a_thread_that_takes_its_leaders_id_leaves_no_gap() {
        let exec = at(1, 0, Kind::Exec { pid: 4, old_pid: 5 });
        let (mended, sights) = mend(vec![switch(0, 0, 5), exec, switch(0, 4, 0)], &BTreeSet::new());
        assert_eq!(mended.len(), 3);
        assert_eq!(sights[&0].gaps, 0);
    }

    #[test]
    fn a_broken_chain_is_mended_on_its_cpu() {
        let whole = vec![switch(0, 1, 0), switch(1, 7, 8), switch(0, 0, 2), switch(0, 2, 3)];
        assert_eq!(mend(whole.clone(), &BTreeSet::new()).0, whole);
        let broken = vec![switch(0, 1, 0), switch(1, 7, 0), switch(1, 9, 8), switch(0, 0, 2)];
        let (mended, sights) = mend(broken.clone(), &BTreeSet::new());
        assert_eq!(mended[2].kind, Kind::LostSwitch { prev: 0, next: 9 });
        assert_eq!(mended.len(), 5);
        assert_eq!(sights[&1], Sight { switches: 2, from_idle: 0, gaps: 1 });
        assert_eq!(sights[&0].from_idle, 1);
        assert!(ensure_sight(&sights).is_err());
        // The switch away from a hidden thread is marked all the same, but no fault of the sight.
        let (mended, sights) = mend(broken, &BTreeSet::from([0]));
        assert_eq!(mended.len(), 5);
        assert!(ensure_sight(&sights).is_ok());
    }

    #[test]
    fn hidden_threads_that_wait_may_have_had_their_turn_in_a_gap() {
        let woken = |pid| at(1, 1, Kind::Wakeup { pid });
        let events = [
            woken(5),
            woken(6),
            woken(7),
            switch(0, 9, 4),
            switch(0, 8, 5),
            switch(0, 3, 9),
            woken(4),
            switch(0, 2, 3),
        ];
        let (mended, _) = mend(events.to_vec(), &BTreeSet::from([4, 5, 6]));
        let turns: Vec<(usize, i32)> = mended
            .iter()
            .enumerate()
            .filter_map(|(index, event)| match event.kind {
                Kind::LostTurn { pid } => Some((index, pid)),
                _ => None,
            })
            .collect();
        // None in the last gap, which another one leaves.
        assert_eq!(turns, [(5, 5), (6, 6), (9, 6)]);
    }
}

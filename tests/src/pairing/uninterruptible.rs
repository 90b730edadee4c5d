//! `uninterruptible_wait`: from the switch away from a task in uninterruptible sleep until it is woken.
//!
//! Labelled here by who woke it: an interrupt, the idle task, a kernel thread, another task, or
//! [`DOUBTFUL`]. ftrace does not know cgroups.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::interrupts::{Context, Stacks};
use super::{Paired, Sample, label};
use crate::ftrace::event::{Event, Kind, Left};

/// A wake-up that is under way while its task is switched away from, on another CPU, comes before or after
/// that by a hair; what is shorter than this may be none of the sleeps. No other sleep is: it takes two
/// switches.
const HAIR_NS: u64 = 3_000;

/// The cause of a sleep that another task ended than the one which was switched to last on that CPU:
/// who follows the switches takes it for that one's work.
pub const DOUBTFUL: &str = "doubtful";

/// A sleep that is under way.
enum Sleep {
    /// Since when.
    Since(u64),
    /// A switch is missing: at the longest since then, if at all.
    Doubtful(u64),
}

/// Uninterruptible sleeps, by who ended them.
pub fn uninterruptible_wait(events: &[Event], kernel_threads: &BTreeSet<i32>) -> Paired {
    let mut stacks = Stacks::default();
    let mut running: HashMap<u32, i32> = HashMap::new();
    let mut sleeping: HashMap<i32, Sleep> = HashMap::new();
    let mut seen: HashSet<i32> = HashSet::new();
    let mut paired = Paired::default();
    for event in events {
        stacks.step(event);
        match event.kind {
            Kind::Switch { prev, left, next } => {
                seen.extend([prev, next]);
                running.insert(event.cpu, next);
                sleeping.remove(&next);
                if prev != 0 && left == Left::Uninterruptible {
                    sleeping.insert(prev, Sleep::Since(event.time_ns));
                } else {
                    sleeping.remove(&prev);
                }
            }
            Kind::LostSwitch { prev, next } => {
                seen.extend([prev, next]);
                running.insert(event.cpu, next);
                sleeping.remove(&next);
                sleeping.insert(prev, Sleep::Doubtful(event.time_ns));
            }
            Kind::Waking { pid } => {
                let cause = match stacks.innermost(event.cpu) {
                    Some(Context::Hardirq(..) | Context::Vector(_)) => "hardirq",
                    Some(Context::Softirq(_)) => "softirq",
                    None if running.get(&event.cpu).is_some_and(|&pid| pid != event.pid) => {
                        DOUBTFUL
                    }
                    None if event.pid == 0 => "idle",
                    None if kernel_threads.contains(&event.pid) => "kthread",
                    None => "task",
                };
                let since = match sleeping.remove(&pid) {
                    // One that slept when the recording began.
                    None if seen.insert(pid) => Sleep::Doubtful(event.time_ns),
                    None => continue,
                    Some(since) => since,
                };
                let (since_ns, certain) = match since {
                    Sleep::Since(since_ns) => {
                        (since_ns, event.time_ns.saturating_sub(since_ns) >= HAIR_NS)
                    }
                    Sleep::Doubtful(since_ns) => (since_ns, false),
                };
                let sample = Sample {
                    labels: label(cause),
                    pid,
                    cpu: event.cpu,
                    end_ns: event.time_ns,
                    value_ns: event.time_ns.saturating_sub(since_ns),
                    nested_ns: 0,
                };
                if certain { &mut paired.samples } else { &mut paired.orphans }.push(sample);
            }
            // Woken before it was switched away from: it waits for a CPU now.
            Kind::Wakeup { pid } => {
                seen.insert(pid);
                sleeping.remove(&pid);
            }
            _ => {}
        }
    }
    paired
}

/// The same, whoever woke them.
pub fn together(mut paired: Paired) -> Paired {
    paired.samples.iter_mut().for_each(|sample| sample.labels = label(""));
    paired
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairing::testing::{at, brief};

    fn switch(time: u64, prev: i32, left: Left, next: i32) -> Event {
        at(time, 0, Kind::Switch { prev, left, next })
    }

    fn waking(time: u64, by: i32, pid: i32) -> Event {
        Event { pid: by, ..at(time, 1, Kind::Waking { pid }) }
    }

    fn woken(events: &[Event]) -> Paired {
        uninterruptible_wait(events, &BTreeSet::from([20]))
    }

    #[test]
    fn who_wakes_is_the_innermost() {
        let sleep = |time, pid| switch(time, pid, Left::Uninterruptible, 0);
        let events = [
            sleep(0, 5),
            sleep(10, 6),
            sleep(20, 7),
            sleep(30, 8),
            sleep(40, 9),
            waking(50_000, 20, 5),
            waking(51_000, 3, 6),
            at(52_000, 1, Kind::SoftirqEntry { vector: "block".into() }),
            waking(52_500, 3, 7),
            at(53_000, 1, Kind::IrqEntry { irq: 30, name: "vda".into() }),
            waking(53_500, 3, 8),
            at(54_000, 1, Kind::IrqExit { irq: 30 }),
            at(55_000, 1, Kind::SoftirqExit { vector: "block".into() }),
            waking(56_000, 0, 9),
        ];
        let expected = [
            ("kthread", "", 50_000, 0),
            ("task", "", 50_990, 0),
            ("softirq", "", 52_480, 0),
            ("hardirq", "", 53_470, 0),
            ("idle", "", 55_960, 0),
        ];
        assert_eq!(brief(&woken(&events).samples), expected);
        assert!(together(woken(&events)).samples.iter().all(|one| one.labels == label("")));
    }

    #[test]
    fn other_states_and_earlier_wakeups_are_no_waits() {
        let events = [
            switch(0, 5, Left::Asleep, 6),
            waking(10_000, 6, 5),
            // On its way to sleep, and woken before it is there.
            waking(20_000, 6, 7),
            switch(20_100, 7, Left::Uninterruptible, 6),
            at(20_200, 1, Kind::Wakeup { pid: 7 }),
            switch(30_000, 6, Left::Runnable, 7),
            waking(40_000, 7, 6),
        ];
        let mut found = woken(&events);
        // It may have slept since before the recording, for all that can be seen.
        found.orphans.retain(|one| one.pid != 7);
        assert_eq!(found, Paired::default());
    }

    #[test]
    fn who_was_not_switched_to_is_doubtful() {
        let events = [
            switch(0, 5, Left::Uninterruptible, 0),
            at(10, 1, Kind::Switch { prev: 0, left: Left::Asleep, next: 69 }),
            waking(50_000, 20, 5),
        ];
        assert_eq!(brief(&woken(&events).samples), [(DOUBTFUL, "", 50_000, 0)]);
    }

    #[test]
    fn what_is_in_doubt_is_possible() {
        let events = [
            waking(10_000, 6, 5),
            at(20_000, 0, Kind::LostSwitch { prev: 8, next: 9 }),
            waking(50_000, 6, 8),
            switch(60_000, 9, Left::Uninterruptible, 0),
            waking(60_500, 6, 9),
        ];
        let found = woken(&events);
        assert!(found.samples.is_empty());
        let brief = brief(&found.orphans);
        assert_eq!(brief, [("task", "", 0, 0), ("task", "", 30_000, 0), ("task", "", 500, 0)]);
    }
}

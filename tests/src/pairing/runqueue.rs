//! `runqueue_wait{cause}`: from when a task became able to run to when it runs.
//!
//! The first event that made the task runnable counts. A wake-up of a task that is running starts
//! nothing that lasts: the next switch away from it either starts a wait of its own or, if it goes
//! to sleep, ends the matter. The idle task never waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Paired, Sample};
use crate::ftrace::event::{Event, Kind, Left};

/// Waits on the run queue.
pub fn runqueue_wait(events: &[Event]) -> Paired {
    let wakeup: Arc<str> = "wakeup".into();
    let preempt: Arc<str> = "preempt".into();
    let none: Arc<str> = "".into();
    let end = |event: &Event, pid| Sample {
        labels: (Arc::clone(&none), Arc::clone(&none)),
        pid,
        cpu: event.cpu,
        end_ns: event.time_ns,
        value_ns: 0,
        nested_ns: 0,
    };
    let mut waiting: HashMap<i32, (u64, &Arc<str>)> = HashMap::new();
    let mut doubtful: HashSet<i32> = HashSet::new();
    let mut paired = Paired::default();
    for event in events {
        match event.kind {
            Kind::Wakeup { pid } if pid != 0 => {
                waiting.entry(pid).or_insert((event.time_ns, &wakeup));
            }
            Kind::LostTurn { pid } => {
                doubtful.insert(pid);
            }
            // It had its turn: what waits is hardly ever woken.
            Kind::Waking { pid } if doubtful.remove(&pid) => {
                waiting.remove(&pid);
            }
            Kind::Switch { prev, left, next } => {
                doubtful.remove(&prev);
                if prev != 0 && left == Left::Runnable {
                    waiting.insert(prev, (event.time_ns, &preempt));
                } else {
                    waiting.remove(&prev);
                }
                if next == 0 {
                    continue;
                }
                let mut sample = end(event, next);
                match waiting.remove(&next) {
                    Some((start_ns, _)) if doubtful.remove(&next) => {
                        sample.value_ns = event.time_ns.saturating_sub(start_ns);
                        paired.orphans.push(sample);
                    }
                    Some((start_ns, cause)) => {
                        sample.labels.0 = Arc::clone(cause);
                        sample.value_ns = event.time_ns.saturating_sub(start_ns);
                        paired.samples.push(sample);
                    }
                    None => paired.orphans.push(sample),
                }
            }
            // The task that was left is runnable or not, and the other waited up to now at most.
            Kind::LostSwitch { prev, next } => {
                waiting.remove(&prev);
                let start_ns = waiting.remove(&next).map(|(start_ns, _)| start_ns);
                if next != 0 {
                    let mut sample = end(event, next);
                    sample.value_ns =
                        start_ns.map_or(0, |start_ns| event.time_ns.saturating_sub(start_ns));
                    paired.orphans.push(sample);
                }
            }
            _ => {}
        }
    }
    paired
}

/// Of the waits that begin with a wake-up, the time before: from when the waker began, or the task slept
/// where that was later, to when the task was on a run queue. They end with the waits.
pub fn ways_to_queues(events: &[Event]) -> Paired {
    let mut waking: HashMap<i32, u64> = HashMap::new();
    let mut ways: HashMap<i32, u64> = HashMap::new();
    let mut paired = Paired::default();
    for event in events {
        let now_ns = event.time_ns;
        match event.kind {
            Kind::Waking { pid } => {
                waking.entry(pid).or_insert(now_ns);
            }
            Kind::Wakeup { pid } if pid != 0 => {
                let since_ns = waking.remove(&pid);
                ways.entry(pid).or_insert(since_ns.map_or(0, |since_ns| now_ns - since_ns));
            }
            Kind::Switch { prev, left, next } => {
                ways.remove(&prev);
                // Its waker is on the way, unless it is one that found it running.
                if left != Left::Runnable
                    && let Some(since_ns) = waking.get_mut(&prev)
                {
                    *since_ns = now_ns;
                }
                if let Some(way_ns) = ways.remove(&next) {
                    paired.samples.push(Sample {
                        labels: super::label(""),
                        pid: next,
                        cpu: event.cpu,
                        end_ns: now_ns,
                        value_ns: way_ns,
                        nested_ns: 0,
                    });
                }
            }
            Kind::LostSwitch { prev, next } => {
                ways.remove(&prev);
                ways.remove(&next);
            }
            _ => {}
        }
    }
    paired
}

/// How many wake-ups found their task running: it was switched to and not yet away from.
pub fn wakeups_of_running(events: &[Event]) -> usize {
    let mut running: HashMap<u32, i32> = HashMap::new();
    let mut found = 0;
    for event in events {
        match event.kind {
            Kind::Switch { next, .. } | Kind::LostSwitch { next, .. } => {
                running.insert(event.cpu, next);
            }
            Kind::Wakeup { pid } if pid != 0 && running.values().any(|&current| current == pid) => {
                found += 1;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{runqueue_wait, wakeups_of_running, ways_to_queues};
    use crate::ftrace::event::{Event, Kind};
    use crate::pairing::testing::{at, brief, switch_at};

    fn switch(time: u64, cpu: u32, prev: i32, runnable: bool, next: i32) -> Event {
        switch_at(time, cpu, prev, runnable, next)
    }

    fn wakeup(time: u64, pid: i32) -> Event {
        at(time, 0, Kind::Wakeup { pid })
    }

    #[test]
    fn wakeup_then_preemption() {
        let events = [
            wakeup(10, 5),
            switch(13, 0, 0, true, 5),
            switch(20, 0, 5, true, 6),
            switch(50, 0, 6, false, 5),
        ];
        let paired = runqueue_wait(&events);
        assert_eq!(brief(&paired.samples), [("wakeup", "", 3, 0), ("preempt", "", 30, 0)]);
        // Task 6 came from before the trace; the idle task is never a victim.
        assert_eq!(paired.orphans.iter().map(|sample| sample.pid).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn the_way_to_a_queue_begins_with_the_waker_or_with_the_sleep() {
        let waking = |time, pid| at(time, 1, Kind::Waking { pid });
        let found = ways_to_queues(&[
            waking(5, 5),
            wakeup(10, 5),
            switch(13, 0, 0, true, 5),
            // Asleep while its waker is on the way.
            waking(20, 5),
            switch(24, 0, 5, false, 0),
            wakeup(26, 5),
            switch(30, 0, 0, true, 5),
            // A new one has no waker, and what is preempted has no way.
            wakeup(31, 6),
            switch(32, 0, 5, true, 6),
            switch(40, 0, 6, true, 5),
        ]);
        let ways: Vec<_> =
            found.samples.iter().map(|way| (way.pid, way.end_ns, way.value_ns)).collect();
        assert_eq!(ways, [(5, 13, 5), (5, 30, 2), (6, 32, 0)]);
    }

    #[test]
    fn a_second_wakeup_does_not_restart_the_wait() {
        let events = [wakeup(10, 5), wakeup(15, 5), switch(18, 0, 0, true, 5)];
        assert_eq!(brief(&runqueue_wait(&events).samples), [("wakeup", "", 8, 0)]);
    }

    #[test]
    fn a_wakeup_of_a_running_task_is_forgotten_when_it_sleeps() {
        let events = [
            wakeup(1, 5),
            switch(2, 0, 0, true, 5),
            wakeup(3, 5),
            switch(4, 0, 5, false, 0),
            wakeup(100, 5),
            switch(101, 0, 0, true, 5),
        ];
        assert_eq!(wakeups_of_running(&events), 1);
        let waits = runqueue_wait(&events);
        assert_eq!(brief(&waits.samples), [("wakeup", "", 1, 0), ("wakeup", "", 1, 0)]);
    }

    #[test]
    fn a_lost_switch_leaves_its_two_tasks_in_doubt() {
        let events = [
            wakeup(10, 5),
            at(30, 0, Kind::LostSwitch { prev: 7, next: 5 }),
            switch(40, 0, 5, false, 7),
        ];
        let paired = runqueue_wait(&events);
        assert!(paired.samples.is_empty());
        assert_eq!(brief(&paired.orphans), [("", "", 20, 0), ("", "", 0, 0)]);
    }

    #[test]
    fn a_wait_is_in_doubt_whose_end_may_have_been_missed() {
        let events = [
            wakeup(10, 5),
            at(30, 0, Kind::LostTurn { pid: 5 }),
            wakeup(80, 5),
            switch(90, 0, 0, true, 5),
            switch(95, 0, 5, true, 6),
            switch(99, 0, 6, false, 5),
            switch(100, 0, 5, false, 6),
            wakeup(110, 5),
            at(130, 0, Kind::LostTurn { pid: 5 }),
            at(170, 0, Kind::Waking { pid: 5 }),
            wakeup(171, 5),
            switch(173, 0, 6, false, 5),
        ];
        let paired = runqueue_wait(&events);
        assert_eq!(brief(&paired.samples), [("preempt", "", 4, 0), ("wakeup", "", 2, 0)]);
        assert_eq!(brief(&paired.orphans)[0], ("", "", 80, 0));
    }

    #[test]
    fn a_wakeup_of_a_running_task_gives_way_to_its_preemption() {
        let events = [
            wakeup(1, 5),
            switch(2, 0, 0, true, 5),
            wakeup(3, 5),
            switch(40, 0, 5, true, 6),
            switch(47, 1, 0, true, 5),
        ];
        assert_eq!(brief(&runqueue_wait(&events).samples)[1], ("preempt", "", 7, 0));
    }
}

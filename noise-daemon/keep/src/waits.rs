//! PURE: the longest waits of an incident's victim, from the events as the recorder has them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use noise_analysis::Watched;
use noise_common::signals::Signal;
use noise_common::store::StoredEvent;
use noise_trace::capture::unnamed;
use noise_trace::event::Event;
use noise_trace::follow::{Begin, ThreadState, ThreadStep, ThreadStretch, steps};

use super::newest::Newest;
use super::unseen::Gaps;

/// Most steps of threads that are looked at, the latest.
const MOST_STEPS: usize = 1 << 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptWait {
    pub tid: u32,
    /// From then on, ns on CLOCK_MONOTONIC.
    pub from_ns: u64,
    pub to_ns: u64,
}

impl KeptWait {
    pub const fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Which waits count: those that what was unusual is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Waits for a CPU.
    pub cpu: bool,
    /// Uninterruptible sleeps, up to the moment when the thread runs again.
    pub blocked: bool,
    /// Other sleeps, up to the wake-up.
    pub asleep: bool,
}

impl Wanted {
    /// Of an incident of that.
    pub fn of(watched: Watched) -> Self {
        match watched {
            Watched::Interruption
            | Watched::Signal(Signal::RunqueueWait | Signal::CgroupRunqueueWait) => {
                Self { cpu: true, blocked: false, asleep: false }
            }
            Watched::Signal(
                Signal::UninterruptibleWait
                | Signal::DirectReclaim
                | Signal::BlockQueueWait
                | Signal::BlockDeviceWait,
            ) => Self { cpu: false, blocked: true, asleep: false },
            Watched::Signal(_) => Self { cpu: true, blocked: true, asleep: false },
        }
    }

    const fn has(self, state: ThreadState) -> bool {
        match state {
            ThreadState::Off(_) if is_blocked(state) => self.blocked,
            ThreadState::Off(_) if state.awaits_wakeup() => self.asleep,
            ThreadState::Woken | ThreadState::Off(_) => self.cpu,
            ThreadState::Unseen | ThreadState::Running | ThreadState::Gone => false,
        }
    }
}

/// Whether it sleeps, and no signal ends that.
const fn is_blocked(state: ThreadState) -> bool {
    matches!(state, ThreadState::Off(left_in) if left_in.waits_uninterruptibly())
}

/// A step at a time.
type At = (u64, u32, ThreadStep);

/// Finds the longest waits of threads, of events in any order.
#[derive(Clone)]
pub struct LongestWaits<'a> {
    /// Whose; `None`: anyone's.
    tids: Option<&'a BTreeSet<u32>>,
    steps: Newest<At>,
}

impl<'a> LongestWaits<'a> {
    /// Of those threads, or of all.
    pub fn new(tids: Option<&'a BTreeSet<u32>>) -> Self {
        Self { tids, steps: Newest::new(MOST_STEPS, |(time_ns, ..)| *time_ns) }
    }

    pub fn note(&mut self, event: &StoredEvent) {
        let (Some(kind), time_ns) = (unnamed(event), event.time_ns) else { return };
        for (task, step, _) in steps(&Event { time_ns, cpu: 0, kind }, Begin::Waking) {
            let tid = task.tid.cast_unsigned();
            if tid != 0 && self.tids.is_none_or(|tids| tids.contains(&tid)) {
                self.steps.add((time_ns, tid, step));
            }
        }
    }

    /// So many of the longest that went on after a time, the longest first. What goes on at the end lasts until
    /// then. While some CPU is not seen a thread may run there: a wait for a CPU that ends later is known from the end of
    /// that on, and what goes on at the end, or is a sleep, not at all.
    pub fn longest(
        self,
        wanted: Wanted,
        span_ns: (u64, u64),
        gaps: &Gaps,
        most: usize,
    ) -> Vec<KeptWait> {
        self.heaviest(wanted, span_ns, gaps, most, |wait, _| wait.ns())
    }

    /// So many of those that weigh most, these first; without those that weigh nothing. It is said of each whether
    /// no signal could have ended it.
    pub fn heaviest(
        self,
        wanted: Wanted,
        (since_ns, end_ns): (u64, u64),
        gaps: &Gaps,
        most: usize,
        weight: impl Fn(&KeptWait, bool) -> u64,
    ) -> Vec<KeptWait> {
        let mut steps = self.steps.finish();
        steps.sort_unstable();
        let mut threads: HashMap<u32, ThreadStretch> = HashMap::new();
        let mut found = Vec::new();
        let mut end = |tid: u32, stretch: &ThreadStretch, to_ns: u64| {
            let Some(from_ns) = seen(stretch, to_ns, gaps) else { return };
            if wanted.has(stretch.state) && from_ns < to_ns && to_ns > since_ns {
                let wait = KeptWait { tid, from_ns, to_ns };
                let weight = weight(&wait, is_blocked(stretch.state));
                found.extend((weight > 0).then_some((weight, wait)));
            }
            if found.len() > 64 * (most + 1) {
                shorten(&mut found, most);
            }
        };
        for (at_ns, tid, step) in steps {
            let stretch = threads.entry(tid).or_default();
            if step == ThreadStep::Wakes {
                if gaps.end_within(stretch.since_ns, at_ns).is_some() {
                    // Whatever it did before, it slept just now.
                    *stretch = ThreadStretch::default();
                } else if wanted.blocked && is_blocked(stretch.state) {
                    // A sleep that counts goes on until the thread runs.
                    continue;
                }
            }
            let passed = stretch.step(step, 0, at_ns);
            if let (Some(passed), ThreadStep::Runs | ThreadStep::Wakes) = (passed, step) {
                end(tid, &passed, at_ns);
            }
        }
        let going_on = threads
            .iter()
            .filter(|(_, stretch)| gaps.end_within(stretch.since_ns, end_ns).is_none());
        going_on.for_each(|(tid, stretch)| end(*tid, stretch, end_ns));
        shorten(&mut found, most);
        found.into_iter().map(|(_, wait)| wait).collect()
    }
}

/// From when on it is known, up to a time.
fn seen(stretch: &ThreadStretch, to_ns: u64, gaps: &Gaps) -> Option<u64> {
    let waits = stretch.state == ThreadState::Woken
        || matches!(stretch.state, ThreadState::Off(left_in) if left_in.stays_runnable());
    match gaps.end_within(stretch.since_ns, to_ns) {
        None => Some(stretch.since_ns),
        Some(end_ns) => Some(end_ns).filter(|_| waits && end_ns < to_ns),
    }
}

fn shorten(waits: &mut Vec<(u64, KeptWait)>, most: usize) {
    waits.sort_unstable_by_key(|(weight, wait)| (Reverse(*weight), *wait));
    waits.truncate(most);
}

#[cfg(test)]
mod tests {
    use noise_common::store::EventKind;
    use noise_common::store::event::Body;

    use noise_wire::events::{AnswerItem, ItemPlace};

    use super::*;
    use crate::unseen::Unseen;

    const CPU: Wanted = Wanted { cpu: true, blocked: false, asleep: false };
    const BLOCKED: Wanted = Wanted { cpu: false, blocked: true, asleep: false };
    const ALL: Wanted = Wanted { cpu: true, blocked: true, asleep: true };

    fn longest(bodies: &[Body], tids: Option<&BTreeSet<u32>>, wanted: Wanted) -> Vec<KeptWait> {
        let mut waits = LongestWaits::new(tids);
        // By CPU, as files have them.
        bodies.iter().rev().for_each(|body| waits.note(&body.stored(0)));
        waits.longest(wanted, (0, 1_000), &Gaps::default(), 2)
    }

    fn wait(tid: u32, from_ns: u64, to_ns: u64) -> KeptWait {
        KeptWait { tid, from_ns, to_ns }
    }

    fn bodies() -> Vec<Body> {
        vec![
            // 7 sleeps, is woken, waits, runs, is preempted, and waits to the end.
            Body::switch((7, 120), 1, false, (9, 120), 100),
            Body::task(EventKind::Waking, 7, 120, 0, 0, 200),
            Body::switch((9, 120), 0, true, (7, 120), 500),
            Body::switch((7, 120), 0, true, (9, 120), 900),
            // 8 waits for a disk, and then for a CPU.
            Body::switch((8, 120), 2, false, (0, 120), 110),
            Body::task(EventKind::Waking, 8, 120, 1, 0, 600),
            Body::switch((0, 120), 0, false, (8, 120), 650),
            // 10 is an idle kernel thread.
            Body::switch((10, 120), 0x402, false, (0, 120), 700),
            Body::task(EventKind::Waking, 10, 120, 1, 0, 990),
            Body::switch((0, 120), 0, false, (10, 120), 991),
        ]
    }

    #[test]
    fn waits_for_a_cpu_begin_with_the_wake_up_or_the_preemption() {
        let own = BTreeSet::from([7]);
        let expected = [wait(7, 200, 500), wait(7, 900, 1_000)];
        assert_eq!(longest(&bodies(), Some(&own), CPU), expected);
        // 9 was preempted from 500 to 900.
        assert_eq!(longest(&bodies(), None, CPU), [wait(9, 500, 900), wait(7, 200, 500)]);
    }

    #[test]
    fn where_a_cpu_is_not_seen_what_goes_on_at_the_end_is_not_known() {
        let own = BTreeSet::from([7]);
        let mut waits = LongestWaits::new(Some(&own));
        bodies().iter().for_each(|body| waits.note(&body.stored(0)));
        let place = ItemPlace { cpu: 1, part: 0 };
        let gap = |complete_from_ns| {
            let mut unseen = Unseen::default();
            unseen.note(&AnswerItem::Part { place, complete_from_ns, classes: 0, store: 0 });
            unseen.finish()
        };
        let longest = |gap| waits.clone().longest(CPU, (0, 1_000), &gap, 2);
        assert_eq!(longest(gap(300)), [wait(7, 300, 500), wait(7, 900, 1_000)]);
        // It may run there since.
        assert_eq!(longest(gap(950)), []);
    }

    #[test]
    fn what_was_over_before_the_incident_began_does_not_count() {
        let own = BTreeSet::from([7]);
        let mut waits = LongestWaits::new(Some(&own));
        bodies().iter().for_each(|body| waits.note(&body.stored(0)));
        assert_eq!(waits.longest(CPU, (500, 950), &Gaps::default(), 2), [wait(7, 900, 950)]);
    }

    #[test]
    fn sleeps_that_no_signal_ends_last_until_the_thread_runs() {
        assert_eq!(longest(&bodies(), None, BLOCKED), [wait(8, 110, 650)]);
        // Where they do not count, what comes behind them does.
        let own = BTreeSet::from([8]);
        assert_eq!(longest(&bodies(), Some(&own), CPU), [wait(8, 600, 650)]);
    }

    #[test]
    fn one_that_has_ended_sleeps_no_more() {
        let dies = [
            Body::switch((0, 120), 0, false, (7, 120), 100),
            Body::switch((7, 120), 0x80, false, (0, 120), 200),
        ];
        assert_eq!(longest(&dies, None, ALL), []);
    }

    #[test]
    fn what_weighs_most_comes_first_and_what_weighs_nothing_is_left_out() {
        let mut waits = LongestWaits::new(None);
        bodies().iter().for_each(|body| waits.note(&body.stored(0)));
        // The end of a sleep that counts is that of another's begin.
        let weight = |wait: &KeptWait, is_blocked| match is_blocked {
            true => 1_000,
            false => {
                if wait.tid == 7 {
                    1_000 - wait.from_ns
                } else {
                    0
                }
            }
        };
        let found = waits.heaviest(ALL, (0, 1_000), &Gaps::default(), 3, weight);
        assert_eq!(found, [wait(8, 110, 650), wait(7, 100, 200), wait(7, 200, 500)]);
    }

    #[test]
    fn the_latest_steps_are_looked_at_where_there_are_too_many() {
        let mut waits = LongestWaits::new(None);
        for at in 0..4 * MOST_STEPS as u64 {
            waits.note(&Body::task(EventKind::Waking, 7, 120, 0, 0, at).stored(0));
        }
        let steps = waits.steps.finish();
        assert_eq!(steps.len(), MOST_STEPS);
        assert!(steps.iter().any(|(at, ..)| *at == 4 * MOST_STEPS as u64 - 1));
    }
}

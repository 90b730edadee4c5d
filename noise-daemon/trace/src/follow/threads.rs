//! What threads do.
//!
//! An event says of up to two threads what they do from then on: see [`steps`]. A thread's time from one step to the next is
//! a [`ThreadStretch`]; whoever looks at threads keeps one for each that matters to him, beside what he keeps of it.
//!
//! While events of a CPU are lost, a thread that does not run on another one may run there. Whether that may be so of a
//! stretch is a fact that [`ThreadSight`] knows.

use super::{PerCpu, Processor};
use crate::event::{Event, Task, TraceKind};
use crate::sight::Sight;
use crate::state::LeftIn;

/// Which event says that a thread is woken: what it begins is a wait for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// `sched_wakeup`, as live: the thread is on a run queue from then on.
    #[default]
    Wakeup,
    /// The first of `sched_waking` and `sched_wakeup`, for recordings that have no other than the former: the way to the
    /// run queue counts as a wait, too.
    Waking,
}

/// What an event says of a thread. Of steps at one time, the first of these comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadStep {
    /// It has no CPU any more, and is left in that state.
    Leaves(LeftIn),
    Wakes,
    /// It is new, and wants a CPU.
    Begins,
    /// It gets a CPU.
    Runs,
    /// It runs for the last time.
    Exits,
}

/// The steps of an event, in their order, each with its thread and the CPU where that runs, ran, or waits from now on.
pub fn steps<'e>(
    event: &'e Event<'_>,
    begin: Begin,
) -> impl Iterator<Item = (&'e Task, ThreadStep, u32)> + use<'e> {
    let (first, second) = match &event.kind {
        TraceKind::SchedSwitch { prev, prev_state, next } => {
            let leaves = (prev, ThreadStep::Leaves(*prev_state), event.cpu);
            (Some(leaves), Some((next, ThreadStep::Runs, event.cpu)))
        }
        TraceKind::SchedWaking(_) if begin == Begin::Wakeup => (None, None),
        TraceKind::SchedWaking(woken) | TraceKind::SchedWakeup(woken) => {
            (Some((&woken.task, ThreadStep::Wakes, woken.target_cpu)), None)
        }
        TraceKind::SchedWakeupNew(woken) => {
            (Some((&woken.task, ThreadStep::Begins, woken.target_cpu)), None)
        }
        TraceKind::SchedProcessExit(task) => (Some((task, ThreadStep::Exits, event.cpu)), None),
        _ => (None, None),
    };
    first.into_iter().chain(second)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadState {
    /// No event said so yet.
    #[default]
    Unseen,
    Running,
    /// It waits for a CPU since it was woken.
    Woken,
    /// It has left its CPU in that state: it waits for the next one, sleeps, or what the trace says has no meaning that is
    /// known.
    Off(LeftIn),
    /// It has ended. Who has its id from then on is another one.
    Gone,
}

impl ThreadState {
    const fn is_unknown(self) -> bool {
        matches!(self, Self::Unseen | Self::Gone)
    }

    /// Whether the next that happens is that it is woken, or runs without that.
    pub const fn awaits_wakeup(self) -> bool {
        matches!(self, Self::Off(left_in) if !left_in.stays_runnable())
    }
}

/// A thread's time since its latest step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStretch {
    pub state: ThreadState,
    pub since_ns: u64,
    /// Where it runs, ran last, or waits since it was woken.
    pub cpu: u32,
    /// It was woken while it ran: its waker may have seen it asleep already, and makes it runnable once it is.
    is_woken: bool,
    exits: bool,
    /// [`Sight::losses`] when it began.
    losses: u32,
}

impl ThreadStretch {
    /// Takes a step. The stretch that ends with it; `None` where the thread goes on with what it did.
    pub fn step(&mut self, step: ThreadStep, cpu: u32, now_ns: u64) -> Option<Self> {
        let sleeps = self.state.awaits_wakeup();
        let state = match step {
            ThreadStep::Leaves(left_in) if left_in.has_ended() => ThreadState::Gone,
            ThreadStep::Leaves(left_in) if self.exits && !left_in.stays_runnable() => {
                ThreadState::Gone
            }
            ThreadStep::Leaves(left_in) => ThreadState::Off(left_in),
            ThreadStep::Runs => ThreadState::Running,
            ThreadStep::Wakes if sleeps || self.state.is_unknown() => ThreadState::Woken,
            ThreadStep::Begins => ThreadState::Woken,
            ThreadStep::Wakes => {
                self.is_woken |= self.state == ThreadState::Running;
                return None;
            }
            ThreadStep::Exits => {
                self.exits = true;
                return None;
            }
        };
        let exits = self.exits && state != ThreadState::Gone;
        let is_woken = self.is_woken && matches!(state, ThreadState::Off(_));
        let now = Self { state, since_ns: now_ns, cpu, is_woken, exits, ..*self };
        Some(std::mem::replace(self, now))
    }

    /// Nothing is known of it any more.
    fn forget(&mut self) {
        *self = Self { exits: self.exits, ..Self::default() };
    }
}

/// A stretch that ended, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedStretch {
    pub state: ThreadState,
    pub cpu: u32,
    pub from_ns: u64,
    /// Up to when the thread is known to have done that.
    pub to_ns: u64,
    /// It was woken right before it went to sleep, on its way there: if nothing else wakes it, it is runnable all the time.
    pub is_woken: bool,
    /// Events may be missing since then: when it really ended is not known.
    pub is_lost: bool,
}

/// Of which stretches events may be missing.
#[derive(Clone, Debug, Default)]
pub struct ThreadSight {
    cpus: PerCpu<Processor>,
    sight: Sight,
}

impl ThreadSight {
    /// Takes the next event, before its steps are taken. The thread that was known to run on its CPU until now, where the
    /// switch away from it is missing.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<i32> {
        self.sight.follow(event);
        let cpu = self.cpus.of(event.cpu)?;
        let missed = match &event.kind {
            TraceKind::SchedSwitch { prev, .. } => cpu.unseen(prev.tid),
            TraceKind::Lost(_) => cpu.current(),
            _ => None,
        };
        cpu.follow(event);
        missed
    }

    /// A stretch, up to when it is known at a time.
    pub fn until(&self, stretch: &ThreadStretch, now_ns: u64) -> PassedStretch {
        let ThreadStretch { state, since_ns: from_ns, cpu, is_woken, .. } = *stretch;
        let is_lost = state != ThreadState::Running
            && (stretch.losses != self.sight.losses() || !self.sight.is_whole());
        let to_ns = match is_lost {
            true => self.sight.gaps(from_ns, now_ns).first().map_or(from_ns, |gap| gap.0),
            false => now_ns,
        };
        let is_woken = is_woken && state.awaits_wakeup();
        PassedStretch { state, cpu, from_ns, to_ns: to_ns.max(from_ns), is_woken, is_lost }
    }

    /// Takes a step of a thread, of which nothing is known any more where events may be missing. The stretch that ends with it.
    pub fn step(
        &self,
        stretch: &mut ThreadStretch,
        (step, cpu): (ThreadStep, u32),
        now_ns: u64,
    ) -> Option<PassedStretch> {
        let passed = self.until(stretch, now_ns);
        if passed.is_lost {
            stretch.forget();
        }
        let is_other = stretch.step(step, cpu, now_ns).is_some();
        if is_other {
            stretch.losses = self.sight.losses();
        }
        (is_other || passed.is_lost).then_some(passed)
    }

    /// The run of the thread that [`Self::follow`] named has ended without a switch; `None` if it went on on another CPU.
    pub fn lose_run(stretch: &mut ThreadStretch, event: &Event<'_>) -> Option<PassedStretch> {
        let ThreadStretch { state, since_ns: from_ns, cpu, .. } = *stretch;
        if state != ThreadState::Running || cpu != event.cpu {
            return None;
        }
        stretch.forget();
        // Of a missing switch it is not known when it was.
        let known_ns = match &event.kind {
            TraceKind::Lost(loss) => loss.from_ns.min(event.time_ns),
            _ => from_ns,
        };
        let to_ns = known_ns.max(from_ns);
        Some(PassedStretch { state, cpu, from_ns, to_ns, is_woken: false, is_lost: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LostEvents;
    use crate::fixtures::switch;

    const ASLEEP: LeftIn = LeftIn::of(1);

    /// A stretch that began at 0 in one state, after a step at 10.
    fn stepped(state: ThreadState, step: ThreadStep) -> (ThreadStretch, Option<ThreadStretch>) {
        let before = ThreadStretch { state, ..ThreadStretch::default() };
        let mut stretch = before;
        let passed = stretch.step(step, 3, 10);
        assert!(passed.is_none_or(|passed| passed == before));
        (stretch, passed)
    }

    #[test]
    fn a_thread_goes_from_state_to_state() {
        use ThreadState::{Gone, Off, Running, Unseen, Woken};
        let preempted = Off(LeftIn::of(0));
        for (before, step, after) in [
            (Unseen, ThreadStep::Wakes, Some(Woken)),
            (Unseen, ThreadStep::Leaves(ASLEEP), Some(Off(ASLEEP))),
            (Off(ASLEEP), ThreadStep::Wakes, Some(Woken)),
            (Off(LeftIn::of(0x200)), ThreadStep::Wakes, Some(Woken)),
            (Off(ASLEEP), ThreadStep::Runs, Some(Running)),
            (preempted, ThreadStep::Wakes, None),
            (Woken, ThreadStep::Wakes, None),
            (Running, ThreadStep::Wakes, None),
            (Running, ThreadStep::Exits, None),
            (Gone, ThreadStep::Wakes, Some(Woken)),
            // It is another one.
            (Running, ThreadStep::Begins, Some(Woken)),
        ] {
            let (stretch, passed) = stepped(before, step);
            assert_eq!(passed.is_some(), after.is_some(), "{before:?} {step:?}");
            assert_eq!(stretch.state, after.unwrap_or(before), "{before:?} {step:?}");
            assert_eq!(stretch.since_ns, if after.is_some() { 10 } else { 0 });
        }
    }

    #[test]
    fn a_thread_that_exits_is_gone_once_it_sleeps() {
        let (mut stretch, _) = stepped(ThreadState::Running, ThreadStep::Exits);
        let preempted = LeftIn::of(0);
        stretch.step(ThreadStep::Leaves(preempted), 3, 20);
        assert_eq!(stretch.state, ThreadState::Off(preempted));
        stretch.step(ThreadStep::Runs, 3, 30);
        stretch.step(ThreadStep::Leaves(ASLEEP), 3, 40);
        assert_eq!(stretch.state, ThreadState::Gone);
        stretch.step(ThreadStep::Leaves(ASLEEP), 3, 50);
        assert_eq!(stretch.state, ThreadState::Off(ASLEEP));
        // A trace without that event says so at the last switch.
        stretch.step(ThreadStep::Runs, 3, 60);
        stretch.step(ThreadStep::Leaves(LeftIn::of(0x20)), 3, 70);
        assert_eq!(stretch.state, ThreadState::Gone);
    }

    #[test]
    fn lost_events_are_a_fact_of_who_has_no_cpu() {
        let mut sight = ThreadSight::default();
        let lost = LostEvents { events: 1, packets: 0, from_ns: 20, to_ns: 60 };
        let event = |time_ns, cpu, kind| Event { time_ns, cpu, kind };
        let mut sleeps = ThreadStretch::default();
        let mut runs = ThreadStretch::default();
        assert_eq!(sight.follow(&event(10, 0, switch(1, 1, 2))), None);
        sight.step(&mut sleeps, (ThreadStep::Leaves(ASLEEP), 0), 10);
        sight.step(&mut runs, (ThreadStep::Runs, 0), 10);
        assert_eq!(sight.follow(&event(20, 1, TraceKind::Lost(lost))), None);
        let passed = sight.until(&sleeps, 30);
        assert_eq!((passed.from_ns, passed.to_ns, passed.is_lost), (10, 20, true));
        assert!(!sight.until(&runs, 30).is_lost);
        // What begins meanwhile is not known either.
        let mut other = ThreadStretch::default();
        sight.step(&mut other, (ThreadStep::Wakes, 0), 40);
        assert!(sight.until(&other, 50).is_lost);
        // Nor is it afterwards; what begins then is.
        sight.follow(&event(70, 0, switch(2, 1, 3)));
        assert!(sight.until(&other, 70).is_lost && sight.until(&sleeps, 70).is_lost);
        sight.step(&mut runs, (ThreadStep::Leaves(ASLEEP), 0), 70);
        assert!(!sight.until(&runs, 80).is_lost);
        // A loss on its own CPU ends a run, and so does a switch away from another thread.
        let run = ThreadStretch { state: ThreadState::Running, ..runs };
        let lost = event(90, 0, TraceKind::Lost(LostEvents { from_ns: 88, to_ns: 90, ..lost }));
        assert_eq!(sight.follow(&lost), Some(3));
        let mut stretch = run;
        let passed = ThreadSight::lose_run(&mut stretch, &lost).unwrap();
        assert_eq!((passed.from_ns, passed.to_ns, stretch.state), (70, 88, ThreadState::Unseen));
        let mut elsewhere = ThreadStretch { cpu: 5, ..run };
        assert_eq!(ThreadSight::lose_run(&mut elsewhere, &lost), None);
        sight.follow(&event(95, 0, switch(3, 1, 4)));
        assert_eq!(sight.follow(&event(99, 0, switch(6, 1, 7))), Some(4));
    }
}

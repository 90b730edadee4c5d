//! Who runs on each CPU.
//!
//! A switch says who runs from then on. After lost events another thread may run than the latest switch says:
//! [`Processor::current`] is `None` then, and [`Processor::latest`] is that thread. Where a switch takes a CPU from another
//! thread than the one that had got it, a switch in between is missing: see [`Processor::unseen`], and
//! [`Processor::unpaired`] if no event was lost.

use crate::event::{Event, TraceKind};

/// CPUs that are followed; the kernel's own limit.
pub const MAX_CPUS: usize = 8192;

#[derive(Clone, Debug, Default)]
pub struct PerCpu<T>(Vec<T>);

impl<T: Default> PerCpu<T> {
    /// The value of a CPU, which begins with the default; `None` for a number that no kernel gives to a CPU.
    pub fn of(&mut self, cpu: u32) -> Option<&mut T> {
        let number = cpu as usize;
        if number >= self.0.len() && number < MAX_CPUS {
            self.0.resize_with(number + 1, T::default);
        }
        self.0.get_mut(number)
    }

    /// The value of a CPU that [`Self::of`] was asked for, or of one below it.
    pub fn get(&self, cpu: u32) -> Option<&T> {
        self.0.get(cpu as usize)
    }

    /// The values of all CPUs, up to the last one that [`Self::of`] was asked for.
    pub fn all(&self) -> &[T] {
        &self.0
    }
}

/// Who runs on one CPU. `Who` is what the user knows threads by.
#[derive(Clone, Copy, Debug)]
pub struct Processor<Who = i32> {
    latest: Option<Who>,
    since_ns: u64,
    losses: u32,
    /// Events were lost since the latest switch.
    is_lost: bool,
    /// Up to when events may have been lost.
    lost_until_ns: u64,
}

impl<Who> Default for Processor<Who> {
    fn default() -> Self {
        Self { latest: None, since_ns: 0, losses: 0, is_lost: false, lost_until_ns: 0 }
    }
}

impl<Who: Copy + PartialEq> Processor<Who> {
    /// Who runs, where that is certain: not before the first switch, and not between lost events and the next one.
    pub fn current(&self) -> Option<Who> {
        self.latest.filter(|_| !self.is_lost)
    }

    /// Who runs by the latest switch, whatever was lost since.
    pub const fn latest(&self) -> Option<Who> {
        self.latest
    }

    /// The time that [`Self::goes_to`] was last given; 0 before the first switch.
    pub const fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// How often events were lost.
    pub const fn losses(&self) -> u32 {
        self.losses
    }

    /// The thread that was known to run, if a switch takes the CPU from another one: the switch away from it is missing.
    pub fn unseen(&self, prev: Who) -> Option<Who> {
        self.current().filter(|current| *current != prev)
    }

    /// The same, if no event was lost since that thread got the CPU: the switch was not recorded.
    pub fn unpaired(&self, prev: Who) -> Option<Who> {
        self.unseen(prev).filter(|_| self.since_ns >= self.lost_until_ns)
    }

    /// A switch to a thread; `None` if the user does not know it, or knows no idle task.
    pub const fn goes_to(&mut self, next: Option<Who>, now_ns: u64) {
        (self.latest, self.since_ns, self.is_lost) = (next, now_ns, false);
    }

    /// Events were lost. Who ran until then.
    pub fn lose(&mut self) -> Option<Who> {
        let current = self.current();
        (self.losses, self.is_lost) = (self.losses.wrapping_add(1), true);
        current
    }

    /// The same, of a loss that lasts up to a time at most: some events before that time may be there.
    pub fn lose_until(&mut self, until_ns: u64) -> Option<Who> {
        self.lost_until_ns = self.lost_until_ns.max(until_ns);
        self.lose()
    }
}

impl Processor {
    /// Takes the next event of this CPU. Who ran until then: whose event it is, unless it is an interrupt's.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<i32> {
        let current = self.current();
        match &event.kind {
            TraceKind::SchedSwitch { next, .. } => self.goes_to(Some(next.tid), event.time_ns),
            // After an exec, a thread has the id of its process's first thread.
            TraceKind::SchedProcessExec { tid, old_tid, .. }
                if *old_tid > 0 && self.latest == Some(*old_tid) =>
            {
                self.latest = Some(*tid);
            }
            TraceKind::Lost(loss) => {
                self.lose_until(loss.to_ns);
            }
            _ => {}
        }
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LostEvents;
    use crate::fixtures::switch;

    fn follow(processor: &mut Processor, time_ns: u64, kind: TraceKind<'_>) -> Option<i32> {
        processor.follow(&Event { time_ns, cpu: 0, kind })
    }

    fn exec(tid: i32, old_tid: i32) -> TraceKind<'static> {
        TraceKind::SchedProcessExec { filename: b"/bin/true", tid, old_tid }
    }

    #[test]
    fn the_thread_of_an_event_is_the_one_that_the_switch_before_went_to() {
        let mut processor = Processor::default();
        assert_eq!((processor.current(), processor.since_ns()), (None, 0));
        assert_eq!(follow(&mut processor, 10, switch(7, 0, 8)), None);
        assert_eq!(follow(&mut processor, 20, TraceKind::Other("sys_read")), Some(8));
        assert_eq!(follow(&mut processor, 30, switch(8, 0, 0)), Some(8));
        assert_eq!((processor.current(), processor.since_ns()), (Some(0), 30));
        // Its switch to 9 is missing.
        assert_eq!((processor.unseen(0), processor.unseen(9)), (None, Some(0)));
    }

    #[test]
    fn lost_events_are_a_fact_until_the_next_switch() {
        let lost = TraceKind::Lost(LostEvents { events: 1, packets: 0, from_ns: 15, to_ns: 16 });
        let mut processor = Processor::default();
        follow(&mut processor, 10, switch(7, 0, 8));
        assert_eq!(follow(&mut processor, 15, lost), Some(8));
        assert_eq!(follow(&mut processor, 16, lost), None);
        assert_eq!((processor.current(), processor.latest()), (None, Some(8)));
        // After lost events no thread is known to have run there, so none is missed at the next switch.
        assert_eq!((processor.unseen(9), processor.losses()), (None, 2));
        follow(&mut processor, 20, switch(9, 0, 8));
        assert_eq!((processor.current(), processor.losses()), (Some(8), 2));
    }

    #[test]
    fn a_switch_is_unpaired_only_if_no_event_was_lost_since_the_one_before() {
        let lost = TraceKind::Lost(LostEvents { events: 1, packets: 0, from_ns: 15, to_ns: 40 });
        let mut processor = Processor::default();
        assert_eq!(processor.unpaired(9), None);
        follow(&mut processor, 10, switch(7, 0, 8));
        assert_eq!((processor.unpaired(8), processor.unpaired(9)), (None, Some(8)));
        // Events before the end of the loss do not say when they were lost.
        follow(&mut processor, 15, lost);
        assert_eq!(processor.unpaired(9), None);
        follow(&mut processor, 20, switch(9, 0, 8));
        assert_eq!((processor.unseen(9), processor.unpaired(9)), (Some(8), None));
        follow(&mut processor, 40, switch(9, 0, 8));
        assert_eq!(processor.unpaired(9), Some(8));
    }

    #[test]
    fn a_thread_that_runs_another_program_has_its_processs_id() {
        let mut processor = Processor::default();
        follow(&mut processor, 10, switch(7, 0, 8));
        follow(&mut processor, 11, exec(5, 6));
        follow(&mut processor, 12, exec(8, 8));
        assert_eq!(processor.current(), Some(8));
        assert_eq!(follow(&mut processor, 13, exec(5, 8)), Some(8));
        assert_eq!((processor.current(), processor.since_ns()), (Some(5), 10));
    }

    #[test]
    fn cpus_that_no_kernel_has_have_nothing() {
        let mut all = PerCpu::<u8>::default();
        *all.of(3).unwrap() = 1;
        assert_eq!(all.all(), [0, 0, 0, 1]);
        assert_eq!(all.of(MAX_CPUS as u32), None);
        assert_eq!((all.get(3), all.get(4)), (Some(&1), None));
    }
}

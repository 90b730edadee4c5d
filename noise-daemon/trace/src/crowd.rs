//! How many threads a recording may name.
//!
//! What an analysis knows of a thread is many times as much as the event that names it: a recording that was made to do harm
//! names millions of them in a small file. Hosts have up to about 100,000 threads at a time.
//!
//! Threads that ended count as long as the analysis keeps them: see [`Crowd::since`] and [`Crowd::alive`].

use std::fmt;

use foldhash::HashSet;

use crate::event::{Event, TraceKind};
use crate::events;
use crate::ids::Ids;
use crate::threads::MAX_TID;

/// Threads that are kept apart, those of all recordings that are read together.
pub const MOST_THREADS: u32 = 1 << 18;

/// Which threads that ended are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ended {
    #[default]
    All,
    /// Those that end from that time on.
    Since(u64),
    None,
}

/// Which threads are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    All,
    InPart,
    BeforePart,
    Alive,
    /// Those on critical paths, and those that may come onto one.
    Needed,
}

/// A recording names more threads than are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyThreads {
    many: Many,
    most: u32,
    /// How long behind the first event they are still no more.
    within_ns: u64,
}

impl TooManyThreads {
    /// Of critical paths, which forget threads that are not needed any more.
    pub const fn needed(most: u32, within_ns: u64) -> Self {
        Self { many: Many::Needed, most, within_ns }
    }
}

impl std::error::Error for TooManyThreads {}

impl fmt::Display for TooManyThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { many, most, within_ns } = self;
        let which = match many {
            Many::All => "",
            Many::InPart => " in the time that is asked for",
            Many::BeforePart => " that have not ended before the time that is asked for",
            Many::Alive => " that have not ended",
            Many::Needed => " that critical paths may need",
        };
        write!(
            f,
            "the recording names more than {most} threads{which}, and noised keeps no more apart: "
        )?;
        let to = format!("--to=+{}.{:09}s", within_ns / 1_000_000_000, within_ns % 1_000_000_000);
        const CUT: &str = "(`babeltrace2 --begin=… --end=… --component=sink.ctf.fs`)";
        match many {
            Many::All | Many::Alive => {
                write!(f, "analyse its begin with {to}, or cut out a later part first {CUT}")
            }
            Many::InPart | Many::Needed => {
                let from = to.replacen("to", "from", 1);
                write!(f, "analyse it up to there with {to}, and what follows with {from}")
            }
            Many::BeforePart => write!(f, "cut that time out first {CUT}"),
        }
    }
}

/// Ids of one recording.
#[derive(Clone, Debug, Default)]
struct NamedIds {
    kept: Ids,
    /// Of those, threads that run for the last time.
    exiting: Ids,
}

/// The threads that recordings have named so far, and that are kept.
#[derive(Clone, Debug)]
pub struct Crowd {
    recordings: Vec<NamedIds>,
    /// Ids that no thread has, by recording: not every analysis leaves them out.
    others: HashSet<(u16, i32)>,
    count: u32,
    most: u32,
    first_ns: Option<u64>,
    ended: Ended,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            recordings: Vec::new(),
            others: HashSet::default(),
            count: 0,
            most: MOST_THREADS,
            first_ns: None,
            ended: Ended::All,
        }
    }
}

impl Crowd {
    /// One of an analysis that keeps all threads of a part of a recording, and forgets those that end before.
    pub fn since(from_ns: Option<u64>) -> Self {
        Self { ended: Ended::Since(from_ns.unwrap_or(0)), ..Self::default() }
    }

    /// One of an analysis that forgets threads that ended.
    pub fn alive() -> Self {
        Self { ended: Ended::None, ..Self::default() }
    }

    /// Takes the next event of one of several recordings. The thread that is to be forgotten after it.
    /// Errors: where it names one thread too many.
    #[inline]
    pub fn follow(
        &mut self,
        machine: u16,
        event: &Event<'_>,
    ) -> Result<Option<i32>, TooManyThreads> {
        if matches!(event.kind, TraceKind::Lost(_)) {
            return Ok(None);
        }
        let first_ns = *self.first_ns.get_or_insert(event.time_ns);
        let is_before = matches!(self.ended, Ended::Since(from_ns) if event.time_ns < from_ns);
        // These come behind the end of a thread, and say nothing else of it.
        let is_past = matches!(
            event.kind,
            TraceKind::SchedProcessFree(_) | TraceKind::SchedProcessWait { .. }
        );
        if !is_past {
            for tid in events::threads(&event.kind).into_iter().flatten() {
                self.note(machine, tid);
            }
        }
        if self.count > self.most {
            let within_ns = event.time_ns.saturating_sub(first_ns).saturating_sub(1);
            let many = match self.ended {
                Ended::All => Many::All,
                Ended::Since(_) if is_before => Many::BeforePart,
                Ended::Since(_) => Many::InPart,
                Ended::None => Many::Alive,
            };
            return Err(TooManyThreads { many, most: self.most, within_ns });
        }
        match is_before || self.ended == Ended::None {
            true => Ok(self.leaves(machine, event)),
            false => Ok(None),
        }
    }

    fn note(&mut self, machine: u16, tid: i32) {
        if !(0..MAX_TID).contains(&tid) {
            self.count += u32::from(self.others.insert((machine, tid)));
            return;
        }
        let machine = usize::from(machine);
        if machine >= self.recordings.len() {
            self.recordings.resize_with(machine + 1, NamedIds::default);
        }
        let Some(recording) = self.recordings.get_mut(machine) else { return };
        self.count += u32::from(recording.kept.insert(tid));
    }

    /// The thread that ends with an event, by the events that say so.
    fn leaves(&mut self, machine: u16, event: &Event<'_>) -> Option<i32> {
        let NamedIds { kept, exiting } = self.recordings.get_mut(usize::from(machine))?;
        let tid = match &event.kind {
            TraceKind::SchedSwitch { prev, prev_state, .. } => {
                let is_last = !prev_state.stays_runnable() && exiting.contains(prev.tid);
                (is_last || prev_state.has_ended()).then_some(prev.tid)
            }
            TraceKind::SchedProcessFree(task) => Some(task.tid),
            TraceKind::SchedProcessExit(task) => {
                exiting.insert(task.tid);
                None
            }
            TraceKind::SchedWakeupNew(woken) => {
                exiting.remove(woken.task.tid);
                None
            }
            TraceKind::SchedProcessFork { child, .. } => {
                exiting.remove(child.tid);
                None
            }
            // The thread that goes on has the id of its process's first one.
            TraceKind::SchedProcessExec { tid, old_tid, .. } if old_tid != tid => {
                exiting.remove(*tid);
                Some(*old_tid)
            }
            _ => None,
        };
        let tid = tid.filter(|tid| *tid > 0 && kept.remove(*tid))?;
        exiting.remove(tid);
        self.count -= 1;
        Some(tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LostEvents;
    use crate::fixtures::{ASLEEP, switch, task, wakeup};

    #[test]
    fn threads_are_counted_once_and_one_too_many_is_refused() {
        let mut crowd = Crowd { most: 4, ..Crowd::default() };
        let mut follow =
            |machine, time_ns, kind| crowd.follow(machine, &Event { time_ns, cpu: 0, kind });
        let lost = LostEvents { events: 1, ..LostEvents::default() };
        assert_eq!(follow(0, 10, TraceKind::Lost(lost)), Ok(None));
        for time_ns in 1_000..1_010 {
            assert_eq!(follow(0, time_ns, switch(1, 0, 0)), Ok(None));
            assert_eq!(follow(0, time_ns, switch(0, 0, 70)), Ok(None));
            // Another recording's 1 is another one.
            assert_eq!(follow(1, time_ns, wakeup(1, 0)), Ok(None));
        }
        let refused = follow(1, 1_500_001_001, wakeup(MAX_TID, 0)).unwrap_err();
        let sentence = refused.to_string();
        assert!(sentence.contains("names more than 4 threads"), "{sentence}");
        assert!(sentence.contains("with --to=+1.500000000s,"), "{sentence}");
    }

    #[test]
    fn the_threads_of_a_large_host_are_kept_apart() {
        let mut crowd = Crowd::default();
        let mut follow = |tid| crowd.follow(0, &Event { time_ns: 0, cpu: 0, kind: wakeup(tid, 0) });
        let most = i32::try_from(MOST_THREADS).unwrap();
        assert!((1..=most).all(|tid| follow(tid).is_ok()));
        assert!(follow(most + 1).is_err());
    }

    /// Threads one after the other, each created, run and ended; what came of the last event.
    fn passing(crowd: &mut Crowd, tids: impl Iterator<Item = i32>) -> Result<(), TooManyThreads> {
        for (number, tid) in (1_000_000_u64..).zip(tids) {
            let fork = TraceKind::SchedProcessFork {
                parent: task(1),
                parent_pid: 1,
                child: task(tid),
                child_pid: tid,
            };
            let kinds = [
                fork,
                switch(1, 0, tid),
                TraceKind::SchedProcessExit(task(tid)),
                switch(tid, 0, 1),
                switch(1, 0, tid),
                switch(tid, ASLEEP, 1),
                TraceKind::SchedProcessWait { comm: task(1).comm, child: tid, prio: 0 },
                TraceKind::SchedProcessFree(task(tid)),
            ];
            for (more, kind) in kinds.into_iter().enumerate() {
                let time_ns = 1_000 * number + more as u64;
                let left = crowd.follow(0, &Event { time_ns, cpu: 0, kind })?;
                let leaves = match crowd.ended {
                    Ended::All => false,
                    Ended::Since(from_ns) => time_ns < from_ns,
                    Ended::None => true,
                };
                assert_eq!(left.is_some(), leaves && more == 5, "{more}");
            }
        }
        Ok(())
    }

    #[test]
    fn threads_that_ended_leave_room() {
        let few = || Crowd { most: 4, ..Crowd::alive() };
        assert_eq!(passing(&mut few(), 2..1_000), Ok(()));
        // An id that is given again is one more that ends.
        assert_eq!(passing(&mut few(), [2, 3, 2, 3].into_iter().cycle().take(99)), Ok(()));
        assert!(passing(&mut Crowd { most: 4, ..Crowd::default() }, 2..1_000).is_err());
        // Where it is not seen to end, it stays.
        let mut crowd = few();
        let runs = |number| Event { time_ns: 0, cpu: 0, kind: switch(1, 0, number) };
        assert!((2..5).all(|number| crowd.follow(0, &runs(number)).is_ok()));
        assert!(crowd.follow(0, &runs(5)).is_err());
    }

    #[test]
    fn threads_that_ended_before_the_part_do_not_count() {
        let mut crowd = Crowd { most: 4, ..Crowd::since(Some(1_000_000_000 + 900_000)) };
        // Up to 2.9 ms behind the first event: 900 end before the part, and three more are too many.
        let refused = passing(&mut crowd, 2..);
        let sentence = refused.unwrap_err().to_string();
        assert!(
            sentence.contains("--to=+0.000902999s, and what follows with --from=+"),
            "{sentence}"
        );
        let mut crowd = Crowd { most: 4, ..Crowd::since(Some(u64::MAX)) };
        let mut name = |tid| crowd.follow(0, &Event { time_ns: 0, cpu: 0, kind: wakeup(tid, 0) });
        let refused = (1..6).map(&mut name).find_map(Result::err).unwrap().to_string();
        assert!(refused.contains("before the time that is asked for"), "{refused}");
    }
}

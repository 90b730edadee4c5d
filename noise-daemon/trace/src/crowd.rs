//! How many threads a recording may name.
//!
//! What an analysis knows of a thread it keeps to the end, many times as much as the event that names it: a recording that
//! was made to do harm names millions of them in a small file. Hosts have up to about 100,000 threads at a time.

use std::fmt;

use foldhash::HashSet;

use crate::event::{Event, TraceKind};
use crate::events;
use crate::threads::MAX_TID;

/// Threads that are kept apart, those of all recordings that are read together.
pub const MOST_THREADS: u32 = 1 << 18;

/// A recording names more threads than are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyThreads {
    most: u32,
    /// How long behind the first event they are still no more.
    within_ns: u64,
}

impl std::error::Error for TooManyThreads {}

impl fmt::Display for TooManyThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most, within_ns } = self;
        let seconds = format!("{}.{:09}", within_ns / 1_000_000_000, within_ns % 1_000_000_000);
        write!(
            f,
            "the recording names more than {most} threads, and noised keeps no more apart: analyse its begin with \
             --to=+{seconds}s, or cut out a later part first (`babeltrace2 --begin=… --end=… --component=sink.ctf.fs`)"
        )
    }
}

/// The threads that recordings have named so far.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// By recording, a bit for each id.
    named: Vec<Vec<u64>>,
    /// Ids that no thread has, by recording: not every analysis leaves them out.
    others: HashSet<(u16, i32)>,
    count: u32,
    most: u32,
    first_ns: Option<u64>,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            named: Vec::new(),
            others: HashSet::default(),
            count: 0,
            most: MOST_THREADS,
            first_ns: None,
        }
    }
}

impl Crowd {
    /// Takes the next event of one of several recordings.
    /// Errors: where it names one thread too many.
    #[inline]
    pub fn follow(&mut self, machine: u16, event: &Event<'_>) -> Result<(), TooManyThreads> {
        if matches!(event.kind, TraceKind::Lost(_)) {
            return Ok(());
        }
        let first_ns = *self.first_ns.get_or_insert(event.time_ns);
        for tid in events::threads(&event.kind).into_iter().flatten() {
            self.note(machine, tid);
        }
        if self.count > self.most {
            let within_ns = event.time_ns.saturating_sub(first_ns).saturating_sub(1);
            return Err(TooManyThreads { most: self.most, within_ns });
        }
        Ok(())
    }

    fn note(&mut self, machine: u16, tid: i32) {
        let Some(number) = usize::try_from(tid).ok().filter(|_| tid < MAX_TID) else {
            self.count += u32::from(self.others.insert((machine, tid)));
            return;
        };
        let machine = usize::from(machine);
        if machine >= self.named.len() {
            self.named.resize_with(machine + 1, Vec::new);
        }
        let Some(named) = self.named.get_mut(machine) else { return };
        let (place, bit) = (number / 64, 1 << (number % 64));
        if place >= named.len() {
            named.resize(place + 1, 0);
        }
        if let Some(bits) = named.get_mut(place) {
            self.count += u32::from(*bits & bit == 0);
            *bits |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LostEvents;
    use crate::fixtures::{switch, wakeup};

    #[test]
    fn threads_are_counted_once_and_one_too_many_is_refused() {
        let mut crowd = Crowd { most: 4, ..Crowd::default() };
        let mut follow =
            |machine, time_ns, kind| crowd.follow(machine, &Event { time_ns, cpu: 0, kind });
        let lost = LostEvents { events: 1, ..LostEvents::default() };
        assert_eq!(follow(0, 10, TraceKind::Lost(lost)), Ok(()));
        for time_ns in 1_000..1_010 {
            assert_eq!(follow(0, time_ns, switch(1, 0, 0)), Ok(()));
            assert_eq!(follow(0, time_ns, switch(0, 0, 70)), Ok(()));
            // Another recording's 1 is another one.
            assert_eq!(follow(1, time_ns, wakeup(1, 0)), Ok(()));
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
}

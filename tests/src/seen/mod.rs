//! What each thread did, by the switches and wake-ups of a recording: what a judgement of it rests on, and where
//! that sees nothing.
//!
//! While one of [the threads that are hidden](crate::ftrace) runs on a CPU, no event is recorded there: neither the
//! switch away from it, nor the wake-ups that it carries out. Whoever is switched from next came at an unknown moment,
//! and may have run since that hidden one came. A switch that is missing anywhere else is a fault of the recording.

pub mod path;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

use crate::events::Recorded;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// It has a CPU.
    Runs,
    /// It could run, and has none.
    Waits,
    /// It cannot run.
    Sleeps,
    /// It has no CPU, and the event that could say why was not seen.
    IsOff,
    /// It may have run in the place of a hidden thread.
    Unseen,
}

/// A stretch in which a thread does one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    does: Does,
}

/// What is known of all threads.
#[derive(Debug, Default)]
pub struct Seen {
    spans: BTreeMap<i32, Vec<Span>>,
    /// Switches that are missing though no hidden thread was left.
    pub missing: u64,
    open: BTreeMap<i32, (u64, Does)>,
    running: BTreeMap<u32, (u64, i32)>,
}

impl Seen {
    /// Reads the events of a recording in the order of time.
    /// Errors: if an event does not say what it should.
    pub fn read(events: &[Recorded], hidden: &BTreeSet<i32>) -> Result<Self> {
        let mut seen = Self::default();
        for event in events {
            let words: Vec<&str> = event.words.split(' ').collect();
            let tid = |at: usize| -> Result<i32> {
                let word = words.get(at).with_context(|| format!("{event:?} is short"))?;
                word.parse().with_context(|| format!("{event:?}"))
            };
            match words[0] {
                "switch" => {
                    // On an emulated processor, why it left is not in the words.
                    let (does, next) = match words.get(2).copied() {
                        Some("Runnable") => (Does::Waits, tid(3)?),
                        Some("Asleep" | "Uninterruptible") => (Does::Sleeps, tid(3)?),
                        _ => (Does::IsOff, tid(2)?),
                    };
                    seen.switch(event, (tid(1)?, does, next), hidden);
                }
                "waking" => seen.wake(event.time_ns, tid(1)?),
                "wakeup_new" => seen.begin(event.time_ns, tid(1)?, Does::Waits),
                // The thread that it was is gone, and its leader's id goes on.
                "exec" if tid(1)? != tid(2)? => seen.rename(event, tid(2)?, tid(1)?),
                _ => {}
            }
        }
        let end_ns = events.last().context("an empty recording")?.time_ns;
        let open: Vec<i32> = seen.open.keys().copied().collect();
        for tid in open {
            seen.end(end_ns, tid);
        }
        Ok(seen)
    }

    fn switch(
        &mut self,
        event: &Recorded,
        (prev, does, next): (i32, Does, i32),
        hidden: &BTreeSet<i32>,
    ) {
        let now_ns = event.time_ns;
        let before = self.running.insert(event.cpu, (now_ns, next));
        match before.filter(|(_, tid)| *tid != prev) {
            None => self.end(now_ns, prev),
            Some((since_ns, gone)) => {
                self.missing += u64::from(!hidden.contains(&gone));
                // Either may have had the CPU at any moment of it.
                for tid in [gone, prev] {
                    self.cut(since_ns, tid);
                    self.begin(since_ns, tid, Does::Unseen);
                    self.end(now_ns, tid);
                }
            }
        }
        self.begin(now_ns, prev, does);
        // Nobody was seen to wake it.
        if let Some((_, does @ Does::Sleeps)) = self.open.get_mut(&next) {
            *does = Does::IsOff;
        }
        self.begin(now_ns, next, Does::Runs);
    }

    fn wake(&mut self, now_ns: u64, tid: i32) {
        if self.open.get(&tid).is_some_and(|(_, does)| *does == Does::Sleeps) {
            self.begin(now_ns, tid, Does::Waits);
        }
    }

    fn rename(&mut self, event: &Recorded, old: i32, new: i32) {
        self.end(event.time_ns, old);
        self.begin(event.time_ns, new, Does::Runs);
        if let Some((_, tid)) = self.running.get_mut(&event.cpu).filter(|(_, tid)| *tid == old) {
            *tid = new;
        }
    }

    /// A thread begins to do something, and ends what it did.
    fn begin(&mut self, now_ns: u64, tid: i32, does: Does) {
        self.end(now_ns, tid);
        if tid != 0 {
            self.open.insert(tid, (now_ns, does));
        }
    }

    fn end(&mut self, now_ns: u64, tid: i32) {
        if let Some((from_ns, does)) = self.open.remove(&tid)
            && from_ns < now_ns
        {
            self.spans.entry(tid).or_default().push(Span { from_ns, to_ns: now_ns, does });
        }
    }

    /// Ends what a thread did at an earlier moment, from which on nothing is known of it. If it slept, nobody was seen
    /// to wake it.
    fn cut(&mut self, at_ns: u64, tid: i32) {
        if let Some((_, does @ Does::Sleeps)) = self.open.get_mut(&tid) {
            *does = Does::IsOff;
        }
        self.end(at_ns, tid);
        self.open.remove(&tid);
        let Some(spans) = self.spans.get_mut(&tid) else { return };
        while let Some(last) = spans.last_mut().filter(|last| last.to_ns > at_ns) {
            if last.from_ns < at_ns {
                last.to_ns = at_ns;
            } else {
                spans.pop();
            }
        }
    }

    /// What a thread does at a moment, and until when it does so; not known of one that no event names around it.
    fn at(&self, tid: i32, time_ns: u64) -> (Option<Does>, u64) {
        let spans = self.spans.get(&tid).map_or(&[][..], Vec::as_slice);
        let next = spans.partition_point(|span| span.to_ns <= time_ns);
        match spans.get(next) {
            Some(span) if span.from_ns <= time_ns => (Some(span.does), span.to_ns),
            Some(span) => (None, span.from_ns),
            None => (None, u64::MAX),
        }
    }

    /// For how long of a stretch a thread does something, ns.
    pub fn time_ns(&self, tid: i32, (from_ns, to_ns): (u64, u64), does: Does) -> u64 {
        let spans = self.spans.get(&tid).into_iter().flatten().filter(|span| span.does == does);
        spans.map(|span| span.to_ns.min(to_ns).saturating_sub(span.from_ns.max(from_ns))).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Does, Recorded, Seen};

    fn event(time_ns: u64, cpu: u32, words: &str) -> Recorded {
        Recorded { time_ns, cpu, words: words.to_owned() }
    }

    /// What events say, each with its time and its CPU.
    pub(crate) fn seen(events: &[(u64, u32, &str)], hidden: &[i32]) -> Seen {
        let events: Vec<Recorded> =
            events.iter().map(|&(time_ns, cpu, words)| event(time_ns, cpu, words)).collect();
        Seen::read(&events, &hidden.iter().copied().collect()).unwrap()
    }

    fn spans(seen: &Seen, tid: i32) -> Vec<(u64, u64, Does)> {
        seen.spans[&tid].iter().map(|span| (span.from_ns, span.to_ns, span.does)).collect()
    }

    #[test]
    fn a_thread_sleeps_waits_and_runs_as_its_events_say() {
        let events = [
            (10, 0, "switch 0 Runnable 5"),
            (20, 0, "switch 5 Asleep 6"),
            (30, 1, "waking 5"),
            (45, 0, "switch 6 Runnable 5"),
            (50, 0, "switch 5 Runnable 6"),
            (60, 0, "switch 6 Uninterruptible 5"),
            (70, 0, "switch 5 Asleep 0"),
        ];
        let seen = seen(&events, &[]);
        use Does::{Runs, Sleeps, Waits};
        let expected = [
            (10, 20, Runs),
            (20, 30, Sleeps),
            (30, 45, Waits),
            (45, 50, Runs),
            (50, 60, Waits),
            (60, 70, Runs),
        ];
        assert_eq!(spans(&seen, 5), expected);
        assert_eq!((seen.missing, seen.time_ns(5, (15, 48), Runs)), (0, 8));
        assert_eq!(seen.at(5, 30), (Some(Waits), 45));
        assert_eq!((seen.at(5, 5), seen.at(5, 70)), ((None, 10), (None, u64::MAX)));
    }

    #[test]
    fn what_a_hidden_thread_leaves_dark_is_known_to_be_so() {
        // Thread 1 is hidden: it woke 5 and gave it the CPU at unknown moments between 20 and 50.
        let events = [
            (10, 0, "switch 0 Runnable 5"),
            (15, 0, "switch 5 Asleep 0"),
            (20, 0, "switch 0 Runnable 1"),
            (50, 0, "switch 5 Asleep 6"),
            (60, 0, "switch 6 Asleep 0"),
        ];
        use Does::{IsOff, Runs, Unseen};
        let some = seen(&events, &[1]);
        let expected = [(10, 15, Runs), (15, 20, IsOff), (20, 50, Unseen), (50, 60, Does::Sleeps)];
        assert_eq!(spans(&some, 5), expected);
        assert_eq!(spans(&some, 1), [(20, 50, Unseen)]);
        assert_eq!(some.missing, 0);
        // Of one that is not hidden, the switch should have been there.
        assert_eq!(seen(&events, &[]).missing, 1);
    }

    #[test]
    fn a_wakeup_by_a_hidden_thread_on_another_cpu_leaves_the_wait_unknown() {
        let events = [
            (10, 0, "switch 0 Runnable 5"),
            (15, 0, "switch 5 Asleep 0"),
            (40, 0, "switch 0 Runnable 5"),
            (50, 0, "switch 5 Asleep 0"),
        ];
        assert_eq!(
            spans(&seen(&events, &[]), 5),
            [(10, 15, Does::Runs), (15, 40, Does::IsOff), (40, 50, Does::Runs)]
        );
    }

    #[test]
    fn a_thread_that_takes_its_leaders_id_goes_on() {
        let events =
            [(10, 0, "switch 0 Runnable 6"), (20, 0, "exec 5 6"), (30, 0, "switch 5 Asleep 0")];
        let seen = seen(&events, &[]);
        assert_eq!(spans(&seen, 5), [(20, 30, Does::Runs)]);
        assert_eq!(seen.missing, 0);
    }
}

//! IO: a beat of fixed length, from a timer of the kernel, which moves a little to meet those who ask for
//! samples at their own pace.
//!
//! A timer of the runtime would wake the daemon twice for each beat (at a slot of its wheel, and at
//! the time itself) and once more for being set anew.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// By this part of its length a beat may come earlier, and by half of that later.
const LEEWAY: u32 = 25;

/// When beats come, where some of what is done on request serves as one.
#[derive(Debug)]
struct TickSchedule {
    length: Duration,
    /// The shortest one, where that is another: then beats come when somebody asks.
    shortest: Duration,
    is_postponed: bool,
}

impl TickSchedule {
    fn new(length: Duration, shortest: Duration) -> Self {
        Self { length, shortest, is_postponed: false }
    }

    /// Whether what is requested `elapsed` after the last beat is the next one, because that is due; and how long
    /// from now the beat after this comes, where that changes. One that is not due comes a little later: so the
    /// beats soon meet one who asks once in some beats, and from then on nothing is done twice.
    ///
    /// Where beats may be shorter, the next one comes its whole length after the request: one who asks once in a beat
    /// is met at once.
    fn asked(&mut self, elapsed: Duration) -> (bool, Option<Duration>) {
        let is_due = elapsed + self.shortest / LEEWAY >= self.shortest;
        let was_postponed = std::mem::replace(&mut self.is_postponed, !is_due);
        // By half of it: one whose pace this is may come before or after its time.
        let later = self.length + self.length / LEEWAY / 2;
        let passed = if self.shortest < self.length { Duration::ZERO } else { elapsed };
        let next = match (is_due, was_postponed) {
            (true, _) => Some(later),
            (false, false) => Some(later - passed),
            (false, true) => None,
        };
        (is_due, next)
    }
}

/// Beats until it is dropped.
pub struct Beat {
    pace: TickSchedule,
    last: Instant,
    timer: TimerFd,
    /// The same timer, to wait for it.
    due: AsyncFd<OwnedFd>,
}

impl Beat {
    /// Beats at this interval; the first comes after one interval.
    /// Errors: where the kernel has no room for a timer.
    pub fn every(length: Duration) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        timer.set(Expiration::Interval(length.into()), TimerSetTimeFlags::empty())?;
        let own = timer.as_fd().try_clone_to_owned()?;
        // SAFETY: an `OwnedFd` keeps one open descriptor as long as it lives.
        let due = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?;
        let pace = TickSchedule::new(length, length);
        Ok(Self { pace, last: Instant::now(), timer, due })
    }

    /// Goes on with beats of another length, the first of them since the last beat; a beat that somebody asks for may
    /// be as short as `shortest`.
    pub fn set_length(&mut self, length: Duration, shortest: Duration) {
        if length == self.pace.length {
            return;
        }
        self.pace = TickSchedule::new(length, shortest);
        self.beat_in(length.saturating_sub(self.last.elapsed()));
    }

    /// Waits for the next beat. All that were missed count as one.
    /// Errors: where the timer cannot be read.
    pub async fn next(&mut self) -> io::Result<()> {
        let mut count = [0; size_of::<u64>()];
        let read = |timer: &OwnedFd| Ok(nix::unistd::read(timer, &mut count)?);
        self.due.async_io(Interest::READABLE, read).await?;
        self.pace.is_postponed = false;
        self.last = Instant::now();
        Ok(())
    }

    /// Whether what is done now, on request, is the next beat; see [`TickSchedule::asked`].
    pub fn is_now(&mut self) -> bool {
        let now = Instant::now();
        let (is_due, next) = self.pace.asked(now.duration_since(self.last));
        if is_due {
            self.last = now;
        }
        if let Some(next) = next {
            self.beat_in(next);
        }
        is_due
    }

    fn beat_in(&self, next: Duration) {
        // A timer of 0 is one that is off.
        let next = next.max(Duration::from_nanos(1));
        let beats = Expiration::IntervalDelayed(next.into(), self.pace.length.into());
        // Where the kernel refuses, it comes as it would have.
        let _ = self.timer.set(beats, TimerSetTimeFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn missed_beats_are_one() {
        let begin = Instant::now();
        let mut beat = Beat::every(Duration::from_millis(20)).unwrap();
        beat.next().await.unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(70));
        let missed = Instant::now();
        beat.next().await.unwrap();
        beat.next().await.unwrap();
        beat.next().await.unwrap();
        // The first had come long ago, two are of their own: more than one length between them.
        assert!(missed.elapsed() >= Duration::from_millis(20));
    }

    #[tokio::test]
    async fn what_is_due_is_done_once() {
        let mut beat = Beat::every(Duration::from_millis(20)).unwrap();
        assert!(!beat.is_now() || beat.last.elapsed() >= Duration::from_millis(19));
        std::thread::sleep(Duration::from_millis(50));
        let done = Instant::now();
        assert!(beat.is_now());
        beat.next().await.unwrap();
        assert!(done.elapsed() >= Duration::from_millis(20));
    }

    #[tokio::test]
    async fn another_length_counts_from_the_last_beat() {
        let ms = Duration::from_millis;
        let begin = Instant::now();
        let mut beat = Beat::every(ms(20)).unwrap();
        beat.set_length(ms(60), ms(20));
        beat.next().await.unwrap();
        assert!(begin.elapsed() >= ms(60));
        std::thread::sleep(ms(30));
        let changed = Instant::now();
        // Its time is over: it comes now, and the next one a length later.
        beat.set_length(ms(20), ms(20));
        beat.next().await.unwrap();
        beat.next().await.unwrap();
        assert!(changed.elapsed() >= ms(20));
    }

    /// How long each beat was where requests come at these times, ms, and whether each request was a beat.
    fn beats(
        length: u64,
        shortest: u64,
        requests: impl IntoIterator<Item = u64>,
    ) -> (Vec<u64>, Vec<bool>) {
        let mut pace =
            TickSchedule::new(Duration::from_millis(length), Duration::from_millis(shortest));
        let (mut last, mut next) = (0, length);
        let (mut lengths, mut met) = (Vec::new(), Vec::new());
        for at in requests {
            while next < at {
                // The daemon is late, too, but the timer does not wait for it.
                lengths.push(next + 1 - last);
                (last, next) = (next + 1, next + length);
                pace.is_postponed = false;
            }
            let (is_due, later) = pace.asked(Duration::from_millis(at - last));
            next = later.map_or(next, |later| at + later.as_millis() as u64);
            if is_due {
                lengths.push(at - last);
                last = at;
            }
            met.push(is_due);
        }
        (lengths, met)
    }

    fn ensure_between(lengths: &[u64], least: u64, most: u64) {
        assert!(lengths.iter().all(|length| (least..=most).contains(length)), "{lengths:?}");
    }

    /// A request may come 8 ms late.
    fn late(number: u64) -> u64 {
        number * 13 % 9
    }

    #[test]
    fn one_who_asks_at_an_even_pace_is_met_and_not_lost_again() {
        for every in [500, 1000, 2000, 15_000] {
            for first in (0..500).step_by(7) {
                let requests = (1..=100).map(|number| first + number * every + late(number));
                let (lengths, met) = beats(500, 500, requests);
                ensure_between(&lengths, 480, 511);
                let unmet = met.iter().take_while(|met| !**met).count();
                let is_kept = met.iter().skip(unmet).all(|met| *met);
                assert!(unmet <= 50 && is_kept, "every {every} ms from {first} on: {met:?}");
            }
        }
    }

    #[test]
    fn one_who_asks_once_in_a_beat_is_met_at_once_where_beats_may_be_shorter() {
        for every in [500, 600, 1000] {
            for first in (0..1000).step_by(7) {
                let requests = (0..100).map(|number| first + number * every + late(number));
                let (lengths, met) = beats(1000, 500, requests);
                ensure_between(&lengths, 480, 1511);
                assert!(
                    met.iter().skip(1).all(|met| *met),
                    "every {every} ms from {first} on: {met:?}"
                );
            }
        }
    }

    #[test]
    fn however_often_one_asks_the_beats_keep_their_length() {
        for every in [1, 90, 333, 700, 2100, 15_050] {
            let requests = || (1..500).map(|number| number * every);
            ensure_between(&beats(500, 500, requests()).0, 480, 511);
            ensure_between(&beats(1000, 500, requests()).0, 480, 1511);
        }
    }
}

//! IO: a beat of fixed length, from a timer of the kernel.
//!
//! A timer of the runtime would wake the daemon twice for each beat (at a slot of its wheel, and at
//! the time itself) and once more for being set anew.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Beats until it is dropped.
pub struct Beat(AsyncFd<OwnedFd>);

impl Beat {
    /// Beats at this interval; the first comes after one interval.
    ///
    /// # Errors
    /// Where the kernel has no room for a timer.
    pub fn every(length: Duration) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        timer.set(Expiration::Interval(length.into()), TimerSetTimeFlags::empty())?;
        // SAFETY: an `OwnedFd` keeps one open descriptor as long as it lives.
        Ok(Self(unsafe { AsyncFd::register_with_interest(timer.into(), Interest::READABLE) }?))
    }

    /// Waits for the next beat. All that were missed count as one.
    ///
    /// # Errors
    /// Where the timer cannot be read.
    pub async fn next(&self) -> io::Result<()> {
        let mut count = [0; size_of::<u64>()];
        let read = |timer: &OwnedFd| Ok(nix::unistd::read(timer, &mut count)?);
        self.0.async_io(Interest::READABLE, read).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn missed_beats_are_one() {
        let begin = Instant::now();
        let beat = Beat::every(Duration::from_millis(20)).unwrap();
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
}

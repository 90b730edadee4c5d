//! A wall clock that is set while delays are measured.

use std::io;
use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::load::Worker;
use noise_tests::prom::Scrape;
use noise_tests::recall::Recall;
use noise_tests::toll::Toll;

use super::asked_for;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[("the_clock_is_set", the_clock_is_set)];

const HOUR: i64 = 3600;

fn read(clock: libc::clockid_t) -> Result<Duration> {
    // SAFETY: an all-zero value is valid, and the call fills it.
    let (result, time) = unsafe {
        let mut time: libc::timespec = mem::zeroed();
        (libc::clock_gettime(clock, &raw mut time), time)
    };
    ensure!(result == 0, "clock_gettime: {}", io::Error::last_os_error());
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

/// The wall clock as it would be if it had not been set; put back when dropped.
struct WallClock {
    real: Duration,
    steady: Duration,
}

impl WallClock {
    fn keep() -> Result<Self> {
        Ok(Self { real: read(libc::CLOCK_REALTIME)?, steady: read(libc::CLOCK_MONOTONIC)? })
    }

    /// Sets it to so many seconds beside the truth.
    fn set(&self, beside: i64) -> io::Result<()> {
        let steady = read(libc::CLOCK_MONOTONIC).map_err(io::Error::other)?;
        let truth = self.real + steady.saturating_sub(self.steady);
        let time = libc::timespec {
            tv_sec: truth.as_secs().cast_signed() + beside,
            tv_nsec: libc::c_long::from(truth.subsec_nanos()),
        };
        // SAFETY: the time is read during the call only.
        let result = unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        // A drop reports no error.
        let _ = self.set(0);
    }
}

/// All seconds of delays on a page.
fn waited(scrape: &Scrape) -> Result<f64> {
    let mut seconds = 0.0;
    for (name, family) in &scrape.families {
        if family.kind == "histogram" && name.starts_with("noised_") {
            seconds += scrape.histograms(name)?.values().map(|of| of.sum_seconds).sum::<f64>();
        }
    }
    Ok(seconds)
}

fn the_clock_is_set() -> Result<()> {
    let reason = "sets the clock of the whole machine; NOISED_FAULTS=clock allows it";
    ensure!(asked_for("clock"), Impossible(reason.into()));
    let daemon = Daemon::start()?;
    let load = Worker::start("timer", &["0", "500"])?;
    let toll = Toll::begin(&daemon)?;
    let begin = Instant::now();
    let clock = WallClock::keep()?;
    let mut recall = Recall::default();
    recall.ensure_rising(&daemon.scrape_with_begins()?)?;
    for beside in [HOUR, -HOUR, 0] {
        clock
            .set(beside)
            .map_err(|error| Impossible(format!("this machine's clock cannot be set: {error}")))?;
        thread::sleep(Duration::from_millis(700));
        let rising = recall.ensure_rising(&daemon.scrape_with_begins()?);
        rising.with_context(|| format!("{beside} s beside the truth"))?;
    }
    drop(clock);
    load.stop()?;
    let bill = toll.end(&daemon)?;
    ensure!(bill.dropped("clock_backwards") == 0.0, "times ran backwards");
    // No task, request or packet of a machine as idle as this one waits for the better part of an hour.
    let (passed, by) = (begin.elapsed(), waited(&bill.scrape)? - waited(&toll.scrape)?);
    println!("{by:.3} s of all delays in {passed:?}");
    ensure!(by < HOUR as f64 / 4.0, "{by} s of delays in {passed:?}");
    Ok(())
}

//! What the daemon's own process costs: CPU time and memory, idle and while it is scraped.
//!
//! The time that its programs take inside the kernel is not in it; that is the other tables' part.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::ratios::median;
use crate::daemon::Daemon;

/// After this time the daemon takes windows of a second, as it does on a calm host.
pub const SETTLE: Duration = Duration::from_secs(85);

/// Between scrapes.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// Cost of the daemon's process.
#[derive(Clone, Debug, Serialize)]
pub struct DaemonCost {
    /// How long each of the two parts was measured, seconds.
    pub seconds_each: f64,
    /// CPU time without requests, in percent of one CPU.
    pub idle_cpu_percent: f64,
    /// Resident memory then.
    pub idle_rss_bytes: u64,
    /// CPU time at one scrape a second, ms per second, idle cost included.
    pub scraped_cpu_ms_per_second: f64,
    /// Resident memory then.
    pub scraped_rss_bytes: u64,
    /// Median time from a request to its whole answer, ms.
    pub scrape_ms: f64,
    /// Length of the last answer.
    pub scrape_bytes: usize,
}

/// Starts the daemon, and after [`SETTLE`] measures it for `time`, half of it idle, half of it scraped.
/// Errors: if there is no daemon to start, or it does not answer.
pub fn measure(time: Duration) -> Result<DaemonCost> {
    let daemon = Daemon::start()?;
    let pid = daemon.process().pid();
    thread::sleep(SETTLE);

    let half = time / 2;
    let (idle_cpu, idle_time) = spent(pid, || {
        thread::sleep(half);
        Ok(())
    })?;
    let idle_rss_bytes = daemon.resident_bytes()?;

    let (mut times_ms, mut scrape_bytes) = (Vec::new(), 0);
    let (scraped_cpu, scraped_time) = spent(pid, || {
        let end = Instant::now() + half;
        loop {
            let start = Instant::now();
            scrape_bytes = daemon.metrics()?.len();
            times_ms.push(start.elapsed().as_secs_f64() * 1e3);
            let next = start + SCRAPE_INTERVAL;
            thread::sleep(next.min(end).saturating_duration_since(Instant::now()));
            if next >= end {
                return Ok(());
            }
        }
    })?;
    Ok(DaemonCost {
        seconds_each: half.as_secs_f64(),
        idle_cpu_percent: idle_cpu.as_secs_f64() / idle_time.as_secs_f64() * 100.0,
        idle_rss_bytes,
        scraped_cpu_ms_per_second: scraped_cpu.as_secs_f64() / scraped_time.as_secs_f64() * 1e3,
        scraped_rss_bytes: daemon.resident_bytes()?,
        scrape_ms: median(&times_ms).context("no scrape")?,
        scrape_bytes,
    })
}

/// CPU time that a process spends during `act`, and how long that takes.
fn spent(pid: u32, act: impl FnOnce() -> Result<()>) -> Result<(Duration, Duration)> {
    let (start, before) = (Instant::now(), cpu_time(pid)?);
    act()?;
    Ok((cpu_time(pid)?.saturating_sub(before), start.elapsed()))
}

/// CPU time of a whole process, threads that have ended included, to the nanosecond.
fn cpu_time(pid: u32) -> Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is valid for the call.
    let result = unsafe { libc::clock_getcpuclockid(i32::try_from(pid)?, &raw mut clock) };
    ensure!(result == 0, "clock_getcpuclockid: {}", std::io::Error::from_raw_os_error(result));
    clock_time(clock)
}

/// What a clock says.
pub(super) fn clock_time(clock: libc::clockid_t) -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    ensure!(result == 0, "clock_gettime: {}", std::io::Error::last_os_error());
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

//! Noise of known size, under a name of its own.

use std::ffi::CString;
use std::io::{self, Read as _};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Arguments, report};
use crate::task::{Policy, periodic_timer, pin, set_policy};

/// `planter <cpu> <name> <run us> <period us> <count>`: takes the CPU from every thread without
/// real-time priority, so often and for so long, then ends. Each time is a run under that name, and
/// there is none between `ready` and the first.
pub(super) fn planter(arguments: &mut Arguments) -> Result<()> {
    let cpu = arguments.number()?;
    let name = CString::new(arguments.text()?)?;
    let run = Duration::from_micros(arguments.number()?);
    let period = Duration::from_micros(arguments.number()?);
    let count: u64 = arguments.number()?;
    pin(0, cpu)?;
    set_policy(0, Policy::Fifo)?;
    // So that what it took to start is no run under that name.
    thread::sleep(Duration::from_millis(1));
    // SAFETY: the name is NUL-terminated and read during the call only.
    let result = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    ensure!(result == 0, "prctl: {}", io::Error::last_os_error());
    report("ready")?;
    let mut timer = periodic_timer(period)?;
    let mut expirations = [0_u8; 8];
    let mut busy_ns = 0;
    for _ in 0..count {
        timer.read_exact(&mut expirations)?;
        let begin = Instant::now();
        while begin.elapsed() < run {
            std::hint::spin_loop();
        }
        busy_ns += begin.elapsed().as_nanos();
    }
    report(&format!("runs {count}"))?;
    report(&format!("busy_ns {busy_ns}"))
}

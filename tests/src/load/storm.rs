//! Loads that interrupt a CPU without running anything on it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Arguments, Session, report};
use crate::task::pin;

/// `struct perf_event_attr` of Linux's `uapi/linux/perf_event.h`, as far as its first version went.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

const _: () = assert!(size_of::<EventAttributes>() == 64);

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_EVENT_IOC_DISABLE: libc::c_ulong = 0x2401;

/// An event of one CPU, whatever runs there; it ends with its descriptor.
fn open_event(cpu: i32, config: u64, period: u64) -> Result<File> {
    let attributes = EventAttributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<EventAttributes>() as u32,
        config,
        period,
        ..EventAttributes::default()
    };
    // SAFETY: the attributes are read during the call only.
    let event =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, 0) };
    ensure!(event >= 0, "perf_event_open: {}", io::Error::last_os_error());
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    Ok(unsafe { File::from_raw_fd(i32::try_from(event)?) })
}

/// `clock-storm <cpu> <period ns> <timers>`: timers that interrupt a CPU and wake no task. The kernel makes
/// a period 10 us at least. Tells how long they ran, all together.
pub(super) fn clock_storm(arguments: &mut Arguments) -> Result<()> {
    let cpu = arguments.number()?;
    let period = arguments.number()?;
    let timers: u64 = arguments.number()?;
    let events: Vec<File> = (0..timers)
        .map(|_| open_event(cpu, PERF_COUNT_SW_CPU_CLOCK, period))
        .collect::<Result<_>>()?;
    let session = Session::begin()?;
    while session.going() {
        thread::sleep(Duration::from_millis(20));
    }
    let mut ran_ns = 0;
    for mut event in events {
        let mut count = [0_u8; 8];
        event.read_exact(&mut count)?;
        ran_ns += u64::from_ne_bytes(count);
    }
    report(&format!("timers {timers}"))?;
    report(&format!("ran_ns {ran_ns}"))
}

/// `ipi-storm <cpu> <target cpu> <pause us>`: has an event of another CPU switched on and off, for which the
/// kernel interrupts that CPU.
pub(super) fn ipi_storm(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let event = open_event(arguments.number()?, PERF_COUNT_SW_DUMMY, 1)?;
    let pause = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let mut calls = 0_u64;
    while session.going() {
        for request in [PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_ENABLE] {
            // SAFETY: these requests take no memory argument.
            let result = unsafe { libc::ioctl(event.as_raw_fd(), request, 0) };
            ensure!(result == 0, "ioctl: {}", io::Error::last_os_error());
            calls += 1;
        }
        thread::sleep(pause);
    }
    report(&format!("calls {calls}"))
}

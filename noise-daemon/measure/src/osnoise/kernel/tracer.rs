//! IO: the tracer at work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::error::TracerError;
use super::instance::{Instance, Ready};
use super::line::Line;
use super::periods::Periods;
use super::settings::{Settings, Times, Wanted};
use super::threads;
use super::tracefs::Tracefs;
use crate::clock::now_ns;
use crate::error::MeasureError;
use crate::gaps::Stopped;
use crate::osnoise::{OsnoiseOptions, PeriodReport};
use crate::placement::{Placement, Priority};

const PROCFS: &str = "/proc";
const NS_PER_US: u64 = 1_000;

/// What the kernel's tracer can do besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOptions {
    /// Measure with preemption off: no thread is seen.
    pub preempt_disable: bool,
    /// Measure with interrupts off: only NMIs and the hardware are seen.
    pub irq_disable: bool,
}

/// The tracer, running. Dropping it ends it and puts everything back.
#[derive(Debug)]
pub struct Tracer {
    /// First: settings are put back when it does not run any more.
    instance: Instance,
    settings: Settings,
    threads: BTreeMap<u32, u32>,
    periods: Periods,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn wanted(options: &OsnoiseOptions, kernel: KernelOptions) -> Wanted {
    let stop_us = |ns: Option<u64>| ns.map_or(0, |ns| ns / NS_PER_US);
    Wanted {
        cpus: options.cpus.to_string(),
        times: Times {
            period_us: microseconds(options.period),
            runtime_us: microseconds(options.runtime),
        },
        stop_us: stop_us(options.stop_single_ns),
        stop_total_us: stop_us(options.stop_total_ns),
        threshold_us: options.threshold_ns / NS_PER_US,
        preempt_disable: kernel.preempt_disable,
        irq_disable: kernel.irq_disable,
    }
}

impl Tracer {
    /// Starts it. Times of the options are in whole microseconds.
    /// Errors: those of [`MeasureError`]; everything is as it was before.
    pub fn start(
        tracefs: &Tracefs,
        options: &OsnoiseOptions,
        kernel: KernelOptions,
    ) -> Result<Self, MeasureError> {
        let procfs = Path::new(PROCFS);
        tracefs.ensure_free(procfs)?;
        let settings = Settings::make(tracefs.root(), &wanted(options, kernel))?;
        let instance = Ready::make(&tracefs.own_instance())?;
        let start_ns = now_ns();
        let instance = instance.start()?;
        let threads = threads::find(procfs, &options.cpus)?;
        for cpu in options.cpus.iter() {
            if let Some(thread) = threads.get(&cpu) {
                options.priority.give(*thread)?;
            }
        }
        let longest = |ns: Option<u64>| ns.unwrap_or(u64::MAX);
        let (single_ns, total_ns) =
            (longest(options.stop_single_ns), longest(options.stop_total_ns));
        let periods = Periods::new(start_ns, single_ns, total_ns);
        Ok(Self { instance, settings, threads, periods })
    }

    /// The pid of each CPU's measuring thread.
    pub const fn threads(&self) -> &BTreeMap<u32, u32> {
        &self.threads
    }

    /// Measures until it is stopped, or a gap or their sum is too long. `irq` gets the names of
    /// irqs, `each` gets every period that was measured to its end, and `turn` is called some times
    /// in a second; all run in the calling thread. Then everything is put back.
    /// Errors: those of [`MeasureError`].
    pub fn run(
        mut self,
        options: &OsnoiseOptions,
        stop: &AtomicBool,
        mut irq: impl FnMut(u32, &str),
        mut each: impl FnMut(PeriodReport),
        mut turn: impl FnMut(),
    ) -> Result<(), MeasureError> {
        let _here = match &options.housekeeping {
            Some(cpus) => Some(Placement::among(cpus, Priority::Inherited)?),
            None => None,
        };
        let mut by_threshold = false;
        let on = loop {
            // First: what was recorded before it was switched off is read afterwards.
            let on = self.instance.is_on()?;
            let periods = &mut self.periods;
            let limit = if on { options.turn } else { Duration::MAX };
            self.instance.read(limit, |line: Line| {
                if let Some(report) = periods.take(line, &mut irq) {
                    by_threshold |= matches!(report.stopped, Some(Stopped::Total(..)));
                    each(report);
                }
            })?;
            turn();
            if !on || stop.load(Ordering::Relaxed) {
                break on;
            }
            thread::sleep(options.turn);
        };
        let Self { instance, mut settings, periods, .. } = self;
        let path = instance.path().to_owned();
        drop(instance);
        settings.put_back()?;
        if on || by_threshold {
            return Ok(());
        }
        match periods.stopped() {
            Some(report) => each(report),
            None => return Err(TracerError::SwitchedOff(path).into()),
        }
        Ok(())
    }
}

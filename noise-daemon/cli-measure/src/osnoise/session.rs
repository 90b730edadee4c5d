//! What becomes of the periods that a backend hands on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use noise_command::{CommandError, Exit};
use noise_measure::gaps::Stopped;
use noise_measure::naming::Naming;
use noise_measure::osnoise::kernel::CrossCheck;
use noise_measure::osnoise::{HistogramShape, PeriodReport, Tally};

use super::show::Screen;
use super::stopping::{self, Recent};
use super::{Backend, OsnoiseArgs};
use noise_command::durations::nanoseconds;

/// One measurement, by either backend.
pub struct Session<'a> {
    args: &'a OsnoiseArgs,
    tally: Tally,
    screen: Screen,
    recent: Recent,
    by_threshold: Option<(u32, Stopped)>,
    /// From when everything is loaded.
    begin: Option<Instant>,
    /// Until the last turn: what is taken down behind it is no part of the measurement.
    passed: Duration,
    check: Option<CrossCheck>,
}

impl<'a> Session<'a> {
    /// It begins with the first turn.
    pub fn new(args: &'a OsnoiseArgs) -> Self {
        let bucket_ns = nanoseconds(args.bucket_size);
        let shape = HistogramShape { bucket_ns, entries: args.entries as usize };
        Self {
            args,
            tally: Tally::new(shape, Naming::new(Path::new("/proc"))),
            screen: Screen::new(args),
            recent: Recent::default(),
            by_threshold: None,
            begin: None,
            passed: Duration::ZERO,
            check: None,
        }
    }

    /// The measurement begins only now. It is counted a second time where there is a check.
    pub fn begin(&mut self, check: Option<CrossCheck>) {
        self.begin = Some(Instant::now());
        self.check = check;
    }

    /// An irq has this name.
    pub fn irq(&mut self, irq: u32, name: &str) {
        self.tally.naming().learn_irq(irq, name);
    }

    /// A period is over.
    pub fn period(&mut self, period: &PeriodReport) {
        self.screen.log(period, self.tally.naming());
        self.tally.add(period);
        self.recent.keep(period, self.tally.naming());
        if let Some(check) = &mut self.check {
            check.add(period, self.tally.naming());
        }
        if let Some(stopped) = period.stopped.filter(|stopped| *stopped != Stopped::Asked) {
            self.by_threshold.get_or_insert((period.cpu, stopped));
        }
    }

    /// Some time has passed.
    pub fn turn(&mut self, stop: &AtomicBool) {
        let passed = self.begin.get_or_insert_with(Instant::now).elapsed();
        self.passed = passed;
        // Threads of ours look at the time themselves.
        let kernel = self.args.backend == Backend::Kernel;
        let over = self.args.duration.is_some_and(|duration| passed >= duration);
        if (kernel && over) || self.screen.is_closed() {
            stop.store(true, Ordering::Relaxed);
        }
        if let Some(check) = &mut self.check {
            check.drain();
        }
        self.screen.refresh(&self.tally, passed);
    }

    /// The measurement is over.
    /// Errors: where the output cannot be written, an action fails, or two counts do not agree.
    pub fn end(self) -> Result<Exit, CommandError> {
        let Self { args, tally, screen, recent, by_threshold, passed, check, .. } = self;
        let agreement = check.map(CrossCheck::finish);
        screen.end(&tally, passed, agreement.as_ref())?;
        let wrong = agreement.map(|agreement| agreement.disagreements()).unwrap_or_default();
        if !wrong.is_empty() {
            let wrong = wrong.join("; ");
            return Err(anyhow!("the kernel's tracer and noised do not agree: {wrong}").into());
        }
        let Some((cpu, stopped)) = by_threshold else { return Ok(Exit::Fine) };
        stopping::act(&args.on_threshold, cpu, stopped, &recent, args.json)?;
        Ok(Exit::Threshold)
    }
}

//! What `noised osnoise` prints while it measures and at its end.

use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use noise_command::output;
use noise_command::progress::Progress;
use noise_command::terminal::Terminal;
use noise_measure::naming::Naming;
use noise_measure::osnoise::kernel::Agreement;
use noise_measure::osnoise::{self, PeriodReport, Tally};

use super::{OsnoiseArgs, View};

/// How often a terminal is drawn anew.
const REFRESH: Duration = Duration::from_secs(1);
/// Sources in the table.
const SOURCES: usize = 12;

pub struct Screen {
    view: View,
    json: bool,
    /// Whether tables are drawn in place, again and again.
    live: bool,
    drawn: Option<Instant>,
    progress: Progress,
    /// The reader of the output is gone.
    closed: bool,
}

impl Screen {
    /// Tables are live where standard output is a terminal that can redraw, else they come at the end.
    pub fn new(args: &OsnoiseArgs) -> Self {
        let live = !args.json && args.view != View::Log && Terminal::of_output().can_redraw;
        Self {
            view: args.view,
            json: args.json,
            live,
            drawn: None,
            progress: Progress::new("measuring", args.duration.unwrap_or_default()),
            closed: false,
        }
    }

    /// A period is over.
    pub fn log(&mut self, period: &PeriodReport, naming: &mut Naming) {
        if self.view == View::Log && !self.json {
            for sample in &period.samples {
                self.write(&osnoise::lines(period, sample, naming), output::show);
            }
            if period.lost_samples + period.lost_events != 0 {
                let text = format!(
                    "# CPU {}: {} samples and {} events lost\n",
                    period.cpu, period.lost_samples, period.lost_events
                );
                self.write(&text, output::show);
            }
        }
    }

    /// Some time has passed.
    pub fn refresh(&mut self, tally: &Tally, passed: Duration) {
        if !self.live {
            if self.view != View::Log || self.json {
                self.progress.at(passed);
            }
            return;
        }
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REFRESH) {
            return;
        }
        self.drawn = Some(Instant::now());
        let text = self.tables(tally, passed);
        self.write(&text, output::show_again);
    }

    /// The measurement is over.
    /// Errors: where the output cannot be written.
    pub fn end(
        mut self,
        tally: &Tally,
        passed: Duration,
        check: Option<&Agreement>,
    ) -> anyhow::Result<()> {
        drop(std::mem::replace(&mut self.progress, Progress::new("", Duration::ZERO)));
        if self.json {
            let mut json = osnoise::json(tally, passed);
            if let Some(check) = check {
                json["cross_check"] = check.json();
            }
            let text = serde_json::to_string_pretty(&json).context("cannot write JSON")?;
            self.write(&(text + "\n"), output::show_json);
        } else if self.view != View::Log {
            let text = self.tables(tally, passed);
            self.write(&text, if self.live { output::show_again } else { output::show });
        }
        if let Some(check) = check.filter(|_| !self.json) {
            self.write(&format!("\n{}", check.text()), output::show);
        }
        Ok(())
    }

    fn tables(&self, tally: &Tally, passed: Duration) -> String {
        let mut text = if self.view == View::Hist {
            osnoise::histogram(tally, passed)
        } else {
            osnoise::top(tally, passed)
        };
        text.push('\n');
        text.push_str(&osnoise::sources(tally, SOURCES));
        let lost = tally.cpus().values().fold((0, 0), |(samples, events), cpu| {
            (samples + cpu.lost_samples, events + cpu.lost_events)
        });
        if lost != (0, 0) {
            let (samples, events) = lost;
            text.push_str(&format!(
                "\nlost: {samples} samples (their time is in the noise), {events} events (samples \
                 lack parts)\n"
            ));
        }
        text
    }

    /// Whether the reader of the output is gone.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    fn write(&mut self, text: &str, show: impl Fn(&str) -> io::Result<()>) {
        self.closed = self.closed || show(text).is_err();
    }
}

//! `noised top` for scripts and logs: screens as text or JSON, one below the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use jiff::tz::TimeZone;
use noise_client::{FrameSource, News};
use noise_command::output;
use noise_command::terminal::Terminal;
use noise_pages::width;
use noise_top::app::App;
use noise_top::arrange::Filter;
use noise_top::live::Tape as _;
use noise_top::services::Services;
use noise_top::watching::{ELSEWHERE, Watching};
use noise_top::{Screen, ScreenLook, text};
use noise_wire::Frame;

use super::tape::FileTape;
use super::{ScreenOptions, TopArgs};

/// With the interval between frames, longer than any source waits before it says that there is trouble.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of text that goes to no terminal.
const COLUMNS: usize = 160;

/// Prints screens until there is enough, or the reader goes away.
/// Errors: where the source has nothing to show at all, and where there is no such column.
pub fn print(
    source: &mut dyn FrameSource,
    args: &TopArgs,
    plan: ScreenOptions,
) -> anyhow::Result<()> {
    let mut printer = Printer::new(args, plan)?;
    let mut tape = FileTape::new(args.record.clone());
    let watching = match (printer.app.screen(), args.watch()) {
        (Screen::Services, Some(watch)) => Some(Watching::start(watch)?),
        (Screen::Services, None) => bail!(ELSEWHERE),
        _ => None,
    };
    if let Some(replay) = source.replay()
        && args.once
    {
        // All that was recorded, as it was at the end.
        let frames = replay.step(i64::MAX);
        let is_empty = frames.is_empty();
        frames.into_iter().for_each(|frame| printer.app.take(frame));
        while let Some(News::Trouble(trouble)) = source.poll(Duration::ZERO) {
            ensure!(!is_empty, trouble);
            output::complain(&trouble);
        }
        return printer.print().map(drop);
    }
    let patience = FRAME_TIMEOUT + args.interval;
    let began = Instant::now();
    let mut before: Option<Arc<Frame>> = None;
    loop {
        let frame = match source.poll(patience) {
            Some(News::Frame(frame)) => frame,
            Some(News::Trouble(trouble)) if args.once && before.is_none() => bail!(trouble),
            Some(News::Trouble(trouble)) => {
                output::complain(&trouble);
                continue;
            }
            None if args.once => bail!("{} shows nothing", source.name()),
            None if source.replay().is_some() && before.is_none() => {
                bail!("no frame of {} can be read", source.name())
            }
            // A recording has ended; a daemon that is silent says why.
            None if source.replay().is_some() => return Ok(()),
            None => continue,
        };
        printer.app.take(Arc::clone(&frame));
        if let Err(error) = tape.take(&frame, printer.app.trends()) {
            // One that cannot even be opened is no recording at all.
            if args.once || tape.target().is_none() {
                return Err(error);
            }
            output::complain(&format!("{error:#}"));
        }
        if let Some(services) = watching.as_ref().and_then(Watching::latest) {
            if let Services::Impossible(why) = &services {
                bail!(why.clone());
            }
            printer.app.watched(services);
        }
        let is_unseen =
            watching.is_some() && *printer.app.history().services() == Services::Unknown;
        // The first one has totals but no rates.
        let first = before.replace(frame).is_none();
        if first || is_unseen || (args.once && began.elapsed() < args.interval) {
            continue;
        }
        if !printer.print()? || args.once {
            return Ok(());
        }
    }
}

struct Printer {
    app: App,
    filter: Filter,
    json: bool,
}

impl Printer {
    fn new(args: &TopArgs, plan: ScreenOptions) -> anyhow::Result<Self> {
        let look = ScreenLook { zone: TimeZone::system(), ..ScreenLook::default() };
        let mut app = App::new(plan.screen, look, args.interval);
        let filter = Filter::new(&plan.filter);
        app.set_filter(plan.filter);
        if let Some(column) = &plan.sort {
            app.sort_by(column).map_err(anyhow::Error::msg)?;
        }
        Ok(Self { app, filter, json: args.json })
    }

    /// Prints the current screen; returns whether the output is still open.
    /// Errors: where it cannot be written.
    fn print(&self) -> anyhow::Result<bool> {
        let app = &self.app;
        let printed = if self.json {
            output::show_json(&format!("{}\n", app.export()))
        } else {
            let columns = match Terminal::of_output().is_there {
                true => width::columns(),
                false => COLUMNS,
            };
            output::show(&text::screen(app, &self.filter, columns))
        };
        let is_open = printed.is_ok();
        output::settle(printed).map(|()| is_open)
    }
}

#[cfg(test)]
mod tests {
    use noise_command::fixtures::parsed;

    use super::*;

    /// A source without news, and how long it was waited for.
    #[derive(Default)]
    struct Silent(Vec<Duration>);

    impl FrameSource for Silent {
        fn name(&self) -> String {
            "it".to_owned()
        }

        fn poll(&mut self, timeout: Duration) -> Option<News> {
            self.0.push(timeout);
            None
        }

        fn set_interval(&mut self, _: Duration) {}
    }

    #[test]
    fn frames_that_are_far_apart_are_waited_for() {
        let args: TopArgs = parsed(["--once", "--interval", "1h"]).unwrap();
        let plan = ScreenOptions { screen: Screen::default(), filter: String::new(), sort: None };
        let mut source = Silent::default();
        let error = print(&mut source, &args, plan).unwrap_err().to_string();
        assert_eq!(error, "it shows nothing");
        assert_eq!(source.0, [Duration::from_secs(3_610)]);
    }
}

//! `noised top`: the live view.

mod engine;
mod open;
mod print;
mod services;
mod tape;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::tape::FileTape;

use jiff::tz::TimeZone;
use noise_client::connect::{Connect, host_socket};
use noise_client::{FrameSource, ReplaySource};
use noise_top::live::{self, Explain, Options, Tape};
use noise_top::watching::Watch;
use noise_top::{SCREENS, Screen};

pub use self::engine::EngineSource;
pub use self::open::open;
use crate::cli::why;
use noise_command::CommandError;
use noise_command::durations::{Plain, duration};
use noise_command::terminal::Terminal;

/// Bounds of the interval.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

/// Arguments of `noised top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Show what a daemon measures: its socket, or its address (http://HOST:PORT, https://…)
    /// [default: /run/noised/noised.sock; where none answers, this process measures].
    #[arg(long, value_name = "SOCKET|URL")]
    pub connect: Option<Connect>,
    /// How to log in to a daemon: basic_auth and tls_config as in the file of `promtool --http.config.file` (YAML).
    #[arg(long = "http.config.file", value_name = "FILE", requires = "connect")]
    pub http_config_file: Option<PathBuf>,
    /// How often it is refreshed (200ms, 1s, 10s).
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Print one screen, and exit.
    #[arg(long)]
    pub once: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Print each refresh below the one before, for logs.
    #[arg(long, conflicts_with = "once")]
    pub batch: bool,
    /// Screen to begin with: victims, overview, cpu, who, disk-net, irq, incidents or services [default: victims].
    #[arg(long, value_name = "NAME", value_parser = screen)]
    pub screen: Option<Screen>,
    /// Write what is shown to a file as well, at its end if it exists.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Show what was recorded in a file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connect", "record"])]
    pub replay: Option<PathBuf>,
    /// Show only rows that contain this; `victim:web`, `culprit:backup` look into that column alone.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Column to sort by, as it is called on the screen.
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Seconds, SHORTEST, LONGEST)
}

impl TopArgs {
    /// What says why a victim is slow: the flight recorder of a daemon on this host.
    fn explain(&self) -> Option<Explain> {
        let socket = match &self.connect {
            _ if self.replay.is_some() => return None,
            Some(Connect::Http(_)) => return None,
            Some(Connect::Socket(path)) => path.clone(),
            None => host_socket(),
        };
        Some(Arc::new(move |victim: &str| why::explain(victim, &socket)))
    }

    /// What watches services: on this host, and not of what was recorded.
    fn watch(&self) -> Option<Watch> {
        let is_here = self.replay.is_none() && !matches!(self.connect, Some(Connect::Http(_)));
        is_here.then(|| Arc::new(services::watch) as Watch)
    }
}

pub fn run(args: &TopArgs) -> Result<(), CommandError> {
    let terminal = Terminal::of_view();
    let prints = args.once || args.json || args.batch;
    if !prints && !terminal.can_redraw {
        return Err(anyhow::anyhow!(elsewhere(terminal)).into());
    }
    let mut source: Box<dyn FrameSource> = match &args.replay {
        Some(path) => Box::new(ReplaySource::open(path, args.interval)?),
        None => open(args.connect.as_ref(), args.http_config_file.as_deref(), args.interval)?,
    };
    let plan = ScreenOptions {
        screen: args.screen.unwrap_or_default(),
        filter: args.filter.clone().unwrap_or_default(),
        sort: args.sort.clone(),
    };
    if prints {
        return Ok(print::print(source.as_mut(), args, plan)?);
    }
    let options = Options {
        interval: args.interval,
        screen: plan.screen,
        filter: plan.filter,
        sort: plan.sort,
        colour: terminal.has_colours,
        zone: TimeZone::system(),
        tape: args
            .replay
            .is_none()
            .then(|| Box::new(FileTape::new(args.record.clone())) as Box<dyn Tape>),
        why: args.explain(),
        watch: args.watch(),
        ..Options::default()
    };
    Ok(live::run(source.as_mut(), options)?)
}

/// Where the live view cannot be drawn, and what works there.
fn elsewhere(terminal: Terminal) -> String {
    let why = match terminal.is_there {
        true => "the live view cannot be drawn on this terminal (TERM is unset or `dumb`)",
        false => "this is no terminal",
    };
    format!("{why}: use --once for one screen, --batch for one after the other, or --json")
}

/// With what a screen is shown.
struct ScreenOptions {
    screen: Screen,
    filter: String,
    sort: Option<String>,
}

fn screen(text: &str) -> Result<Screen, String> {
    SCREENS.into_iter().find(|screen| screen.name() == text).ok_or_else(|| {
        let keys: Vec<_> = SCREENS.iter().map(|screen| screen.name()).collect();
        format!("expected one of {}", keys.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_command::fixtures::parsed;

    fn parse(words: &[&str]) -> Result<TopArgs, String> {
        parsed(words).map_err(|error| error.to_string())
    }

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(parse(&[]).unwrap().interval, Duration::from_secs(1));
        for (text, millis) in [("100ms", 100), ("2s", 2_000), ("1h", 3_600_000), ("2", 2_000)] {
            let parsed = parse(&["--interval", text]).unwrap().interval;
            assert_eq!(parsed, Duration::from_millis(millis));
        }
        for bad in ["99ms", "0s", "-1s", "2h", "0.01", "soon"] {
            let error = parse(&[&format!("--interval={bad}")]).unwrap_err();
            assert!(error.contains("from 100ms to 1h"), "{error}");
        }
    }

    #[test]
    fn what_excludes_each_other_is_refused() {
        assert!(parse(&["--once", "--batch"]).is_err());
        assert!(parse(&["--replay", "x", "--connect", "/x"]).is_err());
        assert!(parse(&["--replay", "x", "--record", "y"]).is_err());
    }
}

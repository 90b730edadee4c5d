//! `noised why`: one page on one victim now: where its time went, for whom, what is usual, what to do, and the
//! critical paths of its longest waits.

mod afterwards;
pub mod request;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use jiff::Zoned;
use jiff::tz::TimeZone;
use noise_cli_trace::asked::Asking;
use noise_cli_trace::compare::compared;
use noise_cli_trace::compare::sets::ComparedRecording;
use noise_cli_trace::critical_path::picture::Picture;
use noise_cli_trace::recording::Recording;
use noise_cli_trace::report;
use noise_client::connect::{host_socket, socket};
use noise_client::{Fault, frame};
use noise_command::{CommandError, output};
use noise_compare::comparison::{CompareError, Settings};
use noise_compare::kinds::MAX_EXECUTIONS;
use noise_compare::side::Side;
use noise_host::kernel::monotonic_ns;
use noise_pages::victim::{Extent, page};
use noise_pages::width::columns;
use noise_paths::document::{Traced, whole as whole_of};
use noise_paths::execution::Wanted;
use noise_record::offset_ns;
use noise_system::ports::{of_service, port};
use noise_text::times::Moment;
use noise_text::units::count;
use noise_trace::clock::TraceClock;
use noise_why::stretch::EventStretch;
use noise_why::{
    Daemon, Target, VictimQuestion, When, ensure_threads, gather, sight, warn_of_sight,
};

use super::connect::unanswered;
use noise_command::durations::{Plain, bound, duration};

/// How far back the page looks by default.
const USUAL_LAST: Duration = Duration::from_secs(2);

/// Arguments of `noised why`.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// Who: a systemd unit (nginx, nginx.service), a container by its id, a pod by its uid, a cgroup by its path, or
    /// a process or thread by its id.
    #[arg(value_name = "SERVICE|PID|CONTAINER|CGROUP", required_unless_present = "request")]
    target: Option<String>,
    /// Show the last requests that arrive on this port (8080, http) from now on, for 3 s or --next: how they travel through threads,
    /// processes and tiers, which of these is slow itself, and for whom it waits. It loads programs of its own.
    #[arg(long, value_name = "PORT|NAME", value_parser = port,
        conflicts_with_all = ["target", "last", "since", "executions", "against", "connect", "perfetto", "all"])]
    request: Option<u16>,
    /// Look so far back (2s, 500ms; without a unit: seconds) [default: 2s, where a daemon runs].
    #[arg(long, value_name = "TIME", value_parser = whole, conflicts_with_all = ["since", "next"])]
    last: Option<Duration>,
    /// Look back to then: how long ago (90s, 10m), or a time (14:03, 2026-11-21 09:00:00, 2026-11-21T09:00:00Z; local
    /// where it names no zone).
    #[arg(long, value_name = "DURATION|TIME", value_parser = Moment::of_past, conflicts_with = "next")]
    since: Option<Moment>,
    /// Watch from now on for so long [default: 5s, where no daemon runs].
    #[arg(long, value_name = "TIME", value_parser = whole)]
    next: Option<Duration>,
    /// Show the critical paths of these executions instead of those of the longest waits: thread:TID, process:NAME,
    /// mark:NAME and others, as `noised trace critical-path` has them. May be given several times.
    #[arg(long = "execution", value_name = "EXECUTION", value_parser = asked)]
    executions: Vec<(String, Wanted)>,
    /// Hold the executions against those of a recording that was kept as normal, as `noised trace compare` does: which
    /// states are longer than usual, and where.
    #[arg(long, value_name = "RECORDING", requires = "executions")]
    against: Option<PathBuf>,
    /// Ask the daemon at this socket [default: the one of this host].
    #[arg(long, value_name = "SOCKET", value_parser = socket)]
    connect: Option<PathBuf>,
    /// Show all that is known, not one screen of it: where the time went, who had the CPUs, what is usual, remedies, paths.
    #[arg(long)]
    all: bool,
    /// Print the page alone. Where it leaves open what the victim slept for, root at a terminal else sees 3 s of requests on its
    /// TCP ports after it.
    #[arg(long, conflicts_with = "request")]
    no_look: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write the events of that time and the critical paths into this file, which ui.perfetto.dev opens: a path has a
    /// track for each thread on it, and an arrow wherever it goes on with another one.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

fn whole(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(3600));
    duration(text, Plain::Seconds, least, most)
}

fn asked(text: &str) -> Result<(String, Wanted), String> {
    let wanted = Wanted::parse(text, of_service).map_err(|error| error.to_string())?;
    Ok((text.to_owned(), wanted))
}

/// The daemon that the user named, or the one of this host, if there is one.
fn daemon<'a>(socket: &'a Path, is_named: bool) -> Result<Option<Daemon<'a>>, CommandError> {
    match frame(socket) {
        Ok(found) => Ok(Some(Daemon { socket, found })),
        Err(Fault::Absent { .. }) if !is_named => Ok(None),
        Err(fault) => Err(unanswered(fault)),
    }
}

/// From so far back on, ns of the programs' clock.
fn back_ns(back: Duration) -> u64 {
    let back_ns = u64::try_from(back.as_nanos()).unwrap_or(u64::MAX);
    monotonic_ns().saturating_sub(back_ns)
}

/// From then on, ns of the programs' clock.
fn since_ns(since: &Moment) -> Result<u64, CommandError> {
    let since = bound("--since", since, &Zoned::now())?;
    let since_ns = since.as_nanosecond() - i128::from(offset_ns());
    let since_ns = u64::try_from(since_ns.max(0)).unwrap_or(u64::MAX);
    if since_ns >= monotonic_ns() {
        return Err(CommandError::misused("--since is not in the past: give a time before now"));
    }
    Ok(since_ns)
}

/// The question of a command line without options: the last two seconds.
fn usual() -> VictimQuestion<'static> {
    let when = When::Since { ns: back_ns(USUAL_LAST), is_asked: false };
    VictimQuestion { when, executions: &[], needs_events: false }
}

impl WhyArgs {
    fn asked(&self) -> Result<VictimQuestion<'_>, CommandError> {
        let usual = usual();
        let when = match (self.next, &self.since, self.last) {
            (Some(length), ..) => When::Next(length),
            (None, Some(since), _) => When::Since { ns: since_ns(since)?, is_asked: true },
            (None, None, Some(last)) => When::Since { ns: back_ns(last), is_asked: true },
            (None, None, None) => usual.when,
        };
        let needs_events = !self.executions.is_empty() || self.perfetto.is_some();
        Ok(VictimQuestion { when, executions: &self.executions, needs_events })
    }
}

/// Writes the events of a stretch and these paths as a picture for Perfetto; how many events these are.
fn draw(mut picture: Picture, stretch: &EventStretch, paths: &[Traced]) -> anyhow::Result<u64> {
    // As a recording of ours says it.
    let environment = [("domain", "kernel"), ("sysname", "Linux")];
    let environment = environment.map(|(name, text)| (name.to_owned(), text.to_owned()));
    picture.of(&TraceClock::ahead_by(stretch.offset_ns), &environment.into());
    picture.draw(paths, stretch.reader(), (stretch.from_ns, stretch.to_ns), |_| true)
}

/// Nothing is left attached.
pub fn run(args: &WhyArgs) -> Result<(), CommandError> {
    if let Some(port) = args.request {
        return request::run(port, args.next, args.json);
    }
    let sight = sight();
    ensure_threads(sight)?;
    let target = Target::find(args.target.as_deref().unwrap_or_default())?;
    let socket = args.connect.clone().unwrap_or_else(host_socket);
    let daemon = daemon(&socket, args.connect.is_some())?;
    let is_past = args.last.is_some() || args.since.is_some();
    if daemon.is_none() && is_past {
        let option = if args.last.is_some() { "--last" } else { "--since" };
        return Err(anyhow!(
            "no noised runs here (no answer at {}), and only a running one knows what was before now: watch from \
             now on with --next in place of {option}, or start one with `noised run`",
            socket.display()
        )
        .into());
    }
    warn_of_sight(sight);
    // A file that cannot be written is said before anything is waited for.
    let begin = |to: &PathBuf| Picture::begin(Path::new(""), to);
    let picture = args.perfetto.as_ref().map(begin).transpose()?;
    let normal = args.against.as_deref().map(|path| normal(args, path)).transpose()?;
    let (mut found, stretch, stop) = gather(&args.asked()?, &target, daemon.as_ref())?;
    if let Some(normal) = &normal {
        let mut sample = Side::default();
        sample.add(1, whole_of(found.executions.iter()).into_iter().cloned());
        let against = compared(normal, &sample, &Settings::default());
        let advised = |error| match error {
            CompareError::Empty(_) => {
                anyhow!("{error}: name executions that both have (--execution)")
            }
            error => error.into(),
        };
        found.against = Some(against.map_err(advised)?);
    }
    match args.json {
        true => output::print_document(&found)?,
        false => output::print_painted(&page(
            &found,
            &target.title(),
            &TimeZone::system(),
            columns(),
            if args.all { Extent::All } else { Extent::Screen },
        ))?,
    }
    if let (Some(picture), Some(to)) = (picture, &args.perfetto) {
        let events = draw(picture, &stretch, &found.executions)?;
        output::say(&drawn(to, found.executions.len(), events));
    }
    if args.json || args.no_look { Ok(()) } else { afterwards::look(&target, &found, stop) }
}

/// The executions of a recording that was kept as normal.
fn normal(args: &WhyArgs, path: &Path) -> Result<Side, CommandError> {
    let names = args.executions.iter().map(|(name, _)| name.as_str());
    let asking = Asking::of(names).map_err(CommandError::misused)?;
    let (mut side, missing, damage) =
        ComparedRecording::read(&asking, path, &Recording::open(path)?)?;
    missing.notes().iter().for_each(|note| output::complain(note));
    report(path, &damage);
    let count = side.executions().len();
    if count > MAX_EXECUTIONS {
        side.keep_chosen(MAX_EXECUTIONS);
        output::complain(&format!(
            "{}: {} of {count} executions are compared, evenly from the shortest to the longest",
            path.display(),
            side.executions().len()
        ));
    }
    Ok(side)
}

/// What was written, for people.
fn drawn(to: &Path, paths: usize, events: u64) -> String {
    let paths = match paths {
        0 => "no critical path, because nothing was waited for,".to_owned(),
        1 => "1 critical path".to_owned(),
        many => format!("{many} critical paths"),
    };
    let (events, to) = (count(events), to.display());
    format!("wrote {paths} and {events} events to {to}: open it in ui.perfetto.dev")
}

/// The page on a victim in its last seconds, by the daemon at a socket, for the terminal view.
/// Errors: why there is none, in a sentence.
pub fn explain(name: &str, socket: &Path) -> Result<String, String> {
    let explained = || -> Result<String, CommandError> {
        ensure_threads(sight())?;
        let target = Target::find(name)?;
        let Some(daemon) = daemon(socket, false)? else {
            return Err(anyhow!(
                "what it did of late is known to a running daemon alone: start one with `noised run`, or leave \
                 this view and run `noised why {name}`"
            )
            .into());
        };
        let (found, ..) = gather(&usual(), &target, Some(&daemon))?;
        let (title, zone) = (target.title(), TimeZone::system());
        Ok(page(&found, &title, &zone, columns(), Extent::All).text(false))
    };
    explained().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use noise_command::Exit;

    use super::*;
    use noise_command::fixtures::parsed;

    fn parse(words: &[&str]) -> Result<WhyArgs, clap::Error> {
        parsed(words)
    }

    #[test]
    fn lengths_executions_and_what_excludes_each_other() {
        let args = parse(&["nginx", "--last", "500ms", "--execution", "thread:7"]).unwrap();
        assert_eq!(args.last, Some(Duration::from_millis(500)));
        assert_eq!(args.executions, [("thread:7".to_owned(), Wanted::Thread(7))]);
        assert_eq!(parse(&["7", "--next", "3"]).unwrap().next, Some(Duration::from_secs(3)));
        for words in [
            &["x", "--last", "1", "--next", "1"][..],
            &["x", "--last", "1", "--since", "1m"],
            &["x", "--since", "1m", "--next", "1"],
            &["x", "--last", "0"],
            &["x", "--execution", "7"],
            &[],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
        let args = parse(&["x", "--since", "2999-01-01T00:00:00Z"]).unwrap();
        assert_eq!(args.asked().unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_daemon_that_was_named_has_to_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("none.sock");
        assert!(daemon(&socket, false).unwrap().is_none());
        let Err(error) = daemon(&socket, true) else { panic!("it is there") };
        assert_eq!(error.exit, Exit::Failed);
        assert!(error.to_string().contains("leave --connect out"), "{error}");
    }
}

//! `noised why`: one page on one victim now: where its time went, for whom, what is usual, what to do, and the
//! critical paths of its longest waits.

mod afterwards;
mod around;
mod awaited;
mod counted;
mod findings;
mod grouped;
mod idle;
mod journal;
mod judging;
mod known;
mod locks;
mod memory;
pub(crate) mod page;
mod peers;
mod places;
pub mod request;
mod sends;
mod sleeping;
mod sleeps;
mod storage;
pub mod stretch;
pub mod target;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::Zoned;
use jiff::tz::TimeZone;
use noise_common::charge::Cause;
use noise_common::store::event::USUAL_CLASSES;
use noise_compare::comparison::Settings;
use noise_host::kernel::{Sight, monotonic_ns};
use noise_host::resolve::cgroup::NodeNames;
use noise_host::setup::{Meeting, SetupReader};
use noise_model::clean::clean;
use noise_model::pressure::{Pressure, PressureReading};
use noise_model::times::Moment;
use noise_model::units::count;
use noise_paths::account::Member;
use noise_paths::document::Traced;
use noise_paths::execution::Wanted;
use noise_system::procfs;
use noise_top::sources::{Fault, frame};
use noise_trace::capture::Dump;
use noise_verdict::Shortage;
use noise_wire::Frame;

use self::around::Around;
use self::findings::{Findings, Known, find_out};
use self::page::Extent;
use self::request::port::port;
use self::stretch::Stretch;
use self::target::Target;
use super::connect::{socket, unanswered};
use super::durations::{Plain, bound, duration};
use super::progress::Progress;
use super::record::{Host, flight, offset_ns, own};
use super::trace::asked::Asking;
use super::trace::compare::compared;
use super::trace::critical_path::columns;
use super::trace::critical_path::picture::Picture;
use super::trace::found::found;
use super::trace::recording::Recording;
use super::trace::report;
use super::{CommandError, Exit, interrupt, output};
use crate::config::DEFAULT_SOCKET;

/// What is looked at where nothing is said, of a flight recorder and without one.
const USUAL_LAST: Duration = Duration::from_secs(2);
const USUAL_NEXT: Duration = Duration::from_secs(5);
/// The kernel's own process, whose children are kernel threads.
const KTHREADD: i32 = 2;

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
    let wanted = text.parse::<Wanted>().map_err(|error| error.to_string())?;
    Ok((text.to_owned(), wanted))
}

/// A daemon that answers.
struct Daemon<'a> {
    socket: &'a Path,
    /// How things were when it was asked first.
    found: Frame,
}

/// How things were at the begin and the end of the stretch, as far as a daemon and the victim's cgroup say.
#[derive(Default)]
struct Frames {
    /// Where the stretch began after it was asked.
    first: Option<Frame>,
    last: Option<Frame>,
    /// Where the stretch began after it was read.
    pressure: Option<PressureReading>,
    /// What the user ends it with, where it was watched.
    stop: Option<Arc<AtomicBool>>,
}

/// The daemon that the user named, or the one of this host, if there is one.
fn daemon<'a>(socket: &'a Path, is_named: bool) -> Result<Option<Daemon<'a>>, CommandError> {
    match frame(socket) {
        Ok(found) => Ok(Some(Daemon { socket, found })),
        Err(Fault::Absent { .. }) if !is_named => Ok(None),
        Err(fault) => Err(unanswered(fault)),
    }
}

/// Begin of what is asked for of the past, ns of the programs' clock.
fn since_ns(args: &WhyArgs) -> Result<u64, CommandError> {
    let now_ns = monotonic_ns();
    let Some(since) = &args.since else {
        let back = args.last.unwrap_or(USUAL_LAST);
        let back_ns = u64::try_from(back.as_nanos()).unwrap_or(u64::MAX);
        return Ok(now_ns.saturating_sub(back_ns));
    };
    let since = bound("--since", since, &Zoned::now())?;
    let since_ns = since.as_nanosecond() - i128::from(offset_ns());
    let since_ns = u64::try_from(since_ns.max(0)).unwrap_or(u64::MAX);
    if since_ns >= now_ns {
        return Err(CommandError::misused("--since is not in the past: give a time before now"));
    }
    Ok(since_ns)
}

/// Refuses where no thread can be told from another.
///
/// # Errors
/// In a PID namespace of its own: the kernel's events are about other numbers than are seen there.
fn ensure_threads(sight: Sight) -> Result<(), CommandError> {
    if sight != Sight::OwnPids {
        return Ok(());
    }
    let sentence = "threads cannot be followed from a PID namespace of its own: they have other numbers here than in the \
                    kernel's events. Run this on the host, or in a container with the host's PIDs (--pid=host, \
                    hostPID: true)";
    Err(CommandError { exit: Exit::Unsupported, source: anyhow!(sentence) })
}

/// Says it where not all threads can be named.
fn warn_of_sight(sight: Sight) {
    if sight != Sight::Whole {
        output::complain(
            "warning: not all threads can be named from here, and some will be <...>: run this with /proc mounted \
             without hidepid",
        );
    }
}

/// What can be seen from here.
fn sight() -> Sight {
    Sight::of(Path::new("/proc"))
}

/// What is watched from now on.
fn watched(
    daemon: Option<&Daemon<'_>>,
    length: Duration,
    (host, dump): (&mut Host, &mut Dump),
    pressure: &dyn Fn() -> Option<PressureReading>,
    frames: &mut Frames,
) -> Result<Stretch, CommandError> {
    let stop = interrupt::flag()?;
    let flight = match daemon {
        Some(daemon) => flight(daemon.socket, None)?,
        None => None,
    };
    let source = if flight.is_some() { "flight_recorder" } else { "programs" };
    let mut supply = match flight {
        Some(flight) => flight,
        None => own(&USUAL_CLASSES, &mut output::complain)?,
    };
    // What was created until events were there.
    host.add_threads(dump);
    let now = || daemon.and_then(|daemon| frame(daemon.socket).ok());
    frames.first = now();
    let mut progress = Progress::new("watching", length);
    let over = |passed| {
        progress.at(passed);
        stop.load(Ordering::Relaxed)
    };
    let begin_ns = supply.begin_ns();
    frames.pressure = pressure();
    let mut stretch = stretch::next(&mut *supply, (dump, host), begin_ns, length, over)?;
    drop(progress);
    (frames.last, frames.stop) = (now(), Some(stop));
    stretch.source = source;
    Ok(stretch)
}

/// Runs the command.
///
/// # Errors
/// See [`CommandError`]; nothing is left attached.
pub fn run(args: &WhyArgs) -> Result<(), CommandError> {
    if let Some(port) = args.request {
        return request::run(port, args.next, args.json);
    }
    let sight = sight();
    ensure_threads(sight)?;
    let target = Target::find(args.target.as_deref().unwrap_or_default())?;
    let socket = args.connect.as_deref().unwrap_or(Path::new(DEFAULT_SOCKET));
    let daemon = daemon(socket, args.connect.is_some())?;
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
    let (mut found, stretch, stop) = findings(args, &target, daemon.as_ref())?;
    if let Some(normal) = &normal {
        found.against = Some(compared(normal, &found.executions, &Settings::default())?);
    }
    match args.json {
        true => {
            let json = serde_json::to_string_pretty(&found).map_err(anyhow::Error::from)?;
            output::print_json(&(json + "\n"))?;
        }
        false => output::print_painted(&page::page(
            &found,
            &target.title(),
            &TimeZone::system(),
            columns(),
            if args.all { Extent::All } else { Extent::Screen },
        ))?,
    }
    if let (Some(picture), Some(to)) = (picture, &args.perfetto) {
        let events = stretch.draw(picture, &found.executions)?;
        output::note(&drawn(to, found.executions.len(), events));
    }
    if args.json || args.no_look { Ok(()) } else { afterwards::look(&target, &found, stop) }
}

/// The executions of a recording that was kept as normal.
fn normal(args: &WhyArgs, path: &Path) -> Result<Vec<Traced>, CommandError> {
    let names = args.executions.iter().map(|(name, _)| name.as_str());
    let asking = Asking::of(names).map_err(CommandError::misused)?;
    let (document, damage) = found(&asking, &Recording::open(path)?, &[], None)
        .map_err(|error| CommandError::from(error).context(path.display().to_string()))?;
    report(path, &damage);
    Ok(document.executions)
}

/// What was written, for people.
fn drawn(to: &Path, paths: usize, events: u64) -> String {
    let paths = match paths {
        0 => "no critical path, because nothing was waited for,".to_owned(),
        1 => "1 critical path".to_owned(),
        many => format!("{many} critical paths"),
    };
    let (events, to) = (count(events), to.display());
    format!("wrote {paths} and {events} events to {to}: open it in ui.perfetto.dev\n")
}

/// The page on a victim in its last seconds, by the daemon at a socket, for the terminal view.
///
/// # Errors
/// Why there is none, in a sentence.
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
        let args = WhyArgs {
            target: Some(name.to_owned()),
            request: None,
            last: None,
            since: None,
            next: None,
            executions: Vec::new(),
            against: None,
            connect: None,
            all: true,
            no_look: true,
            json: false,
            perfetto: None,
        };
        let (found, ..) = findings(&args, &target, Some(&daemon))?;
        let (title, zone) = (target.title(), TimeZone::system());
        Ok(page::page(&found, &title, &zone, columns(), Extent::All).text(false))
    };
    explained().map_err(|error| error.to_string())
}

/// What the stretch says, with what the daemon knows; the stretch, and what the user ended it with, if it was watched.
fn findings(
    args: &WhyArgs,
    target: &Target,
    daemon: Option<&Daemon<'_>>,
) -> Result<(Findings, Stretch, Option<Arc<AtomicBool>>), CommandError> {
    let mut host = Host::new();
    let mut dump = host.dump();
    let mut frames = Frames::default();
    let reader = SetupReader::of_host();
    let path = target.cgroup.as_ref().map(PathBuf::from);
    let pressure = || path.as_ref().map(|path| reader.pressure(path, monotonic_ns()));
    let stretch = match (daemon, args.next) {
        (Some(daemon), None) => {
            let is_asked = args.last.is_some() || args.since.is_some();
            stretch::past(daemon.socket, (since_ns(args)?, is_asked), &dump, &mut host)?
        }
        (_, next) => {
            let length = next.unwrap_or(USUAL_NEXT);
            watched(daemon, length, (&mut host, &mut dump), &pressure, &mut frames)?
        }
    };
    let now = pressure();
    let kernel = kernel_threads(&dump);
    let cgroups = Cgroups::of(&dump);
    let cgroup = |tid| cgroups.get(tid);
    let nodes = RefCell::new(NodeNames::of_host());
    let label = |path: &Path| nodes.borrow_mut().identity(path, Instant::now()).label;
    let known = Known { kernel: &kernel, runs: &runs, cgroup: &cgroup, label: &label };
    if stretch.is_empty() && (!args.executions.is_empty() || args.perfetto.is_some()) {
        return Err(nothing_held(target));
    }
    let mut found = find_out(&stretch, target, &args.executions, &known)?;
    found.pressure = now.map(|now| Pressure::of(frames.pressure.as_ref(), &now));
    if let Some(daemon) = daemon {
        let last = frames.last.as_ref().unwrap_or(&daemon.found);
        let first = frames.first.as_ref().filter(|_| frames.last.is_some());
        let since_ns = stretch.counted_from_ns().saturating_sub(stretch.offset_ns);
        let mut known =
            known::ask(daemon.socket, &target.labels, first.is_none().then_some(since_ns));
        if let Some(grown) = known.as_mut().and_then(|known| known.pressure.take()) {
            found.pressure = Some(grown);
        }
        found.around = Around::of(&target.labels, first, last, known);
    }
    if stretch.is_empty() && found.counted().is_none() {
        return Err(nothing_held(target));
    }
    let short = found.short();
    let limit = short.as_ref().and_then(Shortage::limit);
    let culprit = found.foreign();
    let tid = |tid: i32| u32::try_from(tid).ok();
    let interrupts = found.interrupted.iter().filter(|one| one.cause == Cause::Hardirq.name());
    let interrupt = interrupts.map(|one| clean(&one.source).into_owned()).next();
    let meeting = Meeting {
        victim: path.as_deref(),
        culprit: culprit.and_then(|culprit| culprit.path.as_deref()),
        victim_tid: found.threads.first().and_then(|first| tid(first.tid)),
        culprit_tid: culprit.and_then(|culprit| tid(culprit.tid)),
        interrupt: interrupt.as_deref(),
        memory: limit.map(|limit| (limit.kind, &*limit.of)),
        ..Meeting::default()
    };
    let setup = reader.setup(&meeting, found.idle.clone());
    sleeping::look(&mut found, &host);
    found.has_ended = has_ended(&found, Path::new("/proc"));
    found.judge(&target.title(), &setup);
    Ok((found, stretch, frames.stop))
}

/// That there is no event of the time, and no counter either.
fn nothing_held(target: &Target) -> CommandError {
    let counted = match (target.pid, &target.cgroup) {
        (Some(_), Some(cgroup)) if cgroup != "/" => {
            format!("ask about its cgroup, which the daemon counts ({}), or ", clean(cgroup))
        }
        _ => String::new(),
    };
    let sentence = format!(
        "the flight recorder holds nothing of that time: {counted}give --next to watch from now on"
    );
    anyhow::Error::msg(sentence).into()
}

/// Whether none of its threads is there any more.
fn has_ended(found: &Findings, procfs: &Path) -> bool {
    let is_there = |thread: &Member| procfs.join(thread.tid.to_string()).exists();
    !found.threads.is_empty() && !found.threads.iter().any(is_there)
}

/// Threads of the kernel.
fn kernel_threads(dump: &Dump) -> BTreeSet<i32> {
    let is_kernel = |ppid: i32, tid: i32| ppid == KTHREADD || tid == KTHREADD;
    let threads = dump.threads.iter().filter(|thread| is_kernel(thread.ppid, thread.tid));
    threads.map(|thread| thread.tid).collect()
}

/// The cgroups of threads and, of those that have the one of their process, of the processes.
struct Cgroups<'d> {
    paths: HashMap<i32, &'d [u8]>,
    processes: HashMap<i32, i32>,
}

impl<'d> Cgroups<'d> {
    fn of(dump: &'d Dump) -> Self {
        let paths = dump.cgroups.iter();
        let paths = paths.flat_map(|(path, tids)| tids.iter().map(|tid| (*tid, path.as_slice())));
        let processes = dump.threads.iter().map(|thread| (thread.tid, thread.pid));
        Self { paths: paths.collect(), processes: processes.collect() }
    }

    fn get(&self, tid: i32) -> Option<&'d [u8]> {
        let of_process = || self.paths.get(self.processes.get(&tid)?);
        self.paths.get(&tid).or_else(of_process).copied()
    }
}

/// Whether a thread runs, or wants to, at the moment.
fn runs(tid: i32) -> bool {
    let stat = procfs::bytes(format!("/proc/{tid}/stat")).unwrap_or_default();
    let end = stat.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    stat.get(end + 1..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"R"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use noise_trace::event::{Comm, Dumped};

    use super::*;

    #[test]
    fn threads_with_other_numbers_are_not_followed() {
        assert!(ensure_threads(Sight::Whole).is_ok() && ensure_threads(Sight::Hidden).is_ok());
        let error = ensure_threads(Sight::OwnPids).unwrap_err();
        assert_eq!(error.exit, Exit::Unsupported);
        assert!(error.to_string().contains("Run this on the host"), "{error}");
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        why: WhyArgs,
    }

    fn parse(words: &[&str]) -> Result<WhyArgs, String> {
        let line = Line::try_parse_from([&["why"], words].concat());
        line.map(|line| line.why).map_err(|error| error.to_string())
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
        assert_eq!(since_ns(&args).unwrap_err().exit, Exit::Usage);
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

    #[test]
    fn threads_have_the_cgroups_of_their_processes() {
        let thread = |tid, pid| Dumped { tid, pid, ppid: 1, comm: Comm::new(b"a") };
        let cgroups = [(b"/a".to_vec(), vec![7]), (b"/b".to_vec(), vec![9])].into();
        let threads = vec![thread(7, 7), thread(8, 7), thread(9, 7), thread(10, 10)];
        let dump = Dump { threads, cgroups, ..Dump::default() };
        let cgroups = Cgroups::of(&dump);
        let found = [7, 8, 9, 10, 11].map(|tid| cgroups.get(tid));
        let [a, b] = [b"/a", b"/b"].map(|path| Some(path.as_slice()));
        assert_eq!(found, [a, a, b, None, None]);
    }

    #[test]
    fn a_victim_has_ended_where_none_of_its_threads_is_there() {
        let procfs = tempfile::tempdir().unwrap();
        let found = page::tests::found();
        assert!(has_ended(&found, procfs.path()));
        std::fs::create_dir(procfs.path().join("72")).unwrap();
        assert!(!has_ended(&found, procfs.path()));
        let none = Findings { threads: Vec::new(), ..found };
        assert!(!has_ended(&none, procfs.path()), "it may have threads that slept throughout");
    }

    #[test]
    fn this_thread_runs() {
        assert!(runs(nix::unistd::gettid().as_raw()));
        assert!(!runs(0));
    }
}

//! `noised record`: kernel events into a folder, until a time, a size, a command or the user ends it.

mod size;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use jiff::Zoned;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use noise_client::connect::{host_socket, socket};
use noise_command::{CommandError, Exit, interrupt, output};
use noise_common::store::Class;
use noise_common::store::event::USUAL_CLASSES;
use noise_host::kernel::Sight;
use noise_measure::placement::{Placement, Priority};
use noise_record::{Child, Limits, RecordingLine, Session, SupplyResult, flight, folder, own};
use noise_system::output::suffix_in;

use noise_command::durations::{Plain, duration};

/// Arguments of `noised record`.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    /// The folder to make [default: noised-DATE-TIME in this one].
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How long (10s, 5m; without a unit: seconds) [default: until it is interrupted].
    #[arg(long, short, value_name = "TIME", value_parser = whole)]
    duration: Option<Duration>,
    /// End when the files have this size (500M, 2G; without a unit: bytes); see also --max-files.
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    max_size: Option<u64>,
    /// Keep the latest events in this many files of each CPU: when there are --max-size bytes of them, the
    /// oldest go, and the recording goes on.
    #[arg(long, value_name = "N", requires = "max_size", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    max_files: Option<u32>,
    /// The buffer of each CPU for events that are not read yet, for recordings with programs of their own (16M, 256M;
    /// rounded down to a power of two) [default: 8M, at most 64M for all CPUs].
    #[arg(long, value_name = "SIZE", value_parser = size::buffer, conflicts_with = "connect")]
    buffer: Option<u64>,
    /// Only events of these classes: sched, io, and ipc, which takes --own where a daemon runs [default: sched,io].
    #[arg(long, value_name = "CLASSES", value_delimiter = ',', value_parser = class)]
    events: Vec<Class>,
    /// Ask the daemon at this socket for events, instead of the one of this host or the kernel.
    #[arg(long, value_name = "SOCKET", value_parser = socket, conflicts_with = "own")]
    connect: Option<PathBuf>,
    /// Load programs, also where a daemon runs: it costs twice, has more room for bursts, and records timers, sockets
    /// and system calls too.
    #[arg(long)]
    own: bool,
    /// Record until this command ends; its exit code is handed on.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn whole(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(366 * 86_400));
    duration(text, Plain::Seconds, least, most)
}

/// A class of events that can be recorded.
fn class(name: &str) -> Result<Class, String> {
    Class::from_name(name)
        .ok_or_else(|| "expected sched, io, ipc, or several with commas between".to_owned())
}

/// Where a recording goes that was given no folder.
fn usual_folder() -> anyhow::Result<PathBuf> {
    let suffix = suffix_in(Path::new("."))?;
    Ok(format!("{}{suffix}", Zoned::now().strftime("noised-%Y%m%d-%H%M%S")).into())
}

impl RecordArgs {
    /// The classes that the user named.
    fn classes(&self) -> Option<&[Class]> {
        Some(self.events.as_slice()).filter(|classes| !classes.is_empty())
    }
}

/// The daemon that the user named; else the one of this host; else programs of our own.
fn supply(args: &RecordArgs, stop: &Arc<AtomicBool>) -> SupplyResult {
    let wanted = args.classes();
    if let Some(socket) = &args.connect {
        let found = flight(socket, wanted, stop)?;
        return found.ok_or_else(|| {
            let place = socket.display();
            anyhow!("no noised with a flight recorder answers at {place}: start one, or leave --connect out").into()
        });
    }
    if !args.own
        && let Some(found) = flight(&host_socket(), wanted, stop)?
    {
        return match args.buffer {
            None => Ok(found),
            Some(_) => Err(CommandError::misused(
                "a daemon runs here, and its [recorder] sets how large its buffer is: add --own, or leave --buffer out",
            )),
        };
    }
    own(wanted.unwrap_or(&USUAL_CLASSES), args.buffer, &mut output::complain)
}

/// Puts the thread that reads events ahead of those that it records, until this is dropped: events that are not read in
/// time are overwritten. At the lowest real-time priority it delays no thread of a higher one, and each of its turns ends
/// with a pause. A nice value counts only among the threads of one session or cgroup.
fn ahead() -> Option<Placement> {
    // A turn with a long backlog may take longer than such a limit allows.
    let is_limited =
        getrlimit(Resource::RLIMIT_RTTIME).is_ok_and(|(soft, _)| soft != RLIM_INFINITY);
    let real_time = Some(Priority::RoundRobin(1)).filter(|_| !is_limited);
    real_time.into_iter().chain([Priority::Other(-20)]).find_map(Placement::ahead)
}

/// Runs the command; what the process exits with.
/// Nothing is left attached, and what was recorded can be read.
pub fn run(args: &RecordArgs) -> Result<ExitCode, CommandError> {
    let stop = interrupt::flag()?;
    let path = args.output.clone().map_or_else(usual_folder, Ok)?;
    let spot = folder::ensure_new(&path)?;
    if Sight::of(Path::new("/proc")) != Sight::Whole {
        output::complain(
            "warning: not all threads can be named from here, and some will be <...>: record on the host, and \
             with /proc mounted without hidepid",
        );
    }
    let limits = Limits { duration: args.duration, bytes: args.max_size, files: args.max_files };
    limits.ensure_sensible()?;
    let mut priority = None;
    // From then on the buffer fills. What comes before, such as loading programs, may take its time.
    let supplied = || supply(args, &stop).inspect(|_| priority = ahead());
    let mut session = Session::start(spot, limits, args.classes(), supplied)?;
    // The command has its own.
    drop(priority);
    let mut child = match args.command.as_slice() {
        [] => None,
        [program, arguments @ ..] => match Child::start(program, arguments, session.marks()) {
            Ok(child) => Some(child),
            Err(error) => {
                session.discard();
                return Err(error);
            }
        },
    };
    let priority = ahead();
    let mut progress = RecordingLine::new(limits);
    let ended = session.record(limits, &mut progress, || {
        stop.load(Ordering::Relaxed) || child.as_mut().is_some_and(Child::has_ended)
    });
    drop((progress, priority));
    let (summary, lacks) = (session.summary(), session.lacks());
    let (left_out, lacks_calls) = (session.left_out(), session.lacks_calls());
    let remedy = session.remedy().filter(|_| ended.is_ok());
    // Detaches: what the command does from here on is not slowed down.
    let finished = session.finish(ended.is_ok());
    match &ended {
        Ok(end) => output::say(&summary.sentence(&path, *end, &lacks)),
        Err(error) => output::complain(&format!(
            "the recording ended early, and can be read up to there ({}): {error:#}",
            summary.figures()
        )),
    }
    for sentence in [remedy, summary.moved(), left_out].into_iter().chain(lacks_calls).flatten() {
        output::say(&sentence);
    }
    let code = child.map(|child| child.wait(|| stop.load(Ordering::Relaxed))).transpose()?;
    if ended.is_err() {
        return Ok(Exit::Failed.into());
    }
    finished?;
    Ok(code.unwrap_or_else(|| Exit::Fine.into()))
}

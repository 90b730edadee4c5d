//! Gathers what is known of one victim: events of the past or of now, what a daemon counted, what the host shows; and judges
//! it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use noise_client::frame;
use noise_command::progress::Progress;
use noise_command::{CommandError, Exit, interrupt, output};
use noise_common::charge::Cause;
use noise_common::store::event::USUAL_CLASSES;
use noise_host::kernel::{Sight, monotonic_ns};
use noise_host::resolve::cgroup::NodeNames;
use noise_host::setup::{Meeting, SetupReader};
use noise_model::pressure::{Pressure, PressureReading};
use noise_paths::account::Member;
use noise_paths::execution::Wanted;
use noise_record::{DumpedHost, flight, own};
use noise_text::clean::clean;
use noise_trace::capture::Dump;
use noise_verdict::Shortage;
use noise_wire::Frame;

use super::around::Around;
use super::beside::Known;
use super::findings::{Findings, find_out};
use super::stretch::{self, EventStretch};
use super::target::Target;
use super::who::{Cgroups, kernel_threads, runs};
use super::{known, memory, sleeping};

/// How long to watch by default if no daemon runs, which would know the past.
const USUAL_NEXT: Duration = Duration::from_secs(5);

/// Which time is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// From then on, ns of the programs' clock, and whether the user named that time. Without a daemon, from now on.
    Since { ns: u64, is_asked: bool },
    /// From now on, for so long.
    Next(Duration),
}

/// What is asked of a victim.
#[derive(Clone, Copy, Debug)]
pub struct VictimQuestion<'a> {
    pub when: When,
    /// The executions whose critical paths are shown, by the words that name them; none: those of the longest waits.
    pub executions: &'a [(String, Wanted)],
    /// Whether counters alone are no answer.
    pub needs_events: bool,
}

/// A daemon that answers.
pub struct Daemon<'a> {
    pub socket: &'a Path,
    /// How things were when it was asked first.
    pub found: Frame,
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

/// Checks that thread ids here are those of the kernel's events.
/// Errors: in a PID namespace of its own, where they differ.
pub fn ensure_threads(sight: Sight) -> Result<(), CommandError> {
    if sight != Sight::OwnPids {
        return Ok(());
    }
    let sentence = "threads cannot be followed from a PID namespace of its own: they have other numbers here than in the \
                    kernel's events. Run this on the host, or in a container with the host's PIDs (--pid=host, \
                    hostPID: true)";
    Err(CommandError { exit: Exit::Unsupported, source: anyhow!(sentence) })
}

/// Warns if /proc hides threads, whose names are then unknown.
pub fn warn_of_sight(sight: Sight) {
    if sight != Sight::Whole {
        output::complain(
            "warning: not all threads can be named from here, and some will be <...>: run this with /proc mounted \
             without hidepid",
        );
    }
}

/// What can be seen from here.
pub fn sight() -> Sight {
    Sight::of(Path::new("/proc"))
}

/// What is watched from now on.
fn watched(
    daemon: Option<&Daemon<'_>>,
    length: Duration,
    (host, dump): (&mut DumpedHost, &mut Dump),
    pressure: &dyn Fn() -> Option<PressureReading>,
    frames: &mut Frames,
) -> Result<EventStretch, CommandError> {
    let stop = interrupt::flag()?;
    let flight = match daemon {
        Some(daemon) => flight(daemon.socket, None, &stop)?,
        None => None,
    };
    let source = if flight.is_some() { "flight_recorder" } else { "programs" };
    let mut supply = match flight {
        Some(flight) => flight,
        None => own(&USUAL_CLASSES, None, &mut output::complain)?,
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

/// What the stretch says, with what the daemon knows; the stretch, and what the user ended it with, if it was watched.
pub fn gather(
    asked: &VictimQuestion<'_>,
    target: &Target,
    daemon: Option<&Daemon<'_>>,
) -> Result<(Findings, EventStretch, Option<Arc<AtomicBool>>), CommandError> {
    let mut host = DumpedHost::default();
    let mut dump = host.dump();
    let mut frames = Frames::default();
    let reader = SetupReader::of_host();
    let path = target.cgroup.as_ref().map(PathBuf::from);
    let pressure = || path.as_ref().map(|path| reader.pressure(path, monotonic_ns()));
    let stretch = match (daemon, asked.when) {
        (Some(daemon), When::Since { ns, is_asked }) => {
            stretch::past(daemon.socket, (ns, is_asked), &dump, &mut host)?
        }
        (_, when) => {
            let length = if let When::Next(length) = when { length } else { USUAL_NEXT };
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
    if stretch.is_empty() && asked.needs_events {
        return Err(nothing_held(target));
    }
    let mut found = find_out(&stretch, target, asked.executions, &known)?;
    found.pressure = now.map(|now| Pressure::of(frames.pressure.as_ref(), &now));
    if let Some(daemon) = daemon {
        let last = frames.last.as_ref().unwrap_or(&daemon.found);
        let first = frames.first.as_ref().filter(|_| frames.last.is_some());
        let since_ns = stretch.counted_from_ns().saturating_sub(stretch.offset_ns);
        let mut known =
            known::ask(daemon.socket, &target.labels, first.is_none().then_some(since_ns));
        if let Some(grown) = known.as_mut().and_then(|known| known.pressure.take()) {
            let own = path.as_ref().map(|path| SetupReader::plain_label(path));
            found.pressure = Some(memory::of_victim(grown, &own.unwrap_or_default()));
        }
        found.around = Around::of(&target.labels, first, last, known);
    } else {
        found.around = Around::unasked();
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
        quota: found.stopping_quota().filter(|quota| quota.is_known()).map(|quota| &*quota.of),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::found;

    #[test]
    fn threads_with_other_numbers_are_not_followed() {
        assert!(ensure_threads(Sight::Whole).is_ok() && ensure_threads(Sight::Hidden).is_ok());
        let error = ensure_threads(Sight::OwnPids).unwrap_err();
        assert_eq!(error.exit, Exit::Unsupported);
        assert!(error.to_string().contains("Run this on the host"), "{error}");
    }

    #[test]
    fn a_victim_has_ended_where_none_of_its_threads_is_there() {
        let procfs = tempfile::tempdir().unwrap();
        let found = found();
        assert!(has_ended(&found, procfs.path()));
        std::fs::create_dir(procfs.path().join("72")).unwrap();
        assert!(!has_ended(&found, procfs.path()));
        let none = Findings { threads: Vec::new(), ..found };
        assert!(!has_ended(&none, procfs.path()), "it may have threads that slept throughout");
    }
}

//! `noised trace critical-path`: what executions in a recording really waited for.

mod page;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use noise_paths::blame::Blame;
use noise_paths::build::{Builder, Waker};
use noise_paths::document::{Document, traced};
use noise_paths::execution::{Execution, Wanted, find};
use noise_paths::graph::{Graph, Who};
use noise_paths::walk::{Bounds, walk};
use noise_trace::ctf::Reader;
use noise_trace::damage::Damage;
use noise_trace::delays::{Begin, Delays};
use noise_trace::event::Kind;
use noise_trace::ftrace;
use noise_trace::record::Source;
use noise_trace::select::Select;

pub use self::page::page as document_page;
use super::moment::Moment;
use super::part::Part;
use super::recording::Recording;
use super::{NO_CGROUPS, report};
use crate::cli::{CommandError, output};

/// Events after which what lies before the asked time is forgotten.
const FORGET_EVENTS: u64 = 1 << 16;

/// Events beyond the asked time that are read to find out what ends a sleep.
const BEYOND_EVENTS: u64 = 1 << 20;
/// After so many of them it is looked whether any more are needed.
const LOOK_EVENTS: u64 = 1 << 10;

/// Arguments of `noised trace critical-path`.
#[derive(Debug, clap::Args)]
pub struct CriticalPathArgs {
    /// The recording: a folder in CTF (ours, LTTng's, perf's), or a text of ftrace.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// What one execution is: thread:TID, or a part of that thread's time as thread:TID@FROM..TO (each a time as
    /// --from has it, or empty); process:NAME or process:PID for each process from its creation or exec to its
    /// exit. May be given several times.
    #[arg(long = "execution", value_name = "EXECUTION", required = true, value_parser = Asked::parse)]
    executions: Vec<Asked>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    part: Part,
}

/// An execution as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    text: String,
    wanted: Wanted,
    from: Option<Moment>,
    to: Option<Moment>,
}

impl Asked {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, span) = match text.rsplit_once('@') {
            Some((name, span)) if text.starts_with("thread:") => (name, Some(span)),
            _ => (text, None),
        };
        let wanted = name.parse::<Wanted>().map_err(|error| error.to_string())?;
        let (from, to) = match span {
            None => (None, None),
            Some(span) => {
                let (from, to) = span
                    .split_once("..")
                    .ok_or_else(|| format!("`{span}` is no span of time; write FROM..TO"))?;
                let moment =
                    |text: &str| (!text.is_empty()).then(|| Moment::parse(text)).transpose();
                (moment(from)?, moment(to)?)
            }
        };
        Ok(Self { text: text.to_owned(), wanted, from, to })
    }

    fn is_relative(&self) -> bool {
        [self.from, self.to].iter().any(|moment| matches!(moment, Some(Moment::After(_))))
    }
}

/// An execution with the time that is asked for, nanoseconds since the epoch.
struct Sought<'a> {
    name: &'a str,
    wanted: &'a Wanted,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// See [`CommandError`].
pub fn run(args: &CriticalPathArgs) -> Result<(), CommandError> {
    let recording = Recording::open(&args.recording)?;
    let (document, damage) = match &recording {
        Recording::Ctf(ctf) => {
            let files = ctf.streams();
            let reader = || Reader::new(&ctf.layout, &files);
            let begin_ns = || reader().first_ns().unwrap_or(0);
            let select = args.part.select(begin_ns);
            let sought = sought(args, &select, begin_ns);
            let tidied = || recording.tidied(reader(), false);
            let found = all(tidied(), Builder::new(ctf.waker()), select, &sought)?;
            blamed(tidied(), Delays::new(ctf.begin()), found)
        }
        Recording::Text(text) => {
            let reader = || ftrace::Reader::new(text);
            let begin_ns = || reader().next().map_or(0, |first| first.time_ns);
            let select = args.part.select(begin_ns);
            let sought = sought(args, &select, begin_ns);
            let wakes = reader().any(|record| matches!(record.kind(), Kind::SchedWaking(_)));
            let waker = if wakes { Waker::Waking } else { Waker::Wakeup };
            let tidied = || recording.tidied(reader(), false);
            let found = all(tidied(), Builder::new(waker), select, &sought)?;
            blamed(tidied(), Delays::new(Begin::Wakeup), found)
        }
    };
    match args.json {
        true => {
            let json = serde_json::to_string_pretty(&document).map_err(anyhow::Error::from)?;
            output::print_json(&(json + "\n"))?;
        }
        false => output::print(&page::page(&document))?,
    }
    report(&args.recording, &damage);
    Ok(())
}

fn sought<'a>(
    args: &'a CriticalPathArgs,
    select: &Select,
    begin_ns: impl FnOnce() -> u64,
) -> Vec<Sought<'a>> {
    let begin_ns = if args.executions.iter().any(Asked::is_relative) { begin_ns() } else { 0 };
    let time_ns = |moment: Option<Moment>| moment.map(|moment| moment.time_ns(begin_ns));
    let one = |asked: &'a Asked| Sought {
        name: &asked.text,
        wanted: &asked.wanted,
        from_ns: time_ns(asked.from).max(select.from_ns),
        to_ns: [time_ns(asked.to), select.to_ns].into_iter().flatten().min(),
    };
    args.executions.iter().map(one).collect()
}

/// Goes over the events, and finds the paths.
fn all<'t>(
    mut source: impl Source<'t>,
    mut builder: Builder,
    mut select: Select,
    sought: &[Sought<'_>],
) -> anyhow::Result<(Document, Damage)> {
    // None where one of them has no begin or no end.
    let from_ns = sought.iter().map(|sought| sought.from_ns).min().flatten();
    let to_ns = sought.iter().map(|sought| sought.to_ns).collect::<Option<Vec<_>>>();
    let to_ns = to_ns.and_then(|all| all.into_iter().max());
    let mut document = Document::default();
    let (mut wanted, mut last_ns) = (BTreeSet::new(), 0);
    let mut beyond = 0;
    for (number, record) in (0u64..).zip(source.by_ref()) {
        last_ns = record.time_ns;
        if to_ns.is_some_and(|to_ns| record.time_ns > to_ns) {
            // Who ends a sleep that is under way is worth a look, but not at all the rest.
            let is_over = || sought.iter().all(|sought| is_over(builder.graph(), sought));
            if beyond >= BEYOND_EVENTS || (beyond % LOOK_EVENTS == 0 && is_over()) {
                break;
            }
            beyond += 1;
        }
        if number.is_multiple_of(FORGET_EVENTS)
            && let Some(from_ns) = from_ns
        {
            builder.forget_before(from_ns.min(record.time_ns));
        }
        let event = record.event();
        if let Kind::Lost(loss) = &event.kind {
            document.discarded = document.discarded.saturating_add(loss.events.max(loss.packets));
        }
        if select.follows() {
            select.note(&event, &mut wanted);
        }
        builder.follow(&event);
    }
    if select.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    for sought in sought {
        close(&mut builder, sought, last_ns);
        let count = document.executions.len();
        for execution in executions(builder.graph(), sought) {
            let tid = tid(builder.graph(), &execution);
            if select.follows() && !wanted.contains(&tid) {
                continue;
            }
            let Execution { worker, from_ns, to_ns, .. } = execution;
            let path = walk(builder.graph(), worker, from_ns, to_ns, Bounds::default());
            if let Some(path) = path {
                document.executions.push(traced(builder.graph(), sought.name, &execution, &path));
            }
        }
        if document.executions.len() == count {
            bail!(
                "{} did not run in this recording, or not in the time that is asked for; \
                 `noised trace delays --json` lists the threads that ran",
                sought.name
            );
        }
    }
    Ok((document, source.damage()))
}

/// The same with who had the CPUs that were waited for, for which the recording is read once more, up to the
/// last of these waits.
fn blamed<'t>(
    source: impl Source<'t>,
    delays: Delays,
    (mut document, damage): (Document, Damage),
) -> (Document, Damage) {
    let mut blame = Blame::new(&document, delays);
    for record in source {
        if blame.is_over() {
            break;
        }
        blame.follow(&record.event(), &mut document);
    }
    blame.finish(&mut document);
    (document, damage)
}

/// Whether all is known of what is sought.
fn is_over(graph: &Graph, sought: &Sought<'_>) -> bool {
    let to_ns = sought.to_ns.unwrap_or(u64::MAX);
    let all = find(graph, sought.wanted);
    all.iter().all(|execution| execution.has_end || execution.to_ns >= to_ns)
}

/// What is under way at the end of the asked time lasts until then.
fn close(builder: &mut Builder, sought: &Sought<'_>, last_ns: u64) {
    let Some(to_ns) = sought.to_ns else { return };
    let to_ns = to_ns.min(last_ns);
    for execution in find(builder.graph(), sought.wanted) {
        if execution.to_ns < to_ns {
            builder.until(execution.worker, to_ns);
        }
    }
}

/// The executions that are sought, as far as they lie in the time that is asked for.
fn executions(graph: &Graph, sought: &Sought<'_>) -> Vec<Execution> {
    let mut all = find(graph, sought.wanted);
    for execution in &mut all {
        if let Some(from_ns) = sought.from_ns.filter(|from_ns| *from_ns > execution.from_ns) {
            execution.from_ns = from_ns;
        }
        if let Some(to_ns) = sought.to_ns.filter(|to_ns| *to_ns < execution.to_ns) {
            execution.to_ns = to_ns;
        }
    }
    all.retain(|execution| execution.from_ns < execution.to_ns);
    all
}

fn tid(graph: &Graph, execution: &Execution) -> i32 {
    match graph.get(execution.worker).map(|worker| worker.who) {
        Some(Who::Thread { tid, .. }) => tid,
        Some(Who::Idle { .. } | Who::Kernel { .. }) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::trace::sampled::small;

    #[test]
    fn executions_are_read_with_their_time() {
        let asked = |text: &str| Asked::parse(text).unwrap();
        assert_eq!(asked("thread:7").wanted, Wanted::Thread(7));
        let part = asked("thread:7@+1s..+2.5s");
        assert_eq!(part.wanted, Wanted::Thread(7));
        assert_eq!(part.from, Some(Moment::After(1_000_000_000)));
        assert_eq!(part.to, Some(Moment::After(2_500_000_000)));
        let open = asked("thread:7@..20");
        assert_eq!((open.from, open.to), (None, Some(Moment::At(20))));
        // A name may have the sign.
        assert!(matches!(asked("process:a@b").wanted, Wanted::Process(_)));
        for (text, error) in [
            ("thread:7@", "no span of time"),
            ("thread:7@x..", "expected a distance"),
            ("thread", "names no execution"),
        ] {
            let found = Asked::parse(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    #[test]
    fn what_did_not_run_is_said() {
        let folder = small();
        let Recording::Ctf(ctf) = Recording::open(folder.path()).unwrap() else { panic!("no CTF") };
        let wanted = Wanted::Thread(4_000_000);
        let sought = Sought { name: "thread:4000000", wanted: &wanted, from_ns: None, to_ns: None };
        let reader = Reader::new(&ctf.layout, &ctf.streams());
        let error = all(reader, Builder::default(), Select::default(), &[sought]).unwrap_err();
        assert!(error.to_string().starts_with("thread:4000000 did not run"), "{error}");
    }
}

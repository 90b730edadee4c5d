//! `noised trace sketch`: how work travels through threads, processes and tiers.

mod files;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use noise_command::CommandError;
use noise_command::output;
use noise_pages::sketch::page;
use noise_paths::build::Waker;
use noise_paths::clocks::traffic::Traffic;
use noise_paths::several::Merged;
use noise_sketches::cluster::cluster;
use noise_sketches::document::{Answer, Nearest, SketchesDocument};
use noise_sketches::feed::Feed;
use noise_sketches::feed::transfers::{TransferSide, transfers};
use noise_sketches::follow::NamedOwner;
use noise_sketches::query::Query;
use noise_sketches::slices::SliceId;
use noise_sketches::system::System;
use noise_sketches::tiers::{self, probability, tiers};
use noise_trace::crowd::Crowd;
use noise_trace::damage::Damage;
use noise_trace::ftrace::UnreadLines;
use noise_trace::reach::Reach;
use noise_trace::record::Source;
use noise_trace::select::Select;

use super::export::refuse_stdout;
use super::part::RecordingOptions;
use super::recording::Recording;
use super::several::{self, Common, PartReach, Together};
use super::{NO_CGROUPS, WithUnread, report_nothing};
use noise_pages::width::columns;

/// Sketches that are named beside one that they are like.
const SHOWN_NEAREST: usize = 10;

/// Arguments of `noised trace sketch`.
#[derive(Debug, clap::Args)]
pub struct SketchArgs {
    /// The recording: one of ours with the events of class ipc (noised record --events sched,io,ipc), or LTTng's with system
    /// calls.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// A recording of another machine at the same time, with which the first one exchanged packets: requests are followed into
    /// it. May be given several times.
    #[arg(long = "with", value_name = "RECORDING")]
    others: Vec<PathBuf>,
    /// Only slices that fulfil this condition: FIELD = VALUE (or !=, <, <=, >, >=), put together with and, or, not and
    /// parentheses. Fields are marker, process, thread, key, port, cause, cluster, latency, true_latency, idle, idle_count,
    /// idle_mean, idle_deviation, idle_variance, calls(NAME), from and to; of its sketch: sketch, sketch_slices,
    /// sketch_cluster, sketch_latency and sketch_idle. sketch(CONDITION) holds where a slice of its sketch fulfils it (see
    /// /usr/share/doc/noised/docs/sketches.md).
    #[arg(long = "where", value_name = "CONDITION")]
    given: Option<Query>,
    /// Of these, how many fulfil that condition, too.
    #[arg(long, value_name = "CONDITION")]
    probability: Option<Query>,
    /// The same for each cluster, process or marker.
    #[arg(long, value_name = "BY", requires = "probability")]
    by: Option<SketchGrouping>,
    /// Also name the sketches, of those that are asked for, that are nearest to the sketch of this slice: by what they consist
    /// of.
    #[arg(long, value_name = "SLICE")]
    near: Option<u32>,
    /// Also write the slices as trace packets, which ui.perfetto.dev opens: a track for each thread below that of its process,
    /// with an arrow to each slice that another one caused.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Also write tables into this folder: slices.csv, calls.csv, edges.csv, sketches.csv.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    part: RecordingOptions,
}

/// What probabilities are apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SketchGrouping {
    /// Kinds of slices by what they do.
    Cluster,
    /// Processes, by name.
    Process,
    /// What slices begin with.
    Marker,
    /// Kinds of sketches.
    #[value(name = "sketch_cluster")]
    SketchCluster,
}

impl From<SketchGrouping> for tiers::By {
    fn from(by: SketchGrouping) -> Self {
        match by {
            SketchGrouping::Cluster => Self::Cluster,
            SketchGrouping::Process => Self::Process,
            SketchGrouping::Marker => Self::Marker,
            SketchGrouping::SketchCluster => Self::SketchCluster,
        }
    }
}

/// Bytes of TCP, by their places in the stream, which our recordings have.
const BYTES: Common = Common {
    of: |source| {
        let mut traffic = Traffic::default();
        transfers(source, |TransferSide { is_sent, key, time_ns }| match is_sent {
            true => traffic.sent(key, time_ns),
            false => traffic.received(key, time_ns),
        });
        traffic
    },
    lacks: "has no system calls on TCP sockets, which say how far the clocks of two machines are apart",
    remedy: "record both machines with --events sched,io,ipc",
};

fn is_ours(recording: &Recording) -> bool {
    match recording {
        Recording::Ctf(ctf) => ctf.layout.env.contains_key("recorded_by"),
        Recording::Text(_) => false,
    }
}

struct SketchInput {
    system: System,
    select: Select,
    /// Threads of the first recording.
    wanted: BTreeSet<i32>,
    discarded: u64,
    reach: Reach,
    unread_lines: Option<UnreadLines>,
    damages: Vec<Damage>,
    is_empty: bool,
}

pub fn run(args: &SketchArgs) -> Result<(), CommandError> {
    for (option, path) in [("--perfetto", &args.perfetto), ("--csv", &args.csv)] {
        path.as_deref().map(|path| refuse_stdout(option, path)).transpose()?;
    }
    let recording = Recording::open(&args.recording)?;
    let mut found = input(args, &recording)?;
    let damages = std::mem::take(&mut found.damages);
    let report = || several::report(&args.recording, &args.others, &damages);
    if found.is_empty {
        report_nothing(&args.recording, found.select.is_part(), report)?;
    }
    cluster(&mut found.system).map_err(anyhow::Error::from)?;
    let document = document(args, &found)?;
    if let Some(file) = &args.perfetto {
        files::draw(&args.recording, file, &recording, &document)?;
    }
    if let Some(folder) = &args.csv {
        files::write(&args.recording, folder, &document)?;
    }
    match args.json {
        true => output::stream_json(&WithUnread::new(&document, &Damage::of_all(&damages)))?,
        false => output::print_painted(&page(&document, columns()))?,
    }
    report();
    Ok(())
}

/// Reads the recording, with those beside it.
fn input(args: &SketchArgs, recording: &Recording) -> anyhow::Result<SketchInput> {
    let others = several::open(recording, &args.others)?;
    let select = args.part.select(|| recording.first_ns());
    let mut feed = Feed::default();
    match recording {
        Recording::Ctf(ctf) => {
            let are_ours = [recording].into_iter().chain(&others).all(is_ours);
            let together = match are_ours {
                true => Together::by(&BYTES, recording, ctf, &others, &args.others)?,
                false => Together::new(recording, ctf, &others, &args.others)?,
            };
            together.by_wakeup().for_each(|machine| feed.wakes_by_wakeup(machine));
            all(together.read(), feed, select)
        }
        Recording::Text(text) => {
            if text.waker() == Waker::Wakeup {
                feed.wakes_by_wakeup(0);
            }
            let source = Merged::one(recording.shown(text.reader(), false));
            Ok(SketchInput { unread_lines: text.unread_lines(), ..all(source, feed, select)? })
        }
    }
}

/// Goes over the events: also over those before the time that is asked for, since they say what was under way.
fn all<S: Source>(
    mut source: Merged<S>,
    mut feed: Feed,
    mut select: Select,
) -> anyhow::Result<SketchInput> {
    let (mut wanted, mut is_empty) = (BTreeSet::new(), true);
    let mut crowd = Crowd::default();
    let mut reach = PartReach::new(source.machines(), select.from_ns);
    while let Some((machine, record)) = source.read_from() {
        if select.is_over(record.time_ns) {
            break;
        }
        let is_before = select.from_ns.is_some_and(|from_ns| record.time_ns < from_ns);
        is_empty &= is_before || record.loss().is_some();
        let event = record.event();
        crowd.follow(machine, &event)?;
        reach.follow(machine, &record);
        if select.follows() && machine == 0 {
            select.note(&event, &mut wanted);
        }
        feed.follow(machine, &record, &event);
    }
    if select.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    is_empty |= select.follows() && wanted.is_empty();
    let damages = source.damages();
    let (reach, discarded) = reach.finish();
    Ok(SketchInput {
        system: feed.finish(),
        select,
        wanted,
        discarded,
        reach,
        unread_lines: None,
        damages,
        is_empty,
    })
}

/// The slices in the part that is asked for.
fn shown(found: &SketchInput, keeps: impl Fn(SliceId) -> bool) -> Vec<SliceId> {
    let SketchInput { system, select, wanted, .. } = found;
    let is_wanted_thread =
        |thread: &NamedOwner| thread.machine == 0 && wanted.contains(&thread.tid);
    let is_wanted = |id: &SliceId| {
        let Some(slice) = system.slice(*id) else { return false };
        select.from_ns.is_none_or(|from_ns| slice.from_ns >= from_ns)
            && select.to_ns.is_none_or(|to_ns| slice.to_ns <= to_ns)
            && (!select.follows() || system.thread(slice).is_some_and(is_wanted_thread))
            && keeps(*id)
    };
    (0..system.slices.len() as SliceId).filter(is_wanted).collect()
}

fn document<'f>(
    args: &SketchArgs,
    found: &'f SketchInput,
) -> Result<SketchesDocument<'f>, CommandError> {
    let system = &found.system;
    let given = args.given.as_ref().map(|given| given.of(system));
    let is_given = |id: SliceId| given.as_ref().is_none_or(|given| given.holds(id) == Some(true));
    let shown = shown(found, is_given);
    let answer = args.probability.as_ref().map(|of| {
        let (all, groups) = probability(system, &shown, of, args.by.map(tiers::By::from));
        let given = args.given.as_ref().map(ToString::to_string);
        Answer { given, of: of.to_string(), all, groups }
    });
    // Nothing behind the part was read.
    let (first_ns, last_ns) = system.span;
    let from_ns = found.select.from_ns.unwrap_or(0).max(first_ns);
    let span = (from_ns, last_ns.max(from_ns));
    let tiers = tiers(system, &shown, span);
    let reach = found.reach.clone();
    let SketchInput { discarded, unread_lines, .. } = *found;
    let has_condition = args.given.is_some();
    let mut document = SketchesDocument {
        system,
        span,
        shown,
        tiers,
        has_condition,
        answer,
        nearest: None,
        discarded,
        reach,
        unread_lines,
    };
    document.nearest = args.near.map(|id| nearest(&document, id)).transpose()?;
    Ok(document)
}

/// The sketches that are like the one of a slice, of those that are shown.
fn nearest(document: &SketchesDocument<'_>, id: SliceId) -> Result<Nearest, CommandError> {
    let system = document.system;
    let to = system.whole(id).ok_or_else(|| {
        let slices = match system.slices.len().checked_sub(1) {
            Some(last) => {
                format!("the slices have the numbers 0 to {last}, as `id` of --json has them")
            }
            None => "no slice was found in the part that is asked for".to_owned(),
        };
        CommandError::misused(format!("--near {id}: there is no such slice; {slices}"))
    })?;
    let sketches = system.wholes.nearest(to, document.sketches().into_iter(), SHOWN_NEAREST);
    Ok(Nearest { to: to.first, sketches })
}

#[cfg(test)]
mod tests {
    use noise_command::fixtures::parsed;
    use noise_paths::clocks::ClockLine;
    use noise_trace::ftrace::FtraceReader;
    use noise_trace::select::ThreadOrProcess;

    use super::*;
    use crate::sampled::{with_losses, with_unread_lines};

    /// A process that is created, does nothing and ends.
    const PROCESS: &str = "\
 a-1 [000] d.... 10.000000: sched_process_fork: comm=a pid=1 child_comm=a child_pid=7
 a-1 [000] d.... 10.000010: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
 a-7 [000] d.... 10.000020: sched_process_exit: comm=a pid=7 prio=120
 a-7 [000] d.... 10.000030: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=a next_pid=1 next_prio=120
";

    #[test]
    fn threads_of_another_machine_are_not_those_of_the_first_one() {
        let one = || (FtraceReader::new(PROCESS.as_bytes()), ClockLine::SAME);
        let thread = Some(ThreadOrProcess::Id(7));
        let select = Select { thread, ..Select::default() };
        let found = all(Merged::new([one(), one()]), Feed::default(), select).unwrap();
        assert_eq!(found.system.slices.len(), 2);
        let of = |id: SliceId| found.system.thread(found.system.slice(id)?).map(|of| of.machine);
        let machines: Vec<_> = shown(&found, |_| true).into_iter().map(of).collect();
        assert_eq!(machines, [Some(0)]);
    }

    #[test]
    fn rates_are_those_of_the_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let later = PROCESS.replace(" 10.", " 15.");
        std::fs::write(&path, [PROCESS, &later].concat()).unwrap();
        let told = |part: &[&str]| {
            let words = part.iter().map(Into::into).chain([path.clone().into_os_string()]);
            let args: SketchArgs = parsed(words).unwrap();
            let found = input(&args, &Recording::open(&path).unwrap()).unwrap();
            let document = document(&args, &found).unwrap();
            let rates: Vec<_> = document.tiers.iter().map(|tier| tier.rate.round()).collect();
            (document.span, rates)
        };
        assert_eq!(told(&[]), ((10_000_000_000, 15_000_030_000), vec![0.0]));
        let later = ((14_000_030_000, 15_000_030_000), vec![1.0]);
        assert_eq!(told(&["--from=+4.00003s"]), later);
        let first = ((10_000_000_000, 10_000_030_000), vec![33_333.0]);
        assert_eq!(told(&["--to=+1s"]), first);
    }

    #[test]
    fn losses_outside_of_the_part_are_not_counted() {
        let folder = with_losses();
        let path = folder.path().join("text");
        let lost = |part: &[&str]| {
            let words = part.iter().map(Into::into).chain([path.clone().into_os_string()]);
            let args: SketchArgs = parsed(words).unwrap();
            input(&args, &Recording::open(&path).unwrap()).unwrap().discarded
        };
        assert_eq!(lost(&[]), 8);
        assert_eq!(lost(&["--from=+2.5s"]), 8);
        assert_eq!(lost(&["--from=+3.5s", "--to=+4.5s"]), 0);
    }

    #[test]
    fn a_slice_that_is_not_there_is_near_to_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, PROCESS).unwrap();
        let told = |words: &[&str]| {
            let words = words.iter().map(Into::into).chain([path.clone().into_os_string()]);
            let args: SketchArgs = parsed(words).unwrap();
            let mut found = input(&args, &Recording::open(&path).unwrap()).unwrap();
            cluster(&mut found.system).unwrap();
            match document(&args, &found) {
                Ok(document) => page(&document, 120).text(false),
                Err(error) => error.to_string(),
            }
        };
        assert!(
            told(&["--near=1"])
                .ends_with("; the slices have the numbers 0 to 0, as `id` of --json has them")
        );
        assert!(
            told(&["--near=0", "--to=+1us"])
                .ends_with("; no slice was found in the part that is asked for")
        );
        let alone = "\nNo sketch is near to sketch 0: no other one is selected, ";
        for given in ["marker = process", "marker = pipe"] {
            let page = told(&["--near=0", &format!("--where={given}")]);
            assert!(page.contains(alone), "{page}");
        }
    }

    #[test]
    fn lines_that_were_not_read_are_said() {
        let folder = with_unread_lines(1);
        let path = folder.path().join("text");
        let args: SketchArgs = parsed([&path]).unwrap();
        let found = input(&args, &Recording::open(&path).unwrap()).unwrap();
        let document = document(&args, &found).unwrap();
        let page = page(&document, 120).text(false);
        assert!(page.contains("\n10 of 20 lines cannot be read as events: "), "{page}");
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["unread_lines"], serde_json::json!({"unread": 10, "of": 20}));
    }
}

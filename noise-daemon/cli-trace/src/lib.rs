//! `noised trace`: what each of its commands is asked, how it reads recordings of kernel events, and what it says of them.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

mod analysed;
pub mod asked;
pub mod compare;
pub mod critical_path;
mod delays;
mod delimited;
mod events;
mod export;
mod folders;
mod foreign;
pub mod found;
mod growing;
mod part;
mod reading;
pub mod recording;
#[cfg(test)]
mod sampled;
mod several;
pub mod sketch;
mod states;
mod tables;
mod variables;
#[cfg(test)]
#[path = "../../trace/tests/traces/wire.rs"]
mod wire;

use std::path::Path;

use anyhow::bail;
use noise_trace::damage::Damage;
use noise_trace::summary::UnreadDocument;
use serde::Serialize;

use noise_command::{CommandError, output};

/// Arguments of `noised trace`.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// What to do with a recording.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What can be done with recordings.
#[derive(Debug, clap::Subcommand)]
pub enum TraceCommand {
    /// Print the events of a recording, or count them.
    Events(events::EventsArgs),
    /// Say how long threads, interrupts, requests and packets waited, and for whom.
    Delays(analysed::AnalysisArgs),
    /// Say how long each thread ran, waited for a CPU and slept.
    States(analysed::AnalysisArgs),
    /// Say what threads or processes really waited for: of each sleep, what its waker did meanwhile.
    CriticalPath(critical_path::CriticalPathArgs),
    /// Say what is different in some executions, held against normal ones: in which state, and where.
    Compare(compare::CompareArgs),
    /// Say how work travels through threads, processes and tiers: requests with their true latencies, and what causes what.
    Sketch(sketch::SketchArgs),
    /// Write a recording in the formats of other programs: Perfetto, CSV tables, lines of JSON.
    Export(export::ExportArgs),
}

pub fn run(args: &TraceArgs) -> Result<(), CommandError> {
    match &args.command {
        TraceCommand::Events(args) => events::run(args),
        TraceCommand::Delays(args) => delays::run(args),
        TraceCommand::States(args) => states::run(args),
        TraceCommand::CriticalPath(args) => critical_path::run(args),
        TraceCommand::Compare(args) => compare::run(args),
        TraceCommand::Sketch(args) => sketch::run(args),
        TraceCommand::Export(args) => export::run(args),
    }
}

/// Why a recording has no part that is asked for by cgroup.
const NO_CGROUPS: &str = "this recording does not say which cgroups its threads are in, so --cgroup selects \
                          nothing; select with --process or --thread";

/// Says on standard error that a recording has no events.
/// Errors: that a part is wanted in which there is none.
fn report_nothing(
    recording: &Path,
    is_part: bool,
    report_unread: impl FnOnce(),
) -> anyhow::Result<()> {
    let shown = recording.display();
    if is_part {
        report_unread();
        bail!(
            "no event of {shown} is selected; `noised trace events --summary {shown}` says from when to when it lasts, \
             and --thread and --process take whole names"
        );
    }
    output::complain(&format!("{shown} has no events"));
    Ok(())
}

/// A document about a recording, with what of that could not be read.
#[derive(Serialize)]
struct WithUnread<'d, D> {
    #[serde(flatten)]
    document: &'d D,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<UnreadDocument>,
}

impl<'d, D> WithUnread<'d, D> {
    fn new(document: &'d D, damage: &Damage) -> Self {
        Self { document, unread: UnreadDocument::of(damage) }
    }
}

/// What to say of what could not be read.
fn unread(recording: &Path, damage: &Damage) -> Option<String> {
    let shown = recording.display();
    (!damage.is_none()).then(|| format!("{shown} was not read completely: {damage}"))
}

/// Says it on standard error.
pub fn report(recording: &Path, damage: &Damage) {
    unread(recording, damage).iter().for_each(|sentence| output::complain(sentence));
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use noise_command::Exit;
    use noise_trace::summary::TraceSummary;

    use super::*;
    use crate::asked::Asking;
    use crate::compare::sets::ComparedRecording;
    use crate::found::found;
    use crate::recording::Recording;
    use crate::sampled::{small, with_losses};

    #[test]
    fn where_a_stream_ends_too_early_is_in_every_document() {
        let folder = small();
        let file = folder.path().join("kernel/channel0_1");
        let length = std::fs::metadata(&file).unwrap().len();
        let cut = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        cut.set_len(length - 3).unwrap();
        let path = folder.path();
        let recording = Recording::open(path).unwrap();
        let Recording::Ctf(ctf) = &recording else { panic!("no CTF") };
        let asking = Asking::of(["thread:5"].into_iter()).unwrap();
        let (paths, damages) = found(&asking, &recording, &[], None).unwrap();
        let damage = Damage::of_all(&damages);
        let [compared, analysed, printed] = [
            serde_json::to_value(ComparedRecording::read(&asking, path, &recording).unwrap().1),
            serde_json::to_value(WithUnread::new(&paths.reach, &damage)),
            serde_json::to_value(&paths),
        ];
        let missing = |document: &serde_json::Value| {
            let cut = &document["unread"]["cuts"][0];
            assert_eq!(cut["stream"], "channel0_1", "{document}");
            assert!(cut["cpu"].is_u64() && cut["from_ns"].is_u64(), "{document}");
            cut["missing_bytes"].as_u64()
        };
        for document in [compared, analysed, printed] {
            assert_eq!(missing(&document.unwrap()), Some(3));
        }
        let whole = serde_json::to_value(WithUnread::new(&paths.reach, &Damage::default()));
        assert_eq!(whole.unwrap().get("unread"), None);
        let mut summary =
            TraceSummary::new(&ctf.layout.clocks[0], std::collections::BTreeMap::new());
        summary.finish(&damage);
        assert_eq!(missing(&serde_json::to_value(&summary).unwrap()), Some(3));
        let said = damage.to_string();
        assert!(
            said.contains("channel0_1 of CPU ") && said.contains("s on: the file ends"),
            "{said}"
        );
    }

    #[test]
    fn that_nothing_is_selected_is_said_with_what_helps() {
        let folder = with_losses();
        let recording = folder.path().join("text");
        let recording = recording.to_str().unwrap();
        let written = folder.path().join("written").display().to_string();
        let csv = ["--csv", &written];
        let thread = ["--execution", "thread:91"];
        let commands: [(&str, &[&str]); 7] = [
            ("events", &[]),
            ("events", &["--summary", "--json"]),
            ("delays", &[]),
            ("states", &["--json"]),
            ("sketch", &[]),
            ("export", &csv),
            ("critical-path", &thread),
        ];
        for (command, more) in commands {
            // Its events are in the seconds 0 to 9.
            for part in ["--from=+11s", "--thread=nosuch", "--process=4000000"] {
                let args = [&[command, recording, part], more].concat();
                let command = clap::Command::new("noised").no_binary_name(true);
                let found = TraceArgs::augment_args(command).try_get_matches_from(&args).unwrap();
                let error = run(&TraceArgs::from_arg_matches(&found).unwrap()).unwrap_err();
                assert_eq!(error.exit, Exit::Failed, "{args:?}");
                let begin = match args[0] {
                    "critical-path" => {
                        "thread:91 did not run in this recording, or not in the time"
                    }
                    _ => "no event of ",
                };
                assert!(error.to_string().starts_with(begin), "{args:?}: {error}");
                assert!(!folder.path().join("written/events.csv").exists(), "{args:?}");
            }
        }
    }
}

//! `noised trace`: what each of its commands is asked, how it reads recordings of kernel events, and what it says of them.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

mod analysed;
pub mod asked;
pub mod compare;
pub mod critical_path;
mod delays;
mod events;
mod export;
mod folders;
mod foreign;
pub mod found;
mod part;
mod reading;
pub mod recording;
#[cfg(test)]
mod sampled;
mod several;
pub mod sketch;
mod states;

use std::path::Path;

use noise_trace::damage::Damage;

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

/// Says on standard error that not a single event came, of the recording or of the part that is wanted.
fn report_nothing(recording: &Path, is_part: bool) {
    output::complain(&nothing(recording, is_part));
}

fn nothing(recording: &Path, is_part: bool) -> String {
    let recording = recording.display();
    match is_part {
        true => format!(
            "no event of {recording} is selected; `noised trace events --summary {recording}` says from when to \
             when it lasts, and --thread and --process take whole names"
        ),
        false => format!("{recording} has no events"),
    }
}

/// Says on standard error what could not be read.
pub fn report(recording: &Path, damage: &Damage) {
    if !damage.is_none() {
        output::complain(&format!("{} was not read completely: {damage}", recording.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nothing_is_selected_is_said_with_what_helps() {
        let part = nothing(Path::new("r"), true);
        assert!(part.starts_with("no event of r is selected; `noised trace events --summary r`"));
        assert_eq!(nothing(Path::new("r"), false), "r has no events");
    }
}

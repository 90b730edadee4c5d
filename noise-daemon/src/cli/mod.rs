//! The command line.

pub mod check;
pub mod completions;
mod connect;
mod examples;
pub mod limits;
mod looking;
pub mod man;
pub mod mark;
mod pressing;
pub mod record;
pub mod run;
mod starved;
pub mod top;
mod watching;
pub mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use noise_cli_measure::{bench, osnoise};
use noise_command::{CommandError, Exit};

/// Which work on this host was delayed, by how much, and by whom.
#[derive(Debug, Parser)]
#[command(name = "noised", version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure, and serve metrics and a status page.
    Run(run::RunArgs),
    /// Show live what is delayed, by how much, by whom, since when.
    Top(top::TopArgs),
    /// Check kernel support and privileges: whether noised can work here.
    Check(check::CheckArgs),
    /// Say why one service, container or process is slow now: what it waited for, for whom, what to do.
    Why(why::WhyArgs),
    /// Show incidents: what changed, since when, by how much, the culprits and the remedies.
    Incidents(noise_cli_incidents::IncidentsArgs),
    /// Measure how much of a CPU a busy thread gets, and who takes the rest.
    Osnoise(osnoise::OsnoiseArgs),
    /// Measure this machine's noise from the inside, and what it costs at scale.
    Bench(bench::BenchArgs),
    /// Record kernel events into a folder that LTTng's tools read too.
    Record(record::RecordArgs),
    /// State that something begins or ends, in what is recorded meanwhile.
    Mark(mark::MarkArgs),
    /// Read recordings of kernel events: our own, LTTng's, perf's, ftrace's text.
    Trace(noise_cli_trace::TraceArgs),
    /// Print what a shell needs to complete this command line.
    Completions(completions::CompletionsArgs),
    /// Print the manual, or write a page for each command.
    Man(man::ManArgs),
}

impl Command {
    /// Whether it gives one answer, soon, about what goes on here.
    fn answers_at_once(&self) -> bool {
        match self {
            Self::Check(_) | Self::Why(_) => true,
            Self::Incidents(args) => !args.follow,
            Self::Top(args) => args.once,
            _ => false,
        }
    }

    /// Runs it; what the process exits with.
    /// Errors: what the command failed with.
    pub fn run(&self) -> Result<ExitCode, CommandError> {
        if self.answers_at_once() {
            starved::watch();
        }
        match self {
            Self::Run(args) => run::run(args)?,
            Self::Top(args) => top::run(args)?,
            Self::Check(args) => check::run(args)?,
            Self::Why(args) => why::run(args)?,
            Self::Incidents(args) => noise_cli_incidents::run(args)?,
            Self::Osnoise(args) => return osnoise::run(args).map(ExitCode::from),
            Self::Bench(args) => bench::run(args)?,
            Self::Record(args) => return record::run(args),
            Self::Mark(args) => mark::run(args)?,
            Self::Trace(args) => noise_cli_trace::run(args)?,
            Self::Completions(args) => completions::run(args)?,
            Self::Man(args) => man::run(args)?,
        }
        Ok(Exit::Fine.into())
    }
}

//! `noised bench`: what this machine's noise is, and what it costs.

pub mod compare;
pub mod detour;
mod document;
mod files;
mod quanta;
pub mod scale;

use crate::measure::error::{Failure, MeasureError};

/// Arguments of `noised bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// Which bench.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The benches.
#[derive(Debug, clap::Subcommand)]
pub enum BenchCommand {
    /// Watch the clock on all CPUs at once, and say what every gap was.
    Detour(detour::DetourArgs),
    /// Count the units of work that are finished in each of many equal times, on all CPUs at once.
    Ftq(quanta::FtqArgs),
    /// Time many equal quanta of work, on all CPUs at once.
    Fwq(quanta::FwqArgs),
    /// Say what measured noise does to a program on many nodes.
    Scale(scale::ScaleArgs),
    /// Say whether one report has less noise than another, source by source.
    Compare(compare::CompareArgs),
}

/// Why a bench did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// What was asked for makes no sense: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// Privileges or the kernel are missing: exit status 3.
    #[error("{0}")]
    Unsupported(String),
    /// Anything else.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl From<MeasureError> for BenchError {
    fn from(error: MeasureError) -> Self {
        match error.failure() {
            Failure::Usage => Self::Usage(error.to_string()),
            Failure::Unsupported => Self::Unsupported(error.to_string()),
            Failure::Failed => match error {
                // Its causes are told once.
                MeasureError::Failed(error) => Self::Failed(error),
                error => Self::Failed(error.into()),
            },
        }
    }
}

/// Runs the command.
///
/// # Errors
/// See [`BenchError`].
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    match &args.command {
        BenchCommand::Detour(args) => detour::run(args),
        BenchCommand::Ftq(args) => quanta::ftq(args),
        BenchCommand::Fwq(args) => quanta::fwq(args),
        BenchCommand::Scale(args) => scale::run(args),
        BenchCommand::Compare(args) => compare::run(args),
    }
}

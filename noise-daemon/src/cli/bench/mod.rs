//! `noised bench`: what this machine's noise is, and what it costs.

pub mod compare;
mod document;
mod grid;
pub mod scale;

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

/// Runs the command.
///
/// # Errors
/// See [`BenchError`].
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    match &args.command {
        BenchCommand::Scale(args) => scale::run(args),
        BenchCommand::Compare(args) => compare::run(args),
    }
}

//! `noised bench`: what this machine's noise is, and what it costs.

mod detour;

use std::io::{ErrorKind, Write as _};

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
            Failure::Failed => Self::Failed(error.into()),
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
    }
}

/// Prints a result. A reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), BenchError> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("cannot write the result").into())
        }
        _ => Ok(()),
    }
}

//! `noised bench`: what this machine's noise is, and what it costs.

pub mod compare;
pub mod detour;
mod document;
mod files;
mod quanta;
pub mod scale;

use noise_command::CommandError;

/// Arguments of `noised bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// Which bench.
    #[command(subcommand)]
    pub command: BenchCommand,
}

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

pub fn run(args: &BenchArgs) -> Result<(), CommandError> {
    match &args.command {
        BenchCommand::Detour(args) => detour::run(args),
        BenchCommand::Ftq(args) => quanta::ftq(args),
        BenchCommand::Fwq(args) => quanta::fwq(args),
        BenchCommand::Scale(args) => scale::run(args),
        BenchCommand::Compare(args) => compare::run(args),
    }
}

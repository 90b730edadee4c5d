//! `cargo xtask test`: every test of the workspace with one honest summary.
//!
//! First the tests that need no privileges (unit, property, golden), then the programs of `noise-tests`, as root,
//! against an optimised `noised`. The last line reads `N passed, N failed, N skipped`; before it stands each skipped
//! test with its reason. The kernel side has no tests of its own: its logic is tested in `noise-common` and, loaded, by
//! the live tests. What stands in documentation is not run.

use std::env;
use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::Workspace;
use crate::libtest::Tally;
use crate::live;
use crate::suite::{SEED, fresh_seed, seeded};
use crate::{lanes, needed, runs, seeds, setup, suite};

/// What is run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Run only the tests that draw their cases, N times, each time with another seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Run only the live tests, all of them, N times, and append a row for each run to tests/runs.md
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["filter", "seeds"])]
    runs: Option<u32>,
    /// Repeat this command of the shell while the live tests run, such as a build
    #[arg(long, value_name = "COMMAND", requires = "runs")]
    beside: Option<String>,
    /// Install no Debian packages: tests that use what is missing are skipped
    #[arg(long)]
    no_install: bool,
}

/// Runs the tests; succeeds if something ran and nothing failed.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let filter = arguments.filter.as_deref();
    if arguments.seeds.is_none() {
        needed::ensure(!arguments.no_install);
    }
    let tally = match (arguments.seeds, arguments.runs) {
        (Some(seeds), _) => seeds::run(workspace, filter, seeds)?,
        (None, Some(runs)) => runs::run(workspace, runs, arguments.beside.as_deref())?,
        (None, None) => everything(workspace, filter)?,
    };
    print!("\n{}", tally.report());
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn everything(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    let programs = suite::programs(workspace, &[])?;
    let seed = given_seed().unwrap_or_else(fresh_seed);
    let mut tally = Tally::default();
    let tallies = lanes::each(&programs.ordinary, |program| {
        eprintln!("     Running {}", program.name);
        let mut command = suite::command(program);
        command.args(filter);
        seeded(command, &program.name, seed)
    });
    for one in tallies {
        tally.add(one?);
    }
    if let Err(error) = live::run(workspace, &programs.live, filter, &mut tally) {
        // An error here must not hide the results so far.
        tally.failed.push(format!("live tests: {error:#}"));
    }
    Ok(tally)
}

/// The seed that the caller sets.
fn given_seed() -> Option<u64> {
    env::var(SEED).ok()?.parse().ok()
}

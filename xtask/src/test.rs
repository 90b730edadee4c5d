//! `cargo xtask test`: every test of the workspace with one honest summary.
//!
//! First the tests that need no privileges (unit, property, golden, documentation), then the
//! programs of `noise-tests`, as root, against an optimised `noised`. The last line reads
//! `N passed, N failed, N skipped`; before it stands each skipped test with its reason. The kernel
//! side has no tests of its own: its logic is tested in `noise-common` and, loaded, by the live tests.

use std::env;
use std::ffi::OsStr;
use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{DAEMON, Executable, Workspace};
use crate::libtest::{Skipped, Tally};
use crate::privilege::Privilege;
use crate::suite::{SEED, fresh_seed, ordinary, seeded, stream, tests_of};
use crate::{needed, seeds, setup};

/// What is run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Run only the tests that draw their cases, N times, each time with another seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Install no Debian packages: tests that use what is missing are skipped
    #[arg(long)]
    no_install: bool,
}

/// Runs the tests; succeeds if something ran and nothing failed.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let filter = arguments.filter.as_deref();
    let tally = match arguments.seeds {
        Some(runs) => seeds::run(workspace, filter, runs)?,
        None => {
            needed::ensure(!arguments.no_install);
            everything(workspace, filter)?
        }
    };
    print!("\n{}", tally.report());
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn everything(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    let mut command = workspace.cargo();
    command.arg("test").args(ordinary());
    command.args(filter.map(|filter| ["--", filter]).into_iter().flatten());
    let mut tally = seeded(command, "cargo test", given_seed().unwrap_or_else(fresh_seed))?;
    if let Err(error) = live(workspace, filter, &mut tally) {
        // An error here must not hide the results so far.
        tally.failed.push(format!("live tests: {error:#}"));
    }
    Ok(tally)
}

/// The seed that the caller sets.
fn given_seed() -> Option<u64> {
    env::var(SEED).ok()?.parse().ok()
}

fn live(workspace: &Workspace, filter: Option<&str>, tally: &mut Tally) -> Result<()> {
    let noised = workspace.noised_to_try()?;
    let built = workspace.build(&["test", "--package", "noise-tests", "--no-run"])?;
    let privilege = Privilege::detect();
    for program in built.iter().filter(|executable| executable.tests) {
        tally.add(match &privilege {
            Privilege::Missing(reason) => unprivileged(program, filter, reason)?,
            Privilege::Root | Privilege::Sudo => {
                eprintln!("     Running {} as root", program.name);
                let environment = [
                    (DAEMON, noised.as_os_str()),
                    ("CARGO_MANIFEST_DIR", program.package.as_os_str()),
                ];
                start(&privilege, program, &environment, filter)?
            }
        });
    }
    Ok(())
}

fn start(
    privilege: &Privilege,
    program: &Executable,
    environment: &[(&str, &OsStr)],
    filter: Option<&str>,
) -> Result<Tally> {
    let mut command = privilege.command(&program.path, environment)?;
    command.current_dir(&program.package).args(filter);
    stream(command, &program.name)
}

/// The tests that would have run, as skipped.
fn unprivileged(program: &Executable, filter: Option<&str>, reason: &str) -> Result<Tally> {
    let skipped = tests_of(program, filter)?
        .into_iter()
        .map(|test| Skipped { test, reason: reason.to_owned() })
        .collect();
    Ok(Tally { skipped, ..Tally::default() })
}

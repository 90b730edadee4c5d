//! `cargo xtask test`: every test of the workspace with one honest summary.
//!
//! First the tests that need no privileges (unit, property, golden, documentation), then the
//! programs of `noise-tests`, as root, against an optimised `noised`. The last line reads
//! `N passed, N failed, N skipped`; before it stands each skipped test with its reason. The kernel
//! side has no tests of its own: its logic is tested in `noise-common` and, loaded, by the live tests.

use std::env;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Read, Write, stdout};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{DAEMON, Executable, Workspace};
use crate::libtest::{Reading, Skipped, Tally};
use crate::privilege::Privilege;
use crate::setup;

/// What is run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Run only unit and property tests, N times, each time with another seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
}

/// Names the number from which the property tests draw their cases. The library reads it.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Runs the tests; succeeds if something ran and nothing failed.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let filter = arguments.filter.as_deref();
    let tally = match arguments.seeds {
        Some(runs) => repeated(workspace, filter, runs)?,
        None => everything(workspace, filter)?,
    };
    print!("\n{}", tally.report());
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn everything(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    let mut command = ordinary(workspace);
    command.args(filter.map(|filter| ["--", filter]).into_iter().flatten());
    let mut tally = seeded(command, given_seed().unwrap_or_else(fresh_seed))?;
    if let Err(error) = live(workspace, filter, &mut tally) {
        // An error here must not hide the results so far.
        tally.failed.push(format!("live tests: {error:#}"));
    }
    Ok(tally)
}

/// Runs the unit and property tests that often. What fails in one of a hundred runs is found here
/// rather than on the next fresh clone.
fn repeated(workspace: &Workspace, filter: Option<&str>, runs: u32) -> Result<Tally> {
    let mut all = Tally::default();
    for number in 1..=runs {
        let seed = fresh_seed();
        eprintln!("     Running with {SEED}={seed} ({number} of {runs})");
        let mut command = ordinary(workspace);
        command.arg("--tests").args(filter.map(|filter| ["--", filter]).into_iter().flatten());
        all.add(seeded(command, seed)?);
    }
    Ok(all)
}

fn ordinary(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    command.args(["--exclude", "noise-ebpf", "--exclude", "noise-tests"]);
    command
}

/// Runs tests with a seed, and names it beside those that failed: with it they fail again.
fn seeded(mut command: Command, seed: u64) -> Result<Tally> {
    command.env(SEED, seed.to_string());
    let mut tally = stream(command, "cargo test")?;
    for test in &mut tally.failed {
        test.push_str(&format!(" (with {SEED}={seed})"));
    }
    Ok(tally)
}

/// The seed that the caller sets.
fn given_seed() -> Option<u64> {
    env::var(SEED).ok()?.parse().ok()
}

/// Another one each time: the standard library seeds its hashes at random.
fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
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
    let output = Command::new(&program.path)
        .arg("--list")
        .args(filter)
        .current_dir(&program.package)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", program.path.display()))?;
    if !output.status.success() {
        bail!("{} cannot list its tests ({})", program.name, output.status);
    }
    let skipped = listed(&String::from_utf8_lossy(&output.stdout))
        .map(|test| Skipped { test: test.to_owned(), reason: reason.to_owned() })
        .collect();
    Ok(Tally { skipped, ..Tally::default() })
}

/// Names in the output of `--list`.
fn listed(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// Runs a command, passing its output on as it comes while reading the results from it.
fn stream(mut command: Command, name: &str) -> Result<Tally> {
    let program = Path::new(command.get_program()).display().to_string();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut reading = Reading::default();
    if let Some(mut output) = child.stdout.take() {
        let mut piece = [0; 8192];
        loop {
            let length =
                output.read(&mut piece).with_context(|| format!("cannot read from {program}"))?;
            if length == 0 {
                break;
            }
            reading.feed(&piece[..length]);
            let mut terminal = stdout().lock();
            terminal.write_all(&piece[..length]).context("cannot write the output on")?;
            terminal.flush().context("cannot write the output on")?;
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {program}"))?;
    Ok(reading.finish(name, status))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{fresh_seed, listed, seeded, stream};

    #[test]
    fn a_list_of_tests_is_read() {
        let output = "[live] a::b: test\nc: test\nd: bench\n\n2 tests, 1 benchmark\n";
        assert_eq!(listed(output).collect::<Vec<_>>(), ["[live] a::b", "c"]);
    }

    #[test]
    fn a_failure_names_the_seed_that_the_tests_were_given() -> anyhow::Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", "exit $PROPTEST_RNG_SEED"]);
        let tally = seeded(command, 77)?;
        assert_eq!(tally.failed.len(), 1);
        let failed = &tally.failed[0];
        assert!(failed.contains("exit status: 77"), "{failed}");
        assert!(failed.ends_with(" (with PROPTEST_RNG_SEED=77)"), "{failed}");
        let seeds: std::collections::BTreeSet<u64> = (0..10).map(|_| fresh_seed()).collect();
        assert!(seeds.len() > 8, "{seeds:?}");
        Ok(())
    }

    #[test]
    fn the_results_of_a_command_are_read_from_its_output() -> anyhow::Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let tally = stream(command, "shell")?;
        assert_eq!(tally.failed.len(), 1);
        assert!(tally.failed[0].contains("exit status: 3"));
        Ok(())
    }
}

//! `cargo xtask test`: every test of the workspace with one honest summary.
//!
//! First the tests that need no privileges (unit, property, golden, documentation), then the
//! programs of `noise-tests`, as root, against an optimised `noised`. The last line reads
//! `N passed, N failed, N skipped`; before it stands each skipped test with its reason. The kernel
//! side has no tests of its own: its logic is tested in `noise-common` and, loaded, by the live tests.

use std::ffi::OsStr;
use std::io::{Read, Write, stdout};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{DAEMON, Executable, Workspace};
use crate::libtest::{Reading, Skipped, Tally};
use crate::privilege::Privilege;
use crate::setup;

/// Runs everything; succeeds if something ran and nothing failed.
pub fn run(workspace: &Workspace, filter: Option<&str>) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let mut tally = ordinary(workspace, filter)?;
    if let Err(error) = live(workspace, filter, &mut tally) {
        // An error here must not hide the results so far.
        tally.failed.push(format!("live tests: {error:#}"));
    }
    print!("\n{}", tally.report());
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ordinary(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    let mut command = workspace.cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    command.args(["--exclude", "noise-ebpf", "--exclude", "noise-tests"]);
    if let Some(filter) = filter {
        command.args(["--", filter]);
    }
    stream(command, "cargo test")
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

    use super::{listed, stream};

    #[test]
    fn a_list_of_tests_is_read() {
        let output = "[live] a::b: test\nc: test\nd: bench\n\n2 tests, 1 benchmark\n";
        assert_eq!(listed(output).collect::<Vec<_>>(), ["[live] a::b", "c"]);
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

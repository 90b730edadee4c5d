//! Programs of tests: started, listed, and read while they print.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Read, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{Executable, Workspace};
use crate::libtest::{Reading, Tally};

/// Names the number from which the property tests draw their cases. The library reads it.
pub const SEED: &str = "PROPTEST_RNG_SEED";

/// Programs of tests.
pub struct Programs {
    /// Those whose tests need no privileges.
    pub ordinary: Vec<Executable>,
    /// Those of `noise-tests`, which run as root.
    pub live: Vec<Executable>,
}

/// Builds all programs of tests and those that they start, with these further arguments for cargo. All packages in one build:
/// alone, each would have its dependencies with other features, and those would be built twice.
pub fn built(workspace: &Workspace, more: &[&str]) -> Result<Vec<Executable>> {
    let arguments = ["test", "--no-run", "--workspace", "--exclude", "noise-ebpf"];
    workspace.build(&[&arguments, more].concat())
}

/// The programs of tests, built as [`built`] does.
pub fn programs(workspace: &Workspace, more: &[&str]) -> Result<Programs> {
    let tests = built(workspace, more)?.into_iter().filter(|executable| executable.tests);
    let folder = workspace.root.join("tests");
    let (live, ordinary) = tests.partition(|executable| executable.package == folder);
    Ok(Programs { ordinary, live })
}

/// A command that runs a program's tests as cargo does.
pub fn command(program: &Executable) -> Command {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
    command
}

/// Runs tests with a seed, and names it beside those that failed: with it they fail again.
pub fn seeded(mut command: Command, name: &str, seed: u64) -> Result<Tally> {
    command.env(SEED, seed.to_string());
    let mut tally = whole(command, name)?;
    for test in &mut tally.failed {
        test.push_str(&format!(" (with {SEED}={seed})"));
    }
    Ok(tally)
}

/// Another one each time: the standard library seeds its hashes at random.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

/// The tests of a program whose name contains the filter.
pub fn tests_of(program: &Executable, filter: Option<&str>) -> Result<Vec<String>> {
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
    Ok(listed(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned).collect())
}

/// Names in the output of `--list`.
fn listed(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// Runs a command, and passes its output on when it ends: others may run beside it.
fn whole(mut command: Command, name: &str) -> Result<Tally> {
    let program = Path::new(command.get_program()).display().to_string();
    let doing = || format!("cannot run {program}");
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_context(doing)?;
    stdout().lock().write_all(&output.stdout).context("cannot write the output on")?;
    let mut reading = Reading::default();
    reading.feed(&output.stdout);
    Ok(reading.finish(name, output.status))
}

/// Runs a command, passing its output on as it comes while reading the results from it.
pub fn stream(mut command: Command, name: &str) -> Result<Tally> {
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
        let tally = seeded(command, "shell", 77)?;
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

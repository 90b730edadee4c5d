//! How the daemon starts and ends, and how it refuses to.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, Outcome, STATE_DIRECTORY, binary, free_address, run, run_noised,
};
use noise_tests::load::Worker;
use noise_tests::rights::UNPRIVILEGED;
use noise_tests::wait::wait_until;

use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("ends_on_sigterm", ends_on_sigterm),
    ("ends_on_sigint", ends_on_sigint),
    ("second_daemon_on_the_same_address", second_daemon_on_the_same_address),
    ("second_daemon_on_another_address", second_daemon_on_another_address),
    ("without_privileges", without_privileges),
    ("without_btf", without_btf),
    ("read_only_home", read_only_home),
    ("debug_records", debug_records),
];

/// Requires an exit code and one sentence on standard error that has all of `words` in it.
pub(crate) fn ensure_refused(outcome: &Outcome, code: i32, words: &[&str]) -> Result<()> {
    let stderr = outcome.stderr.trim();
    println!("exit {}: {stderr}", outcome.code);
    ensure!(outcome.code == code, "exit code {}, expected {code}: {stderr}", outcome.code);
    for word in words {
        ensure!(stderr.contains(word), "the message does not name {word:?}: {stderr}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "Stack backtrace", "Error {"] {
        ensure!(!stderr.contains(noise), "the message is not for people: {stderr}");
    }
    Ok(())
}

/// As [`ensure_refused`], in one line.
pub(crate) fn ensure_refused_in_a_line(outcome: &Outcome, code: i32, words: &[&str]) -> Result<()> {
    ensure_refused(outcome, code, words)?;
    let lines = outcome.stderr.trim().lines().count();
    ensure!(lines == 1, "{lines} lines instead of one: {}", outcome.stderr);
    Ok(())
}

fn ends_on(signal: i32) -> Result<()> {
    let daemon = Daemon::start()?;
    let programs = bpf::programs_of(daemon.process().pid())?;
    ensure!(!programs.is_empty(), "the daemon holds no BPF program");
    let (status, stderr) = daemon.stop(signal)?;
    ensure!(status.code() == Some(0), "ended with {status}: {stderr}");
    bpf::wait_until_gone(programs.into_keys())?;
    Ok(())
}

fn ends_on_sigterm() -> Result<()> {
    ends_on(libc::SIGTERM)
}

fn ends_on_sigint() -> Result<()> {
    ends_on(libc::SIGINT)
}

fn second_daemon_on_the_same_address() -> Result<()> {
    let daemon = Daemon::start()?;
    let before = bpf::program_ids()?;
    let address = daemon.address.to_string();
    let outcome = run_noised(&["run", "--web.listen-address", &address])?;
    ensure_refused_in_a_line(&outcome, 1, &[&address])?;
    let new = bpf::program_ids()?.difference(&before).copied().collect::<Vec<_>>();
    bpf::wait_until_gone(new)?;
    ensure!(
        daemon.scrape()?.total("noised_context_switches_total") > 0.0,
        "the first one suffered"
    );
    Ok(())
}

fn second_daemon_on_another_address() -> Result<()> {
    let first = Daemon::start()?;
    ensure!(
        !first.process().stderr()?.contains("overhead doubles"),
        "a warning without a reason: {}",
        first.process().stderr()?
    );
    let second = Daemon::start()?;
    ensure!(
        second.scrape()?.total("noised_context_switches_total") > 0.0,
        "the second counts nothing"
    );
    ensure!(
        first.scrape()?.total("noised_context_switches_total") > 0.0,
        "the first counts nothing"
    );
    let (status, stderr) = second.stop(libc::SIGTERM)?;
    println!("{stderr}");
    ensure!(status.success(), "ended with {status}");
    ensure!(stderr.contains("overhead doubles"), "no warning that the overhead doubles: {stderr}");
    Ok(())
}

/// A copy of the daemon that everybody may run, removed when dropped.
pub(crate) struct PublicCopy(PathBuf);

impl PublicCopy {
    pub(crate) fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("noised-test-{}-copy", std::process::id()));
        fs::copy(binary()?, &path)?;
        let copy = Self(path);
        fs::set_permissions(&copy.0, fs::Permissions::from_mode(0o755))?;
        Ok(copy)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A command that runs it as an unprivileged user.
    pub(crate) fn as_unprivileged(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments).current_dir("/").uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        command
    }
}

impl Drop for PublicCopy {
    fn drop(&mut self) {
        // A drop reports no error; the name says whose it was.
        let _ = fs::remove_file(&self.0);
    }
}

fn without_privileges() -> Result<()> {
    let copy = PublicCopy::new()?;
    let address = free_address()?.to_string();
    let outcome = run(copy.as_unprivileged(&["run", "--web.listen-address", &address]))?;
    ensure_refused(&outcome, 3, &[])?;
    let named = ["CAP_BPF", "root"].iter().any(|word| outcome.stderr.contains(word));
    ensure!(named, "the message does not say which privilege: {}", outcome.stderr);
    Ok(())
}

/// A command that runs the daemon in a mount namespace of its own, after this bit of shell.
pub(crate) fn in_private_mounts(shell: &str) -> Result<Command> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg(format!("{shell} && exec \"$@\"")).arg("sh").arg(binary()?);
    Ok(command)
}

fn without_btf() -> Result<()> {
    let mut command = in_private_mounts("mount -t tmpfs none /sys/kernel/btf")?;
    command.args(["run", "--web.listen-address", &free_address()?.to_string()]);
    let outcome = run(command)?;
    ensure_refused(&outcome, 3, &["/sys/kernel/btf/vmlinux"])?;
    Ok(())
}

fn read_only_home() -> Result<()> {
    let home = env::var("HOME").context("no HOME")?;
    let mut command = in_private_mounts("mount -t tmpfs -o ro none \"$HOME\" && cd \"$HOME\"")?;
    let address = free_address()?.to_string();
    command.args(["run", "--web.listen-address", &address, STATE_DIRECTORY, ""]);
    command.args(FIXED_RECORDER);
    command.env("HOME", &home);
    ensure!(
        !binary()?.starts_with(&home),
        Impossible("the daemon's binary lies in the home that is hidden".into())
    );
    let daemon = Daemon::start_command(command, address.parse()?)?;
    ensure!(daemon.scrape()?.total("noised_context_switches_total") > 0.0, "nothing counted");
    let (status, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {stderr}");
    Ok(())
}

/// The programs send debug records at the level debug, and none at the level info. Tasks that wait for
/// the CPU while the programs are attached have waits without a start.
fn debug_records() -> Result<()> {
    let _hogs = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
    const DROP: &str = "runqueue_wait not counted: no_start";
    let daemon = Daemon::start_with(&["--log.level", "debug"])?;
    let is_logged = || Ok(daemon.process().stderr()?.contains(DROP));
    wait_until("a record of a drop", Duration::from_secs(20), is_logged)?;
    let (_, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(!stderr.contains('\u{1b}'), "colours in a file");
    let daemon = Daemon::start_with(&["--log.level", "info"])?;
    thread::sleep(Duration::from_secs(2));
    let (_, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(!stderr.contains(DROP), "debug records at the level info");
    Ok(())
}

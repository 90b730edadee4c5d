//! `cargo xtask bench`: what noised costs the work that it watches; `cargo xtask bench reading`: how fast it reads
//! traces.
//!
//! The measuring is done by `noise-bench` and `noise-reading` of the `noise-tests` package; this task builds
//! the one that is asked for optimised and becomes it, with the caller's arguments: the former as root.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo::{DAEMON, Workspace, named};
use crate::privilege::Privilege;
use crate::setup;

/// The first argument that asks for the reading of traces.
const READING: &str = "reading";

/// Builds the benchmark and becomes it.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    if let Some((first, arguments)) = arguments.split_first()
        && first == READING
    {
        return reading(workspace, arguments);
    }
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let bench = build(workspace, "noise-bench", "bench")?;
    let mut command = privilege.command(&bench, &[])?;
    command.args(arguments);
    become_it(command)
}

/// Needs no rights.
fn reading(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let noised = workspace.noised_to_try()?;
    let mut command = Command::new(build(workspace, "noise-reading", READING)?);
    command.args(arguments).env(DAEMON, noised);
    become_it(command)
}

fn build(workspace: &Workspace, name: &str, feature: &str) -> Result<PathBuf> {
    let package = ["--package", "noise-tests", "--bin", name, "--features", feature];
    named(workspace.build(&[&["build", "--release"], &package[..]].concat())?, name)
}

fn become_it(mut command: Command) -> Result<ExitCode> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

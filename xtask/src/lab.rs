//! `cargo xtask scenario`, `drill`, `soak` and `bench`: programs of the `noise-tests` package, built optimised, each of
//! which this process becomes, with the caller's arguments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::cargo::{DAEMON, Workspace, named};
use crate::privilege::Privilege;
use crate::run::become_it;
use crate::setup;

/// The first argument of `bench` that asks for the reading of traces.
const READING: &str = "reading";

/// Builds a program and the daemon that it starts, and becomes the former as root.
pub fn run(workspace: &Workspace, name: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let noised = workspace.noised_to_try()?;
    let program = build(workspace, name, &[])?;
    let mut command = privilege.command(&program, &[(DAEMON, noised.as_os_str())])?;
    command.args(arguments);
    become_it(command)
}

/// Builds the benchmark that is asked for, of what noised costs or of how fast it reads traces, and becomes it.
pub fn bench(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    if let Some((first, arguments)) = arguments.split_first()
        && first == READING
    {
        return reading(workspace, arguments);
    }
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let bench = build(workspace, "noise-bench", &["--features", "bench"])?;
    let mut command = privilege.command(&bench, &[])?;
    command.args(arguments);
    become_it(command)
}

/// Needs no rights.
fn reading(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let noised = workspace.noised_to_try()?;
    let reading = build(workspace, "noise-reading", &["--features", READING])?;
    let mut command = Command::new(reading);
    command.args(arguments).env(DAEMON, noised);
    become_it(command)
}

fn build(workspace: &Workspace, name: &str, features: &[&str]) -> Result<PathBuf> {
    let package = ["build", "--release", "--package", "noise-tests", "--bin", name];
    named(workspace.build(&[&package, features].concat())?, name)
}

//! `cargo xtask scenario`: planted culprits, and what noised says of them.
//!
//! The planting is done by `noise-scenario` of the `noise-tests` package; this task builds it and the
//! daemon optimised and becomes it, as root, with the caller's arguments.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cargo::{DAEMON, Workspace, named};
use crate::privilege::Privilege;
use crate::setup;

/// Builds the scenarios and the daemon, and becomes the former.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    become_program(workspace, "noise-scenario", arguments)
}

/// Builds a program of `noise-tests` and the daemon that it starts, and becomes the former as root.
pub fn become_program(
    workspace: &Workspace,
    name: &str,
    arguments: &[OsString],
) -> Result<ExitCode> {
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let noised = workspace.noised_to_try()?;
    let package = ["--package", "noise-tests", "--bin", name];
    let built = workspace.build(&[&["build", "--release"], &package[..]].concat())?;
    let program = named(built, name)?;
    let environment = [(DAEMON, noised.as_os_str())];
    let mut command = privilege.command(&program, &environment)?;
    let error = command.args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

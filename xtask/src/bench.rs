//! `cargo xtask bench`: what noised costs the work that it watches.
//!
//! The measuring is done by `noise-bench` of the `noise-tests` package; this task builds it
//! optimised and becomes it, as root, with the caller's arguments.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cargo::{Workspace, named};
use crate::privilege::Privilege;
use crate::setup;

/// Builds the benchmark and becomes it.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let built = workspace.build(&[
        "build",
        "--release",
        "--package",
        "noise-tests",
        "--bin",
        "noise-bench",
        "--features",
        "bench",
    ])?;
    let bench = named(built, "noise-bench")?;
    let mut command = privilege.command(&bench, &[])?;
    let error = command.args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

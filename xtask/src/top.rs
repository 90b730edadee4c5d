//! `cargo xtask top`: build noised and open its view as root, who may also measure without a daemon.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cargo::Workspace;
use crate::privilege::Privilege;
use crate::setup;

/// Builds, and becomes `noised top <arguments>`.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let noised = workspace.noised()?;
    let mut command = privilege.command(&noised, &[])?;
    let error = command.arg("top").args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

//! `cargo xtask soak`: noised under a mixed load for long, and what it holds meanwhile.
//!
//! The load and the table are made by `noise-soak` of the `noise-tests` package.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::Workspace;
use crate::scenario::become_program;

/// Builds the soak and the daemon, and becomes the former.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    become_program(workspace, "noise-soak", arguments)
}

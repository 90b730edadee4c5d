//! `cargo xtask drill`: what disturbs a service is planted, and what noised says of it is judged.
//!
//! The drills are those of `noise-drill` of the `noise-tests` package.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::Workspace;
use crate::scenario::become_program;

/// Builds the drills and the daemon, and becomes the former.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    become_program(workspace, "noise-drill", arguments)
}

//! Starting programs that load eBPF: as root, directly or through sudo.
//!
//! Everything is built as the caller; only the finished program runs with more rights.

use std::ffi::OsStr;
use std::fs;
use std::io::{IsTerminal, stdin};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Error, Result, anyhow};

use crate::cargo::on_path;

/// How this caller reaches root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Privilege {
    /// Already root.
    Root,
    /// Through sudo, which may ask for a password.
    Sudo,
    /// Not at all, for this reason.
    Missing(String),
}

impl Privilege {
    /// Looks at who runs this and whether sudo can be used.
    pub fn detect() -> Self {
        // The owner of /proc/self is the effective user of this process.
        if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            return Self::Root;
        }
        if on_path("sudo").is_none() {
            return Self::Missing("needs root, and there is no sudo on this machine".to_owned());
        }
        if stdin().is_terminal() || sudo_needs_no_password() {
            return Self::Sudo;
        }
        Self::Missing("needs root, and sudo would ask for a password without a terminal".to_owned())
    }

    /// As [`Self::detect`], but refuses a caller who cannot reach root: before a long build.
    pub fn demand() -> Result<Self> {
        match Self::detect() {
            Self::Missing(reason) => Err(refusal(&reason)),
            privilege => Ok(privilege),
        }
    }

    /// A command that starts `program` as root with these environment variables.
    pub fn command(&self, program: &Path, environment: &[(&str, &OsStr)]) -> Result<Command> {
        match self {
            Self::Root => {
                let mut command = Command::new(program);
                command.envs(environment.iter().copied());
                Ok(command)
            }
            Self::Sudo => {
                // sudo clears the environment; `env` sets it again without any sudoers rule.
                let mut command = Command::new("sudo");
                command.args(["--", "env"]);
                for (name, value) in environment {
                    let mut assignment = OsStr::new(name).to_os_string();
                    assignment.push("=");
                    assignment.push(value);
                    command.arg(assignment);
                }
                command.arg(program);
                Ok(command)
            }
            Self::Missing(reason) => Err(refusal(reason)),
        }
    }
}

fn refusal(reason: &str) -> Error {
    anyhow!("loading eBPF programs {reason}; run this task as root or set up sudo")
}

fn sudo_needs_no_password() -> bool {
    Command::new("sudo")
        .args(["-n", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::Privilege;

    #[test]
    fn sudo_is_given_the_environment_as_arguments() -> anyhow::Result<()> {
        let environment = [("NOISED_BIN", OsStr::new("/t/noised"))];
        let command = Privilege::Sudo.command(Path::new("/t/live"), &environment)?;
        assert_eq!(command.get_program(), "sudo");
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["--", "env", "NOISED_BIN=/t/noised", "/t/live"]);
        Ok(())
    }

    #[test]
    fn without_root_and_sudo_the_reason_is_reported() {
        let error = Privilege::Missing("needs root".to_owned()).command(Path::new("/t/live"), &[]);
        assert!(error.is_err_and(|error| error.to_string().contains("needs root")));
    }
}

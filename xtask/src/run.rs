//! `cargo xtask run` and `cargo xtask top`: build noised, and start it as root in the foreground, or its view as root,
//! who may also measure without a daemon.
//!
//! This process is replaced by noised (or by sudo, which relays signals), so that an interrupt from
//! the terminal, a signal from a supervisor and the exit code all pass without help.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo::Workspace;
use crate::privilege::Privilege;
use crate::setup;

/// Where noised listens by default.
const DEFAULT_ADDRESS: &str = "127.0.0.1:19435";
const ADDRESS_OPTION: &str = "--web.listen-address";

/// Builds, says where to look, and becomes `noised run <arguments>`.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let command = noised(workspace, "run", arguments)?;
    let address = reachable(&listen_address(arguments));
    eprintln!("noised: http://{address}/ for people, http://{address}/metrics for Prometheus");
    become_it(command)
}

/// Builds, and becomes `noised top <arguments>`.
pub fn top(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    become_it(noised(workspace, "top", arguments)?)
}

fn noised(workspace: &Workspace, what: &str, arguments: &[OsString]) -> Result<Command> {
    let privilege = Privilege::demand()?;
    setup::ensure(workspace)?;
    let mut command = privilege.command(&workspace.noised()?, &[])?;
    command.arg(what).args(arguments);
    Ok(command)
}

/// Puts a program in this process's place; returns where it cannot be started.
pub fn become_it(mut command: Command) -> Result<ExitCode> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// The listen address among noised's arguments, the last one given, or the default.
fn listen_address(arguments: &[OsString]) -> String {
    let mut address = DEFAULT_ADDRESS.to_owned();
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(ADDRESS_OPTION) {
            Some("") => {
                if let Some(value) = arguments.next() {
                    address = value.into_owned();
                }
            }
            Some(value) => {
                if let Some(value) = value.strip_prefix('=') {
                    address = value.to_owned();
                }
            }
            None => {}
        }
    }
    address
}

/// An address that a browser on this host can open: a wildcard listens on the loopback too.
fn reachable(address: &str) -> String {
    match address.rsplit_once(':') {
        Some(("" | "0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{DEFAULT_ADDRESS, listen_address, reachable};

    fn address_of(arguments: &[&str]) -> String {
        listen_address(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn both_spellings_of_the_option_are_read() {
        assert_eq!(address_of(&["--web.listen-address=[::1]:1"]), "[::1]:1");
        assert_eq!(address_of(&["--x", "--web.listen-address", "10.0.0.1:2"]), "10.0.0.1:2");
        assert_eq!(address_of(&["--web.listen-addresses=1"]), DEFAULT_ADDRESS);
        assert_eq!(address_of(&[]), DEFAULT_ADDRESS);
    }

    #[test]
    fn wildcards_are_shown_as_the_loopback() {
        assert_eq!(reachable(":9"), "127.0.0.1:9");
        assert_eq!(reachable("0.0.0.0:9"), "127.0.0.1:9");
        assert_eq!(reachable("[::]:9"), "[::1]:9");
        assert_eq!(reachable("10.0.0.1:9"), "10.0.0.1:9");
    }
}

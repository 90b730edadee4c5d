//! The programs of `noise-tests`: as root, against an optimised `noised`.

use std::ffi::OsStr;

use anyhow::Result;

use crate::cargo::{DAEMON, Executable, Workspace};
use crate::libtest::{Remark, Tally};
use crate::privilege::Privilege;
use crate::suite::{stream, tests_of};

/// Runs these programs of `noise-tests`, and adds what they say.
pub fn run(
    workspace: &Workspace,
    programs: &[Executable],
    filter: Option<&str>,
    tally: &mut Tally,
) -> Result<()> {
    let noised = workspace.noised_to_try()?;
    let privilege = Privilege::detect();
    for program in programs {
        tally.add(match &privilege {
            Privilege::Missing(reason) => unprivileged(program, filter, reason)?,
            Privilege::Root | Privilege::Sudo => {
                eprintln!("     Running {} as root", program.name);
                let environment = [
                    (DAEMON, noised.as_os_str()),
                    ("CARGO_MANIFEST_DIR", program.package.as_os_str()),
                ];
                start(&privilege, program, &environment, filter)?
            }
        });
    }
    Ok(())
}

fn start(
    privilege: &Privilege,
    program: &Executable,
    environment: &[(&str, &OsStr)],
    filter: Option<&str>,
) -> Result<Tally> {
    let mut command = privilege.command(&program.path, environment)?;
    command.current_dir(&program.package).args(filter);
    stream(command, &program.name)
}

/// The tests that would have run, as skipped.
fn unprivileged(program: &Executable, filter: Option<&str>, reason: &str) -> Result<Tally> {
    let skipped = tests_of(program, filter)?
        .into_iter()
        .map(|test| Remark { test, reason: reason.to_owned() })
        .collect();
    Ok(Tally { skipped, ..Tally::default() })
}

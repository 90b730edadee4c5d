//! What tests use beyond the build: the Debian packages of `tests/needed.txt`.
//!
//! As root on Debian, those that are missing are installed. Elsewhere, and where that fails, it is said which are
//! missing: tests that use them are skipped, each with its reason, and all others run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::on_path;
use crate::privilege::Privilege;

use self::list::{is_there, missing_packages};

#[path = "../../tests/src/needed/list.rs"]
mod list;

/// There on Debian and on what is made from it.
const DEBIAN: &str = "/etc/debian_version";
/// So long, seconds, apt-get waits for another that installs.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=120";

/// What is to be done about packages that are missing.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// There are none.
    Nothing,
    /// This command installs packages.
    Install(PathBuf),
    /// They stay away, for this reason.
    Leave(&'static str),
}

/// Brings in place what tests use and says what it does; silent when nothing is missing.
pub fn ensure(may_install: bool) {
    let packages: Vec<&str> = missing_packages(is_there).into_iter().collect();
    let apt = on_path("apt-get").filter(|_| Path::new(DEBIAN).exists());
    let is_root = Privilege::detect() == Privilege::Root;
    match plan(&packages, may_install, apt, is_root) {
        Plan::Nothing => {}
        Plan::Leave(reason) => eprintln!("{}", left(reason, &packages)),
        Plan::Install(apt) => {
            eprintln!(
                "setup: installing Debian packages that tests use (`test --no-install` leaves them out): {}",
                packages.join(" ")
            );
            if let Err(reason) = install(&apt, &packages) {
                let packages: Vec<&str> = missing_packages(is_there).into_iter().collect();
                eprintln!("{}", left(&reason, &packages));
            }
        }
    }
}

fn plan(packages: &[&str], may_install: bool, apt: Option<PathBuf>, is_root: bool) -> Plan {
    match apt {
        _ if packages.is_empty() => Plan::Nothing,
        _ if !may_install => Plan::Leave("--no-install was given"),
        None => Plan::Leave("this is not Debian"),
        Some(_) if !is_root => Plan::Leave("only root can install them"),
        Some(apt) => Plan::Install(apt),
    }
}

fn left(reason: &str, packages: &[&str]) -> String {
    format!(
        "setup: {reason}, so tests that use these Debian packages, or what they contain, will be skipped: {}",
        packages.join(" ")
    )
}

/// Installs packages, or says why it cannot.
fn install(apt: &Path, packages: &[&str]) -> Result<(), String> {
    let fetch = ["--no-install-recommends", "--yes", "install"];
    let steps = [vec!["update"], [&fetch, packages].concat()];
    for arguments in steps {
        let mut command = Command::new(apt);
        command.args(["--quiet=2", "-o", LOCK_TIMEOUT]).args(&arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        // What it prints is for a terminal; standard output is for results of tests.
        let status = command
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("apt-get does not start ({error})"))?;
        if !status.success() {
            return Err("apt-get failed (see above)".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_root_on_debian_installs_and_only_what_is_missing() {
        let apt = || Some(PathBuf::from("/usr/bin/apt-get"));
        assert_eq!(plan(&[], true, apt(), true), Plan::Nothing);
        assert_eq!(plan(&[], false, None, false), Plan::Nothing);
        assert_eq!(plan(&["tmux"], true, apt(), true), Plan::Install("/usr/bin/apt-get".into()));
        assert!(matches!(plan(&["tmux"], false, apt(), true), Plan::Leave(_)));
        assert!(matches!(plan(&["tmux"], true, None, true), Plan::Leave("this is not Debian")));
        assert!(matches!(plan(&["tmux"], true, apt(), false), Plan::Leave(_)));
    }

    #[test]
    fn what_is_left_out_is_named_with_what_follows() {
        let said = left("this is not Debian", &["rpm", "tmux"]);
        assert_eq!(
            said,
            "setup: this is not Debian, so tests that use these Debian packages, or what they \
             contain, will be skipped: rpm tmux"
        );
    }

    #[test]
    fn apt_is_asked_for_the_packages_alone_once_its_lists_are_fresh() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("xtask-needed-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let (apt, said) = (folder.join("apt-get"), folder.join("said"));
        let script = |end: &str| -> anyhow::Result<()> {
            fs::write(&apt, format!("#!/bin/sh\necho \"$@\" >>{}\n{end}\n", said.display()))?;
            fs::set_permissions(&apt, fs::Permissions::from_mode(0o755))?;
            Ok(())
        };
        script("exit 0")?;
        assert_eq!(install(&apt, &["rpm", "tmux"]), Ok(()));
        let lines = fs::read_to_string(&said)?;
        let ends: Vec<&str> = lines
            .lines()
            .filter_map(|line| line.split_once(LOCK_TIMEOUT))
            .map(|(_, rest)| rest.trim())
            .collect();
        assert_eq!(ends, ["update", "--no-install-recommends --yes install rpm tmux"]);
        // Without a network the first step fails, and there is no second.
        fs::remove_file(&said)?;
        script("exit 100")?;
        assert!(install(&apt, &["tmux"]).is_err_and(|error| error.contains("apt-get failed")));
        assert_eq!(fs::read_to_string(&said)?.lines().count(), 1);
        fs::remove_dir_all(&folder)?;
        assert!(install(&apt, &["tmux"]).is_err_and(|error| error.contains("does not start")));
        Ok(())
    }
}

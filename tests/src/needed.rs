//! Commands and files of this host that tests use, and how a machine without them gets all of them at once.
//!
//! The list is `needed.txt`, from which CI installs as well.

use std::collections::BTreeSet;
use std::env;

const LIST: &str = include_str!("../needed.txt");

/// Commands and files with their Debian packages.
fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' '))
}

/// Whether there is such a command, or such a file where it begins with a slash.
pub fn is_there(command: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

/// Why a test that uses these commands cannot run here, if one is missing: which, and what installs
/// that with all that other tests miss.
pub fn missing(commands: &[&str]) -> Option<String> {
    explained(commands, is_there)
}

fn explained(commands: &[&str], is_there: impl Fn(&str) -> bool) -> Option<String> {
    let first = commands.iter().find(|command| !is_there(command))?;
    let packages: BTreeSet<&str> =
        list().filter(|(command, _)| !is_there(command)).map(|(_, package)| package).collect();
    let packages = packages.into_iter().collect::<Vec<_>>().join(" ");
    Some(format!(
        "there is no {first}; all that is missing for tests comes with: apt-get install \
         --no-install-recommends {packages}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_installs_all_that_is_missing() {
        let is_there = |command: &str| !["rpm", "rpmbuild", "tmux"].contains(&command);
        assert_eq!(explained(&["tar", "curl"], is_there), None);
        assert_eq!(
            explained(&["tar", "rpm"], is_there).as_deref(),
            Some(
                "there is no rpm; all that is missing for tests comes with: apt-get install \
                 --no-install-recommends rpm tmux"
            )
        );
        assert!(explained(&["tmux"], is_there).unwrap().starts_with("there is no tmux; "));
    }

    #[test]
    fn every_line_names_a_command_and_a_package() {
        let lines = LIST.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(list().count(), lines.count());
        let commands: BTreeSet<&str> = list().map(|(command, _)| command).collect();
        assert_eq!(commands.len(), list().count(), "a command is there twice");
        let fits = |text: &str| {
            text.chars().all(|char| char.is_ascii_alphanumeric() || "-_.+/".contains(char))
        };
        assert!(list().all(|(command, package)| fits(command) && fits(package)));
    }

    #[test]
    fn ci_installs_from_this_list() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/run");
        let script = std::fs::read_to_string(script).unwrap();
        assert!(script.contains("<tests/needed.txt"), "{script}");
        assert!(!script.contains("mmdebstrap"), "a second list in .ci/run");
    }
}

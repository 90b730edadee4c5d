//! Commands and files of this host that tests use, and how a machine without them gets all of them at once.

use std::error::Error;
use std::fmt;

mod list;

pub use list::{is_there, missing_packages};

/// Why this machine cannot run a test, as an error: such a test has neither passed nor failed.
#[derive(Debug)]
pub struct Impossible(pub String);

impl fmt::Display for Impossible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Impossible {}

/// Requires these commands to be there.
pub fn needs(commands: &[&str]) -> Result<(), Impossible> {
    missing(commands).map_or(Ok(()), |reason| Err(Impossible(reason)))
}

/// Why a test that uses these commands cannot run here, if one is missing: which, and what installs
/// that with all that other tests miss.
pub fn missing(commands: &[&str]) -> Option<String> {
    explained(commands, is_there)
}

fn explained(commands: &[&str], is_there: impl Fn(&str) -> bool) -> Option<String> {
    let first = commands.iter().find(|command| !is_there(command))?;
    let packages = missing_packages(is_there).into_iter().collect::<Vec<_>>().join(" ");
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
}

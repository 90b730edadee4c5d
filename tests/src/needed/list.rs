//! The list `needed.txt`, and what of it this host lacks. The task that installs that includes this file by
//! its path.

use std::collections::BTreeSet;
use std::env;

const LIST: &str = include_str!("../../needed.txt");

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

/// The packages of what is not there, each once, in the order of their names.
pub fn missing_packages(is_there: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    list().filter(|(command, _)| !is_there(command)).map(|(_, package)| package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_package_of_several_commands_is_missing_once_and_comments_name_none() {
        let lacks = |names: &'static [&str]| {
            missing_packages(move |command| !names.contains(&command))
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(lacks(&[]), [""; 0]);
        assert_eq!(lacks(&["tmux", "rpm", "rpmbuild"]), ["rpm", "tmux"]);
        let of_python = "/usr/lib/python3/dist-packages/babeltrace/__init__.py";
        assert!(
            list()
                .any(|(command, package)| (command, package) == (of_python, "python3-babeltrace"))
        );
        let all = missing_packages(|_| false);
        assert!(all.contains("iproute2") && !all.iter().any(|package| package.contains('#')));
    }

    #[test]
    fn a_file_is_there_as_a_command_is() {
        assert!(is_there("sh") && is_there("/bin/sh"));
        assert!(!is_there("/bin") && !is_there("/nonexistent/sh") && !is_there("no-such-command"));
    }
}

//! PURE: commands that change a setting, by who makes the settings of a cgroup. Names are those that others chose:
//! what a shell would not take as it is stands between quotation marks.

use std::borrow::Cow;

use noise_model::cpulist::CpuList;
use noise_model::setup::{CgroupSetup, Manager};

/// Commands of one remedy.
pub const MOST: usize = 8;
/// Digits of a container's id that name it.
const SHORT_ID: usize = 12;

/// A setting in the ways that it can be made.
pub struct Change<'a> {
    /// As a property of a systemd unit.
    pub property: &'a str,
    /// As an option of `docker update`; `None` where there is none.
    pub flag: Option<String>,
    /// What to change in Kubernetes; empty where it has no such setting.
    pub words: &'a str,
    /// As a file: its folder, its name, what it is to hold.
    pub file: Option<(&'a String, String, String)>,
    /// The parent that has to hand down a controller first, where a file is written.
    pub hand_down: Option<(&'a String, &'static str)>,
}

impl Change<'_> {
    /// The commands that make it. A manager that sets files of cgroups gets its own command, which lasts.
    pub fn commands(&self, of: &CgroupSetup) -> Vec<String> {
        let short = |id: &str| id.get(..SHORT_ID).unwrap_or(id).to_owned();
        let engine = |engine: &str, id: &str| {
            self.flag.as_ref().map(|flag| format!("{engine} update {flag} {}", word(&short(id))))
        };
        let by_manager = match &of.manager {
            Manager::System(unit) => {
                Some(format!("systemctl set-property {} {}", argument(unit), word(self.property)))
            }
            Manager::User { unit, uid } => Some(format!(
                "sudo -u {} XDG_RUNTIME_DIR={} systemctl --user set-property {} {}",
                word(&format!("#{uid}")),
                word(&format!("/run/user/{uid}")),
                argument(unit),
                word(self.property)
            )),
            Manager::Docker(id) => engine("docker", id),
            Manager::Podman(id) => engine("podman", id),
            Manager::Kubernetes(name) if !self.words.is_empty() => {
                Some(format!("in the manifest of {name}: {}", self.words))
            }
            Manager::Kubernetes(_) | Manager::Files => None,
        };
        if let Some(command) = by_manager {
            return vec![command];
        }
        let Some((folder, name, value)) = &self.file else { return Vec::new() };
        let hand_down = self.hand_down.map(|(parent, controller)| {
            echo(&format!("+{controller}"), parent, "cgroup.subtree_control")
        });
        hand_down.into_iter().chain([echo(value, folder, name)]).collect()
    }
}

/// Writes a file.
pub fn echo(value: &str, folder: &str, name: &str) -> String {
    format!("echo {} > {}", word(value), word(&format!("{folder}/{name}")))
}

/// Moves all threads of a process.
pub fn taskset(to: &CpuList, pid: u32) -> String {
    format!("taskset --all-tasks --cpu-list --pid {to} {pid}")
}

/// A word of a shell.
fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.:@,=+%-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

/// One that does not begin an option.
fn argument(text: &str) -> String {
    let dashes = if text.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", word(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more_in_them() {
        for (text, expected) in [
            ("backup.service", "backup.service"),
            ("getty@tty1.service", "getty@tty1.service"),
            (r"my\x2dapp.service", r"'my\x2dapp.service'"),
            ("50000 100000", "'50000 100000'"),
            ("$(reboot)", "'$(reboot)'"),
            ("a'b", r"'a'\''b'"),
            ("a;b\n", "'a;b\n'"),
            ("#1000", "'#1000'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), expected);
        }
        assert_eq!(argument("-H.slice"), "-- -H.slice");
        let list = CpuList::from_iter([0, 2, 3]);
        assert_eq!(taskset(&list, 42), "taskset --all-tasks --cpu-list --pid 0,2,3 42");
    }
}

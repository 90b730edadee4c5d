//! PURE: commands that change a setting, by who makes the settings of a cgroup. Names are those that others chose:
//! what a shell would not take as it is stands between quotation marks.

use std::borrow::Cow;

use noise_model::setup::{CgroupSetup, Manager};
use noise_text::cpulist::CpuList;

/// Commands of one remedy.
pub const MOST: usize = 8;
/// Digits of a container's id that name it.
const SHORT_ID: usize = 12;

/// A value of a setting, in the ways that it can be made.
pub struct SettingValue {
    /// As a property of a systemd unit.
    pub property: String,
    /// As an option of `docker update`; `None` where there is none.
    pub flag: Option<String>,
    /// What the file is to hold.
    pub file: String,
}

/// A change of a setting.
pub struct Change<'a> {
    /// What it is to be.
    pub to: SettingValue,
    /// What it was; `None` where that is not known.
    pub back: Option<SettingValue>,
    /// What to change in the manifest of a pod; empty where it has no such setting.
    pub words: &'a str,
    /// The folder and the name of its file, where there is one.
    pub file: Option<(&'a String, &'static str)>,
}

/// Commands that make a change, and those that take it back.
#[derive(Default)]
pub struct Made {
    /// To be run in this order.
    pub commands: Vec<String>,
    /// Empty where what was before is not known.
    pub undo: Vec<String>,
    /// What to change instead where no command does it, a sentence: it is not known what else a manifest says.
    pub manifest: Option<String>,
}

impl Made {
    /// A change that only the manifest of a pod can make.
    pub fn in_manifest(pod: &str, words: &str) -> Self {
        let manifest = Some(format!("in the manifest of {pod}: {words}"));
        Self { manifest, ..Self::default() }
    }
}

impl Change<'_> {
    /// The commands that make it, and those that take it back. A manager of cgroups gets its own command, which lasts.
    pub fn made(&self, of: &CgroupSetup) -> Made {
        if let Manager::Kubernetes(pod) = &of.manager
            && !self.words.is_empty()
        {
            return Made::in_manifest(pod, self.words);
        }
        let commands = self.way(&self.to, of).into_iter().collect();
        let undo = self.back.as_ref().and_then(|back| self.way(back, of)).into_iter().collect();
        Made { commands, undo, manifest: None }
    }

    /// The command that does it: that of who manages the cgroup, or one that writes the file.
    fn way(&self, value: &SettingValue, of: &CgroupSetup) -> Option<String> {
        let short = |id: &str| id.get(..SHORT_ID).unwrap_or(id).to_owned();
        let engine = |engine: &str, id: &str| {
            value.flag.as_ref().map(|flag| format!("{engine} update {flag} {}", word(&short(id))))
        };
        let property = word(&value.property);
        let by_manager = match &of.manager {
            Manager::System(unit) => {
                Some(format!("systemctl set-property {} {property}", argument(unit)))
            }
            Manager::User { unit, uid } => Some(format!(
                "sudo -u {} XDG_RUNTIME_DIR={} systemctl --user set-property {} {property}",
                word(&format!("#{uid}")),
                word(&format!("/run/user/{uid}")),
                argument(unit),
            )),
            Manager::Docker(id) => engine("docker", id),
            Manager::Podman(id) => engine("podman", id),
            Manager::Kubernetes(_) | Manager::Files => None,
        };
        let by_file = || self.file.map(|(folder, name)| echo(&value.file, folder, name));
        by_manager.or_else(by_file)
    }
}

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
pub fn argument(text: &str) -> String {
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

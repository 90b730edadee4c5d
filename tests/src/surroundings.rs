//! What a test could leave behind on the machine, so that leaving it is a failure.
//!
//! Others use the machine too: a container that starts has interfaces, mounts and programs of its own.
//! Only what tests make is looked at, by the names that they give, and the places and kinds that they
//! use.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::bpf;
use crate::ftrace;
use crate::group::own_groups;
use crate::namespace::interfaces;

/// Settings that tests change, and the CPUs that are online.
const SETTINGS: [&str; 4] = [
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/kernel/unprivileged_bpf_disabled",
    "/sys/devices/system/cpu/online",
];
/// Where `ip` keeps the names of namespaces; it mounts the folder itself with the first of them.
const NAMESPACES: &str = "/run/netns";

/// Things on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// By description.
    found: BTreeSet<String>,
    /// The ids of all BPF programs.
    programs: BTreeSet<u32>,
}

/// How the names of this run's files, groups and namespaces begin.
fn own() -> String {
    format!("noised-test-{}", std::process::id())
}

/// Whether an interface has a name that tests give: `ntest123a`, `nt7b`, those of loads, the ends of a
/// cable.
fn is_of_tests(interface: &str) -> bool {
    let numbered =
        interface.strip_prefix("nt").map(|rest| rest.strip_prefix("est").unwrap_or(rest));
    let is_number = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    numbered.is_some_and(is_number)
        || interface.starts_with("churn-")
        || ["qa", "qb", "wire"].contains(&interface)
}

/// Whether a test could have mounted there: in its own folders, on what it hides from a daemon, over the
/// names of namespaces.
fn is_place_of_tests(point: &str, own: &str, home: Option<&str>) -> bool {
    point.contains(own)
        || point == NAMESPACES
        || point.starts_with("/sys/")
        || home.is_some_and(|home| home == point)
}

fn names(directory: &str) -> Result<Vec<String>> {
    fs::read_dir(directory)
        .with_context(|| format!("listing {directory}"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

impl Surroundings {
    /// Looks around.
    pub fn look() -> Result<Self> {
        let own = own();
        let mut found = BTreeSet::new();
        for thread in names("/proc/self/task")? {
            // A thread may have ended meanwhile.
            let children = format!("/proc/self/task/{thread}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            for child in children.split_whitespace() {
                let command =
                    fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
                found.insert(format!("process {child} {}", command.replace('\0', " ")));
            }
        }
        for disk in names("/sys/block")? {
            let backing = Path::new("/sys/block").join(&disk).join("loop/backing_file");
            let is_attached = fs::read_to_string(backing).is_ok_and(|file| file.contains(&own));
            if is_attached || disk.starts_with("zram") {
                found.insert(format!("device {disk}"));
            }
        }
        for interface in interfaces()? {
            if is_of_tests(&interface) {
                found.insert(format!("network interface {interface}"));
            }
        }
        let home = env::var("HOME").ok();
        for line in fs::read_to_string("/proc/self/mounts")?.lines() {
            let point = line.split(' ').nth(1).unwrap_or_default();
            if is_place_of_tests(point, &own, home.as_deref()) {
                found.insert(format!("mount {line}"));
            }
        }
        for file in names(&env::temp_dir().to_string_lossy())? {
            if file.starts_with(&own) {
                found.insert(format!("temporary file {file}"));
            }
        }
        for group in own_groups()? {
            found.insert(format!("cgroup {}", group.display()));
        }
        for instance in ftrace::own_instances()? {
            found.insert(format!("trace instance {instance}"));
        }
        for path in SETTINGS {
            // Not every kernel has each.
            if let Ok(value) = fs::read_to_string(path) {
                found.insert(format!("setting {path} {}", value.trim()));
            }
        }
        Ok(Self { found, programs: bpf::program_ids()? })
    }

    /// Compares with what there is now.
    /// Errors: if something is there that was not, or the other way round.
    pub fn ensure_unchanged(&self) -> Result<()> {
        let now = Self::look()?;
        let left: Vec<_> = now.found.difference(&self.found).collect();
        let gone: Vec<_> = self.found.difference(&now.found).collect();
        if !left.is_empty() || !gone.is_empty() {
            bail!("the test left behind {left:?} and took away {gone:?}")
        }
        bpf::ensure_none_left(&self.programs).context("after the test")
    }
}

#[cfg(test)]
mod tests {
    use super::{is_of_tests, is_place_of_tests};

    #[test]
    fn what_tests_make_is_distinguished_from_what_others_do() {
        for own in ["ntest4711a", "nt0a", "nt159b", "churn-a", "wire", "qb"] {
            assert!(is_of_tests(own), "{own}");
        }
        for other in ["eth0", "lo", "veth12ab", "docker0", "cali7", "ntfy", "nt"] {
            assert!(!is_of_tests(other), "{other}");
        }
        let place = |point| is_place_of_tests(point, "noised-test-7", Some("/root"));
        for own in ["/tmp/noised-test-7-full", "/run/netns/noised-test-7-near", "/run/netns"] {
            assert!(place(own), "{own}");
        }
        assert!(place("/sys/kernel/btf") && place("/root"));
        for other in ["/var/lib/docker/overlay2/1/merged", "/run/netns/cni-1", "/run/user/0"] {
            assert!(!place(other), "{other}");
        }
    }
}

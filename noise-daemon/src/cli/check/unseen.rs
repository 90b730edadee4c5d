//! IO: the disks and interfaces of this host of which some delays are not seen.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use noise_common::hooks::Hook;
use noise_common::signals::SIGNALS;
use noise_system::procfs;
use noise_text::clean::printable;

/// Names of what is there, in order.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Unseen {
    /// Disks that hand on what they get, without requests of their own.
    disks_without_requests: Vec<String>,
    /// Interfaces whose packets a kernel thread receives; those are seen.
    threaded_interfaces: Vec<String>,
    /// Interfaces whose packets come from a program.
    program_interfaces: Vec<String>,
}

/// The folders in a folder for which something holds, by their names.
fn those(folder: &Path, holds: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |name: &OsStr| printable(name.as_bytes());
    let mut names: Vec<String> = entries
        .filter(|entry| holds(&entry.path()))
        .map(|entry| name(&entry.file_name()))
        .collect();
    names.sort_unstable();
    names
}

fn number(path: &Path) -> u64 {
    procfs::text(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

impl Unseen {
    /// What there is below a sysfs root.
    pub fn of(sysfs: &Path) -> Self {
        let interfaces = sysfs.join("class/net");
        Self {
            // A disk whose driver queues requests has a folder for its queues; one of no size is not in use.
            disks_without_requests: those(&sysfs.join("block"), |disk| {
                !disk.join("mq").exists() && number(&disk.join("size")) > 0
            }),
            threaded_interfaces: those(&interfaces, |interface| {
                number(&interface.join("threaded")) > 0
            }),
            program_interfaces: those(&interfaces, |interface| {
                interface.join("tun_flags").exists()
            }),
        }
    }

    /// The lines of the page; empty where there is nothing to say.
    pub fn page(&self) -> String {
        let mut page = String::new();
        let (of_requests, of_packets) =
            (measured_by(Hook::BlockIssue), measured_by(Hook::NetReceive));
        for (names, what) in [
            (
                &self.disks_without_requests,
                format!("have no requests: {of_requests} are those of the disks below them"),
            ),
            (
                &self.program_interfaces,
                format!("get packets from a program: {of_packets} does not see these"),
            ),
            (
                &self.threaded_interfaces,
                format!("receive in NAPI threads: {of_packets} sees these"),
            ),
        ] {
            if !names.is_empty() {
                let _ = writeln!(page, "  {}: {what}", names.join(", "));
            }
        }
        page
    }
}

/// The signals that need a hook.
fn measured_by(hook: Hook) -> String {
    let signals = SIGNALS.iter().filter(|info| info.hooks.contains(&hook));
    signals.map(|info| info.name).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_without_requests_and_interfaces_are_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(Unseen::of(root.path()).page(), "");
        for (disk, size) in [("vda", "8\n"), ("zram0", "16\n"), ("zram1", "0\n"), ("dm-0", "8\n")] {
            write(&format!("block/{disk}/size"), size);
        }
        write("block/vda/mq/0/cpu_list", "0\n");
        for (interface, threaded) in [("eth0", "0\n"), ("wg0", "1\n"), ("tap1", "0\n")] {
            write(&format!("class/net/{interface}/threaded"), threaded);
        }
        write("class/net/tap1/tun_flags", "0x1002\n");
        let found = Unseen::of(root.path());
        assert_eq!(found.disks_without_requests, ["dm-0", "zram0"]);
        assert_eq!(found.threaded_interfaces, ["wg0"]);
        assert_eq!(found.program_interfaces, ["tap1"]);
        let page = found.page();
        for words in ["  dm-0, zram0: have no requests", "  tap1: get packets", "  wg0: receive in"]
        {
            assert!(page.contains(words), "{page}");
        }
    }
}

//! What of the host this process can name.

use std::fs;
use std::path::Path;

/// The pid namespace of the host (`PROC_PID_INIT_INO` of the kernel's `proc_ns.h`).
const HOST_PIDS: &str = "pid:[4026531836]";
/// The first kernel thread, from which all others come.
const FIRST_KERNEL_THREAD: u32 = 2;

/// Whether threads can be named by the numbers that the kernel has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    Whole,
    /// They have other numbers here.
    OwnPids,
    /// `/proc` hides those of other users.
    Hidden,
}

impl Sight {
    /// What this thread sees below a procfs root.
    pub fn of(procfs: &Path) -> Self {
        let pids = fs::read_link(procfs.join("self/ns/pid"));
        if pids.is_ok_and(|pids| pids != Path::new(HOST_PIDS)) {
            return Self::OwnPids;
        }
        let first = procfs.join(FIRST_KERNEL_THREAD.to_string()).join("comm");
        if first.exists() { Self::Whole } else { Self::Hidden }
    }

    /// What is missing, and what to do about it; `None` where nothing is.
    pub fn trouble(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::OwnPids => Some(
                "threads cannot be named from a pid namespace of its own, and count as ~gone: start \
                 noised with the host's pids",
            ),
            Self::Hidden => Some(
                "kernel threads cannot be named where /proc is mounted with hidepid, and count as \
                 ~gone: add gid= to its options, and noised to that group",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_seen_on_the_host_unless_hidden() {
        let root = tempfile::tempdir().unwrap();
        let namespaces = root.path().join("self/ns");
        fs::create_dir_all(&namespaces).unwrap();
        let own = namespaces.join("pid");
        std::os::unix::fs::symlink("pid:[4026532000]", &own).unwrap();
        assert_eq!(Sight::of(root.path()), Sight::OwnPids);
        fs::remove_file(&own).unwrap();
        std::os::unix::fs::symlink(HOST_PIDS, &own).unwrap();
        assert_eq!(Sight::of(root.path()), Sight::Hidden);
        fs::create_dir(root.path().join("2")).unwrap();
        fs::write(root.path().join("2/comm"), "kthreadd\n").unwrap();
        assert_eq!(Sight::of(root.path()), Sight::Whole);
        assert!(Sight::Whole.trouble().is_none());
        assert!(Sight::Hidden.trouble().unwrap().contains("hidepid"));
    }
}

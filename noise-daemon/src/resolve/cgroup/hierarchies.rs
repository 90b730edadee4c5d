//! IO: by which hierarchy the kernel side tells cgroups apart, and where each is mounted.

use std::path::{Path, PathBuf};

use super::Mounts;
use crate::procfs;

/// The hierarchies whose ids the kernel side reports, by what it reports them for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// Of tasks. `None` where no hierarchy is mounted.
    pub tasks: Option<PathBuf>,
    /// Of block requests.
    pub io: Option<PathBuf>,
    /// Of sockets.
    pub sockets: Option<PathBuf>,
    /// Whether tasks are told apart by version 1's `cpu` controller, not by version 2.
    pub by_cpu: bool,
}

impl Hierarchies {
    /// Those of this host.
    ///
    /// Version 2 is preferred. Where it is mounted beside hierarchies of version 1 and has no
    /// cgroup but its root, nobody uses it, and tasks are told apart by the `cpu` controller.
    pub fn of_host() -> Self {
        Self::below(Path::new("/proc"))
    }

    /// Those that the mounts of this process below a procfs root show.
    fn below(procfs: &Path) -> Self {
        let mounts = procfs::bytes(procfs.join("self/mountinfo")).unwrap_or_default();
        Self::of(&Mounts::parse(mounts))
    }

    /// Those behind mount points.
    pub fn of(mounts: &Mounts) -> Self {
        let unified_used = mounts.unified.as_deref().is_some_and(has_children);
        let by_cpu = mounts.cpu.is_some() && !unified_used;
        let tasks = if by_cpu { &mounts.cpu } else { &mounts.unified };
        Self {
            tasks: tasks.clone(),
            io: mounts.blkio.clone().or_else(|| mounts.unified.clone()),
            sockets: mounts.unified.clone(),
            by_cpu,
        }
    }

    /// What cgroups are counted of, and whether there is a hierarchy that names them.
    pub fn found(&self) -> [(&'static str, bool); 3] {
        let found = [("tasks", &self.tasks), ("requests", &self.io), ("sockets", &self.sockets)];
        found.map(|(kind, root)| (kind, root.is_some()))
    }

    /// What is missing, and what to do about it; `None` where nothing is.
    pub fn trouble(&self) -> Option<String> {
        let missing = self.missing();
        (!missing.is_empty()).then(|| {
            format!(
                "no cgroup hierarchy was found for {}: their cgroups cannot be named, and count as \
                 ~gone; mount cgroup2 on /sys/fs/cgroup where noised runs, and start it again",
                missing.join(", ")
            )
        })
    }

    /// What has no hierarchy.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.found().into_iter().filter(|(_, is_found)| !is_found);
        missing.map(|(kind, _)| kind).collect()
    }
}

fn has_children(root: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(root) else { return false };
    entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_version_2_gives_way_to_the_cpu_controller() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("unified")).unwrap();
        let text = format!(
            "31 24 0:27 / {0}/unified rw - cgroup2 cgroup2 rw\n\
             32 24 0:28 / {0}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             33 24 0:29 / {0}/blkio rw - cgroup cgroup rw,blkio\n",
            root.path().display()
        );
        let mounts = Mounts::parse(&text);
        let unused = Hierarchies::of(&mounts);
        assert_eq!(unused.tasks, Some(path("cpu")));
        assert_eq!(unused.io, Some(path("blkio")));
        assert_eq!(unused.sockets, Some(path("unified")));
        assert!(unused.by_cpu);

        std::fs::create_dir_all(path("unified/system.slice")).unwrap();
        let used = Hierarchies::of(&mounts);
        assert_eq!(used.tasks, Some(path("unified")));
        assert!(!used.by_cpu);
        assert_eq!(Hierarchies::of(&Mounts::default()), Hierarchies::default());
    }

    #[test]
    fn a_mount_point_that_is_no_text_hides_no_hierarchy() {
        let procfs = tempfile::tempdir().unwrap();
        std::fs::create_dir(procfs.path().join("self")).unwrap();
        let mounts = b"21 22 0:9 / /mnt/\xff rw - tmpfs tmpfs rw\n\
                       9 1 0:26 / /cgroup rw - cgroup2 cgroup2 rw\n";
        std::fs::write(procfs.path().join("self/mountinfo"), mounts).unwrap();
        let found = Hierarchies::below(procfs.path());
        assert_eq!(found.tasks.as_deref(), Some(Path::new("/cgroup")));
        assert_eq!(found.trouble(), None);
        let nothing = Hierarchies::below(Path::new("/nonexistent"));
        assert_eq!(nothing, Hierarchies::default());
        assert!(nothing.trouble().unwrap().contains("for tasks, requests, sockets: "));
    }
}

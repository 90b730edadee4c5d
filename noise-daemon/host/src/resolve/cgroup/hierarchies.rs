//! IO: the hierarchies whose cgroups the kernel side counts by, and where each is mounted.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use noise_system::procfs;
use noise_text::clean::printable;
use serde::Serialize;

use super::Mounts;

/// The hierarchies whose ids the kernel side reports, by what it reports them for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// Of tasks. `None` where no hierarchy is mounted.
    pub tasks: Option<PathBuf>,
    /// Of tasks whose ids are marked with [`noise_common::charge::UNIFIED_CGROUP`]: version 2, where
    /// [`Hierarchies::tasks`] is the `cpu` controller's. `None` where one hierarchy has all tasks.
    pub unified_tasks: Option<PathBuf>,
    pub io: Option<PathBuf>,
    pub sockets: Option<PathBuf>,
    /// Whether [`Hierarchies::tasks`] is that of version 1's `cpu` controller, not version 2.
    pub by_cpu: bool,
}

/// A hierarchy that counts, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Version of cgroups: 1 or 2.
    pub version: u8,
    /// Its mount point, with `\xNN` for each byte that could garble a terminal.
    pub mount: String,
}

/// What [`Hierarchies`] mean, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Those whose cgroups tasks count for: of two, the second has those in the root of the first.
    pub tasks: Vec<Counted>,
    /// The one whose cgroups block requests count for.
    pub requests: Option<Counted>,
    /// The one whose cgroups sockets count for.
    pub sockets: Option<Counted>,
    /// Why tasks count like that.
    pub why: &'static str,
}

impl Mounts {
    /// Those that this process sees.
    pub fn of_process() -> Self {
        Self::below(Path::new("/proc"))
    }

    /// Those that it sees by a procfs at this root.
    fn below(procfs: &Path) -> Self {
        Self::parse(procfs::bytes(procfs.join("self/mountinfo")).unwrap_or_default())
    }
}

impl Hierarchies {
    /// Those of this host.
    ///
    /// Version 2 is preferred. Where version 1's `cpu` controller is mounted beside it, both count:
    /// a task counts for its cgroup of version 2, and in the root of that for its cgroup of the
    /// controller. So it does not matter which of them has cgroups, and when they are made.
    pub fn of_host() -> Self {
        Self::of(&Mounts::of_process())
    }

    /// Those behind mount points.
    pub fn of(mounts: &Mounts) -> Self {
        let by_cpu = mounts.cpu.is_some();
        Self {
            tasks: mounts.cpu.clone().or_else(|| mounts.unified.clone()),
            unified_tasks: mounts.unified.clone().filter(|_| by_cpu),
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

    /// The mount points of the hierarchies that tasks count by, the one that goes first at the front.
    pub fn of_tasks(&self) -> impl Iterator<Item = &PathBuf> {
        self.unified_tasks.iter().chain(&self.tasks)
    }

    /// All mount points that are used.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.of_tasks().chain(&self.io).chain(&self.sockets)
    }

    /// Which hierarchy counts for what, and why.
    pub fn explained(&self) -> Explained {
        let counted = |mount: &PathBuf| Counted {
            version: if self.sockets.as_ref() == Some(mount) { 2 } else { 1 },
            mount: printable(mount.as_os_str().as_bytes()),
        };
        let why = match (&self.tasks, &self.unified_tasks) {
            (None, _) => "no cgroup hierarchy is mounted here",
            (Some(_), Some(_)) => {
                "a task counts for its cgroup of v2; one in the root of v2 counts for its cgroup of \
                 v1's cpu controller"
            }
            (Some(_), None) if self.by_cpu => "v2 is not mounted here",
            (Some(_), None) => "v1's cpu controller is not mounted here",
        };
        Explained {
            tasks: self.of_tasks().map(counted).collect(),
            requests: self.io.as_ref().map(counted),
            sockets: self.sockets.as_ref().map(counted),
            why,
        }
    }
}

impl std::fmt::Display for Counted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (v{})", self.mount, self.version)
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = |counted: &Option<Counted>| {
            counted.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
        };
        let tasks: Vec<String> = self.tasks.iter().map(ToString::to_string).collect();
        let tasks = if tasks.is_empty() { "none".to_owned() } else { tasks.join(", then ") };
        let (requests, sockets) = (one(&self.requests), one(&self.sockets));
        writeln!(formatter, "tasks by {tasks}: {}", self.why)?;
        write!(formatter, "block requests by {requests}, sockets by {sockets}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "31 24 0:27 / /cg/unified rw - cgroup2 cgroup2 rw\n";
    const CPU: &str = "32 24 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
    const BLKIO: &str = "33 24 0:29 / /cg/blkio rw - cgroup cgroup rw,blkio\n";

    fn of(lines: &[&str]) -> Hierarchies {
        Hierarchies::of(&Mounts::parse(lines.concat()))
    }

    #[test]
    fn a_hybrid_host_has_two_hierarchies_of_tasks_whoever_uses_them() {
        let hybrid = of(&[UNIFIED, CPU, BLKIO]);
        assert_eq!(hybrid.tasks, Some("/cg/cpu".into()));
        assert_eq!(hybrid.unified_tasks, Some("/cg/unified".into()));
        assert_eq!(hybrid.io, Some("/cg/blkio".into()));
        assert_eq!(hybrid.sockets, Some("/cg/unified".into()));
        assert!(hybrid.by_cpu);
        let explained = hybrid.explained();
        assert_eq!(
            explained.to_string(),
            "tasks by /cg/unified (v2), then /cg/cpu (v1): a task counts for its cgroup of v2; one \
             in the root of v2 counts for its cgroup of v1's cpu controller\n\
             block requests by /cg/blkio (v1), sockets by /cg/unified (v2)"
        );
    }

    #[test]
    fn one_hierarchy_has_all_tasks_where_there_is_but_one() {
        let unified = of(&[UNIFIED]);
        assert_eq!(unified.tasks, Some("/cg/unified".into()));
        assert_eq!((unified.unified_tasks.as_ref(), unified.by_cpu), (None, false));
        assert_eq!(
            unified.explained().to_string(),
            "tasks by /cg/unified (v2): v1's cpu controller is not mounted here\n\
             block requests by /cg/unified (v2), sockets by /cg/unified (v2)"
        );
        let old = of(&[CPU]);
        assert_eq!(old.tasks, Some("/cg/cpu".into()));
        assert_eq!((old.unified_tasks.as_ref(), old.by_cpu), (None, true));
        assert_eq!(
            old.explained().to_string(),
            "tasks by /cg/cpu (v1): v2 is not mounted here\n\
             block requests by none, sockets by none"
        );
    }

    #[test]
    fn a_host_without_hierarchies_says_so() {
        assert_eq!(of(&[]), Hierarchies::default());
        let none = Hierarchies::default();
        assert_eq!(none.explained().why, "no cgroup hierarchy is mounted here");
        let json = serde_json::to_value(of(&[UNIFIED]).explained()).unwrap();
        assert_eq!(json["tasks"][0]["version"], 2);
        assert_eq!(json["requests"]["mount"], "/cg/unified");
    }

    #[test]
    fn a_mount_point_that_is_no_text_hides_no_hierarchy() {
        let procfs = tempfile::tempdir().unwrap();
        std::fs::create_dir(procfs.path().join("self")).unwrap();
        let mounts = b"21 22 0:9 / /mnt/\xff rw - tmpfs tmpfs rw\n\
                       9 1 0:26 / /cgroup rw - cgroup2 cgroup2 rw\n";
        std::fs::write(procfs.path().join("self/mountinfo"), mounts).unwrap();
        let found = Hierarchies::of(&Mounts::below(procfs.path()));
        assert_eq!(found.tasks.as_deref(), Some(Path::new("/cgroup")));
        assert_eq!(found.trouble(), None);
        let nothing = Hierarchies::of(&Mounts::below(Path::new("/nonexistent")));
        assert_eq!(nothing, Hierarchies::default());
        assert!(nothing.trouble().unwrap().contains("for tasks, requests, sockets: "));
    }
}

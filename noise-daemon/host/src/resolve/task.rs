//! IO: which cgroup a thread counts for, by its id, as the programs would say.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use noise_common::charge::{ROOT_CGROUP, UNIFIED_CGROUP};
use noise_system::procfs;

use super::cgroup::Hierarchies;

/// What a thread counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSubject {
    /// Itself: it is a kernel thread.
    Kernel,
    /// The cgroup of this id.
    Of(u64),
}

/// What the thread of an id counts for; `None` where it is gone, or its cgroup cannot be seen.
pub fn task(procfs: &Path, hierarchies: &Hierarchies, tid: u32) -> Option<TaskSubject> {
    let folder = procfs.join(tid.to_string());
    if procfs::is_kernel_thread(&procfs::bytes(folder.join("stat")).ok()?)? {
        return Some(TaskSubject::Kernel);
    }
    let cgroups = procfs::bytes(folder.join("cgroup")).ok()?;
    let unified = |root: &Path| id(root, procfs::cgroup_path(&cgroups, <[u8]>::is_empty)?);
    let Hierarchies { tasks, unified_tasks, by_cpu, .. } = hierarchies;
    if let Some(root) = unified_tasks {
        let own = unified(root)?;
        if own > ROOT_CGROUP {
            return Some(TaskSubject::Of(own | UNIFIED_CGROUP));
        }
    }
    let root = tasks.as_deref()?;
    let own = if *by_cpu {
        id(root, procfs::cgroup_path(&cgroups, procfs::has_cpu)?)
    } else {
        unified(root)
    };
    own.map(TaskSubject::Of)
}

/// The id of a cgroup is the number of its folder. One outside of what is mounted cannot be seen.
fn id(root: &Path, path: &[u8]) -> Option<u64> {
    let below = Path::new(OsStr::from_bytes(path)).strip_prefix("/").ok()?;
    let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| root.join(below).metadata().ok()).flatten().map(|folder| folder.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "7 (a) b) S 1 7 7 0 -1 4194304 1 0";
    const KERNEL: &str = "7 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0";

    fn thread(root: &Path, stat: &str, cgroup: &str) {
        std::fs::create_dir_all(root.join("7")).unwrap();
        std::fs::write(root.join("7/stat"), stat).unwrap();
        std::fs::write(root.join("7/cgroup"), cgroup).unwrap();
    }

    fn folder(path: &Path) -> u64 {
        std::fs::create_dir_all(path).unwrap();
        path.metadata().unwrap().ino()
    }

    #[test]
    fn a_thread_counts_as_the_programs_say() {
        let root = tempfile::tempdir().unwrap();
        let (v2, cpu) = (root.path().join("v2"), root.path().join("cpu"));
        let ids = (folder(&v2.join("a")), folder(&cpu.join("b c")));
        let of = |hierarchies: &Hierarchies| task(root.path(), hierarchies, 7);
        let alone = Hierarchies { tasks: Some(v2.clone()), ..Hierarchies::default() };
        let by_cpu = Hierarchies { tasks: Some(cpu), by_cpu: true, ..Hierarchies::default() };
        let both = Hierarchies { unified_tasks: Some(v2), ..by_cpu.clone() };
        assert_eq!(of(&alone), None);
        thread(root.path(), USER, "3:cpuset:/x\n2:cpuacct,cpu:/b c\n0::/a\n");
        assert_eq!(of(&alone), Some(TaskSubject::Of(ids.0)));
        assert_eq!(of(&by_cpu), Some(TaskSubject::Of(ids.1)));
        assert_eq!(of(&both), Some(TaskSubject::Of(ids.0 | UNIFIED_CGROUP)));
        thread(root.path(), USER, "2:cpu:/b c\n0::/../a\n");
        assert_eq!((of(&alone), of(&by_cpu)), (None, Some(TaskSubject::Of(ids.1))));
        thread(root.path(), USER, "0::/gone\n");
        assert_eq!(of(&alone), None);
        thread(root.path(), KERNEL, "0::/\n");
        assert_eq!(of(&both), Some(TaskSubject::Kernel));
        for nonsense in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 x"] {
            thread(root.path(), nonsense, "0::/a\n");
            assert_eq!(of(&alone), None, "{nonsense}");
        }
    }

    #[test]
    fn this_very_thread_is_no_kernel_thread() {
        let hierarchies = Hierarchies::of_host();
        let own = task(Path::new("/proc"), &hierarchies, std::process::id());
        assert_ne!(own, Some(TaskSubject::Kernel));
        assert_eq!(task(Path::new("/proc"), &hierarchies, u32::MAX), None);
    }
}

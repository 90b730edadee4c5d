//! IO: a task or cgroup on this host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use noise_host::resolve::cgroup::{Hierarchies, Identity, NodeNames};
use noise_model::labels::WATCHED_LABEL;
use noise_system::procfs;
use noise_text::clean::clean;

/// Whose time is accounted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A process with all its threads, or one thread.
    Task {
        /// Its pid, or the thread's.
        pid: u32,
        name: String,
        /// Whether it is one thread of a process of several.
        is_thread: bool,
    },
    /// A cgroup with all below it.
    Cgroup {
        folder: PathBuf,
        /// The mount point of its hierarchy.
        root: PathBuf,
        /// Folder and mount point of its namesake in another hierarchy, which has tasks as well.
        beside: Option<(PathBuf, PathBuf)>,
    },
}

/// Why there is no subject to account for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// There is no such task.
    #[error("there is no process or thread {0}")]
    NoTask(u32),
    /// There is no such cgroup.
    #[error(
        "there is no cgroup {path} (tasks are identified by the hierarchy at {root}): give a path \
         below it"
    )]
    NoCgroup {
        /// The path that was given.
        path: String,
        root: String,
    },
    /// There are no cgroups.
    #[error("this host has no cgroup hierarchy")]
    NoHierarchy,
}

/// CPU time so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// As the kernel has it, ns.
    Known(u64),
    /// The kernel does not say.
    Unknown,
}

impl Subject {
    /// A process, by its pid, or a thread.
    /// Errors: where there is none.
    pub fn task(pid: u32) -> Result<Self, SubjectError> {
        let gone = |_| SubjectError::NoTask(pid);
        let status = procfs::text(format!("/proc/{pid}/status")).map_err(gone)?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim().to_owned()).unwrap_or_default()
        };
        let is_thread = field("Tgid:") != pid.to_string();
        Ok(Self::Task { pid, name: field("Name:"), is_thread })
    }

    /// A cgroup, by its path in the hierarchy that identifies tasks, or from the root of the file system.
    /// Errors: where there is none.
    pub fn cgroup(path: &Path) -> Result<Self, SubjectError> {
        let roots: Vec<PathBuf> = Hierarchies::of_host().of_tasks().cloned().collect();
        Self::below(path, &roots)
    }

    /// In the first of these hierarchies that has it.
    fn below(path: &Path, roots: &[PathBuf]) -> Result<Self, SubjectError> {
        if roots.is_empty() {
            return Err(SubjectError::NoHierarchy);
        }
        let inside = roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        let inside = inside.strip_prefix("/").unwrap_or(inside);
        let mut found = roots
            .iter()
            .map(|root| (root.join(inside), root.clone()))
            .filter(|(folder, _)| folder.join("cgroup.procs").exists());
        if let Some((folder, root)) = found.next() {
            return Ok(Self::Cgroup { folder, root, beside: found.next() });
        }
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        let path = path.display().to_string();
        Err(SubjectError::NoCgroup { path, root: roots.join(" and at ") })
    }

    /// The pid that the programs watch apart from its cgroup.
    pub const fn watched(&self) -> Option<u32> {
        match self {
            Self::Task { pid, .. } => Some(*pid),
            Self::Cgroup { .. } => None,
        }
    }

    /// The labels under which its delays are charged.
    pub fn labels(&self) -> BTreeSet<String> {
        match self {
            Self::Task { .. } => BTreeSet::from([WATCHED_LABEL.to_owned()]),
            Self::Cgroup { folder, root, beside } => {
                let (mut labels, mut nodes) = (BTreeSet::new(), NodeNames::of_host());
                collect(folder, root, &mut nodes, &mut labels);
                if let Some((folder, root)) = beside {
                    collect(folder, root, &mut nodes, &mut labels);
                }
                labels
            }
        }
    }

    /// Its name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Task { pid, name, is_thread } => {
                let kind = if *is_thread { "thread" } else { "process" };
                format!("{kind} {}:{pid}", clean(name))
            }
            Self::Cgroup { folder, root, .. } => {
                let path = folder.strip_prefix(root).unwrap_or(folder);
                format!("cgroup /{}", clean(&path.display().to_string()))
            }
        }
    }

    /// Whether it is still there.
    pub fn exists(&self) -> bool {
        match self {
            Self::Task { pid, .. } => Path::new(&format!("/proc/{pid}")).exists(),
            Self::Cgroup { folder, .. } => folder.exists(),
        }
    }

    /// The CPU time that it has had.
    pub fn usage(&self) -> Usage {
        let known = match self {
            Self::Task { pid, is_thread, .. } => task_usage(*pid, *is_thread),
            Self::Cgroup { folder, root, .. } => cgroup_usage(folder, root),
        };
        known.map_or(Usage::Unknown, Usage::Known)
    }
}

/// The labels of a cgroup and of those below it, the shallow ones first: with names of pods and containers, and
/// without, as a daemon may have either.
fn collect(folder: &Path, root: &Path, nodes: &mut NodeNames, labels: &mut BTreeSet<String>) {
    /// Cgroups that are accounted for at most.
    const MOST: usize = 10_000;
    // As samples have them.
    let path = folder.strip_prefix(root).unwrap_or(folder);
    for identity in [Identity::of(path), nodes.identity(path, Instant::now())] {
        labels.insert(clean(&identity.label).into_owned());
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if labels.len() < MOST {
            collect(&entry.path(), root, nodes, labels);
        }
    }
}

fn task_usage(pid: u32, is_thread: bool) -> Option<u64> {
    if is_thread {
        let text = procfs::text(format!("/proc/{pid}/schedstat")).ok()?;
        return text.split_whitespace().next()?.parse().ok();
    }
    // The process' own clock counts threads that have ended as well.
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    let time = clock.now().ok()?;
    u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).ok()
}

/// From version 2's `cpu.stat`, or version 1's `cpuacct.usage`, here or in a hierarchy beside.
fn cgroup_usage(folder: &Path, root: &Path) -> Option<u64> {
    let version_2 = procfs::text(folder.join("cpu.stat")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(line.trim().parse::<u64>().ok()? * 1_000)
    });
    let beside = || {
        let path = folder.strip_prefix(root).ok()?;
        Some(root.parent()?.join("cpuacct").join(path).join("cpuacct.usage"))
    };
    version_2.or_else(|| {
        let own = procfs::text(folder.join("cpuacct.usage")).ok();
        own.or_else(|| procfs::text(beside()?).ok())?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_another_is_not() {
        let own = std::process::id();
        let subject = Subject::task(own).unwrap();
        assert_eq!(subject.watched(), Some(own));
        assert!(subject.exists());
        assert!(matches!(subject.usage(), Usage::Known(1..)));
        assert!(matches!(subject, Subject::Task { is_thread: false, .. }));
        assert_eq!(Subject::task(u32::MAX), Err(SubjectError::NoTask(u32::MAX)));
        std::thread::spawn(move || {
            // SAFETY: no preconditions.
            let thread = unsafe { libc::gettid() }.cast_unsigned();
            let subject = Subject::task(thread).unwrap();
            assert!(matches!(subject, Subject::Task { is_thread: true, .. }));
            assert!(matches!(subject.usage(), Usage::Known(_)));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_task_whose_name_is_no_text_is_found() {
        let found = std::thread::spawn(|| {
            nix::sys::prctl::set_name(c"a\xff\xc3b").unwrap();
            // SAFETY: no preconditions.
            Subject::task(unsafe { libc::gettid() }.cast_unsigned()).unwrap()
        });
        let name = found.join().unwrap().name();
        assert!(name.starts_with(r"thread a\xff\xc3b:"), "{name}");
    }

    #[test]
    fn a_cgroup_is_given_by_its_path_with_or_without_the_mount_point() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("cpu");
        for folder in ["", "a", "a/b"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("cgroup.procs"), "").unwrap();
        }
        std::fs::create_dir_all(host.path().join("cpuacct/a")).unwrap();
        std::fs::write(host.path().join("cpuacct/a/cpuacct.usage"), "77\n").unwrap();
        for path in ["a", "/a", root.join("a").to_str().unwrap()] {
            let subject = Subject::below(Path::new(path), std::slice::from_ref(&root)).unwrap();
            assert_eq!(subject.name(), "cgroup /a");
            assert_eq!(subject.labels(), BTreeSet::from(["/a".to_owned(), "/a/b".to_owned()]));
            assert_eq!(subject.usage(), Usage::Known(77));
            assert_eq!(subject.watched(), None);
        }
        let error = Subject::below(Path::new("/c"), std::slice::from_ref(&root)).unwrap_err();
        assert!(error.to_string().starts_with("there is no cgroup /c "), "{error}");
        std::fs::write(root.join("a/b/cpu.stat"), "usage_usec 5\nuser_usec 3\n").unwrap();
        let deeper = Subject::below(Path::new("a/b"), &[root]).unwrap();
        assert_eq!(deeper.usage(), Usage::Known(5_000));
    }
    #[test]
    fn a_cgroup_is_looked_for_in_every_hierarchy_that_has_tasks() {
        let host = tempfile::tempdir().unwrap();
        let roots = ["unified", "cpu"].map(|name| host.path().join(name));
        for folder in ["unified/a", "unified/a/new", "cpu/a", "cpu/a/old", "cpu/b"] {
            std::fs::create_dir_all(host.path().join(folder)).unwrap();
            std::fs::write(host.path().join(folder).join("cgroup.procs"), "").unwrap();
        }
        let of = |path: &Path| Subject::below(path, &roots).unwrap();
        let both = of(Path::new("/a"));
        let labels = ["/a", "/a/new", "/a/old"].map(str::to_owned);
        assert_eq!((both.name().as_str(), both.labels()), ("cgroup /a", labels.into()));
        // However it is given.
        assert_eq!(of(&roots[1].join("a")), both);
        assert_eq!(of(Path::new("b")).labels(), BTreeSet::from(["/b".to_owned()]));
        let error = Subject::below(Path::new("c"), &roots).unwrap_err().to_string();
        assert!(error.contains("unified and at "), "{error}");
        assert_eq!(Subject::below(Path::new("c"), &[]), Err(SubjectError::NoHierarchy));
    }
}

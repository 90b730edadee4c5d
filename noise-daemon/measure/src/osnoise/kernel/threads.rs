//! IO: the tracer's threads, as procfs shows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use noise_system::procfs;
use noise_text::cpulist::CpuList;

use super::error::TracerError;

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// The pid of each CPU's measuring thread.
/// Errors: where one is not to be seen.
pub fn find(procfs: &Path, cpus: &CpuList) -> Result<BTreeMap<u32, u32>, TracerError> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(procfs).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes end while they are looked at.
        let Ok(stat) = procfs::text(entry.path().join("stat")) else { continue };
        if let Some(cpu) = measured(&stat) {
            threads.insert(cpu, pid);
        }
    }
    match cpus.iter().find(|cpu| !threads.contains_key(cpu)) {
        Some(cpu) => Err(TracerError::NoThread(cpu)),
        None => Ok(threads),
    }
}

/// The CPU of one of the tracer's threads; others can have the name, but not the parent.
fn measured(stat: &str) -> Option<u32> {
    let (before, behind) = stat.rsplit_once(") ")?;
    let (_, name) = before.split_once(" (")?;
    let parent: u32 = behind.split_ascii_whitespace().nth(1)?.parse().ok()?;
    name.strip_prefix("osnoise/")?.parse().ok().filter(|_| parent == KTHREADD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_threads_are_found() {
        let root = tempfile::tempdir().unwrap();
        for (pid, stat) in [
            ("207", "207 (osnoise/1) R 2 0 0 0 -1 2138176 0"),
            ("300", "300 (osnoise/0) S 1 300 300 0 -1 4194560 90"),
            ("301", "301 (a) (osnoise/3) S 2 0 0 0"),
            ("2", "2 (kthreadd) S 0 0 0 0 -1"),
        ] {
            fs::create_dir(root.path().join(pid)).unwrap();
            fs::write(root.path().join(pid).join("stat"), stat).unwrap();
        }
        fs::create_dir(root.path().join("sys")).unwrap();
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        assert_eq!(find(root.path(), &list("1")).unwrap(), BTreeMap::from([(1, 207)]));
        let error = find(root.path(), &list("0,1")).unwrap_err();
        assert!(matches!(error, TracerError::NoThread(0)), "{error}");
    }
}

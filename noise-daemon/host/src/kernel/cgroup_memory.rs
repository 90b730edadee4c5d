//! How much memory the cgroups of this process leave it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use noise_system::procfs;

/// Files of one version of cgroups.
struct MemoryFiles {
    limit: &'static str,
    usage: &'static str,
    /// What the kernel takes back when there is need: pages of files.
    reclaimed: &'static [&'static str],
}

const V1: MemoryFiles = MemoryFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    // With all groups below, as the usage is.
    reclaimed: &["total_inactive_file", "total_active_file"],
};
const V2: MemoryFiles = MemoryFiles {
    limit: "memory.max",
    usage: "memory.current",
    reclaimed: &["inactive_file", "active_file", "slab_reclaimable"],
};

fn number(folder: &Path, file: &str) -> Option<u64> {
    procfs::text(folder.join(file)).ok()?.trim().parse().ok()
}

/// What a group's limit leaves to a process that has `own` bytes of what is in use already; `None` without a limit.
fn left(folder: &Path, files: &MemoryFiles, own: u64) -> Option<u64> {
    let limit = number(folder, files.limit)?;
    let usage = number(folder, files.usage).unwrap_or(0);
    let stat = procfs::text(folder.join("memory.stat")).unwrap_or_default();
    let reclaimed: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| files.reclaimed.contains(name))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .sum();
    let others = usage.saturating_sub(reclaimed).saturating_sub(own);
    Some(limit.saturating_sub(others))
}

/// What is charged for a process beside its memory: stacks and page tables in the kernel, and what each
/// CPU has charged in advance.
const CHARGED_BESIDE: u64 = 1 << 20;

/// What is charged for this process alone, bytes.
fn own_bytes() -> u64 {
    let [_, resident, of_files, _] = sizes();
    resident.saturating_sub(of_files) + CHARGED_BESIDE
}

/// The program's code, bytes.
pub fn code_bytes() -> u64 {
    let [_, _, _, code] = sizes();
    code
}

/// The size of a page of memory on this host.
pub fn page_bytes() -> u64 {
    // SAFETY: no memory argument.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page).unwrap_or(0)
}

/// Of this process, bytes: all, what is resident, what of that is of files, and code (proc(5), statm).
fn sizes() -> [u64; 4] {
    let statm = procfs::text("/proc/self/statm").unwrap_or_default();
    let page = page_bytes();
    let mut sizes = [0; 4];
    for (size, pages) in sizes.iter_mut().zip(statm.split(' ')) {
        *size = pages.parse::<u64>().unwrap_or(0) * page;
    }
    sizes
}

/// The least that is left below a limit on memory of the cgroups that the lines of `/proc/self/cgroup` name, and of
/// those above them, below where the hierarchies are usually mounted. `None` without a limit.
pub fn free_memory(mount: &Path, groups: &[u8]) -> Option<u64> {
    let own = own_bytes();
    let limits = groups.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (controllers, path) = (fields.next()?, Path::new(OsStr::from_bytes(fields.next()?)));
        let (root, files) = match controllers {
            b"" => (mount.to_owned(), &V2),
            _ if controllers.split(|byte| *byte == b',').any(|name| name == b"memory") => {
                (mount.join("memory"), &V1)
            }
            _ => return None,
        };
        let group = root.join(path.strip_prefix("/").unwrap_or(path));
        let above = group.ancestors().take_while(|folder| folder.starts_with(&root));
        above.filter_map(|folder| left(folder, files, own)).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_least_that_is_left_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &[u8], text: &str| {
            let path = root.path().join(OsStr::from_bytes(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(b"a.slice/memory.max", "1000\n");
        put(b"a.slice/b.service/memory.max", "max\n");
        put(b"memory/c/memory.limit_in_bytes", "7000\n");
        put(b"\xff.slice/memory.max", "500\n");
        let limit = |groups: &str| free_memory(root.path(), groups.as_bytes());
        assert_eq!(limit("0::/a.slice/b.service\n"), Some(1000));
        assert_eq!(limit("9:cpu:/x\n3:memory:/c\n0::/\n"), Some(7000));
        assert_eq!(limit("9:cpu:/x\n3:hugetlb,memory:/c\n0::/\n"), Some(7000));
        assert_eq!(limit("3:memory:/c\n0::/a.slice\n"), Some(1000));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("nonsense\n"), None);
        assert_eq!(free_memory(root.path(), b"0::/\xff.slice/x\n"), Some(500));
    }

    #[test]
    fn what_others_use_is_not_left_but_pages_of_files_are() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        put("memory.max", "1000");
        put("memory.current", "700");
        put("memory.stat", "anon 300\ninactive_file 100\nactive_file 50\nslab_reclaimable 20\n");
        assert_eq!(left(root.path(), &V2, 30), Some(500));
        put("memory.limit_in_bytes", "1000");
        put("memory.usage_in_bytes", "700");
        put("memory.stat", "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n");
        assert_eq!(left(root.path(), &V1, 0), Some(450));
        put("memory.usage_in_bytes", "5000");
        assert_eq!(left(root.path(), &V1, 0), Some(0));
    }
}

//! What a process must be allowed to have before programs can be loaded: descriptors, address space
//! and memory. Without them the start would end somewhere in its midst, in words of the allocator or
//! in none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use noise_common::hooks::HOOKS;

use super::KernelError;
use crate::procfs;

/// Descriptors beside those of the programs: maps, sockets, the runtime's own, the standard three, and
/// some clients.
const OTHER_DESCRIPTORS: usize = 48;
/// Address space, MiB: 65 at most were measured on two CPUs, while the kernel's types are read.
const ADDRESS_SPACE_MIB: u64 = 72;
/// What each further CPU may add, MiB.
const MIB_PER_CPU: u64 = 1;
/// In a cgroup with less than this, MiB, a start is killed; 52 resident at most were measured, of which
/// a part is the program itself, which several may share.
const MEMORY_MIB: u64 = 32;

/// A limit and what is needed.
fn ensure(
    what: &'static str,
    allowed: u64,
    needed: u64,
    remedy: &'static str,
) -> Result<(), KernelError> {
    if allowed >= needed {
        return Ok(());
    }
    Err(KernelError::NoRoom { what, allowed, needed, remedy })
}

/// Lifts the soft limit on descriptors as far as it goes, and requires that a start fits into what this
/// process may have.
///
/// # Errors
/// [`KernelError::NoRoom`] where it does not.
pub fn ensure_room() -> Result<(), KernelError> {
    let descriptors = 2 * HOOKS.len() + OTHER_DESCRIPTORS;
    ensure(
        "file descriptors",
        lift_descriptors(),
        descriptors as u64,
        "ulimit -n, or LimitNOFILE= of the unit",
    )?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    ensure(
        "MiB of address space for its memory",
        soft_limit(Resource::RLIMIT_AS) >> 20,
        ADDRESS_SPACE_MIB + cpus * MIB_PER_CPU,
        "ulimit -v, or LimitAS= of the unit",
    )?;
    let limit = procfs::bytes("/proc/self/cgroup")
        .ok()
        .and_then(|groups| memory_limit(Path::new("/sys/fs/cgroup"), &groups));
    ensure(
        "MiB of memory",
        limit.unwrap_or(u64::MAX) >> 20,
        MEMORY_MIB,
        "memory.max of its cgroup, or MemoryMax= of the unit",
    )
}

fn soft_limit(resource: Resource) -> u64 {
    getrlimit(resource).map_or(u64::MAX, |(soft, _)| soft)
}

/// How many descriptors this process may have from now on.
fn lift_descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_or(soft, |()| hard)
}

/// The least limit on memory of the cgroups that the lines of `/proc/self/cgroup` name and of those
/// above them, below where the hierarchies are usually mounted.
fn memory_limit(mount: &Path, groups: &[u8]) -> Option<u64> {
    let limits = groups.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (controllers, path) = (fields.next()?, Path::new(OsStr::from_bytes(fields.next()?)));
        let (root, file) = match controllers {
            b"" => (mount.to_owned(), "memory.max"),
            b"memory" => (mount.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = root.join(path.strip_prefix("/").unwrap_or(path));
        let number = |folder: &Path| -> Option<u64> {
            procfs::text(folder.join(file)).ok()?.trim().parse().ok()
        };
        group.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(number).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_least_limit_above_counts() {
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
        let limit = |groups: &str| memory_limit(root.path(), groups.as_bytes());
        assert_eq!(limit("0::/a.slice/b.service\n"), Some(1000));
        assert_eq!(limit("9:cpu:/x\n3:memory:/c\n0::/\n"), Some(7000));
        assert_eq!(limit("3:memory:/c\n0::/a.slice\n"), Some(1000));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("nonsense\n"), None);
        assert_eq!(memory_limit(root.path(), b"0::/\xff.slice/x\n"), Some(500));
    }

    #[test]
    fn too_little_is_said_with_what_helps() {
        assert!(ensure("things", 8, 8, "more things").is_ok());
        let error = ensure("things", 7, 8, "more things").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("needs 8 things") && text.contains("more things"), "{text}");
        assert!(!error.is_unsupported());
    }

    #[test]
    fn tests_have_room() {
        ensure_room().unwrap();
    }
}

//! What a process must be allowed to have before programs can be loaded: descriptors, address space
//! and memory. Without them the start would end somewhere in its midst, in words of the allocator or
//! in none.

use std::fs;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use noise_common::hooks::HOOKS;

use super::KernelError;

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
    let limit = fs::read_to_string("/proc/self/cgroup")
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
fn memory_limit(mount: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            "memory" => (mount.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        let number = |folder: &Path| -> Option<u64> {
            fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
        };
        group.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(number).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("a.slice/memory.max", "1000\n");
        put("a.slice/b.service/memory.max", "max\n");
        put("memory/c/memory.limit_in_bytes", "7000\n");
        let limit = |groups: &str| memory_limit(root.path(), groups);
        assert_eq!(limit("0::/a.slice/b.service\n"), Some(1000));
        assert_eq!(limit("9:cpu:/x\n3:memory:/c\n0::/\n"), Some(7000));
        assert_eq!(limit("3:memory:/c\n0::/a.slice\n"), Some(1000));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("nonsense\n"), None);
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

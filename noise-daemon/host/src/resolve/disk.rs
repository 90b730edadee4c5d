//! IO: block devices by their numbers.
//!
//! The kernel hides some disks from programs: the paths of an NVMe multipath disk, to which the requests belong.
//! `/sys/dev/block` lacks them, and their folders in `/sys/block` do not say their numbers. `/proc/diskstats` has
//! them with names and numbers; Linux 5.10 puts zeros there, so that it has no names for them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use noise_system::procfs;

/// Bits of the minor number in the number of a device.
const MINOR_BITS: u32 = 20;

/// A device as one number, as the kernel's trace events have it.
const fn number(major: u32, minor: u32) -> u32 {
    major << MINOR_BITS | minor
}

/// Numbers and names of `/proc/diskstats` below a procfs root; a name has `!` where the kernel's has `/`, as in sysfs.
fn counted(procfs: &Path) -> io::Result<BTreeMap<u32, Vec<u8>>> {
    let lines = procfs::bytes(procfs.join("diskstats"))?;
    let disk = |line: &[u8]| {
        let mut words =
            line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_vec);
        let mut digits = || String::from_utf8(words.next()?).ok()?.parse::<u32>().ok();
        let (major, minor) = (digits()?, digits()?);
        let mut name = words.next()?;
        name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'!');
        // No device has the major number 0 and requests.
        (major != 0).then_some((number(major, minor), name))
    };
    Ok(lines.split(|byte| *byte == b'\n').filter_map(disk).collect())
}

/// The name of the device with these numbers, below roots of procfs and sysfs.
pub(super) fn disk(procfs: &Path, sysfs: &Path, major: u32, minor: u32) -> Option<Vec<u8>> {
    let link = fs::read_link(sysfs.join(format!("dev/block/{major}:{minor}")));
    let listed = link.ok().and_then(|target| Some(target.file_name()?.as_bytes().to_vec()));
    listed.or_else(|| counted(procfs).ok()?.remove(&number(major, minor)))
}

/// Whether there is a device with these numbers, or that cannot be found out.
pub(super) fn exists(procfs: &Path, sysfs: &Path, major: u32, minor: u32) -> bool {
    let listed = sysfs.join(format!("dev/block/{major}:{minor}")).try_exists().unwrap_or(true);
    listed || counted(procfs).is_ok_and(|disks| disks.contains_key(&number(major, minor)))
}

/// Names of all block devices by their numbers (`major << 20 | minor`), below roots of procfs and sysfs.
pub fn disks(procfs: &Path, sysfs: &Path) -> BTreeMap<u32, Vec<u8>> {
    let mut disks = counted(procfs).unwrap_or_default();
    let entries = fs::read_dir(sysfs.join("dev/block")).into_iter().flatten().flatten();
    disks.extend(entries.filter_map(|entry| {
        let name = entry.file_name();
        let (major, minor) = name.to_str()?.split_once(':')?;
        let target = fs::read_link(entry.path()).ok()?;
        let name = target.file_name().map(OsStr::as_bytes)?.to_vec();
        Some((number(major.parse().ok()?, minor.parse().ok()?), name))
    }));
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk in a subsystem on Linux 6.1, whose path is hidden; one that sysfs has under another name; a line that
    /// is cut off; and a path as Linux 5.10 shows it.
    const DISKSTATS: &[u8] = b" 259       2 nvme0c0n1 41 0 328 11 0 0 0 0 0 8 11 0 0 0 0 0 0\n \
        259       3 nvme0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
        104       0 cciss/c0d0 1 0 8 0 0\n 104       1 cciss/c\xff 1 0 8 0 0\n   8      16\n\
        \x20  0       0 nvme1c1n1 1 0 8 2 0 0 0 0 0 4 2 0 0 0 0 0 0\n";

    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        for (numbers, name) in [("259:3", "nvme0n1"), ("8:0", "sda"), ("104:0", "cciss!c0d0")] {
            fs::create_dir_all(root.path().join("block").join(name)).unwrap();
            let link = root.path().join("dev/block").join(numbers);
            std::os::unix::fs::symlink(Path::new("../../block").join(name), link).unwrap();
        }
        root
    }

    #[test]
    fn disks_that_sysfs_hides_are_found_by_their_counters() {
        let root = host();
        fs::write(root.path().join("diskstats"), DISKSTATS).unwrap();
        let of = |major, minor| disk(root.path(), root.path(), major, minor);
        let is_there = |major, minor| exists(root.path(), root.path(), major, minor);
        for (major, minor, name) in [
            (259, 2, Some(&b"nvme0c0n1"[..])),
            (259, 3, Some(b"nvme0n1")),
            (8, 0, Some(b"sda")),
            (104, 0, Some(b"cciss!c0d0")),
            (104, 1, Some(b"cciss!c\xff")),
            (8, 16, None),
            (259, 0, None),
            (0, 0, None),
        ] {
            assert_eq!(of(major, minor).as_deref(), name, "{major}:{minor}");
            assert_eq!(is_there(major, minor), name.is_some(), "{major}:{minor}");
            let all = disks(root.path(), root.path());
            assert_eq!(all.get(&number(major, minor)).map(Vec::as_slice), name);
        }
    }

    #[test]
    fn without_counters_there_is_sysfs() {
        let root = host();
        let names: Vec<_> = disks(root.path(), root.path()).into_values().collect();
        assert_eq!(names, [b"sda".to_vec(), b"cciss!c0d0".to_vec(), b"nvme0n1".to_vec()]);
        assert_eq!(disk(root.path(), root.path(), 259, 2), None);
        assert!(!exists(root.path(), root.path(), 259, 2));
    }
}

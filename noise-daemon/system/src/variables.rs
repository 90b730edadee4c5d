//! IO: which variable of a program lies at an address, by the symbols in the file that the kernel has mapped there.
//!
//! Only static variables have a symbol, and only where the file was not stripped of them. Names are those of the linker.
//!
//! A user may map a file of a file system that one of his programs serves (FUSE). A process that opens such a file waits for
//! that program, and no signal ends the wait. So a file of another user's process is reached without a walk through folders, and only where it is on a
//! file system that the kernel keeps itself, and that is mounted here, too.

#![allow(
    clippy::disallowed_types,
    reason = "a table of symbols is read out of a file of any length, part by part"
)]

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind};

use crate::files::open_fitting;
use crate::procfs;

/// Symbols of one file that are looked at.
const MAX_SYMBOLS: usize = 1 << 20;
/// The longest file whose symbols are read: tables may be as long as the file says.
const MAX_BYTES: u64 = 64 << 20;
/// As far as a list of what is mapped is read: a process may map so much that its list has hundreds of megabytes.
const MAX_MAPS_BYTES: u64 = 4 << 20;
/// File systems that the kernel keeps itself.
const KERNELS: [&str; 13] = [
    "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "squashfs",
    "tmpfs", "xfs", "zfs",
];
/// The smallest page: segments are mapped from the begin of one on.
const PAGE: u64 = 4096;

/// Looks up variables of processes that run. Each is looked up once.
#[derive(Debug, Default)]
pub struct Variables {
    known: HashMap<(i32, u64), Option<String>>,
}

/// Variables that are looked up at most: each costs a look through a file's symbols.
const MAX_LOOKS: usize = 64;

impl Variables {
    /// The variable at an address of a process, with how far behind its begin the address is.
    pub fn at(&mut self, pid: i32, address: u64) -> Option<String> {
        if self.known.len() >= MAX_LOOKS && !self.known.contains_key(&(pid, address)) {
            return None;
        }
        self.known.entry((pid, address)).or_insert_with(|| look_up(pid, address)).clone()
    }
}

fn look_up(pid: i32, address: u64) -> Option<String> {
    let maps = procfs::lines(format!("/proc/{pid}/maps"), MAX_MAPS_BYTES).ok()?;
    let mapped = file_at(maps, address)?;
    let mounts = procfs::lines("/proc/self/mountinfo", MAX_MAPS_BYTES).ok()?;
    if !is_kernels(mounts, mapped.device) {
        return None;
    }
    let process = Path::new("/proc").join(pid.to_string());
    let (from, to) = mapped.span;
    let link = process.join(format!("map_files/{from:x}-{to:x}"));
    let file = open(&link, mapped.inode).or_else(|error| match error.kind() {
        // For all but root: then it is one of our own processes, as that sees its files.
        io::ErrorKind::PermissionDenied => {
            let path = mapped.path.trim_start_matches('/');
            open(&process.join("root").join(path), mapped.inode)
        }
        _ => Err(error),
    });
    variable(file.ok()?, &mapped, address)
}

/// Whether a device is one of a file system that the kernel keeps itself, by a list of mounts.
fn is_kernels(mounts: impl Iterator<Item = String>, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    let kind = |line: String| {
        let is_it = line.split(' ').nth(2) == Some(&device);
        let (_, behind) = line.split_once(" - ").filter(|_| is_it)?;
        Some(behind.split(' ').next().is_some_and(|kind| KERNELS.contains(&kind)))
    };
    mounts.filter_map(kind).next().unwrap_or(false)
}

/// Opens a file of another user, if it is the one that is mapped.
/// A lease of that user on it is not waited for.
fn open(path: &Path, inode: u64) -> io::Result<File> {
    let is_it =
        |found: &Metadata| found.is_file() && found.ino() == inode && found.len() <= MAX_BYTES;
    let fits = |found: &Metadata| {
        is_it(found)
            .then_some(libc::O_NONBLOCK)
            .ok_or_else(|| io::Error::other("it is another file"))
    };
    open_fitting(OpenOptions::new().read(true), path, 0, fits)
}

/// A file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MappedFile {
    path: String,
    /// Major and minor number of its file system.
    device: (u32, u32),
    inode: u64,
    /// The first address and the one behind the last, and the place in the file that is at the first.
    span: (u64, u64),
    offset: u64,
}

/// The file that is mapped at an address, or right before it where that is memory without a file (`.bss`).
fn file_at(maps: impl Iterator<Item = String>, address: u64) -> Option<MappedFile> {
    // The file that is mapped up to there.
    let (mut before, mut before_end) = (None, 0);
    for line in maps {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (from, to) = (hex(from)?, hex(to)?);
        // They come in the order of their addresses.
        if from > address {
            return None;
        }
        let offset = hex(words.nth(1)?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let device = (number(major)?, number(minor)?);
        let inode: u64 = words.next()?.parse().ok()?;
        // A path may have spaces in it.
        let path = line.find(" /").and_then(|at| line.get(at + 1..)).filter(|_| inode != 0);
        match path {
            Some(path) => {
                let path = path.to_owned();
                let span = (from, to);
                (before, before_end) = (Some(MappedFile { path, device, inode, span, offset }), to);
            }
            None if from == before_end => before_end = to,
            None => before = None,
        }
        if (from..to).contains(&address) {
            return before.filter(|file| !file.path.ends_with(" (deleted)"));
        }
    }
    None
}

/// The variable of a mapped file at an address.
fn variable(file: File, mapped: &MappedFile, address: u64) -> Option<String> {
    let cache = ReadCache::new(file);
    let file = object::File::parse(&cache).ok()?;
    let is_there = |(at, bytes): (u64, u64)| {
        at / PAGE * PAGE <= mapped.offset && mapped.offset < at.saturating_add(bytes)
    };
    // The end of one segment and the begin of the next one may be in the same page: that page is mapped for the next one, too.
    let segment = file.segments().filter(|segment| is_there(segment.file_range())).last()?;
    let offset = address.checked_sub(mapped.span.0)?.checked_add(mapped.offset)?;
    let within = offset.checked_sub(segment.file_range().0)?.checked_add(segment.address())?;
    let all = file.symbols().chain(file.dynamic_symbols()).take(MAX_SYMBOLS);
    for symbol in all.filter(|symbol| symbol.kind() == SymbolKind::Data) {
        let Some(behind) = within.checked_sub(symbol.address()) else { continue };
        if behind < symbol.size() {
            let name = symbol.name().ok()?;
            return Some(if behind == 0 { name.to_owned() } else { format!("{name}+{behind:#x}") });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    static FILLED: [AtomicU64; 2] = [AtomicU64::new(7), AtomicU64::new(8)];
    static EMPTY: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    #[test]
    fn static_variables_have_their_names() {
        let pid = std::process::id().cast_signed();
        let mut variables = Variables::default();
        let mut name =
            |place: &AtomicU64| variables.at(pid, std::ptr::from_ref(place).addr() as u64);
        let filled = name(&FILLED[0]).unwrap();
        assert!(filled.contains("FILLED") && !filled.contains('+'), "{filled}");
        let second = name(&FILLED[1]).unwrap();
        assert_eq!(second, format!("{filled}+0x8"));
        // One in memory that the file has no bytes for.
        let empty = name(&EMPTY[0]).unwrap();
        assert!(empty.contains("EMPTY"), "{empty}");
        let on_heap = Box::new(AtomicU64::new(3));
        assert_eq!(name(&on_heap), None);
    }

    #[test]
    fn memory_behind_a_file_is_of_it() {
        let maps = "\
5000-6000 r--p 00000000 fe:00 12 /usr/bin/a program
6000-7000 rw-p 00001000 fe:00 12 /usr/bin/a program
7000-8000 rw-p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0 [heap]
b000-c000 rw-p 00001000 fe:00 13 /lib/x (deleted)
d000-e000 rw-p 00000000 00:00 0 [anon: /dev/watchdog]
";
        let program = Some(("/usr/bin/a program", (0xfe, 0), 12, (0x6000, 0x7000), 0x1000));
        for (address, found) in [
            (0x6008, program),
            (0x7fff, program),
            (0x9000, None),
            (0x8000, None),
            (0xb000, None),
            (0xd000, None),
        ] {
            let file = file_at(maps.lines().map(ToOwned::to_owned), address);
            let file = file
                .as_ref()
                .map(|file| (&*file.path, file.device, file.inode, file.span, file.offset));
            assert_eq!(file, found, "{address:x}");
        }
    }

    #[test]
    fn only_the_file_that_is_mapped_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a"), "x").unwrap();
        let inode = std::fs::metadata(path("a")).unwrap().ino();
        let flags = fcntl(open(&path("a"), inode).unwrap(), FcntlArg::F_GETFL).unwrap();
        assert!(flags & libc::O_NONBLOCK != 0, "its owner may have a lease on it");
        assert!(open(&path("a"), inode + 1).is_err());
        std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
        let device = std::fs::metadata("/dev/zero").unwrap().ino();
        assert!(open(&path("device"), device).is_err());
        File::create(path("long")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let long = std::fs::metadata(path("long")).unwrap().ino();
        assert!(open(&path("long"), long).is_err());
    }

    #[test]
    fn files_of_a_file_system_that_a_user_serves_are_not_looked_at() {
        let mounts = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
35 22 0:31 / /home/eve/mnt rw,nosuid,nodev,relatime shared:9 - fuse.evil evil rw,user_id=1000
36 22 0:32 / /a\\040-\\040ext4 rw - nfs4 server:/ rw
37 22 0:33 / /var/lib/c/merged rw master:2 - overlay overlay rw
";
        for (device, expected) in [
            ((254, 1), true),
            ((0, 33), true),
            ((0, 31), false),
            ((0, 32), false),
            // Mounted where only its process sees it.
            ((0, 34), false),
        ] {
            let lines = mounts.lines().map(ToOwned::to_owned);
            assert_eq!(is_kernels(lines, device), expected, "{device:?}");
        }
    }
}

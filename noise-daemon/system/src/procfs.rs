//! IO: files of `/proc` and `/sys`, which the kernel writes anew for each reader.
//!
//! They hold names of threads, interfaces, mount points and cgroups that users chose. Such a name is
//! bytes, and one that is not UTF-8 must not hide the rest of the file: each byte of it that makes no
//! text becomes `\xNN`, as it does in the names of cgroups.

#![allow(clippy::disallowed_methods, reason = "all others read by this module")]

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::iter;
use std::path::Path;
use std::str::SplitAsciiWhitespace;

use noise_text::clean::as_text;

/// As long as such files are on most hosts.
const USUAL_BYTES: usize = 8 << 10;

/// The bytes of a file, for what is to be used as they are.
/// Errors: where there is no such file, or it cannot be read.
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// A number that nobody has had, and nobody can guess.
/// Errors: where the kernel has none.
pub fn uuid() -> io::Result<u128> {
    let path = "/proc/sys/kernel/random/uuid";
    let digits: String = text(path)?.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).map_err(|_| io::Error::other(format!("{path} has none")))
}

/// The text of a file.
/// Errors: those of [`bytes`].
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| as_text(error.as_bytes()).into_owned()))
}

/// The first bytes of a file that may be very long.
/// Errors: those of [`bytes`].
pub fn begin(path: impl AsRef<Path>, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path)?.take(most_bytes).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Memory that the host has left, by `meminfo` below a procfs root.
pub fn available_bytes(procfs: &Path) -> Option<u64> {
    let text = text(procfs.join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The lines of a file that may be very long, as far as all of them are within so many bytes.
/// Errors: where there is no such file, or it cannot be opened.
pub fn lines(path: impl AsRef<Path>, most_bytes: u64) -> io::Result<impl Iterator<Item = String>> {
    let mut file = BufReader::new(File::open(path)?.take(most_bytes));
    let mut line = Vec::new();
    Ok(iter::from_fn(move || {
        line.clear();
        file.read_until(b'\n', &mut line).ok()?;
        // A piece would be mistaken for the whole.
        line.strip_suffix(b"\n").map(|line| as_text(line).into_owned())
    }))
}

/// What `status` says of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadStatus {
    /// The process that it is of.
    pub process: i32,
    /// The parent of that process; 0 of one that has none here.
    pub parent: i32,
    /// Its real user; `None` where that is not said.
    pub uid: Option<u32>,
    /// Its ids, from the pid namespace of `/proc` to the innermost that it is in.
    pub ids: Vec<i32>,
}

impl ThreadStatus {
    /// That in the folder of a thread.
    /// Errors: those of [`bytes`].
    pub fn read(folder: &Path) -> io::Result<Self> {
        text(folder.join("status")).map(|text| Self::parse(&text))
    }

    /// That of a text; 0 where a number is missing.
    pub fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_ascii_whitespace()
        };
        let id = |name: &str| field(name).next().and_then(|id| id.parse().ok()).unwrap_or(0);
        Self {
            process: id("Tgid:"),
            parent: id("PPid:"),
            uid: field("Uid:").next().and_then(|uid| uid.parse().ok()),
            ids: field("NSpid:").filter_map(|id| id.parse().ok()).collect(),
        }
    }
}

/// The fields of a thread's `stat` behind its name, the state first: a name may have any byte in it, but behind it
/// there is no parenthesis.
pub fn stat_fields(stat: &[u8]) -> Option<SplitAsciiWhitespace<'_>> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    Some(str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace())
}

/// Whether a thread is one of the kernel, by its `stat`.
pub fn is_kernel_thread(stat: &[u8]) -> Option<bool> {
    /// `PF_KTHREAD` of the kernel's `sched.h`.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    Some(stat_fields(stat)?.nth(6)?.parse::<u64>().ok()? & KERNEL_THREAD != 0)
}

/// The path in the hierarchy whose controllers fit, of a thread's `cgroup`.
pub fn cgroup_path(lines: &[u8], fits: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    lines.split(|&byte| byte == b'\n').find_map(|line| {
        let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        fits(controllers).then_some(path)
    })
}

/// Whether that of the `cpu` controller of version 1 is among controllers.
pub fn has_cpu(controllers: &[u8]) -> bool {
    controllers.split(|&byte| byte == b',').any(|one| one == b"cpu")
}

/// Reads them, one after the other, into the same memory. In few reads: such a file does not say its
/// length, and where there is no room yet the standard library feels its way from 32 bytes on.
#[derive(Debug)]
pub struct Reader(Vec<u8>);

impl Default for Reader {
    fn default() -> Self {
        Self(Vec::with_capacity(USUAL_BYTES))
    }
}

impl Reader {
    /// The text of a file; empty where there is none.
    pub fn read(&mut self, path: &Path) -> Cow<'_, str> {
        let Self(bytes) = self;
        bytes.clear();
        if File::open(path).and_then(|mut file| file.read_to_end(bytes)).is_err() {
            // A piece would be mistaken for the whole.
            bytes.clear();
        }
        as_text(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_as_far_as_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("maps");
        let file = File::create(&path).unwrap();
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let of = |most| lines(&path, most).unwrap().collect::<Vec<_>>();
        assert_eq!(of(100), ["one", "two", "three"]);
        assert_eq!(of(13), ["one", "two"]);
        assert_eq!(of(3), <[&str; 0]>::default());
        // One without an end takes no more memory than the bound.
        file.set_len(1 << 40).unwrap();
        assert_eq!(of(1 << 16), ["one", "two", "three"]);
        assert!(lines(folder.path().join("none"), 1).is_err());
    }

    #[test]
    fn all_of_it_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [long, short] = ["long", "short"].map(|name| folder.path().join(name));
        let longer = "x".repeat(100_000);
        fs::write(&long, &longer).unwrap();
        fs::write(&short, "y").unwrap();
        let mut reader = Reader::default();
        assert_eq!(reader.read(&long), longer);
        assert_eq!(reader.read(&short), "y");
        assert_eq!(reader.read("/nonexistent".as_ref()), "");
        assert_eq!(reader.read(folder.path()), "");
        assert_eq!(begin(&long, 3).unwrap(), b"xxx");
        assert_eq!(begin(&short, 3).unwrap(), b"y");
    }

    #[test]
    fn a_status_has_ids_whatever_the_name_is() {
        let own = ThreadStatus::read(Path::new("/proc/self")).unwrap();
        let pid = std::process::id() as i32;
        assert_eq!((own.process, own.ids.first()), (pid, Some(&pid)));
        assert!(own.parent > 0 && own.uid.is_some());
        let folder = tempfile::tempdir().unwrap();
        let status = b"Name:\tx\xff Tgid: 5\nTgid:\t7\nPPid:\t1\nUid:\t3\t4\t5\t6\nNSpid:\t7\t2\n";
        fs::write(folder.path().join("status"), status).unwrap();
        let expected = ThreadStatus { process: 7, parent: 1, uid: Some(3), ids: vec![7, 2] };
        assert_eq!(ThreadStatus::read(folder.path()).unwrap(), expected);
        assert_eq!(ThreadStatus::parse(""), ThreadStatus::default());
    }

    #[test]
    fn what_is_no_text_hides_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"a \xff\xc3\nb \xe9\xe8 c").unwrap();
        assert_eq!(text(&path).unwrap(), "a \\xff\\xc3\nb \\xe9\\xe8 c");
        assert_eq!(Reader::default().read(&path), "a \\xff\\xc3\nb \\xe9\\xe8 c");
        assert_eq!(bytes(&path).unwrap(), b"a \xff\xc3\nb \xe9\xe8 c");
        assert!(text("/nonexistent").is_err());
    }
}

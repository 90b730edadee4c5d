//! IO: files that users or others look after. Each is read in one way, so that none of them can stop
//! the daemon or fill its memory: without waiting, regular files only, and up to a bound.
//!
//! A FIFO without a writer would block the thread that opens it, and a device may do anything when it
//! is opened. What is in a file reaches messages only as
//! [`noise_text::clean::quoted`] or [`noise_text::clean::brief`].

#![allow(clippy::disallowed_methods, reason = "all others read by this module")]

pub mod yaml;

use std::ffi::CString;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

/// Bytes of any file that a person writes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Opens what is there, if it fits: to open a device is enough to start some, so what is at the path is held first, looked
/// at, and only then opened. The flags come on top of the options' own, and so do those that `fits` answers for what it saw.
/// Errors: where nothing is there, those of `fits`, and where the options' access is refused.
pub fn open_fitting(
    options: &OpenOptions,
    path: &Path,
    flags: i32,
    fits: impl FnOnce(&Metadata) -> io::Result<i32>,
) -> io::Result<File> {
    // Not by `OpenOptions`: where O_ACCMODE has O_PATH in it (musl), that takes it away, and opens what is there.
    let look = OFlag::from_bits_retain(flags) | OFlag::O_PATH | OFlag::O_CLOEXEC;
    let held = File::from(open(path, look, Mode::empty())?);
    let found = held.metadata()?;
    if found.is_symlink() {
        return Err(Errno::ELOOP.into());
    }
    // The name of a descriptor is a link itself.
    let flags = (flags & !libc::O_NOFOLLOW) | fits(&found)? | libc::O_NOCTTY;
    options.clone().custom_flags(flags).open(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

/// Opens a regular file, without waiting for what may never come. The flags come on top of the
/// options' own.
/// Errors: where it is none, or the options' access is refused.
pub fn open_regular(options: &OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    let fits = |found: &Metadata| ensure_regular(found.file_type()).map(|()| libc::O_NONBLOCK);
    open_fitting(options, path, flags, fits)
}

/// Opens what a command is to read: a regular file, or a pipe, which is waited for.
/// Errors: where it is something else, or cannot be read.
pub fn open_input(path: &Path) -> io::Result<File> {
    open_fitting(OpenOptions::new().read(true), path, 0, |found| {
        let kind = found.file_type();
        if kind.is_fifo() {
            return Ok(0);
        }
        ensure_regular(kind).map(|()| libc::O_NONBLOCK)
    })
}

/// What the kernel has in memory of whatever is at a path: a server of files that does not answer is not waited for.
/// Errors: as the system has it.
pub fn known(path: &Path) -> io::Result<libc::statx> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::zeroed();
    let (flags, mask) = (libc::AT_STATX_DONT_SYNC, libc::STATX_BASIC_STATS);
    // SAFETY: the path ends with a zero byte, and there is room for what is written.
    Errno::result(unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, found.as_mut_ptr())
    })?;
    // SAFETY: it consists of numbers, which were zero before the call wrote them.
    Ok(unsafe { found.assume_init() })
}

/// The bytes of a regular file that is at most so long.
/// Errors: one sentence: it cannot be read, is no regular file, or is longer.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    rest(open_regular(OpenOptions::new().read(true), path, 0)?, most_bytes)
}

/// The text of a regular file that is at most so long.
/// Errors: those of [`read`]; also where it is not UTF-8.
pub fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    text(read(path, most_bytes)?)
}

/// The text of whatever a command is to read, see [`read_input_bytes`].
/// Errors: those of [`read_text`].
pub fn read_input(path: &Path, most_bytes: u64) -> io::Result<String> {
    text(read_input_bytes(path, most_bytes)?)
}

/// The bytes of whatever a command is to read, such as a pipe from another command (`<(zcat ...)`),
/// which is waited for; at most so long.
/// Errors: those of [`open_input`], and where it is longer.
pub fn read_input_bytes(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    rest(open_input(path)?, most_bytes)
}

/// What is left of an open file.
/// Errors: where it cannot be read, or is longer.
pub fn rest(file: File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        let sentence = format!("it is longer than {most_bytes} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, sentence)
    };
    let length = file.metadata()?.len();
    if length > most_bytes {
        return Err(too_long());
    }
    // The length may be another by now; of what is no regular file it says nothing.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_long());
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8 (at byte {at})"))
    })
}

/// Refuses what is no regular file.
pub(crate) fn ensure_regular(kind: FileType) -> io::Result<()> {
    let found = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {found}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_none_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        symlink("fifo", path("link")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (name, kind) in [
            ("fifo", "a FIFO"),
            ("link", "a FIFO"),
            ("socket", "a socket"),
            ("", "a directory"),
            ("/dev/zero", "a device"),
        ] {
            let error = read(&path(name), MAX_FILE_BYTES).unwrap_err().to_string();
            assert_eq!(error, format!("it is {kind}, not a regular file"), "{name}");
            assert!(open_regular(OpenOptions::new().read(true), &path(name), 0).is_err());
        }
        fs::write(path("file"), "text").unwrap();
        fs::remove_file(path("link")).unwrap();
        symlink("file", path("link")).unwrap();
        assert_eq!(read_text(&path("link"), 4).unwrap(), "text");
        assert_eq!(read(&path("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        let refused = open_regular(OpenOptions::new().read(true), &path("link"), libc::O_NOFOLLOW);
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn what_does_not_fit_is_not_even_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        // One that writes without waiting finds out whether another has it open to read.
        let is_read = || {
            let options = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path);
            options.map(drop).map_err(|error| error.raw_os_error())
        };
        let fits = |found: &Metadata| {
            assert!(found.file_type().is_fifo());
            assert_eq!(is_read(), Err(Some(libc::ENXIO)));
            Err(io::Error::other("it is not wanted"))
        };
        let error = open_fitting(OpenOptions::new().read(true), &path, 0, fits).unwrap_err();
        assert_eq!(error.to_string(), "it is not wanted");
    }

    #[test]
    fn a_command_reads_files_and_pipes_and_no_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        symlink("/dev/zero", &path).unwrap();
        for device in [&*path, Path::new("/dev/null")] {
            let error = read_input_bytes(device, 1 << 16).unwrap_err().to_string();
            assert_eq!(error, "it is a device, not a regular file");
        }
        let (end, begin) = nix::unistd::pipe().unwrap();
        File::from(begin).write_all(b"piped").unwrap();
        let pipe = format!("/proc/self/fd/{}", end.as_raw_fd());
        assert_eq!(read_input(Path::new(&pipe), 5).unwrap(), "piped");
    }

    #[test]
    fn what_is_too_long_is_not_even_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        for (length, bound, fits) in [(4, 4, true), (5, 4, false), (1 << 40, MAX_FILE_BYTES, false)]
        {
            file.set_len(length).unwrap();
            match read(&path, bound) {
                Ok(bytes) => assert!(fits && bytes.len() as u64 == length),
                Err(error) => {
                    assert!(!fits);
                    assert_eq!(error.to_string(), format!("it is longer than {bound} bytes"));
                }
            }
        }
        // Where the length says nothing.
        let (end, begin) = nix::unistd::pipe().unwrap();
        File::from(begin).write_all(&[0; 1 << 12]).unwrap();
        let pipe = format!("/proc/self/fd/{}", end.as_raw_fd());
        let error = read_input(Path::new(&pipe), 1 << 10).unwrap_err().to_string();
        assert_eq!(error, "it is longer than 1024 bytes");
        fs::write(&path, b"ab\xffc").unwrap();
        let error = read_text(&path, 9).unwrap_err().to_string();
        assert_eq!(error, "it is not UTF-8 (at byte 2)");
    }
}

//! IO: files that users or others look after. Each is read in one way, so that none of them can stop
//! the daemon or fill its memory: without waiting, regular files only, and up to a bound.
//!
//! A FIFO without a writer would block the thread that opens it, and a device may do anything when it
//! is opened. What is in a file reaches messages only as
//! [`noise_text::clean::quoted`] or [`noise_text::clean::brief`].

#![allow(clippy::disallowed_methods, reason = "all others read by this module")]

pub mod pem;
pub mod yaml;

use std::ffi::CString;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;

/// Bytes of any file that a person writes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Opens a regular file, without waiting for what may never come. The flags come on top of the
/// options' own.
/// Errors: where it is none, or the options' access is refused.
pub fn open_regular(options: &OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.clone().custom_flags(flags).open(path)?;
    ensure_regular(file.metadata()?.file_type())?;
    Ok(file)
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
    // Looking comes first: opening is enough to start some devices, and a socket cannot be opened at
    // all. What counts is what was opened in the end.
    ensure_regular(path.metadata()?.file_type())?;
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
/// Errors: where it cannot be read, or is longer.
pub fn read_input_bytes(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    rest(File::open(path)?, most_bytes)
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
        let error = read_input(Path::new("/dev/zero"), 1 << 16).unwrap_err().to_string();
        assert_eq!(error, "it is longer than 65536 bytes");
        fs::write(&path, b"ab\xffc").unwrap();
        let error = read_text(&path, 9).unwrap_err().to_string();
        assert_eq!(error, "it is not UTF-8 (at byte 2)");
    }
}

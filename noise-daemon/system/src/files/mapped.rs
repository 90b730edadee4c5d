//! Files of any length, as memory: only what is looked at is read.

use std::fs::OpenOptions;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Once;
use std::{mem, ptr};

use memmap2::{Advice, Mmap, UncheckedAdvice};

use super::{open_regular, rest};

/// No page is larger where noised runs; a multiple of smaller ones is one of theirs, too.
const PAGE_BYTES: usize = 64 << 10;

/// The last words where a file ends before its map does.
const CUT: &[u8] = b"noised: a file became shorter while it was read, or its disk fails: what was printed so far is \
    not all; read it again once nothing writes to it\n";

/// What was mapped of a file that another program cut meanwhile cannot be read: the kernel sends SIGBUS. Then a
/// sentence is said, and the command has failed.
fn end_in_a_sentence_where_cut() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all zeros are a valid `sigaction`; the handler only makes calls that signal handlers may make.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = cut as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND;
            // Where it is refused, all goes on without the sentence.
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    });
}

extern "C" fn cut(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands in what happened; `write` and `_exit` may be called in a signal handler.
    unsafe {
        // Others, as of memory that is broken, come again and end the process: this handler is gone.
        if !info.is_null() && (*info).si_code == libc::BUS_ADRERR {
            libc::write(libc::STDERR_FILENO, CUT.as_ptr().cast(), CUT.len());
            libc::_exit(libc::EXIT_FAILURE);
        }
    }
}

/// The bytes of a file.
#[derive(Debug)]
pub enum Mapped {
    /// In the page cache.
    Map(Mmap),
    /// Copied, where a file cannot be mapped: one without a length, or a pipe.
    Copy(Vec<u8>),
}

impl Mapped {
    /// Maps a regular file, whatever its length.
    ///
    /// # Errors
    /// Where it is none, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(OpenOptions::new().read(true), path, 0)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Copy(Vec::new()));
        }
        end_in_a_sentence_where_cut();
        // SAFETY: the bytes are only read, and nothing relies on their staying the same: all that is made
        // of them is checked where it is read. A file that is cut short meanwhile ends this process with a
        // sentence; only commands that a person starts map files.
        let map = unsafe { Mmap::map(&file) }?;
        // Reading ahead helps, and is all that this does; without it, all goes on.
        let _ = map.advise(Advice::Sequential);
        Ok(Self::Map(map))
    }

    /// Gives back the memory of what comes before that byte. It is read again where it is looked at again.
    pub fn forget(&self, before: usize) {
        let length = before.min(self.len()) / PAGE_BYTES * PAGE_BYTES;
        if let Self::Map(map) = self
            && length > 0
        {
            // SAFETY: the mapping is shared and read-only, so that its pages are those of the file; what is
            // given up comes back from there with the same content.
            let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, 0, length) };
        }
    }

    /// As [`Mapped::open`]; of a pipe up to so many bytes are copied.
    ///
    /// # Errors
    /// See [`Mapped::open`]; also where a pipe brings more.
    pub fn open_any(path: &Path, most_bytes: u64) -> io::Result<Self> {
        if path.metadata()?.is_file() {
            return Self::open(path);
        }
        let file = OpenOptions::new().read(true).open(path)?;
        rest(file, most_bytes).map(Self::Copy)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Copy(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// Names the file that a process of its own maps and cuts.
    const FILE: &str = "NOISED_CUT_FILE";

    #[test]
    fn a_file_that_is_cut_while_it_is_read_ends_in_a_sentence() {
        if let Some(path) = env::var_os(FILE) {
            let mapped = Mapped::open(path.as_ref()).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(PAGE_BYTES as u64).unwrap();
            assert_eq!(mapped[0], 7);
            assert_eq!(mapped[2 * PAGE_BYTES], 7);
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 3 * PAGE_BYTES]).unwrap();
        let name = "files::mapped::tests::a_file_that_is_cut_while_it_is_read_ends_in_a_sentence";
        let mut command = Command::new(env::current_exe().unwrap());
        let output = command.args([name, "--exact"]).env(FILE, &path).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("a file became shorter while it was read"), "{said}");
    }

    #[test]
    fn files_of_any_length_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(&*Mapped::open(&path).unwrap(), b"text");
        std::fs::write(&path, vec![7; 3 * PAGE_BYTES]).unwrap();
        let mapped = Mapped::open(&path).unwrap();
        for before in [0, PAGE_BYTES + 1, usize::MAX] {
            mapped.forget(before);
            assert!(mapped.iter().all(|&byte| byte == 7));
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(&*Mapped::open(&path).unwrap(), b"");
        assert!(Mapped::open(folder.path()).is_err());
    }
}

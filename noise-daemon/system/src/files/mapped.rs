//! Files of any length, as memory: only what is looked at is read.

use std::fs::OpenOptions;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::{Advice, Mmap, UncheckedAdvice};

use super::{open_regular, rest};

/// No page is larger where noised runs; a multiple of smaller ones is one of theirs, too.
const PAGE_BYTES: usize = 64 << 10;

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
        // SAFETY: the bytes are only read, and nothing relies on their staying the same: all that is made
        // of them is checked where it is read. A file that is cut short meanwhile ends this process by
        // SIGBUS, as it does any reader that maps; only commands that a person starts do so.
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
    use super::*;

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

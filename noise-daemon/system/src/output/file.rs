//! Single files, in any folder.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::limit::explained;
use super::way::{Followed, create, from, from_here, look, target};
use super::{FILE_MODE, OTHERS_WRITE, random_digits, refused};
use crate::files::ensure_regular;

/// Where a file is to be: a name, in a folder that was opened once.
#[derive(Debug)]
pub struct OutputPlace {
    at: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// A file that is being written, under another name until it is whole. Dropping it removes that one.
#[derive(Debug)]
pub struct Target {
    place: OutputPlace,
    temporary: OsString,
    file: File,
    is_kept: bool,
}

impl OutputPlace {
    /// Follows a path to the folder of a file, and what has its name there if that is a link of the caller's. Errors:
    /// where there is no such folder, or something has the name that is no regular file, or a link of another user.
    pub fn find(path: &Path) -> io::Result<Self> {
        let mut followed = Followed::default();
        let way = from_here(path.parent().unwrap_or(Path::new("")), &mut followed)?;
        let name = path.file_name().ok_or_else(|| refused("it names no file"))?;
        if !way.missing.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        Self::settle(way.at, name.to_owned(), path.to_owned(), &mut followed)
    }

    /// The same, from a folder that is open.
    pub(super) fn find_in(at: OwnedFd, name: OsString, path: PathBuf) -> io::Result<Self> {
        Self::settle(at, name, path, &mut Followed::default())
    }

    fn settle(
        mut at: OwnedFd,
        mut name: OsString,
        path: PathBuf,
        followed: &mut Followed,
    ) -> io::Result<Self> {
        loop {
            let there = match look(&at, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                there => there?,
            };
            let found = there.metadata()?;
            if !found.is_symlink() {
                ensure_regular(found.file_type())?;
                break;
            }
            if found.uid() != geteuid().as_raw() {
                return Err(refused(format!(
                    "it is a link of another user (uid {}): remove it, or name another file",
                    found.uid()
                )));
            }
            // Of one with several names, another may have chosen this one.
            if found.nlink() != 1 {
                return Err(refused(
                    "it is a link that has other names as well: name another file",
                ));
            }
            let target = target(&there, followed)?;
            let way = from(at, target.parent().unwrap_or(Path::new("")), followed)?;
            if !way.missing.is_empty() {
                return Err(Errno::ENOENT.into());
            }
            name = target.file_name().ok_or_else(|| refused("it names no file"))?.to_owned();
            at = way.at;
        }
        Ok(Self { at, name, path })
    }

    fn cannot(&self, error: io::Error) -> io::Error {
        let sentence = format!("cannot write {}: {error}", self.path.display());
        io::Error::new(error.kind(), sentence)
    }

    /// Begins a file with that mode, of which the umask takes its part. An older one stays as it is until the new one is
    /// whole.
    /// Errors: in a sentence that names the file, as those of the target.
    pub fn begin(self, mode: u32) -> io::Result<Target> {
        let begun = random_digits().and_then(|digits| {
            let temporary = OsString::from(format!(".noised-{digits}.new"));
            Ok((create(&self.at, &temporary, mode)?, temporary))
        });
        let (file, temporary) = begun.map_err(|error| self.cannot(error))?;
        Ok(Target { place: self, temporary, file, is_kept: false })
    }

    /// Makes a file with that mode, of which the umask takes its part.
    /// Errors: as the system has it; also where there is one.
    pub fn create_new(self, mode: u32) -> io::Result<File> {
        create(&self.at, &self.name, mode)
    }

    /// Opens the file to read it and to go on with it, or makes it.
    /// Errors: where it is not the caller's alone, and as the system has it.
    pub fn extend(self) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(FILE_MODE);
        let made = openat(&self.at, &*self.name, flags | OFlag::O_CREAT | OFlag::O_EXCL, mode);
        let file = match made {
            Err(Errno::EEXIST) => {
                File::from(openat(&self.at, &*self.name, flags | OFlag::O_NOCTTY, Mode::empty())?)
            }
            made => File::from(made?),
        };
        let found = file.metadata()?;
        ensure_regular(found.file_type())?;
        if found.uid() != geteuid().as_raw() {
            let uid = found.uid();
            return Err(refused(format!(
                "it belongs to another user (uid {uid}): name another file"
            )));
        }
        if found.mode() & OTHERS_WRITE != 0 {
            return Err(refused("other users may write to it: chmod go-w, or name another file"));
        }
        if found.nlink() != 1 {
            return Err(refused("it has other names as well: name another file"));
        }
        Ok(file)
    }
}

impl AsFd for OutputPlace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.at.as_fd()
    }
}

impl Target {
    /// Errors: as the system has it.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece).map_err(|error| self.place.cannot(explained(error)))
    }

    /// Gives the file its name.
    /// Errors: as the system has it; then an older file is as it was.
    pub fn keep(mut self) -> io::Result<()> {
        let OutputPlace { at, name, .. } = &self.place;
        let kept =
            self.file.sync_all().and_then(|()| Ok(renameat(at, &*self.temporary, at, &**name)?));
        kept.map_err(|error| self.place.cannot(error))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = unlinkat(&self.place.at, &*self.temporary, UnlinkatFlags::NoRemoveDir);
        }
    }
}

//! Folders that are the caller's alone.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, geteuid, unlinkat};

use super::file::OutputPlace;
use super::way::{Followed, create, from_here, look, through};
use super::{FILE_MODE, FOLDER_MODE, OTHERS_WRITE, refused};

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What a umask of 002 gives to the group of a folder.
const GROUP_WRITES: u32 = 0o020;

/// A folder that is the caller's, and that nobody else may write to. It was opened once: all that is done in it is done
/// there, whatever has its name by then.
#[derive(Debug)]
pub struct OwnFolder {
    folder: File,
    path: PathBuf,
    /// The folders that were made for it, it included, from the outermost on: the folder above each, and its name.
    made: Vec<(OwnedFd, OsString)>,
}

/// Where a folder is to be: it is there, or it can be made.
#[derive(Debug)]
pub struct Spot {
    path: PathBuf,
    found: Option<OwnFolder>,
    /// The last folder that is there.
    at: OwnedFd,
    /// What is to be made below it.
    missing: VecDeque<OsString>,
}

impl Spot {
    /// Follows a path, and makes nothing.
    /// Errors: where it leads to something else than a folder, or to one that is not the caller's alone.
    pub fn find(path: &Path) -> io::Result<Self> {
        let mut followed = Followed::default();
        let Some(name) = path.file_name() else {
            // Such as the current folder, which has no name here.
            let way = from_here(path, &mut followed)?;
            if !way.missing.is_empty() {
                return Err(Errno::ENOENT.into());
            }
            let found = Some(OwnFolder::open(&way.at, OsStr::new("."), path)?);
            return Ok(Self { path: path.to_owned(), found, at: way.at, missing: way.missing });
        };
        let mut way = from_here(path.parent().unwrap_or(Path::new("")), &mut followed)?;
        let found = match way.missing.is_empty() {
            true => match OwnFolder::open(&way.at, name, path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                opened => Some(opened?),
            },
            false => None,
        };
        if found.is_none() {
            way.missing.push_back(name.to_owned());
        }
        Ok(Self { path: path.to_owned(), found, at: way.at, missing: way.missing })
    }

    /// How it was called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, if it is there.
    pub fn found(&self) -> Option<&OwnFolder> {
        self.found.as_ref()
    }

    /// The folder, which is made with those above it that are missing.
    /// Errors: where it cannot be made, or another took its name meanwhile.
    pub fn make(self) -> io::Result<OwnFolder> {
        let Self { path, found, at, mut missing } = self;
        if let Some(found) = found {
            return Ok(found);
        }
        let Some(last) = missing.pop_back() else { return Err(Errno::ENOENT.into()) };
        let mut made = Vec::new();
        let at = make_each(at, missing, &mut made);
        match at.and_then(|at| OwnFolder::make_in(at, last, path)) {
            Ok(mut folder) => {
                folder.made.splice(0..0, made);
                Ok(folder)
            }
            Err(error) => {
                let _ = remove(&made);
                Err(error)
            }
        }
    }
}

/// Makes folders, each in the one before, and opens the last one. What another made meanwhile is gone through.
fn make_each(
    mut at: OwnedFd,
    names: VecDeque<OsString>,
    made: &mut Vec<(OwnedFd, OsString)>,
) -> io::Result<OwnedFd> {
    for name in names {
        let is_own = match make(&at, &name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            done => done.is_ok(),
        };
        let below = through(&at, &name)?;
        let above = std::mem::replace(&mut at, below);
        if is_own {
            made.push((above, name));
        }
    }
    Ok(at)
}

/// Removes folders, the innermost first, as long as they are empty.
fn remove(made: &[(OwnedFd, OsString)]) -> io::Result<()> {
    let mut from_within = made.iter().rev();
    Ok(from_within
        .try_for_each(|(at, name)| unlinkat(at, name.as_os_str(), UnlinkatFlags::RemoveDir))?)
}

fn make(at: &impl AsFd, name: &OsStr) -> io::Result<()> {
    Ok(mkdirat(at, name, Mode::from_bits_truncate(FOLDER_MODE))?)
}

impl OwnFolder {
    fn open(at: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<Self> {
        let folder = openat(at, name, FOLDER, Mode::empty()).map_err(|error| match error {
            Errno::ENOTDIR | Errno::ELOOP => no_folder(at, name),
            error => error.into(),
        })?;
        let folder = File::from(folder);
        let found = folder.metadata()?;
        if found.uid() != geteuid().as_raw() {
            return Err(refused(format!("it belongs to another user (uid {})", found.uid())));
        }
        if found.mode() & OTHERS_WRITE != 0 {
            let mode = found.mode() & 0o7777;
            // That others have it, too, may be meant: so it is with /tmp.
            return Err(refused(match mode & OTHERS_WRITE & !GROUP_WRITES {
                0 => format!(
                    "its group may write to it (mode {mode:o}), which `chmod g-w` on it takes away"
                ),
                _ => format!("other users may write to it (mode {mode:o})"),
            }));
        }
        Ok(Self { folder, path: path.to_owned(), made: Vec::new() })
    }

    fn make_in(at: OwnedFd, name: OsString, path: PathBuf) -> io::Result<Self> {
        make(&at, &name)?;
        let mut made = Self::open(&at, &name, &path)?;
        // Who may write to the folder above can have put another one of the caller's there.
        if !made.is_empty()? {
            return Err(Errno::EEXIST.into());
        }
        made.made.push((at, name));
        Ok(made)
    }

    /// How it was called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads there for as long as this lives, for calls that take no descriptor.
    pub fn by_descriptor(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd()).into()
    }

    /// The same folder, opened once more.
    /// Errors: where this process has no descriptor for it.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { folder: self.folder.try_clone()?, path: self.path.clone(), made: Vec::new() })
    }

    /// Whether there is nothing in it.
    /// Errors: where it cannot be read.
    pub fn is_empty(&self) -> io::Result<bool> {
        // Of its own, since reading moves on in it.
        let dir = Dir::from_fd(openat(&self.folder, ".", FOLDER, Mode::empty())?)?;
        for entry in dir {
            if ![c".", c".."].contains(&entry?.file_name()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a folder in it.
    /// Errors: where it cannot be made, or there is one.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        Self::make_in(self.folder.try_clone()?.into(), name.into(), self.path.join(name))
    }

    /// Makes a file in it, which its owner alone may read.
    /// Errors: where it cannot be made, or something has its name.
    pub fn create(&self, name: &str) -> io::Result<File> {
        create(&self.folder, name.as_ref(), FILE_MODE)
    }

    /// Opens a file of it to write.
    /// Errors: where there is none.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.folder, name, flags, Mode::empty())?))
    }

    /// Where a file is to be in it.
    /// Errors: those of [`OutputPlace::find`].
    pub fn place(&self, name: &str) -> io::Result<OutputPlace> {
        OutputPlace::find_in(self.folder.try_clone()?.into(), name.into(), self.path.join(name))
    }

    /// Gives a file another name, in place of what has that.
    /// Errors: as the system has it.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    /// Errors: as the system has it.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Waits until what is called how in it is on the disk, and those folders that were made for it.
    /// Errors: as the system has it.
    pub fn sync(&self) -> io::Result<()> {
        let above = self.made.iter().map(|(above, _)| above.as_fd());
        for folder in [self.folder.as_fd()].into_iter().chain(above) {
            // What is above was opened to look names up in it alone.
            let synced = openat(folder, ".", FOLDER, Mode::empty()).and_then(fsync);
            match synced {
                // A folder that may not be listed, or a file system that does nothing of the kind for folders.
                Err(Errno::EACCES | Errno::EINVAL) => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Removes it, if it was made and is empty, and likewise those above that were made for it.
    /// Errors: as the system has it; what is above stays then.
    pub fn discard(self) -> io::Result<()> {
        remove(&self.made)
    }
}

impl AsFd for OwnFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// What is in the way of a folder.
fn no_folder(at: &OwnedFd, name: &OsStr) -> io::Error {
    match look(at, name).and_then(|found| found.metadata()) {
        Ok(found) if found.is_symlink() => refused("it is a link"),
        Ok(_) => Errno::ENOTDIR.into(),
        Err(error) => error,
    }
}

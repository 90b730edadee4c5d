//! The way to a file or folder: each folder on it is opened, and what is a link is looked at before it is followed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::geteuid;
use noise_text::clean::quoted;

use super::{OTHERS_WRITE, refused};

/// Links on the way, as the kernel has it.
const MOST_LINKS: u32 = 40;

/// For what is only looked at, or gone through.
const LOOK: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// How far a path leads.
#[derive(Debug)]
pub struct Way {
    /// The last folder that is there.
    pub at: OwnedFd,
    /// What is missing below it.
    pub missing: VecDeque<OsString>,
}

/// Links that were followed so far.
#[derive(Debug, Default)]
pub struct Followed(u32);

impl Followed {
    fn another(&mut self) -> io::Result<()> {
        self.0 += 1;
        if self.0 > MOST_LINKS { Err(Errno::ELOOP.into()) } else { Ok(()) }
    }
}

/// The names in a path; the root is one of them.
fn names(path: &Path) -> Vec<OsString> {
    let components = path.components().filter(|component| *component != Component::CurDir);
    components.map(|component| component.as_os_str().to_owned()).collect()
}

/// What has that name in a folder; a link itself.
pub fn look(at: &OwnedFd, name: &OsStr) -> io::Result<File> {
    Ok(File::from(openat(at, name, LOOK, Mode::empty())?))
}

/// Opens a folder to go through it.
pub fn through(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(at, name, LOOK.union(OFlag::O_DIRECTORY), Mode::empty())?)
}

/// Follows a path from the current folder on, or from the root: then the current one may be out of reach.
pub fn from_here(path: &Path, followed: &mut Followed) -> io::Result<Way> {
    let begin = if path.is_absolute() { "/" } else { "." };
    let here = openat(AT_FDCWD, begin, LOOK.union(OFlag::O_DIRECTORY), Mode::empty())?;
    from(here, path, followed)
}

/// Follows a path from a folder on.
pub fn from(mut at: OwnedFd, path: &Path, followed: &mut Followed) -> io::Result<Way> {
    let mut missing: VecDeque<OsString> = names(path).into();
    while let Some(name) = missing.pop_front() {
        match through(&at, &name) {
            Ok(next) => at = next,
            // What stands there once the folder is made can be a link of another user: nothing behind it was looked at.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && missing.iter().any(|later| later == "..") =>
            {
                return Err(refused(format!(
                    "its path goes through {} and back (..), but that folder is not there: name the folder without ..",
                    quoted(&name.to_string_lossy())
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.push_front(name);
                break;
            }
            Err(error)
                if [libc::ENOTDIR, libc::ELOOP].map(Some).contains(&error.raw_os_error()) =>
            {
                for name in names(&on_the_way(&at, &name, followed)?).into_iter().rev() {
                    missing.push_front(name);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Way { at, missing })
}

/// Where a link leads that stands for a folder.
fn on_the_way(at: &OwnedFd, name: &OsStr, followed: &mut Followed) -> io::Result<PathBuf> {
    let link = look(at, name)?;
    let found = link.metadata()?;
    if !found.is_symlink() {
        return Err(Errno::ENOTDIR.into());
    }
    // The owner of a folder leads root through a link of his to any other one.
    if ![0, geteuid().as_raw()].contains(&found.uid()) {
        return Err(refused(format!(
            "its path goes through {}, a link of another user (uid {}): name the folder that it leads to",
            quoted(&name.to_string_lossy()),
            found.uid()
        )));
    }
    // Another user may have given a link that leads elsewhere this name.
    if found.nlink() > 1 && may_be_written_by_others(at)? {
        return Err(refused(format!(
            "its path goes through {}, a link that has other names, in a folder that other users may write to: name \
             the folder that it leads to",
            quoted(&name.to_string_lossy())
        )));
    }
    target(&link, followed)
}

/// Whether others than root and the caller may make names in a folder.
fn may_be_written_by_others(folder: &OwnedFd) -> io::Result<bool> {
    let found = fstat(folder)?;
    let is_others = ![0, geteuid().as_raw()].contains(&found.st_uid);
    Ok(is_others || found.st_mode & OTHERS_WRITE != 0)
}

/// Where a link leads that was looked at.
pub fn target(link: &File, followed: &mut Followed) -> io::Result<PathBuf> {
    followed.another()?;
    Ok(readlinkat(link, "")?.into())
}

impl Way {
    /// The folder at its end, with what is missing made: the folders above it with one mode, and it with another.
    pub fn make(self, above: u32, own: u32) -> io::Result<OwnedFd> {
        let Self { mut at, mut missing } = self;
        while let Some(name) = missing.pop_front() {
            let mode = Mode::from_bits_truncate(if missing.is_empty() { own } else { above });
            match mkdirat(&at, name.as_os_str(), mode) {
                // What another made meanwhile is gone through, unless it is a link.
                Ok(()) | Err(Errno::EEXIST) => at = through(&at, &name)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(at)
    }
}

/// Makes a file under a name that nothing has.
pub fn create(at: &impl AsFd, name: &OsStr, mode: u32) -> io::Result<File> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(File::from(openat(at, name, flags, Mode::from_bits_truncate(mode))?))
}

//! IO: files and folders that commands write where a person says, also as root, and where other users may interfere.
//!
//! A path is followed once, from folder to folder, and each is opened. From there on names are looked up in the folder
//! that was opened, whatever is called by its name meanwhile. Links are followed that root or the caller made.
//!
//! What has several files goes into an [`OwnFolder`], which nobody else may write to. A single file may go anywhere
//! ([`OutputPlace`]): it is written under a random name in the same folder, and renamed when it is complete.

mod file;
mod folder;
mod held;
mod limit;
mod way;

pub use file::{OutputPlace, Target};
pub use folder::{OwnFolder, Spot};
pub use held::HeldFolder;
pub use limit::{explained, outlive_limit};

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::geteuid;

use crate::procfs;

/// Files that name everything that ran: their owner says who else may read them.
pub const FILE_MODE: u32 = 0o600;
/// Files that anyone may read whom the umask leaves that.
pub const PLAIN_MODE: u32 = 0o666;
const FOLDER_MODE: u32 = 0o700;
/// Permissions to write of others than the owner.
const OTHERS_WRITE: u32 = 0o022;

fn refused(sentence: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, sentence.into())
}

/// Digits that nobody can guess.
fn random_digits() -> io::Result<String> {
    Ok(format!("{:032x}", procfs::uuid()?))
}

/// Whether anyone but its owner may write to a folder, or it is neither the caller's nor root's.
fn is_shared(folder: &Metadata) -> bool {
    folder.mode() & OTHERS_WRITE != 0 || ![0, geteuid().as_raw()].contains(&folder.uid())
}

/// Refuses a path that goes through a link which neither root nor the caller made. What is missing of it, or out of the
/// caller's reach, is not looked at.
/// Errors: in a sentence that says what to do.
pub fn ensure_own_way(path: &Path) -> io::Result<()> {
    let way = way::from_here(path, &mut way::Followed::default());
    // An error of the kernel has a number: whoever uses the path meets it there.
    way.map(drop).or_else(|error| error.raw_os_error().map(drop).ok_or(error))
}

/// What comes behind a name that only the time makes, in a folder: nothing, or, where others may write to it and could
/// take the name before, digits that they cannot guess.
/// Errors: where the kernel has none.
pub fn suffix_in(folder: &Path) -> io::Result<String> {
    // A folder that cannot be looked at is refused when it is written to.
    match folder.metadata() {
        Ok(found) if is_shared(&found) => Ok(format!("-{:.8}", random_digits()?)),
        _ => Ok(String::new()),
    }
}

#[cfg(test)]
mod tests;

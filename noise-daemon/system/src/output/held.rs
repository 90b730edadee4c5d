//! Folders that a daemon writes to for as long as it runs, which may be those of the user whom it serves.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::stat::fstat;
use nix::unistd::geteuid;

use super::way::{Followed, Way, from_here, look};
use super::{is_shared, refused};

/// A folder that was opened once, by a path without links of other users: all that is done in it is done there, whatever
/// has its name by then.
#[derive(Debug)]
pub struct HeldFolder(OwnedFd);

impl HeldFolder {
    /// The folder at the end of a path; `None` where it is missing.
    /// Errors: where the path goes through a link of another user, or the folder is refused, in a sentence that says what
    /// to do; else as the system has it.
    pub fn find(path: &Path) -> io::Result<Option<Self>> {
        let Way { at, missing } = from_here(path, &mut Followed::default())?;
        if !missing.is_empty() {
            return Ok(None);
        }
        Self::given(at).map(Some)
    }

    /// The same; what is missing is made: the folders above it with one mode, and it with another.
    /// Errors: those of [`Self::find`], and where a folder cannot be made.
    pub fn make(path: &Path, above: u32, own: u32) -> io::Result<Self> {
        Self::given(from_here(path, &mut Followed::default())?.make(above, own)?)
    }

    /// Refuses a folder of another user, unless root or the caller gave it to that user: such a user, who may put any folder
    /// of his there, would have what is written to it.
    fn given(folder: OwnedFd) -> io::Result<Self> {
        let owner = fstat(&folder)?.st_uid;
        if ![0, geteuid().as_raw()].contains(&owner) {
            let above = look(&folder, "..".as_ref())?.metadata()?;
            if is_shared(&above) {
                return Err(refused(format!(
                    "it belongs to another user (uid {owner}), and the folder above it is not root's alone: name a \
                     directory that belongs to the user of noised, or one in a folder that only root may write to"
                )));
            }
        }
        Ok(Self(folder))
    }

    /// A path that leads there for as long as this lives.
    pub fn by_descriptor(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};

    use super::*;

    const OTHER: u32 = 12_345;

    #[test]
    fn what_is_done_in_a_held_folder_is_done_there() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir(path("elsewhere")).unwrap();
        assert!(HeldFolder::find(&path("a/b")).unwrap().is_none());
        let held = HeldFolder::make(&path("a/b"), 0o755, 0o700).unwrap();
        assert_eq!(fs::metadata(path("a/b")).unwrap().mode() & 0o777, 0o700);
        fs::rename(path("a"), path("moved")).unwrap();
        fs::create_dir(path("a")).unwrap();
        symlink(path("elsewhere"), path("a/b")).unwrap();
        fs::write(held.by_descriptor().join("file"), "").unwrap();
        assert!(path("moved/b/file").exists() && !path("elsewhere/file").exists());
    }

    #[test]
    fn links_and_folders_of_other_users_are_refused() {
        if !geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let refusal = |name: &str| {
            let (found, made) =
                (HeldFolder::find(&path(name)), HeldFolder::make(&path(name), 0o755, 0o700));
            let found = found.unwrap_err().to_string();
            assert_eq!(made.unwrap_err().to_string(), found);
            found
        };
        fs::create_dir_all(path("home/state")).unwrap();
        chown(path("home/state"), Some(OTHER), None).unwrap();
        // Root gave it to that user.
        assert!(HeldFolder::find(&path("home/state")).unwrap().is_some());
        for (owner, mode) in [(OTHER, 0o755), (0, 0o1777), (0, 0o775)] {
            chown(path("home"), Some(owner), None).unwrap();
            fs::set_permissions(path("home"), fs::Permissions::from_mode(mode)).unwrap();
            let error = refusal("home/state");
            assert!(error.contains("another user (uid 12345)"), "{error}");
        }
        // Root's own is not asked where it is.
        fs::create_dir(path("home/own")).unwrap();
        assert!(HeldFolder::find(&path("home/own")).unwrap().is_some());
        symlink(path("home/own"), path("home/link")).unwrap();
        assert!(HeldFolder::find(&path("home/link")).unwrap().is_some());
        lchown(path("home/link"), Some(OTHER), None).unwrap();
        let error = refusal("home/link");
        assert!(error.contains("a link of another user"), "{error}");
    }
}

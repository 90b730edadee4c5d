//! Output files: written under a temporary name and renamed once they are whole. A command that ends before
//! that leaves an older file of that name as it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Recordings name everything that ran: their owner says who else may read them.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A file that is being written. Dropping it removes the temporary file.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    is_kept: bool,
}

impl Target {
    /// Begins a file.
    ///
    /// # Errors
    /// Where it cannot be written, or something other than a regular file has its name.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        // Renaming would put a file in place of a link, a device, a pipe.
        let path = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::canonicalize(path).with_context(cannot)?,
            _ => path.to_owned(),
        };
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            bail!("cannot write {}: it is no regular file", path.display());
        }
        let Some(name) = path.file_name() else {
            bail!("cannot write {}: it names no file", path.display());
        };
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.new", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(FILE_MODE).open(&temporary);
        let file = file.with_context(cannot)?;
        Ok(Self { path, temporary, file, is_kept: false })
    }

    /// Writes a piece.
    ///
    /// # Errors
    /// As the system has it.
    pub fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        let written = self.file.write_all(piece);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// As the system has it; then an older file is as it was.
    pub fn keep(mut self) -> anyhow::Result<()> {
        let kept = self.file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path));
        kept.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Makes a folder, where there is none.
///
/// # Errors
/// As the system has it.
pub fn folder(path: &Path) -> anyhow::Result<()> {
    let made = match fs::DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    };
    made.with_context(|| format!("cannot make the folder {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_bears_its_name_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut target = Target::create(&path).unwrap();
        target.write(b"half").unwrap();
        drop(target);
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (b"old".to_vec(), vec!["a".to_owned()])
        );
        let mut target = Target::create(&path).unwrap();
        target.write(b"new").unwrap();
        target.keep().unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (b"new".to_vec(), vec!["a".to_owned()])
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| Target::create(path).unwrap_err().to_string();
        assert!(error(folder.path()).contains("no regular file"));
        assert!(error(Path::new("/dev/null")).contains("no regular file"));
        assert!(error(&folder.path().join("none/a")).contains("cannot write"));
        let (link, path) = (folder.path().join("link"), folder.path().join("b"));
        fs::write(&path, "old").unwrap();
        symlink("b", &link).unwrap();
        let mut target = Target::create(&link).unwrap();
        target.write(b"new").unwrap();
        target.keep().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}

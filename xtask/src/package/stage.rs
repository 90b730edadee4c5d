//! A folder that looks as the root of a system will, to be packed.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::fresh;

/// A file of a package.
#[derive(Clone)]
pub struct Entry {
    /// Where it will be, without the leading slash.
    pub path: String,
    /// Permissions.
    pub mode: u32,
    /// What is in it.
    pub content: Vec<u8>,
    /// For the administrator to change: kept when the package is upgraded.
    pub is_configuration: bool,
}

impl Entry {
    /// A file that everybody may read.
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, content: content.into(), is_configuration: false }
    }
}

/// Lays the files out below `root`, which is made anew; times are the release's.
pub fn lay_out(root: &Path, entries: &[Entry], epoch: u64) -> Result<()> {
    fresh(root)?;
    add(root, entries, epoch)
}

/// Lays further files out.
pub fn add(root: &Path, entries: &[Entry], epoch: u64) -> Result<()> {
    for entry in entries {
        let path = root.join(&entry.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(&path, &entry.content)
            .with_context(|| format!("cannot write {}", path.display()))?;
        set_mode(&path, entry.mode)?;
    }
    settle(root, epoch)
}

/// Gives all that lies there the same time, and folders the usual permissions.
fn settle(folder: &Path, epoch: u64) -> Result<()> {
    let failure = || format!("cannot settle {}", folder.display());
    for entry in fs::read_dir(folder).with_context(failure)? {
        let path = entry.with_context(failure)?.path();
        if path.is_dir() {
            settle(&path, epoch)?;
        } else {
            set_time(&path, epoch)?;
        }
    }
    set_mode(folder, 0o755)?;
    set_time(folder, epoch)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}

fn set_time(path: &Path, epoch: u64) -> Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch);
    File::open(path)
        .and_then(|file| file.set_times(FileTimes::new().set_modified(time).set_accessed(time)))
        .with_context(|| format!("cannot set the time of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_have_the_modes_and_the_time_that_are_asked_for() -> Result<()> {
        let root = env::temp_dir().join(format!("noised-xtask-stage-{}", std::process::id()));
        let program = Entry { mode: 0o755, ..Entry::new("usr/bin/noised", "x") };
        let laid = lay_out(&root, &[program, Entry::new("etc/a", "y")], 1_000_000);
        let looked = [("usr/bin/noised", 0o755), ("etc/a", 0o644), ("usr/bin", 0o755)].map(
            |(path, mode)| {
                fs::metadata(root.join(path))
                    .map(|found| (found.mode() & 0o777 == mode, found.mtime()))
            },
        );
        fs::remove_dir_all(&root)?;
        laid?;
        for found in looked {
            assert_eq!(found?, (true, 1_000_000));
        }
        Ok(())
    }
}

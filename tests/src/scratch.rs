//! Folders and files of a test, which are gone when it ends.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

/// A folder of this process below the temporary ones, removed with what is in it when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes an empty one; its name says whose it is and what for.
    /// Errors: if it cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("noised-test-{}-{number}-{name}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The same for a command line.
    /// Errors: if that is no text.
    pub fn argument(&self) -> Result<&str> {
        argument(&self.0)
    }

    /// Writes a file in it, or another in its place: as operators should, whole or not at all.
    /// Errors: if it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let (new, path) = (self.0.join(format!("{name}.new")), self.0.join(name));
        fs::write(&new, text)?;
        fs::rename(new, &path)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A drop reports no error; the name says whose it was.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file in a folder of its own.
#[derive(Debug)]
pub struct TextFile {
    path: PathBuf,
    _folder: Folder,
}

impl TextFile {
    /// Writes it.
    /// Errors: if it cannot be written.
    pub fn new(name: &str, text: &str) -> Result<Self> {
        let folder = Folder::new(&format!("{name}.d"))?;
        let file = Self { path: folder.path().join(name), _folder: folder };
        file.write(text)?;
        Ok(file)
    }

    /// Writes something else into it.
    /// Errors: if it cannot be written.
    pub fn write(&self, text: &str) -> Result<()> {
        Ok(fs::write(&self.path, text)?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same for a command line.
    /// Errors: if that is no text.
    pub fn argument(&self) -> Result<&str> {
        argument(&self.path)
    }
}

/// A path for a command line.
/// Errors: if it is no text.
pub fn argument(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}

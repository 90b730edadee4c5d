//! A disk on which few pages may be dirty at a time, so that who writes to it is held back soon.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::disk::{LoopDevice, ScratchFile};
use crate::group::WriteLimit;
use crate::namespace::configure;

/// A file system of its own on a slow disk, of which little may be dirty at a time; gone when dropped.
#[derive(Debug)]
pub struct SlowDisk {
    folder: PathBuf,
    /// Settings of the device that are not its own, with what they were.
    settings: Vec<(PathBuf, String)>,
    limit: Option<WriteLimit>,
    // Behind the file system that is on it.
    _device: LoopDevice,
    _file: ScratchFile,
}

/// How much may be dirty, in parts of a hundred of what the host allows.
const DIRTY_PARTS: &str = "1";
/// How fast it is written, bytes per second: writers wait for it and leave the CPUs alone.
const WRITTEN_PER_SECOND: u64 = 8 << 20;

impl SlowDisk {
    /// Makes one and mounts it at a folder that is not there yet.
    /// Errors: if this host has none of what it takes.
    pub fn new(folder: PathBuf) -> Result<Self> {
        let file = ScratchFile::new("disk", 256)?;
        let device = LoopDevice::attach(&file)?;
        configure("mkfs.ext4", &["-q", "-F", &device.path()])?;
        fs::create_dir(&folder)?;
        let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name))?;
        let bdi = Path::new("/sys/class/bdi").join(number.trim());
        configure("mount", &[&device.path(), folder.to_str().context("no text")?])?;
        let name = device.name.clone();
        let settings = Vec::new();
        let mut disk = Self { folder, settings, limit: None, _device: device, _file: file };
        disk.limit = WriteLimit::of_host(&name, WRITTEN_PER_SECOND)?;
        ensure!(disk.limit.is_some(), "this host has no bound of what a disk is written");
        for (name, value) in [("max_ratio", DIRTY_PARTS), ("strict_limit", "1")] {
            let path = bdi.join(name);
            let before = fs::read_to_string(&path).with_context(|| format!("no {name}"))?;
            disk.settings.push((path.clone(), before.trim().to_owned()));
            fs::write(&path, value).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        for (path, before) in self.settings.iter().rev() {
            // The device is gone, and its settings with it.
            let _ = fs::write(path, before);
        }
        // What is dirty is written before the file system is gone.
        self.limit = None;
        // A failure shows as a leftover mount.
        let _ = configure("umount", &[&self.folder.to_string_lossy()]);
    }
}

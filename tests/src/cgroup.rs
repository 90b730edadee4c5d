//! A cgroup with a memory limit, gone when dropped.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The limit's cgroup. Its processes have to end before it is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    directory: PathBuf,
}

impl MemoryLimit {
    /// Makes one, on cgroup v1 or v2; `None` where this host gives no cgroup a memory limit.
    pub fn new(bytes: u64) -> Result<Option<Self>> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let v2 = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(v2.join("cgroup.subtree_control")).unwrap_or_default();
        let (parent, file) = if v1.join("memory.limit_in_bytes").exists() {
            (v1, "memory.limit_in_bytes")
        } else if controllers.split_whitespace().any(|name| name == "memory") {
            (v2, "memory.max")
        } else {
            return Ok(None);
        };
        let directory = parent.join(format!("noised-test-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let limit = Self { directory };
        fs::write(limit.directory.join(file), bytes.to_string()).context("setting the limit")?;
        Ok(Some(limit))
    }

    /// The file through which a process enters: it writes `0`.
    pub fn door(&self) -> Result<File> {
        let path = self.directory.join("cgroup.procs");
        let door = OpenOptions::new().write(true).open(&path);
        door.with_context(|| format!("opening {}", path.display()))
    }

    /// Puts a process into it.
    pub fn adopt(&self, pid: i32) -> Result<()> {
        fs::write(self.directory.join("cgroup.procs"), pid.to_string())
            .with_context(|| format!("moving process {pid}"))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // A process that has just ended may still be counted in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

//! Cgroups of tasks that come and go.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A cgroup; gone when dropped. Its processes and inner cgroups have to go before.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
}

/// The root of the hierarchy by which this host tells tasks apart: version 2, unless it has no
/// cgroups beside controllers of version 1.
fn hierarchy() -> Option<&'static Path> {
    let used = |root: &Path| {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        root.join("cgroup.controllers").exists()
            && entries.into_iter().any(|entry| entry.path().is_dir())
    };
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let unified = roots.into_iter().find(|root| used(root));
    let by_cpu = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"].map(Path::new);
    unified.or_else(|| by_cpu.into_iter().find(|root| root.join("cgroup.procs").exists()))
}

impl Group {
    /// Makes a cgroup of tasks at the top; `None` where this host has no hierarchy.
    pub fn new(name: &str) -> Result<Option<Self>> {
        let Some(root) = hierarchy() else { return Ok(None) };
        let name = format!("noised-test-{}-{name}", std::process::id());
        Self::create(root.join(name)).map(Some)
    }

    /// Makes a cgroup inside.
    pub fn inner(&self, name: &str) -> Result<Self> {
        Self::create(self.directory.join(name))
    }

    fn create(directory: PathBuf) -> Result<Self> {
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        Ok(Self { directory })
    }

    /// Runs a command to its end inside.
    pub fn run(&self, mut command: Command) -> Result<ExitStatus> {
        let door = OpenOptions::new().write(true).open(self.directory.join("cgroup.procs"))?;
        let descriptor = door.as_raw_fd();
        // SAFETY: write is async-signal-safe; the descriptor is open until the child has started.
        unsafe {
            command.pre_exec(move || match libc::write(descriptor, b"0".as_ptr().cast(), 1) {
                1 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        command.status().with_context(|| format!("running {command:?}"))
    }
}

impl Drop for Group {
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

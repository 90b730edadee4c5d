//! IO: what the kernel's files say of a cgroup beside events: its pressure, its CPU quota, the limits of its memory, and how
//! it and its culprit are set up. Rooted at paths, so that tests use fixture trees.
//!
//! A cgroup is named by its path from the root of its hierarchy. On hosts with both versions of cgroups its namesakes in
//! the hierarchies of the controllers count: systemd makes them so.

mod limits;
mod meeting;
mod task;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use noise_model::pressure::{PressureReading, Quota, QuotaReading, Stalls, Throttles};
use noise_system::procfs;
use noise_text::clean::clean;

use crate::resolve::cgroup::{Identity, Mounts, NodeNames};

pub use meeting::Meeting;
pub use task::CpuTimes;

#[derive(Debug)]
pub struct SetupReader {
    mounts: Mounts,
    procfs: PathBuf,
    sysfs: PathBuf,
    /// Whether systemd is the first process, and so makes the settings of units.
    has_systemd: bool,
    /// What pods and containers are called here.
    names: RefCell<NodeNames>,
}

/// A path below a mount point, where there is such a folder.
fn folder(root: Option<&PathBuf>, path: &Path) -> Option<PathBuf> {
    let folder = root?.join(path.strip_prefix("/").unwrap_or(path));
    folder.is_dir().then_some(folder)
}

impl SetupReader {
    pub fn of_host() -> Self {
        let reader = Self::new(Mounts::of_process(), Path::new("/proc"), Path::new("/sys"));
        Self { names: RefCell::new(NodeNames::of_host()), ..reader }
    }

    /// One of these hierarchies, where containers have no names.
    pub fn new(mounts: Mounts, procfs: &Path, sysfs: &Path) -> Self {
        let first = procfs::text(procfs.join("1/comm")).unwrap_or_default();
        let has_systemd = first.trim() == "systemd";
        let names = RefCell::new(NodeNames::below(None));
        Self { mounts, procfs: procfs.to_owned(), sysfs: sysfs.to_owned(), has_systemd, names }
    }

    /// What a cgroup is called wherever its limits are read, whatever the reader may know of its container: who compares has another
    /// reader.
    pub fn plain_label(path: &Path) -> String {
        clean(&Identity::of(path).label).into_owned()
    }

    /// What a cgroup is called here, as it is shown.
    pub fn label(&self, path: &Path) -> String {
        let identity = self.names.borrow_mut().identity(path, Instant::now());
        clean(&identity.label).into_owned()
    }

    /// Pressure, quota and limits of memory of a cgroup at this time, ns on the clock of the samples.
    pub fn pressure(&self, path: &Path, at_ns: u64) -> PressureReading {
        let stalls = |file: &str| self.stalls(path, file);
        let (cpu, io, memory) =
            (stalls("cpu.pressure"), stalls("io.pressure"), stalls("memory.pressure"));
        let (quotas, limits) = (self.quotas(path), self.limits(path));
        PressureReading { at_ns, cpu, io, memory, quotas, limits }
    }

    fn stalls(&self, path: &Path, file: &str) -> Result<Stalls, String> {
        let Some(own) = folder(self.mounts.unified.as_ref(), path) else {
            let old = [&self.mounts.cpu, &self.mounts.blkio];
            let is_old = old.into_iter().any(|root| folder(root.as_ref(), path).is_some());
            let why = match (is_old, &self.mounts.unified) {
                (_, None) => {
                    "only cgroups of version 2 have pressure files, and version 2 is not mounted"
                }
                (true, Some(_)) => {
                    "it is a cgroup of version 1, and only those of version 2 have pressure files"
                }
                (false, Some(_)) => "the cgroup is gone",
            };
            return Err(why.to_owned());
        };
        let text = procfs::text(own.join(file)).map_err(|error| why_unread(&own, &error))?;
        Stalls::parse(&text).ok_or_else(|| format!("{file} has another form than is known"))
    }

    /// The quotas of a cgroup and of those around it, the nearest first; where there is none, that the cgroup has none.
    fn quotas(&self, path: &Path) -> Result<Vec<QuotaReading>, String> {
        let of = |(above, path): (usize, &Path)| {
            let (quota, counted) = self.quota(path)?;
            Some(QuotaReading { of: Self::plain_label(path), above, quota, counted: counted? })
        };
        let around = path.ancestors().enumerate().filter_map(of);
        let quotas: Vec<_> = around.filter(|one| one.quota.quota_us.is_some()).collect();
        if !quotas.is_empty() {
            return Ok(quotas);
        }
        let why = "it has no cpu controller, which counts the periods of a quota";
        of((0, path)).map(|own| vec![own]).ok_or_else(|| why.to_owned())
    }

    /// The quota of a cgroup, with what it did so far.
    fn quota(&self, path: &Path) -> Option<(Quota, Option<Throttles>)> {
        let is_old = self.mounts.cpu.is_some();
        let own = folder(self.mounts.cpu.as_ref().or(self.mounts.unified.as_ref()), path)?;
        let text = |name: &str| procfs::text(own.join(name)).ok();
        let quota = match is_old {
            true => Quota::of_two(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?),
            false => Quota::parse(&text("cpu.max")?),
        };
        Some((quota?, Throttles::parse(&text("cpu.stat")?)))
    }
}

/// Why a pressure file is not read.
fn why_unread(folder: &Path, error: &io::Error) -> String {
    let is_off_here =
        || procfs::text(folder.join("cgroup.pressure")).is_ok_and(|text| text.trim() == "0");
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "PSI is off on this host: boot with psi=1 to have it".to_owned(),
        Some(libc::ENOENT) if !folder.exists() => "the cgroup is gone".to_owned(),
        Some(libc::ENOENT) if is_off_here() => {
            "PSI is off for this cgroup: its cgroup.pressure is 0".to_owned()
        }
        Some(libc::ENOENT) => "this kernel has no pressure files (CONFIG_PSI is off)".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;

//! Cgroups that keep planted work apart, gone when dropped.
//!
//! On version 1 tasks, block requests and sockets are grouped by hierarchies of their own; a
//! group is made under one name in each that it is needed in. The daemon counts a task for its cgroup
//! of version 2, and only in the root of that for the one of the `cpu` controller. Where version 2
//! has cgroups already, which this process may be in, a group for tasks is made there as well.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// What a group's work is to be kept apart for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// Tasks on CPUs.
    Cpu,
    /// Block requests.
    Io,
    /// Sockets.
    Sockets,
    /// Tasks, by the CPUs that they may run on.
    Cpuset,
    /// Tasks, by their number.
    Pids,
    /// Memory.
    Memory,
}

/// Mount points of cgroup hierarchies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mounts {
    cpu: Option<PathBuf>,
    blkio: Option<PathBuf>,
    cpuset: Option<PathBuf>,
    pids: Option<PathBuf>,
    memory: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl Mounts {
    fn parse(mountinfo: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some((front, back)) = line.split_once(" - ") else { continue };
            let (Some(point), mut back) = (front.split(' ').nth(4), back.split(' ')) else {
                continue;
            };
            let (kind, options) =
                (back.next().unwrap_or_default(), back.nth(1).unwrap_or_default());
            let has = |wanted: &str| options.split(',').any(|option| option == wanted);
            if kind == "cgroup2" {
                mounts.unified.get_or_insert(point.into());
            } else if kind == "cgroup" && has("cpu") {
                mounts.cpu.get_or_insert(point.into());
            } else if kind == "cgroup" && has("blkio") {
                mounts.blkio.get_or_insert(point.into());
            } else if kind == "cgroup" && has("cpuset") {
                mounts.cpuset.get_or_insert(point.into());
            } else if kind == "cgroup" && has("pids") {
                mounts.pids.get_or_insert(point.into());
            } else if kind == "cgroup" && has("memory") {
                mounts.memory.get_or_insert(point.into());
            }
        }
        mounts
    }

    fn of_host() -> Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/self/mountinfo")?))
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let old = self.cpu.iter().chain(&self.blkio).chain(&self.cpuset).chain(&self.pids);
        old.chain(&self.memory).chain(&self.unified)
    }

    fn point(&self, hierarchy: Hierarchy) -> Result<&Path> {
        let unified = self.unified.as_deref();
        let found = match hierarchy {
            Hierarchy::Cpu => self.cpu.as_deref().or(unified),
            Hierarchy::Io => self.blkio.as_deref().or(unified),
            Hierarchy::Sockets => unified,
            Hierarchy::Cpuset => self.cpuset.as_deref().or(unified),
            Hierarchy::Pids => self.pids.as_deref().or(unified),
            Hierarchy::Memory => self.memory.as_deref().or(unified),
        };
        found.with_context(|| format!("no cgroup hierarchy groups {hierarchy:?}"))
    }
}

fn has_children(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().is_dir())
}

/// How the names of this process' groups begin.
pub(crate) fn prefix() -> String {
    format!("noised-test-{}-", std::process::id())
}

/// The groups that this process has, of any name and hierarchy.
pub fn own_groups() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for mount in Mounts::of_host()?.all() {
        for entry in fs::read_dir(mount)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix()) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// A bound of what a disk is written by the whole host, until it is dropped: as a slow disk would be.
#[derive(Debug)]
pub struct WriteLimit {
    file: PathBuf,
    numbers: String,
}

impl WriteLimit {
    /// Bytes per second for a disk (`loop0`); `None` where this host has no such bound.
    pub fn of_host(disk: &str, per_second: u64) -> Result<Option<Self>> {
        let Some(blkio) = Mounts::of_host()?.blkio else { return Ok(None) };
        let file = blkio.join("blkio.throttle.write_bps_device");
        if !file.exists() {
            return Ok(None);
        }
        let numbers = fs::read_to_string(format!("/sys/block/{disk}/dev"))?.trim().to_owned();
        let before = fs::read_to_string(&file)?;
        let is_set = before.lines().any(|line| line.split(' ').next() == Some(numbers.as_str()));
        ensure!(!is_set, "{disk} has a bound already");
        fs::write(&file, format!("{numbers} {per_second}"))?;
        Ok(Some(Self { file, numbers }))
    }
}

impl Drop for WriteLimit {
    fn drop(&mut self) {
        // The disk is gone, and its bound with it.
        let _ = fs::write(&self.file, format!("{} 0", self.numbers));
    }
}

/// A cgroup, or several of one name. Its processes and inner groups have to go before.
#[derive(Debug)]
pub struct Group {
    name: String,
    directories: Vec<PathBuf>,
}

impl Group {
    /// Makes a group for work that is to be kept apart in these respects.
    /// Errors: if this host has no hierarchy for one of them, or does not let us make cgroups.
    pub fn new(name: &str, hierarchies: &[Hierarchy]) -> Result<Self> {
        let mounts = Mounts::of_host()?;
        let mut group = Self { name: format!("{}{name}", prefix()), directories: Vec::new() };
        let mut points = Vec::new();
        for &hierarchy in hierarchies {
            points.push(mounts.point(hierarchy)?);
            if hierarchy == Hierarchy::Cpu {
                points.extend(mounts.unified.as_deref().filter(|unified| has_children(unified)));
            }
        }
        for point in points {
            let directory = point.join(&group.name);
            if !group.directories.contains(&directory) {
                fs::create_dir(&directory)
                    .with_context(|| format!("creating {}", directory.display()))?;
                group.directories.push(directory);
            }
        }
        Ok(group)
    }

    /// Makes a group inside.
    pub fn inner(&self, name: &str) -> Result<Self> {
        let mut inner = Self { name: format!("{}/{name}", self.name), directories: Vec::new() };
        for directory in self.directories.iter().map(|directory| directory.join(name)) {
            fs::create_dir(&directory)
                .with_context(|| format!("creating {}", directory.display()))?;
            inner.directories.push(directory);
        }
        Ok(inner)
    }

    /// Its folder, in the first of its hierarchies.
    pub fn directory(&self) -> Result<&Path> {
        Ok(self.directories.first().context("a group without a directory")?)
    }

    /// Its folders, one in each of its hierarchies.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }

    /// Whether this host groups work in this respect.
    pub fn is_possible(hierarchy: Hierarchy) -> Result<bool> {
        Ok(Mounts::of_host()?.point(hierarchy).is_ok())
    }

    /// Whether this host groups work by different hierarchies in these two respects.
    pub fn are_apart(one: Hierarchy, other: Hierarchy) -> Result<bool> {
        let mounts = Mounts::of_host()?;
        Ok(match (mounts.point(one), mounts.point(other)) {
            (Ok(one), Ok(other)) => one != other,
            _ => false,
        })
    }

    /// What the daemon calls it.
    pub fn label(&self) -> String {
        format!("/{}", self.name)
    }

    /// Lets the process that `command` starts enter before it becomes the program.
    pub fn admit(&self, command: &mut Command) -> Result<()> {
        for path in self.directories.iter().map(|directory| directory.join("cgroup.procs")) {
            let door = OpenOptions::new().write(true).open(&path);
            let door = door.with_context(|| format!("opening {}", path.display()))?;
            // SAFETY: write is async-signal-safe; the file was opened before the fork.
            unsafe { command.pre_exec(move || (&door).write_all(b"0")) };
        }
        Ok(())
    }

    /// Takes in a process that runs already.
    /// Errors: if there is no such process.
    pub fn adopt(&self, pid: u32) -> Result<()> {
        for path in self.directories.iter().map(|directory| directory.join("cgroup.procs")) {
            fs::write(&path, pid.to_string()).with_context(|| format!("moving process {pid}"))?;
        }
        Ok(())
    }

    /// Runs a command to its end inside.
    pub fn run(&self, mut command: Command) -> Result<ExitStatus> {
        self.admit(&mut command)?;
        command.status().with_context(|| format!("running {command:?}"))
    }

    /// The threads that are in it now.
    pub fn threads(&self) -> Result<BTreeSet<i32>> {
        let directory = self.directory()?;
        // Of version 1, then of version 2.
        let text = fs::read_to_string(directory.join("tasks"))
            .or_else(|_| fs::read_to_string(directory.join("cgroup.threads")))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn set(&self, file: &str, text: &str) -> Result<bool> {
        for path in self.directories.iter().map(|directory| directory.join(file)) {
            if path.exists() {
                fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets it run for `quota` of every `period` only; false where this host limits no group.
    pub fn limit_cpu(&self, quota: Duration, period: Duration) -> Result<bool> {
        let (quota, period) = (quota.as_micros(), period.as_micros());
        Ok(self.set("cpu.max", &format!("{quota} {period}"))?
            || (self.set("cpu.cfs_period_us", &period.to_string())?
                && self.set("cpu.cfs_quota_us", &quota.to_string())?))
    }

    /// Lets it read from a disk (`vda`) so often a second, which the kernel waits for below the disk's own requests;
    /// false where this host limits no group.
    pub fn limit_reads(&self, disk: &str, per_second: u32) -> Result<bool> {
        let numbers = fs::read_to_string(format!("/sys/block/{disk}/dev"))?;
        let numbers = numbers.trim();
        Ok(self.set("io.max", &format!("{numbers} riops={per_second}"))?
            || self.set("blkio.throttle.read_iops_device", &format!("{numbers} {per_second}"))?)
    }

    /// Lets it run on these CPUs only; false where this host keeps no group to CPUs.
    pub fn allow_cpus(&self, cpus: &str) -> Result<bool> {
        // A group of version 1 takes no process before its memory nodes are set.
        let around = self.directories.iter().filter_map(|directory| directory.parent());
        let nodes = around.map(|parent| fs::read_to_string(parent.join("cpuset.mems")));
        if let Some(Ok(nodes)) = nodes.into_iter().find(Result::is_ok) {
            self.set("cpuset.mems", nodes.trim())?;
        }
        self.set("cpuset.cpus", cpus)
    }

    /// Lets its threads be real-time threads for so much of each second, per cent, where that is not allowed anyway.
    pub fn allow_realtime(&self, percent: u32) -> Result<()> {
        self.set("cpu.rt_runtime_us", &(10_000 * percent).to_string()).map(drop)
    }

    /// Lets it have so much memory, page cache included; false where this host limits no group's.
    pub fn limit_memory(&self, mebibytes: u64) -> Result<bool> {
        let bytes = (mebibytes << 20).to_string();
        Ok(self.set("memory.max", &bytes)? || self.set("memory.limit_in_bytes", &bytes)?)
    }

    /// Lets it have so many tasks; false where this host does not count them.
    pub fn limit_tasks(&self, tasks: u32) -> Result<bool> {
        self.set("pids.max", &tasks.to_string())
    }

    /// Gives it as much of the CPUs as that many groups have; without effect where a host weighs no
    /// groups.
    pub fn weigh(&self, groups: u32) -> Result<()> {
        let _ = self.set("cpu.weight", &(100 * groups).to_string())?
            || self.set("cpu.shares", &(1024 * groups).to_string())?;
        Ok(())
    }

    /// How long its quota has kept it from running, nanoseconds, by the kernel's own account.
    pub fn throttled_ns(&self) -> Result<u64> {
        for path in self.directories.iter().map(|directory| directory.join("cpu.stat")) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for line in text.lines() {
                match line.split_once(' ') {
                    Some(("throttled_time", nanoseconds)) => return Ok(nanoseconds.parse()?),
                    Some(("throttled_usec", microseconds)) => {
                        return Ok(microseconds.parse::<u64>()? * 1000);
                    }
                    _ => {}
                }
            }
        }
        anyhow::bail!("{} has no account of throttling", self.name)
    }
}

/// Removes a cgroup. A process that has just ended may still be counted in it, for a moment or longer.
/// Errors: if it cannot be removed within a second or two.
pub fn remove(directory: &Path) -> std::io::Result<()> {
    let mut pause = Duration::from_micros(100);
    while pause < Duration::from_secs(1) {
        if fs::remove_dir(directory).is_ok() {
            return Ok(());
        }
        thread::sleep(pause);
        pause *= 2;
    }
    fs::remove_dir(directory)
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            // What is left is found by the look at the surroundings.
            let _ = remove(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hierarchy, Mounts};

    #[test]
    fn hierarchies_of_version_1_go_before_version_2() {
        let hybrid = "31 24 0:27 / /g/unified rw shared:1 - cgroup2 cgroup2 rw\n\
            32 24 0:28 / /g/cpu rw shared:2 - cgroup cgroup rw,cpu,cpuacct\n\
            33 24 0:29 / /g/blkio rw - cgroup cgroup rw,blkio\n";
        let mounts = Mounts::parse(hybrid);
        let point = |hierarchy| mounts.point(hierarchy).unwrap().to_str().unwrap().to_owned();
        assert_eq!(point(Hierarchy::Cpu), "/g/cpu");
        assert_eq!(point(Hierarchy::Io), "/g/blkio");
        assert_eq!(point(Hierarchy::Sockets), "/g/unified");
        let unified = Mounts::parse("31 24 0:27 / /g rw - cgroup2 cgroup2 rw\n");
        assert_eq!(unified.point(Hierarchy::Cpu).unwrap().to_str(), Some("/g"));
        assert!(Mounts::parse("").point(Hierarchy::Cpu).is_err());
    }
}

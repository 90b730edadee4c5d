//! A web service that is disturbed in every way that this project has a signal for.

use std::env;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::cgroup::MemoryLimit;
use crate::disk::{LoopDevice, ScratchFile};
use crate::group::{Group, Hierarchy};
use crate::load::{Place, Worker};
use crate::namespace::{VethPair, configure};

/// Options of a daemon whose baselines take seconds instead of minutes.
pub const CONFIGURATION: &[u8] = b"[incidents]\nwarmup-windows = 20\n\
    recent-windows = 8\nclosing-windows = 6\n";
/// How long the service runs alone: what is usual is learnt from it.
pub const QUIET: Duration = Duration::from_secs(22);
/// How long it is disturbed before everything has had its effect.
pub const DISTURBED: Duration = Duration::from_secs(28);

const RATE: &str = "20mbit";
const CPU: &str = "0";
const OTHER_CPU: &str = "1";
/// Where writing has the kernel compact all memory, which the writer waits for.
const COMPACT: &str = "/proc/sys/vm/compact_memory";
const PACE: Duration = Duration::from_secs(3);

/// Everything that goes on. A group that is delayed or delays stays on one CPU: Linux 6.18 weighs a group
/// anew whenever its part on another CPU wakes up, forgets each time what it has had, and can keep
/// everyone else from that CPU for minutes.
#[derive(Debug)]
pub struct Bustle {
    // Before the groups that they are in.
    workers: Vec<Worker>,
    limit: Option<MemoryLimit>,
    web: Group,
    backup: Group,
    bulk: Group,
    limited: Group,
    roaming: Group,
    wire: VethPair,
    // Before the file that it lies on.
    device: LoopDevice,
    _backing: ScratchFile,
    file: ScratchFile,
}

impl Bustle {
    /// Starts the service. Not before the daemon has started (see [`crate::group`]).
    pub fn start() -> Result<Self> {
        let file = ScratchFile::new("web", 64)?;
        let backing = ScratchFile::new("loop", 32)?;
        let device = LoopDevice::attach(&backing)?;
        let wire = VethPair::new()?;
        let queue = ["qdisc", "add", "dev", &wire.near, "root", "tbf", "rate", RATE];
        configure("tc", &[&queue[..], &["burst", "3000", "limit", "100000"]].concat())?;
        let all = [Hierarchy::Cpu, Hierarchy::Io, Hierarchy::Sockets];
        let group = |name| Group::new(name, &all);
        let mut bustle = Self {
            workers: Vec::new(),
            limit: MemoryLimit::new(24 << 20)?,
            web: group("web")?,
            backup: group("backup")?,
            bulk: group("bulk")?,
            limited: Group::new("limited", &[Hierarchy::Cpu])?,
            roaming: Group::new("roaming", &[Hierarchy::Cpu])?,
            wire,
            device,
            _backing: backing,
            file,
        };
        bustle.serve()?;
        Ok(bustle)
    }

    fn serve(&mut self) -> Result<()> {
        let place = Place::group(&self.web);
        let reads = [CPU, self.file.argument()?, "4096", "4000", "0"];
        let loads: [(&str, &[&str]); 5] = [
            ("sleep", &[CPU, "2000"]),
            ("primes", &[CPU, "20000"]),
            ("direct-reads", &reads),
            ("frames", &[CPU, &self.wire.near, "500", "1", "4000"]),
            ("tcp", &[CPU, CPU, "1000", "5000"]),
        ];
        for (name, arguments) in loads {
            self.workers.push(Worker::start_at(place, name, arguments)?);
        }
        Ok(())
    }

    /// Starts what disturbs it.
    pub fn disturb(&mut self) -> Result<()> {
        let path = self.file.argument()?.to_owned();
        let device = self.device.path();
        self.limited.limit_cpu(Duration::from_millis(20), Duration::from_millis(100))?;
        let near = &self.wire.near;
        let loads: [(&Group, &str, &[&str]); 9] = [
            (&self.backup, "burn", &[CPU]),
            (&self.roaming, "burn", &["any"]),
            (&self.backup, "direct-reads", &[CPU, &path, "262144", "1000", "0"]),
            (&self.backup, "synced-writes", &[CPU, &path, "5000"]),
            (&self.backup, "direct-reads", &[CPU, &device, "4096", "1000", "0"]),
            (&self.bulk, "frames", &[OTHER_CPU, near, "1400", "16", "4000"]),
            (&self.bulk, "udp-flood", &[OTHER_CPU, "1000", "3000"]),
            (&self.bulk, "udp-drops", &[OTHER_CPU, "2000"]),
            (&self.limited, "burn", &["any"]),
        ];
        for (group, name, arguments) in loads {
            self.workers.push(Worker::start_at(Place::group(group), name, arguments)?);
        }
        self.workers.push(Worker::start("timer", &[CPU, "300"])?);
        if let Some(limit) = &self.limit {
            let directory = env::temp_dir();
            let directory = directory.to_str().context("a path that is not UTF-8")?;
            let writer = Worker::start("new-pages", &[OTHER_CPU, directory, "64"])?;
            limit.adopt(writer.pid())?;
            self.workers.push(writer);
        }
        Ok(())
    }

    /// Lets it go on for a time, with what has to be provoked again and again.
    pub fn go_on(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if Path::new(COMPACT).exists() {
                fs::write(COMPACT, "1").context("asking for compaction")?;
            }
            Worker::start("syn-retransmits", &["10"])?.figures()?;
            thread::sleep(PACE.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// What the daemon calls the service.
    pub fn service(&self) -> String {
        self.web.label()
    }

    /// The loop device that is read, and the interface whose queue is full.
    pub fn places(&self) -> [&str; 2] {
        [&self.device.name, &self.wire.near]
    }
}

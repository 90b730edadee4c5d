//! The work that is slowed down: short operations that pass the hooks often.

mod pingpong;
mod reads;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;

pub use self::pingpong::echo;

/// The argument that makes the benchmark's binary the partner of a ping-pong.
pub const ECHO: &str = "echo";

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Two processes on one CPU send four bytes to and fro through two pipes, as `perf bench sched
    /// pipe` does. One operation is a round: two switches.
    Pipe,
    /// Two processes on one CPU send one byte to and fro over TCP on loopback. One operation is a
    /// round.
    Tcp,
    /// 4 KiB direct reads at random places of a file on the disk of the temporary directory.
    Disk,
    /// 4 KiB direct reads at random places of a loop device over a file on tmpfs.
    Loop,
}

impl Kind {
    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Tcp => "tcp",
            Self::Disk => "disk",
            Self::Loop => "loop",
        }
    }

    /// Length of a burst: long enough for the clock, short enough to fit between disturbances.
    fn burst(self) -> Duration {
        match self {
            Self::Pipe | Self::Tcp | Self::Loop => Duration::from_micros(1500),
            // A read takes a tenth of a millisecond and varies by half of that.
            Self::Disk => Duration::from_micros(4000),
        }
    }
}

/// Something that can be done again and again.
pub trait Operation {
    /// Does it `count` times.
    fn repeat(&mut self, count: u32) -> Result<()>;
}

/// A workload that is set up.
pub struct Workload {
    /// Which one.
    pub kind: Kind,
    /// What it works on (`vda`), where that matters.
    pub subject: Option<String>,
    operation: Box<dyn Operation>,
    burst: u32,
}

impl Workload {
    /// Sets it up and finds out how many operations make a burst.
    /// Errors: if this host cannot do it.
    pub fn prepare(kind: Kind) -> Result<Self> {
        let (operation, subject): (Box<dyn Operation>, _) = match kind {
            Kind::Pipe => (Box::new(pingpong::PingPong::over_pipes()?), None),
            Kind::Tcp => (Box::new(pingpong::PingPong::over_tcp()?), None),
            Kind::Disk => {
                let reads = reads::RandomReads::of_disk()?;
                let subject = reads.subject.clone();
                (Box::new(reads), Some(subject))
            }
            Kind::Loop => {
                let reads = reads::RandomReads::of_loop_device()?;
                let subject = reads.subject.clone();
                (Box::new(reads), Some(subject))
            }
        };
        let mut workload = Self { kind, subject, operation, burst: 1 };
        let reached = workload.repeat_for(Duration::from_millis(100))?;
        let share = kind.burst().as_secs_f64() / 0.1;
        workload.burst = ((reached as f64 * share) as u32).max(1);
        Ok(workload)
    }

    /// One burst; returns ns per operation.
    pub fn burst(&mut self) -> Result<f64> {
        let start = Instant::now();
        self.operation.repeat(self.burst)?;
        Ok(start.elapsed().as_nanos() as f64 / f64::from(self.burst))
    }

    /// Repeats the operation for some time; returns how often.
    pub fn repeat_for(&mut self, time: Duration) -> Result<u64> {
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < time {
            self.operation.repeat(self.burst)?;
            done += u64::from(self.burst);
        }
        Ok(done)
    }
}

//! How fast traces are read, and in how much memory, beside babeltrace2.
//!
//! Each program reads the same trace on one CPU, its output going to `/dev/null`; they take turns, and what is
//! compared is the CPU time (user and system) of the turns of one round, so that what else runs on the machine counts
//! little. Starting, and reading the metadata, are in it. The first program of a round is run once more in it: these
//! two against each other are the null control.

#[cfg(feature = "reading")]
pub mod fields;
pub mod input;
pub mod report;
#[cfg(feature = "reading")]
pub mod simulated;

use std::ffi::OsString;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::daemon::{binary, capture};

/// The argument that makes `noise-reading` the reader of all fields.
pub const FIELDS: &str = "fields";

/// The thread whose path is looked for: the one that creates all others of `many-threads`, whose path leads through
/// thousands of them.
const THREAD: u32 = 2673;

/// Programs, in the order of their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// noised: events are counted by kind and CPU. Headers and times are decoded, and of fields what says where
    /// the next event begins.
    Count,
    /// babeltrace2: all fields are decoded, for a component that drops them: its cheapest complete reading.
    Drop,
    /// As the first; the null control.
    CountAgain,
    /// Readers of noised: all fields are decoded and looked at.
    Fields,
    /// noised: a line of text for each event.
    Text,
    /// babeltrace2: the same.
    TheirText,
    /// noised: what waited, and for whom.
    Delays,
    /// noised: the critical path of a thread in the last repetition. All events before are read, and forgotten, and for
    /// whom it waited is found in a second reading.
    Path,
}

/// All of them.
pub const PROGRAMS: [Program; 8] = [
    Program::Count,
    Program::Drop,
    Program::CountAgain,
    Program::Fields,
    Program::Text,
    Program::TheirText,
    Program::Delays,
    Program::Path,
];

impl Program {
    /// What it does, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "noised trace events --summary",
            Self::Drop => "babeltrace2 -o dummy",
            Self::CountAgain => "the first again",
            Self::Fields => "all fields, by noised's reader",
            Self::Text => "noised trace events",
            Self::TheirText => "babeltrace2",
            Self::Delays => "noised trace delays",
            Self::Path => "noised trace critical-path",
        }
    }

    /// What it is compared with: how much longer that takes.
    pub const fn against(self) -> Option<Self> {
        match self {
            Self::Count | Self::Fields => Some(Self::Drop),
            Self::CountAgain => Some(Self::Count),
            Self::Text => Some(Self::TheirText),
            Self::Path => Some(Self::Count),
            Self::Drop | Self::TheirText | Self::Delays => None,
        }
    }

    fn command(self, folder: &Path, last_ns: u64) -> Result<Command> {
        let (program, words): (OsString, &[&str]) = match self {
            Self::Count | Self::CountAgain => (binary()?.into(), &["trace", "events", "--summary"]),
            Self::Text => (binary()?.into(), &["trace", "events"]),
            Self::Delays => (binary()?.into(), &["trace", "delays"]),
            Self::Path => (binary()?.into(), &["trace", "critical-path"]),
            Self::Fields => (std::env::current_exe()?.into(), &[FIELDS]),
            Self::Drop => ("babeltrace2".into(), &["-o", "dummy"]),
            Self::TheirText => ("babeltrace2".into(), &["--clock-gmt"]),
        };
        let mut command = Command::new(program);
        command.args(words).arg(folder);
        if self == Self::Path {
            let execution = format!("--execution=thread:{THREAD}@+{last_ns}ns..");
            command.arg(execution);
        }
        Ok(command)
    }

    /// Runs it once. The last repetition begins so long after the first one.
    /// Errors: if it cannot be started, fails, or complains.
    pub fn run(self, folder: &Path, last_ns: u64) -> Result<Spent> {
        let spent = spent(&mut self.command(folder, last_ns)?);
        spent.with_context(|| self.name())
    }
}

/// What a run of a program took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// From its start to its end.
    pub wall: Duration,
    /// CPU time of it, user and system.
    pub cpu: Duration,
    /// The most memory that it had resident, pages of mapped files included, bytes. That of this program is a lower
    /// bound of what the kernel says.
    pub peak_bytes: u64,
}

fn duration(time: libc::timeval) -> Duration {
    let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn spent(command: &mut Command) -> Result<Spent> {
    let complaints = capture()?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints.try_clone()?);
    let start = Instant::now();
    let child = command.spawn().context("cannot be started")?;
    let pid = i32::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: an all-zero value is valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: both are written during the call only. The child is not waited for elsewhere.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    ensure!(waited == pid, "wait4: {}", io::Error::last_os_error());
    let wall = start.elapsed();
    let mut text = vec![0; usize::try_from(complaints.metadata()?.len())?.min(1000)];
    complaints.read_exact_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text);
    ensure!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "fails: {text}");
    ensure!(text.is_empty(), "complains: {text}");
    Ok(Spent {
        wall,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        peak_bytes: u64::try_from(usage.ru_maxrss)? << 10,
    })
}

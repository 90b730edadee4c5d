//! The program whose executions are compared: Debian's Python, recorded by `noised record -- python3 …`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::daemon::{binary, run};
use crate::disk::ScratchFile;
use crate::group::Group;
use crate::scratch::Folder;

/// What it is.
const TEXT: &str = include_str!("program.py");
/// What it marks its executions as.
pub const EXECUTION: &str = "mark:work";
/// Kinds of executions: each round has one of every.
pub const KINDS: [&str; 5] = ["compute", "read", "pipe", "lock", "sleep"];
/// What it reads from, MiB: as much as one long read does.
const FILE_MIB: usize = 16;
/// Debian's Python, where it is there.
const PYTHON: &str = "/usr/bin/python3";
/// A real-time priority: what else runs on this host takes no CPU from it.
pub const FIRST: u32 = 10;
/// No priority.
pub const NONE: u32 = 0;

/// What is planted in the middle of each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A long read from the disk.
    Read,
    /// It computes in vain.
    Loop,
    /// Threads queue up for a lock, it behind them.
    Convoy,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Loop, Self::Convoy];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Loop => "loop",
            Self::Convoy => "convoy",
        }
    }
}

/// An execution, as the program itself knows it; times are nanoseconds on CLOCK_MONOTONIC.
#[derive(Clone, Debug, Deserialize)]
pub struct Known {
    /// `KIND-ROUND`.
    pub key: String,
    /// Its kind.
    pub kind: String,
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Begin and end of what was planted.
    pub fault: Option<(u64, u64)>,
}

/// A recording of the program.
#[derive(Debug)]
pub struct Recorded {
    /// Its folder.
    pub folder: PathBuf,
    /// What was executed, in that order.
    pub known: Vec<Known>,
    /// Whether no event was lost.
    pub is_whole: bool,
}

/// The program with what it needs, and where its recordings go.
#[derive(Debug)]
pub struct Program {
    file: ScratchFile,
    folder: PathBuf,
    _scratch: Option<Folder>,
}

impl Program {
    /// Writes the program and the file that it reads. Recordings go to a folder, or are gone with this. `None` where the
    /// temporary directory is on no disk.
    /// Errors: if something cannot be written.
    pub fn prepare(keep: Option<&Path>) -> Result<Option<Self>> {
        let scratch = if keep.is_some() { None } else { Some(Folder::new("compared")?) };
        let folder = keep.or(scratch.as_ref().map(Folder::path)).context("no folder")?.to_owned();
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let file = ScratchFile::new("compared", FILE_MIB)?;
        if file.disk()?.is_none() {
            return Ok(None);
        }
        fs::write(folder.join("program.py"), TEXT)?;
        Ok(Some(Self { file, folder, _scratch: scratch }))
    }

    /// Records so many rounds of it, each with one execution of every kind, in a cgroup of its own if need be.
    /// Errors: if the program fails, or the recording does.
    pub fn record(
        &self,
        name: &str,
        fault: Option<Fault>,
        rounds: u32,
        priority: u32,
        group: Option<&Group>,
    ) -> Result<Recorded> {
        let folder = self.folder.join(name);
        let log = self.folder.join(format!("{name}.json"));
        let mut command = Command::new(binary()?);
        command.args(["record", "--own", "--events", "sched,io", "-o"]).arg(&folder).arg("--");
        for directory in group.into_iter().flat_map(Group::directories) {
            // The shell enters, and becomes the rest of the command.
            command.args(["sh", "-c", "echo 0 > \"$0\" && exec \"$@\""]);
            command.arg(directory.join("cgroup.procs"));
        }
        command.arg(python()).arg(self.folder.join("program.py"));
        command.args([fault.map_or("none", Fault::name), &rounds.to_string()]);
        command.arg(self.file.path()).arg(&log).arg(priority.to_string());
        let outcome = run(command)?;
        ensure!(
            outcome.code == 0,
            "recording {name} ends with {}: {}",
            outcome.code,
            outcome.stderr
        );
        let is_whole = outcome.stderr.contains("none lost");
        let text =
            fs::read_to_string(&log).with_context(|| format!("reading {}", log.display()))?;
        Ok(Recorded { folder, known: serde_json::from_str(&text)?, is_whole })
    }
}

/// The command of Python: Debian's, where it is there.
pub fn python() -> OsString {
    if Path::new(PYTHON).exists() { PYTHON.into() } else { "python3".into() }
}

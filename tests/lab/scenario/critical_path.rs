//! The critical path of a program, quiet and beside nine burners: two recordings of the same work.
//!
//! Without cgroups, as in the paper, and each burner on one CPU: Linux 6.18 can let a group whose tasks are on several CPUs
//! keep one of them from all others for minutes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::disk::ScratchFile;
use crate::load::indexer::{FILE_MEBIBYTES, MARK, NAMES};
use crate::load::{Figures, Worker};
use crate::recorded::{start_recording, stop_recording};
use crate::scratch::{Folder, argument};
use crate::task::{cpus, monotonic_ns, sched_stat};

/// How many burn.
pub const BURNERS: usize = 9;
/// What they are called.
pub const BURNER: &str = "burn";
/// The recordings' folders.
const QUIET: &str = "quiet";
const NOISY: &str = "beside-nine";
/// On more CPUs, nine burners would leave some of them idle.
const MOST_CPUS: usize = 4;

/// The unit of `/proc/stat`.
const TICK_NS: u64 = 10_000_000;

/// What the hypervisor has had of all CPUs so far, to a tick, ns.
fn stolen_ns() -> Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    let ticks: u64 = ticks.context("/proc/stat has no steal")?.parse()?;
    Ok(ticks * TICK_NS)
}

/// A recording of one phase, and what the kernel itself says of it.
#[derive(Debug)]
pub struct Recorded {
    /// Its folder.
    pub folder: PathBuf,
    /// What the program did.
    pub figures: Figures,
    /// How much CPU time the program's CPUs had meanwhile, nanoseconds.
    pub capacity_ns: u64,
    /// How much of it the burners had.
    pub burned_ns: u64,
    /// How much of it the hypervisor may have had.
    pub stolen_ns: u64,
}

/// What is needed for it.
#[derive(Debug)]
pub struct PathStage {
    file: Option<ScratchFile>,
    cpus: String,
    cpu_count: usize,
    executions: u64,
    primes: u64,
    folder: PathBuf,
    _scratch: Option<Folder>,
}

impl PathStage {
    /// Writes the file that the program reads. The recordings go to a folder, or are gone with the stage; the program does
    /// its work so many times in each, with a search of the first so many primes in eight steps of it.
    /// Errors: if something cannot be written, or recordings are there already.
    pub fn prepare(keep: Option<&Path>, executions: u64, primes: u64) -> Result<Self> {
        let scratch = if keep.is_some() { None } else { Some(Folder::new("paths")?) };
        let folder = keep.or(scratch.as_ref().map(Folder::path)).context("no folder")?.to_owned();
        for name in [QUIET, NOISY] {
            let place = folder.join(name);
            ensure!(!place.exists(), "{} is there already: name another folder", place.display());
        }
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let file = ScratchFile::new("index", FILE_MEBIBYTES)?;
        let read = Worker::start("direct-reads", &["0", file.argument()?, "131072", "0", "1"]);
        let can_read = read.and_then(|worker| worker.stop().map(drop)).is_ok();
        let file =
            Some(file).filter(|file| can_read && file.disk().is_ok_and(|disk| disk.is_some()));
        let cpu_count = cpus().min(MOST_CPUS);
        let cpus: Vec<_> = (0..cpu_count).map(|cpu| cpu.to_string()).collect();
        let cpus = cpus.join(",");
        Ok(Self { file, cpus, cpu_count, executions, primes, folder, _scratch: scratch })
    }

    /// What is planted, in a sentence.
    pub fn plot(&self) -> String {
        let [program, helper] = NAMES;
        let reads = match &self.file {
            Some(_) => "reads from a disk",
            None => "reads from no disk, since the temporary directory is on none",
        };
        format!(
            "{program} computes, {reads}, has {helper} add up what it read, and sleeps: {} times alone, then {} times \
             beside {BURNERS} burners, all on CPUs {}",
            self.executions, self.executions, self.cpus
        )
    }

    /// What an execution is.
    pub fn execution() -> String {
        format!("mark:{MARK}")
    }

    /// Records the program, beside the burners or without them.
    /// Errors: if the recording fails, or the work.
    pub fn record(&self, is_noisy: bool) -> Result<Recorded> {
        let folder = self.folder.join(if is_noisy { NOISY } else { QUIET });
        let count = if is_noisy { BURNERS } else { 0 };
        // Before the recording, whose state dump then names them.
        let burners = (0..count)
            .map(|number| {
                let cpu = (number % self.cpu_count).to_string();
                Worker::start("named-burn", &[&cpu, BURNER])
            })
            .collect::<Result<Vec<_>>>()?;
        let mut recording = start_recording(&folder, &["--own", "--events", "sched,io"])?;
        let socket = folder.join("noised.marks");
        let file = self.file.as_ref().map_or(Ok("-"), ScratchFile::argument)?;
        let (primes, executions) = (self.primes.to_string(), self.executions.to_string());
        let arguments = [&self.cpus, argument(&socket)?, file, &primes, &executions];
        let burned = || -> Result<u64> {
            let each = burners.iter().map(|burner| Ok(sched_stat(burner.pid())?.run_ns));
            each.sum()
        };
        let (begin_ns, before_ns, had_ns) = (monotonic_ns()?, burned()?, stolen_ns()?);
        let figures = Worker::start("indexer", &arguments)?.figures()?;
        let capacity_ns = (monotonic_ns()? - begin_ns) * self.cpu_count as u64;
        let burned_ns = burned()? - before_ns;
        let stolen_ns = stolen_ns()?.saturating_sub(had_ns) + TICK_NS;
        ensure!(burned_ns > 0 || !is_noisy, "the burners did not run");
        // They end first, so that the recording is not kept waiting for a CPU.
        drop(burners);
        stop_recording(&mut recording, libc::SIGINT)?;
        Ok(Recorded { folder, figures, capacity_ns, burned_ns, stolen_ns })
    }
}

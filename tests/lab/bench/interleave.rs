//! Turns of one workload, with and without programs, on one quiet CPU.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::probes::ProbeSet;
use super::ratios::{Turn, median};
use super::workload::Workload;
use crate::bpf::{self, Statistics};
use crate::task;

/// Bursts of one turn. Their median is the turn's value, so one disturbed burst does not count.
const BURSTS: usize = 3;

/// After links were made or closed: what the kernel puts off (patched code, grace periods) is then
/// over on this CPU.
const SETTLE: Duration = Duration::from_millis(1);

/// Holds the latency that idle CPUs may have, microseconds, while it is open.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// How long the kernel's statistic counts.
const COUNTED: Duration = Duration::from_millis(300);

/// Steady conditions for the thread that made them.
#[derive(Debug)]
pub struct Steady {
    /// The CPU that it runs on.
    pub cpu: usize,
    /// Why idle CPUs may sleep all the same, if they may.
    pub may_sleep: Option<String>,
    _latency: Option<File>,
}

impl Steady {
    /// Binds this thread, and the processes that it will start, to the last CPU, lets it go before
    /// others there, and keeps idle CPUs from sleeping while the value lives, as rtla and
    /// cyclictest do. A CPU that sleeps takes longer to wake up than most of what is measured here,
    /// in virtual machines above all, and whether it sleeps is chance.
    pub fn make() -> Result<Self> {
        let cpu = task::cpus() - 1;
        task::pin(0, cpu)?;
        // SAFETY: no memory argument. Who 0 is this thread.
        let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        ensure!(result == 0, "setpriority: {}", std::io::Error::last_os_error());
        let latency = OpenOptions::new().write(true).open(LATENCY).and_then(|mut file| {
            file.write_all(&0_i32.to_ne_bytes())?;
            Ok(file)
        });
        let may_sleep = latency.as_ref().err().map(|error| format!("{LATENCY}: {error}"));
        Ok(Self { cpu, may_sleep, _latency: latency.ok() })
    }
}

fn turn(workload: &mut Workload, set: Option<usize>) -> Result<Turn> {
    thread::sleep(SETTLE);
    // Warms the caches, which making the links has emptied.
    workload.burst()?;
    let bursts = (0..BURSTS).map(|_| workload.burst()).collect::<Result<Vec<_>>>()?;
    Ok(Turn { set, ns: median(&bursts).context("no burst")? })
}

/// The turns of one workload.
#[derive(Clone, Debug)]
pub struct Turns {
    /// In order; every other one is without programs.
    pub turns: Vec<Turn>,
    /// For each set, how long it took to attach and detach it, ms, once per turn.
    pub toggles_ms: Vec<Vec<f64>>,
}

/// Takes turns for some time: nothing, a set, nothing, another set, …, nothing.
///
/// Each set gets the same time, not the same number of turns: programs on classic tracepoints take
/// half a second to detach, others some milliseconds.
pub fn take_turns(workload: &mut Workload, sets: &[&ProbeSet], time: Duration) -> Result<Turns> {
    let start = Instant::now();
    let mut turns = vec![turn(workload, None)?];
    let mut toggles_ms = vec![Vec::new(); sets.len()];
    let mut spent = vec![Duration::ZERO; sets.len()];
    while start.elapsed() < time {
        let poorest = spent.iter_mut().zip(&mut toggles_ms).zip(sets).enumerate();
        let Some((index, ((spent, toggles_ms), set))) = poorest.min_by_key(|(_, set)| *set.0.0)
        else {
            break;
        };
        let turn_start = Instant::now();
        set.drain();
        let toggle_start = Instant::now();
        let attached = set.attach()?;
        let attaching = toggle_start.elapsed();
        turns.push(turn(workload, Some(index))?);
        let toggle_start = Instant::now();
        drop(attached);
        toggles_ms.push((attaching + toggle_start.elapsed()).as_secs_f64() * 1e3);
        turns.push(turn(workload, None)?);
        *spent += turn_start.elapsed();
    }
    Ok(Turns { turns, toggles_ms })
}

/// What the kernel counted of a program.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The tracepoint.
    pub hook: String,
    /// How the program is attached.
    pub way: &'static str,
    /// Runs.
    pub runs: u64,
    /// Time of these runs, ns.
    pub run_ns: u64,
    /// Operations of the workload meanwhile.
    pub operations: u64,
}

/// Lets the kernel count the runs of a set's programs under the workload.
///
/// The time of a run includes that of reading the clock once, and not that of the call from the
/// tracepoint.
pub fn count_calls(workload: &mut Workload, set: &ProbeSet) -> Result<Vec<Calls>> {
    let counters = || -> Result<Vec<(u64, u64)>> {
        let read = |id| -> Result<(u64, u64)> {
            let program = bpf::program(id)?.context("a program has vanished")?;
            Ok((program.runs, program.run_time_ns))
        };
        set.probes.iter().map(|probe| read(probe.id)).collect()
    };
    set.drain();
    let attached = set.attach()?;
    workload.burst()?;
    let before = counters()?;
    let statistics = Statistics::enable()?;
    let operations = workload.repeat_for(COUNTED)?;
    drop(statistics);
    let after = counters()?;
    drop(attached);
    let differences = before.iter().zip(&after);
    Ok(set
        .probes
        .iter()
        .zip(differences)
        .map(|(probe, (before, after))| Calls {
            hook: probe.hook.clone(),
            way: probe.way.name(),
            runs: after.0 - before.0,
            run_ns: after.1 - before.1,
            operations,
        })
        .collect())
}

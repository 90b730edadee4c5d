//! What following requests costs: the throughput of the three tiers while they are recorded, beside `strace`, `perf trace`
//! and four of libbpf-tools, in interleaved bursts with nothing in between, and a null control.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{Clients, Planted, Servers, Stack};
use crate::bench::FOUR_TOOLS;
use crate::bench::ratios::{Turn, compare};
use crate::daemon::Process;
use crate::needed::is_there;
use crate::recorded::{start_recording, stop_recording};
use crate::scratch::Folder;

/// Clients at once.
const CLIENTS: usize = 8;
/// A burst.
const BURST: Duration = Duration::from_millis(1500);
/// How long a tool that says nothing of itself has to attach.
const ATTACH: Duration = Duration::from_millis(1500);

/// What follows the tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// Nothing: what the method itself adds.
    Null,
    /// `noised record`, of some classes.
    Record(&'static str),
    Strace,
    PerfTrace,
    /// `runqlat`, `biolatency`, `hardirqs` and `softirqs` of libbpf-tools, together.
    FourTools,
}

impl Tool {
    const ALL: [Self; 6] = [
        Self::Null,
        Self::Record("sched,io"),
        Self::Record("sched,io,ipc"),
        Self::Strace,
        Self::PerfTrace,
        Self::FourTools,
    ];

    fn name(self) -> String {
        match self {
            Self::Null => "nothing (null control)".to_owned(),
            Self::Record(classes) => format!("noised record --own --events {classes}"),
            Self::Strace => "strace -f".to_owned(),
            Self::PerfTrace => "perf trace".to_owned(),
            Self::FourTools => FOUR_TOOLS.join(", "),
        }
    }
}

/// A tool against nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Its command.
    pub tool: String,
    /// Time of a request with it, divided by that without; quartiles. `None` where it could not be measured.
    pub ratio: Option<[f64; 3]>,
    /// Requests a second without it.
    pub rate: f64,
    /// Bursts that were compared.
    pub turns: usize,
}

/// Ids of the processes and of the application's children.
fn all_pids(stack: &Stack) -> Result<Vec<String>> {
    let mut pids: Vec<String> = stack.pids().iter().map(ToString::to_string).collect();
    let [_, app, _] = stack.pids();
    let children = std::fs::read_to_string(format!("/proc/{app}/task/{app}/children"))?;
    pids.extend(children.split_whitespace().map(str::to_owned));
    Ok(pids)
}

/// Mean time of a request, nanoseconds.
fn burst(stack: &Stack) -> Result<f64> {
    let clients = Clients::start(stack.address, CLIENTS, u64::MAX);
    let begin = Instant::now();
    thread::sleep(BURST);
    let answered = clients.stop()?;
    ensure!(answered > 0, "no request was answered");
    Ok(begin.elapsed().as_nanos() as f64 / answered as f64)
}

fn with(tool: Tool, stack: &Stack) -> Result<f64> {
    let folder = Folder::new("cost")?;
    let pids = all_pids(stack)?;
    let mut processes = match tool {
        Tool::Null => return burst(stack),
        Tool::Record(classes) => {
            let options = ["--own", "--events", classes];
            vec![start_recording(&folder.path().join("recording"), &options)?]
        }
        Tool::Strace => {
            let mut command = Command::new("strace");
            command.args(["-f", "-o"]).arg(folder.path().join("strace"));
            command.args(pids.iter().flat_map(|pid| ["-p", pid.as_str()]));
            vec![Process::start(command)?]
        }
        Tool::PerfTrace => {
            let mut command = Command::new("perf");
            command.args(["trace", "-p", &pids.join(","), "-o"]).arg(folder.path().join("perf"));
            vec![Process::start(command)?]
        }
        Tool::FourTools => FOUR_TOOLS
            .iter()
            .map(|tool| Process::start(Command::new(tool)))
            .collect::<Result<_>>()?,
    };
    if !matches!(tool, Tool::Record(_)) {
        thread::sleep(ATTACH);
    }
    for process in &mut processes {
        let ended = process.ended()?;
        ensure!(ended.is_none(), "{} ended with {ended:?}: {}", tool.name(), process.stderr()?);
    }
    let ns = burst(stack)?;
    for process in &mut processes {
        match tool {
            Tool::Record(_) => stop_recording(process, libc::SIGINT)?,
            _ => {
                process.signal(libc::SIGINT)?;
                process.wait()?;
            }
        }
    }
    Ok(ns)
}

/// Measures all tools that are there.
/// Errors: if a server or a recording fails.
pub fn costs(
    servers: &Servers,
    rounds: usize,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Cost>> {
    let folder = Folder::new("stack")?;
    let stack = Stack::start(servers, folder.path(), Planted::default())?;
    // What the application forks for new connections is there before.
    burst(&stack)?;
    let mut turns = vec![Turn { set: None, ns: burst(&stack)? }];
    let mut failed: Vec<Tool> = Vec::new();
    let is_missing = |tool: Tool| match tool {
        Tool::Strace => !is_there("strace"),
        Tool::PerfTrace => !is_there("perf"),
        Tool::FourTools => !FOUR_TOOLS.iter().all(|tool| is_there(tool)),
        Tool::Null | Tool::Record(_) => false,
    };
    for round in 0..rounds {
        progress(&format!("cost, round {} of {rounds}", round + 1));
        for (set, tool) in Tool::ALL.into_iter().enumerate() {
            if is_missing(tool) || failed.contains(&tool) {
                continue;
            }
            match with(tool, &stack) {
                Ok(ns) => turns.push(Turn { set: Some(set), ns }),
                Err(error) if !matches!(tool, Tool::Null | Tool::Record(_)) => {
                    progress(&format!("{} does not work here: {error:#}", tool.name()));
                    failed.push(tool);
                    continue;
                }
                Err(error) => return Err(error),
            }
            turns.push(Turn { set: None, ns: burst(&stack)? });
        }
    }
    stack.stop()?;
    let cost = |(set, tool): (usize, Tool)| {
        let found = compare(&turns, set);
        Cost {
            tool: tool.name(),
            ratio: found.as_ref().map(|found| {
                let ratio = found.ratio;
                [ratio.p25, ratio.median, ratio.p75]
            }),
            rate: found.as_ref().map_or(0.0, |found| 1e9 / found.without_ns),
            turns: found.map_or(0, |found| found.turns),
        }
    };
    Ok(Tool::ALL.into_iter().enumerate().map(cost).collect())
}

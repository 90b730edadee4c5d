//! Worker threads of one process that are all bound to one CPU, as in the case study of the paper on event sketches: each
//! slice has long stretches without that CPU, and of very different length. Beside them the same program with a CPU of its
//! own for its only worker.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::tiers::{Answer, Clients, said};
use crate::daemon::{free_address, run_noised};
use crate::load::Worker;
use crate::recorded::{start_recording, stop_recording};
use crate::scratch::{Folder, argument};

/// What the two processes are called.
pub const PINNED: &str = "pinned";
pub const FREE: &str = "free";
/// Workers of the first, all on this CPU; the other's is on the other one.
const WORKERS: usize = 6;
const CPU: usize = 1;
/// How long one computes for a request, microseconds: longer than the kernel lets a thread run beside others.
const US: u64 = 8_000;
/// Requests of each client.
const REQUESTS: u64 = 20;
/// How long requests are watched.
const NEXT: &str = "1s";
/// What the paper asks: which slices have long stretches without a CPU, and of very different length.
pub const QUERY: [&str; 6] = [
    "--where",
    "marker = tcp_receive and latency > 1ms",
    "--probability",
    "idle_mean > 2ms and idle_deviation > 1ms",
    "--by",
    "process",
];

/// Slices of one process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Group {
    pub group: String,
    pub count: u64,
    pub probability: Option<f64>,
}

/// What is said.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// By process: how many slices fulfil the query.
    pub groups: Vec<Group>,
    /// Why requests to the first process are slow.
    pub why: Answer,
}

/// Plays it.
///
/// # Errors
/// If something does not start, or there is no answer.
pub fn findings(keep: Option<&Path>) -> Result<Findings> {
    let scratch = Folder::new("pinned")?;
    let folder = keep.unwrap_or(scratch.path()).join("pinned-workers");
    let pool = |name: &str, cpu: usize, workers: usize| -> Result<_> {
        let address = free_address()?;
        let (cpu, port) = (cpu.to_string(), address.port().to_string());
        let arguments = [name, &cpu, &port, &workers.to_string(), &US.to_string()];
        Ok((Worker::start("pool", &arguments)?, address))
    };
    let (pinned, slow) = pool(PINNED, CPU, WORKERS)?;
    let (free, fast) = pool(FREE, 1 - CPU, 1)?;
    let mut recording = start_recording(&folder, &["--own", "--events", "sched,io,ipc"])?;
    let clients =
        [Clients::start(slow, WORKERS, REQUESTS), Clients::start(fast, 1, REQUESTS)];
    for clients in clients {
        clients.finish(None)?;
    }
    stop_recording(&mut recording, libc::SIGINT)?;
    let clients = Clients::start(slow, WORKERS, u64::MAX);
    let why = Answer::ask(slow.port(), NEXT);
    clients.stop()?;
    drop((pinned, free));
    let sketch = ["trace", "sketch", argument(&folder)?, "--json"];
    let outcome = run_noised(&[&sketch[..], &QUERY].concat())?;
    ensure!(outcome.code == 0, "it ended with {}: {}", outcome.code, outcome.stderr);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout)?;
    let groups = document.pointer("/probability/groups").context("no answer")?.clone();
    Ok(Findings { groups: serde_json::from_value(groups)?, why: why? })
}

/// The same for people.
pub fn render(found: &Findings) -> String {
    let mut text = format!(
        "{WORKERS} workers of {PINNED} on CPU {CPU}, one of {FREE} on the other\n\nnoised trace sketch DIR {} {:?} {} {:?} {} {}\n",
        QUERY[0], QUERY[1], QUERY[2], QUERY[3], QUERY[4], QUERY[5]
    );
    for group in &found.groups {
        let probability = group.probability.unwrap_or(0.0);
        text.push_str(&format!("  {:<12} {:>6} slices {probability:>8.3}\n", group.group, group.count));
    }
    text.push_str(&format!("\nnoised why --request\n  {}\n", said(&found.why)));
    text
}

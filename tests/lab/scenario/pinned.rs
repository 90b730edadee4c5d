//! Worker threads of one process that are all bound to one CPU, as in the case study of the paper on event sketches: each
//! slice has long stretches without that CPU, and of very different length. Beside them the same program with a CPU of its
//! own for its only worker.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::tiers::{Answer, Clients, said};
use crate::daemon::{free_address, run_noised};
use crate::load::Worker;
use crate::recorded::{start_recording, stop_recording};
use crate::scratch::{Folder, argument};
use crate::task::sched_stat;

/// What the two processes are called.
pub const PINNED: &str = "pinned";
/// See there.
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
/// What the paper asks: whose slices have long stretches without a CPU.
const QUERY: [&str; 6] = [
    "--where",
    "marker = tcp_receive and latency > 1ms",
    "--probability",
    "idle_mean > 2ms",
    "--by",
    "process",
];

/// Slices of one process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Group {
    /// Its name.
    pub group: String,
    /// How many there are.
    pub count: u64,
    /// The part of them that fulfils the query.
    pub probability: Option<f64>,
}

/// The stretches without a CPU of one process's slices.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Idle {
    /// Its name.
    pub process: String,
    /// Their mean length, nanoseconds.
    pub idle_mean_ns: f64,
    /// The variance of that.
    pub idle_variance: f64,
}

/// What is said.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// By process: how many slices fulfil the query.
    pub groups: Vec<Group>,
    /// By process: how long stretches without a CPU are.
    pub idle: Vec<Idle>,
    /// Why requests to the first process are slow.
    pub why: Answer,
    /// How long the worker with a CPU of its own waited for it, ns a request, by the kernel's account.
    pub free_wait_ns: u64,
}

/// Plays it.
/// Errors: if something does not start, or there is no answer.
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
    let clients = [Clients::start(slow, WORKERS, REQUESTS), Clients::start(fast, 1, REQUESTS)];
    for clients in clients {
        clients.finish(None)?;
    }
    let waited = free.threads()?.into_iter().map(|thread| Ok(sched_stat(thread)?.wait_ns));
    let free_wait_ns = waited.sum::<Result<u64>>()? / REQUESTS;
    stop_recording(&mut recording, libc::SIGINT)?;
    let clients = Clients::start(slow, WORKERS, u64::MAX);
    let why = Answer::ask(slow.port(), NEXT);
    clients.stop()?;
    drop((pinned, free));
    let sketch = ["trace", "sketch", argument(&folder)?, "--json"];
    let document: serde_json::Value = run_noised(&[&sketch[..], &QUERY].concat())?.json()?;
    let part = |place: &str| document.pointer(place).cloned().context("no answer");
    let groups = serde_json::from_value(part("/probability/groups")?)?;
    let idle = serde_json::from_value(part("/tiers")?)?;
    Ok(Findings { groups, idle, why: why?, free_wait_ns })
}

/// The same for people.
pub fn render(found: &Findings) -> String {
    let [where_, given, probability, of, by, group] = QUERY;
    let mut text = format!(
        "{WORKERS} workers of {PINNED} on CPU {CPU}, one of {FREE} on the other\n\n\
         noised trace sketch DIR {where_} '{given}' {probability} '{of}' {by} {group}\n"
    );
    for Group { group, count, probability } in &found.groups {
        let probability = probability.unwrap_or(0.0);
        text.push_str(&format!("  {group:<8} {count:>5} slices {probability:>6.3}\n"));
    }
    for Idle { process, idle_mean_ns, idle_variance } in &found.idle {
        let (mean, deviation) = (idle_mean_ns / 1e6, idle_variance.sqrt() / 1e6);
        text.push_str(&format!(
            "  {process:<8} stretches without a CPU: {mean:.2} ms, standard deviation {deviation:.2} ms\n"
        ));
    }
    text.push_str(&format!("\nnoised why --request\n  {}\n", said(&found.why)));
    text
}

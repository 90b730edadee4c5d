//! A program against itself in a cgroup that has a tenth of a CPU: its waits for a CPU, and that they are its own quota's.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::program::{NONE, Program};
use super::said::compare;
use crate::group::{Group, Hierarchy};

/// What the group has of each period.
const QUOTA: Duration = Duration::from_millis(10);
const PERIOD: Duration = Duration::from_millis(100);
/// A wait of which the quota has this part is its own.
const MOST: f64 = 0.5;
/// How much more of the CPUs the program has than others, so that it waits for no one else much.
const WEIGHT: u32 = 50;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// Executions of the normal recording.
    pub normal: usize,
    /// Executions in the group.
    pub executions: usize,
    /// States that are named: effects, of one recording a side.
    pub flagged: Vec<String>,
    /// Executions whose first place is a wait for a CPU.
    pub waited: usize,
    /// Of these, the ones that are charged to the quota.
    pub charged: usize,
    /// Time that these first places are too long, milliseconds.
    pub lost_ms: f64,
    /// Of it, what is charged to the quota, milliseconds.
    pub charged_ms: f64,
    /// How long the quota kept the group from running, by the kernel's own account, milliseconds.
    pub kernel_ms: f64,
    /// Of the time of the executions' waits for a CPU, what is charged to the quota, milliseconds.
    pub throttled_ms: f64,
    /// Whether no recording lost an event.
    pub is_whole: bool,
}

/// Records and compares; `None` where this host limits no group. `progress` is called with what comes next.
/// Errors: if something cannot be recorded or compared.
pub fn findings(
    program: &Program,
    rounds: u32,
    sample_rounds: u32,
    mut progress: impl FnMut(&str),
) -> Result<Option<Findings>> {
    let group = |name: &str| -> Result<Group> {
        let group = Group::new(name, &[Hierarchy::Cpu])?;
        group.weigh(WEIGHT)?;
        Ok(group)
    };
    progress("unlimited");
    let unlimited = group("unlimited")?;
    let normal = program.record("unlimited", None, rounds, NONE, Some(&unlimited))?;
    progress("a tenth");
    let limited = group("limited")?;
    if !limited.limit_cpu(QUOTA, PERIOD)? {
        return Ok(None);
    }
    let sample = program.record("limited", None, sample_rounds, NONE, Some(&limited))?;
    let kernel_ns = limited.throttled_ns()?;
    let said = compare(&normal.folder, &sample.folder)?;
    let mut found = Findings {
        normal: normal.known.len(),
        executions: sample.known.len(),
        flagged: said.states().into_iter().map(str::to_owned).collect(),
        waited: 0,
        charged: 0,
        lost_ms: 0.0,
        charged_ms: 0.0,
        kernel_ms: kernel_ns as f64 / 1e6,
        throttled_ms: 0.0,
        is_whole: normal.is_whole && sample.is_whole,
    };
    for execution in 0..said.executions.sample.len() {
        let Some(("waiting_cpu", place)) = said.first_place(execution) else { continue };
        found.waited += 1;
        found.lost_ms += place.lost_ns / 1e6;
        let charged_ns = place.ns_of("throttle") as f64;
        found.charged_ms += charged_ns / 1e6;
        found.charged += usize::from(charged_ns > MOST * place.charged_ns() as f64);
    }
    let throttled = said.anomalies.iter().filter(|anomaly| anomaly.state == "waiting_cpu");
    let places = throttled.flat_map(|anomaly| &anomaly.places);
    found.throttled_ms = places.map(|place| place.ns_of("throttle") as f64 / 1e6).sum();
    Ok(Some(found))
}

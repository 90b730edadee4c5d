//! What the benchmark found, as it goes into `--json`.

use serde::Serialize;

use super::daemon_cost::DaemonCost;
use super::interleave::Calls;
use super::machine::Machine;
use super::ratios::Comparison;
use super::view::ViewCost;

/// A set of programs under a workload.
#[derive(Clone, Debug, Serialize)]
pub struct SetResult {
    /// The workload.
    pub workload: String,
    /// The set: `null`, `empty`, `noised`, `libbpf_tools`, `bpftrace`.
    pub set: String,
    /// Time with the set over time without, median.
    pub ratio_median: f64,
    /// First quartile of that.
    pub ratio_p25: f64,
    /// Third quartile of that.
    pub ratio_p75: f64,
    /// Time that the set adds to one operation, ns, median.
    pub added_ns: f64,
    /// Time of an operation without it, ns, median.
    pub without_ns: f64,
    /// Turns that were compared.
    pub turns: usize,
    /// Time to attach and detach the whole set, ms, median. Not part of any ratio.
    pub toggle_ms: f64,
}

impl SetResult {
    /// Names a comparison.
    pub fn new(workload: &str, set: &str, comparison: &Comparison, toggle_ms: f64) -> Self {
        Self {
            workload: workload.to_owned(),
            set: set.to_owned(),
            ratio_median: comparison.ratio.median,
            ratio_p25: comparison.ratio.p25,
            ratio_p75: comparison.ratio.p75,
            added_ns: comparison.added_ns,
            without_ns: comparison.without_ns,
            turns: comparison.turns,
            toggle_ms,
        }
    }
}

/// A program under a workload, by the kernel's own statistic.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramResult {
    /// The workload.
    pub workload: String,
    /// The set.
    pub set: String,
    /// The tracepoint.
    pub hook: String,
    /// `tp_btf`, `raw_tp` or `tracepoint`.
    pub attach: String,
    /// Runs while the kernel counted.
    pub runs: u64,
    /// Runs for each operation of the workload; below that of the workload's own events for what
    /// happens on the machine by chance.
    pub runs_per_operation: f64,
    /// Mean time of a run, ns, one reading of the clock included.
    pub ns_per_run: f64,
}

impl ProgramResult {
    /// Names a count; `None` for a program that never ran.
    pub fn new(workload: &str, set: &str, calls: &Calls) -> Option<Self> {
        (calls.runs > 0).then(|| Self {
            workload: workload.to_owned(),
            set: set.to_owned(),
            hook: calls.hook.clone(),
            attach: calls.way.to_owned(),
            runs: calls.runs,
            runs_per_operation: calls.runs as f64 / calls.operations.max(1) as f64,
            ns_per_run: calls.run_ns as f64 / calls.runs as f64,
        })
    }
}

/// Something that was asked for and not measured.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Slowdown by workload and set.
    pub results: Vec<SetResult>,
    /// Calls of single programs.
    pub programs: Vec<ProgramResult>,
    /// The daemon's process, if it was measured.
    pub daemon: Option<DaemonCost>,
    /// Frames of the view by screen, if they were measured.
    pub view: Vec<ViewCost>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
}

//! What noised costs the work that it watches, and what it costs by itself.
//!
//! Whole-process comparisons are useless on a machine that others use: two runs of the same thing
//! differ by more than the programs cost. So the programs are loaded once, and their links are
//! made and closed between short bursts of one workload in one process ([`interleave`]); each turn
//! with links is compared with its two neighbours without ([`ratios`]). The set `null`, empty
//! programs on hooks that the workload does not fire, shows what that method itself adds.
//!
//! How fast traces are read ([`reading`]) is measured by a program of its own.
//!
//! Not measured here: what attaching costs, and memory of maps (`noised check` reports it).

/// The tools of libbpf-tools that together show half of what noised does.
pub const FOUR_TOOLS: [&str; 4] = ["runqlat", "biolatency", "hardirqs", "softirqs"];

pub mod align;
#[cfg(feature = "bench")]
pub mod daemon_cost;
#[cfg(feature = "bench")]
pub mod interleave;
pub mod machine;
#[cfg(feature = "bench")]
pub mod peers;
#[cfg(feature = "bench")]
pub mod probes;
pub mod ratios;
pub mod reading;
#[cfg(feature = "bench")]
pub mod report;
#[cfg(feature = "bench")]
pub mod table;
#[cfg(feature = "bench")]
pub mod view;
#[cfg(feature = "bench")]
pub mod workload;

//! The noise paper's four test cases: planted work that delays other planted work.
//!
//! A stage holds what a scenario needs (cgroups, files, network namespaces) and starts its loads. A
//! phase is a stretch of time with or without the culprits, with the daemon's metrics at both ends.
//! The command `noise-scenario` prints two phases side by side; the live tests judge them.
//!
//! The paper's view of a critical path, quiet and noisy, is made of two recordings, without a daemon.

pub mod compared;
mod cpu;
pub mod critical_path;
mod disk;
mod irq;
mod network;
mod phase;
pub mod pinned;
mod report;
mod table;
pub mod tiers;

pub use cpu::CpuStage;
pub use critical_path::PathStage;
pub use disk::DiskStage;
pub use irq::{IrqStage, Load as IrqLoad};
pub use network::NetworkStage;
pub use phase::{Phase, play};
pub use report::{Report, Row, Section};
pub use table::render;

use anyhow::Result;

use crate::group::Group;
use crate::load::Worker;

/// What a scenario takes place on.
pub trait Stage {
    /// What is planted, in a sentence.
    fn plot(&self) -> String;

    /// The cgroups of the work that is delayed, and of what delays it.
    fn groups(&self) -> [&Group; 2];

    /// The former.
    fn victim(&self) -> &Group {
        self.groups()[0]
    }

    /// What the daemon is expected to call the culprits.
    fn planted(&self) -> Vec<String> {
        vec![self.groups()[1].label()]
    }

    /// The resources that they take.
    fn resources(&self) -> &'static [&'static str];

    /// Starts the work that is delayed.
    fn start_victims(&self) -> Result<Vec<Worker>>;

    /// Starts the work that delays it.
    fn start_culprits(&self) -> Result<Vec<Worker>>;

    /// What the paper shows of this case.
    fn sections(&self, quiet: &Phase, noisy: &Phase) -> Result<Vec<Section>>;

    /// What the paper shows and the daemon's metrics do not tell.
    fn unshown(&self) -> Vec<String> {
        Vec::new()
    }
}

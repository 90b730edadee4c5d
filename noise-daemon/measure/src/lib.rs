//! Measuring a machine from the inside: loops that watch the clock for gaps, and what filled each
//! gap by the kernel's own events.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

#[cfg(test)]
#[path = "../../../tests/src/chance.rs"]
mod chance;
pub mod clock;
pub mod compare;
pub mod cpus;
pub mod detours;
pub mod error;
pub mod explain;
mod fleet;
pub mod gaps;
pub mod naming;
pub mod osnoise;
pub mod placement;
mod plot;
pub mod quanta;
#[cfg(test)]
mod random;
mod report;
#[cfg(any(test, feature = "fixtures"))]
pub mod sample;
pub mod scale;
pub mod selfish;
mod shares;
mod source;
pub mod spectrum;
pub mod tenant;
pub mod tick;
pub mod watcher;
mod work;

pub use plot::PlotError;
pub use report::{
    CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourPart, DetourReport, ReportError,
};
pub use shares::{DetourShare, Shares, SourceKey};
pub use source::{CLASSES, Class, GapSource};

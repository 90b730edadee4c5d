//! Measuring a machine from the inside: loops that watch the clock for gaps, and what filled each
//! gap by the kernel's own events.

pub mod compare;
mod report;
#[cfg(test)]
pub(crate) mod sample;
pub mod scale;
mod shares;
mod source;

pub use report::{
    CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourReport, Part, ReportError,
};
pub use shares::{Share, Shares, SourceKey};
pub use source::{Class, Source};

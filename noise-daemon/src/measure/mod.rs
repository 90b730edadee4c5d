//! Measuring a machine from the inside: loops that watch the clock for gaps, and what filled each
//! gap by the kernel's own events.

mod columns;
pub mod detours;
mod plot;
mod report;
mod source;

pub use plot::PlotError;
pub use report::{
    CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourReport, Part, ReportError,
};
pub use source::{Class, Source};

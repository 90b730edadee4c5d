//! PURE: what a [`DetourReport`](super::DetourReport) says, as text, data and plots.

mod plot;
mod shares;
mod summary;
mod table;
mod trace;

#[cfg(test)]
mod generated;

pub use plot::svg;
pub use shares::{SourceShare, SourceShares};
pub use summary::{CpuSummary, Lengths};
pub use table::text;
pub use trace::{csv, json, loggopsim};

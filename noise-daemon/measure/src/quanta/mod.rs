//! Benches of fixed quanta, on all CPUs at once (Sottile and Minnich 2004, "Analysis of
//! microbenchmarks for performance tuning of clusters"):
//!
//! - FTQ, fixed time quantum: how many units of work are finished in each quantum of time. The
//!   quanta follow one another without a gap and begin at multiples of their length on
//!   CLOCK_MONOTONIC, so that they never drift: their spectrum is exact.
//! - FWQ, fixed work quantum: how long each of many equal quanta of work takes.

mod ftq;
mod fwq;
mod plot;
mod report;
mod summary;
mod table;
mod trace;

#[cfg(test)]
mod generated;

pub use ftq::ftq;
pub use fwq::fwq;
pub use plot::svg;
pub use report::{
    CpuQuanta, FTQ_FORMAT, FWQ_FORMAT, QUANTA_VERSION, QuantaOptions, QuantaReport, Quantum,
    SAMPLES_MAX,
};
pub use summary::{Moments, QuantaSummary};
pub use table::text;
pub use trace::{csv, json};

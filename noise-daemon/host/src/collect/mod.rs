//! IO: drains the ring buffer and reads the maps; the one owner of both.
//!
//! Order makes totals exact and monotonic: open windows are read first, then the ring is drained.
//! A window that closes in between arrives in the ring and replaces its open reading; a window
//! that opens in between was empty when it was read.

mod bearers;
mod charges;
mod faults;
mod hashed;
#[cfg(feature = "live")]
pub mod live;
mod old_parts;
mod outliers;
mod programs;
mod series;
mod sources;
mod states;
mod steal;
mod totals;
mod used;

pub use sources::{Collector, Ring};

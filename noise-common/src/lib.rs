//! What both sides of the kernel line of `noised` share: the table of signals, the table of
//! hooks, histogram arithmetic, the layout of shared memory and the kernel fields that the
//! programs need.
//!
//! The crate is `no_std` and free of kernel and user-space types, so that everything in it is
//! tested on the host.
#![no_std]

#[cfg(feature = "serde")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod charge;
pub mod event;
pub mod header;
pub mod held_back;
pub mod hist;
pub mod hooks;
pub mod ledger;
pub mod loss;
mod named;
#[cfg(feature = "serde")]
mod names;
pub mod nesting;
pub mod offsets;
pub mod queue;
pub mod record;
pub mod remedy;
pub mod shown;
pub mod signals;
pub mod store;
pub mod subject;
pub mod watch;

/// Length of a window: the slice of time over which one histogram is closed and streamed.
pub const WINDOW_NS: u64 = 500_000_000;

/// Records of long waits that each CPU sends in one window; what goes beyond is counted.
pub const OUTLIERS_PER_WINDOW: u64 = 4;

/// Name of the map that marks a running `noised` on this host (see `noised run`'s warning about a second daemon).
pub const MARKER_MAP: &str = "NOISE_CPUS";

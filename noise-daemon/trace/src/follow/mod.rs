//! What CPUs and threads do, by the events of a trace: whatever needs to know that uses these types.
//!
//! Where events are missing, these types say so, and their user decides what that means.

mod cpus;
mod threads;

pub use self::cpus::{MAX_CPUS, PerCpu, Processor};
pub use self::threads::{
    Begin, PassedStretch, ThreadSight, ThreadState, ThreadStep, ThreadStretch, steps,
};

//! IO: what the running kernel offers, and the programs' life on it: offsets, load, attach,
//! per-hook health, detach.

mod btf;
#[cfg(test)]
mod calls;
mod cgroup_memory;
mod clock;
mod controls;
mod engine;
mod error;
mod facts;
mod hook;
mod host;
mod loader;
mod order;
mod prog_info;
mod room;
mod sight;
mod sizes;
mod store;

pub use btf::KernelBtf;
pub use cgroup_memory::page_bytes;
pub use clock::{both_clocks, monotonic_ns};
pub use controls::Measured;
pub use engine::{
    DebugRecords, Engine, HookSet, LoadOptions, ObjectKind, ProgramStats, other_daemon_runs,
};
pub use error::KernelError;
pub use facts::{Facts, SignalState, signal_state};
pub use hook::{HookState, HookStatus};
pub use host::{Capability, Lockdown, has_own_users, lockdown, missing_capabilities};
pub use room::ensure_room;
pub use sight::Sight;
pub use sizes::{MapSize, PidLimit, RecorderSize, Sizes};
pub use store::{Copied, DISORDER, EventStore};

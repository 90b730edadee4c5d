//! Cgroups: from the id that the kernel counts by to a name that people know.
//!
//! [`Mounts`] tells which hierarchies this host has and where, [`Hierarchies`] which of them count,
//! [`Tree`] finds the path of an id in
//! it, and [`Identity`] reads unit, container and pod from a path.

mod hierarchies;
mod identity;
mod lru;
mod mounts;
mod segment;
mod tree;

pub use hierarchies::Hierarchies;
pub use identity::{Identity, MAX_LABEL_BYTES};
pub use mounts::{Layout, Mounts};
pub use segment::{Container, Runtime};
pub use tree::{CAPACITY, Cgroup, Tree, UNKNOWN};

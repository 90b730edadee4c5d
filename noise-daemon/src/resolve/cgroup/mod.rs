//! Cgroups: from the id that the kernel counts by to a name that people know.
//!
//! [`Mounts`] tells which hierarchies this host has and where, [`Hierarchies`] which of them count,
//! [`Tree`] finds the path of an id in one, and [`Identity`] reads unit, container and pod from a
//! path. [`Labels`] asks the tree that an id belongs to.

mod hierarchies;
mod identity;
mod labels;
mod lru;
mod mounts;
mod segment;
mod tree;

pub use hierarchies::{Counted, Explained, Hierarchies};
pub use identity::{Identity, MAX_LABEL_BYTES};
pub use labels::Labels;
pub(super) use lru::Lru;
pub use mounts::{Layout, Mounts};
pub use noise_common::subject::Of;
pub(super) use segment::printable;
pub use segment::{Container, Runtime};
pub use tree::{CAPACITY, Cgroup, Look, Tree};

//! Cgroups: from the id that the kernel counts by to a name that people know.
//!
//! [`Mounts`] are the hierarchies that this host has and where, [`Hierarchies`] which of them count,
//! [`Tree`] finds the path of an id in one, and [`Identity`] reads unit, container and pod from a
//! path. [`NodeNames`] knows what pods and containers are called here. [`HierarchyLabels`] looks in the tree that an id belongs
//! to.

mod hierarchies;
mod identity;
mod labels;
mod mounts;
mod node;
mod segment;
mod tree;

pub use hierarchies::{Counted, Explained, Hierarchies};
pub use identity::{Identity, MAX_LABEL_BYTES, Naming, is_of_user};
pub use labels::HierarchyLabels;
pub use mounts::{CgroupLayout, Mounts};
pub use node::{LISTED, NodeNames, READ};
pub use noise_common::subject::Of;
pub use segment::{Container, Runtime, unit_name};
pub use tree::{CAPACITY, Cgroup, CgroupLook, Tree};

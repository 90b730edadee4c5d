//! PURE: clusters of vectors: OPTICS, the silhouette of a labelling, principal components for pictures.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod blocks;
mod components;
mod distinct;
mod error;
mod extraction;
mod limits;
mod optics;
mod points;
mod silhouette;
mod tree;

pub use self::components::{Components, principal_components};
pub use self::error::ClusterError;
pub use self::extraction::{ClusterLabels, dbscan_labels, xi_labels};
pub use self::limits::{MAX_DIMENSIONS, MAX_DISTINCT, MAX_MAGNITUDE, MAX_VALUES};
pub use self::optics::{OpticsSettings, Ordering, optics};
pub use self::points::Points;
pub use self::silhouette::{Silhouette, merged_silhouettes, silhouette};

#[cfg(test)]
mod tests;

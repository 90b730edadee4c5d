//! Clusters of vectors: OPTICS, the silhouette of a labelling, principal components for pictures.

mod components;
mod distinct;
mod error;
mod extraction;
mod optics;
mod points;
mod silhouette;
mod tree;

pub use self::components::{Components, principal_components};
pub use self::error::ClusterError;
pub use self::extraction::{Labels, dbscan_labels, xi_labels};
pub use self::optics::{OpticsSettings, Ordering, optics};
pub use self::points::{MAX_DIMENSIONS, MAX_MAGNITUDE, MAX_VALUES, Points};
pub use self::silhouette::{Silhouette, merged_silhouettes, silhouette};

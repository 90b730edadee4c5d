//! PURE: names of subjects and culprits.

use std::sync::Arc;

use noise_model::labels::{GONE, OTHER, UNKNOWN_LABEL};

/// A subject or a culprit.
pub type Name = Arc<str>;

/// The cgroup that holds whatever is in no other.
pub(super) const ROOT: &str = "/";

/// Whether a label stands for all that have none of their own.
pub(super) fn is_catch_all(label: &str) -> bool {
    [OTHER, GONE, UNKNOWN_LABEL].contains(&label)
}

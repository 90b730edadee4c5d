//! PURE: names of subjects and culprits.

use std::sync::Arc;

pub(super) use noise_model::labels::ROOT;
use noise_model::labels::{GONE, OTHER, UNKNOWN_LABEL};

/// A subject or a culprit.
pub type Name = Arc<str>;

/// Whether a label stands for all that have none of their own.
pub(super) fn is_catch_all(label: &str) -> bool {
    [OTHER, GONE, UNKNOWN_LABEL].contains(&label)
}

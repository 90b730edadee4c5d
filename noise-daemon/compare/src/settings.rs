//! How executions are compared.

use serde::Serialize;

use crate::kinds::Clustering;
use crate::thresholds::Thresholds;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    #[serde(flatten)]
    pub thresholds: Thresholds,
    /// How kinds are found.
    #[serde(flatten)]
    pub clustering: Clustering,
    /// Whether to go on where no state is flagged.
    pub force: bool,
    /// Whether [`Localised::alignment`](crate::localised::Localised::alignment) is kept: the alignments of long paths are large.
    #[serde(skip)]
    pub keeps_alignments: bool,
}

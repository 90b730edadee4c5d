//! What the terminal view is shown at one time, wherever it comes from.

use std::sync::Arc;

use jiff::Timestamp;

use crate::analysis::Overview;
use crate::model::{Host, Sample};

/// Everything at one time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Frame {
    /// When, on the wall.
    pub time: Timestamp,
    /// Where.
    pub host: Arc<Host>,
    /// The delays.
    pub sample: Arc<Sample>,
    /// What is unusual among them.
    pub overview: Overview,
}

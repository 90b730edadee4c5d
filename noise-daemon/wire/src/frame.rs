//! What the terminal view is shown at one time, wherever it comes from.

use std::sync::Arc;

use jiff::Timestamp;
use noise_analysis::Overview;
use noise_model::{Host, Sample, SharedNames, Trends};

/// Everything at one time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Frame {
    /// When, on the wall.
    pub time: Timestamp,
    pub host: Arc<Host>,
    pub sample: Arc<Sample>,
    /// What is unusual among them.
    pub overview: Overview,
    /// What the last minutes were like, in the first frame that a viewer gets of a daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trends: Option<Arc<Trends>>,
}

impl Frame {
    /// Makes its names those of the frames before it, where they are equal; for one that was just read.
    pub fn share_names(&mut self, names: &mut SharedNames) {
        names.share(Arc::make_mut(&mut self.sample));
    }
}

//! The format of the state file: JSON with the number of its format.

use std::sync::Arc;

use crate::analysis::{Memory, Name, Outlier, Report};
use crate::clean::reading::from_json;

/// The format that is written, and the newest that is read.
const FORMAT: u64 = 1;

/// What is kept.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Document {
    format: u64,
    /// Incidents, the oldest first. One that is open was open when the file was written.
    pub incidents: Vec<Arc<Report>>,
    /// Long waits, the oldest first.
    pub outliers: Vec<Arc<Outlier>>,
    /// What was usual.
    #[serde(default)]
    pub baselines: Baselines,
}

/// What was usual. After a boot it is learnt anew: starting services would be unusual each time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Baselines {
    /// Id of the boot on whose clock it was learnt.
    pub boot: String,
    /// Signals of subjects.
    pub learnt: Vec<Memory<Name>>,
}

impl Default for Document {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new(), Baselines::default())
    }
}

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// From a newer version.
    #[error(
        "it was written by a newer noised: its format is {0}, the newest known one is {FORMAT}"
    )]
    Newer(u64),
    /// Anything else, truncated files included.
    #[error("it is damaged: {0}")]
    Damaged(serde_json::Error),
    /// Not what a state file can be.
    #[error("it is {0}")]
    NoFile(&'static str),
    /// It is there but cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
}

impl Document {
    /// One of the format that is written.
    pub fn new(
        incidents: Vec<Arc<Report>>,
        outliers: Vec<Arc<Outlier>>,
        baselines: Baselines,
    ) -> Self {
        Self { format: FORMAT, incidents, outliers, baselines }
    }

    /// Reads the text of a state file.
    ///
    /// # Errors
    /// Where it is from a newer version, or is none.
    pub fn parse(text: &[u8]) -> Result<Self, Unusable> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            format: u64,
        }
        let Versioned { format } = from_json(text).map_err(Unusable::Damaged)?;
        if format > FORMAT {
            return Err(Unusable::Newer(format));
        }
        from_json(text).map_err(Unusable::Damaged)
    }

    /// The text of a state file.
    ///
    /// # Errors
    /// Where something has no form in JSON, which would be a defect.
    pub fn text(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

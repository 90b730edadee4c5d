//! Incidents and long waits as JSON, for programs. The number of the version changes where a
//! reader of an older one would be misled; fields may be added.

use std::sync::Arc;

use crate::analysis::{Outlier, Report};

/// The version of the documents and of their routes.
pub const API_VERSION: u64 = 1;

/// What `/api/v1/incidents` answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IncidentsDocument {
    version: u64,
    /// Incidents, the oldest first.
    pub incidents: Vec<Arc<Report>>,
}

/// What `/api/v1/outliers` answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutliersDocument {
    version: u64,
    /// Long waits, the oldest first.
    pub outliers: Vec<Arc<Outlier>>,
}

impl IncidentsDocument {
    /// One of this version.
    pub fn new(incidents: Vec<Arc<Report>>) -> Self {
        Self { version: API_VERSION, incidents }
    }
}

impl OutliersDocument {
    /// One of this version.
    pub fn new(outliers: Vec<Arc<Outlier>>) -> Self {
        Self { version: API_VERSION, outliers }
    }
}

//! Incidents as they are shown.

use std::sync::Arc;

use noise_analysis::{KeptTrace, Report};
use noise_model::HeldUp;
use noise_serve::IncidentsDocument;

/// Incidents, with what was kept of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub incidents: Vec<Arc<Report>>,
    /// In the order of their incidents' numbers.
    pub traces: Vec<Arc<KeptTrace>>,
    /// How those were held up whom open incidents are about; only a daemon that runs knows it.
    pub trends: Vec<HeldUp>,
}

impl Listing {
    /// Those incidents alone, with what belongs to them.
    pub fn retain(&mut self, is_wanted: impl Fn(&Report) -> bool) {
        let Self { incidents, traces, trends } = self;
        incidents.retain(|report| is_wanted(report));
        traces.retain(|trace| incidents.iter().any(|report| report.id == trace.incident));
        trends.retain(|trend| incidents.iter().any(|report| report.main.subject == trend.subject));
    }

    /// As it is written.
    pub fn document(self) -> IncidentsDocument {
        let Self { incidents, traces, trends } = self;
        IncidentsDocument { trends, ..IncidentsDocument::new(incidents, traces) }
    }
}

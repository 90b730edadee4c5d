//! Incidents for tests.

use std::sync::Arc;

use noise_analysis::made::blank;
use noise_analysis::{Ending, Episode, Report};

/// One of nothing in particular.
pub fn report(open: bool) -> Arc<Report> {
    let ending = (!open).then_some(Ending::Over);
    let main = Episode { ending, seconds: 0.0, ..blank("/system.slice/a.service") };
    Arc::new(Report::new(1, open, main, Vec::new()))
}

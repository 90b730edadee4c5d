//! Incidents for tests.

use std::sync::Arc;

use noise_analysis::{Beside, Ending, Episode, Level, Report, Rule, Time};
use noise_common::signals::Signal;

/// One of nothing in particular.
pub fn report(open: bool) -> Arc<Report> {
    let level = Level { p50_ns: None, p99_ns: None, mean_ns: None, rate: 0.0, lost: 0.0 };
    let main = Episode {
        signal: Signal::CgroupRunqueueWait.into(),
        subject: "/system.slice/a.service".into(),
        start: jiff::Timestamp::UNIX_EPOCH,
        end: jiff::Timestamp::UNIX_EPOCH,
        seconds: 0.0,
        ending: (!open).then_some(Ending::Over),
        rule: Rule::Mean,
        before: level,
        after: level,
        lost_seconds: 1.0,
        culprits: Vec::new(),
        others: Time::default(),
        untracked: Time::default(),
        remedies: Vec::new(),
    };
    Arc::new(Report { id: 1, open, main, also: Vec::new(), untold: 0, beside: Beside::default() })
}

//! Incidents for tests.

use noise_common::charge::Cause;
use noise_common::signals::Signal;

use super::culprits::{Culprit, Time};
use super::level::Level;
use super::report::{Episode, Report};
use super::rules::Rule;

/// `/web` waits for `/backup`.
pub fn episode() -> Episode {
    let level = |ns: u64| Level {
        p50_ns: Some(ns),
        p99_ns: Some(10 * ns),
        mean_ns: Some(2.0 * ns as f64),
        rate: 100.0,
        lost: 0.1,
    };
    let time = |share| Time { seconds: share, share };
    Episode {
        signal: Signal::CgroupRunqueueWait.into(),
        subject: "/web".into(),
        start: jiff::Timestamp::default(),
        end: jiff::Timestamp::default(),
        seconds: 1.0,
        ending: None,
        rule: Rule::Mean,
        before: level(1_000),
        after: level(4_000),
        lost_seconds: 1.0,
        culprits: vec![Culprit {
            culprit: "/backup".into(),
            cause: Cause::Foreign,
            time: time(0.7),
            beyond: time(0.8),
        }],
        others: Time::default(),
        untracked: Time::default(),
        remedies: Vec::new(),
    }
}

/// The same as an incident.
pub fn report() -> Report {
    Report::new(1, true, episode(), Vec::new())
}

//! Incidents for tests.

use noise_common::charge::Cause;
use noise_common::signals::Signal;

use super::culprits::{Culprit, Time};
use super::level::Level;
use super::name::Name;
use super::report::{Episode, Report};
use super::rules::Rule;

/// An open one of that victim, which lost a second, and of which nothing else is known.
pub fn blank(subject: &str) -> Episode {
    let level = Level { p50_ns: None, p99_ns: None, mean_ns: None, rate: 0.0, lost: 0.0 };
    Episode {
        signal: Signal::CgroupRunqueueWait.into(),
        subject: subject.into(),
        start: jiff::Timestamp::default(),
        end: jiff::Timestamp::default(),
        seconds: 1.0,
        ending: None,
        rule: Rule::Mean,
        before: level,
        after: level,
        lost_seconds: 1.0,
        culprits: Vec::new(),
        others: Time::default(),
        untracked: Time::default(),
        remedies: Vec::new(),
    }
}

/// One that is charged with that time, all of it beyond the usual.
pub fn culprit(name: &str, cause: Cause, time: Time) -> Culprit<Name> {
    Culprit { culprit: name.into(), cause, time, beyond: time }
}

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
        before: level(1_000),
        after: level(4_000),
        culprits: vec![Culprit {
            culprit: "/backup".into(),
            cause: Cause::Foreign,
            time: time(0.7),
            beyond: time(0.8),
        }],
        ..blank("/web")
    }
}

/// The same as an incident.
pub fn report() -> Report {
    Report::new(1, true, episode(), Vec::new())
}

//! Incidents as log lines: one when they open, one when they close.

use jiff::tz::TimeZone;
use noise_analysis::{GroupChange, Level, Report, Watched};
use noise_text::units::known_duration;
use noise_verdict::called;

/// Culprits that a line has room for.
const LISTED: usize = 3;

/// Logs an incident: what both lines say, then what one of them adds.
macro_rules! log_incident {
    ($log:ident, $report:ident, $message:literal $(, $added:ident = $value:expr)*) => {{
        let IncidentLogLine { verdict, p50, p99, rate, culprits, remedy } = IncidentLogLine::of(&$report);
        tracing::$log!(
            id = $report.id,
            signal = $report.main.signal.name(),
            subject = &*$report.main.subject,
            resource = $report.resource().name(),
            verdict,
            p50,
            p99,
            rate,
            culprits,
            remedy,
            $($added = $value,)*
            $message
        );
    }};
}

/// Logs what became of an incident.
pub fn log_event(event: &GroupChange) {
    match event {
        GroupChange::Opened(report) => log_incident!(warn, report, "incident opened"),
        GroupChange::Joined { signal, subject, into } => {
            let (signal, subject) = (signal.name(), &**subject);
            tracing::debug!(id = into.id, signal, subject, "belongs to the same incident");
        }
        GroupChange::Merged { id, into } => {
            tracing::info!(id, into = into.id, "merged into another incident");
        }
        GroupChange::Closed(report) => log_incident!(
            info,
            report,
            "incident closed",
            seconds = report.lasted(),
            lost_seconds = (report.main.lost_seconds * 1e3).round() / 1e3,
            also = report.also.len() as u64 + report.untold
        ),
    }
}

/// What both lines say.
#[derive(Debug, PartialEq)]
struct IncidentLogLine {
    verdict: String,
    p50: Option<String>,
    p99: Option<String>,
    rate: Option<String>,
    culprits: String,
    remedy: &'static str,
}

impl IncidentLogLine {
    fn of(report: &Report) -> Self {
        let (verdict, episode) = (report.verdict(&TimeZone::UTC), &report.main);
        // What is taken is an amount of time, and no number of delays.
        let is_delay = episode.signal != Watched::Interruption;
        let both = |of: &dyn Fn(&Level) -> String| {
            is_delay.then(|| format!("{} -> {}", of(&episode.before), of(&episode.after)))
        };
        let mut culprits: Vec<String> = episode
            .culprits
            .iter()
            .take(LISTED)
            .map(|culprit| {
                let who = called(culprit.cause, &culprit.culprit);
                let cause = culprit.cause.name();
                let (time, beyond) = (culprit.time, culprit.beyond);
                let share = beyond.share * 100.0;
                format!(
                    "{who} ({cause}) {:.3} s, {:.3} s above normal, {share:.0} %",
                    time.seconds, beyond.seconds
                )
            })
            .collect();
        if culprits.is_empty() {
            culprits.push("not known".to_owned());
        }
        Self {
            p50: both(&|level| known_duration(level.p50_ns)),
            p99: both(&|level| known_duration(level.p99_ns)),
            rate: both(&|level| format!("{:.1}/s", level.rate)),
            culprits: culprits.join("; "),
            remedy: verdict
                .findings
                .first()
                .and_then(|first| first.remedies.first())
                .map_or("none known", |one| one.remedy.advice().setting),
            verdict: verdict.sentence,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noise_analysis::{Culprit, Episode, Remedy, Time};
    use noise_common::charge::Cause;
    use noise_common::signals::Signal;
    use noise_verdict::Advice;

    use super::*;

    #[test]
    fn the_remedy_is_that_of_what_the_verdict_is_about() {
        let by = |culprit: &str| {
            let time = Time { seconds: 1.0, share: 0.9 };
            vec![Culprit { culprit: culprit.into(), cause: Cause::Foreign, time, beyond: time }]
        };
        let mut report = Arc::unwrap_or_clone(crate::made::report(true));
        report.main.culprits = by("/backup");
        report.beside.advice = Some(vec![Advice::plain(Remedy::CpuWeight)]);
        assert_eq!(IncidentLogLine::of(&report).remedy, Remedy::CpuWeight.advice().setting);
        report.also = vec![Episode {
            signal: Signal::UninterruptibleWait.into(),
            culprits: by("/writer"),
            lost_seconds: 5.0,
            ..report.main.clone()
        }];
        let line = IncidentLogLine::of(&report);
        assert!(line.verdict.contains(", until /writer was done"), "{line:?}");
        assert_eq!(line.remedy, "none known");
    }
    #[test]
    fn what_interrupts_take_has_no_number_of_delays() {
        let mut report = Arc::unwrap_or_clone(crate::made::report(true));
        let rate = |report: &Report| IncidentLogLine::of(report).rate;
        assert_eq!(rate(&report).as_deref(), Some("0.0/s -> 0.0/s"));
        report.main.signal = Watched::Interruption;
        let line = IncidentLogLine::of(&report);
        assert_eq!((line.p50, line.p99, line.rate), (None, None, None));
    }
}

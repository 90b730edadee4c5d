//! PURE: the metrics of incidents: what is disturbed, and by whom.

use std::borrow::Cow;

use noise_analysis::Overview;

use super::family::{Family, Point};

/// Culprits of a disturbed signal of a subject that have a series.
const CULPRITS: usize = 3;

pub fn families(overview: &Overview) -> [Family<'_>; 6] {
    let active = overview.active.iter();
    let active = active.map(|(signal, subject)| Point::new([signal.name(), subject], 1.0));
    // What is over has culprits as well.
    let disturbed = overview.incidents.iter().flat_map(|report| report.episodes());
    let disturbed = disturbed.filter(|episode| episode.is_active());
    let shares = disturbed.flat_map(|episode| {
        let nothing_beyond = episode.nothing_beyond();
        let culprits = episode.culprits.iter().map(move |one| (one, one.part(nothing_beyond)));
        culprits.filter(|(_, share)| *share > 0.0).take(CULPRITS).map(|(one, share)| {
            let labels = [episode.signal.name(), &episode.subject, &one.culprit, one.cause.name()];
            Point::new(labels, share.min(1.0))
        })
    });
    let open = || overview.incidents.iter().filter(|report| report.open);
    let infos = open().map(|report| {
        let (resource, victim) = (report.resource().name(), &*report.main.subject);
        let labels = [Cow::Owned(report.id.to_string()), resource.into(), victim.into()];
        Point::new(labels.into_iter().chain([report.by_whom()]), 1.0)
    });
    let severities = open().map(|report| Point::new([report.id.to_string()], report.severity()));
    let opened = overview.opened.iter();
    let opened = opened.map(|(signal, count)| Point::new([signal.name()], *count as f64));
    [
        Family::gauges(
            "noised_incident_active",
            "Signals of subjects that are disturbed now, each as a part of an open incident; always 1.",
            &["signal", "subject"],
            active,
        ),
        Family::gauges(
            "noised_incident_culprit_share",
            "Share of the excess delay of a disturbed signal that is due to a culprit, 0 to 1; the first three culprits of each.",
            &["signal", "subject", "culprit", "cause"],
            shares,
        ),
        Family::gauges(
            "noised_incident_info",
            "Open incidents: what whom lacks, and who did most of it; always 1.",
            &["incident", "resource", "victim", "culprit"],
            infos,
        ),
        Family::gauges(
            "noised_incident_severity",
            "Part of the victim's time that an open incident costs beyond what is usual, 0 to 1: seconds of excess delay per second.",
            &["incident"],
            severities,
        ),
        Family::counters(
            "noised_incidents_total",
            "Incidents that opened, by the signal that left its baseline first.",
            &["signal"],
            opened,
        ),
        Family::counter(
            "noised_incident_windows_skipped_total",
            "Windows of signals of subjects in which no incidents were looked for, because as many others have a baseline as incidents.subjects allows.",
            overview.no_room as f64,
        ),
    ]
}

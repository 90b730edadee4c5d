//! PURE: incidents as a list, a line each.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use noise_analysis::Report;
use noise_model::labels::spoken_briefly;
use noise_text::clean::clean;
use noise_text::columns::{shorten, width};
use noise_text::table::aligned;
use noise_text::times::{minute, of_day};
use noise_text::units::{duration, share};

/// Columns that are names, from the left: number, begin, length, victim, resource and culprit.
const NAMES: [&str; 8] = ["id", "since", "for", "victim", "lacks", "culprit", "rose", "state"];
/// Columns of names that share what room there is: those of the victim and the culprit.
const SHARING: [usize; 2] = [3, 5];
/// Least columns of such a name.
const LEAST_NAME: usize = 10;
/// What lies further back has its date.
const DATED: SignedDuration = SignedDuration::from_hours(20);

/// The incidents, a line each, in so many columns; those that began long before `now` with their date.
pub fn list<'a>(
    incidents: impl IntoIterator<Item = &'a Report>,
    now: Timestamp,
    zone: &TimeZone,
    columns: usize,
) -> String {
    let mut rows: Vec<[String; 8]> = vec![NAMES.map(str::to_owned)];
    rows.extend(incidents.into_iter().map(|report| row(report, now, zone)));
    if rows.len() == 1 {
        return "no incidents\n".to_owned();
    }
    fit(&mut rows, columns);
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    aligned(&rows, NAMES.len(), usize::MAX)
}

fn row(report: &Report, now: Timestamp, zone: &TimeZone) -> [String; 8] {
    let (main, start) = (&report.main, report.start());
    let since = match now.duration_since(start) > DATED {
        true => minute(start, zone),
        false => of_day(start, zone),
    };
    let more = match report.victims().len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" +{more}"),
    };
    let verdict = report.verdict(zone);
    let finding = verdict.findings.first();
    let worst = report.worst();
    let part = report.leading().map(|first| first.part(worst.nothing_beyond()));
    let part = part.map_or_else(String::new, |part| format!(" {}", share(part.clamp(0.0, 1.0))));
    [
        format!("#{}", report.id),
        since,
        duration(report.lasted() * 1e9),
        format!("{}{more}", clean(spoken_briefly(&main.subject))),
        report.resource().name().to_owned(),
        finding.map_or_else(String::new, |one| format!("{}{part}", clean(&one.culprit.name))),
        worst.headline().map_or_else(|| "-".to_owned(), |headline| headline.short()),
        report.standing().to_owned(),
    ]
}

/// Shortens names where lines would be too long.
fn fit(rows: &mut [[String; 8]], columns: usize) {
    let widest = |rows: &[[String; 8]], column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|text| width(text)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..NAMES.len()).map(|column| widest(rows, column)).collect();
    let fixed: usize = widths
        .iter()
        .enumerate()
        .filter(|(column, _)| !SHARING.contains(column))
        .map(|(_, width)| width + 2)
        .sum();
    let room = columns.saturating_sub(fixed + 2).max(2 * LEAST_NAME);
    let [one, other] = SHARING.map(|column| widths.get(column).copied().unwrap_or(0));
    // Where one is short, the other has the rest.
    let least = one.min(other).min(room / 2);
    for row in rows {
        for column in SHARING {
            if let Some(text) = row.get_mut(column) {
                *text = shorten(text, (room - least).max(LEAST_NAME));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use noise_analysis::{Cause, Ending};

    use super::*;
    use crate::incidents::made::{self, culprit, episode};

    fn shown(reports: &[Report], columns: usize) -> String {
        let now = "2026-11-21T09:42:00Z".parse().unwrap();
        list(reports, now, &TimeZone::UTC, columns)
    }

    fn several() -> Vec<Report> {
        let mut own = episode("/system.slice/db.service");
        own.culprits = vec![culprit("throttle", Cause::Throttle, 10.0, 0.97)];
        (own.ending, own.start) = (None, "2026-11-19T09:41:02.5Z".parse().unwrap());
        let also = vec![episode("/a"), episode("/b")];
        vec![made::report(), Report::new(12, true, own, also)]
    }

    #[test]
    fn each_is_a_line() {
        insta::assert_snapshot!(shown(&several(), 120));
        assert_eq!(shown(&[], 120), "no incidents\n");
    }

    #[test]
    fn an_incident_began_with_the_first_of_what_belongs_to_it() {
        let mut report = made::report();
        let mut first = episode("/a");
        first.start = "2026-11-19T09:41:02.5Z".parse().unwrap();
        report.also = vec![first.clone()];
        assert!(shown(&[report], 120).contains(&minute(first.start, &TimeZone::UTC)));
    }

    #[test]
    fn a_line_has_room_on_a_small_terminal() {
        for columns in [100, 120, 200] {
            let text = shown(&several(), columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
        }
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let mut hostile = episode("/a\u{1b}[2J\n#9");
        hostile.culprits[0].culprit = "\u{9b}31m".into();
        hostile.ending = Some(Ending::Vanished);
        let text = shown(&[Report::new(1, false, hostile, Vec::new())], 120);
        assert!(!text.chars().any(|char| char.is_control() && char != '\n'), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}

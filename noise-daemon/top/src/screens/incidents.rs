//! What left its own baseline, since when, and by whom.

mod page;

pub use self::page::page as open;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_analysis::{Episode, Figure, Report, Side};
use noise_model::labels::{ROOT, spoken_briefly};
use noise_text::times;

use super::cells;
use crate::{Cell, Column, History, ScreenLook, Table, TableRow, Tone};

fn columns(zone: &TimeZone) -> Vec<Column> {
    // Offsets are longer than `UTC`.
    let time_width = u16::try_from(times::of_day(Timestamp::UNIX_EPOCH, zone).len()).unwrap_or(12);
    vec![
        // Its number is when it was last seen, which is now while it is open: so open ones come
        // first, and then those that ended last.
        cells::names("state", "last_unix_seconds", 5)
            .help("Whether it goes on; sorted by when it was last seen."),
        cells::names("since", "start_unix_seconds", time_width).help("When it began."),
        cells::numbers("for", "seconds", 8).help("How long it lasted, or has lasted so far."),
        cells::names("subject", "subject", 14).grows().help("Whose delays they are."),
        cells::names("culprit", "culprit", 14).grows().help("Who did most of it, with its part."),
        cells::names("lacks", "resource", 6)
            .help("What the subject mainly lacks: cpu, quota, disk, memory, …"),
        cells::numbers("rose most", "after_seconds", 11)
            .help("The figure that rose most, and by which factor."),
        cells::numbers("lost", "lost_seconds", 8)
            .help("Excess delay: time lost above the baseline."),
        cells::numbers("id", "id", 4).help("Its number, as in `noised incidents`."),
        cells::names("signal", "signal", 12)
            .help("The signal that it opened by, as metrics have it."),
    ]
}

/// Incidents, those that are open first.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let frame = history.latest();
    let rows = frame.iter().flat_map(|frame| {
        frame.overview.incidents.iter().rev().map(|report| row(report, frame.time, &look.zone))
    });
    Table {
        title: "Incidents".to_owned(),
        columns: columns(&look.zone),
        rows: rows.collect(),
        sorted_by: 0,
        empty: match frame {
            Some(_) => {
                "No incidents: no delay has left its usual range. What is usual is learnt in the \
                 first minutes."
            }
            None => "The first incidents come with the first reading.",
        }
        .into(),
    }
}

fn row(report: &Report, now: Timestamp, zone: &TimeZone) -> TableRow {
    let (start, main, worst) = (report.start(), &report.main, report.worst());
    let unix = |time: Timestamp| Some(time.as_millisecond() as f64 / 1e3);
    let last = if report.open { now.max(report.end()) } else { report.end() };
    let cells = vec![
        Cell::Number { text: state(report).to_owned(), value: unix(last) },
        Cell::Number { text: cells::short_moment(start, now, zone), value: unix(start) },
        cells::duration(report.lasted() * 1e9),
        subject(report),
        culprit(report),
        cells::text(report.resource().name()),
        change(worst),
        cells::duration(worst.lost_seconds * 1e9),
        Cell::Number { text: report.id.to_string(), value: Some(report.id as f64) },
        cells::text(main.signal.name()),
    ];
    TableRow {
        key: report.id.to_string(),
        cells,
        tone: if report.open { Tone::Alarm } else { Tone::Plain },
    }
}

fn state(report: &Report) -> &'static str {
    if report.open { "open" } else { "over" }
}

/// Whose delays they are; of the root cgroup, with the thread that waited longest.
fn subject(report: &Report) -> Cell {
    let subject = &report.main.subject;
    let mut threads = report.threads_of(Side::Victim, (subject, subject));
    let first = threads.next().filter(|_| **subject == *ROOT);
    match first {
        Some(first) => Cell::Named {
            name: spoken_briefly(subject).to_owned(),
            notes: vec![format!(", {}", first.name())],
        },
        None => cells::cgroup(subject),
    }
}

/// Who did most of what it is about; of the root cgroup, with the thread that had most.
pub(super) fn culprit(report: &Report) -> Cell {
    let worst = report.worst();
    let Some(first) = report.leading() else { return cells::text(report.by_whom()) };
    let cell = cells::culprit(&first.culprit, first.cause, first.part(worst.nothing_beyond()));
    let thread = report.threads_of(Side::Culprit, (&worst.subject, &first.culprit)).next();
    match (cell, thread.filter(|_| *first.culprit == *ROOT)) {
        (Cell::Named { name, mut notes }, Some(thread)) => {
            notes.push(format!(", {}", thread.name()));
            Cell::Named { name, notes }
        }
        (cell, _) => cell,
    }
}

/// The figure that rose most.
fn change(episode: &Episode) -> Cell {
    let Some(headline) = episode.headline() else { return cells::text("–") };
    let value = match headline.figure {
        Figure::Taken => headline.during,
        _ => headline.during / 1e9,
    };
    Cell::Number { text: headline.short(), value: Some(value) }
}

/// Whose delays an incident is about, where that is a cgroup.
pub fn victim(history: &History, key: &str) -> Option<String> {
    let reports = &history.latest()?.overview.incidents;
    let main = &reports.iter().find(|report| report.id.to_string() == key)?.main;
    (main.signal.is_of_cgroup() && !main.subject.starts_with('~')).then(|| main.subject.to_string())
}

/// An open incident, for tests of other screens.
#[cfg(test)]
pub(super) fn made_report(id: u64) -> Report {
    page::tests::report(id, true, 0, 0)
}

/// A long wait, for tests of other screens.
#[cfg(test)]
pub(super) fn made_wait(
    victim: &str,
    culprit: &str,
    pid: u32,
) -> std::sync::Arc<noise_analysis::ReportedOutlier> {
    page::tests::wait(victim, culprit, pid)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noise_analysis::{Cause, Ending};

    use super::page::tests::{episode, report};
    use super::*;
    use crate::screens::made::Made;

    #[test]
    fn open_ones_come_first_and_then_the_newest() {
        let mut made = Made::new();
        made.frame();
        let mut first = report(1, false, -600, -500);
        let second = report(2, false, -400, -300);
        let third = report(3, true, -550, 0);
        first.main.ending = Some(Ending::Adopted);
        made.incidents = [first, second, third].map(Arc::new).to_vec();
        made.frame();
        let table = table(&made.history, &ScreenLook::default());
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        let mut rows: Vec<_> = table.rows.iter().collect();
        let last = |row: &TableRow| match &row.cells[table.sorted_by] {
            Cell::Number { value, .. } => value.unwrap(),
            other => panic!("{other:?}"),
        };
        rows.sort_by(|a, b| last(b).total_cmp(&last(a)));
        let shown: Vec<_> = rows.iter().map(|row| (row.key.as_str(), row.tone)).collect();
        assert_eq!(shown, [("3", Tone::Alarm), ("2", Tone::Plain), ("1", Tone::Plain)]);
        let Cell::Number { text, .. } = &rows[0].cells[0] else { panic!() };
        assert_eq!(text, "open");
        let Cell::Number { text, .. } = &rows[0].cells[1] else { panic!() };
        assert!(text.ends_with("UTC"), "{text}");
    }

    #[test]
    fn the_change_is_that_of_the_figure_that_rose_most() {
        let mut one = episode();
        let text = |one: &Episode| match change(one) {
            Cell::Number { text, value } => (text, value),
            other => (format!("{other:?}"), None),
        };
        assert_eq!(text(&one), ("p99 341x".to_owned(), one.after.p99_ns.map(|ns| ns as f64 / 1e9)));
        // They fell: that is not what the incident is about.
        (one.after.p50_ns, one.after.p99_ns) = (Some(1_024), Some(1_024));
        assert_eq!(text(&one).1, one.after.mean_ns.map(|ns| ns / 1e9));
        one.after = one.before;
        let (excess, value) = text(&one);
        assert!(excess.starts_with("excess delay "), "{excess}");
        assert_eq!(value, Some(one.lost_seconds));
        one.lost_seconds = 0.0;
        assert_eq!(change(&one), cells::text("–"));
    }

    #[test]
    fn the_first_culprit_is_reported_with_its_part() {
        let mut one = report(1, true, 0, 10);
        let expected =
            |share| cells::culprit("/system.slice/backup.service", Cause::Foreign, share);
        assert_eq!(culprit(&one), expected(0.889));
        let culprits = &mut one.main.culprits;
        culprits.iter_mut().for_each(|culprit| culprit.beyond = Default::default());
        culprits[0].time.share = 0.5;
        assert_eq!(culprit(&one), expected(0.5));
        // What costs most is what the resource beside it is about.
        let mut worse = episode();
        worse.lost_seconds = 99.0;
        worse.culprits[0].culprit = "/worse".into();
        one.also.push(worse);
        assert_eq!(culprit(&one), cells::culprit("/worse", Cause::Foreign, 0.889));
        one.also.clear();
        one.main.culprits.clear();
        assert_eq!(culprit(&one), cells::text("not known"));
    }

    #[test]
    fn what_is_lost_is_of_the_same_as_what_rose() {
        let mut made = Made::new();
        let mut one = report(1, true, -10, 0);
        one.also = vec![Episode { lost_seconds: 99.0, ..episode() }];
        made.incidents = vec![Arc::new(one)];
        made.frame();
        let table = table(&made.history, &ScreenLook::default());
        let lost = table.columns.iter().position(|column| column.title == "lost").unwrap();
        assert_eq!(table.rows[0].cells[lost], cells::duration(99e9));
    }

    #[test]
    fn a_calm_host_is_reported_as_such() {
        let mut made = Made::new();
        assert!(table(&made.history, &ScreenLook::default()).empty.contains("first reading"));
        made.frame();
        assert!(table(&made.history, &ScreenLook::default()).empty.starts_with("No incidents"));
        assert!(open(&made.history, &ScreenLook::default(), "1").is_none());
    }
}

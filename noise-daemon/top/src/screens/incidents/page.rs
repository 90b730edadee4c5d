//! One incident: what changed, who did it, what can be done, and the long waits of its subjects.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_analysis::{
    Episode, KeptTrace, Level, PRESSURE_HEADING, Report, ReportedOutlier, Time, Watched,
};
use noise_common::subject::SubjectKind;
use noise_model::labels::spoken_briefly;
use noise_model::words::{culprit_briefly, why};
use noise_text::units;

use crate::heat::heatmap;
use crate::screens::{cells, threads};
use crate::{Block, Cell, History, Page, ScreenLook, Table, TableRow, Tone};

/// Culprits, and remedies, that a page has room for: those of whom more is known than that they were there.
const SHOWN: usize = 12;
const WAITS: usize = 20;

/// What the row with that key opens.
pub fn page(history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let frame = history.latest()?;
    let id: u64 = key.parse().ok()?;
    let report = frame.overview.incidents.iter().find(|report| report.id == id)?;
    // What the sentence is about, which need not be what opened it.
    let worst = report.worst();
    let mut blocks = vec![
        Block::Text(heading(report, frame.time, &look.zone)),
        Block::Table(levels(worst)),
        Block::Table(culprits(worst)),
    ];
    blocks.extend(threads::of_report(report));
    blocks.extend(remedies(report));
    blocks.extend(pressure(report));
    blocks.extend(also(report, &look.zone));
    blocks.extend(over_time(history, worst));
    blocks.extend(frame.overview.trace(id).map(trace));
    blocks.extend(waits(&frame.overview.outliers, report, frame.time, &look.zone));
    let subject = spoken_briefly(&worst.subject);
    let title = format!("Incident {id}: {subject}, {}", report.resource().name());
    Some(Page { title, blocks })
}

fn heading(report: &Report, now: Timestamp, zone: &TimeZone) -> Vec<(String, Tone)> {
    let worst = report.worst();
    let tone = if report.open { Tone::Alarm } else { Tone::Strong };
    let (since, lasted) =
        (cells::moment(report.start(), now, zone), cells::length(report.lasted()));
    let lost = units::duration(worst.lost_seconds * 1e9);
    // The rest may go on for longer.
    let calm = if report.open && !worst.is_active() { ", calm now" } else { "" };
    let standing = report.standing();
    vec![
        (format!("{}.", report.sentence(zone)), tone),
        (format!("Since {since}, {lasted}, {standing}{calm}; {lost} excess delay."), Tone::Plain),
        (worst.signal.help().to_owned(), Tone::Dim),
    ]
}

fn levels(episode: &Episode) -> Table {
    // What is taken is an amount of time, and no number of delays.
    let is_delay = episode.signal != Watched::Interruption;
    let of = |ns: Option<f64>| ns.filter(|_| is_delay).map_or_else(cells::nothing, cells::duration);
    let row = |name: &str, level: &Level| TableRow {
        key: name.to_owned(),
        cells: vec![
            cells::text(name),
            of(level.p50_ns.map(|ns| ns as f64)),
            of(level.p99_ns.map(|ns| ns as f64)),
            of(level.mean_ns),
            if is_delay { cells::rate(level.rate) } else { cells::nothing() },
            cells::lost(level.lost),
        ],
        tone: Tone::Plain,
    };
    Table {
        title: "What changed".to_owned(),
        columns: vec![
            cells::names("", "when", 6).help("Before it, which is usual, or during it."),
            cells::numbers("median", "p50_seconds", 8).help("Half of the delays were no longer."),
            cells::numbers("p99", "p99_seconds", 8).help("99 in 100 were no longer."),
            cells::numbers("mean", "mean_seconds", 8).help("All delays by their number."),
            cells::numbers("rate", "per_second", 9).help("Delays in a second."),
            cells::numbers("lost", "lost_seconds_per_second", 9).help("Time lost in a second."),
        ],
        // Their names are in order.
        rows: vec![row("before", &episode.before), row("during", &episode.after)],
        sorted_by: 0,
        empty: "".into(),
    }
}

fn culprits(episode: &Episode) -> Table {
    let (named, others) = episode.named_culprits(SHOWN);
    let mut rows: Vec<TableRow> = Vec::new();
    let mut push = |name: String, cause: &str, time: Time, beyond: Option<Time>, tone| {
        let cells = vec![
            cells::text(name.clone()),
            cells::text(cause),
            cells::duration(time.seconds * 1e9),
            Cell::Share(time.share),
            beyond.map_or_else(cells::nothing, |beyond| cells::duration(beyond.seconds * 1e9)),
            beyond.map_or_else(cells::nothing, |beyond| Cell::Share(beyond.share)),
        ];
        rows.push(TableRow { key: format!("{cause} {name}"), cells, tone });
    };
    for (index, one) in named.into_iter().enumerate() {
        let tone = if index == 0 { Tone::Strong } else { Tone::Plain };
        let name = culprit_briefly(one.cause, &one.culprit).to_owned();
        push(name, why(one.cause), one.time, Some(one.beyond), tone);
    }
    for (time, name) in [(others, "others"), (episode.untracked, "not known")] {
        if time.seconds > 0.0 {
            push(name.to_owned(), "", time, None, Tone::Dim);
        }
    }
    Table {
        title: "Culprits".to_owned(),
        columns: vec![
            cells::names("culprit", "culprit", 14).grows().help("Who is charged with delays."),
            cells::names("cause", "cause", 14).help("Why."),
            cells::numbers("time", "seconds", 9).help("How much, of all delays."),
            cells::pictures("share", "share", 11).help("Its part of all delays."),
            cells::numbers("beyond", "beyond_seconds", 9)
                .help("How much more than is usual for it."),
            cells::pictures("of that", "beyond_share", 11).help("Its share of the whole excess."),
        ],
        rows,
        // The culprit with the largest excess is first; where none has any, the one with most time.
        sorted_by: if episode.nothing_beyond() { 2 } else { 4 },
        empty: "Culprits unknown.".into(),
    }
}

fn remedies(report: &Report) -> Option<Block> {
    let mut lines = vec![("Remedies".to_owned(), Tone::Strong)];
    for one in report.verdict(&TimeZone::UTC).remedies().into_iter().take(SHOWN) {
        let advice = one.remedy.advice();
        lines.push((advice.setting.to_owned(), Tone::Plain));
        lines.push((format!("  {} {}", advice.effect, advice.cost), Tone::Dim));
        lines.extend(one.lines().map(|line| (format!("  {line}"), Tone::Plain)));
    }
    (lines.len() > 1).then_some(Block::Text(lines))
}

fn pressure(report: &Report) -> Option<Block> {
    let pressure = report.beside.pressure.as_ref()?;
    let heading = [(PRESSURE_HEADING.to_owned(), Tone::Strong)];
    let lines = pressure.lines().into_iter().map(|line| (line, Tone::Plain));
    Some(Block::Text(heading.into_iter().chain(lines).collect()))
}

fn also(report: &Report, zone: &TimeZone) -> Option<Block> {
    let mut lines = vec![("Also disturbed".to_owned(), Tone::Strong)];
    for episode in report.others() {
        lines.push((report.sentence_of(episode, zone), Tone::Plain));
        let lasted = cells::length(episode.disturbed_seconds());
        let so_far = if episode.is_active() { " so far" } else { "" };
        let lost = units::duration(episode.lost_seconds * 1e9);
        lines.push((format!("  {lasted}{so_far}, {lost} lost"), Tone::Dim));
    }
    if report.untold > 0 {
        lines.push((format!("and {} more", report.untold), Tone::Plain));
    }
    (lines.len() > 1).then_some(Block::Text(lines))
}

/// The delays themselves, as far as steps go back.
fn over_time(history: &History, episode: &Episode) -> Option<Block> {
    let (Watched::Signal(signal), subject) = (episode.signal, &*episode.subject) else {
        return None;
    };
    let labels = match signal.info().subject {
        SubjectKind::Request => {
            let (device, operation) = subject.rsplit_once(' ')?;
            vec![device.to_owned(), operation.to_owned()]
        }
        SubjectKind::Kinds(_) => vec![subject.rsplit_once(' ')?.1.to_owned()],
        SubjectKind::Host => Vec::new(),
        _ => vec![subject.to_owned()],
    };
    let heatmap = heatmap(history, "The last minutes", signal, |own| own == labels);
    (!heatmap.bounds_ns.is_empty()).then_some(Block::Heatmap(heatmap))
}

/// What was kept of the moment when it opened.
fn trace(trace: &KeptTrace) -> Block {
    let mut lines = vec![("When it opened".to_owned(), Tone::Strong)];
    lines.extend(trace.waits.iter().map(|wait| (wait.to_string(), Tone::Plain)));
    lines.push((trace.sentence(), Tone::Dim));
    Block::Text(lines)
}

/// Long waits of those who are disturbed, the newest first.
fn waits(
    outliers: &[Arc<ReportedOutlier>],
    report: &Report,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<Block> {
    let subjects = || [&report.main].into_iter().chain(&report.also).map(|one| &one.subject);
    let own = outliers.iter().rev().filter(|outlier| {
        report.is_during(outlier.time) && subjects().any(|subject| *subject == outlier.wait.victim)
    });
    let duration = |ns: u64| units::duration(ns as f64);
    let mut lines = vec![("Long waits meanwhile".to_owned(), Tone::Strong)];
    for outlier in own.take(WAITS) {
        let at = cells::moment(outlier.time, now, zone);
        lines.push((format!("{at}  {}", outlier.sentence(duration)), Tone::Plain));
        let parts = outlier.parts(duration).into_iter();
        lines.extend(parts.map(|part| (format!("  {part}"), Tone::Dim)));
    }
    (lines.len() > 1).then_some(Block::Text(lines))
}

#[cfg(test)]
pub(super) mod tests {
    use noise_analysis::made::blank;
    use noise_analysis::{Cause, Culprit, Ending, Remedy};
    use noise_common::signals::Signal;
    use noise_model::{OutlierPart, OutlierRecord};

    use super::{
        Arc, Block, Cell, Episode, KeptTrace, Level, Page, Report, ReportedOutlier, Table, Time,
        Timestamp, Watched, cells, levels, over_time, page, trace,
    };
    use crate::ScreenLook;
    use crate::screens::made::{BEGIN, Made};

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(BEGIN.1 + seconds).unwrap()
    }

    fn culprit(name: &str, cause: Cause, seconds: f64, share: f64) -> Culprit<Arc<str>> {
        let time = Time { seconds, share };
        let beyond = Time { seconds: seconds / 2.0, share };
        Culprit { culprit: name.into(), cause, time, beyond }
    }

    /// Of a service that a backup disturbs.
    pub fn episode() -> Episode {
        let level = |p50_ns, mean_ns| Level {
            p50_ns: Some(p50_ns),
            p99_ns: Some(p50_ns * 4),
            mean_ns: Some(mean_ns),
            rate: 200.0,
            lost: 0.5,
        };
        Episode {
            start: time(0),
            end: time(0),
            seconds: 12.5,
            before: level(12_288, 20_000.0),
            after: level(4_194_304, 5_000_000.0),
            lost_seconds: 11.25,
            culprits: vec![
                culprit("/system.slice/backup.service", Cause::Foreign, 10.0, 0.889),
                culprit("virtio1-req.0", Cause::Hardirq, 0.9, 0.08),
                culprit("net_rx", Cause::Softirq, 0.01, 0.001),
            ],
            others: Time { seconds: 0.25, share: 0.02 },
            untracked: Time { seconds: 0.35, share: 0.031 },
            remedies: vec![Remedy::CpuWeight, Remedy::CpuAffinity],
            ..blank("/system.slice/web.service")
        }
    }

    /// One from then to then, seconds from the first frame.
    pub fn report(id: u64, open: bool, start: i64, end: i64) -> Report {
        let ending = (!open).then_some(Ending::Over);
        let main = Episode { start: time(start), end: time(end), ending, ..episode() };
        Report::new(id, open, main, Vec::new())
    }

    const BACKUP: (&str, u32) = ("/system.slice/backup.service", 777);

    /// A worker that waited for a thread of another cgroup.
    pub fn wait(victim: &str, culprit: &str, pid: u32) -> Arc<ReportedOutlier> {
        waited(victim, (culprit, pid), 0)
    }

    fn waited(victim: &str, (culprit, pid): (&str, u32), seconds: i64) -> Arc<ReportedOutlier> {
        let part = OutlierPart {
            culprit: culprit.into(),
            cause: Cause::Foreign,
            pid,
            comm: "gzip".into(),
            ns: 8_000_000,
        };
        let wait = OutlierRecord {
            at_ns: 0,
            wait_ns: 8_100_000,
            victim: victim.into(),
            pid: 42,
            comm: "worker".into(),
            cpu: 3,
            made_runnable: "wakeup".into(),
            parts: vec![part],
            rest_ns: 100_000,
        };
        Arc::new(ReportedOutlier { time: time(seconds), wait })
    }

    fn words(page: &Page) -> Vec<String> {
        let texts = page.blocks.iter().filter_map(|block| match block {
            Block::Text(lines) => Some(lines),
            _ => None,
        });
        texts.flatten().map(|(line, _)| line.clone()).collect()
    }

    fn tables(page: &Page) -> Vec<&Table> {
        let tables = page.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        tables.collect()
    }

    #[test]
    fn of_what_is_taken_only_the_time_is_shown() {
        let shown = |signal: Watched| {
            let table = levels(&Episode { signal, ..episode() });
            table.rows.iter().map(|row| row.cells[1..].to_vec()).collect::<Vec<_>>()
        };
        let taken = shown(Watched::Interruption);
        for (taken, delays) in taken.iter().zip(shown(episode().signal)) {
            assert!(taken[..4].iter().all(|cell| *cell == cells::nothing()));
            assert!(delays[..4].iter().all(|cell| *cell != cells::nothing()));
            assert_eq!(taken[4], delays[4]);
        }
        assert_eq!(taken.len(), 2);
    }

    #[test]
    fn an_incident_is_reported_with_all_that_is_known() {
        let mut made = Made::new();
        made.frame();
        let mut one = report(7, true, -100, 1);
        one.also = vec![Episode { subject: "/system.slice/db.service".into(), ..episode() }];
        one.untold = 2;
        made.incidents = vec![Arc::new(report(6, false, -900, -800)), Arc::new(one)];
        made.outliers = vec![
            waited("/system.slice/web.service", BACKUP, -500),
            waited("/system.slice/web.service", BACKUP, -50),
            waited("/system.slice/db.service", BACKUP, -40),
            waited("/system.slice/other.service", BACKUP, -30),
        ];
        made.delay(Signal::CgroupRunqueueWait, &["/system.slice/web.service"], 1 << 22, 9);
        made.frame();
        let page = page(&made.history, &ScreenLook::default(), "7").unwrap();
        let words = words(&page);
        assert!(words[1].contains(", open; "), "{words:?}");
        for part in [
            "cpu.weight",
            "Gives the victim a larger part",
            "db.service waits for a CPU: p99",
            "and 2 more",
            "not attributed",
        ] {
            assert!(words.iter().any(|line| line.contains(part)), "{part}: {words:?}");
        }
        let waits: Vec<&String> = words.iter().filter(|line| line.contains(" waited ")).collect();
        assert_eq!(waits.len(), 2, "{waits:?}");
        assert!(waits[0].contains("db.service"), "{waits:?}");
        let tables = tables(&page);
        assert!(
            tables.iter().all(|table| {
                table.rows.iter().all(|row| row.cells.len() == table.columns.len())
            })
        );
        let names: Vec<&str> = tables[1].rows.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(
            names,
            [
                "another cgroup /system.slice/backup.service",
                "interrupt virtio1-req.0",
                " others",
                " not known"
            ]
        );
        let Cell::Number { value, .. } = &tables[1].rows[2].cells[2] else { panic!() };
        assert_eq!(*value, Some(0.26));
        let names: Vec<&str> = tables[0].rows.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(names, ["before", "during"]);
        let Cell::Number { value, .. } = &tables[0].rows[1].cells[1] else { panic!() };
        assert_eq!(*value, Some(4_194_304.0 / 1e9));
        assert!(page.blocks.iter().any(|block| matches!(block, Block::Heatmap(_))));
    }

    #[test]
    fn figures_and_culprits_are_of_what_the_sentence_is_about() {
        let mut made = Made::new();
        made.frame();
        let mut one = report(7, true, -100, 1);
        let mut worse = Episode { signal: Signal::UninterruptibleWait.into(), ..episode() };
        (worse.lost_seconds, worse.after.p50_ns) = (45.0, Some(1 << 30));
        worse.culprits = vec![culprit("/writer", Cause::Foreign, 40.0, 0.9)];
        one.also = vec![worse];
        made.incidents = vec![Arc::new(one)];
        made.frame();
        let page = page(&made.history, &ScreenLook::default(), "7").unwrap();
        let (words, tables) = (words(&page), tables(&page));
        assert!(words[0].contains(", until /writer was done"), "{words:?}");
        assert!(words[1].ends_with("; 45.0 s excess delay."), "{words:?}");
        assert!(words[2].contains("uninterruptible sleep"), "{words:?}");
        let Cell::Number { value, .. } = &tables[0].rows[1].cells[1] else { panic!() };
        assert_eq!(*value, Some((1_u64 << 30) as f64 / 1e9));
        assert_eq!(tables[1].rows[0].key, "another cgroup /writer");
        // What opened it is said beside it.
        let at = words.iter().position(|line| line == "Also disturbed").unwrap();
        assert!(words[at + 1].contains(" waits for a CPU: "), "{words:?}");
        assert!(words[at + 2].ends_with(", 11.2 s lost"), "{words:?}");
    }

    #[test]
    fn the_distribution_is_that_of_the_subject() {
        let mut made = Made::new();
        made.frame();
        for (signal, subject, labels) in [
            (Signal::BlockQueueWait, "vda read", ["vda", "read"].as_slice()),
            (Signal::RunqueueWait, "host wakeup", ["wakeup"].as_slice()),
            (Signal::DirectReclaim, "host", [].as_slice()),
            (Signal::NetTxWait, "eth0", ["eth0"].as_slice()),
        ] {
            made.delay(signal, labels, 5_000, 1);
            made.frame();
            let episode = Episode { signal: signal.into(), subject: subject.into(), ..episode() };
            assert!(over_time(&made.history, &episode).is_some(), "{subject}");
            let episode = Episode { subject: "nobody".into(), ..episode };
            assert!(
                over_time(&made.history, &episode).is_none() || signal == Signal::DirectReclaim
            );
        }
    }

    #[test]
    fn what_was_kept_of_its_begin_is_reported() {
        let without = KeptTrace::without(7, time(0), "the disk is full");
        let kept = KeptTrace {
            waits: vec!["web 42 waited 3 ms".into()],
            trouble: None,
            ..without.clone()
        };
        let Block::Text(lines) = trace(&kept) else { panic!() };
        let lines: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines[..2], ["When it opened", "web 42 waited 3 ms"]);
        assert!(lines[2].ends_with("noised incidents show 7 --path"), "{lines:?}");
        let Block::Text(lines) = trace(&without) else { panic!() };
        assert!(lines[1].0.contains("the disk is full"), "{lines:?}");
    }

    #[test]
    fn where_nothing_is_known_it_says_so() {
        let mut made = Made::new();
        let mut one = report(1, false, -10, -5);
        one.main.culprits.clear();
        one.main.remedies.clear();
        one.main.others = Time::default();
        one.main.untracked = Time::default();
        made.incidents = vec![Arc::new(one)];
        made.frame();
        let page = page(&made.history, &ScreenLook::default(), "1").unwrap();
        assert_eq!(page.blocks.len(), 3);
        assert!(tables(&page)[1].rows.is_empty());
        assert!(words(&page)[1].contains(", over; "));
        for key in ["2", "", "x"] {
            assert!(super::page(&made.history, &ScreenLook::default(), key).is_none());
        }
    }
}

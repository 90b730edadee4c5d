//! Frames, tables and pages for tests: generated, always the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use noise_analysis::{Episode, Level, Overview, Remedy, Report, Time, made};
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::hist::{BUCKETS, upper_bound_ns};
use noise_common::signals::Signal;
use noise_model::{Histogram, Host, Interference, Labels, Sample, Series, Step};
use noise_wire::Frame;

use super::app::Makers;
use super::{
    Align, Block, Cell, Column, Heatmap, History, Page, Screen, ScreenLook, Table, TableRow, Tone,
};

/// When the first frame was taken.
const BEGIN: &str = "2026-03-04T12:00:00Z";
const SECOND_NS: u64 = 1_000_000_000;

/// Cgroups with long and short names, and one whose name would steer the terminal.
fn cgroup(index: u64) -> String {
    match index {
        0 => "/system.slice/web.service".to_owned(),
        1 => "/system.slice/a-very-long-name-of-a-service-that-somebody-chose.service".to_owned(),
        2 => "/evil\u{1b}[2J\u{202e}.slice".to_owned(),
        3 => "/user.slice/ユーザー.scope".to_owned(),
        _ => format!("/machine.slice/vm-{index}.scope"),
    }
}

/// How much of something, of the frame and of one of many: small numbers that look random.
fn some(number: u64, index: u64) -> u64 {
    (number * 7_919 + index * 104_729 + number * index * 31) % 97 + 3
}

fn totals(number: u64, index: u64) -> Histogram {
    let mut totals = Histogram::default();
    for second in 0..=number {
        for (length_ns, count) in [
            (3_000, some(second, index) * 20),
            (40_000, some(second, index) * 4),
            (900_000, some(second, index) / 20),
            (12_000_000, u64::from(second % 9 == index % 9)),
        ] {
            totals.record(length_ns, count);
        }
    }
    totals
}

fn sample(number: u64, cgroups: u64) -> Sample {
    let series = |index| Series {
        signal: Signal::CgroupRunqueueWait,
        labels: [cgroup(index)].into(),
        totals: totals(number, index),
        recent_max_ns: some(number, index) * 10_000,
    };
    let host = Series {
        signal: Signal::RunqueueWait,
        labels: ["wakeup".to_owned()].into(),
        totals: totals(number, 0),
        recent_max_ns: 12_345_678,
    };
    let interference = |index: u64| Interference {
        resource: Resource::Cpu,
        cause: Cause::Foreign,
        place: "".into(),
        victim: cgroup(index).into(),
        culprit: cgroup(index + 1).into(),
        charged: Charged {
            ns: (0..=number).map(|second| some(second, index) * 100_000).sum(),
            count: (number + 1) * (index + 1),
        },
    };
    Sample {
        at_ns: 1_000 * SECOND_NS + number * SECOND_NS,
        series: [host].into_iter().chain((0..cgroups).map(series)).collect(),
        interference: (0..cgroups).map(interference).collect(),
        ..Sample::default()
    }
}

fn report() -> Report {
    let level = |mean: f64| Level {
        p50_ns: Some(12_288),
        p99_ns: Some(131_072),
        mean_ns: Some(mean),
        rate: 210.0,
        lost: 0.0042,
    };
    let share = Time { seconds: 10.0, share: 0.889 };
    let backup = made::culprit("/system.slice/backup.service", Cause::Foreign, share);
    let begin: Timestamp = BEGIN.parse().unwrap();
    let main = Episode {
        start: begin,
        end: begin,
        seconds: 12.5,
        before: level(2e4),
        after: level(5e6),
        lost_seconds: 11.2,
        culprits: vec![backup],
        remedies: vec![Remedy::CpuWeight],
        ..made::blank("/system.slice/web.service")
    };
    Report::new(3, true, main, Vec::new())
}

/// The frame of some second of a host with that many cgroups.
pub fn frame(number: u64, cgroups: u64) -> Arc<Frame> {
    let begin: Timestamp = BEGIN.parse().unwrap();
    let seconds = jiff::SignedDuration::from_secs(i64::try_from(number).unwrap());
    Arc::new(Frame {
        time: begin + seconds,
        host: Arc::new(Host {
            name: "db1.example".to_owned(),
            kernel: "6.18.3-cloud-amd64".to_owned(),
            noised: "0.1.0".to_owned(),
            cpus: (0..4).collect(),
            ..Host::default()
        }),
        sample: Arc::new(sample(number, cgroups)),
        overview: Overview { incidents: vec![Arc::new(report())], ..Overview::default() },
        trends: None,
    })
}

fn column(title: &'static str, key: &'static str, align: Align, width: u16, grows: bool) -> Column {
    let help = "What a column says, which can be a long sentence that has to be wrapped.";
    Column { title, key, align, width, grows, help }
}

fn columns() -> Vec<Column> {
    vec![
        column("cgroup", "cgroup", Align::Left, 16, true),
        column("events", "events_per_second", Align::Right, 8, false),
        column("lost", "lost_seconds_per_second", Align::Right, 9, false),
        column("p99", "p99_seconds", Align::Right, 8, false),
        column("share", "share", Align::Left, 12, false),
        column("two minutes", "seconds_over_time", Align::Left, 16, false),
    ]
}

fn number(value: f64, unit: &str) -> Cell {
    Cell::Number { text: format!("{value:.1} {unit}"), value: Some(value) }
}

fn row(history: &History, labels: &Labels, delays: &Histogram, seconds: f64) -> Option<TableRow> {
    let name = labels.first()?;
    let lost = delays.sum_ns as f64 / 1e9 / seconds;
    Some(TableRow {
        key: name.clone(),
        cells: vec![
            Cell::Text(name.clone()),
            number(delays.count() as f64 / seconds, "/s"),
            number(lost * 1e3, "ms/s"),
            match delays.quantile_ns(0.99) {
                Some(ns) => number(ns as f64 / 1e3, "µs"),
                None => Cell::Number { text: "–".to_owned(), value: None },
            },
            Cell::Share(lost * 20.0),
            Cell::Spark(history.over_time(|step| of(step, labels).sum_ns as f64)),
        ],
        tone: match lost {
            lost if lost > 0.02 => Tone::Alarm,
            lost if lost < 0.008 => Tone::Dim,
            _ => Tone::Plain,
        },
    })
}

/// The waits of one cgroup.
fn of(step: &Step, wanted: &[String]) -> Histogram {
    let mut sum = Histogram::default();
    let all = step.delays_of(Signal::CgroupRunqueueWait);
    all.filter(|(labels, _)| labels[..] == *wanted).for_each(|(_, delays)| sum.add(&delays));
    sum
}

/// A table of cgroups, on every screen but the one of incidents, which is empty.
fn table(screen: Screen, history: &History, look: &ScreenLook) -> Table {
    let steps: Vec<&Step> = history.steps_since(look.from_ns(history)).collect();
    let seconds = steps.iter().map(|step| step.seconds()).sum();
    let mut sums: BTreeMap<&Labels, Histogram> = BTreeMap::new();
    let shown = steps.iter().filter(|_| screen != Screen::Incidents);
    for (labels, delays) in shown.flat_map(|step| step.delays_of(Signal::CgroupRunqueueWait)) {
        sums.entry(labels).or_default().add(&delays);
    }
    let rows = sums.iter().filter_map(|(labels, delays)| row(history, labels, delays, seconds));
    Table {
        title: format!("Cgroups as {}", screen.titles().0),
        columns: columns(),
        rows: rows.collect(),
        sorted_by: 2,
        empty: "nothing waits".into(),
    }
}

fn heatmap(history: &History, key: &str) -> Heatmap {
    let wanted = [key.to_owned()];
    Heatmap {
        title: "Waits over time".to_owned(),
        bounds_ns: (0..BUCKETS).map(upper_bound_ns).collect(),
        windows: history
            .steps()
            .map(|step| {
                let waits = of(step, &wanted);
                (0..BUCKETS).map(|bucket| waits.bucket(bucket)).collect()
            })
            .collect(),
        window_seconds: 1.0,
    }
}

fn open(screen: Screen, history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let inner = table(screen, history, look);
    let values = inner.rows.iter().find(|row| row.key == key)?.cells.get(5).cloned();
    let Some(Cell::Spark(values)) = values else { return None };
    let text =
        vec![
        ("How long it waited for CPUs, and for whom; this is said in a sentence that is longer \
          than a line of the terminal, so that it wraps."
            .to_owned(), Tone::Plain),
        ("Something is wrong.".to_owned(), Tone::Alarm),
    ];
    Some(Page {
        title: format!("{key} in detail"),
        blocks: vec![
            Block::Text(text),
            Block::Heatmap(heatmap(history, key)),
            Block::Graph { title: "Lost".to_owned(), values, largest: "12.3 ms/s".to_owned() },
            Block::Table(Table { title: "Others".to_owned(), ..inner }),
        ],
    })
}

/// Tables and pages that do not depend on the screens.
pub const MAKERS: Makers = Makers { table, open };

/// A filler of histories: so many seconds of a host with that many cgroups.
pub fn frames(seconds: u64, cgroups: u64) -> impl Iterator<Item = Arc<Frame>> {
    (0..seconds).map(move |number| frame(number, cgroups))
}

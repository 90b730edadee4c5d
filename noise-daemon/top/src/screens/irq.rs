//! Interrupts by source: what each takes, and how long softirqs wait for their turn.

use std::collections::BTreeMap;

use noise_common::charge::{Cause, Charged};
use noise_common::shown::Shown;
use noise_common::signals::{SIGNALS, Signal};
use noise_model::{Amount as _, Histogram, Labels, total};
use noise_text::units;

use super::cells;
use super::recent::{Recent, empty};
use super::tally::{self, DelayTally};
use crate::heat::heatmap;
use crate::{Block, Cell, Column, History, Page, ScreenLook, Table, TableRow, Tone};

/// A kind of source.
#[derive(Clone, Copy, Debug)]
struct InterruptSource {
    name: &'static str,
    signal: Signal,
    cause: Cause,
}

fn kinds() -> impl Iterator<Item = InterruptSource> {
    SIGNALS.iter().filter_map(|info| match info.shown {
        Shown::Source { kind } => {
            Some(InterruptSource { name: kind, signal: info.signal, cause: info.cause? })
        }
        _ => None,
    })
}

impl InterruptSource {
    /// How long its sources wait before they are served, where that is a signal.
    fn wait(self) -> Option<Signal> {
        let wait = SIGNALS.iter().find(|info| info.shown == Shown::Before { kind: self.name });
        wait.map(|info| info.signal)
    }

    /// The source as people know it.
    fn source(self, labels: &[String]) -> String {
        if labels.is_empty() { self.name.to_owned() } else { labels.join(" ") }
    }

    fn key(self, labels: &[String]) -> String {
        format!("{} {}", self.name, self.source(labels))
    }

    /// Its label as a culprit in charges.
    fn culprit(self, labels: &[String]) -> String {
        match labels {
            [irq, name] if name == "unknown" => format!("irq {irq}"),
            [.., name] => name.clone(),
            [] => self.cause.name().to_owned(),
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        cells::names("kind", "kind", 7).help("Device interrupt, x86 vector, softirq or NMI."),
        cells::names("source", "source", 12).grows().help("Number and name."),
        cells::numbers("rate", "rate_per_second", 8).help("How often in a second."),
        cells::numbers("mean", "mean_seconds", 7)
            .help("How long each took, net of what interrupted it."),
        cells::numbers("p99", "p99_seconds", 7).help("99 of 100 took that long at most."),
        cells::numbers("max", "max_seconds", 7).help("The longest."),
        cells::numbers("time", "cpu_seconds_per_second", 9)
            .help("CPU time that it takes in each second."),
        cells::numbers("raised", "raise_wait_p99_seconds", 7)
            .help("99 of 100 raised softirqs were served after that time at most."),
        cells::pictures("trend", "trend", 8).help("The last minutes of the CPU time."),
    ]
}

/// A row for each source.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let recent = Recent::new(history, look);
    let mut rows = Vec::new();
    for kind in kinds() {
        let raised = kind.wait().map(|wait| tally::recent_by_labels(history, &recent, wait));
        let raised: BTreeMap<&Labels, Histogram> = raised.into_iter().flatten().collect();
        for (labels, DelayTally { delays, trend }) in
            tally::over_time(history, &recent, kind.signal)
        {
            let (count, ns) = (delays.count(), delays.sum_ns);
            let wait = raised.get(labels);
            let cells = vec![
                cells::text(kind.name),
                cells::text(kind.source(labels)),
                cells::rate(recent.per_second(count as f64)),
                cells::mean(ns, count),
                tally::quantile(&delays, 0.99),
                tally::longest(&delays),
                cells::lost(recent.lost(ns)),
                wait.map_or_else(cells::nothing, |wait| tally::quantile(wait, 0.99)),
                Cell::Spark(trend),
            ];
            rows.push(TableRow { key: kind.key(labels), cells, tone: tally::tone(count == 0) });
        }
    }
    Table {
        title: "Interrupts".to_owned(),
        columns: columns(),
        rows,
        sorted_by: 6,
        empty: empty(history, "There was no interrupt since the start.").into(),
    }
}

/// One source over time, and whom it hit.
pub fn open(history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let series = &history.latest()?.sample.series;
    let (kind, labels) = series.iter().find_map(|series| {
        let kind = kinds().find(|kind| kind.signal == series.signal)?;
        (kind.key(&series.labels) == key).then_some((kind, &series.labels[..]))
    })?;
    let recent = Recent::new(history, look);
    let one = |signal| {
        let mut tallies = tally::over_time(history, &recent, signal).into_iter();
        tallies.find(|(own, _)| ***own == *labels).map(|(_, tally)| tally).unwrap_or_default()
    };
    let heat = |title, wanted| Block::Heatmap(heatmap(history, title, wanted, |own| own == labels));
    let tally = one(kind.signal);
    let mut lines = vec![(kind.signal.info().help.to_owned(), Tone::Plain)];
    let raised = kind.wait().map(|wait| one(wait).delays);
    if let Some(raised) = raised {
        let (half, most) = (tally::quantile(&raised, 0.5), tally::quantile(&raised, 0.99));
        if let (Cell::Number { text: half, value: Some(_) }, Cell::Number { text: most, .. }) =
            (half, most)
        {
            let text = format!(
                "Half of them were served {half} after they were raised, 99 of 100 after {most}."
            );
            lines.push((text, Tone::Plain));
        }
    }
    let mut blocks = vec![
        Block::Text(lines),
        heat("How long, over time", kind.signal),
        tally::graph("CPU time per second", tally.trend, units::lost),
    ];
    blocks.extend(kind.wait().map(|wait| heat("From the raise to the entry, over time", wait)));
    blocks.push(Block::Table(victims(history, &recent, kind, &kind.culprit(labels))));
    Some(Page { title: key.to_owned(), blocks })
}

/// Whom a source delayed, and at what.
fn victims(history: &History, recent: &Recent<'_>, kind: InterruptSource, culprit: &str) -> Table {
    let mut sums: BTreeMap<(&str, &str, &str), Charged> = BTreeMap::new();
    for one in recent.steps.iter().flat_map(|step| &step.charges) {
        if one.cause == kind.cause && &*one.culprit == culprit {
            let key = (&*one.victim, one.resource.name(), &*one.place);
            sums.entry(key).or_default().add(&one.charged);
        }
    }
    let whole = total(sums.values().map(|charged| charged.ns)) as f64;
    let rows = sums.into_iter().map(|((victim, resource, place), charged)| {
        let part = if whole > 0.0 { charged.ns as f64 / whole } else { 0.0 };
        let place = if place.is_empty() { String::new() } else { format!(" {place}") };
        let at = format!("{resource}{place}");
        let cells = vec![
            cells::cgroup(victim),
            cells::text(&at),
            cells::lost(recent.lost(charged.ns)),
            cells::rate(recent.per_second(charged.count as f64)),
            Cell::Share(part),
        ];
        TableRow { key: format!("{victim} {at}"), cells, tone: Tone::Plain }
    });
    Table {
        title: "Whom it hit in the last seconds".to_owned(),
        columns: vec![
            cells::names("victim", "victim", 20).grows().help("Who was delayed."),
            cells::names("resource", "resource", 12).help("What it had, or waited for."),
            cells::numbers("lost", "lost_seconds_per_second", 9)
                .help("Time it lost in each second."),
            cells::numbers("hits", "hits_per_second", 8).help("How often in a second."),
            cells::pictures("share", "share", 10).help("Its part of what all lost to this source."),
        ],
        rows: rows.collect(),
        sorted_by: 2,
        empty: empty(history, "It delayed no task in that time.").into(),
    }
}

#[cfg(test)]
mod tests;

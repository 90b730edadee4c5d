//! Every signal: how often, how long, how much time is lost to it, and whether that is unusual.

use noise_analysis::Watched;
use noise_common::shown::RECENT;
use noise_common::signals::{SIGNALS, Signal};
use noise_model::{Step, Taker, total};
use noise_text::units;

use super::recent::{Recent, empty};
use super::tally::{self, DelayTally};
use super::{cells, totals};
use crate::heat::heatmap;
use crate::{Block, Cell, Column, History, Page, ScreenLook, Table, TableRow, Tone};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowSubject {
    Signal(Signal),
    /// What the kernel counts anyway.
    PageFaults,
    /// What the kernel adds up anyway.
    Steal,
}

/// All rows. A part of a signal is on the page of the whole.
fn subjects() -> impl Iterator<Item = RowSubject> {
    SIGNALS
        .iter()
        .filter(|info| info.part_of.is_none())
        .map(|info| RowSubject::Signal(info.signal))
        .chain([RowSubject::PageFaults, RowSubject::Steal])
}

impl RowSubject {
    fn name(self) -> &'static str {
        match self {
            Self::Signal(signal) => signal.info().name,
            Self::PageFaults => "page_fault",
            Self::Steal => "steal",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Signal(signal) => signal.info().help,
            Self::PageFaults => {
                "Page faults of the host: minor ones are served from memory, major ones wait for a \
                 device."
            }
            Self::Steal => {
                "Time that the hypervisor took from the CPUs, as the kernel counts it, in clock ticks."
            }
        }
    }

    /// The signal, where it is one of delays.
    fn delays(self) -> Option<Signal> {
        match self {
            Self::Signal(signal) => signal.info().is_delay().then_some(signal),
            Self::PageFaults | Self::Steal => None,
        }
    }

    /// Whether an incident of a signal is one of this.
    fn is_about(self, signal: Signal) -> bool {
        self == Self::Signal(signal.info().part_of.unwrap_or(signal))
    }

    fn cells(self, history: &History, recent: &Recent<'_>) -> (Vec<Cell>, bool) {
        if let Some(signal) = self.delays() {
            let DelayTally { delays, trend } = tally::whole(history, recent, signal);
            let mut cells = tally::numbers(recent, &delays);
            cells.push(Cell::Spark(trend));
            return (cells, delays.count() == 0);
        }
        let (amount, trend) = self.counted(history, recent);
        let (rate, lost) = match self {
            Self::Steal => (cells::nothing(), cells::lost(recent.lost(amount))),
            _ => (cells::rate(recent.per_second(amount as f64)), cells::nothing()),
        };
        let none = cells::nothing;
        (vec![rate, none(), none(), none(), lost, Cell::Spark(trend)], amount == 0)
    }

    /// Events, or ns that were stolen, and the same per second over time, as it reads: in seconds.
    fn counted(self, history: &History, recent: &Recent<'_>) -> (u64, Vec<f64>) {
        let seen = |number: fn(&Step) -> u64, unit: f64| {
            let trend = history.over_time(|step| step.per_second(number(step) as f64 / unit));
            (totals::of(recent, number), trend)
        };
        match self {
            Self::Signal(signal) => {
                let count = |step: &Step| total(step.counts_of(signal).map(|(_, count)| count));
                (totals::of(recent, count), history.trends().signal(signal))
            }
            // A daemon does not read these each time: there is what the view has seen.
            Self::PageFaults => {
                seen(|step| total(step.page_faults.iter().map(|(_, count)| *count)), 1.0)
            }
            Self::Steal => seen(Step::stolen_ns, 1e9),
        }
    }

    fn absent(self, history: &History) -> Option<&str> {
        let absent = history.latest()?.sample.absent.iter();
        absent
            .filter(|(signal, _)| self == Self::Signal(*signal))
            .map(|(_, why)| why.as_str())
            .next()
    }

    /// Number and subject of the incidents that are open.
    fn open(self, history: &History) -> Vec<(u64, &str)> {
        let reports = history.latest().into_iter().flat_map(|frame| &frame.overview.incidents);
        let mut open = Vec::new();
        for report in reports.filter(|report| report.open) {
            for episode in std::iter::once(&report.main).chain(&report.also) {
                let Watched::Signal(signal) = episode.signal else { continue };
                if episode.ending.is_none() && self.is_about(signal) {
                    open.push((report.id, &*episode.subject));
                }
            }
        }
        open
    }
}

/// Key of the column by which signals below another table are sorted.
const LOST: &str = "lost_seconds_per_second";

fn columns() -> Vec<Column> {
    let signal = cells::names("signal", "signal", 20).help("The kind of delay.");
    let trend = Column {
        grows: true,
        ..cells::pictures("trend", "trend", 10).help(
            "The time lost over the last 15 minutes, or as long as is known; of the rate, of \
             what is only counted. Of steal and page faults: since the view began, two minutes \
             at most.",
        )
    };
    let now = cells::numbers("now", "open_incidents", 4).help("Incidents of it that are open.");
    std::iter::once(signal).chain(tally::columns()).chain([trend, now]).collect()
}

/// A row for each signal.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let recent = Recent::new(history, look);
    let row = |subject: RowSubject| {
        let (mut cells, quiet) = subject.cells(history, &recent);
        cells.insert(0, cells::text(subject.name()));
        let open = subject.open(history).len();
        let mark = if open > 0 { format!("●{open}") } else { String::new() };
        cells.push(Cell::Number { text: mark, value: Some(open as f64) });
        let tone = if open > 0 { Tone::Alarm } else { tally::tone(quiet) };
        TableRow { key: subject.name().to_owned(), cells, tone }
    };
    let columns = columns();
    Table {
        title: "Signals".to_owned(),
        rows: match history.latest() {
            Some(_) => subjects().map(row).collect(),
            None => Vec::new(),
        },
        // What is open on top; the others keep their order, so that nothing jumps.
        sorted_by: columns.len().saturating_sub(1),
        columns,
        empty: empty(history, "").into(),
    }
}

/// The signals that have events, for below another table, those with most time lost first; of the others, how many.
pub fn folded(history: &History, look: &ScreenLook) -> Table {
    let whole = table(history, look);
    let quiet = whole.rows.iter().filter(|row| row.tone == Tone::Dim).count();
    let rows: Vec<TableRow> = whole.rows.into_iter().filter(|row| row.tone != Tone::Dim).collect();
    let title = match quiet {
        0 => whole.title,
        _ => format!("{} with events; {quiet} without: screen 2", whole.title),
    };
    let lost = whole.columns.iter().position(|column| column.key == LOST).unwrap_or_default();
    Table { title, rows, sorted_by: lost, ..whole }
}

/// What is known of one signal.
pub fn open(history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let subject = subjects().find(|subject| subject.name() == key)?;
    let recent = Recent::new(history, look);
    let mut lines = vec![(subject.help().to_owned(), Tone::Plain)];
    if let Some(why) = subject.absent(history) {
        lines.push((format!("It is not measured here: {why}."), Tone::Strong));
        return Some(Page { title: key.to_owned(), blocks: vec![Block::Text(lines)] });
    }
    for (id, whose) in subject.open(history) {
        lines.push((format!("Incident {id} is open: {whose}."), Tone::Alarm));
    }
    let mut blocks = vec![Block::Text(lines)];
    match subject.delays() {
        Some(signal) => {
            // Pictures first: a table may be long.
            let heat = heatmap(history, "How long, over time", signal, |_| true);
            blocks.push(Block::Heatmap(heat));
            let trend = tally::whole(history, &recent, signal).trend;
            blocks.push(tally::graph("Time lost per second", trend, units::lost));
            let whole = signal.info();
            let tables = [whole].into_iter().chain(whole.parts());
            blocks.extend(tables.map(|info| Block::Table(tally::series(history, &recent, info))));
        }
        None => {
            let (_, trend) = subject.counted(history, &recent);
            let (title, reads): (_, fn(f64) -> String) = match subject {
                RowSubject::Steal => ("Time lost per second", units::lost),
                _ => ("Events per second", units::per_second),
            };
            blocks.push(tally::graph(title, trend, reads));
            blocks.push(Block::Table(parts(history, &recent, subject)));
        }
    }
    Some(Page { title: key.to_owned(), blocks })
}

/// What is counted, by label.
fn parts(history: &History, recent: &Recent<'_>, subject: RowSubject) -> Table {
    let name = match subject {
        RowSubject::Signal(signal) => signal.info().labels.first().copied().unwrap_or("what"),
        RowSubject::PageFaults => "kind",
        RowSubject::Steal => "cpu",
    };
    let parts = match subject {
        RowSubject::Signal(signal) => totals::by(recent, |step| {
            step.counts_of(signal).map(|(labels, count)| (labels.join(" "), count))
        }),
        RowSubject::PageFaults => totals::by(recent, |step| {
            step.page_faults.iter().map(|(kind, count)| (kind.to_string(), *count))
        }),
        RowSubject::Steal => {
            let stolen = totals::by(recent, |step| {
                step.cpus.iter().map(|cpu| (cpu.cpu.to_string(), cpu.taken_by(Taker::Steal)))
            });
            stolen.into_iter().filter(|(_, ns)| *ns > 0).collect()
        }
    };
    let value = match subject {
        RowSubject::Steal => cells::numbers("lost", "lost_seconds_per_second", 9)
            .help("Time lost to it in each second."),
        _ => cells::numbers("rate", "rate_per_second", 8).help("Events per second."),
    };
    let rows = parts.into_iter().map(|(name, amount)| {
        let value = match subject {
            RowSubject::Steal => cells::lost(recent.lost(amount)),
            _ => cells::rate(recent.per_second(amount as f64)),
        };
        TableRow { cells: vec![cells::text(&name), value], key: name, tone: Tone::Plain }
    });
    Table {
        title: RECENT.to_owned(),
        columns: vec![cells::names(name, name, 16).grows().help("Where or of what kind."), value],
        rows: rows.collect(),
        sorted_by: 1,
        empty: empty(history, "Nothing in that time.").into(),
    }
}

#[cfg(test)]
mod tests;

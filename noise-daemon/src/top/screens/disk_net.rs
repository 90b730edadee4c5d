//! Devices and interfaces: the wait for one's turn, against that for the device itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;

use super::cells;
use super::recent::{Recent, empty};
use crate::model::Totals;
use crate::top::history::Deed;
use crate::top::{Cell, Column, History, Look, Page, Row, Span, Table, Tone};

/// Between the parts of a row's key; no name holds it.
const BETWEEN: char = '\0';

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Requests to a block device.
    Block,
    /// Packets that an interface sends.
    Send,
    /// Packets that it receives.
    Receive,
    /// Segments that were sent again.
    Retransmit,
    /// Packets that were thrown away, by reason.
    Drop,
}

const WAYS: [Way; 5] = [Way::Block, Way::Send, Way::Receive, Way::Retransmit, Way::Drop];

impl Way {
    /// That of a signal, if it has a row here.
    fn of(signal: Signal) -> Option<Self> {
        match signal {
            Signal::BlockQueueWait | Signal::BlockDeviceWait => Some(Self::Block),
            Signal::NetTxWait => Some(Self::Send),
            Signal::NetRxWait => Some(Self::Receive),
            Signal::TcpRetransmit => Some(Self::Retransmit),
            Signal::PacketDrop => Some(Self::Drop),
            _ => None,
        }
    }

    /// The resources of its charges.
    pub(super) fn resources(self) -> &'static [Resource] {
        match self {
            Self::Block => &[Resource::BlockQueue, Resource::BlockDevice],
            Self::Send => &[Resource::NetTx],
            Self::Receive => &[Resource::NetRx],
            Self::Retransmit | Self::Drop => &[],
        }
    }

    /// The operation, where it says it all.
    const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Retransmit => "retransmit",
            Self::Drop => "drop",
        }
    }
}

/// Which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject<'a> {
    pub way: Way,
    /// A device, interface or reason.
    pub name: &'a str,
    /// What is done.
    pub operation: &'a str,
}

impl<'a> Subject<'a> {
    fn new(signal: Signal, labels: &'a [String]) -> Option<Self> {
        let way = Way::of(signal)?;
        let operation = match (way, labels) {
            (Way::Block, [_, operation, ..]) => operation,
            _ => way.name(),
        };
        Some(Self { way, name: labels.first()?, operation })
    }

    fn key(&self) -> String {
        let Self { way, name, operation } = self;
        format!("{}{BETWEEN}{name}{BETWEEN}{operation}", way.name())
    }

    /// That of a row's key.
    pub(super) fn parse(key: &'a str) -> Option<Self> {
        let (way, rest) = key.split_once(BETWEEN)?;
        let (name, operation) = rest.split_once(BETWEEN)?;
        let way = WAYS.into_iter().find(|one| one.name() == way)?;
        Some(Self { way, name, operation })
    }
}

/// What came.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// The turn in the queue; of what is received, the delivery.
    pub queue: Totals,
    /// The device itself.
    pub device: Totals,
    /// What is only counted.
    pub events: u64,
}

impl Waits {
    /// Requests or packets. Not all of them wait in a queue.
    pub(super) fn count(&self) -> u64 {
        match self.device.count() {
            0 => self.queue.count().max(self.events),
            count => count,
        }
    }

    fn add(&mut self, signal: Signal, totals: &Totals) {
        match signal {
            Signal::BlockDeviceWait => self.device.add(totals),
            _ => self.queue.add(totals),
        }
    }
}

/// The delays and counts of a span that have a row here.
pub(super) fn delays(span: &Span) -> impl Iterator<Item = (Signal, &Vec<String>, &Totals)> {
    let first = (Signal::BlockQueueWait, Vec::new());
    let end = (Signal::TcpRetransmit, Vec::new());
    let own = span.delays.range(first..end);
    own.map(|((signal, labels), delays)| (*signal, labels, &delays.totals))
}

fn counts(span: &Span) -> impl Iterator<Item = (Signal, &Vec<String>, u64)> {
    let own = span.counts.iter().filter(|((signal, _), _)| Way::of(*signal).is_some());
    own.map(|((signal, labels), count)| (*signal, labels, *count))
}

/// The charges of a span that are about places.
pub(super) fn deeds(span: &Span) -> impl Iterator<Item = (&Deed, u64, u64)> {
    let none: Arc<str> = Arc::from("");
    let from = |resource| Deed {
        resource,
        cause: Cause::Foreign,
        place: Arc::clone(&none),
        victim: Arc::clone(&none),
        culprit: Arc::clone(&none),
    };
    let own = span.deeds.range(from(Resource::BlockQueue)..from(Resource::Preemption));
    own.map(|(deed, charged)| (deed, charged.ns, charged.count))
}

/// What came for each row, those included that nothing came for but that are known.
pub(super) fn collect<'a>(
    history: &'a History,
    recent: &Recent<'a>,
) -> BTreeMap<Subject<'a>, Waits> {
    let mut sums: BTreeMap<Subject<'a>, Waits> = BTreeMap::new();
    let known = history.latest().into_iter().flat_map(|frame| &frame.sample.series);
    for one in known.filter(|one| one.totals.sum_ns > 0) {
        if let Some(subject) = Subject::new(one.signal, &one.labels) {
            sums.entry(subject).or_default();
        }
    }
    for step in &recent.steps {
        for (signal, labels, totals) in delays(&step.span) {
            if let Some(subject) = Subject::new(signal, labels) {
                sums.entry(subject).or_default().add(signal, totals);
            }
        }
        for (signal, labels, count) in counts(&step.span) {
            if let Some(subject) = Subject::new(signal, labels) {
                sums.entry(subject).or_default().events += count;
            }
        }
    }
    sums
}

/// What each row lost in a second, in each step; of what is only counted, how often it came.
pub(super) fn trends<'a>(
    history: &'a History,
    subjects: impl Iterator<Item = Subject<'a>>,
) -> BTreeMap<Subject<'a>, Vec<f64>> {
    let steps = history.steps().count();
    let mut trends: BTreeMap<Subject<'a>, Vec<f64>> =
        subjects.map(|subject| (subject, vec![0.0; steps])).collect();
    for (index, step) in history.steps().enumerate() {
        let span = &step.span;
        let lost = delays(span)
            .map(|(signal, labels, totals)| (signal, labels, totals.sum_ns as f64 / 1e9));
        let events = counts(span).map(|(signal, labels, count)| (signal, labels, count as f64));
        for (signal, labels, amount) in lost.chain(events) {
            let trend = Subject::new(signal, labels).and_then(|subject| trends.get_mut(&subject));
            if let Some(value) = trend.and_then(|trend| trend.get_mut(index)) {
                *value += span.per_second(amount);
            }
        }
    }
    trends
}

/// A culprit at a place, what it took there, and what all did, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Worst<'a> {
    culprit: &'a str,
    cause: Option<Cause>,
    ns: u64,
    whole_ns: u64,
}

/// Who took most at each place, of those who are known.
fn worst<'a>(recent: &Recent<'a>) -> BTreeMap<(Way, &'a str), Worst<'a>> {
    let mut sums: BTreeMap<(Way, &str, &str, Cause), u64> = BTreeMap::new();
    for (deed, ns, _) in recent.steps.iter().flat_map(|step| deeds(&step.span)) {
        let way = match deed.resource {
            Resource::NetTx => Way::Send,
            Resource::NetRx => Way::Receive,
            _ => Way::Block,
        };
        *sums.entry((way, &deed.place, &deed.culprit, deed.cause)).or_default() += ns;
    }
    let mut worst: BTreeMap<(Way, &str), Worst<'_>> = BTreeMap::new();
    for ((way, place, culprit, cause), ns) in sums {
        let most = worst.entry((way, place)).or_default();
        most.whole_ns += ns;
        let is_known = !matches!(cause, Cause::Idle | Cause::Untracked);
        if is_known && ns > most.ns {
            *most = Worst { culprit, cause: Some(cause), ns, ..*most };
        }
    }
    worst
}

impl Worst<'_> {
    fn text(&self) -> String {
        let Self { culprit, ns, whole_ns, .. } = self;
        let share = || crate::top::units::share(cells::ratio(*ns as f64, *whole_ns as f64));
        match self.cause {
            Some(cause) => format!("{culprit} ({}) {}", cause.name(), share()),
            None if *whole_ns > 0 => "not known".to_owned(),
            None => String::new(),
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        cells::names("name", "name", 10, false, "The device or interface; of drops, the reason."),
        cells::names("what", "operation", 7, false, "What is done with it."),
        cells::numbers("rate", "per_second", 8, "Requests or packets in a second."),
        cells::numbers(
            "lost",
            "lost_seconds_per_second",
            9,
            "Time that requests or packets spent in the queue and the device, in a second.",
        ),
        cells::numbers(
            "queue p50",
            "queue_p50_seconds",
            9,
            "Half of them had their turn within that time; of what is received: were delivered.",
        ),
        cells::numbers("q p99", "queue_p99_seconds", 8, "The same of 99 in 100."),
        cells::numbers("dev p50", "device_p50_seconds", 8, "Half were served within that time."),
        cells::numbers("dev p99", "device_p99_seconds", 8, "The same of 99 in 100."),
        cells::names(
            "worst culprit",
            "worst_culprit",
            16,
            true,
            "Who delayed others most there, all operations together; of those who are known.",
        ),
        cells::pictures("trend", "lost_over_time", 12, "What was lost over the last two minutes."),
    ]
}

/// Devices and interfaces, by what was lost.
pub fn table(history: &History, look: &Look) -> Table {
    let recent = Recent::new(history, look);
    let rows = collect(history, &recent);
    let worst = worst(&recent);
    let mut trends = trends(history, rows.keys().copied());
    let rows = rows.iter().map(|(subject, waits)| {
        let trend = trends.remove(subject).unwrap_or_default();
        let culprit = worst.get(&(subject.way, subject.name)).copied().unwrap_or_default();
        row(&recent, subject, waits, culprit, trend)
    });
    Table {
        title: format!("Devices and interfaces, {}", cells::length(recent.seconds)),
        rows: rows.collect(),
        columns: columns(),
        sorted_by: 3,
        empty: empty(history, "No device and no interface was used."),
    }
}

fn row(
    recent: &Recent<'_>,
    subject: &Subject<'_>,
    waits: &Waits,
    worst: Worst<'_>,
    trend: Vec<f64>,
) -> Row {
    let is_counted = matches!(subject.way, Way::Retransmit | Way::Drop);
    let lost = match is_counted {
        true => cells::nothing(),
        false => cells::lost(recent.lost(waits.queue.sum_ns + waits.device.sum_ns)),
    };
    let tone = match (waits.count(), is_counted) {
        (0, _) => Tone::Dim,
        (_, true) => Tone::Strong,
        (_, false) => Tone::Plain,
    };
    let cells = vec![
        cells::text(subject.name),
        cells::text(subject.operation),
        cells::rate(recent.per_second(waits.count() as f64)),
        lost,
        cells::quantile(&waits.queue, 0.5),
        cells::quantile(&waits.queue, 0.99),
        cells::quantile(&waits.device, 0.5),
        cells::quantile(&waits.device, 0.99),
        cells::text(worst.text()),
        Cell::Spark(trend),
    ];
    Row { key: subject.key(), cells, tone }
}

/// A device or interface over time.
pub fn open(history: &History, look: &Look, key: &str) -> Option<Page> {
    super::disk_net_page::page(history, look, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::OTHER;
    use crate::top::screens::made::Made;

    fn cell<'a>(table: &'a Table, name: &str, operation: &str, column: &str) -> &'a Cell {
        let is = |cell: &Cell, text: &str| matches!(cell, Cell::Text(own) if own == text);
        let row =
            table.rows.iter().find(|row| is(&row.cells[0], name) && is(&row.cells[1], operation));
        let index = table.columns.iter().position(|one| one.key == column).unwrap();
        &row.unwrap().cells[index]
    }

    fn number(table: &Table, name: &str, operation: &str, column: &str) -> Option<f64> {
        match cell(table, name, operation, column) {
            Cell::Number { value, .. } => *value,
            other => panic!("{other:?}"),
        }
    }

    fn busy() -> Made {
        let mut made = Made::new();
        made.delay(Signal::NetTxWait, &["eth0"], 1 << 10, 1);
        made.delay(Signal::BlockDeviceWait, &["vdb", "flush"], 1 << 10, 1);
        made.frame();
        for _ in 0..10 {
            made.delay(Signal::BlockQueueWait, &["vda", "read"], 1 << 20, 90);
            made.delay(Signal::BlockDeviceWait, &["vda", "read"], 1 << 18, 98);
            made.delay(Signal::BlockDeviceWait, &["vda", "read"], 1 << 24, 2);
            made.delay(Signal::BlockDeviceWait, &["vda", "write"], 1 << 22, 10);
            made.delay(Signal::NetTxWait, &["eth0"], 1 << 14, 50);
            made.delay(Signal::NetRxWait, &["eth0"], 1 << 12, 70);
            made.count(Signal::TcpRetransmit, "eth0", 3);
            made.count(Signal::PacketDrop, "NO_SOCKET", 4);
            made.count(Signal::ContextSwitch, "voluntary", 1_000);
            made.deed(Resource::BlockQueue, Cause::Foreign, "vda", "web", "batch", 600, 1);
            made.deed(Resource::BlockDevice, Cause::Foreign, "vda", "db", "batch", 100, 1);
            made.deed(Resource::BlockQueue, Cause::Own, "vda", "db", "db", 250, 1);
            made.deed(Resource::BlockQueue, Cause::Untracked, "vda", "db", "untracked", 1_050, 1);
            made.deed(Resource::NetTx, Cause::Untracked, "eth0", "db", "untracked", 9, 1);
            made.deed(Resource::Preemption, Cause::Foreign, "", "db", "batch", 0, 9);
            made.frame();
        }
        made
    }

    #[test]
    fn waits_are_told_by_place_and_operation() {
        let table = table(&busy().history, &Look::default());
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        assert_eq!(table.rows.len(), 7);
        let seconds = |shift: u32| Some((1u64 << shift) as f64 / 1e9);
        let of = |column| number(&table, "vda", "read", column);
        assert_eq!(of("per_second"), Some(100.0));
        assert_eq!((of("queue_p50_seconds"), of("queue_p99_seconds")), (seconds(20), seconds(20)));
        assert_eq!(
            (of("device_p50_seconds"), of("device_p99_seconds")),
            (seconds(18), seconds(24))
        );
        let lost_ns = (90u64 << 20) + (98 << 18) + (2 << 24);
        assert_eq!(of("lost_seconds_per_second"), Some(lost_ns as f64 / 1e9));
        assert_eq!(number(&table, "vda", "write", "queue_p50_seconds"), None);
        assert_eq!(number(&table, "eth0", "send", "per_second"), Some(50.0));
        assert_eq!(number(&table, "eth0", "send", "queue_p50_seconds"), seconds(14));
        assert_eq!(number(&table, "eth0", "receive", "per_second"), Some(70.0));
        assert_eq!(number(&table, "eth0", "retransmit", "per_second"), Some(3.0));
        assert_eq!(number(&table, "eth0", "retransmit", "lost_seconds_per_second"), None);
        assert_eq!(number(&table, "NO_SOCKET", "drop", "per_second"), Some(4.0));
        assert_eq!(number(&table, "vdb", "flush", "per_second"), Some(0.0));
        let tones: BTreeMap<&str, Tone> =
            table.rows.iter().map(|row| (row.key.as_str(), row.tone)).collect();
        assert_eq!(tones["block\0vdb\0flush"], Tone::Dim);
        assert_eq!(tones["drop\0NO_SOCKET\0drop"], Tone::Strong);
        assert_eq!(tones["block\0vda\0read"], Tone::Plain);
        let Cell::Spark(trend) = cell(&table, "vda", "read", "lost_over_time") else { panic!() };
        assert_eq!(trend, &[lost_ns as f64 / 1e9; 10]);
    }

    #[test]
    fn who_is_worst_is_one_who_is_known() {
        let table = table(&busy().history, &Look::default());
        let text = |name, operation| match cell(&table, name, operation, "worst_culprit") {
            Cell::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        };
        let share = crate::top::units::share(0.35);
        assert_eq!(text("vda", "read"), format!("batch (foreign) {share}"));
        assert_eq!(text("vda", "write"), text("vda", "read"));
        assert_eq!(text("eth0", "send"), "not known");
        assert_eq!(text("eth0", "receive"), "");
    }

    #[test]
    fn without_two_frames_there_are_no_rates() {
        let mut made = Made::new();
        let none = table(&made.history, &Look::default());
        assert!(none.rows.is_empty() && none.empty.contains("second reading"));
        made.delay(Signal::NetRxWait, &[OTHER], 5_000, 1);
        made.frame();
        let one = table(&made.history, &Look::default());
        assert_eq!(number(&one, OTHER, "receive", "per_second"), Some(0.0));
        assert_eq!(one.rows[0].tone, Tone::Dim);
        made.restart();
        made.delay(Signal::NetRxWait, &[OTHER], 1 << 40, 1);
        made.frame();
        let anew = table(&made.history, &Look::default());
        assert_eq!(number(&anew, OTHER, "receive", "per_second"), Some(1.0));
        let Cell::Number { text, .. } = cell(&anew, OTHER, "receive", "queue_p50_seconds") else {
            panic!()
        };
        assert!(text.starts_with("> "), "{text}");
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        for (way, name, operation) in
            [(Way::Block, "vda", "read"), (Way::Send, "eth0", "send"), (Way::Drop, "", "drop")]
        {
            let subject = Subject { way, name, operation };
            assert_eq!(Subject::parse(&subject.key()), Some(subject));
        }
        assert_eq!(Subject::parse("vda"), None);
        assert_eq!(Subject::parse("disk\0vda\0read"), None);
    }
}

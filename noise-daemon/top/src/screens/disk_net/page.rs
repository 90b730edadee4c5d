//! One device or interface over time.

use std::collections::BTreeMap;

use noise_common::charge::{Cause, Charged, Resource};
use noise_common::shown::Way;
use noise_model::words::culprit_briefly;
use noise_model::{Amount as _, Histogram, total};
use noise_text::units;

use super::{DeviceSubject, DeviceWaits, Rows, charges, is_counted, place, signals};
use crate::heat::heatmap;
use crate::screens::recent::Recent;
use crate::screens::{cells, tally};
use crate::{Block, History, Page, ScreenLook, Table, TableRow, Tone};

/// Rows of who waited for whom.
const SHOWN: usize = 200;

/// What the row with that key opens.
pub fn page(history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let subject = DeviceSubject::parse(key)?;
    let recent = Recent::new(history, look);
    let rows = Rows::one(subject);
    let waits = rows.waits(&recent).pop().unwrap_or_default();
    let trend = rows.trends(history).pop().unwrap_or_default();
    let known = Rows::known(history);
    if !known.subjects.contains(&subject) && trend.iter().all(|value| *value <= 0.0) {
        return None;
    }
    let mut blocks = vec![Block::Text(lines(&recent, &subject, &waits))];
    match is_counted(subject.way) {
        true => blocks.push(tally::graph("In a second", trend, units::per_second)),
        false => {
            let labels = subject.labels();
            let stages = signals(subject.way).filter_map(|one| Some((one, place(one)?.1)));
            let heatmaps: Vec<Block> = stages
                .map(|(one, stage)| heatmap(history, stage.title(), one, |own| own == labels))
                // Where there were none, there is nothing to draw.
                .filter(|heatmap| !heatmap.bounds_ns.is_empty())
                .map(Block::Heatmap)
                .collect();
            blocks.extend(heatmaps);
            blocks.push(tally::graph("Lost per second", trend, units::lost));
            blocks.push(Block::Table(table(&recent, &subject)));
            blocks.extend(troubles(&recent, &subject, &known));
        }
    }
    Some(Page { title: format!("{} {}", subject.name, subject.operation), blocks })
}

fn lines(
    recent: &Recent<'_>,
    subject: &DeviceSubject<'_>,
    waits: &DeviceWaits,
) -> Vec<(String, Tone)> {
    let (name, operation) = (subject.name, subject.operation);
    let rate = units::per_second(recent.per_second(waits.count() as f64));
    let length = cells::length(recent.seconds);
    let count = waits.count();
    if count == 0 {
        return vec![(format!("Nothing in the last {length}."), Tone::Strong)];
    }
    let (first, second) = match subject.way {
        Way::Block => (
            format!("{name} served {rate} ({operation}) in the last {length}."),
            halves(recent, waits),
        ),
        Way::Send => (
            format!("{name} sent {rate} packets that waited for their turn."),
            each(recent, "wait in its queue", &waits.queue),
        ),
        Way::Receive => (
            format!("{name} received {rate} packets that a task waited for."),
            each(recent, "delivery to the receiver", &waits.queue),
        ),
        Way::Retransmit => (
            format!("{rate} TCP segments had to be sent again through {name}."),
            "They were lost on the way, or their acknowledgement came too late: congestion, or a \
             bad link."
                .to_owned(),
        ),
        Way::Drop => (
            format!("{rate} packets were thrown away: {name}."),
            "The reason is the kernel's own name for it.".to_owned(),
        ),
    };
    vec![(first, Tone::Strong), (second, Tone::Plain)]
}

/// The queue against the device.
fn halves(recent: &Recent<'_>, waits: &DeviceWaits) -> String {
    let (queue, device) = (&waits.queue, &waits.device);
    let text = format!(
        "{}; {}.",
        each(recent, "wait in its queue", queue),
        each(recent, "wait for the device itself", device)
    );
    let advice = match (queue.sum_ns, device.sum_ns) {
        (0, _) => "",
        (queue, device) if queue > device => {
            " Most is lost in the queue, behind the requests of others and of one's own."
        }
        _ => " Most is lost in the device, or behind it.",
    };
    text + advice
}

fn each(recent: &Recent<'_>, what: &str, waits: &Histogram) -> String {
    match waits.count() {
        0 => format!("No {what}"),
        count => format!(
            "{} of {what} each on average, {} together",
            units::duration(waits.sum_ns as f64 / count as f64),
            units::lost(recent.lost(waits.sum_ns))
        ),
    }
}

/// Who waited there for whom.
fn table(recent: &Recent<'_>, subject: &DeviceSubject<'_>) -> Table {
    let mut sums: BTreeMap<(Resource, Cause, &str, &str), Charged> = BTreeMap::new();
    let all = recent.steps.iter().flat_map(|step| charges(step, subject.way));
    for one in all {
        if *one.place == *subject.name {
            let key = (one.resource, one.cause, &*one.victim, &*one.culprit);
            sums.entry(key).or_default().add(&one.charged);
        }
    }
    let whole_ns = total(sums.values().map(|charged| charged.ns));
    let mut largest: Vec<_> = sums.into_iter().collect();
    largest.sort_by_key(|(_, charged)| std::cmp::Reverse(charged.ns));
    largest.truncate(SHOWN);
    let row =
        |((resource, cause, victim, culprit), charged): &((_, Cause, &str, &str), Charged)| {
            let resource: &Resource = resource;
            TableRow {
                key: format!("{} {} {victim} {culprit}", resource.name(), cause.name()),
                cells: vec![
                    cells::cgroup(victim),
                    cells::text(match cause {
                        Cause::Own => cause.name(),
                        other => culprit_briefly(*other, culprit),
                    }),
                    cells::duration(charged.ns as f64),
                    cells::share(charged.ns as f64, whole_ns as f64),
                    cells::count(charged.count),
                    cells::text(cause.name()),
                    cells::text(resource.name()),
                ],
                tone: match cause {
                    Cause::Idle | Cause::Untracked => Tone::Dim,
                    _ => Tone::Plain,
                },
            }
        };
    let operations = if subject.way == Way::Block { ", all operations" } else { "" };
    Table {
        title: format!(
            "Who waited for whom at {}{operations}, {}",
            subject.name,
            cells::length(recent.seconds)
        ),
        columns: vec![
            cells::names("victim", "victim", 14).grows().help("Who was delayed."),
            cells::names("culprit", "culprit", 14)
                .grows()
                .help("Who did it; `self` is the victim."),
            cells::numbers("lost", "seconds", 9).help("Time that was lost."),
            cells::pictures("share", "share", 11).help("Its part of what was lost there."),
            cells::numbers("requests", "requests", 8).help("Requests or packets that waited."),
            cells::names("cause", "cause", 9).help("Why."),
            cells::names("for", "resource", 12).help("The queue, or the device itself."),
        ],
        rows: largest.iter().map(row).collect(),
        sorted_by: 2,
        empty: "No known waits there.".into(),
    }
}

/// What else went wrong: segments that the interface sent again, packets that were thrown away.
fn troubles(recent: &Recent<'_>, subject: &DeviceSubject<'_>, known: &Rows<'_>) -> Option<Block> {
    if subject.way == Way::Block {
        return None;
    }
    let all = known.subjects.iter().zip(known.waits(recent));
    let lines = all.filter(|(_, waits)| waits.events > 0).filter_map(|(other, waits)| {
        let rate = units::per_second(recent.per_second(waits.events as f64));
        let count = units::count(waits.events);
        match other.way {
            Way::Retransmit if other.name == subject.name => {
                Some((format!("{count} TCP segments sent again ({rate})"), Tone::Strong))
            }
            // The kernel does not say at which interface.
            Way::Drop => Some((
                format!("{count} packets dropped on this host ({rate}): {}", other.name),
                Tone::Plain,
            )),
            _ => None,
        }
    });
    let lines: Vec<(String, Tone)> = lines.collect();
    (!lines.is_empty()).then_some(Block::Text(lines))
}

#[cfg(test)]
mod tests {
    use noise_common::signals::Signal;

    use super::*;
    use crate::Cell;
    use crate::screens::made::Made;

    fn opened(made: &Made, key: &str) -> Option<Page> {
        page(&made.history, &ScreenLook::default(), key)
    }

    fn words(page: &Page) -> String {
        let texts = page.blocks.iter().filter_map(|block| match block {
            Block::Text(lines) => Some(lines),
            _ => None,
        });
        texts.flatten().map(|(line, _)| format!("{line}\n")).collect()
    }

    #[test]
    fn a_device_is_reported_with_its_queue_and_who_was_there() {
        let mut made = Made::new();
        made.frame();
        for _ in 0..5 {
            made.delay(Signal::BlockQueueWait, &["vda", "read"], 1 << 20, 10);
            made.delay(Signal::BlockDeviceWait, &["vda", "read"], 1 << 18, 20);
            made.foreign(Resource::BlockQueue, "vda", "web", "batch", 750, 3);
            made.charge(Resource::BlockDevice, Cause::Own, "vda", "web", "web", 250, 2);
            made.foreign(Resource::BlockQueue, "vdb", "web", "batch", 9_999, 3);
            made.foreign(Resource::NetTx, "vda", "web", "batch", 9_999, 3);
            made.frame();
        }
        let page = opened(&made, "block\0vda\0read").unwrap();
        assert!(words(&page).contains("Most is lost in the queue"), "{page:?}");
        assert!(words(&page).contains(&units::per_second(20.0)), "{page:?}");
        let titles: Vec<&str> = page
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Heatmap(heatmap) => Some(heatmap.title.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(titles, ["Waits in the queue", "Waits for the device"]);
        let table = page.blocks.iter().find_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        let rows: Vec<_> =
            table.unwrap().rows.iter().map(|row| (&row.cells[1], &row.cells[3])).collect();
        let text = |text: &str| Cell::Text(text.to_owned());
        let expected = [(text("batch"), Cell::Share(0.75)), (text("self"), Cell::Share(0.25))];
        assert_eq!(rows, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    }

    #[test]
    fn an_interface_shows_its_troubles() {
        let mut made = Made::new();
        made.frame();
        made.delay(Signal::NetRxWait, &["eth0"], 1 << 12, 10);
        made.count(Signal::TcpRetransmit, "eth0", 4);
        made.count(Signal::TcpRetransmit, "eth1", 5);
        made.count(Signal::PacketDrop, "NO_SOCKET", 6);
        made.frame();
        let text = words(&opened(&made, "receive\0eth0\0receive").unwrap());
        assert!(text.contains("4 TCP segments sent again"), "{text}");
        assert!(text.contains("NO_SOCKET") && !text.contains("5 TCP"), "{text}");
        let page = opened(&made, "drop\0NO_SOCKET\0drop").unwrap();
        let Block::Graph { values, largest, .. } = &page.blocks[1] else { panic!("{page:?}") };
        assert_eq!((values.as_slice(), largest), ([6.0].as_slice(), &units::per_second(6.0)));
    }

    #[test]
    fn what_is_not_there_does_not_open() {
        let mut made = Made::new();
        for key in ["", "block\0vda\0read", "send\0eth0\0send"] {
            assert!(opened(&made, key).is_none());
        }
        made.delay(Signal::BlockDeviceWait, &["vda", "read"], 1 << 12, 1);
        made.frame();
        let page = opened(&made, "block\0vda\0read").unwrap();
        assert!(words(&page).starts_with("Nothing in the last"), "{page:?}");
    }
}

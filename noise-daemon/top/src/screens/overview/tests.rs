//! Every signal, of frames that were made for it.

use std::sync::Arc;

use noise_analysis::made::blank;
use noise_analysis::{Episode, Report};

use super::*;
use crate::generated::{Made, history, read, row};

fn episode(signal: Signal, subject: &str) -> Episode {
    Episode { signal: signal.into(), seconds: 12.5, ..blank(subject) }
}

fn busy() -> History {
    let values = |count: usize| vec![1_000_u64; count];
    let mut last = Made::new(3)
        .delays(Signal::RunqueueWait, &["preempt"], &[5_000])
        .delays(Signal::RunqueueWait, &["wakeup"], &values(400))
        .delays(Signal::CgroupRunqueueWait, &["/a"], &values(400))
        .count(Signal::PacketDrop, &["no_socket"], 30)
        .count(Signal::PacketDrop, &["other"], 1)
        .page_faults("minor", 1_000)
        .page_faults("major", 20)
        .stolen(0, 500_000_000)
        .stolen(1, 100_000_000);
    last.sample.absent.push((Signal::Nmi, "this kernel has no such tracepoint".to_owned()));
    let mut also = episode(Signal::Softirq, "net_rx");
    also.ending = Some(noise_analysis::Ending::Over);
    last.overview.incidents.push(Arc::new(Report::new(
        7,
        true,
        episode(Signal::CgroupRunqueueWait, "/a"),
        vec![also],
    )));
    history([
        Made::new(1).stolen(0, 300_000_000).stolen(1, 100_000_000).page_faults("minor", 1_000),
        Made::new(2)
            .delays(Signal::RunqueueWait, &["wakeup"], &values(100))
            .count(Signal::PacketDrop, &["no_socket"], 10)
            .stolen(0, 400_000_000)
            .stolen(1, 100_000_000)
            .page_faults("minor", 1_000)
            .page_faults("major", 10),
        last,
    ])
}

#[test]
fn every_signal_once() {
    let table = table(&busy(), &ScreenLook::default());
    let keys: Vec<_> = table.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys.len(), SIGNALS.len() + 1);
    assert_eq!((keys[0], keys[1]), ("runqueue_wait", "context_switch"));
    assert!(keys.ends_with(&["page_fault", "steal"]));
    assert!(!keys.contains(&"cgroup_runqueue_wait"));
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    assert_eq!(table.columns[table.sorted_by].key, "open_incidents");
}

#[test]
fn numbers_of_delays_counters_and_steal() {
    let table = table(&busy(), &ScreenLook::default());
    let waits = row(&table, "runqueue_wait");
    assert_eq!(
        read(&waits),
        [
            "runqueue_wait",
            "200 /s",
            "1.02 µs",
            "1.02 µs",
            "5.00 µs",
            "202 µs/s",
            "[0.0001, 0.000305]",
            "●1"
        ]
    );
    assert_eq!(waits.tone, Tone::Alarm);
    let drops = row(&table, "packet_drop");
    assert_eq!(read(&drops)[1..], ["15.5 /s", "–", "–", "–", "–", "[10.0, 21.0]", ""]);
    assert_eq!(drops.tone, Tone::Plain);
    // The first of the major faults are older than the first frame that counts them.
    assert_eq!(read(&row(&table, "page_fault"))[1..3], ["5.00 /s", "–"]);
    assert_eq!(read(&row(&table, "steal"))[4..], ["–", "100 ms/s", "[0.1, 0.1]", ""]);
    let nmi = row(&table, "nmi");
    assert_eq!(read(&nmi)[1..], ["0", "–", "–", "–", "0", "[0.0, 0.0]", ""]);
    assert_eq!(nmi.tone, Tone::Dim);
    assert_eq!(row(&table, "softirq").tone, Tone::Dim);
}

#[test]
fn a_look_begins_at_a_reset() {
    let look = ScreenLook { since_ns: 2_000_000_000, ..ScreenLook::default() };
    assert_eq!(read(&row(&table(&busy(), &look), "runqueue_wait"))[1], "301 /s");
    let look = ScreenLook { seconds: 0.0, ..ScreenLook::default() };
    assert_eq!(read(&row(&table(&busy(), &look), "runqueue_wait"))[1], "301 /s");
}

#[test]
fn nothing_is_known_at_first() {
    let look = ScreenLook::default();
    let none = table(&History::default(), &look);
    assert!(none.rows.is_empty() && !none.empty.is_empty());
    let one = table(&history([Made::new(1).stolen(0, 5)]), &look);
    assert_eq!(one.rows.len(), SIGNALS.len() + 1);
    assert!(one.rows.iter().all(|row| row.tone == Tone::Dim));
    assert_eq!(read(&row(&one, "steal"))[5..7], ["0", "[]"]);
}

#[test]
fn a_daemon_that_was_started_anew() {
    let history = history([
        Made::new(1).delays(Signal::Nmi, &[], &[1_000, 1_000]),
        Made::new(2).delays(Signal::Nmi, &[], &[2_000]),
    ]);
    let cells = read(&row(&table(&history, &ScreenLook::default()), "nmi"));
    assert_eq!(cells[1..6], ["1.00 /s", "2.00 µs", "2.00 µs", "2.00 µs", "2.00 µs/s"]);
}

#[test]
fn a_page_of_delays() {
    let page = open(&busy(), &ScreenLook::default(), "runqueue_wait").unwrap();
    let [Block::Text(lines), Block::Heatmap(heat), Block::Graph { largest, .. }, tables @ ..] =
        page.blocks.as_slice()
    else {
        panic!("{page:?}")
    };
    assert_eq!(lines[0].0, Signal::RunqueueWait.info().help);
    assert_eq!(lines[1], ("Incident 7 is open: /a.".to_owned(), Tone::Alarm));
    assert_eq!(heat.windows.iter().flatten().sum::<u64>(), 401);
    assert_eq!(largest, "305 µs/s");
    let [Block::Table(causes), Block::Table(cgroups)] = tables else { panic!("{tables:?}") };
    assert_eq!(
        read(&row(causes, "wakeup")),
        ["wakeup", "200 /s", "1.00 µs", "1.00 µs", "1.00 µs", "200 µs/s"]
    );
    assert_eq!(causes.columns[causes.sorted_by].key, "lost_seconds_per_second");
    assert_eq!(read(&row(cgroups, "/a"))[1], "200 /s");
}

#[test]
fn pages_of_what_is_counted() {
    let look = ScreenLook::default();
    let of = |key| open(&busy(), &look, key).unwrap().blocks;
    let [_, Block::Graph { values, largest, .. }, Block::Table(table)] = &of("packet_drop")[..]
    else {
        panic!()
    };
    assert_eq!((values.as_slice(), largest.as_str()), (&[10.0, 21.0][..], "21.0 /s"));
    assert_eq!(read(&row(table, "no_socket")), ["no_socket", "15.0 /s"]);
    let [_, Block::Graph { largest, .. }, Block::Table(table)] = &of("steal")[..] else { panic!() };
    assert_eq!(largest, "100 ms/s");
    assert_eq!(read(&row(table, "0")), ["0", "100 ms/s"]);
    assert_eq!(table.rows.len(), 1);
    let [_, _, Block::Table(table)] = &of("page_fault")[..] else { panic!() };
    assert_eq!(read(&row(table, "major")), ["major", "5.00 /s"]);
}

#[test]
fn absence_is_explained() {
    let page = open(&busy(), &ScreenLook::default(), "nmi").unwrap();
    let [Block::Text(lines)] = page.blocks.as_slice() else { panic!("{page:?}") };
    let why = "It is not measured here: this kernel has no such tracepoint.";
    assert_eq!(lines[1], (why.to_owned(), Tone::Strong));
    assert_eq!(open(&busy(), &ScreenLook::default(), "no_such"), None);
    assert!(
        subjects()
            .all(|one| open(&History::default(), &ScreenLook::default(), one.name()).is_some())
    );
}

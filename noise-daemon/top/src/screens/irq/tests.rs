//! Interrupts by source, of frames that were made for it.

use super::*;
use crate::generated::{Made, history, read, row};

fn busy() -> History {
    history([
        Made::new(1).delays(Signal::Hardirq, &["36", "virtio1-req.0"], &[1_000]),
        Made::new(2)
            .delays(Signal::Hardirq, &["36", "virtio1-req.0"], &[1_000, 2_000])
            .delays(Signal::Hardirq, &["9", "unknown"], &[3_000])
            .charge("/a", Cause::Hardirq, "virtio1-req.0", 600)
            .charge("/a", Cause::Softirq, "virtio1-req.0", 9_000)
            .charge("/b", Cause::Hardirq, "virtio1-req.0", 200)
            .charge("/b", Cause::Hardirq, "irq 9", 70),
        Made::new(3)
            .delays(Signal::Hardirq, &["36", "virtio1-req.0"], &[1_000, 2_000, 4_000, 5_000])
            .delays(Signal::Hardirq, &["9", "unknown"], &[3_000])
            .delays(Signal::Vector, &["local_timer"], &[900, 900])
            .delays(Signal::Softirq, &["net_rx"], &[20_000])
            .delays(Signal::Softirq, &["block"], &[])
            .delays(Signal::SoftirqRaiseWait, &["net_rx"], &[7_000, 1_000])
            .delays(Signal::Nmi, &[], &[2_000])
            .charge("/a", Cause::Hardirq, "virtio1-req.0", 600)
            .charge("/a", Cause::Nmi, "nmi", 2_000),
    ])
}

#[test]
fn a_row_for_each_source() {
    let table = table(&busy(), &ScreenLook::default());
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    assert_eq!(table.columns[table.sorted_by].key, "cpu_seconds_per_second");
    let keys: Vec<_> = table.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "irq 36 virtio1-req.0",
            "irq 9 unknown",
            "vector local_timer",
            "softirq block",
            "softirq net_rx",
            "nmi nmi"
        ]
    );
    assert_eq!(
        read(&row(&table, "irq 36 virtio1-req.0")),
        [
            "irq",
            "36 virtio1-req.0",
            "1.50 /s",
            "3.67 µs",
            "5.00 µs",
            "5.00 µs",
            "5.50 µs/s",
            "–",
            "[2e-6, 9e-6]"
        ]
    );
    let softirq = read(&row(&table, "softirq net_rx"));
    assert_eq!(
        softirq[2..],
        ["0.50 /s", "20.0 µs", "20.0 µs", "20.0 µs", "10.0 µs/s", "7.00 µs", "[0.0, 2e-5]"]
    );
    let block = row(&table, "softirq block");
    assert_eq!(block.tone, Tone::Dim);
    assert_eq!(read(&block)[2..8], ["0", "–", "–", "–", "0", "–"]);
    assert_eq!(row(&table, "nmi nmi").tone, Tone::Plain);
}

#[test]
fn nothing_is_known_at_first() {
    let look = ScreenLook::default();
    let none = table(&History::default(), &look);
    assert!(none.rows.is_empty() && !none.empty.is_empty());
    assert_eq!(open(&History::default(), &look, "nmi nmi"), None);
    let one = history([Made::new(1).delays(Signal::Nmi, &[], &[5])]);
    let table = table(&one, &look);
    assert_eq!(read(&table.rows[0])[2..], ["0", "–", "–", "–", "0", "–", "[]"]);
    assert!(open(&one, &look, "nmi nmi").is_some());
}

#[test]
fn a_daemon_that_was_started_anew() {
    let nmi = |seconds, values: &[u64]| Made::new(seconds).delays(Signal::Nmi, &[], values);
    let history = history([nmi(1, &[1_000; 9]), nmi(2, &[3_000]), nmi(3, &[3_000, 1_000])]);
    assert_eq!(
        read(&row(&table(&history, &ScreenLook::default()), "nmi nmi"))[2..],
        ["1.00 /s", "2.00 µs", "3.00 µs", "3.00 µs", "2.00 µs/s", "–", "[3e-6, 1e-6]"]
    );
}

#[test]
fn whom_it_hit() {
    let look = ScreenLook::default();
    let victims = |key| match open(&busy(), &look, key).unwrap().blocks.pop() {
        Some(Block::Table(table)) => table,
        other => panic!("{other:?}"),
    };
    let table = victims("irq 36 virtio1-req.0");
    assert_eq!(table.rows.len(), 2);
    assert_eq!(read(&row(&table, "/a running")), ["/a", "running", "300 ns/s", "0.50 /s", "0.75"]);
    assert_eq!(read(&row(&table, "/b running"))[2..], ["100 ns/s", "0.50 /s", "0.25"]);
    assert_eq!(read(&row(&victims("irq 9 unknown"), "/b running"))[2], "35.0 ns/s");
    assert_eq!(read(&row(&victims("nmi nmi"), "/a running"))[2], "1.00 µs/s");
    let none = victims("softirq net_rx");
    assert!(none.rows.is_empty() && !none.empty.is_empty());
}

#[test]
fn one_source_over_time() {
    let look = ScreenLook::default();
    let page = open(&busy(), &look, "irq 36 virtio1-req.0").unwrap();
    let [Block::Text(_), Block::Heatmap(heat), Block::Graph { values, .. }, Block::Table(_)] =
        page.blocks.as_slice()
    else {
        panic!("{page:?}")
    };
    assert_eq!(heat.windows.iter().map(|rows| rows.iter().sum()).collect::<Vec<u64>>(), [1, 2]);
    assert_eq!(values, &[2e-6, 9e-6]);
    let page = open(&busy(), &look, "softirq net_rx").unwrap();
    let [Block::Text(lines), _, _, Block::Heatmap(raised), Block::Table(_)] =
        page.blocks.as_slice()
    else {
        panic!("{page:?}")
    };
    let said = "Half of them were served 1.02 µs after they were raised, 99 of 100 after 7.00 µs.";
    assert_eq!(lines[1].0, said);
    assert_eq!(raised.windows.iter().flatten().sum::<u64>(), 2);
    assert_eq!(open(&busy(), &look, "irq 1 x"), None);
}

//! Devices and interfaces of histories that were made for it.

use noise_common::charge::Resource;
use noise_model::labels::OTHER;

use super::{BTreeMap, Cause, Cell, DeviceSubject, Signal, Table, Tone, Way, table};
use crate::ScreenLook;
use crate::screens::made::Made;

fn cell<'a>(table: &'a Table, name: &str, operation: &str, column: &str) -> &'a Cell {
    let is = |cell: &Cell, text: &str| matches!(cell, Cell::Text(own) if own == text);
    let row = table.rows.iter().find(|row| is(&row.cells[0], name) && is(&row.cells[1], operation));
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
        made.foreign(Resource::BlockQueue, "vda", "web", "batch", 600, 1);
        made.foreign(Resource::BlockDevice, "vda", "db", "batch", 100, 1);
        made.charge(Resource::BlockQueue, Cause::Own, "vda", "db", "db", 250, 1);
        made.charge(Resource::BlockQueue, Cause::Untracked, "vda", "db", "untracked", 1_050, 1);
        made.charge(Resource::NetTx, Cause::Untracked, "eth0", "db", "untracked", 9, 1);
        made.foreign(Resource::Preemption, "", "db", "batch", 0, 9);
        made.frame();
    }
    made
}

#[test]
fn waits_are_reported_by_place_and_operation() {
    let table = table(&busy().history, &ScreenLook::default());
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    assert_eq!(table.rows.len(), 7);
    let seconds = |shift: u32| Some((1u64 << shift) as f64 / 1e9);
    let of = |column| number(&table, "vda", "read", column);
    assert_eq!(of("per_second"), Some(100.0));
    assert_eq!((of("queue_p50_seconds"), of("queue_p99_seconds")), (seconds(20), seconds(20)));
    assert_eq!((of("device_p50_seconds"), of("device_p99_seconds")), (seconds(18), seconds(24)));
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
    let table = table(&busy().history, &ScreenLook::default());
    let text = |name, operation| match cell(&table, name, operation, "worst_culprit") {
        Cell::Text(text) => text.clone(),
        Cell::Named { name, notes } => Cell::words(name, notes),
        other => panic!("{other:?}"),
    };
    let share = noise_text::units::share(0.35);
    assert_eq!(text("vda", "read"), format!("batch (another cgroup) {share}"));
    assert_eq!(text("vda", "write"), text("vda", "read"));
    assert_eq!(text("eth0", "send"), "not known");
    assert_eq!(text("eth0", "receive"), "");
}

#[test]
fn without_two_frames_there_are_no_rates() {
    let mut made = Made::new();
    let none = table(&made.history, &ScreenLook::default());
    assert!(none.rows.is_empty() && none.empty.contains("second reading"));
    made.delay(Signal::NetRxWait, &[OTHER], 5_000, 1);
    made.frame();
    let one = table(&made.history, &ScreenLook::default());
    assert_eq!(number(&one, OTHER, "receive", "per_second"), Some(0.0));
    assert_eq!(one.rows[0].tone, Tone::Dim);
    made.restart();
    made.delay(Signal::NetRxWait, &[OTHER], 1 << 40, 1);
    made.frame();
    let anew = table(&made.history, &ScreenLook::default());
    assert_eq!(number(&anew, OTHER, "receive", "per_second"), Some(1.0));
    let Cell::Number { text, .. } = cell(&anew, OTHER, "receive", "queue_p50_seconds") else {
        panic!()
    };
    assert!(text.starts_with('>'), "{text}");
}

#[test]
fn keys_are_read_as_they_are_written() {
    for (way, name, operation) in
        [(Way::Block, "vda", "read"), (Way::Send, "eth0", "send"), (Way::Drop, "", "drop")]
    {
        let subject = DeviceSubject { way, name, operation };
        assert_eq!(DeviceSubject::parse(&subject.key()), Some(subject));
    }
    assert_eq!(DeviceSubject::parse("vda"), None);
    assert_eq!(DeviceSubject::parse("disk\0vda\0read"), None);
}

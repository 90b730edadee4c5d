//! The screen of victims.

use noise_common::charge::{Cause, Resource};

use super::*;
use crate::screens::made::Made;

fn cell<'a>(table: &'a Table, victim: &str, column: &str) -> &'a Cell {
    let row = table.rows.iter().find(|row| row.key == victim).unwrap();
    let index = table.columns.iter().position(|one| one.key == column).unwrap();
    &row.cells[index]
}

fn value(table: &Table, victim: &str, column: &str) -> f64 {
    match cell(table, victim, column) {
        Cell::Number { value, .. } => value.unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A service that others hold up, and a batch job that waits for itself, for CPUs and for its disk.
fn made() -> Made {
    let mut made = Made::new();
    made.frame();
    for _ in 0..5 {
        made.foreign(Resource::Cpu, "", "web", "backup", 60_000_000, 100);
        made.foreign(Resource::BlockQueue, "vda", "web", "backup", 20_000_000, 10);
        made.charge(Resource::Running, Cause::Hardirq, "", "web", "vda-irq", 20_000_000, 50);
        made.charge(Resource::Cpu, Cause::Own, "", "web", "web", 5_000_000, 10);
        made.charge(Resource::Cpu, Cause::Own, "", "batch", "batch", 900_000_000, 10);
        made.charge(Resource::Cpu, Cause::Idle, "", "batch", "idle", 90_000_000, 10);
        made.charge(
            Resource::Uninterruptible,
            Cause::Softirq,
            "",
            "batch",
            "block",
            800_000_000,
            9,
        );
        made.foreign(Resource::Cpu, "", "batch", "web", 10_000_000, 9);
        made.delay(Signal::CgroupRunqueueWait, &["web"], 4_000_000, 100);
        made.frame();
    }
    made
}

#[test]
fn who_waits_for_itself_does_not_outrank_who_is_held_up() {
    let made = made();
    let table = table(&made.history, &Look::default());
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    let order: Vec<&str> = table.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(order, ["web", "batch"]);
    assert!((value(&table, "web", "held_up_seconds_per_second") - 0.1).abs() < 1e-9);
    assert!((value(&table, "batch", "held_up_seconds_per_second") - 0.01).abs() < 1e-9);
    assert!((value(&table, "batch", "lost_seconds_per_second") - 1.8).abs() < 1e-9);
    let Cell::Named { name, notes } = cell(&table, "web", "culprit") else { panic!() };
    assert_eq!((name.as_str(), notes.concat().trim()), ("backup", "80.0 %"));
    assert_eq!(cell(&table, "web", "why"), &Cell::Text("another cgroup".to_owned()));
    let Cell::Spark(trend) = cell(&table, "web", "held_up_over_time") else { panic!() };
    assert!(trend.len() == 5 && trend.iter().all(|value| (value - 0.1).abs() < 1e-9), "{trend:?}");
    assert!(value(&table, "web", "p99_seconds") >= 0.004);
}

#[test]
fn a_victim_opens_with_its_culprits_over_all_resources() {
    let made = made();
    let page = open(&made.history, &Look::default(), "web").unwrap();
    let Some(crate::Block::Text(lines)) = page.blocks.first() else { panic!("{page:?}") };
    assert!(lines[0].0.contains("80.0 % of it by backup (another cgroup)"), "{lines:?}");
    let table = page.blocks.iter().find_map(|block| match block {
        crate::Block::Table(table) => Some(table),
        _ => None,
    });
    let rows: Vec<&str> = table.unwrap().rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(
        rows,
        [
            "cpu foreign  backup",
            "running hardirq  vda-irq",
            "block_queue foreign vda backup",
            "cpu self  web"
        ]
    );
    assert_eq!(victim("web").as_deref(), Some("web"));
    assert_eq!(victim(OTHER), None);
    assert!(open(&made.history, &Look::default(), "no such").is_none());
}

#[test]
fn without_two_frames_there_is_nothing() {
    let made = Made::new();
    let none = table(&made.history, &Look::default());
    assert!(none.rows.is_empty() && none.empty.contains("second reading"));
}

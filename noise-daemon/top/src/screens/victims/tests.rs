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
    let table = table(&made.history, &ScreenLook::default());
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    let order: Vec<&str> = table.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(order, ["web", "batch"]);
    assert!((value(&table, "web", "held_up_seconds_per_second") - 0.1).abs() < 1e-9);
    assert!((value(&table, "batch", "held_up_seconds_per_second") - 0.01).abs() < 1e-9);
    assert!((value(&table, "batch", "lost_seconds_per_second") - 1.8).abs() < 1e-9);
    // Requests are no time of its threads.
    assert!((value(&table, "web", "lost_seconds_per_second") - 0.085).abs() < 1e-9);
    let Cell::Named { name, notes } = cell(&table, "web", "culprit") else { panic!() };
    assert_eq!((name.as_str(), notes.concat().trim()), ("backup", "80.0 %"));
    assert_eq!(cell(&table, "web", "why"), &Cell::Text("another cgroup".to_owned()));
    let Cell::Spark(trend) = cell(&table, "web", "held_up_over_time") else { panic!() };
    assert!(trend.len() == 5 && trend.iter().all(|value| (value - 0.1).abs() < 1e-9), "{trend:?}");
    assert!(value(&table, "web", "p99_seconds") >= 0.004);
}

#[test]
fn who_wrote_what_is_written_first_is_the_main_culprit() {
    let mut made = Made::new();
    made.frame();
    for _ in 0..5 {
        let mut slept = |cause, culprit: &str, ns| {
            made.charge(Resource::Uninterruptible, cause, "", "shop", culprit, ns, 9);
        };
        slept(Cause::Writeback, "writer", 600_000_000);
        slept(Cause::Writeback, "shop", 900_000_000);
        slept(Cause::Own, "shop", 900_000_000);
        slept(Cause::Iowait, "iowait", 100_000_000);
        made.foreign(Resource::Cpu, "", "shop", "other", 50_000_000, 9);
        made.frame();
    }
    let table = table(&made.history, &ScreenLook::default());
    let Cell::Named { name, notes } = cell(&table, "shop", "culprit") else { panic!() };
    assert_eq!((name.as_str(), notes.concat().trim()), ("writer", "80.0 %"));
    assert_eq!(cell(&table, "shop", "resource"), &Cell::Text("disk".to_owned()));
    assert_eq!(cell(&table, "shop", "why"), &Cell::Text("dirty pages".to_owned()));
}

#[test]
fn who_has_an_open_incident_has_a_row_whatever_it_lost() {
    let mut made = Made::new();
    made.frame();
    for number in 0..250 {
        made.foreign(Resource::Cpu, "", &format!("batch{number}"), "hog", 90_000_000, 1);
    }
    made.foreign(Resource::Cpu, "", "little", "hog", 1_000_000, 1);
    let of = |id, subject: &str| {
        let mut report = crate::screens::incidents::made_report(id);
        report.main.subject = subject.into();
        report
    };
    let mut device = of(3, "vda read");
    device.main.signal = Signal::BlockDeviceWait.into();
    made.incidents = vec![of(1, "little").into(), of(2, "quiet").into(), device.into()];
    made.frame();
    let look = ScreenLook::default();
    let table = table(&made.history, &look);
    let order: Vec<&str> = table.rows.iter().map(|row| row.key.as_str()).collect();
    // A device is no victim.
    assert_eq!((order.len(), &order[..3]), (200, &["little", "quiet", "batch0"][..]));
    assert_eq!(value(&table, "quiet", "held_up_seconds_per_second"), 0.0);
    assert_eq!(value(&table, "quiet", "open_incidents"), 1.0);
    let page = open(&made.history, &look, "quiet").unwrap();
    let Some(crate::Block::Text(lines)) = page.blocks.first() else { panic!("{page:?}") };
    assert!(lines[0].0.contains("Nothing else held quiet up"), "{lines:?}");
    assert!(lines.iter().any(|(line, _)| line.starts_with("Incident 2 is open")), "{lines:?}");
}

#[test]
fn rows_of_json_have_the_findings_that_incidents_have() {
    let mut made = made();
    made.foreign(Resource::Cpu, "", "web", "/", 30_000_000, 10);
    made.frame();
    let look = ScreenLook::default();
    let rows = |made: &Made| {
        let table = table(&made.history, &look);
        let json = crate::export::table(
            crate::Screen::Victims,
            &made.history,
            &look,
            &table,
            table.rows.iter(),
        );
        json["rows"].clone()
    };
    let web = rows(&made)[0].clone();
    assert_eq!(web["victim"], "web");
    let found = |web: &serde_json::Value| -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let all = web["findings"].as_array().unwrap().iter();
        all.map(|one| (text(&one["resource"]), text(&one["culprit"]["name"]))).collect()
    };
    let expected = [
        ("cpu", "backup"),
        ("interrupt", "vda-irq"),
        ("disk", "backup"),
        ("cpu", "processes of the root cgroup"),
    ];
    assert_eq!(found(&web), expected.map(|(one, other)| (one.to_owned(), other.to_owned())));
    assert!(web["findings"][0]["unusual"].is_null() && web["findings"][0]["remedy"].is_null());
    // With an incident, they are its own.
    let mut report = crate::screens::incidents::made_report(7);
    report.main.subject = "web".into();
    made.incidents = vec![report.clone().into()];
    made.frame();
    let web = rows(&made)[0].clone();
    let own = serde_json::to_value(report.verdict(&look.zone).findings).unwrap();
    assert_eq!(web["findings"], own);
}

#[test]
fn the_root_cgroup_has_words_and_its_worst_thread() {
    let mut made = Made::new();
    made.frame();
    made.foreign(Resource::Cpu, "", "/", "hog", 60_000_000, 100);
    made.foreign(Resource::Cpu, "", "web", "/", 60_000_000, 100);
    made.frame();
    let named = |made: &Made, victim: &str, column: &str| match cell(
        &table(&made.history, &ScreenLook::default()),
        victim,
        column,
    ) {
        Cell::Text(text) => text.clone(),
        Cell::Named { name, notes } => Cell::words(name, notes),
        other => panic!("{other:?}"),
    };
    assert_eq!(named(&made, "/", "victim"), "root cgroup");
    assert_eq!(named(&made, "web", "culprit"), "root cgroup 100 %");
    made.outliers = vec![crate::screens::incidents::made_wait("/", "hog", 9)];
    made.outliers.push(crate::screens::incidents::made_wait("web", "/", 777));
    made.frame();
    assert_eq!(named(&made, "/", "victim"), "root cgroup, worker 42");
    assert_eq!(named(&made, "web", "culprit"), "root cgroup 100 %, gzip 777");
}

#[test]
fn why_is_what_took_most_of_what_the_main_culprit_took() {
    let mut made = Made::new();
    made.frame();
    made.foreign(Resource::Cpu, "", "web", OTHER, 10_000_000, 9);
    made.charge(Resource::Cpu, Cause::Kthread, "", "web", OTHER, 20_000_000, 9);
    made.charge(Resource::Running, Cause::Hardirq, "", "web", "nic", 25_000_000, 9);
    made.frame();
    let table = table(&made.history, &ScreenLook::default());
    assert_eq!(cell(&table, "web", "why"), &Cell::Text("kernel thread".to_owned()));
    assert_eq!(cell(&table, "web", "resource"), &Cell::Text("cpu".to_owned()));
    let page = open(&made.history, &ScreenLook::default(), "web").unwrap();
    let Some(crate::Block::Text(lines)) = page.blocks.first() else { panic!("{page:?}") };
    assert!(lines[0].0.ends_with("(kernel thread)."), "{lines:?}");
    let Some(crate::Block::Graph { title, .. }) = page.blocks.get(1) else { panic!("{page:?}") };
    assert_eq!(title, "Held up per second, over the last 1.00 s");
}

#[test]
fn a_victim_opens_with_its_culprits_over_all_resources() {
    let made = made();
    let page = open(&made.history, &ScreenLook::default(), "web").unwrap();
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
    assert!(open(&made.history, &ScreenLook::default(), "no such").is_none());
}

#[test]
fn without_two_frames_there_is_nothing() {
    let made = Made::new();
    let none = table(&made.history, &ScreenLook::default());
    assert!(none.rows.is_empty() && none.empty.contains("second reading"));
}

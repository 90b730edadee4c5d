//! What is taken from CPUs, of frames that were made for it.

use noise_common::signals::SIGNALS;

use super::*;
use crate::generated::{Made, history, row};

const MS: u64 = 1_000_000;

fn read(row: &TableRow) -> Vec<String> {
    let read = |cell: &Cell| match cell {
        Cell::Text(text) | Cell::Number { text, .. } => text.clone(),
        Cell::Named { name, notes } => Cell::words(name, notes),
        Cell::Share(share) => format!("{share:.3}"),
        Cell::Spark(values) => {
            values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(" ")
        }
    };
    row.cells.iter().map(read).collect()
}

fn at(seconds: u64) -> Made {
    let mut made = Made::new(seconds);
    made.host.cpus = vec![0, 1, 2, 10];
    made.host.isolated = vec![2];
    made.host.nohz_full = vec![2, 10];
    made
}

fn busy() -> History {
    history([
        at(1).stolen(0, 900 * MS).stolen(1, 0),
        at(2).interrupted(0, "hardirq", 20 * MS).stolen(0, 900 * MS).stolen(1, 0),
        at(3)
            .interrupted(0, "hardirq", 40 * MS)
            .interrupted(0, "softirq", 100 * MS)
            .interrupted(0, "vector", 10 * MS)
            .interrupted(0, "nmi", MS)
            .interrupted(0, "unheard_of", 5 * MS)
            .interrupted(10, "vector", MS / 500)
            .waited(0, 3_000 * MS)
            .stolen(0, 1_000 * MS)
            .stolen(1, 0),
    ])
}

#[test]
fn all_sources_have_a_column() {
    for source in SIGNALS.iter().filter_map(|info| info.interrupts) {
        let who = Taker::of(source);
        assert!(who != Taker::Other && WHO[who as usize].key == format!("{source}_share"));
    }
    assert_eq!((WHO[Taker::Steal as usize].title, WHO[OTHERS].title), ("steal", "other"));
}

#[test]
fn shares_and_waits_of_each_cpu() {
    let table = table(&busy(), &ScreenLook::default());
    let keys: Vec<_> = table.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["0", "1", "2", "10", "all"]);
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    let zero = row(&table, "0");
    assert_eq!(
        read(&zero),
        [
            "0",
            "",
            "2.0 %",
            "5.0 %",
            "0.05 %",
            "0.50 %",
            "5.0 %",
            "0.128",
            "1.50 s/s",
            "0.020 0.236"
        ]
    );
    assert_eq!(zero.tone, Tone::Plain);
    assert_eq!(row(&table, "1").tone, Tone::Dim);
    let all = row(&table, "all");
    assert_eq!(
        read(&all),
        [
            "all",
            "",
            "0.50 %",
            "1.2 %",
            "0.01 %",
            "0.13 %",
            "1.2 %",
            "0.032",
            "1.50 s/s",
            "0.005 0.059"
        ]
    );
    assert_eq!(all.tone, Tone::Strong);
}

#[test]
fn whatever_hits_a_cpu_that_is_kept_apart_is_an_alarm() {
    let table = table(&busy(), &ScreenLook::default());
    let (quiet, hit) = (row(&table, "2"), row(&table, "10"));
    assert_eq!((read(&quiet)[1].as_str(), quiet.tone), ("iso nohz", Tone::Dim));
    assert_eq!((read(&hit)[1].as_str(), hit.tone), ("nohz", Tone::Alarm));
    let waits = history([at(1), at(2).waited(2, 1)]);
    assert_eq!(row(&super::table(&waits, &ScreenLook::default()), "2").tone, Tone::Alarm);
    let page = open(&waits, &ScreenLook::default(), "2").unwrap();
    assert!(matches!(&page.blocks[0], Block::Text(lines) if lines[0].1 == Tone::Alarm));
    let page = open(&waits, &ScreenLook::default(), "10").unwrap();
    assert!(matches!(&page.blocks[0], Block::Text(lines) if lines[0].1 == Tone::Plain));
}

#[test]
fn cpus_of_which_only_the_numbers_are_known() {
    let nameless = |made: Made| {
        let mut made = made;
        made.host.cpus.clear();
        made
    };
    let made = history([
        nameless(Made::new(1).waited(7, 5).stolen(3, 1)),
        nameless(Made::new(2).waited(7, 6).stolen(3, 1)),
    ]);
    let table = table(&made, &ScreenLook::default());
    assert_eq!(
        table.rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(),
        ["3", "7", "all"]
    );
    // One that is not listed, but was hit.
    let made = history([at(1), at(2).interrupted(5, "nmi", 1)]);
    assert_eq!(super::table(&made, &ScreenLook::default()).rows.len(), 6);
}

#[test]
fn a_cpu_that_goes_offline_and_time_that_is_late() {
    let steal = |seconds: u64| Made::new(seconds).stolen(0, seconds * 2_000 * MS);
    let made = history([steal(1).stolen(1, 5_000 * MS), steal(2), steal(3).stolen(1, 6_000 * MS)]);
    let table = table(&made, &ScreenLook::default());
    // More than there was of it: a late window.
    assert_eq!(read(&row(&table, "0"))[6..8], ["200 %", "1.000"]);
    assert_eq!(read(&row(&table, "1"))[6..8], ["0", "0.000"]);
}

#[test]
fn nothing_is_known_at_first() {
    let look = ScreenLook { seconds: 0.0, ..ScreenLook::default() };
    let none = table(&History::default(), &look);
    assert!(none.rows.is_empty() && !none.empty.is_empty());
    let one = table(&history([at(1).interrupted(0, "nmi", MS).stolen(0, 7)]), &look);
    assert_eq!(one.rows.len(), 5);
    assert_eq!(read(&one.rows[0])[2..], ["0", "0", "0", "0", "0", "0.000", "0", ""]);
    assert_eq!(open(&History::default(), &look, "all"), None);
    assert_eq!(open(&History::default(), &look, "0"), None);
}

#[test]
fn one_cpu_over_time() {
    let look = ScreenLook::default();
    let page = open(&busy(), &look, "0").unwrap();
    assert_eq!(page.title, "CPU 0");
    let graphs: Vec<_> = page
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Graph { title, values, largest } => {
                assert_eq!(values.len(), 2);
                Some((title.as_str(), largest.as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        graphs,
        [
            ("Share taken, all together", "23.6 %"),
            ("Waiting for it, per second", "3.00 s/s"),
            ("Share of irq", "2.0 %"),
            ("Share of softirq", "10.0 %"),
            ("Share of nmi", "0.10 %"),
            ("Share of vector", "1.0 %"),
            ("Share of steal", "10.0 %"),
            ("Share of other", "0.50 %"),
        ]
    );
    let Some(Block::Table(table)) = page.blocks.last() else { panic!("{page:?}") };
    assert_eq!(read(&row(table, "irq")), ["irq", "2.0 %", "20.0 ms/s", "0.020 0.020"]);
    let quiet = open(&busy(), &look, "1").unwrap();
    let Some(Block::Table(table)) = quiet.blocks.last() else { panic!("{quiet:?}") };
    assert_eq!(table.rows.len(), OTHERS);
    assert_eq!(open(&busy(), &look, "4"), None);
    assert_eq!(open(&busy(), &look, "x"), None);
}

#[test]
fn all_cpus_over_time() {
    let page = open(&busy(), &ScreenLook::default(), "all").unwrap();
    let Some(Block::Table(table)) = page.blocks.last() else { panic!("{page:?}") };
    assert_eq!(read(&row(table, "softirq")), ["softirq", "1.2 %", "50.0 ms/s", "0.000 0.025"]);
}

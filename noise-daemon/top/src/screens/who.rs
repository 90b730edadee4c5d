//! Who delays whom: a row for each victim and culprit.

mod page;

pub use self::page::page as open;

use std::cmp::Reverse;

use noise_common::charge::{Cause, Resource};
use noise_model::Amount as _;
use noise_model::labels::OTHER;
use noise_model::words::culprit_briefly;

use super::cells;
use super::recent::{Recent, empty};
use crate::pairs::{Cost, Id, Pair};
use crate::{Cell, Column, History, ScreenLook, Table, TableRow, Tone};

/// Pairs with a row of their own: those that lost most. More would not be read, and each costs a
/// microsecond whenever the screen is made.
const SHOWN: usize = 500;

/// Between the names in a row's key; no name holds it.
const BETWEEN: char = '\0';

#[derive(Debug)]
pub(super) struct ThreadAccount<'a> {
    pub victim: &'a str,
    pub culprit: &'a str,
    /// What came in the time that is looked at.
    pub cost: Cost,
    /// How many pairs share it: 0 where it is one of its own.
    pub folded: usize,
    /// Seconds that it lost in a second, of every step.
    pub trend: Vec<f64>,
}

/// All that the rows are made of.
#[derive(Debug)]
pub(super) struct Accounts<'a> {
    pub recent: Recent<'a>,
    /// Those that lost most, and at the end the rest, if there is one.
    pub shown: Vec<ThreadAccount<'a>>,
    /// What all of them lost, ns.
    pub lost_ns: u64,
}

impl<'a> Accounts<'a> {
    pub(super) fn new(history: &'a History, look: &ScreenLook) -> Self {
        let recent = Recent::new(history, look);
        let mut lost_ns = 0_u64;
        // What was folded before it came here is one row with what is folded here.
        let mut rest = Cost::default();
        let mut folded = 0;
        let mut fold = |cost: &Cost| {
            rest.add(cost);
            folded += 1;
        };
        let mut known: Vec<(Id, &Pair, Cost)> = Vec::new();
        let sums = history.pairs().sums(recent.steps.len());
        for (id, pair, cost) in sums.filter(|(.., cost)| cost.ns > 0 || cost.delays > 0) {
            lost_ns.add(&cost.ns);
            match [&*pair.0, &*pair.1] == [OTHER; 2] {
                true => fold(&cost),
                false => known.push((id, pair, cost)),
            }
        }
        if known.len() > SHOWN {
            known.select_nth_unstable_by_key(SHOWN, |(_, pair, cost)| (Reverse(cost.ns), *pair));
            known.drain(SHOWN..).for_each(|(_, _, cost)| fold(&cost));
        }
        let ids: Vec<Id> = known.iter().map(|(id, ..)| *id).collect();
        let mut trends = trends(history, &ids).into_iter();
        let account = |(_, (victim, culprit), cost): (Id, &'a Pair, Cost)| ThreadAccount {
            victim,
            culprit,
            cost,
            folded: 0,
            trend: trends.next().unwrap_or_default(),
        };
        let mut shown: Vec<ThreadAccount<'_>> = known.into_iter().map(account).collect();
        if folded > 0 {
            let trend = trends.next().unwrap_or_default();
            shown.push(ThreadAccount { victim: OTHER, culprit: OTHER, cost: rest, folded, trend });
        }
        Self { recent, shown, lost_ns }
    }
}

/// Seconds that each of these pairs lost in a second, of every step; and at the end, all others together.
pub(super) fn trends(history: &History, ids: &[Id]) -> Vec<Vec<f64>> {
    let mut places = vec![ids.len(); history.pairs().bound()];
    for (place, id) in ids.iter().enumerate() {
        if let Some(own) = places.get_mut(*id as usize) {
            *own = place;
        }
    }
    let count = ids.len() + 1;
    let mut trends = vec![vec![0.0; history.steps().count()]; count];
    let mut lost_ns = vec![0_u64; count];
    for (index, (step, costs)) in history.steps().zip(history.pairs().costs()).enumerate() {
        lost_ns.fill(0);
        for (id, cost) in costs {
            let place = places.get(*id as usize).and_then(|place| lost_ns.get_mut(*place));
            if let Some(sum) = place {
                sum.add(&cost.ns);
            }
        }
        for (trend, ns) in trends.iter_mut().zip(&lost_ns).filter(|(_, ns)| **ns > 0) {
            if let Some(value) = trend.get_mut(index) {
                *value = step.per_second(*ns as f64 / 1e9);
            }
        }
    }
    trends
}

pub(super) fn key(victim: &str, culprit: &str) -> String {
    format!("{victim}{BETWEEN}{culprit}")
}

/// The names in a row's key.
pub(super) fn names(key: &str) -> Option<(&str, &str)> {
    key.split_once(BETWEEN)
}

fn columns() -> Vec<Column> {
    vec![
        cells::names("victim", "victim", 14).grows().help("Who was delayed."),
        cells::names("culprit", "culprit", 14).grows().help(
            "Who did it; `self` is other work of the victim, `small others` all that have no row.",
        ),
        cells::numbers("lost", "lost_seconds_per_second", 9)
            .help("Time that the victim lost to the culprit, in a second."),
        cells::pictures("share", "share", 11).help("Its part of all lost time."),
        cells::names("cause", "causes", 8).help(
            "Why: another cgroup (foreign), own work (self), a kernel thread, an interrupt, the \
             CPU quota (throttle), the hypervisor (steal), a CPU that slept (idle).",
        ),
        cells::pictures("trend", "lost_over_time", 12)
            .help("What was lost over the last two minutes."),
        cells::numbers("parts", "parts_per_second", 8)
            .help("Parts of delays in a second: one for each turn of the culprit within a delay."),
        cells::numbers("mean", "mean_seconds", 8).help("How long one part is."),
        cells::names("resource", "resources", 8).help("What the victim had to wait for, or lost."),
    ]
}

/// Victims and culprits, by what was lost.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let Accounts { recent, shown, lost_ns } = Accounts::new(history, look);
    let row = |account| row(&recent, lost_ns, account);
    Table {
        title: format!("Who delays whom, {}", cells::length(recent.seconds)),
        columns: columns(),
        rows: shown.into_iter().map(row).collect(),
        sorted_by: 2,
        empty: empty(history, "No delays.").into(),
    }
}

fn row(recent: &Recent<'_>, lost_ns: u64, account: ThreadAccount<'_>) -> TableRow {
    let cost = &account.cost;
    let cells = vec![
        cells::cgroup(account.victim),
        cells::text(shown_culprit(&account)),
        cells::lost(recent.lost(cost.ns)),
        cells::share(cost.ns as f64, lost_ns as f64),
        cells::text(cost.causes().map(Cause::name).collect::<Vec<_>>().join(", ")),
        Cell::Spark(account.trend),
        cells::rate(recent.per_second(cost.delays as f64)),
        cells::mean(cost.ns, cost.delays),
        cells::text(cost.resources().map(Resource::name).collect::<Vec<_>>().join(", ")),
    ];
    let is_dim = account.folded > 0 || cost.is_rest();
    TableRow {
        key: key(account.victim, account.culprit),
        cells,
        tone: if is_dim { Tone::Dim } else { Tone::Plain },
    }
}

fn shown_culprit<'a>(account: &ThreadAccount<'a>) -> &'a str {
    let is_own = account.victim == account.culprit && account.cost.causes().eq([Cause::Own]);
    let cause = account.cost.causes().next();
    match cause.filter(|_| !is_own) {
        Some(cause) => culprit_briefly(cause, account.culprit),
        None if is_own => Cause::Own.name(),
        None => account.culprit,
    }
}

/// Whose delays a row is about, unless it stands for several.
pub fn victim(key: &str) -> Option<String> {
    let (victim, _) = names(key)?;
    (!victim.starts_with('~')).then(|| victim.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screens::made::Made;

    fn value(table: &Table, key: &str, column: &str) -> f64 {
        let row = table.rows.iter().find(|row| row.key == key).unwrap();
        let index = table.columns.iter().position(|one| one.key == column).unwrap();
        match &row.cells[index] {
            Cell::Number { value, .. } => value.unwrap(),
            Cell::Share(share) => *share,
            other => panic!("{other:?}"),
        }
    }

    fn text<'a>(table: &'a Table, key: &str, column: &str) -> &'a str {
        let row = table.rows.iter().find(|row| row.key == key).unwrap();
        let index = table.columns.iter().position(|one| one.key == column).unwrap();
        let Cell::Text(text) = &row.cells[index] else { panic!("{:?}", row.cells[index]) };
        text
    }

    fn shares(table: &Table) -> f64 {
        table.rows.iter().map(|row| value(table, &row.key, "share")).sum()
    }

    #[test]
    fn what_was_lost_is_reported_by_pair() {
        let mut made = Made::new();
        made.frame();
        for _ in 0..10 {
            made.foreign(Resource::Cpu, "", "web", "batch", 300_000_000, 100);
            made.foreign(Resource::BlockQueue, "vda", "web", "batch", 100_000_000, 20);
            made.foreign(Resource::Preemption, "", "web", "batch", 0, 7);
            made.charge(Resource::Cpu, Cause::Own, "", "web", "web", 50_000_000, 10);
            made.charge(Resource::Cpu, Cause::Idle, "", "web", "idle", 50_000_000, 1_000);
            made.foreign(Resource::Preemption, "", "db", "batch", 0, 3);
            made.frame();
        }
        let table = table(&made.history, &ScreenLook::default());
        let pair = key("web", "batch");
        assert_eq!(table.rows.len(), 3);
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        assert_eq!(value(&table, &pair, "lost_seconds_per_second"), 0.4);
        assert_eq!(value(&table, &pair, "share"), 0.8);
        assert_eq!(value(&table, &pair, "parts_per_second"), 120.0);
        assert_eq!(value(&table, &pair, "mean_seconds"), 0.4 / 120.0);
        assert_eq!(text(&table, &pair, "resources"), "cpu, block_queue");
        assert_eq!(text(&table, &key("web", "web"), "culprit"), "self");
        assert_eq!(text(&table, &key("web", "idle"), "causes"), "idle");
        assert!((shares(&table) - 1.0).abs() < 1e-12);
        let tones: Vec<_> = table.rows.iter().map(|row| (row.key.as_str(), row.tone)).collect();
        assert!(tones.contains(&(&key("web", "idle"), Tone::Dim)), "{tones:?}");
        assert!(tones.contains(&(&key("web", "web"), Tone::Plain)), "{tones:?}");
        let row = table.rows.iter().find(|row| row.key == pair).unwrap();
        assert_eq!(row.cells[5], Cell::Spark(vec![0.4; 10]));
    }

    #[test]
    fn sums_begin_at_the_reset() {
        let mut made = Made::new();
        made.frame();
        for ns in [100_000_000, 200_000_000, 600_000_000] {
            made.foreign(Resource::Cpu, "", "a", "b", ns, 1);
            made.frame();
        }
        let lost = |look: ScreenLook| {
            value(&table(&made.history, &look), &key("a", "b"), "lost_seconds_per_second")
        };
        let all = ScreenLook { seconds: 3.0, ..ScreenLook::default() };
        assert_eq!(lost(all.clone()), 0.3);
        let newest_ns = made.history.latest().unwrap().sample.at_ns;
        assert_eq!(lost(ScreenLook { since_ns: newest_ns - 2_000_000_000, ..all.clone() }), 0.4);
        // Even with a reset right now, the newest step is shown.
        assert_eq!(lost(ScreenLook { since_ns: newest_ns, ..all }), 0.6);
        assert_eq!(lost(ScreenLook { seconds: 0.0, ..ScreenLook::default() }), 0.6);
    }

    #[test]
    fn without_two_frames_there_is_nothing() {
        let mut made = Made::new();
        let none = table(&made.history, &ScreenLook::default());
        assert!(none.rows.is_empty() && none.empty.contains("second reading"));
        made.foreign(Resource::Cpu, "", "a", "b", 1, 1);
        made.frame();
        let one = table(&made.history, &ScreenLook::default());
        assert!(one.rows.is_empty() && one.empty.contains("second reading"));
        assert!(open(&made.history, &ScreenLook::default(), &key("a", "b")).is_none());
        made.frame();
        assert_eq!(table(&made.history, &ScreenLook::default()).empty, "No delays.");
    }

    #[test]
    fn a_pair_that_vanishes_leaves_when_its_time_is_over() {
        let mut made = Made::new();
        made.frame();
        made.foreign(Resource::Cpu, "", "a", "b", 500_000_000, 1);
        made.frame();
        made.forget("a", "b");
        (0..4).for_each(|_| made.frame());
        let pair = key("a", "b");
        let lost =
            value(&table(&made.history, &ScreenLook::default()), &pair, "lost_seconds_per_second");
        assert_eq!(lost, 0.1);
        made.frame();
        assert!(table(&made.history, &ScreenLook::default()).rows.is_empty());
        assert!(open(&made.history, &ScreenLook::default(), &pair).is_some());
        (0..130).for_each(|_| made.frame());
        assert!(open(&made.history, &ScreenLook::default(), &pair).is_none());
        assert!(made.history.pairs().is_empty());
    }

    #[test]
    fn a_daemon_that_starts_anew_counts_from_nothing() {
        let mut made = Made::new();
        made.foreign(Resource::Cpu, "", "a", "b", 700_000_000, 9);
        made.frame();
        made.restart();
        made.foreign(Resource::Cpu, "", "a", "b", 200_000_000, 1);
        made.frame();
        let table = table(&made.history, &ScreenLook::default());
        assert_eq!(value(&table, &key("a", "b"), "lost_seconds_per_second"), 0.2);
    }

    #[test]
    fn nothing_lost_is_no_share() {
        let mut made = Made::new();
        made.frame();
        made.foreign(Resource::Cpu, "", "a", "b", 0, 3);
        made.frame();
        let table = table(&made.history, &ScreenLook::default());
        assert_eq!(value(&table, &key("a", "b"), "share"), 0.0);
        assert_eq!(value(&table, &key("a", "b"), "mean_seconds"), 0.0);
    }

    #[test]
    fn what_has_no_row_is_one_row() {
        let mut made = Made::new();
        made.frame();
        for _ in 0..3 {
            for number in 1..=600 {
                let culprit = format!("b{number}");
                made.foreign(Resource::Cpu, "", "a", &culprit, number * 1_000, 1);
            }
            made.charge(Resource::Cpu, Cause::Untracked, "", OTHER, OTHER, 1_000_000_000, 1);
            made.frame();
        }
        let table = table(&made.history, &ScreenLook { seconds: 2.0, ..ScreenLook::default() });
        let rest = key(OTHER, OTHER);
        assert_eq!(table.rows.len(), SHOWN + 1);
        assert_eq!(table.rows.iter().filter(|row| row.key == rest).count(), 1);
        let lost = 1.0 + (1..=100).sum::<u64>() as f64 * 1e-6;
        assert!((value(&table, &rest, "lost_seconds_per_second") - lost).abs() < 1e-12);
        assert_eq!(value(&table, &rest, "parts_per_second"), 101.0);
        assert!((shares(&table) - 1.0).abs() < 1e-9);
        let row = table.rows.iter().find(|row| row.key == rest).unwrap();
        assert_eq!(row.tone, Tone::Dim);
        let Cell::Spark(trend) = &row.cells[5] else { panic!() };
        assert!(trend.iter().all(|value| (value - lost).abs() < 1e-9), "{trend:?}");
        assert_eq!(text(&table, &rest, "causes"), "foreign, untracked");
        assert!(!table.rows.iter().any(|row| row.key == key("a", "b100")));
        assert!(table.rows.iter().any(|row| row.key == key("a", "b101")));
    }
}

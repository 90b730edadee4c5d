//! Where an execution differs from those beside it.

use proptest::prelude::*;

use noise_paths::document::Traced;

use super::*;
use crate::align::{AlignSettings, Symbol, align};
use crate::made::{Made, path, side};
use crate::side::{Side, chosen};
use crate::stretches::{STATE_COUNT, state_name, state_place};

/// The first execution beside the others.
fn beside(executions: &Side) -> Beside<'_> {
    let executions: Vec<&Execution> = executions.executions().iter().collect();
    let symbols = |one: &&Execution| one.stretches.iter().map(PathStretch::symbol).collect();
    let symbols: Vec<Vec<Symbol>> = executions.iter().map(symbols).collect();
    let alignment = align(&symbols, &AlignSettings::default()).unwrap();
    Beside { executions, alignment }
}

/// Runs and waits for a disk in turn, each time a little differently.
fn normal(steps: u64, seed: u64) -> Vec<Made> {
    let one = |step: u64| {
        let vary = (step * 7 + seed * 13) % 10;
        [Made::own("running", 100 + vary), Made::own("disk", 50 + vary)]
    };
    (0..steps).flat_map(one).chain([Made::own("running", 40)]).collect()
}

fn normals(steps: u64, count: u64) -> Vec<Traced> {
    (0..count).map(|seed| path(&normal(steps, seed))).collect()
}

/// The places in a state.
fn places(beside: &Beside<'_>, state: &str) -> Vec<OddColumns> {
    let counted = beside.counted();
    beside.places(&beside.columns(&counted, 1.5), &counted, state_place(state))
}

#[test]
fn a_planted_stretch_is_the_first_place() {
    for at in [1, 3, 6] {
        let mut parts = normal(6, 3);
        let more = [Made::own("futex", 400).behind("holder"), Made::of("running", 30, 8)];
        parts.splice(2 * at - 1..2 * at - 1, more);
        let odd = path(&parts);
        let planted = odd.path.iter().find(|part| part.state == "futex").unwrap().clone();
        let all: Vec<Traced> = [odd].into_iter().chain(normals(6, 20)).collect();
        let side = side(&all);
        let beside = beside(&side);
        let places = places(&beside, "futex");
        let first = &places[0];
        assert_eq!((state_name(first.state), first.is_own), ("futex", true));
        assert_eq!((first.from_ns, first.to_ns), (planted.from_ns, planted.to_ns));
        assert_eq!((first.duration_ns, first.times, first.normal_with), (400, 1, 0));
        assert!((first.lost_ns() - 400.0).abs() < 1e-9);
        // A normal execution passes there in no time.
        let (from_ns, to_ns) = beside.normal_time(first, 1).unwrap();
        assert!(to_ns - from_ns <= 110, "{from_ns} {to_ns}");
    }
}

#[test]
fn a_stretch_that_is_too_long_is_found_where_it_is() {
    let mut parts = normal(6, 3);
    parts[7] = Made::own("disk", 900);
    let all: Vec<Traced> = [path(&parts)].into_iter().chain(normals(6, 20)).collect();
    let side = side(&all);
    let beside = beside(&side);
    let first = &places(&beside, "disk")[0];
    assert_eq!((first.state, first.times, first.normal_with), (state_place("disk"), 1, 20));
    assert_eq!(first.from_ns, all[0].path[7].from_ns);
    assert!((first.expected_ns - 54.5).abs() < 5.0, "{}", first.expected_ns);
    assert!((first.columns[0].probability - 1.0).abs() < 1e-9);
}

#[test]
fn what_is_like_the_others_has_no_place() {
    let same: Vec<Traced> = (0..5).map(|_| path(&normal(6, 1))).collect();
    assert_eq!(places(&beside(&side(&same)), "disk"), []);
    // No normal execution, and none with a path.
    let alone = [path(&normal(2, 1))];
    let found = places(&beside(&side(&alone)), "running");
    assert_eq!((found.len(), found[0].duration_ns), (1, alone[0].totals_ns["running"]));
    assert_eq!(places(&beside(&side(&[Traced::default(), Traced::default()])), "running"), []);
}

#[test]
fn normal_ones_are_chosen_over_all_their_spans() {
    let all: Vec<Traced> = (1..=100).map(|ns| path(&[Made::own("running", ns)])).collect();
    let side = side(&all);
    let all = side.executions();
    let among: Vec<usize> = (0..100).rev().collect();
    assert_eq!(chosen(all, &among, 4), [12, 37, 62, 87]);
    assert_eq!(chosen(all, &[5, 3], 4), [3, 5]);
    assert_eq!(chosen(all, &among, 200).len(), 100);
}

/// Time of normal executions in a column where they have that symbol.
fn normal_ns(beside: &Beside<'_>, column: usize, symbol: Symbol) -> Vec<f64> {
    let there = (1..beside.executions.len()).filter_map(|row| stretch(beside, row, column));
    there.filter(|there| there.symbol() == symbol).map(|there| there.ns() as f64).collect()
}

#[test]
fn what_comes_in_between_is_the_place_and_not_what_it_splits() {
    for seed in 0..20 {
        let whole = normal(0, seed)[0].clone();
        let all: Vec<Traced> = (0..20).map(|_| path(std::slice::from_ref(&whole))).collect();
        let split = [
            Made::own("running", 25),
            Made::own("disk", 90).behind("backup"),
            Made::own("running", 15 + seed),
        ];
        let all: Vec<Traced> = [path(&split)].into_iter().chain(all).collect();
        let side = side(&all);
        let beside = beside(&side);
        let first = &places(&beside, "disk")[0];
        assert_eq!((first.from_ns, first.to_ns), (all[0].path[1].from_ns, all[0].path[1].to_ns));
        let lost: f64 = places(&beside, "running").iter().map(OddColumns::lost_ns).sum();
        assert!((lost - seed as f64).abs() < 1e-9, "{lost}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lost_time_sums_to_the_difference_in_each_state(
        paths in prop::collection::vec(prop::collection::vec((0usize..5, 1u64..1000, 7i32..9), 1..12), 2..6)
    ) {
        let made = |parts: &Vec<(usize, u64, i32)>| {
            path(&parts.iter().map(|(state, ns, tid)| Made::of(state_name(*state), *ns, *tid)).collect::<Vec<_>>())
        };
        let all: Vec<Traced> = paths.iter().map(made).collect();
        let side = side(&all);
    let beside = beside(&side);
        let counted = beside.counted();
        let columns = beside.columns(&counted, 1.5);
        prop_assert_eq!(columns.len(), beside.stretches(0).len());
        for symbol in 0..2 * STATE_COUNT as Symbol {
            let whole = |row: usize| {
                let own = beside.stretches(row).iter().filter(|stretch| stretch.symbol() == symbol);
                own.map(PathStretch::ns).sum::<u64>() as f64
            };
            let mean = (1..all.len()).map(whole).sum::<f64>() / (all.len() - 1) as f64;
            let lost: f64 = columns.iter()
                .filter(|column| beside.stretches(0)[column.stretch].symbol() == symbol)
                .map(|column| column.lost_ns).sum();
            let elsewhere: f64 = (0..beside.alignment.columns())
                .filter(|column| stretch(&beside, 0, *column).is_none_or(|own| own.symbol() != symbol))
                .flat_map(|column| normal_ns(&beside, column, symbol)).sum::<f64>() / (all.len() - 1) as f64;
            prop_assert!((lost - elsewhere - (whole(0) - mean)).abs() < 1e-6);
        }
        let places: Vec<OddColumns> = beside.places(&columns, &counted, 0);
        for pair in places.windows(2) {
            prop_assert!(pair[0].lost_ns() >= pair[1].lost_ns());
        }
        for place in &places {
            prop_assert!(place.lost_ns() > 0.0 && place.from_ns < place.to_ns);
            let is_own = |column: &Column| beside.stretches(0)[column.stretch].is_own;
            prop_assert!(place.columns.iter().all(|column| is_own(column) == place.is_own));
            prop_assert!(place.from_ns >= all[0].from_ns && place.to_ns <= all[0].to_ns);
        }
    }
}

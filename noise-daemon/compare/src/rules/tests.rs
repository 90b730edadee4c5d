//! Both rules of Algorithm 1, and their guard.

use proptest::prelude::*;

mod recordings;

use noise_paths::document::Traced;

use super::*;
use crate::made::{Made, path};
use crate::stretches::STATES;

/// Executions that run, and wait for a disk for so many nanoseconds.
fn set(disk_ns: &[u64]) -> Vec<Traced> {
    let one = |ns: &u64| match ns {
        0 => path(&[Made::own("running", 1000)]),
        ns => path(&[Made::own("running", 600), Made::own("disk", *ns), Made::own("running", 400)]),
    };
    disk_ns.iter().map(one).collect()
}

/// One recording a side: what counts is an effect, and no state is flagged.
fn judged(normal: &[Traced], sample: &[Traced], thresholds: &Thresholds) -> OutlierVerdict {
    let found = of_recordings(&[normal.to_vec()], &[sample.to_vec()], thresholds);
    assert!(found.flagged.is_empty() && !found.drift.is_known);
    assert!(found.effects.iter().all(|effect| effect.unflagged == Some(Unflagged::Untested)));
    found
}

fn of_recordings(
    normal: &[Vec<Traced>],
    sample: &[Vec<Traced>],
    thresholds: &Thresholds,
) -> OutlierVerdict {
    let mut sides = [Side::default(), Side::default()];
    let all = normal.iter().map(|set| (0, set)).chain(sample.iter().map(|set| (1, set)));
    for (recording, (side, set)) in all.enumerate() {
        sides[side].add(recording, set.iter().cloned());
    }
    judge(&sides[0], &sides[1], thresholds)
}

/// The same executions, a part of whose running time was in system calls.
fn in_calls(part: f64) -> impl Fn(&Traced) -> Traced {
    move |traced| {
        let mut traced = traced.clone();
        for own in traced.path.iter_mut().filter(|own| own.state == "running") {
            own.in_calls_ns = Some(((own.to_ns - own.from_ns) as f64 * part) as u64);
        }
        traced.in_calls_ns = Some(traced.path.iter().filter_map(|own| own.in_calls_ns).sum());
        traced
    }
}

/// The paper's rules alone.
fn bare() -> Thresholds {
    Thresholds { chance: 1.0, least: 0.0, ..Thresholds::default() }
}

fn rules(flags: &[Flag]) -> Vec<(&'static str, OutlierRule)> {
    flags.iter().map(|flag| (flag.times.state, flag.rule)).collect()
}

#[test]
fn both_rules_are_told_apart() {
    // Mean 100, deviation 10 (of n - 1), half above it.
    let normal = set(&[90, 110, 90, 110, 90, 110, 90, 110, 90, 110]);
    let found = judged(&normal, &set(&[116, 116]), &bare());
    assert_eq!(rules(&found.effects), [("disk", OutlierRule::Mean)]);
    let times = found.effects[0].times;
    assert!((times.normal_mean_ns - 100.0).abs() < 1e-9);
    assert!((times.normal_deviation_ns - (1000.0f64 / 9.0).sqrt()).abs() < 1e-9);
    // All are above the mean, twice as many as normal, but not more.
    assert!((times.normal_share - 0.5).abs() < 1e-9 && (times.sample_share - 1.0).abs() < 1e-9);
    // One long time makes the mean; three of ten are above it, where one of ten is.
    let normal = set(&[10, 10, 10, 10, 10, 10, 10, 10, 10, 1000]);
    let found = judged(&normal, &set(&[10, 10, 10, 10, 10, 10, 10, 120, 120, 120]), &bare());
    assert_eq!(rules(&found.effects), [("disk", OutlierRule::Share)]);
    assert_eq!(
        found.effects[0].reason,
        "disk: 3 of 10 of the sample are longer than the normal mean of 109 ns, as 1 of 10 normal ones are: more than \
         2 times as many"
    );
    // Less is not more.
    assert_eq!(judged(&normal, &set(&[0; 10]), &bare()).effects, []);
    // More of them are long, and their mean is below the normal one: any guard is against that.
    let sample = set(&[[135; 25], [10; 25]].concat());
    let normal = set(&[[10; 90].as_slice(), &[1200; 10]].concat());
    for (chance, least, counts) in [(1.0, 0.0, true), (0.01, 0.0, false), (1.0, 1e-9, false)] {
        let found = judged(&normal, &sample, &Thresholds { chance, least, ..bare() });
        let of = if counts { &found.effects } else { &found.not_counted };
        assert_eq!(rules(of), [("disk", OutlierRule::Share)]);
        assert_eq!(
            of[0].unflagged,
            Some(if counts { Unflagged::Untested } else { Unflagged::NotLonger })
        );
    }
}

#[test]
fn time_in_system_calls_is_a_state_of_its_own_where_all_say_it() {
    let set = set(&[100, 110, 120, 130, 140, 150]);
    let [little, much]: [Vec<Traced>; 2] =
        [0.1, 0.6].map(|part| set.iter().map(in_calls(part)).collect());
    let states = |found: &OutlierVerdict| -> Vec<_> {
        found.times.iter().map(|times| times.state).collect()
    };
    let found = judged(&little, &much, &bare());
    assert_eq!(states(&found), ["running", "disk", "system_call"]);
    assert!(found.effects.iter().all(|flag| flag.times.state == "system_call"));
    assert_eq!(
        (found.effects[0].times.normal_mean_ns, found.effects[0].times.sample_mean_ns),
        (100.0, 600.0)
    );
    // Running time that says nothing of calls is as long as before.
    let found = judged(&set, &much, &bare());
    assert_eq!((states(&found), rules(&found.effects)), (vec!["running", "disk"], vec![]));
}

#[test]
fn a_flag_needs_more_than_any_two_recordings_of_a_side_differ_by() {
    let of = |disk_us: u64| set(&(0..15).map(|number| 1000 * disk_us + number).collect::<Vec<_>>());
    let sides = |normal: [u64; 6], sample: [u64; 6]| {
        of_recordings(&normal.map(of), &sample.map(of), &Thresholds::default())
    };
    let normal = [100, 102, 101, 103, 100, 102];
    let found = sides(normal, [201, 203, 200, 204, 202, 201]);
    assert!(found.flagged.iter().any(|flag| flag.times.state == "disk"));
    for flag in &found.flagged {
        assert!(flag.times.more_ns() > flag.times.within_ns.unwrap());
    }
    // One normal recording was as slow: the means of two of them differ by more than the sides do.
    let found = sides([100, 102, 101, 103, 100, 240], [201, 203, 200, 204, 202, 201]);
    assert_eq!(rules(&found.flagged), []);
    assert!(found.effects.iter().all(|flag| flag.times.state != "disk"), "{:?}", found.effects);
    let is_drift = |flag: &&Flag| flag.unflagged == Some(Unflagged::Drift);
    assert!(found.not_counted.iter().filter(is_drift).any(|flag| flag.times.state == "disk"));
}

#[test]
fn what_a_recording_does_not_say_is_not_slower() {
    let normal = vec![path(&[Made::own("running", 1000)]); 40];
    let sample = vec![path(&[Made::own("running", 600), Made::own("unknown", 500)]); 40];
    let found = judged(&normal, &sample, &Thresholds::default());
    assert_eq!(found.effects, []);
    let not_counted = rules(&found.not_counted);
    assert_eq!(not_counted, [("unknown", OutlierRule::Mean), ("unknown", OutlierRule::Share)]);
    assert!(found.not_counted[0].reason.ends_with("does not say is not slower"));
    // The paper's rules are about any state.
    assert_eq!(rules(&judged(&normal, &sample, &bare()).effects), not_counted);
}

#[test]
fn sets_that_do_not_vary_are_judged_too() {
    let same = set(&[100; 10]);
    assert_eq!(judged(&same, &same, &bare()).effects, []);
    let found = judged(&same, &set(&[101; 10]), &bare());
    assert_eq!(rules(&found.effects), [("disk", OutlierRule::Mean), ("disk", OutlierRule::Share)]);
    assert!(found.effects[0].reason.ends_with("from which no normal execution differs"));
    // A nanosecond of a thousand does not matter.
    let found = judged(&same, &set(&[101; 10]), &Thresholds::default());
    assert_eq!(found.effects, []);
    assert!(
        found.not_counted[0]
            .reason
            .ends_with("but the mean grew by 1.00 ns, less than 1.0 % of an execution")
    );
    // A state that normal executions never have.
    let found = judged(&set(&[0; 10]), &set(&[300; 10]), &Thresholds::default());
    assert_eq!(rules(&found.effects), [("disk", OutlierRule::Mean), ("disk", OutlierRule::Share)]);
    assert_eq!(
        found.effects[1].reason,
        "disk: 10 of 10 of the sample are longer than the normal ones, which have none"
    );
}

#[test]
fn what_chance_gives_does_not_count() {
    // One of ten where none of a hundred has it: chance makes that in one of eleven divisions.
    let mut sample = vec![0; 10];
    sample[3] = 50_000;
    let normal = set(&[0; 100]);
    let found = judged(&normal, &set(&sample), &Thresholds::default());
    assert_eq!(found.effects, []);
    assert_eq!(
        rules(&found.not_counted),
        [("disk", OutlierRule::Mean), ("disk", OutlierRule::Share)]
    );
    assert!((found.not_counted[1].execution_chance - 1.0 / 11.0).abs() < 1e-9);
    let reason = &found.not_counted[1].reason;
    assert!(reason.contains("chance gives as much in 9.1 % of divisions"), "{reason}");
    // What no permutation reaches counts by the least that can be asked for, where there are all states.
    let of_all = |ns: u64| path(&STATES.map(|state| Made::own(state.name(), ns)));
    let least = Thresholds { chance: LEAST_CHANCE, ..Thresholds::default() };
    let found = judged(&vec![of_all(100); 100], &vec![of_all(900); 10], &least);
    assert_eq!((found.times.len(), found.effects.len()), (10, 2 * 9));
    assert!((found.effects[0].execution_chance - 1e-4).abs() < 1e-12);
    // Four of ten: hardly.
    let found =
        judged(&normal, &set(&[0, 0, 0, 0, 0, 0, 500, 500, 500, 500]), &Thresholds::default());
    assert_eq!(rules(&found.effects), [("disk", OutlierRule::Mean), ("disk", OutlierRule::Share)]);
}

#[test]
fn of_too_few_executions_counts_what_chance_gives_the_least() {
    let (normal, sample) = (set(&[100; 20]), set(&[900]));
    let found = judged(&normal, &sample, &Thresholds::default());
    assert!(found.is_too_few);
    assert_eq!(rules(&found.effects), [("disk", OutlierRule::Mean), ("disk", OutlierRule::Share)]);
    assert!((found.effects[0].execution_chance - 1.0 / 21.0).abs() < 1e-9);
    let found = judged(&sample, &set(&[2000]), &Thresholds::default());
    assert!(found.is_too_few && found.effects[0].times.state == "disk");
    // Less chance flags no more: one of 1,771 divisions is the least of 20 and 3 executions, 1 % of four tests is more.
    let normal = set(&[[100; 16].as_slice(), &[500; 4]].concat());
    for (sample, flags) in [([100, 400, 400], 0), ([600, 700, 800], 1)] {
        for (chance, is_too_few) in [(0.01, false), (LEAST_CHANCE, true)] {
            let thresholds = Thresholds { chance, ..Thresholds::default() };
            let found = judged(&normal, &set(&sample), &thresholds);
            assert_eq!((found.is_too_few, found.effects.len()), (is_too_few, flags), "{found:?}");
        }
    }
}

#[test]
fn the_longest_are_left_out_of_what_is_expected() {
    let values = |count: u32| (0..count).map(|number| if number == 3 { 1e9 } else { 5.0 });
    assert_eq!(Moments::trimmed(values(10)), Moments { mean: 5.0, deviation: 0.0 });
    assert_eq!(Moments::trimmed(values(21)), Moments { mean: 5.0, deviation: 0.0 });
    assert!(Moments::trimmed(values(9)).deviation > 1e8);
    assert_eq!(Moments::trimmed([].into_iter()), Moments::default());
}

proptest! {
    #[test]
    fn normal_against_itself_is_never_above_by_the_mean(
        disk in prop::collection::vec(0u64..10_000, 1..40), t1 in 0.0f64..3.0
    ) {
        let set = set(&disk);
        let found = judged(&set, &set, &Thresholds { t1, ..bare() });
        prop_assert_eq!(found.effects, []);
    }

    #[test]
    fn more_of_a_time_never_takes_a_flag_away(
        normal in prop::collection::vec(0u64..1000, 2..30), sample in prop::collection::vec(0u64..1000, 1..10), more in 0u64..1000
    ) {
        let grown: Vec<u64> = sample.iter().map(|ns| ns + more).collect();
        let normal = set(&normal);
        let flagged = |sample: &[u64]| {
            let found = judged(&normal, &set(sample), &bare());
            found.effects.iter().filter(|flag| flag.times.state == "disk").count()
        };
        prop_assert!(flagged(&grown) >= flagged(&sample));
    }
}

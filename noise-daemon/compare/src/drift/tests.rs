//! Recordings that drift, and what noised concludes from them.

use super::*;

/// The units of sides that have so many executions in each recording.
fn units(normal: &[usize], sample: &[usize]) -> Units {
    let mut begin = 0;
    let mut places = |sizes: &[usize]| {
        begin = 0;
        let one = |size: &usize| {
            begin += size;
            (begin - size..begin).collect()
        };
        sizes.iter().map(one).collect()
    };
    Units { unit: Unit::Recording, normal: places(normal), sample: places(sample) }
}

#[test]
fn what_can_be_reached_follows_from_the_number_of_recordings() {
    for (normal, sample, divisions) in [(1, 1, 2.0), (2, 1, 3.0), (2, 2, 6.0), (3, 3, 20.0)] {
        let drift = units(&vec![1; normal], &vec![1; sample]).drift();
        assert_eq!((drift.divisions, drift.is_known), (divisions, normal > 1));
        assert!((drift.least_chance * divisions - 1.0).abs() < 1e-12);
    }
}

#[test]
fn each_recording_counts_the_same_however_many_executions_it_has() {
    let units = units(&[1, 3], &[2, 1]);
    let between = units.between([&[10, 20, 20, 20], &[50, 70, 100]], 1.0).unwrap();
    assert!((between.more_ns - 65.0).abs() < 1e-9 && (between.within_ns - 40.0).abs() < 1e-9);
    assert!((between.chance - 1.0 / 6.0).abs() < 1e-12);
    // The deviations are sqrt(50) and sqrt(800).
    assert!((between.deviation_ns - 425.0_f64.sqrt()).abs() < 1e-9);
    // Logarithms of 11, 21, 61 and 101.
    let [a, b, c, d] = [11.0_f64, 21.0, 61.0, 101.0].map(f64::ln);
    let width = ((a - b).powi(2) / 4.0 + (c - d).powi(2) / 4.0).sqrt();
    let expected = chance::of_quotient((c + d - a - b) / 2.0 / width, 2);
    assert!((between.drift_chance - expected).abs() < 1e-12);
}

#[test]
fn one_recording_a_side_says_nothing_of_drift() {
    assert_eq!(units(&[3], &[1]).between([&[1, 2, 3], &[99]], 1.0), None);
    // Processes that have one execution each are executions.
    let processes = |sizes| Units { unit: Unit::Process, ..units(sizes, &[1, 1]) };
    assert_eq!(processes(&[1, 1]).between([&[1, 2], &[98, 99]], 1.0), None);
    assert!(processes(&[1, 2]).between([&[1, 2, 3], &[98, 99]], 1.0).is_some());
    // Two on one side say how much they differ.
    let between = units(&[1, 1], &[1]).between([&[10, 12], &[90]], 1.0).unwrap();
    assert!((between.within_ns - 2.0).abs() < 1e-9);
    assert!((between.chance - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn recordings_that_do_not_differ_leave_no_doubt() {
    let units = units(&[1, 1], &[1, 1]);
    let chance = |sample| units.between([&[5, 5], sample], 1.0).unwrap().drift_chance;
    assert_eq!([chance(&[9, 9]), chance(&[5, 5]), chance(&[2, 2])], [0.0, 1.0, 1.0]);
}

#[test]
fn within_one_recording_processes_are_exchanged() {
    use crate::made::{Made, path};
    use noise_paths::document::Traced;

    let of = |pid: i32| Traced { pid, ..path(&[Made::own("running", 5)]) };
    let side = |recording: usize, pids: &[i32]| {
        let mut side = Side::default();
        side.add(recording, pids.iter().map(|pid| of(*pid)));
        side
    };
    let units = Units::of(&side(0, &[1, 2, 1]), &side(0, &[3, 2]));
    assert_eq!(units.unit, Unit::Process);
    assert_eq!((units.normal, units.sample), (vec![vec![0, 2], vec![1]], vec![vec![1], vec![0]]));
    // Where the trace does not say, a thread stands for its process. Of two recordings they do not count.
    let units = Units::of(&side(0, &[0, 0]), &side(0, &[0]));
    assert_eq!((units.normal, units.sample), (vec![vec![0, 1]], vec![vec![0]]));
    let units = Units::of(&side(0, &[1, 2]), &side(1, &[3]));
    assert_eq!(
        (units.unit, units.normal, units.sample),
        (Unit::Recording, vec![vec![0, 1]], vec![vec![0]])
    );
}

//! The comparison of executions as a whole.

use noise_paths::document::Traced;

use super::*;
use crate::localised::Aligned;
use crate::made::{Made, Numbers, path, side};
use crate::rules::Thresholds;

/// What comes in one of so many executions, and about how long it lasts then, nanoseconds.
const RARE: [(&str, usize, u64); 3] =
    [("ipi", 10, 40_000), ("unknown", 25, 900_000), ("network", 50, 4_000_000)];

/// A normal execution of one of three kinds: steps of running, and of what is the kind's own.
fn parts(kind: usize, numbers: &mut Numbers) -> Vec<Made> {
    let mut parts = Vec::new();
    for _ in 0..8 {
        parts.push(Made::own("running", numbers.about(1_000_000)));
        // Now and then it is preempted.
        if numbers.below(4) == 0 {
            parts.push(Made::own("waiting_cpu", numbers.about(50_000)));
            parts.push(Made::own("running", numbers.about(100_000)));
        }
        match kind {
            0 => parts.push(Made::own("timer", numbers.about(300_000))),
            1 => parts.extend([
                Made::own("disk", numbers.about(200_000)),
                Made::own("running", 5_000),
                Made::own("disk", numbers.about(200_000)),
            ]),
            _ => parts.push(Made::of("running", numbers.about(400_000), 8)),
        }
    }
    parts.push(Made::own("running", numbers.about(500_000)));
    // What comes seldom, and then may last.
    for (state, seldom, ns) in RARE {
        if numbers.below(seldom) == 0 {
            let at = numbers.below(parts.len());
            parts.splice(
                at..at,
                [Made::own(state, numbers.about(ns)), Made::own("running", 50_000)],
            );
        }
    }
    parts
}

/// One recording a side.
fn compared(
    normal: &[Traced],
    sample: &[Traced],
    how: &Settings,
) -> Result<Comparison, CompareError> {
    let mut of_sample = Side::default();
    of_sample.add(1, sample.iter().cloned());
    compare(&side(normal), &of_sample, how, &mut |_| ())
}

fn normal(count: usize, numbers: &mut Numbers) -> Vec<Traced> {
    (0..count).map(|number| path(&parts(number % 3, numbers))).collect()
}

#[test]
fn a_planted_state_is_found_and_its_place_is_the_first() {
    for (seed, state, ns) in
        [(1, "futex", 6_000_000), (2, "disk", 8_000_000), (3, "running", 9_000_000)]
    {
        let mut numbers = Numbers::new(seed);
        let normal = normal(100, &mut numbers);
        let mut planted = Vec::new();
        let sample: Vec<Traced> = (0..10)
            .map(|number| {
                let mut parts = parts(number % 3, &mut numbers);
                let at = 1 + numbers.below(parts.len() - 2);
                parts.splice(at..at, [Made::own(state, numbers.about(ns)).behind("culprit")]);
                let traced = path(&parts);
                planted.push(traced.path[at].from_ns..traced.path[at].to_ns);
                traced
            })
            .collect();
        let found = compared(&normal, &sample, &Settings::default()).unwrap();
        assert!(found.effects.iter().all(|flag| flag.times.state == state), "{:?}", found.effects);
        assert!(!found.effects.is_empty() && found.went_on);
        let mut first = 0;
        for (number, planted) in planted.iter().enumerate() {
            let worst = found.anomalies.iter().find(|anomaly| anomaly.execution == number).unwrap();
            assert_eq!(worst.state, state);
            let place = &worst.places[0];
            let is_there = place.from_ns < planted.end && planted.start < place.to_ns;
            first += usize::from(is_there && place.culprits.iter().any(|it| it.comm == "culprit"));
            let localised = found.localised.iter().find(|it| it.execution == number).unwrap();
            assert!(localised.beside.contains(&place.normal_execution));
        }
        assert!(first >= 9, "{state}: {first} of 10");
        assert_eq!(found.not_localised, 0);
    }
}

#[test]
fn kinds_are_found_and_paired() {
    let mut numbers = Numbers::new(7);
    let (normal, sample) = (normal(99, &mut numbers), normal(12, &mut numbers));
    let settings = Settings { force: true, ..Settings::default() };
    let found = compared(&normal, &sample, &settings).unwrap();
    assert_eq!(found.effects, []);
    // Each cluster is of one kind, and so is each pair.
    let kinds = &found.clusters.kinds.normal;
    let mut pure = 0;
    for kind in 0..=*kinds.iter().max().unwrap() {
        let members = (0..99).filter(|place| kinds[*place] == kind);
        let mut counts = [0; 3];
        members.for_each(|place| counts[place % 3] += 1);
        pure += counts.into_iter().max().unwrap();
    }
    assert!(pure >= 95, "{pure} of 99");
    for (place, kind) in found.paired.iter().enumerate() {
        let peer = kinds.iter().position(|of| Some(*of) == *kind).unwrap();
        assert_eq!(peer % 3, place % 3);
    }
}

/// How often two normal sets are compared.
const COMPARISONS: u64 = 200;

#[test]
fn normal_against_normal_flags_nothing() {
    let flagged = |sizes: [usize; 2], thresholds: Thresholds| {
        let is_flagged = |seed: &u64| {
            let mut numbers = Numbers::new(*seed);
            let [normal, sample] = sizes.map(|size| normal(size, &mut numbers));
            !judge(&side(&normal), &side(&sample), &thresholds).effects.is_empty()
        };
        (0..COMPARISONS).filter(is_flagged).count()
    };
    let bare = Thresholds { chance: 1.0, least: 0.0, ..Thresholds::default() };
    for sizes in [[100, 10], [30, 10], [100, 50], [20, 5], [400, 20]] {
        let (alone, guarded) = (flagged(sizes, bare), flagged(sizes, Thresholds::default()));
        println!(
            "{sizes:?}: {alone} by the rules alone, {guarded} with the guard, of {COMPARISONS}"
        );
        assert!(guarded as u64 <= COMPARISONS / 50, "{sizes:?}: {guarded}");
        assert!(alone > guarded, "{sizes:?}: {alone}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let one = vec![path(&[Made::own("running", 5)])];
    let said = |normal: &[Traced], sample: &[Traced]| {
        compared(normal, sample, &Settings::default()).unwrap_err().to_string()
    };
    assert!(said(&[], &one).starts_with("there is no normal execution"));
    assert!(said(&one, &[]).starts_with("there is no sample execution"));
    let many = vec![one[0].clone(); MAX_EXECUTIONS + 1];
    assert!(said(&many, &one).contains("10001 normal executions are more than the 10000"));
}

#[test]
fn one_execution_and_equal_ones_are_compared() {
    let one = vec![path(&[Made::own("running", 5)])];
    let found = compared(&one, &one, &Settings::default()).unwrap();
    assert!(!found.went_on && found.is_too_few);
    let forced = Settings { force: true, ..Settings::default() };
    let found = compared(&one, &one, &forced).unwrap();
    assert_eq!((found.anomalies.len(), found.clusters.notes.len()), (0, 2));
    assert_eq!(found.pairs, [(0, Some(0), None)]);
    let slow = vec![path(&[Made::own("running", 9)])];
    let found = compared(&one, &slow, &Settings::default()).unwrap();
    assert_eq!(found.anomalies.len(), 1);
    assert!((found.anomalies[0].places[0].lost_ns - 4.0).abs() < 1e-9);
    // Nothing that both have.
    let other = vec![path(&[Made::own("disk", 9)]); 6];
    let found = compared(&vec![one[0].clone(); 6], &other, &Settings::default()).unwrap();
    assert!(found.effects.iter().all(|flag| flag.times.state == "disk"));
    assert_eq!(found.anomalies.len(), 6);
    assert_eq!(found.anomalies[0].places[0].normal_with, 0);
}

#[test]
fn a_path_that_is_too_long_to_align_is_said_to_be() {
    let long: Vec<Made> = (0..1_000_000)
        .map(|number| Made::own(if number % 2 == 0 { "running" } else { "disk" }, 10))
        .collect();
    let short = vec![path(&[Made::own("running", 50), Made::own("disk", 50)]); 5];
    let found = compared(&short, &[path(&long)], &Settings::default()).unwrap();
    assert_eq!(found.anomalies.len(), 2);
    assert!(found.anomalies.iter().all(|anomaly| anomaly.places.is_empty()));
    let failed = found.localised[0].failed.as_ref().unwrap();
    assert!(
        failed.starts_with(
            "its path cannot be put beside normal ones: sequence 1 has 1000000 symbols"
        )
    );
}

#[test]
fn the_document_has_the_names_of_the_contract() {
    let normal = vec![path(&[Made::own("running", 100), Made::own("disk", 10)]); 8];
    let slow = [Made::own("running", 100), Made::own("disk", 90).behind("backup")];
    let slow = vec![path(&slow); 8];
    let settings = Settings { keeps_alignments: true, ..Settings::default() };
    let found = compared(&normal, &slow, &settings).unwrap();
    let text = serde_json::to_string(&found).unwrap();
    for name in ["least", "least_cluster"] {
        assert_eq!(text.matches(&format!("\"{name}\":")).count(), 1, "{name}");
    }
    let json = serde_json::to_value(&found).unwrap();
    let flag = &json["effects"][0];
    assert_eq!((flag["state"].as_str(), flag["rule"].as_str()), (Some("disk"), Some("mean")));
    assert!(flag["normal_mean_ns"].is_f64() && flag["sample_mean_ns"].is_f64());
    assert_eq!(json["clusters"]["normal"].as_array().unwrap().len(), 8);
    assert_eq!(json["clusters"]["reachability"]["sample"].as_array().unwrap().len(), 8);
    assert_eq!(json["pairs"][0], serde_json::json!([0, 0, null]));
    let anomaly = &json["anomalies"][0];
    assert_eq!(anomaly["duration_ns"], 90);
    let place = &anomaly["places"][0];
    for name in ["from_ns", "to_ns", "state", "probability", "mean_ns", "lost_ns", "culprits"] {
        assert!(!place[name].is_null(), "{name}");
    }
    assert_eq!(place["culprits"][0]["comm"], "backup");
    let fasta = fasta(&found);
    assert!(fasta.starts_with(">sample-0 A running, B others:running, C waiting_cpu,"), "{fasta}");
    assert!(fasta.contains("\n>normal-0\nAE\n"), "{fasta}");
    let without = compared(&normal, &slow, &Settings::default()).unwrap();
    assert_eq!(without.localised[0].alignment, Aligned::default());
    assert_eq!(without.anomalies, found.anomalies);
}

//! The last 15 minutes: what they hold, for how long, in how much memory.

use noise_common::charge::{Cause, Charged};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::{Histogram, Interference, Sample, Series};

const SECOND_NS: u64 = 1_000_000_000;

fn charge(victim: &str, culprit: &str, cause: Cause, ns: u64) -> Interference {
    Interference {
        resource: Resource::Cpu,
        cause,
        place: "".into(),
        victim: victim.into(),
        culprit: culprit.into(),
        charged: Charged { ns, count: 1 },
    }
}

/// A sample with totals.
fn sample(at_ns: u64, charges: &[Interference], waits_ns: &[u64]) -> Sample {
    let series = Series {
        signal: Signal::RunqueueWait,
        labels: ["wakeup".to_owned()].into(),
        totals: Histogram::of(waits_ns),
        recent_max_ns: 0,
    };
    Sample { at_ns, series: vec![series], interference: charges.to_vec(), ..Sample::default() }
}

/// `/web` is held up by `/hog` for so many ms in each second.
fn held_up(ms: &[u64]) -> Trends {
    let mut trends = Trends::default();
    let mut before = sample(SECOND_NS, &[charge("/web", "/hog", Cause::Foreign, 0)], &[]);
    let mut sum_ns = 0;
    for (second, ms) in (2..).zip(ms) {
        sum_ns += ms * 1_000_000;
        let charges = [
            charge("/web", "/hog", Cause::Foreign, sum_ns),
            charge("/web", "/web", Cause::Own, sum_ns * 3),
        ];
        let now = sample(second * SECOND_NS, &charges, &vec![1 << 20; second as usize]);
        trends.push(&Step::between(&before, &now));
        before = now;
    }
    trends
}

fn close(curve: &[f64], expected: &[f64]) {
    let is_close = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-9;
    assert!(
        curve.len() == expected.len() && curve.iter().zip(expected).all(is_close),
        "{curve:?} {expected:?}"
    );
}

#[test]
fn figures_are_those_of_the_steps() {
    let trends = held_up(&[100, 0, 250]);
    close(&trends.victim("/web"), &[0.1, 0.0, 0.25]);
    assert_eq!(trends.victim("/other"), [0.0; 3]);
    assert_eq!(trends.seconds(), 3.0);
    let waits = trends.signal(Signal::RunqueueWait);
    assert_eq!(waits.len(), 3);
    assert!(waits[1..].iter().all(|lost| (lost - 0.001_049).abs() < 1e-6), "{waits:?}");
    let point = trends.points.back().unwrap();
    assert_eq!(point.signals[0].count, 1);
    let victim = trends.names.id("/web").unwrap();
    assert_eq!(*point.victims, [VictimPoint { victim, held_up_us: 250_000 }]);
}

#[test]
fn thousands_that_wait_are_no_less() {
    let trends = held_up(&[5_000_000]);
    close(&trends.victim("/web"), &[5_000.0]);
    // Earlier versions read 32 bits.
    let read: Trends = serde_json::from_str(&serde_json::to_string(&trends).unwrap()).unwrap();
    close(&read.victim("/web"), &[4_294.967_295]);
}

#[test]
fn steps_are_put_together_to_seconds() {
    let mut trends = Trends::default();
    for tenth in 10..100 {
        let step = |at: u64| {
            sample(at * SECOND_NS / 10, &[charge("/a", "/b", Cause::Foreign, at * 1_000_000)], &[])
        };
        trends.push(&Step::between(&step(tenth), &step(tenth + 1)));
    }
    close(&trends.victim("/a"), &[0.01; 9]);
    // What is longer is a point of its own.
    let far = |at: u64| sample(at * SECOND_NS, &[charge("/a", "/b", Cause::Foreign, at)], &[]);
    trends.push(&Step::between(&far(10), &far(70)));
    assert_eq!((trends.points.len(), trends.seconds()), (10, 69.0));
    // Another host's clock.
    trends.push(&Step::between(&far(3), &far(5)));
    assert_eq!((trends.points.len(), trends.seconds()), (1, 2.0));
    trends.push(&Step::between(&Sample::default(), &far(9)));
    assert_eq!(trends.points.len(), 1);
}

#[test]
fn fifteen_minutes_are_kept() {
    let trends = held_up(&vec![1; 1_000]);
    assert_eq!((trends.points.len(), trends.seconds()), (900, 900.0));
    assert_eq!(trends.victim("/web").len(), 180);
    assert!(trends.bytes() < 400_000, "{}", trends.bytes());
}

#[test]
fn memory_is_bounded_whatever_the_names() {
    let mut trends = Trends::default();
    for second in 1..700_u64 {
        let charges: Vec<Interference> = (0..100)
            .map(|one| {
                let name = format!("/{second}-{one}-{}", "x".repeat(400));
                charge(&name, &format!("{name}-culprit"), Cause::Foreign, 1_000_000)
            })
            .collect();
        let (before, now) =
            (Sample { at_ns: second * SECOND_NS, ..Sample::default() }, (second + 1) * SECOND_NS);
        trends.push(&Step::between(&before, &sample(now, &charges, &[])));
        assert!(trends.bytes() <= MOST_TREND_BYTES, "{}", trends.bytes());
    }
    assert!(trends.points.len() > 30 && trends.points.len() < 600, "{}", trends.points.len());
    let names = trends.names.all().count();
    assert_eq!(names, trends.points.iter().map(|point| point.victims.len()).sum::<usize>());
}

#[test]
fn what_is_written_is_read() {
    let trends = held_up(&[100, 0, 250, 3]);
    let text = serde_json::to_string(&trends).unwrap();
    let read: Trends = serde_json::from_str(&text).unwrap();
    assert_eq!(read, trends);
    for (from, to, why) in [
        ("[0,\"/web\"]", "[7,\"/web\"]", "lack a name"),
        ("\"end_ns\":3000000000", "\"end_ns\":1", "not in order"),
    ] {
        let changed = text.replacen(from, to, 1);
        let read = serde_json::from_str::<Trends>(&changed).map_err(|error| error.to_string());
        assert!(read.as_ref().is_err_and(|error| error.contains(why)), "{read:?} {changed}");
    }
}

proptest! {
    #[test]
    fn curves_hold_what_came(steps in proptest::collection::vec((1_u64..5_000, 0_u64..2_000_000), 1..300)) {
        let mut trends = Trends::default();
        let (mut at_ns, mut sum_ns, mut known_ns, mut pending_ns) = (SECOND_NS, 0, 0, 0);
        let of = |at_ns: u64, ns: u64| sample(at_ns, &[charge("/a", "/b", Cause::Foreign, ns)], &[]);
        for (ms, us) in steps {
            let before = of(at_ns, sum_ns);
            at_ns += ms * 1_000_000;
            sum_ns += us * 1_000;
            pending_ns += us * 1_000;
            let points = trends.points.len();
            trends.push(&Step::between(&before, &of(at_ns, sum_ns)));
            if trends.points.len() > points {
                known_ns += pending_ns;
                pending_ns = 0;
            }
        }
        let curve = trends.victim("/a");
        prop_assert!(curve.len() <= CURVE);
        let victims = trends.points.iter().flat_map(|point| &point.victims);
        let whole: u64 = victims.map(|one| one.held_up_us).sum();
        prop_assert_eq!(whole * 1_000, known_ns);
        prop_assert!(curve.iter().all(|value| value.is_finite() && *value >= 0.0));
    }

    #[test]
    fn names_are_as_many_as_are_used(uses in proptest::collection::vec((any::<bool>(), 0_u8..6), 0..200)) {
        let mut names = TrendNames::default();
        let mut held: Vec<Id> = Vec::new();
        for (take, which) in uses {
            if take {
                held.extend(names.take(&Arc::from(which.to_string())));
            } else if let Some(id) = held.pop() {
                names.release(id);
            }
            let known: std::collections::BTreeSet<Id> = held.iter().copied().collect();
            prop_assert_eq!(names.all().map(|(id, _)| id).collect::<std::collections::BTreeSet<_>>(), known);
        }
        held.into_iter().for_each(|id| names.release(id));
        prop_assert_eq!((names.all().count(), names.bytes() % NAME_BYTES), (0, 0));
    }
}

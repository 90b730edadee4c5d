//! Steps between samples that were made for it, and what must hold of any.

use std::collections::BTreeMap;

use noise_common::charge::Cause;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::amount::Amount;

fn series(name: &str, totals: Histogram, recent_max_ns: u64) -> Series {
    let labels = [name.to_owned()].into();
    Series { signal: Signal::CgroupRunqueueWait, labels, totals, recent_max_ns }
}

fn charge(culprit: &str, ns: u64, count: u64) -> Interference {
    Interference {
        resource: Resource::Cpu,
        cause: Cause::Foreign,
        place: "".into(),
        victim: "/a".into(),
        culprit: culprit.into(),
        charged: Charged { ns, count },
    }
}

fn of_series(series: Vec<Series>) -> Sample {
    Sample { series, ..Sample::default() }
}

/// Name, whether it began, values, longest.
fn came(step: &Step) -> Vec<(&str, bool, Histogram)> {
    step.delays().map(|one| (&*one.labels[0], one.began, one.histogram.owned())).collect()
}

#[test]
fn series_come_grow_begin_anew_and_go() {
    let before = of_series(vec![
        series("anew", Histogram::of(&[300]), 300),
        series("goes", Histogram::of(&[300]), 300),
        series("grows", Histogram::of(&[300]), 300),
        series("stays", Histogram::of(&[300]), 300),
    ]);
    let now = of_series(vec![
        series("anew", Histogram::of(&[9_000, 9_000]), 9_000),
        series("comes", Histogram::of(&[700]), 700),
        series("grows", Histogram::of(&[300, 5_000]), 5_000),
        series("stays", Histogram::of(&[300]), 20_000),
    ]);
    let step = Step::between(&before, &now);
    let of = |values: &[u64]| {
        let max_ns = values.iter().copied().max().unwrap();
        Histogram::of(values).with_longest(max_ns)
    };
    // The first has more delays than before, yet other ones.
    let expected = [
        ("anew", true, of(&[9_000, 9_000])),
        ("comes", true, of(&[700])),
        ("grows", false, of(&[5_000])),
    ];
    assert_eq!(came(&step), expected);
    let gone: Vec<_> = step.gone_series.iter().map(|(_, labels)| &*labels[0]).collect();
    assert_eq!(gone, ["goes"]);
    let signal = Signal::CgroupRunqueueWait;
    // A window that was read before may still be open.
    assert_eq!((step.lost_ns(signal), step.longest_ns(signal)), (23_700, 20_000));
}

#[test]
fn charges_begin_anew_and_go() {
    let of = |interference| Sample { interference, ..Sample::default() };
    let before = of(vec![charge("/b", 1000, 5), charge("/c", 10, 1), charge("/d", 10, 1)]);
    let now = of(vec![charge("/b", 40, 6), charge("/d", 10, 2), charge("/new", 60, 1)]);
    let step = Step::between(&before, &now);
    assert_eq!(step.charges, [charge("/b", 40, 6), charge("/d", 0, 1), charge("/new", 60, 1)]);
    assert_eq!(step.gone_charges, [charge("/c", 10, 1)]);
    assert!(step.charges_of(Resource::Running).is_empty());
}

#[test]
fn charges_and_counts_are_found_by_kind() {
    let resources = [Resource::Cpu, Resource::Running, Resource::BlockQueue];
    let signals = [Signal::TcpRetransmit, Signal::PacketDrop];
    let count = |signal, label: &str, total| Count { signal, labels: [label.into()].into(), total };
    let now = Sample {
        interference: resources
            .iter()
            .flat_map(|resource| {
                ["/b", "/c"].map(|of| Interference { resource: *resource, ..charge(of, 7, 1) })
            })
            .collect(),
        counts: signals.map(|signal| count(signal, "a", 1 + signal as u64)).into(),
        ..Sample::default()
    };
    let step = Step::between(&Sample::default(), &now);
    for resource in resources {
        let own = step.charges_of(resource);
        assert!(own.iter().all(|one| one.resource == resource));
        assert!(own.iter().map(|one| &*one.culprit).eq(["/b", "/c"]));
    }
    assert!(step.charges_of(Resource::NetTx).is_empty());
    for signal in signals {
        assert!(step.counts_of(signal).map(|(_, count)| count).eq([1 + signal as u64]));
    }
}

#[test]
fn what_comes_in_a_second_is_known_of_any_length() {
    let at = |at_ns| Sample { at_ns, ..Sample::default() };
    let step = Step::between(&at(1_000_000_000), &at(5_000_000_000));
    assert_eq!((step.seconds(), step.per_second(10.0)), (4.0, 2.5));
}

#[test]
fn what_was_not_counted_at_all_is_lost() {
    let of = |counts: [u64; 3]| Sample {
        drops: [Loss::MapFull, Loss::RateLimited, Loss::ClockBackwards]
            .into_iter()
            .zip(counts)
            .map(|(loss, count)| (Signal::RunqueueWait, loss, count))
            .collect(),
        ..Sample::default()
    };
    assert_eq!(Step::between(&of([1, 1, 1]), &of([5, 90, 7])).dropped, 10);
    // A daemon that was restarted counts from nothing.
    assert_eq!(Step::between(&of([5, 1, 1]), &of([0, 2, 1])).dropped, 1);
}

#[test]
fn each_that_takes_time_from_a_cpu_is_told_apart() {
    let sources = ["hardirq", "softirq", "nmi", "vector", "of_a_newer_daemon"];
    let takers = [Taker::Hardirq, Taker::Softirq, Taker::Nmi, Taker::Vector, Taker::Other];
    let interrupted = sources.iter().zip(1..).map(|(source, ns)| (3, (*source).into(), ns));
    let now = Sample {
        interrupted: interrupted.collect(),
        waited: vec![(3, 100)],
        stolen: vec![(3, 1_010)],
        ..Sample::default()
    };
    let before = Sample { stolen: vec![(3, 1_000)], ..Sample::default() };
    let step = Step::between(&before, &now);
    let [mut cpu] = step.cpus[..] else { panic!("{:?}", step.cpus) };
    for (taker, ns) in takers.into_iter().zip(1..) {
        assert_eq!(cpu.taken_by(taker), ns, "{taker:?}");
    }
    assert_eq!((cpu.taken_by(Taker::Steal), cpu.all_taken_ns(), cpu.waited_ns), (10, 25, 100));
    assert_eq!(step.stolen_ns(), 10);
    cpu.add(&cpu.clone());
    assert_eq!((cpu.taken_by(Taker::Nmi), cpu.all_taken_ns(), cpu.waited_ns), (6, 50, 200));
}

#[test]
fn names_are_those_of_the_step_before() {
    let sample = |ns| of_series(vec![series("a", Histogram::of(&[ns]), ns)]);
    let mut names = SeriesNames::default();
    let steps = [(1, 2), (2, 3)].map(|(before, now)| {
        let known = names.next(&sample(before));
        names = known.next(&sample(now));
        Step::named((&sample(before), &known), (&sample(now), &names))
    });
    let [first, second] = steps.each_ref().map(|step| step.delays().next().unwrap().labels);
    assert!(std::sync::Arc::ptr_eq(first, second));
    assert_eq!(steps[0], Step::between(&sample(1), &sample(2)));
}

/// What a sample gained: a subject, a length, how often.
type Gain = (u8, u64, u64);

fn gains() -> impl Strategy<Value = Vec<Gain>> {
    proptest::collection::vec((0..6u8, 0..1_000_000_000u64, 1..5u64), 0..12)
}

/// A sample with all of these.
fn sample(at_ns: u64, gains: &[&[Gain]]) -> Sample {
    let mut totals: BTreeMap<u8, (Histogram, Charged)> = BTreeMap::new();
    for (subject, ns, count) in gains.iter().copied().flatten() {
        let (delays, charged) = totals.entry(*subject).or_default();
        delays.record(*ns, *count);
        charged.add(&Charged { ns: *ns, count: *count });
    }
    let mut sample = Sample { at_ns, ..Sample::default() };
    for (subject, (delays, charged)) in totals {
        let name = format!("/{subject}");
        let cpu = u32::from(subject);
        sample.counts.push(Count {
            signal: Signal::TcpRetransmit,
            labels: [name.clone()].into(),
            total: charged.count,
        });
        sample.interrupted.push((cpu, "hardirq".into(), charged.ns));
        sample.waited.push((cpu, delays.sum_ns));
        sample.interference.push(Interference { charged, ..charge(&name, 0, 0) });
        sample.series.push(series(&name, delays, 0));
    }
    sample
}

/// The sums of steps.
fn together(steps: &[Step]) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut delays: BTreeMap<String, Histogram> = BTreeMap::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut charges: BTreeMap<String, Charged> = BTreeMap::new();
    let mut cpus: BTreeMap<u32, Cpu> = BTreeMap::new();
    for step in steps {
        step.delays().for_each(|one| {
            delays.entry(one.labels.join(" ")).or_default().add(&one.histogram);
        });
        for ((_, labels), count) in &step.counters {
            *counts.entry(labels.join(" ")).or_default() += *count;
        }
        for one in &step.charges {
            charges.entry(one.culprit.to_string()).or_default().add(&one.charged);
        }
        for cpu in &step.cpus {
            cpus.entry(cpu.cpu).or_insert(Cpu { cpu: cpu.cpu, ..Cpu::default() }).add(cpu);
        }
    }
    (
        delays,
        counts,
        charges,
        cpus,
        steps.iter().map(|step| step.end_ns - step.start_ns).sum::<u64>(),
    )
}

fn is_empty(step: &Step) -> bool {
    let nothing = Step { by_signal: step.by_signal, ..Step::default() };
    *step == Step { start_ns: step.start_ns, end_ns: step.end_ns, ..nothing }
        && SIGNALS.iter().all(|info| step.lost_ns(info.signal) == 0)
}

proptest! {
    #[test]
    fn two_steps_are_the_step_over_both(a in gains(), b in gains(), c in gains()) {
        let [first, then, last] =
            [sample(1, &[&a]), sample(4, &[&a, &b]), sample(9, &[&a, &b, &c])];
        let both = [Step::between(&first, &then), Step::between(&then, &last)];
        prop_assert_eq!(together(&both), together(&[Step::between(&first, &last)]));
    }

    #[test]
    fn what_came_is_never_more_than_there_is(a in gains(), b in gains()) {
        // Not one the continuation of the other: all of it came, or what is beyond the earlier.
        let (before, now) = (sample(1, &[&a]), sample(2, &[&b]));
        let step = Step::between(&before, &now);
        for one in step.delays() {
            let has = now.series.iter().find(|own| own.labels[..] == one.labels[..]).unwrap();
            let had = before.series.iter().find(|own| own.labels[..] == one.labels[..]);
            prop_assert!(has.totals.reaches(&one.histogram));
            prop_assert_eq!(one.began, had.is_none_or(|had| !has.totals.reaches(&had.totals)));
            if one.began {
                prop_assert_eq!(&one.histogram.owned(), &has.totals);
            }
        }
        for one in &step.charges {
            let has = now.interference.iter().find(|own| own.culprit == one.culprit).unwrap();
            prop_assert!(has.charged.reaches(&one.charged));
        }
        prop_assert_eq!(
            before.series.len() - step.gone_series.len(),
            before.series.iter().filter(|one| now.series.iter().any(|own| own.labels == one.labels)).count()
        );
    }

    #[test]
    fn a_sample_against_itself_is_nothing(a in gains(), at_ns in any::<u64>()) {
        let sample = sample(at_ns, &[&a]);
        let step = Step::between(&sample, &sample);
        prop_assert!(is_empty(&step), "{:?}", step);
        prop_assert_eq!((step.seconds(), step.per_second(1.0)), (0.0, 0.0));
    }

    #[test]
    fn steps_do_not_depend_on_names_that_are_known(a in gains(), b in gains(), reverse in any::<bool>()) {
        let (before, mut now) = (sample(1, &[&a]), sample(2, &[&b]));
        if reverse {
            now.series.reverse();
            now.counts.reverse();
        }
        let known = SeriesNames::default().next(&before);
        let names = known.next(&now);
        let step = Step::named((&before, &known), (&now, &names));
        prop_assert_eq!(step, Step::between(&before, &now));
    }

    #[test]
    fn the_order_of_a_sample_does_not_matter(a in gains(), b in gains()) {
        let (before, now) = (sample(1, &[&a]), sample(2, &[&a, &b]));
        let mut reversed = now.clone();
        reversed.series.reverse();
        reversed.counts.reverse();
        reversed.interference.reverse();
        reversed.interrupted.reverse();
        reversed.waited.reverse();
        prop_assert_eq!(Step::between(&before, &reversed), Step::between(&before, &now));
    }
}

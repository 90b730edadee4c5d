//! Steps between frames that were made for it.

use super::*;
use crate::top::generated::{Made, history, totals};

const SECOND_NS: u64 = 1_000_000_000;

fn labels(labels: &[&str]) -> Labels {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

/// What came between two frames.
fn between(before: Made, now: Made) -> Span {
    history([before, now]).steps().next().unwrap().span.clone()
}

#[test]
fn a_step_is_the_difference_of_two_frames() {
    let before = Made::new(10)
        .delays(Signal::Hardirq, &["1", "a"], &[1_000, 2_000])
        .delays(Signal::Hardirq, &["2", "b"], &[500])
        .count(Signal::PacketDrop, &["no_socket"], 7)
        .count(Signal::PacketDrop, &["other"], 7)
        .interrupted(0, "hardirq", 100)
        .interrupted(1, "hardirq", 100)
        .waited(0, 10)
        .stolen(1, 1_000)
        .page_faults("minor", 50)
        .deed("/a", Cause::Hardirq, "a", 30)
        .deed("/b", Cause::Hardirq, "a", 30);
    let mut now = Made::new(12)
        .delays(Signal::Hardirq, &["1", "a"], &[1_000, 2_000, 9_000])
        .delays(Signal::Hardirq, &["2", "b"], &[500])
        .delays(Signal::Hardirq, &["3", "c"], &[700])
        .count(Signal::PacketDrop, &["no_socket"], 9)
        .count(Signal::PacketDrop, &["other"], 7)
        .interrupted(0, "hardirq", 150)
        .interrupted(1, "hardirq", 100)
        .waited(0, 10)
        .waited(3, 4)
        .stolen(1, 1_250)
        .page_faults("minor", 60)
        .deed("/a", Cause::Hardirq, "a", 45)
        .deed("/b", Cause::Hardirq, "a", 30);
    now.sample.interference[0].charged.count = 3;
    now.sample.drops.push((Signal::Nmi, noise_common::event::DROPS[0], 5));
    let span = between(before, now);
    assert_eq!(span.seconds, 2.0);
    let delays = |values: &[u64], max_ns| Delta::of(&totals(values), max_ns);
    let expected = [
        ((Signal::Hardirq, labels(&["1", "a"])), delays(&[9_000], 9_000)),
        ((Signal::Hardirq, labels(&["3", "c"])), delays(&[700], 700)),
    ];
    assert_eq!(span.delays, BTreeMap::from(expected));
    let dropped = (Signal::PacketDrop, labels(&["no_socket"]));
    assert_eq!(span.counts, BTreeMap::from([(dropped, 2)]));
    assert_eq!(span.interrupted, BTreeMap::from([((0, "hardirq".into()), 50)]));
    assert_eq!(span.waited, BTreeMap::from([(3, 4)]));
    assert_eq!(span.stolen, BTreeMap::from([(1, 250)]));
    assert_eq!(span.page_faults, BTreeMap::from([("minor".into(), 10)]));
    let deeds: Vec<_> = span.deeds.iter().map(|(deed, sum)| (&*deed.victim, *sum)).collect();
    assert_eq!(deeds, [("/a", Charged { ns: 15, count: 2 })]);
    assert_eq!(span.dropped, 5);
    let sum = Delays { totals: totals(&[9_000, 700]), max_ns: 9_000 };
    assert_eq!(span.of(Signal::Hardirq), sum);
    assert_eq!(span.of(Signal::Nmi), Delays::default());
}

#[test]
fn counters_that_fell_begin_anew() {
    let fell = fresh([("a", 5), ("b", 5), ("c", 5)], [("a", 7), ("b", 3), ("d", 2)]);
    assert_eq!(fell, BTreeMap::from([("a", 2), ("b", 3), ("d", 2)]));
    let before = Made::new(1)
        .delays(Signal::Nmi, &[], &[1_000, 2_000, 3_000])
        .deed("/a", Cause::Nmi, "nmi", 30)
        .interrupted(0, "nmi", 100);
    let now = Made::new(2)
        .delays(Signal::Nmi, &[], &[4_000])
        .deed("/a", Cause::Nmi, "nmi", 20)
        .interrupted(0, "nmi", 40);
    let span = between(before, now);
    assert_eq!(span.of(Signal::Nmi).totals, totals(&[4_000]));
    assert_eq!(span.deeds.values().next(), Some(&Charged { ns: 20, count: 1 }));
    assert_eq!(span.interrupted.values().next(), Some(&40));
}

#[test]
fn what_counts_since_boot_says_nothing_at_first() {
    let before = [(0, 100), (1, 100), (2, 100)];
    let now = [(0, 130), (1, 90), (2, 100), (3, 1 << 40)];
    assert_eq!(grown(&before, &now), BTreeMap::from([(0, 30)]));
}

#[test]
fn a_cpu_that_goes_offline_and_comes_back() {
    let steal = |seconds, ns: Option<u64>| {
        let made = Made::new(seconds).stolen(0, seconds * 10);
        match ns {
            Some(ns) => made.stolen(1, ns),
            None => made,
        }
    };
    let history =
        history([steal(1, Some(500)), steal(2, None), steal(3, Some(520)), steal(4, Some(521))]);
    let of_one = |span: &Span| span.stolen.get(&1).copied().unwrap_or_default() as f64;
    assert_eq!(history.over_time(of_one), [0.0, 0.0, 1.0]);
}

#[test]
fn sums_go_back_to_a_time_but_have_the_newest_step() {
    let drops =
        |seconds: u64| Made::new(seconds).count(Signal::PacketDrop, &["x"], seconds * seconds);
    let history = history([drops(1), drops(2), drops(3), drops(6)]);
    let sum = |span: Span| (span.seconds, span.counts.values().sum::<u64>());
    assert_eq!(sum(history.since(0)), (5.0, 35));
    assert_eq!(sum(history.since(2 * SECOND_NS)), (4.0, 32));
    assert_eq!(sum(history.since(2 * SECOND_NS - 1)), (5.0, 35));
    assert_eq!(sum(history.since(6 * SECOND_NS)), (3.0, 27));
    assert_eq!(sum(history.since(u64::MAX)), (3.0, 27));
    assert_eq!(sum(history.last(0.0)), (3.0, 27));
    assert_eq!(sum(history.last(3.5)), (4.0, 32));
    assert_eq!(sum(history.last(f64::NAN)), (3.0, 27));
    assert_eq!(sum(history.last(f64::INFINITY)), (5.0, 35));
    let rates = history.over_time(|span| span.per_second(span.counts.values().sum::<u64>() as f64));
    assert_eq!(rates, [3.0, 5.0, 9.0]);
    let times: Vec<_> = history.steps_since(2 * SECOND_NS).map(|step| step.at_ns).collect();
    assert_eq!(times, [6 * SECOND_NS, 3 * SECOND_NS]);
}

#[test]
fn nothing_comes_of_nothing() {
    let empty = History::default();
    assert_eq!(empty.since(0), Span::default());
    assert_eq!(empty.since(0).per_second(5.0), 0.0);
    assert!(empty.latest().is_none() && empty.over_time(|_| 1.0).is_empty());
    let one = history([Made::new(1).count(Signal::PacketDrop, &["x"], 5)]);
    assert_eq!((one.since(0), one.steps().count()), (Span::default(), 0));
    assert!(one.latest().is_some());
}

#[test]
fn it_holds_two_minutes() {
    let history = history((1..=300).map(Made::new));
    assert_eq!(history.steps().count(), 121);
    assert_eq!(history.steps().next().unwrap().at_ns, 180 * SECOND_NS);
}

#[test]
fn it_is_bounded_where_frames_come_fast() {
    let fast = (1..3_000).map(|tick| {
        let mut made = Made::new(0);
        made.sample.at_ns = tick * 1_000_000;
        made
    });
    let history = history(fast);
    assert_eq!(history.steps().count(), STEPS);
    assert_eq!(history.steps().next_back().unwrap().at_ns, 2_999_000_000);
}

#[test]
fn time_that_goes_back_and_other_hosts_begin_anew() {
    let mut history = history([Made::new(5), Made::new(6), Made::new(7)]);
    assert_eq!(history.steps().count(), 2);
    // The same again is no step.
    history.push(Made::new(7).frame());
    assert_eq!(history.steps().count(), 2);
    history.push(Made::new(3).frame());
    assert_eq!(history.steps().count(), 0);
    history.push(Made::new(4).frame());
    assert_eq!(history.steps().count(), 1);
    let mut other = Made::new(5);
    other.host.name = "elsewhere".to_owned();
    history.push(other.frame());
    assert_eq!(history.steps().count(), 0);
    assert_eq!(history.latest().unwrap().host.name, "elsewhere");
}

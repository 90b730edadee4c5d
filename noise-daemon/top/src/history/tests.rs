//! Steps between frames that were made for it.

use noise_common::charge::{Cause, Charged, Resource};
use noise_model::{Histogram, Taker};

use super::*;
use crate::generated::{Made, history};

const SECOND_NS: u64 = 1_000_000_000;

fn labels(labels: &[&str]) -> Labels {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

fn delays(step: &Step, signal: Signal) -> Vec<(Labels, Histogram)> {
    step.delays_of(signal).map(|(labels, delays)| (Arc::clone(labels), delays.owned())).collect()
}

/// What came between two frames.
fn between(before: Made, now: Made) -> Step {
    history([before, now]).steps().next().unwrap().clone()
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
        .charge("/a", Cause::Hardirq, "a", 30)
        .charge("/b", Cause::Hardirq, "a", 30);
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
        .charge("/a", Cause::Hardirq, "a", 45)
        .charge("/b", Cause::Hardirq, "a", 30);
    now.sample.interference[0].charged.count = 3;
    now.sample.drops.push((Signal::Nmi, noise_common::loss::LOSSES[0], 5));
    let step = between(before, now);
    assert_eq!(step.seconds(), 2.0);
    let one = |max_ns| Histogram::of(&[max_ns]).with_longest(max_ns);
    let expected = [(labels(&["1", "a"]), one(9_000)), (labels(&["3", "c"]), one(700))];
    assert_eq!(delays(&step, Signal::Hardirq), expected);
    assert_eq!((step.lost_ns(Signal::Hardirq), step.lost_ns(Signal::Nmi)), (9_700, 0));
    let drops: Vec<_> = step.counts_of(Signal::PacketDrop).collect();
    assert_eq!(drops, [(&labels(&["no_socket"]), 2)]);
    let cpus: Vec<_> =
        step.cpus.iter().map(|cpu| (cpu.cpu, cpu.all_taken_ns(), cpu.waited_ns)).collect();
    assert_eq!(cpus, [(0, 50, 0), (1, 250, 0), (3, 0, 4)]);
    assert_eq!((step.cpus[0].taken_by(Taker::Hardirq), step.stolen_ns()), (50, 250));
    assert_eq!(step.page_faults, [("minor".into(), 10)]);
    let charges: Vec<_> = step.charges.iter().map(|one| (&*one.victim, one.charged)).collect();
    assert_eq!(charges, [("/a", Charged { ns: 15, count: 2 })]);
    assert_eq!(step.charges_of(Resource::Running).len(), 1);
    assert!(step.charges_of(Resource::Cpu).is_empty());
    assert_eq!(step.dropped, 5);
    assert!(delays(&step, Signal::Nmi).is_empty());
}

#[test]
fn counters_that_fell_begin_anew() {
    let before = Made::new(1)
        .delays(Signal::Nmi, &[], &[1_000, 2_000, 3_000])
        .charge("/a", Cause::Nmi, "nmi", 30)
        .count(Signal::PacketDrop, &["x"], 5)
        .interrupted(0, "nmi", 100);
    let now = Made::new(2)
        .delays(Signal::Nmi, &[], &[4_000])
        .charge("/a", Cause::Nmi, "nmi", 20)
        .count(Signal::PacketDrop, &["x"], 3)
        .interrupted(0, "nmi", 40);
    let step = between(before, now);
    assert_eq!(delays(&step, Signal::Nmi)[0].1, Histogram::of(&[4_000]).with_longest(4_000));
    assert_eq!(step.charges[0].charged, Charged { ns: 20, count: 1 });
    assert_eq!(step.counts_of(Signal::PacketDrop).next().unwrap().1, 3);
    assert_eq!(step.cpus[0].taken_by(Taker::Nmi), 40);
}

#[test]
fn what_counts_since_boot_says_nothing_at_first() {
    let before = Made::new(1).stolen(0, 100).stolen(1, 100).stolen(2, 100);
    let now = Made::new(2).stolen(0, 130).stolen(1, 90).stolen(2, 100).stolen(3, 1 << 40);
    let step = between(before, now);
    assert_eq!((step.cpus.len(), step.stolen_ns()), (1, 30));
}

#[test]
fn frames_in_no_order_are_put_in_order() {
    let made = |seconds: u64, reversed: bool| {
        let mut made = Made::new(seconds)
            .interrupted(0, "nmi", seconds)
            .interrupted(1, "nmi", seconds * 2)
            .count(Signal::PacketDrop, &["x"], seconds)
            .count(Signal::PacketDrop, &["y"], seconds * 2)
            .charge("/a", Cause::Nmi, "nmi", seconds)
            .charge("/b", Cause::Nmi, "nmi", seconds * 2);
        if reversed {
            made.sample.interrupted.reverse();
            made.sample.counts.reverse();
            made.sample.interference.reverse();
        }
        made
    };
    let expected = between(made(1, false), made(2, false));
    for (one, other) in [(false, true), (true, false), (true, true)] {
        assert_eq!(between(made(1, one), made(2, other)), expected);
    }
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
    let of_one = |step: &Step| {
        let one = step.cpus.iter().find(|cpu| cpu.cpu == 1);
        one.map_or(0, |cpu| cpu.taken_by(Taker::Steal)) as f64
    };
    assert_eq!(history.over_time(of_one), [0.0, 0.0, 1.0]);
}

#[test]
fn the_first_frame_is_no_step() {
    let one = history([Made::new(1).count(Signal::PacketDrop, &["x"], 5)]);
    assert_eq!(one.steps().count(), 0);
    assert!(one.latest().is_some() && one.over_time(|_| 1.0).is_empty());
    assert_eq!(one.counters_of(Signal::PacketDrop).count(), 1);
}

#[test]
fn it_holds_two_minutes() {
    let history = history((1..=300).map(Made::new));
    assert_eq!(history.steps().count(), 121);
    assert_eq!(history.steps().next().unwrap().end_ns, 180 * SECOND_NS);
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
    assert_eq!(history.steps().next_back().unwrap().end_ns, 2_999_000_000);
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

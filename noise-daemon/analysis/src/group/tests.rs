//! What an incident keeps of its parts.

use noise_common::signals::Signal;
use noise_model::Histogram;

use super::super::culprits::{Culprit, Time};
use super::super::incident::Incident;
use super::super::level::Level;
use super::super::rules::Rule;
use super::*;
use noise_common::charge::Cause;

fn disturbance(subject: &str) -> Incident {
    let level = Level::new(&Histogram::default(), 0);
    Incident {
        signal: Signal::CgroupRunqueueWait.into(),
        subject: subject.into(),
        start_ns: 1,
        end_ns: 2,
        disturbed_ns: 1,
        ending: None,
        rule: Rule::Mean,
        before: level,
        delays: Histogram::default(),
        after: level,
        lost_seconds: 0.0,
        culprits: Vec::new(),
        others: Time::default(),
        untracked: Time::default(),
        beyond_seconds: 0.0,
        remedies: Vec::new(),
    }
}

#[test]
fn parts_that_are_over_and_not_listed_are_counted_and_forgotten() {
    let clock = Clock { at_ns: 1 << 40, now: jiff::Timestamp::default() };
    let mut group = GroupedIncident::new(1, Member::new(disturbance("/0"), clock));
    for number in 1..50 {
        let own = || disturbance(&format!("/{number}"));
        let mut member = Member::new(own(), clock);
        member.end(own());
        group.members.push(member);
    }
    for _ in 0..5 {
        assert_eq!((group.members.len(), group.untold), (50, 0));
        group.rest(5);
    }
    assert_eq!((group.members.len(), group.untold), (LISTED + 1, 17));
}

#[test]
fn several_victims_of_one_culprit_are_one_incident_with_the_worst_first() {
    let by_hog = |(subject, lost_seconds): (&str, f64)| {
        let time = Time { seconds: lost_seconds, share: 1.0 };
        let hog = Culprit { culprit: "/hog".into(), cause: Cause::Foreign, time, beyond: time };
        Incident { lost_seconds, culprits: vec![hog], ..disturbance(subject) }
    };
    let victims = [("/a", 1.0), ("/b", 3.0), ("/c", 2.0), ("/d", 4.0)].map(by_hog);
    let mut groups = Groups::new(&Settings::default());
    let now = jiff::Timestamp::default();
    let clock = Clock { at_ns: 1 << 40, now };
    let opened = victims.iter().cloned().map(Change::Opened).collect();
    let events = groups.take(opened, victims.iter().cloned(), clock);
    let is_opened = |event: &&GroupChange| matches!(event, GroupChange::Opened(_));
    assert_eq!(events.iter().filter(is_opened).count(), 1, "{events:?}");
    let reports = groups.reports(victims.iter().cloned(), clock);
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    let also: Vec<&str> = report.also.iter().map(|one| &*one.subject).collect();
    assert_eq!((&*report.main.subject, also), ("/a", vec!["/d", "/b", "/c"]));
}

#[test]
fn what_began_before_the_host_was_suspended_keeps_its_begin() {
    let mut groups = Groups::new(&Settings::default());
    let at = |at_s: u64, now_s: i64| Clock {
        at_ns: at_s * 1_000_000_000,
        now: jiff::Timestamp::from_second(now_s).unwrap(),
    };
    let own = Incident { start_ns: 10_000_000_000, ..disturbance("/a") };
    let start = |groups: &mut Groups, clock| {
        let reports = groups.reports([own.clone()].into_iter(), clock);
        reports[0].main.start.as_second()
    };
    groups.take(vec![Change::Opened(own.clone())], std::iter::empty(), at(15, 1_015));
    assert_eq!(start(&mut groups, at(20, 1_020)), 1_010);
    // An hour in which the clock of the windows stood still.
    assert_eq!(start(&mut groups, at(25, 4_625)), 1_010);
    groups.take(vec![Change::Closed(own.clone())], std::iter::empty(), at(30, 4_630));
    assert_eq!(start(&mut groups, at(30, 4_630)), 1_010);
    // It is back: both are known from their own begins.
    let again = Incident { start_ns: 31_000_000_000, ..own.clone() };
    groups.take(vec![Change::Opened(again)], std::iter::empty(), at(32, 8_000));
    assert_eq!(start(&mut groups, at(33, 8_001)), 1_010);
}

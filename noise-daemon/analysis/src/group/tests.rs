//! What an incident keeps of its parts.

use noise_common::signals::Signal;
use noise_model::Histogram;

use super::super::culprits::{Culprit, Time};
use super::super::incident::{Ending, Incident};
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
    let clock = Clock { at_ns: 1 << 40, suspended_ns: 0, now: jiff::Timestamp::default() };
    let mut group = GroupedIncident::new(1, Member::new(disturbance("/0"), clock));
    for number in 1..50 {
        let own = || disturbance(&format!("/{number}"));
        let mut member = Member::new(own(), clock);
        member.end(own(), clock);
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
    let clock = Clock { at_ns: 1 << 40, suspended_ns: 0, now };
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
fn who_keeps_a_disk_busy_makes_an_incident_of_its_requests_whatever_opened_it() {
    let by = |culprit: &str, lost_seconds| {
        let time = Time { seconds: lost_seconds, share: 1.0 };
        let culprit =
            Culprit { culprit: culprit.into(), cause: Cause::Foreign, time, beyond: time };
        Incident { lost_seconds, culprits: vec![culprit], ..disturbance("/client") }
    };
    let requests = |incident: Incident| Incident {
        signal: Signal::BlockDeviceWait.into(),
        subject: "vda write".into(),
        ..incident
    };
    let main = |waits: Incident, requests: Incident, age: usize| {
        let mut groups = Groups::new(&Settings::default());
        let clock = Clock { at_ns: 1 << 40, suspended_ns: 0, now: jiff::Timestamp::default() };
        groups.take(vec![Change::Opened(waits.clone())], std::iter::empty(), clock);
        for _ in 0..age {
            groups.take(Vec::new(), [waits.clone()].into_iter(), clock);
        }
        let both = [waits, requests.clone()].into_iter();
        groups.take(vec![Change::Opened(requests)], both.clone(), clock);
        let reports = groups.reports(both, clock);
        let main = reports.first().map(|report| report.main.subject.to_string());
        (reports.len(), main.unwrap_or_default())
    };
    let found = main(by("/writer", 0.3), requests(by("/writer", 200.0)), 0);
    assert_eq!(found, (1, "vda write".to_owned()));
    // What lost less to it, is slow by another, or becomes slow later, is not what it is about.
    let found = main(by("/writer", 0.3), requests(by("/writer", 0.2)), 0);
    assert_eq!(found, (1, "/client".to_owned()));
    let found = main(by("/writer", 0.3), requests(by("/other", 200.0)), 0);
    assert_eq!(found, (2, "/client".to_owned()));
    let found = main(by("/writer", 0.3), requests(by("/writer", 200.0)), 20);
    assert_eq!(found, (1, "/client".to_owned()));
}

#[test]
fn begin_and_end_stay_where_they_were_over_suspends_and_move_with_the_wall_clock() {
    let mut groups = Groups::new(&Settings::default());
    let at = |at_s: u64, suspended_s: u64, now_s: i64| Clock {
        at_ns: at_s * 1_000_000_000,
        suspended_ns: suspended_s * 1_000_000_000,
        now: jiff::Timestamp::from_second(now_s).unwrap(),
    };
    let own = Incident { start_ns: 10_000_000_000, end_ns: 15_000_000_000, ..disturbance("/a") };
    let times = |groups: &mut Groups, now: &Incident, clock| {
        let reports = groups.reports([now.clone()].into_iter(), clock);
        let main = &reports[0].main;
        (main.start.as_second(), main.end.as_second())
    };
    groups.take(vec![Change::Opened(own.clone())], std::iter::empty(), at(15, 0, 1_015));
    assert_eq!(times(&mut groups, &own, at(20, 0, 1_020)), (1_010, 1_020));
    assert_eq!(times(&mut groups, &own, at(25, 3_600, 4_625)), (1_010, 4_625));
    // The clock is set back by 1000 s.
    assert_eq!(times(&mut groups, &own, at(26, 3_600, 3_626)), (10, 3_626));
    let over = Incident { end_ns: 28_000_000_000, ending: Some(Ending::Over), ..own.clone() };
    groups.take(vec![Change::Closed(over)], std::iter::empty(), at(30, 3_600, 4_630));
    assert_eq!(times(&mut groups, &own, at(31, 3_600, 4_631)), (1_010, 4_628));
    assert_eq!(times(&mut groups, &own, at(32, 7_200, 8_232)), (1_010, 4_628));
    // It is back: both are known from their own begins.
    let again = Incident { start_ns: 33_000_000_000, end_ns: 34_000_000_000, ..own };
    let clock = at(34, 7_200, 8_234);
    groups.take(vec![Change::Opened(again.clone())], std::iter::empty(), clock);
    assert_eq!(times(&mut groups, &again, at(35, 7_200, 8_235)), (1_010, 8_235));
}

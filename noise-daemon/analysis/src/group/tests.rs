//! What an incident keeps of its parts.

use noise_common::signals::Signal;
use noise_model::Histogram;

use super::super::culprits::Time;
use super::super::incident::Incident;
use super::super::level::Level;
use super::super::rules::Rule;
use super::*;

fn disturbance(subject: &str) -> Disturbance {
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
    let mut group = Group::new(1, Member::new(disturbance("/0")));
    for number in 1..50 {
        let own = || disturbance(&format!("/{number}"));
        let mut member = Member::new(own());
        member.end(own(), 8);
        group.members.push(member);
    }
    for _ in 0..5 {
        assert_eq!((group.members.len(), group.untold), (50, 0));
        group.rest(5);
    }
    assert_eq!((group.members.len(), group.untold), (LISTED + 1, 17));
}

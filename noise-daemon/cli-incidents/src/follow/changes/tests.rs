//! What becomes of incidents between answers, and that each comes once.

use noise_analysis::{Ending, Time, made};
use noise_common::signals::Signal;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::*;

fn episode(subject: &str, from: i64, to: Option<i64>, now: i64) -> Episode {
    let time = |second| Timestamp::from_second(second).unwrap();
    Episode {
        start: time(from),
        end: time(to.unwrap_or(now)),
        ending: to.map(|_| Ending::Over),
        culprits: vec![culprit("/hog", 0.9)],
        ..made::blank(subject)
    }
}

fn culprit(name: &str, share: f64) -> Culprit<Name> {
    made::culprit(name, Cause::Foreign, Time { seconds: share, share })
}

fn report(id: u64, from: i64, to: Option<i64>, now: i64) -> Report {
    let (main, also) = (episode("/web", from, to, now), Vec::new());
    Report::new(id, to.is_none(), main, also)
}

fn listing(incidents: impl IntoIterator<Item = Report>) -> Listing {
    let incidents = incidents.into_iter().map(Arc::new).collect();
    Listing { incidents, ..Listing::default() }
}

fn said(happened: &[Happened]) -> Vec<(&'static str, u64)> {
    happened.iter().map(|one| (one.kind.name(), one.report.id)).collect()
}

#[test]
fn what_opens_changes_and_closes_is_reported_once_each() {
    let mut follower = Follower::default();
    let mut take = |reports: Vec<Report>| follower.take(&listing(reports));
    // Over before this began; and one that is open.
    assert_eq!(said(&take(vec![report(1, 0, Some(5), 9), report(2, 7, None, 9)])), [("open", 2)]);
    assert_eq!(said(&take(vec![report(1, 0, Some(5), 9), report(2, 7, None, 10)])), []);
    let both = vec![report(2, 7, None, 11), report(3, 10, None, 11)];
    assert_eq!(said(&take(both)), [("opened", 3)]);
    let mut resting = report(2, 7, Some(12), 13);
    resting.resting = true;
    let happened = take(vec![resting, report(3, 10, None, 13)]);
    assert_eq!(said(&happened), [("changed", 2)]);
    assert_eq!(happened[0].changes, ["/web (waits for a CPU) is calm"]);
    let happened = take(vec![report(2, 7, None, 14), report(3, 10, None, 14)]);
    assert_eq!(happened[0].changes, ["/web (waits for a CPU) is disturbed again"]);
    let over = || vec![report(2, 7, Some(15), 16), report(3, 10, Some(15), 16)];
    assert_eq!(said(&take(over())), [("closed", 2), ("closed", 3)]);
    assert_eq!(said(&take(over())), []);
    // One that came and went between two answers.
    let three = || [over(), vec![report(4, 20, Some(21), 22)]].concat();
    assert_eq!(said(&take(three())), [("opened", 4), ("closed", 4)]);
    assert_eq!(said(&take(three())), []);
}

#[test]
fn a_restart_of_the_daemon_repeats_nothing() {
    let mut follower = Follower::default();
    let mut take = |reports: Vec<Report>| follower.take(&listing(reports));
    take(Vec::new());
    let open = [report(1, 10, None, 12), report(2, 11, None, 12)];
    assert_eq!(said(&take(open.to_vec())), [("opened", 1), ("opened", 2)]);
    // It kept its state of the first alone: that was open when it stopped.
    let left = open[0].clone().unwatched();
    let happened = take(vec![left.clone()]);
    assert_eq!(said(&happened), [("closed", 1), ("closed", 2)]);
    assert!(happened[1].changes[0].contains("restarted"), "{:?}", happened[1].changes);
    assert_eq!(said(&take(vec![left.clone()])), []);
    // The number 2 is given to another one, later.
    assert_eq!(said(&take(vec![left, report(2, 90, None, 91)])), [("opened", 2)]);
    // Without a state all numbers begin anew.
    assert_eq!(said(&take(vec![report(1, 200, None, 201)])), [("opened", 1), ("closed", 2)]);
}

#[test]
fn a_clock_that_is_set_opens_nothing_again() {
    let mut follower = Follower::default();
    let mut take = |reports: Vec<Report>| follower.take(&listing(reports));
    take(Vec::new());
    assert_eq!(said(&take(vec![report(1, 10, None, 12)])), [("opened", 1)]);
    // Ahead by more than it lasted, and back.
    assert_eq!(said(&take(vec![report(1, 3_610, None, 3_613)])), []);
    assert_eq!(said(&take(vec![report(1, 10, None, 14)])), []);
    // Of another subject it is another one.
    let mut other = report(1, 3_610, None, 3_613);
    other.main.subject = "/db".into();
    assert_eq!(said(&take(vec![other])), [("opened", 1)]);
}

#[test]
fn what_joins_another_is_reported_as_a_part_of_it() {
    let mut follower = Follower::default();
    take_two(&mut follower);
    let mut into = report(1, 10, None, 14);
    into.main.subject = "/db".into();
    into.also.push(episode("/web", 12, None, 14));
    let happened = follower.take(&listing([into]));
    assert_eq!(said(&happened), [("changed", 1), ("merged", 2)]);
    assert_eq!(
        (happened[1].into, &*happened[1].changes[0]),
        (Some(1), "it is a part of incident 1")
    );
    let joined = &happened[0].changes[0];
    assert!(joined.starts_with("also disturbed: /web (waits for a CPU): "), "{joined}");
    assert!(joined.ends_with("; first culprit: /hog"), "{joined}");
}

fn take_two(follower: &mut Follower) {
    follower.take(&Listing::default());
    let mut first = report(1, 10, None, 13);
    first.main.subject = "/db".into();
    let happened = follower.take(&listing([first, report(2, 12, None, 13)]));
    assert_eq!(said(&happened), [("opened", 1), ("opened", 2)]);
}

#[test]
fn another_culprit_is_named_where_it_is_well_ahead() {
    let mut follower = Follower::default();
    let mut take = |culprits: &[(&str, f64)]| {
        let mut one = report(1, 10, None, 20);
        one.main.culprits = culprits.iter().map(|(name, share)| culprit(name, *share)).collect();
        follower.take(&listing([one])).into_iter().flat_map(|one| one.changes).collect::<Vec<_>>()
    };
    take(&[("/a", 0.5), ("/b", 0.4)]);
    assert_eq!(take(&[("/b", 0.5), ("/a", 0.45)]), Vec::<String>::new());
    assert_eq!(take(&[("/b", 0.6), ("/a", 0.4)]), ["first culprit now: /b"]);
    assert_eq!(take(&[("/b", 0.7), ("/a", 0.3)]), Vec::<String>::new());
    assert_eq!(take(&[]), Vec::<String>::new());
}

#[test]
fn a_culprit_that_is_not_known_is_said_to_be() {
    let mut follower = Follower::default();
    let mut take = |by: Culprit<Name>| {
        let mut one = report(1, 10, None, 20);
        one.main.signal = Signal::UninterruptibleWait.into();
        one.main.culprits = vec![by];
        follower.take(&listing([one])).into_iter().flat_map(|one| one.changes).collect::<Vec<_>>()
    };
    take(culprit("/writer", 0.5));
    let disk = Culprit { cause: Cause::Softirq, ..culprit("block", 0.9) };
    assert_eq!(take(disk), ["first culprit now: not known"]);
    let idle = Culprit { cause: Cause::Idle, ..culprit("idle", 0.9) };
    assert_eq!(take(idle), ["first culprit now: no thread: the CPU was idle"]);
}

#[test]
fn what_a_victim_suffers_from_keeps_its_name() {
    let mut follower = Follower::default();
    let mut take = |culprit: Culprit<Name>, is_over| {
        let mut waits = report(1, 10, None, 20);
        waits.main.culprits = vec![culprit];
        let mut stolen = episode("/web", 11, is_over, 20);
        stolen.signal = Watched::Interruption;
        waits.also.push(stolen);
        follower.take(&listing([waits])).into_iter().flat_map(|one| one.changes).collect::<Vec<_>>()
    };
    let interrupt = || Culprit { cause: Cause::Softirq, ..culprit("net_rx", 0.9) };
    take(interrupt(), None);
    // Both lack CPU time because of interrupts.
    assert_eq!(take(interrupt(), Some(19)), ["/web (CPU time lost to interrupts) is calm"]);
}

#[test]
fn what_was_kept_is_reported_when_it_is_known() {
    let mut follower = Follower::default();
    let one = || listing([report(1, 10, None, 20)]);
    follower.take(&one());
    let trace = KeptTrace {
        waits: vec!["web 7 waited 3 ms".into()],
        trouble: None,
        ..KeptTrace::without(1, Timestamp::UNIX_EPOCH, "")
    };
    let with = || Listing { traces: vec![Arc::new(trace.clone())], ..one() };
    let happened = follower.take(&with());
    assert_eq!(happened[0].changes, ["its longest wait when it opened: web 7 waited 3 ms"]);
    assert!(follower.take(&with()).is_empty());
}

#[test]
fn those_that_are_asked_for_are_followed_to_their_end() {
    let mut follower = Follower::new(Subjects(vec!["db".to_owned()]));
    follower.take(&Listing::default());
    let mut one = report(1, 10, None, 12);
    assert_eq!(said(&follower.take(&listing([one.clone()]))), []);
    one.also.push(episode("/db", 11, None, 13));
    assert_eq!(said(&follower.take(&listing([one.clone()]))), [("opened", 1)]);
    one.also.clear();
    (one.open, one.untold) = (false, 1);
    assert_eq!(said(&follower.take(&listing([one]))), [("closed", 1)]);
}

proptest! {
    #[test]
    fn each_opens_and_closes_once_whatever_is_answered(
        answers in proptest::collection::vec(proptest::collection::vec((1..5_u64, 0..3_u8, any::<bool>()), 0..6), 1..30),
    ) {
        let mut follower = Follower::default();
        let mut open = BTreeMap::new();
        follower.take(&Listing::default());
        for (now, answer) in (1_i64..).zip(answers) {
            let mut reports: BTreeMap<u64, Report> = BTreeMap::new();
            for (id, state, resting) in answer {
                let to = (state > 0).then_some(now);
                let mut one = report(id, 1, to, now);
                one.resting = resting && !one.open;
                reports.insert(id, one);
            }
            for happened in follower.take(&listing(reports.into_values())) {
                let id = happened.report.id;
                match happened.kind {
                    ChangeKind::Opened => prop_assert_eq!(open.insert(id, true), None),
                    ChangeKind::Closed | ChangeKind::Merged => prop_assert_eq!(open.insert(id, false), Some(true)),
                    ChangeKind::Changed => prop_assert!(open.get(&id) == Some(&true)),
                    ChangeKind::Open => prop_assert!(false, "open after the begin"),
                }
            }
        }
    }
}

//! Pages of what a victim slept for: locks, answers, other hosts, timers.

use std::collections::BTreeMap;

use noise_paths::delayed_ack::DelayedNs;
use noise_paths::held::Held;
use noise_verdict::{Account, CulpritKind, Kind};
use noise_why::awaited::{Silent, Unanswered};
use noise_why::locks::Locks;
use noise_why::made::{MS, asleep, ender, peer, setup};
use noise_why::peers::{Hosts, PeerLink, Peers, Role};

use super::verdict;

#[test]
fn a_lock_that_its_own_threads_hold_is_said_with_who_holds_it() {
    let mut convoy = asleep(5_000, 0);
    convoy.held =
        [(72, Held { ns: 5_000 * MS, walked_ns: 5_000 * MS, by: BTreeMap::new() })].into();
    convoy.locks =
        Locks { ns: 4_800 * MS, by: [((71, "timer"), 4_800 * MS)].into(), ..Locks::default() };
    convoy.locks.words = Some("at the futex table_lock".to_owned());
    let verdict = verdict(convoy);
    let expected = "shop: its threads waited 4.80 s for each other at the futex table_lock; held by thread 71 (nginx), which slept on a timer \
                    meanwhile; whether that is usual is not known";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
    let first = &verdict.findings[0];
    assert_eq!((first.resource, first.culprit.tid), (Account::Lock, Some(71)));
    assert!(verdict.remedies().is_empty());
    assert_eq!(verdict.next.as_deref(), Some("see what thread 71 does: noised why 71"));
    // No thread held it for half of the time: none is named as the holder.
    let mut turns = asleep(5_000, 0);
    turns.held = [(72, Held { ns: 5_000 * MS, walked_ns: 5_000 * MS, by: BTreeMap::new() })].into();
    let by =
        [((71, "timer"), 1_600 * MS), ((72, "timer"), 1_500 * MS), ((73, "running"), 1_400 * MS)];
    turns.locks = Locks { ns: 4_500 * MS, by: by.into(), ..Locks::default() };
    let verdict = self::verdict(turns);
    let expected = "; held one after the other, longest by thread 71 (nginx), which slept on a timer meanwhile; whether";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    assert_eq!(verdict.findings[0].culprit.name, "its own threads, one after the other");
}

#[test]
fn workers_without_work_are_not_held_up() {
    let mut pool = asleep(7_000, 0);
    pool.held = [(
        72,
        Held { ns: 7_000 * MS, walked_ns: 7_000 * MS, by: [((71, "timer"), 6_900 * MS)].into() },
    )]
    .into();
    let verdict = verdict(pool);
    assert_eq!((verdict.kind, verdict.findings.len()), (Kind::Unknown, 0));
    let expected = "slept 7.00 s until threads of its own woke them, mostly thread 71 (nginx), which slept on a timer \
                    meanwhile; whether there was work for them is not known";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    assert_eq!(verdict.next.as_deref(), Some("see what thread 71 does: noised why 71"));
}

#[test]
fn who_was_asked_is_a_tier_and_who_asks_is_none() {
    let slow = |role: Role| {
        let mut found = asleep(0, 1_700);
        found.enders = vec![
            ender(9, "python3", "backend.service", true, 1_600),
            ender(10, "python3", "client.service", true, 90),
        ];
        let roles =
            [(9, peer(role, PeerLink::Tcp(8000))), (10, peer(Role::Serves, PeerLink::Tcp(80)))];
        found.peers = Peers { processes: roles.into(), hosts: None };
        verdict(found)
    };
    let tier = slow(Role::Asks);
    let expected = "shop waited 1.60 s for python3 9 of backend.service (port 8000) to answer; whether that is usual is not known";
    assert_eq!((tier.kind, &*tier.sentence), (Kind::Unknown, expected));
    assert_eq!(tier.findings[0].culprit.name, "backend.service");
    assert_eq!(tier.next.as_deref(), Some("ask backend.service: noised why backend.service"));
    assert!(tier.remedies().is_empty(), "to slow it down makes it worse");
    // One that serves them all sleeps until they ask.
    let idle = slow(Role::Serves);
    assert_eq!((idle.kind, &*idle.sentence), (Kind::Nothing, "shop: nothing held it up"));
}

#[test]
fn sleeps_that_several_ended_are_not_said_of_one() {
    let mut found = asleep(900, 0);
    found.enders = vec![
        ender(9, "python3", "a.service", false, 500),
        ender(10, "python3", "b.service", false, 400),
    ];
    let sentence = verdict(found).sentence;
    let expected =
        "slept 900 ms until python3 9 of a.service and others woke them or sent them packets;";
    assert!(sentence.contains(expected), "{sentence}");
}

#[test]
fn packets_that_wait_for_a_late_acknowledgement_are_no_slow_server() {
    let mut found = asleep(0, 1_700);
    found.enders = vec![ender(9, "python3", "backend.service", true, 1_600)];
    found.peers.processes = [(9, peer(Role::Asks, PeerLink::Tcp(8000)))].into();
    found.delayed = DelayedNs { own: 0, by: [(9, 1_500 * MS)].into() };
    found.judge("shop", &setup());
    let ns = |account| found.accounts_ns.ns(account) / MS;
    assert_eq!((ns(Account::Network), ns(Account::Tier), ns(Account::Unknown)), (1_500, 100, 100));
    let verdict = found.verdict.as_ref().unwrap();
    let expected = "shop waited 1.50 s for packets between it and python3 9 of backend.service (port 8000) that TCP held back \
                    until a late acknowledgement (Nagle's algorithm), or sent again; it also waited 100 ms for python3 9 of \
                    backend.service (port 8000) to answer";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
    let first = &verdict.findings[0];
    assert_eq!((first.resource, &*first.culprit.name), (Account::Network, "backend.service"));
    assert!(
        verdict.next.as_deref().unwrap().contains("TCP_NODELAY") && verdict.remedies().is_empty()
    );
    // Its own part of an answer, of which it is not known who sent it.
    (found.enders, found.delayed) = (Vec::new(), DelayedNs { own: 1_700 * MS, by: [].into() });
    found.judge("shop", &setup());
    assert_eq!(found.accounts_ns.ns(Account::Network), 1_700 * MS);
    let sentence = &found.verdict.as_ref().unwrap().sentence;
    assert!(
        sentence.starts_with("shop waited 1.70 s for packets to it that TCP held back"),
        "{sentence}"
    );
}

#[test]
fn where_a_link_does_not_say_who_asks_it_is_named() {
    let mut found = asleep(1_700, 0);
    found.enders = vec![ender(9, "helper", "/", false, 1_700)];
    found.peers.processes = [(9, peer(None, PeerLink::Pipe))].into();
    let verdict = verdict(found);
    assert_eq!((verdict.kind, verdict.findings.len()), (Kind::Unknown, 0));
    let expected = "slept 1.70 s until helper 9 (a pipe) woke them or sent them packets; whether there was work";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    assert!(verdict.is_unclear && verdict.remedies().is_empty());
}

#[test]
fn another_host_that_was_asked_is_a_tier_too() {
    let remote = |role, is_certain| {
        let mut found = asleep(0, 1_700);
        let name = "192.0.2.7:5432".to_owned();
        found.peers.hosts = Some(Hosts { role, name, is_certain });
        verdict(found)
    };
    let tier = remote(Role::Asks, true);
    let expected =
        "shop waited 1.70 s for 192.0.2.7:5432 to answer; whether that is usual is not known";
    assert_eq!(tier.sentence, expected);
    assert_eq!(tier.findings[0].resource, Account::Network);
    let next = tier.next.unwrap();
    assert_eq!(next, "look at what 192.0.2.7:5432 did: it is seen on its host alone");
    let uncertain = remote(Role::Asks, false);
    let expected = "shop waited 1.70 s for 192.0.2.7:5432 (where that leads is not known) to answer; whether that is \
                    usual is not known";
    assert_eq!(uncertain.sentence, expected);
    assert_eq!(uncertain.findings[0].culprit.kind, CulpritKind::None);
    assert!(uncertain.next.unwrap().starts_with("see where 192.0.2.7:5432 leads"));
    let idle = remote(Role::Serves, true);
    assert_eq!((idle.kind, &*idle.sentence), (Kind::Nothing, "shop: nothing held it up"));
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let mut found = asleep(0, 0);
    found.totals_ns.extend([("timer", 1_500 * MS), ("asleep", 4_000 * MS)]);
    let address = "127.0.0.1:53".parse().unwrap();
    let waited = Unanswered { over_ns: 1_400 * MS, open_ns: 3_000 * MS };
    found.silent = vec![Silent { address, is_here: true, waited }];
    found.judge("shop", &setup());
    let ns = |account| found.accounts_ns.ns(account) / MS;
    assert_eq!((ns(Account::Tier), ns(Account::Timer), ns(Account::Idle)), (4_400, 100, 1_000));
    let verdict = found.verdict.as_ref().unwrap();
    let expected = "shop waited 4.40 s for an answer from 127.0.0.1:53 that does not come";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
    let first = &verdict.findings[0];
    assert_eq!((first.resource, &*first.culprit.name), (Account::Tier, "127.0.0.1:53"));
    let next =
        "see which server has 127.0.0.1:53 (ss -lunp), and what it waits for: noised why PID";
    assert_eq!(verdict.next.as_deref(), Some(next));
    assert!(verdict.remedies().is_empty());
    // On another host, beside a service that answers.
    found.silent[0].is_here = false;
    found.enders = vec![ender(9, "db", "db.service", false, 300)];
    found.totals_ns.insert("task", 300 * MS);
    found.peers.processes = [(9, peer(Role::Asks, PeerLink::Tcp(5432)))].into();
    found.judge("shop", &setup());
    let verdict = found.verdict.as_ref().unwrap();
    assert_eq!(verdict.findings[0].resource, Account::Network);
    let expected = "shop waited 4.40 s for an answer from 127.0.0.1:53 that does not come; it also waited 300 ms for db 9 of \
                    db.service (port 5432) to answer";
    assert_eq!(verdict.sentence, expected);
}

#[test]
fn its_own_timers_are_said_and_are_no_delay() {
    let mut found = asleep(0, 0);
    found.totals_ns.insert("timer", 1_500 * MS);
    let verdict = verdict(found);
    let expected = "shop: nothing held it up; it slept 1.50 s on timers of its own";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Nothing, expected));
    assert_eq!(verdict.findings[0].resource, Account::Timer);
    assert_eq!((verdict.next, verdict.findings[0].next.clone()), (None, None));
}

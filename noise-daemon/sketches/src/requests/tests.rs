//! Requests of a client to an application, which asks a database and a server that is in no recording.

use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::feed::CallSink as _;
use crate::follow::Follower;
use crate::input::{Act, Bytes, Endpoint, Input, Known, Protocol, Purpose, What};
use crate::served::{PortFollower, PortWorkKind};

const MS: u64 = 1_000_000;

fn end(id: u64, (out, into): (u64, u64), local: u16, remote: u16) -> Endpoint {
    let address = |port: u16| Some(([127, 0, 0, 1], port).into());
    Endpoint {
        protocol: Protocol::Tcp,
        id,
        out,
        into,
        local: address(local),
        remote: address(remote),
    }
}

/// Two requests, each 10 ms long for the application, of which the database has 4 and the stranger 2.
fn system() -> (System, Vec<PortWork>) {
    let served = PortFollower::new(PortWorkKind::Requests, &[80, 443]);
    let mut both = (Follower::default(), served);
    let mut at = |time_ns: u64, tid: i32, what: What<'_>| {
        both.follow(&Input { time_ns, machine: 0, cpu: tid as u32, tid, what });
    };
    for (tid, name) in [(11, "client"), (21, "app"), (31, "db")] {
        let comm = Comm::new(name.as_bytes());
        at(1, tid, What::Known(Known { tid, pid: tid, comm, is_kernel: false }));
        at(1, tid, What::Switch { prev: 0, sleeps: false, next: tid });
    }
    let (client, front) = (end(1, (1, 2), 40_000, 80), end(2, (2, 1), 80, 40_000));
    let (back, db) = (end(3, (3, 4), 40_001, 5432), end(4, (4, 3), 5432, 40_001));
    let stranger = end(5, (5, 6), 40_002, 443);
    let mut call = |from_ns, to_ns, tid: i32, act: Act| {
        let (call, purpose) = match act {
            Act::Sent(..) => ("sendto", Purpose::Send),
            _ => ("recvfrom", Purpose::Receive),
        };
        at(from_ns, tid, What::Enters { call, purpose, object: None });
        at(to_ns, tid, What::Act(act));
        at(to_ns, tid, What::Leaves);
    };
    for number in 0..2 {
        let begin = MS + 20 * MS * number;
        let bytes = |length| Bytes { at: Some(100 * number as u32), length };
        call(begin, begin, 11, Act::Sent(client, bytes(10)));
        call(begin, begin + MS, 21, Act::Received(front, bytes(10)));
        call(begin + 2 * MS, begin + 2 * MS, 21, Act::Sent(back, bytes(20)));
        call(begin, begin + 3 * MS, 31, Act::Received(db, bytes(20)));
        call(begin + 7 * MS, begin + 7 * MS, 31, Act::Sent(db, bytes(30)));
        call(begin + 2 * MS, begin + 8 * MS, 21, Act::Received(back, bytes(30)));
        call(begin + 8 * MS, begin + 8 * MS, 21, Act::Sent(stranger, bytes(1)));
        call(begin + 8 * MS, begin + 10 * MS, 21, Act::Received(stranger, bytes(1)));
        call(begin + 11 * MS, begin + 11 * MS, 21, Act::Sent(front, bytes(40)));
        call(begin, begin + 12 * MS, 11, Act::Received(client, bytes(40)));
    }
    at(100 * MS, 21, What::Act(Act::Closed(front)));
    (both.0.finish(), both.1.finish().0)
}

#[test]
fn the_parts_of_a_request_are_its_whole_time() {
    let (system, works) = system();
    let requests = Requests::new(&system);
    assert!(requests.served(443, &works).is_empty());
    let ids = requests.served(80, &works);
    assert_eq!(ids.len(), 2);
    for id in ids {
        let slice = system.slice(id).unwrap();
        let mut parts = requests.parts(id);
        parts.sort_by_key(|part| part.from_ns);
        let mut found = String::new();
        for part in &parts {
            let kind = format!("{:?}", part.kind).to_lowercase();
            found.push_str(&format!("{kind} {} {}, ", part.service, part.ns() / MS));
        }
        assert_eq!(
            found,
            "reach app :80 1, own app :80 1, reach db :5432 1, own db :5432 4, back app :80 1, \
             away 127.0.0.1:443 2, own app :80 1, "
        );
        let all: u64 = parts.iter().map(RequestPart::ns).sum();
        assert_eq!(all, slice.latency_ns() + requests.reach_ns(id).unwrap());
        assert!(parts.windows(2).all(|two| two[0].to_ns == two[1].from_ns));
    }
}

#[test]
fn calls_that_cannot_be_assigned_are_counted_by_port() {
    let (mut system, works) = system();
    let served = |system: &System| {
        let requests = Requests::new(system);
        requests.unassigned(requests.served(80, &works))
    };
    assert_eq!(served(&system), []);
    // One of the two to the database is of no known request, and one to a stranger.
    let calls: Vec<usize> = (0..system.slices.len())
        .filter(|id| system.key(&system.slices[*id]).ports()[1] == Some(5432))
        .collect();
    for id in &calls {
        system.slices[*id].is_asked = true;
    }
    system.slices[calls[0]].cause = NONE;
    let [found] = served(&system).try_into().unwrap();
    assert_eq!((found.port, found.calls, found.unassigned), (Some(5432), 2, 1));
}

#[test]
fn who_asks_whom() {
    let (system, _) = system();
    let requests = Requests::new(&system);
    let all = || 0..system.slices.len() as SliceId;
    let found: Vec<String> = requests
        .links(all(), true)
        .iter()
        .map(|link| {
            let caller = link.caller.map_or_else(String::new, |caller| caller.to_string());
            let Tier { count, true_latency_p50_ns, .. } = link.tier;
            format!(
                "{caller} > {}: {count}, {} {}",
                link.service,
                true_latency_p50_ns / MS,
                link.reach_p50_ns / MS
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "app :80 > db :5432: 2, 4 1",
            "app :80 > 127.0.0.1:443: 2, 2 0",
            "client > app :80: 2, 2 1"
        ]
    );
    let services: Vec<_> = requests.links(all(), false).into_iter().map(|l| l.caller).collect();
    assert_eq!(services, [None, None, None]);
}

proptest! {
    #[test]
    fn gaps_and_what_lies_between_are_the_whole(
        others in prop::collection::vec((0..100u64, 0..30u64), 0..10),
        from in 0..60u64,
        long in 0..60u64,
    ) {
        let others: Vec<_> = others.iter().map(|(from, long)| (*from, from + long)).collect();
        let free = gaps((from, from + long), others.clone());
        let is_in = |times: &[(u64, u64)], at: u64| {
            times.iter().any(|(from, to)| (*from..*to).contains(&at))
        };
        for at in from..from + long {
            prop_assert_eq!(is_in(&free, at), !is_in(&others, at));
        }
        prop_assert!(free.iter().all(|(one, other)| from <= *one && one < other && *other <= from + long));
    }
}

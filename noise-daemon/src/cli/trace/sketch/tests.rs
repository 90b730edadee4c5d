//! The document and the page of sketches.

use noise_sketches::follow::Follower;
use noise_sketches::input::{Act, Bytes, End, Input, Known, Protocol, Purpose, What};
use noise_trace::event::Comm;

use super::*;

const ASKS: (i32, &str) = (11, "client");
const APP: (i32, &str) = (21, "app");
const DB: (i32, &str) = (31, "db");

/// Two requests of a client to an application, the second one slow in the database behind that.
pub fn system() -> System {
    let mut follower = Follower::default();
    let mut at = |time_us: u64, tid: i32, what: What<'_>| {
        let time_ns = 1_000_000_000 + 1000 * time_us;
        follower.follow(&Input { time_ns, machine: 0, cpu: tid as u32, tid: 0, what });
    };
    let end = |id: u64, out, into, port: u16| End {
        protocol: Protocol::Tcp,
        id,
        out,
        into,
        local: Some(([127, 0, 0, 1], port).into()),
        remote: None,
    };
    let (client, front) = (end(1, 1, 2, 40_000), end(2, 2, 1, 80));
    let (back, db) = (end(3, 3, 4, 40_001), end(4, 4, 3, 5432));
    for (tid, name) in [ASKS, APP, DB] {
        let comm = Comm::new(name.as_bytes());
        at(0, tid, What::Known(Known { tid, pid: tid, comm, is_kernel: false }));
        at(0, tid, What::Switch { prev: 0, sleeps: false, next: tid });
    }
    let mut call = |from_us, to_us, tid: (i32, &str), act: Act| {
        let (call, purpose) = match act {
            Act::Sent(..) => ("sendto", Purpose::Send),
            _ => ("recvfrom", Purpose::Receive),
        };
        at(from_us, tid.0, What::Enters { call, purpose, object: None });
        at(to_us, tid.0, What::Act(act));
        at(to_us, tid.0, What::Leaves);
    };
    for (number, (begin, slow)) in [(0, 0), (10_000, 7_000)].into_iter().enumerate() {
        let bytes = |length| Bytes { at: Some(100 * number as u32), length };
        call(begin, begin + 20, ASKS, Act::Sent(client, bytes(10)));
        call(begin, begin + 100, APP, Act::Received(front, bytes(10)));
        call(begin + 1100, begin + 1110, APP, Act::Sent(back, bytes(20)));
        call(begin, begin + 1200, DB, Act::Received(db, bytes(20)));
        let done = begin + 2200 + slow;
        call(done - 10, done, DB, Act::Sent(db, bytes(30)));
        call(begin + 1110, done + 100, APP, Act::Received(back, bytes(30)));
        call(done + 400, done + 410, APP, Act::Sent(front, bytes(40)));
        call(begin + 20, done + 500, ASKS, Act::Received(client, bytes(40)));
    }
    follower.finish()
}

fn document(system: &System, given: &str, of: Option<&str>, by: tiers::By) -> Vec<String> {
    let given: Option<Query> = (!given.is_empty()).then(|| given.parse().unwrap());
    let keeps = |id: &SliceId| {
        let slice = system.slice(*id).unwrap();
        given.as_ref().is_none_or(|given| given.holds(system, slice))
    };
    let shown: Vec<SliceId> = (0..system.slices.len() as SliceId).filter(keeps).collect();
    let answer = of.map(|of| {
        let of: Query = of.parse().unwrap();
        let (all, groups) = probability(system, &shown, &of, Some(by));
        Answer { given: given.map(|given| given.to_string()), of: of.to_string(), all, groups }
    });
    let tiers = tiers(system, &shown);
    let document = Document { system, shown, tiers, answer, discarded: 0, reach: Reach::default() };
    vec![page::page(&document, 120).text(false), serde_json::to_string_pretty(&document).unwrap()]
}

#[test]
fn tiers_and_the_slowest_request_are_shown_as_agreed() {
    let mut system = system();
    cluster(&mut system).unwrap();
    let [page, json] = document(&system, "", None, tiers::By::Marker).try_into().unwrap();
    insta::assert_snapshot!("page", page);
    insta::assert_snapshot!("json", json);
}

#[test]
fn questions_are_answered_as_agreed() {
    let system = system();
    let shown =
        document(&system, "marker = tcp_receive", Some("latency > 5ms"), tiers::By::Process);
    insta::assert_snapshot!("answer", shown[0]);
}

#[test]
fn a_recording_without_system_calls_has_no_slice_and_that_is_said() {
    let page = document(&System::default(), "", None, tiers::By::Marker).remove(0);
    assert!(page.starts_with("No slice is known"), "{page}");
}

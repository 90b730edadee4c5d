//! Made requests, to test with.

use noise_sketches::follow::Follower;
use noise_sketches::input::{Act, Bytes, Endpoint, Input, Known, Protocol, Purpose, What};
use noise_sketches::system::System;
use noise_trace::event::Comm;

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
    let end = |id: u64, out, into, port: u16| Endpoint {
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

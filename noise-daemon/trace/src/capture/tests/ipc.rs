//! Events of communication.

use core::net::Ipv6Addr;

use noise_common::store::EventKind;
use noise_common::store::calls::{CallInfo, ObjectKind};
use noise_common::store::event::Body;
use noise_common::store::ipc::{Caller, StoredEnds, StoredObject, StoredSignal, futex_extra};

use super::{Capture, Threads, UUID, add, dump, read};
use crate::event::{Task, TraceKind};
use crate::ipc;
use crate::ipc::{Call, Connection, Return, Second, Transfer};

fn info(name: &str) -> &'static CallInfo {
    CallInfo::named(name).unwrap()
}

/// What these bodies become.
fn converted(bodies: &[Body]) -> Vec<String> {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &dump());
    add(&mut capture, 0, 0, 0, bodies);
    capture.finish(3_000_000, &mut Threads::default());
    read(&mut capture).into_iter().map(|(_, kind)| kind).collect()
}

fn shown(kinds: &[TraceKind<'_>]) -> Vec<String> {
    kinds.iter().map(|kind| format!("{kind:?}")).collect()
}

const fn key(id: u32, beside: u32) -> u64 {
    id as u64 | (beside as u64) << 32
}

const fn of(kind: ObjectKind, id: u64, peer: u32, position: u32) -> ipc::Object {
    ipc::Object { kind, id, peer, position }
}

#[test]
fn calls_say_what_they_are_about() {
    let caller = |name: &str| Caller { tid: 7, number: info(name).number };
    let tcp = |beside| StoredObject { kind: ObjectKind::Tcp, key: key(5, beside) };
    let pipe = |id| StoredObject { kind: ObjectKind::Pipe, key: key(id, 15) };
    let futex = StoredObject { kind: ObjectKind::Futex, key: 0x7f00_0000_0010 };
    let kill = StoredObject { kind: ObjectKind::None, key: key(10, 0) };
    let operation: u32 = 9 | 128 | 256;
    let bodies = [
        Body::call(caller("recvfrom"), tcp(80 << 16 | 4000), 3, 0, 100),
        Body::call_exit(caller("recvfrom"), tcp(999), 12, true, 110),
        Body::call(caller("splice"), pipe(8), 4, 0, 120),
        Body::call_other(caller("splice"), tcp(80 << 16 | 4000), 5, false, 120),
        Body::call_exit(caller("splice"), pipe(8), -11_i32 as u32, false, 130),
        Body::call_other(caller("splice"), tcp(1000), 5, true, 130),
        Body::call(caller("futex"), futex, 77, futex_extra(operation), 140),
        Body::call_exit(caller("futex"), futex, 0, false, 150),
        Body::call(caller("kill"), kill, -1_i32 as u32, 0, 160),
        // One of no number that is known.
        Body::call(Caller { tid: 7, number: 2 }, kill, 0, 0, 170),
    ];
    let call = |name, arguments, object| {
        TraceKind::SyscallEntry(Call { info: info(name), tid: 7, arguments, object })
    };
    let exit = |name, ret, object| {
        TraceKind::SyscallExit(Return { info: info(name), tid: 7, ret, object, peeks: false })
    };
    let tcp = |peer, position| of(ObjectKind::Tcp, 5, peer, position);
    let pipe = of(ObjectKind::Pipe, 8, 15, 0);
    let futex = |map| of(ObjectKind::Futex, 0x7f00_0000_0010, map, 0);
    let peeked =
        Return { info: info("recvfrom"), tid: 7, ret: 12, object: tcp(0, 999), peeks: true };
    let expected = [
        call("recvfrom", [3, 0, 0], tcp(80 << 16 | 4000, 0)),
        TraceKind::SyscallExit(peeked),
        call("splice", [4, 0, 0], pipe),
        TraceKind::CallOther(Second { tid: 7, fd: 5, object: tcp(80 << 16 | 4000, 0) }),
        exit("splice", -11, pipe),
        TraceKind::CallOther(Second { tid: 7, fd: 5, object: tcp(0, 1000) }),
        call("futex", [0, operation.cast_signed(), 0], futex(77)),
        exit("futex", 0, futex(0)),
        call("kill", [-1, 10, 0], ipc::Object::default()),
    ];
    assert_eq!(converted(&bodies), shown(&expected));
}

#[test]
fn sockets_have_addresses_and_signals_threads() {
    let ends = StoredEnds {
        inode: 4,
        local: [127, 0, 0, 1],
        remote: [10, 0, 0, 2],
        local_port: 80,
        remote_port: 5000,
        namespace: 9,
    };
    let local: Ipv6Addr = "fe80::1:2".parse().unwrap();
    let octets = local.octets();
    let words = [0, 8].map(|at| u64::from_le_bytes(*octets[at..].first_chunk().unwrap()));
    let unix = StoredObject { kind: ObjectKind::Unix, key: key(6, 7) };
    let signal = StoredSignal { number: 10, code: -6, tid: 8, pid: 8, to_group: true, result: 2 };
    let bodies = [
        Body::ends(EventKind::Connection, 6, &ends, 100),
        Body::address(words, false, 110),
        Body::address([0, 0], true, 110),
        Body::ends(EventKind::SockState, 2 | 1 << 4, &ends, 110),
        // Of those before nothing is left.
        Body::ends(EventKind::Connection, 17, &ends, 110),
        Body::transfer(EventKind::SockSend, unix, -32_i32 as u32, 0, 120),
        Body::signal(EventKind::SignalGenerate, &signal, 130),
    ];
    let connection = |protocol, local: &str, remote: &str| Connection {
        inode: 4,
        protocol,
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        namespace: 9,
    };
    let expected = [
        TraceKind::Connection(connection(6, "127.0.0.1:80", "10.0.0.2:5000")),
        TraceKind::InetSockSetState {
            connection: connection(6, &format!("[{local}]:80"), "0.0.0.0:5000"),
            from: 2,
            to: 1,
        },
        TraceKind::Connection(connection(17, "127.0.0.1:80", "10.0.0.2:5000")),
        TraceKind::SockSendLength(Transfer { ret: -32, object: of(ObjectKind::Unix, 6, 7, 0) }),
        TraceKind::SignalGenerate(ipc::Signal {
            sig: 10,
            code: -6,
            task: Task { prio: 0, ..super::task("fio", 8, 0) },
            group: true,
            result: 2,
        }),
    ];
    assert_eq!(converted(&bodies), shown(&expected));
}

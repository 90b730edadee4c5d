//! What links threads to those that they wait for.

use noise_common::store::calls::{CallInfo, ObjectKind};
use noise_trace::fixtures::MadeEvent;
use noise_trace::ipc::Connection;
use noise_trace::record::Record;

use super::*;
use crate::document::{Segment, traced};
use crate::execution::Execution;
use crate::feed;
use crate::link::{PathThread, ThreadLink};

/// Who sleeps, on CPU 0, and who wakes it, on CPU 1; their processes.
const SLEEPER: i32 = 11;
const WAKER: i32 = 21;
const PIDS: [(i32, i32); 2] = [(SLEEPER, 10), (WAKER, 20)];

fn enters(
    name: &str,
    arguments: [i32; 3],
    (kind, id, peer): (ObjectKind, u64, u32),
) -> TraceKind<'static> {
    let object = Object { kind, id, peer, position: 0 };
    TraceKind::SyscallEntry(Call {
        info: CallInfo::named(name).unwrap(),
        tid: 0,
        arguments,
        object,
    })
}

fn plainly(name: &str, arguments: [i32; 3]) -> TraceKind<'static> {
    enters(name, arguments, (ObjectKind::None, 0, 0))
}

/// The path of the sleeper, which leaves its CPU in that state, where each of the two is in a call.
fn path(
    slept_in: Option<TraceKind<'static>>,
    state: i64,
    woken_in: Option<TraceKind<'static>>,
) -> Vec<Segment> {
    let mut builder = Builder::default();
    let dumped = PIDS.map(|(tid, pid)| {
        (1, 0, TraceKind::StatedumpProcess(Dumped { tid, pid, ppid: 1, comm: task(tid).comm }))
    });
    let of_socket = Connection {
        inode: 77,
        local: "10.0.0.1:4000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
        ..Connection::default()
    };
    let mut all = dumped.to_vec();
    all.push((2, 0, TraceKind::StatedumpSocket(of_socket)));
    all.extend([(10, 0, switch(0, 0, SLEEPER)), (10, 1, switch(0, 0, WAKER))]);
    all.extend(slept_in.map(|kind| (15, 0, kind)));
    all.push((20, 0, switch(SLEEPER, state, 0)));
    all.extend(woken_in.map(|kind| (30, 1, kind)));
    all.extend([
        (40, 1, waking(SLEEPER)),
        (45, 0, switch(0, 0, SLEEPER)),
        (50, 0, switch(SLEEPER, 0, 0)),
    ]);
    for (time_ns, cpu, kind) in all {
        let faulted = matches!(kind, TraceKind::Other(_));
        let event = match faulted {
            true => MadeEvent::other(
                "x86_exceptions_page_fault_user",
                &[("address", 0x7000), ("ip", 1)],
            ),
            false => MadeEvent::new("", kind),
        };
        let record = Record::new(time_ns, cpu, event);
        feed::follow(&mut builder, 0, &record, &record.event());
    }
    let worker = builder.thread(0, SLEEPER).unwrap();
    let path = walk(builder.graph(), worker, 10, 50, Bounds::default()).unwrap();
    assert_eq!(path.fault(worker, 10, 50), None);
    let execution = Execution { worker, from_ns: 10, to_ns: 50, has_begin: true, has_end: true };
    traced(builder.graph(), "", &execution, &path).path
}

/// What links the waker's part to the sleeper.
fn link(slept_in: TraceKind<'static>, woken_in: TraceKind<'static>) -> ThreadLink {
    let path = path(Some(slept_in), ASLEEP, Some(woken_in));
    let tids: Vec<i32> = path.iter().map(|part| part.tid).collect();
    assert_eq!(tids, [SLEEPER, WAKER, SLEEPER, SLEEPER]);
    let others = path.iter().map(|part| part.via.is_some()).collect::<Vec<_>>();
    assert_eq!(others, [false, true, false, false], "its own time has no link");
    ThreadLink::clone(path[1].via.as_ref().unwrap())
}

fn expected(kind: ViaKind) -> ThreadLink {
    ThreadLink {
        kind,
        waits: PathThread { tid: SLEEPER, comm: format!("t{SLEEPER}") },
        ..ThreadLink::default()
    }
}

#[test]
fn a_futex_has_its_process_and_address() {
    let futex = |op| enters("futex", [0, op, 0], (ObjectKind::Futex, 0x7f10, 5));
    let at = ThreadLink {
        process: Some(10),
        address: Some("0x7f10".to_owned()),
        ..expected(ViaKind::Futex)
    };
    assert_eq!(link(futex(128), futex(129)), at);
    assert_eq!(at.words().unwrap(), "at the futex 0x7f10 of process 10");
    let named = ThreadLink { symbol: Some("lock".to_owned()), ..at.clone() };
    assert_eq!(named.words().unwrap(), "at the futex lock");
    // Who joins a thread is woken by its end, which is no call.
    assert_eq!(link(futex(128), plainly("exit", [0; 3])), at);
    // It slept since before the recording: who wakes it may give up something else in that call.
    let waker_alone = path(None, ASLEEP, Some(futex(129)));
    assert_eq!(waker_alone[1].via.as_deref(), Some(&expected(ViaKind::Wakeup)));
    // No signal ends that sleep: it was for something else in that call, such as a page.
    let uninterruptible = path(Some(futex(128)), 2, Some(futex(129)));
    assert_eq!(uninterruptible[1].via.as_deref(), Some(&expected(ViaKind::Wakeup)));
    // Another call than that is no evidence.
    let send = enters("sendto", [3, 0, 0], (ObjectKind::Unix, 5, 6));
    let unknown = path(None, ASLEEP, Some(send));
    assert_eq!(unknown[1].via.as_deref(), Some(&expected(ViaKind::Wakeup)));
    assert_eq!(expected(ViaKind::Wakeup).words(), None);
}

#[test]
fn pipes_and_sockets_have_their_ends() {
    let pipe = |name, fd| enters(name, [fd, 0, 0], (ObjectKind::Pipe, 99, 1));
    let ends = |one: &str, other: &str| Some([one.to_owned(), other.to_owned()]);
    let at = ThreadLink {
        address: Some("pipe:[99]".to_owned()),
        ends: ends("t11 10 fd 3", "t21 20 fd 4"),
        ..expected(ViaKind::Pipe)
    };
    assert_eq!(link(pipe("read", 3), pipe("write", 4)), at);
    // A thread that polls several files: the thread that writes shows which of them it waited for.
    let polled = ThreadLink { ends: ends("t11 10", "t21 20 fd 4"), ..at };
    assert_eq!(link(plainly("poll", [1, 0, 0]), pipe("write", 4)), polled);
    let unix = |name, fd, id, peer| enters(name, [fd, 0, 0], (ObjectKind::Unix, id, peer));
    let at = ThreadLink {
        address: Some("socket:[5]".to_owned()),
        ends: ends("t11 10 fd 3", "t21 20 fd 4"),
        ..expected(ViaKind::Socket)
    };
    assert_eq!(link(unix("recvfrom", 3, 5, 6), unix("sendto", 4, 6, 5)), at);
    let polled = ThreadLink { ends: ends("t11 10", "t21 20 fd 4"), ..at };
    let epoll = enters("epoll_wait", [3, 0, 0], (ObjectKind::Epoll, 1, 0));
    assert_eq!(link(epoll, unix("sendto", 4, 6, 5)), polled);
    let tcp = |ports| enters("recvfrom", [3, 0, 0], (ObjectKind::Tcp, 77, ports));
    let found = link(tcp(4000 << 16 | 80), plainly("close", [4, 0, 0]));
    assert_eq!(found.ends, ends("10.0.0.1:4000", "10.0.0.2:80"));
    // The inode is another socket's by now.
    let found = link(tcp(4001 << 16 | 80), plainly("close", [4, 0, 0]));
    assert_eq!(found.ends, ends(":4001", ":80"));
}

#[test]
fn a_sleep_until_a_timer_says_so() {
    let mut builder = built(&[(10, 0, switch(0, 0, SLEEPER)), (20, 0, switch(SLEEPER, ASLEEP, 0))]);
    let events = [TraceKind::SoftirqEntry { vec: 1 }, waking(SLEEPER)];
    for (time_ns, kind) in (40..).zip(events) {
        builder.follow(&Event { time_ns, cpu: 0, kind });
    }
    let worker = builder.thread(0, SLEEPER).unwrap();
    let path = walk(builder.graph(), worker, 10, 41, Bounds::default()).unwrap();
    let execution = Execution { worker, from_ns: 10, to_ns: 41, has_begin: true, has_end: true };
    let parts = traced(builder.graph(), "", &execution, &path).path;
    let of = |part: &Segment| (part.state, part.via.as_deref().cloned());
    let timer = ("timer", Some(expected(ViaKind::Timer)));
    assert_eq!(parts.iter().map(of).collect::<Vec<_>>(), [("running", None), timer]);
}

#[test]
fn locks_of_files_signals_and_pages_have_links() {
    let unlocks = || plainly("flock", [5, 8, 0]);
    let locked = ThreadLink {
        process: Some(10),
        address: Some("fd 3".to_owned()),
        ..expected(ViaKind::File)
    };
    assert_eq!(link(plainly("flock", [3, 2, 0]), unlocks()), locked);
    assert_eq!(link(plainly("fcntl", [3, 7, 0]), unlocks()), locked);
    // Another command than those that wait for a lock.
    assert_eq!(link(plainly("fcntl", [3, 4, 0]), unlocks()).kind, ViaKind::Wakeup);
    let futex = enters("futex", [0, 128, 0], (ObjectKind::Futex, 0x7f10, 5));
    assert_eq!(link(futex, plainly("tgkill", [1, 9, 1])), expected(ViaKind::Signal));
    let faults = || Some(TraceKind::Other("page_fault_user"));
    let of = |path: Vec<Segment>| ThreadLink::clone(path[1].via.as_ref().unwrap());
    let at = ThreadLink {
        process: Some(10),
        address: Some("0x7000".to_owned()),
        ..expected(ViaKind::Page)
    };
    assert_eq!(of(path(faults(), 2, None)), at);
    // A signal could end that sleep: it is none for a page.
    assert_eq!(of(path(faults(), ASLEEP, None)), expected(ViaKind::Wakeup));
}

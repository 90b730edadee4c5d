//! Recordings of ours with the calls of a server: two versions of it are compared by its port, without marks.

use std::net::SocketAddr;

use noise_common::store::calls::{CallInfo, ObjectKind};
use noise_paths::document::Traced;
use noise_trace::ctf::write::{Origin as Recorded, StreamWriter, metadata};
use noise_trace::event::{Comm, Task, TraceKind, Woken};
use noise_trace::ipc::{Call, Connection, Object, Return};
use noise_trace::state::LeftIn;
use tempfile::TempDir;

use super::*;
use crate::found::found;
use crate::recording::Recording;

const US: u64 = 1000;
const SERVER: i32 = 7;
const INODE: u64 = 5;
const PORTS: u32 = 80 << 16 | 40_000;

/// When a request begins and ends.
type Truth = (u64, u64);

struct Written {
    writer: StreamWriter,
    now_ns: u64,
    position: u32,
}

const fn softirq(vec: u32) -> [TraceKind<'static>; 2] {
    [TraceKind::SoftirqEntry { vec }, TraceKind::SoftirqExit { vec }]
}

fn task(tid: i32) -> Task {
    let name: &[u8] = if tid == SERVER { b"served" } else { b"swapper/0" };
    Task { comm: Comm::new(name), tid, prio: 20 }
}

impl Written {
    fn at(&mut self, ahead_ns: u64, kind: &TraceKind<'_>) -> u64 {
        self.now_ns += ahead_ns;
        self.writer.event(self.now_ns, kind);
        self.now_ns
    }

    fn switch(&mut self, ahead_ns: u64, prev: i32, next: i32) {
        let prev_state = LeftIn::of(if prev == 0 { 0 } else { 1 });
        let (prev, next) = (task(prev), task(next));
        self.at(ahead_ns, &TraceKind::SchedSwitch { prev, prev_state, next });
    }

    fn wakes(&mut self) {
        let woken = Woken { task: task(SERVER), target_cpu: 0 };
        self.at(US, &TraceKind::SchedWaking(woken));
    }

    fn enter(&mut self, name: &str, peer: u32) {
        let info = CallInfo::named(name).unwrap();
        let object = Object { kind: ObjectKind::Tcp, id: INODE, peer, position: 0 };
        let call = Call { info, tid: SERVER, arguments: [4, 0, 0], object };
        self.at(US, &TraceKind::SyscallEntry(call));
    }

    fn leave(&mut self, name: &str, ret: i64) -> u64 {
        let (info, position) = (CallInfo::named(name).unwrap(), self.position);
        let object = Object { kind: ObjectKind::Tcp, id: INODE, peer: 0, position };
        let end = Return { info, tid: SERVER, ret, object, peeks: false };
        self.at(US, &TraceKind::SyscallExit(end))
    }

    /// A request, for which the server sleeps that long. It is in a call that reads, and is so again.
    fn request(&mut self, sleep_ns: u64) -> Truth {
        let [begins, ends] = softirq(3);
        self.at(200 * US, &begins);
        self.position = self.position.wrapping_add(10);
        let object =
            Object { kind: ObjectKind::Tcp, id: INODE, peer: PORTS, position: self.position };
        let from_ns = self.at(US, &TraceKind::SkDataReady(object));
        self.wakes();
        self.at(US, &ends);
        self.switch(US, 0, SERVER);
        self.leave("recvfrom", 10);
        self.switch(100 * US, SERVER, 0);
        self.at(sleep_ns, &TraceKind::HrtimerExpireEntry { hrtimer: 1, function: 2, now: 3 });
        self.wakes();
        self.at(US, &TraceKind::HrtimerExpireExit { hrtimer: 1 });
        self.switch(US, 0, SERVER);
        self.enter("sendto", PORTS);
        let to_ns = self.leave("sendto", 100);
        self.enter("recvfrom", PORTS);
        self.switch(US, SERVER, 0);
        (from_ns, to_ns)
    }
}

/// A server that sleeps that long for each of its requests.
fn recorded(sleeps: impl Iterator<Item = u64>) -> (TempDir, Vec<Truth>) {
    let folder = tempfile::tempdir().unwrap();
    let origin = Recorded { recorder: "noised".to_owned(), has_calls: true, ..Recorded::default() };
    fs::write(folder.path().join("metadata"), metadata([1; 16], &origin)).unwrap();
    let writer = StreamWriter::new([1; 16], 0, 1 << 16, US);
    let mut written = Written { writer, now_ns: US, position: u32::MAX - 25 };
    written.switch(US, 0, SERVER);
    written.enter("accept4", 80 << 16);
    let [local, remote] =
        ["10.0.0.1:80", "10.0.0.2:40000"].map(|end| end.parse::<SocketAddr>().unwrap());
    let ends = Connection { inode: INODE as u32, protocol: 6, local, remote, namespace: 1 };
    written.at(US, &TraceKind::Connection(ends));
    let accepted_ns = written.leave("accept4", 4);
    written.enter("recvfrom", PORTS);
    written.switch(US, SERVER, 0);
    let mut truth: Vec<Truth> = sleeps.map(|us| written.request(us * US)).collect();
    written.switch(US, 0, SERVER);
    written.leave("recvfrom", 0);
    written.enter("close", PORTS);
    truth.push((accepted_ns, written.leave("close", 0)));
    written.writer.end(written.now_ns + US);
    fs::write(folder.path().join("channel0_0"), written.writer.take().bytes()).unwrap();
    (folder, truth)
}

#[test]
fn requests_of_a_port_are_those_of_the_server_to_the_nanosecond() {
    let (folder, mut truth) = recorded(normal(5));
    let connection = truth.pop().unwrap();
    let executions = |execution: &str| {
        let path = folder.path().to_str().unwrap();
        let args = args(&[path, path, "--execution", execution]).unwrap();
        let recording = Recording::open(folder.path()).unwrap();
        found(&args.asking, &recording, &[], None).map(|(document, _)| document.executions)
    };
    let span = |traced: &Traced| (traced.from_ns, traced.to_ns);
    let all = executions("request:80").unwrap();
    assert_eq!(all.iter().map(span).collect::<Vec<_>>(), truth);
    for traced in &all {
        assert_eq!((traced.tid, traced.comm.as_str()), (SERVER, "served"));
        // It sleeps until the timer, and, before that, until the packet wakes it.
        assert!(traced.totals_ns["timer"] >= 500 * US, "{:?}", traced.totals_ns);
        assert_eq!(traced.totals_ns["network"], US, "{:?}", traced.totals_ns);
        assert_eq!(traced.totals_ns.values().sum::<u64>(), traced.span_ns);
    }
    let all = executions("connection:80").unwrap();
    assert_eq!(all.iter().map(span).collect::<Vec<_>>(), [connection]);
    let error = executions("request:81").unwrap_err().to_string();
    assert_eq!(error, "request:81: this recording has no connection of port 81");
    let calls = "event:syscall_exit_recvfrom/port=80,process=served/..syscall_entry_sendto/port=80,process=7/";
    assert_eq!(executions(calls).unwrap().len(), truth.len());
}

#[test]
fn two_versions_of_a_server_are_compared_by_its_port() {
    let [one, other] = [0, 900].map(|more| recorded(normal(20).map(move |us| us + more)).0);
    let [one, other] = [&one, &other].map(|folder| folder.path().to_str().unwrap());
    let args = args(&[one, other, "--execution", "request:80"]).unwrap();
    let sets = Sets::read(&args.asking, &origin(&args)).unwrap();
    let comparison = compared(&sets.normal, &sets.sample, &args.how.settings()).unwrap();
    assert_eq!(comparison.effects[0].times.state, "timer");
    let counts = [&comparison.executions.normal, &comparison.executions.sample].map(Vec::len);
    assert_eq!(counts, [20, 20]);
}

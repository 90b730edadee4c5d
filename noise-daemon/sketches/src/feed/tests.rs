//! Events as recordings have them.

use noise_trace::fixtures::{ASLEEP, MadeEvent, MadeRecording, switch, task, waking};

use super::transfers::{TransferSide, transfers};
use super::*;
use crate::marker::MarkerRule;

#[derive(Default)]
struct Scene {
    feed: Feed,
    now_ns: u64,
}

impl Scene {
    fn make(&mut self, cpu: i32, made: MadeEvent) -> &mut Self {
        self.now_ns += 10;
        let record = Record::new(self.now_ns, cpu as u32, made);
        self.feed.follow(0, &record, &record.event());
        self
    }

    fn kind(&mut self, cpu: i32, kind: TraceKind<'static>) -> &mut Self {
        self.make(cpu, MadeEvent::new("", kind))
    }

    fn run(&mut self, tid: i32) -> &mut Self {
        self.kind(tid, switch(0, 0, tid))
    }

    fn sleep(&mut self, tid: i32) -> &mut Self {
        self.kind(tid, switch(tid, ASLEEP, 0))
    }

    fn wake(&mut self, by: i32, tid: i32) -> &mut Self {
        self.kind(by, waking(tid))
    }

    /// A call of the thread on that CPU.
    fn call(&mut self, tid: i32, name: &'static str, numbers: &[(&'static str, i64)]) -> &mut Self {
        self.make(tid, MadeEvent::other(name, numbers.to_vec().leak()))
    }

    fn made(
        &mut self,
        tid: i32,
        name: &'static str,
        field: &'static str,
        of: [i64; 2],
    ) -> &mut Self {
        let pairs = vec![(field, of)].leak();
        self.make(tid, MadeEvent { pairs, ..MadeEvent::other(name, &[("ret", 0)]) })
    }

    fn connection(&mut self, tid: i32, inode: i64, ends: [(&'static str, i64); 2]) -> &mut Self {
        let [(local, local_port), (remote, remote_port)] = ends;
        let numbers =
            vec![("inode", inode), ("local_port", local_port), ("remote_port", remote_port)];
        let texts = vec![("local_address", local), ("remote_address", remote)].leak();
        let made = MadeEvent::other("noised_connection", numbers.leak());
        self.make(tid, MadeEvent { texts, ..made })
    }

    fn finish(&mut self) -> System {
        std::mem::take(&mut self.feed).finish()
    }
}

fn edges(system: &System) -> Vec<(i32, i32, MarkerRule)> {
    let tid = |id: u32| {
        let slice = system.slice(id).unwrap();
        system.thread(slice).unwrap().tid
    };
    system.edges.iter().map(|edge| (tid(edge.from), tid(edge.to), edge.rule)).collect()
}

fn markers(system: &System) -> Vec<&'static str> {
    system.slices.iter().map(|slice| slice.marker.name()).collect()
}

/// What our recordings say of a call.
fn ours(kind: i64, id: i64, peer: i64) -> [(&'static str, i64); 3] {
    [("noised_object", kind), ("noised_id", id), ("noised_peer", peer)]
}

#[test]
fn requests_over_tcp_are_joined_by_their_bytes() {
    let mut scene = Scene::default();
    let (client, server) = (("127.0.0.1", 40_000), ("127.0.0.1", 80));
    let ports = |local: i64, remote: i64| local << 16 | remote;
    scene.run(1).run(2);
    scene.call(1, "syscall_entry_connect", &ours(1, 7, 0));
    scene.connection(1, 7, [client, server]);
    scene.call(1, "syscall_exit_connect", &[&ours(1, 7, 0)[..], &[("ret", 0)]].concat());
    scene.call(2, "syscall_entry_accept4", &ours(1, 5, ports(80, 0)));
    scene.connection(2, 8, [server, client]);
    scene.call(2, "syscall_exit_accept4", &[&ours(1, 8, 0)[..], &[("ret", 9)]].concat());
    let mut done = |tid, entry, exit, id, peer, ret: i64, position: i64| {
        scene.call(tid, entry, &ours(1, id, peer));
        let end = [("ret", ret), ("noised_position", position)];
        scene.call(tid, exit, &[&ours(1, id, 0)[..], &end].concat());
    };
    done(1, "syscall_entry_sendto", "syscall_exit_sendto", 7, ports(40_000, 80), 10, 110);
    done(2, "syscall_entry_read", "syscall_exit_read", 8, ports(80, 40_000), 10, 110);
    done(2, "syscall_entry_writev", "syscall_exit_writev", 8, ports(80, 40_000), 30, 530);
    done(1, "syscall_entry_recvfrom", "syscall_exit_recvfrom", 7, ports(40_000, 80), 30, 530);
    scene.call(2, "syscall_entry_close", &ours(1, 8, ports(80, 40_000)));
    scene.call(2, "syscall_exit_close", &[&ours(1, 8, 0)[..], &[("ret", 0)]].concat());
    let system = scene.finish();
    assert_eq!(markers(&system), ["tcp_accept", "tcp_send", "tcp_receive"]);
    assert_eq!(edges(&system), [(1, 2, MarkerRule::Bytes), (2, 1, MarkerRule::Bytes)]);
    let asks = &system.slices[1];
    assert_eq!(system.key(asks).ports(), [Some(40_000), Some(80)]);
    let calls: Vec<_> = system.profiles.calls(asks.profile).collect();
    assert_eq!(calls, [("sendto", 1), ("recvfrom", 1)]);
    assert_eq!(system.threads[0].comm.to_string(), "t1");
}

#[test]
fn datagrams_of_sockets_without_another_end_go_where_each_says() {
    let mut scene = Scene::default();
    let (client, other) = (("127.0.0.1", 40_000), ("127.0.0.1", 40_001));
    let (server, away) = (("127.0.0.1", 53), ("192.0.2.7", 53));
    let bound = |port: i64| port << 16;
    scene.run(1).run(2).run(3);
    let mut done = |tid, call: &str, socket: (i64, i64), ends| {
        let [entry, exit] = ["entry", "exit"].map(|part| format!("syscall_{part}_{call}").leak());
        scene.call(tid, entry, &ours(2, socket.0, bound(socket.1)));
        scene.connection(tid, socket.0, ends);
        scene.call(tid, exit, &[&ours(2, socket.0, 0)[..], &[("ret", 30)]].concat());
    };
    // Two ask the same server at a time; the first one asked another host before.
    done(1, "sendto", (7, 40_000), [client, away]);
    done(1, "recvfrom", (7, 40_000), [client, away]);
    done(1, "sendto", (7, 40_000), [client, server]);
    done(3, "sendmsg", (9, 40_001), [other, server]);
    done(2, "recvfrom", (8, 53), [server, client]);
    done(2, "sendto", (8, 53), [server, client]);
    done(2, "recvmsg", (8, 53), [server, other]);
    done(2, "sendmsg", (8, 53), [server, other]);
    done(1, "recvfrom", (7, 40_000), [client, server]);
    done(3, "recvmsg", (9, 40_001), [other, server]);
    let system = scene.finish();
    let expected = ["udp_send", "udp_send", "udp_send", "udp_receive", "udp_receive"];
    assert_eq!(markers(&system), expected);
    let requests = crate::requests::Requests::new(&system);
    let asked = [0, 1, 2].map(|id| requests.parts(id)[0].service.to_string());
    assert_eq!(asked, ["192.0.2.7:53", "127.0.0.1:53", "127.0.0.1:53"]);
    let asks = [3, 4].map(|id| system.key(&system.slices[id]).ports());
    assert_eq!(asks, [[Some(53), Some(40_000)], [Some(53), Some(40_001)]]);
}

#[test]
fn an_older_trace_says_what_a_descriptor_is_by_the_calls_that_made_it() {
    let mut scene = Scene::default();
    scene.run(1);
    scene.call(1, "sys_pipe", &[]).made(1, "syscall_exit_pipe2", "fildes", [3, 4]);
    // LTTng 2.5 does not name the end of a call.
    scene.call(1, "sys_pipe2", &[]).made(1, "syscall_exit_pipe2", "fildes", [5, 6]);
    let fork = TraceKind::SchedProcessFork {
        parent: task(1),
        parent_pid: 1,
        child: task(2),
        child_pid: 2,
    };
    scene.kind(1, fork).run(2);
    scene.call(2, "sys_read", &[("fd", 5), ("count", 10)]).sleep(2);
    scene.call(1, "sys_write", &[("fd", 6), ("count", 10)]);
    scene.wake(1, 2).call(1, "exit_syscall", &[("ret", 10)]);
    scene.run(2).call(2, "exit_syscall", &[("ret", 10)]);
    for tid in [1, 2] {
        scene.call(tid, "sys_read", &[("fd", 5), ("count", 10)]).sleep(tid);
    }
    let system = scene.finish();
    assert_eq!(markers(&system), ["pipe", "pipe"]);
    assert_eq!(edges(&system), [(1, 2, MarkerRule::Pipe)]);
    assert!(system.edges[0].woke);
}

#[test]
fn after_a_loss_descriptors_may_be_other_files() {
    let mut scene = Scene::default();
    scene.run(1).call(1, "sys_enter_pipe2", &[]);
    scene.made(1, "sys_exit_pipe2", "fildes", [3, 4]);
    scene.kind(9, TraceKind::Lost(noise_trace::event::LostEvents::default()));
    scene.run(1).call(1, "sys_enter_write", &[("fd", 4)]);
    scene.call(1, "sys_exit_write", &[("ret", 10)]);
    scene.call(1, "sys_enter_poll", &[]).sleep(1);
    assert_eq!(scene.finish().slices.len(), 0);
}

#[test]
fn what_a_thread_was_in_when_it_slept_while_events_were_lost_is_given_up() {
    let answered = |loss: Option<noise_trace::event::LostEvents>| {
        let mut scene = Scene::default();
        if let Some(loss) = loss {
            scene.kind(9, TraceKind::Lost(loss));
        }
        scene.run(1).call(1, "syscall_entry_recvfrom", &ours(3, 7, 8));
        scene.call(1, "syscall_exit_recvfrom", &[&ours(3, 7, 8)[..], &[("ret", 10)]].concat());
        scene.sleep(1);
        scene.now_ns = 1_000;
        scene.run(1).call(1, "syscall_entry_sendto", &ours(3, 7, 8));
        scene.call(1, "syscall_exit_sendto", &[&ours(3, 7, 8)[..], &[("ret", 10)]].concat());
        let system = scene.finish();
        (markers(&system).len(), system.counts.lost)
    };
    assert_eq!(answered(None), (1, 0));
    // It may have answered, and received the next one, on CPU 9.
    let unseen =
        |to_ns| Some(noise_trace::event::LostEvents { events: 0, packets: 0, from_ns: 10, to_ns });
    assert_eq!(answered(unseen(500)), (0, 1));
    assert_eq!(answered(unseen(15)), (1, 0));
}

#[test]
fn what_is_not_followed_is_named() {
    let mut scene = Scene::default();
    scene.run(1).call(1, "syscall_entry_io_uring_enter", &[("fd", 3)]);
    scene.call(1, "syscall_exit_io_uring_enter", &[("ret", 1)]);
    let counts = scene.finish().counts;
    assert_eq!(counts.not_followed.get("io_uring_enter"), Some(&1));
}

#[test]
fn what_is_looked_at_and_not_taken_comes_again() {
    let mut scene = Scene::default();
    scene.run(1);
    for (peeks, times) in [(1, 3), (0, 1)] {
        for _ in 0..times {
            scene.call(1, "syscall_entry_recvfrom", &ours(3, 7, 8));
            let end = [("ret", 10), ("noised_peek", peeks)];
            scene.call(1, "syscall_exit_recvfrom", &[&ours(3, 7, 8)[..], &end].concat());
        }
    }
    scene.call(1, "syscall_entry_sendto", &ours(3, 7, 8));
    scene.call(1, "syscall_exit_sendto", &[&ours(3, 7, 8)[..], &[("ret", 10)]].concat());
    let system = scene.finish();
    assert_eq!(markers(&system), ["unix_receive"]);
    let calls: Vec<_> = system.profiles.calls(system.slices[0].profile).collect();
    assert_eq!(calls, [("recvfrom", 1), ("sendto", 1)]);
}

#[test]
fn all_system_calls_of_a_slice_that_a_recording_has_are_its_features() {
    let mut scene = Scene::default();
    scene.run(1);
    let received = &ours(3, 7, 8)[..];
    scene.call(1, "syscall_entry_recvfrom", received);
    scene.call(1, "syscall_exit_recvfrom", &[received, &[("ret", 10)]].concat());
    for (entry, exit) in [
        ("syscall_entry_openat", "syscall_exit_openat"),
        ("sys_enter_fstat", "sys_exit_fstat"),
        ("compat_syscall_entry_mmap", "compat_syscall_exit_mmap"),
        ("syscall_entry_openat", "syscall_exit_openat"),
    ] {
        scene.call(1, entry, &[]).call(1, exit, &[("ret", 3)]);
    }
    scene.call(1, "syscall_entry_sendto", received);
    scene.call(1, "syscall_exit_sendto", &[received, &[("ret", 10)]].concat());
    let system = scene.finish();
    let calls: Vec<_> = system.profiles.calls(system.slices[0].profile).collect();
    assert_eq!(calls, [("recvfrom", 1), ("openat", 2), ("fstat", 1), ("mmap", 1), ("sendto", 1)]);
}

#[test]
fn signals_of_threads_are_followed_and_those_of_timers_are_not() {
    let mut scene = Scene::default();
    scene.run(1).run(2);
    for code in [0, -2] {
        let numbers = [("sig", 10), ("code", code), ("pid", 2), ("result", 0)];
        scene.call(1, "signal_generate", &numbers);
        scene.call(2, "signal_deliver", &[("sig", 10), ("code", code)]);
    }
    for tid in [1, 2] {
        scene.call(tid, "sys_enter_poll", &[]).sleep(tid);
    }
    assert_eq!(edges(&scene.finish()), [(1, 2, MarkerRule::Signal)]);
}

#[test]
fn what_one_machine_sends_has_the_key_of_what_the_other_one_receives() {
    let of = |name: &'static str, ports: i64, tid: i64, ret: i64, position: i64| {
        let end = [("noised_tid", tid), ("ret", ret), ("noised_position", position)];
        MadeEvent::other(name, [&ours(1, 7, ports)[..], &end].concat().leak())
    };
    let all = |events: &[MadeEvent]| {
        let mut found = Vec::new();
        let recording = MadeRecording::new((1..).map(|number| 10 * number).zip(events.to_vec()));
        transfers(recording, |transfer| found.push(transfer));
        found
    };
    let ports = |local: i64, remote: i64| local << 16 | remote;
    let sent = all(&[
        of("syscall_entry_sendto", ports(40_000, 80), 1, 0, 0),
        of("syscall_exit_sendto", 0, 1, 10, 110),
    ]);
    let received = all(&[
        of("syscall_entry_read", ports(80, 40_000), 2, 0, 0),
        of("syscall_exit_read", 0, 2, 4, 104),
        of("syscall_entry_read", ports(80, 40_000), 2, 0, 0),
        of("syscall_exit_read", 0, 2, 6, 110),
        of("syscall_entry_read", ports(80, 40_000), 2, 0, 0),
        of("syscall_exit_read", 0, 2, -11, 110),
    ]);
    // From the begin of the call that sends, to the end of that which receives.
    let [TransferSide { is_sent: true, key, time_ns: 10 }] = sent[..] else { panic!("{sent:?}") };
    assert_eq!(received.len(), 2);
    let expected = TransferSide { is_sent: false, key, time_ns: 40 };
    assert!(received[0].key != key && received[1] == expected, "{received:?}");
}

#[test]
fn calls_under_way_and_files_of_a_dump_have_bounds() {
    let mut scene = Scene::default();
    for number in 2_000..3_000 {
        scene.call(1, "syscall_entry_read", &[("noised_tid", number), ("fd", 3)]);
        scene.call(1, "syscall_exit_read", &[("noised_tid", number), ("ret", -512)]);
    }
    for number in 1..1_000 {
        scene.call(1, "syscall_entry_read", &[("noised_tid", number), ("fd", 3)]);
        let texts = vec![("filename", &*format!("pipe:[{number}]").leak())].leak();
        let dumped = MadeEvent::other("lttng_statedump_file_descriptor", &[("pid", 1), ("fd", 3)]);
        scene.make(1, MadeEvent { texts, ..dumped });
    }
    let of = &scene.feed.machines[0];
    let counts = [of.calls.len(), of.interrupted.len(), of.dumped.len()];
    assert_eq!(counts, [MAX_CALLS, MAX_CALLS, MAX_DUMPED]);
    // Ids that no thread has are not followed.
    let beyond = i64::from(MAX_TID);
    let mut scene = Scene::default();
    scene.call(1, "syscall_entry_read", &[("noised_tid", beyond), ("fd", 3)]);
    assert!(scene.feed.machines[0].calls.is_empty());
}

//! Small scenes, each of one rule.

use noise_trace::event::Comm;

use super::*;
use crate::input::{Act, Bytes, Endpoint, Known, Local, Much, Protocol};
use crate::marker::{Family, MarkerRule};
use crate::slices::Edge;

/// Threads with a CPU each: thread 7 is on CPU 7.
#[derive(Default)]
struct Scene {
    follower: Follower,
    now_ns: u64,
}

const PIPE: Local = Local::Pipe { inode: 5, superblock: 1 };
const FUTEX: Local = Local::Futex { space: 1, address: 64 };

fn end(id: u64, out: u64, into: u64) -> Endpoint {
    Endpoint { protocol: Protocol::Tcp, id, out, into, local: None, remote: None }
}

fn bytes(at: u32, length: u64) -> Bytes {
    Bytes { at: Some(at), length }
}

impl Scene {
    fn at(&mut self, tid: i32, what: What<'_>) -> &mut Self {
        self.now_ns += 10;
        let (time_ns, cpu) = (self.now_ns, tid as u32);
        self.follower.follow(&Input { time_ns, machine: 0, cpu, tid: 0, what });
        self
    }

    fn run(&mut self, tid: i32) -> &mut Self {
        self.at(tid, What::Switch { prev: 0, sleeps: false, next: tid })
    }

    fn sleep(&mut self, tid: i32) -> &mut Self {
        self.at(tid, What::Switch { prev: tid, sleeps: true, next: 0 })
    }

    fn enter(&mut self, tid: i32, purpose: Purpose, object: Option<ChannelObject>) -> &mut Self {
        self.at(tid, What::Enters { call: "call", purpose, object })
    }

    /// Begins to wait, and sleeps.
    fn wait(&mut self, tid: i32, purpose: Purpose, object: Option<ChannelObject>) -> &mut Self {
        self.enter(tid, purpose, object).sleep(tid)
    }

    fn act(&mut self, tid: i32, act: Act) -> &mut Self {
        self.at(tid, What::Act(act))
    }

    fn done(&mut self, tid: i32, act: Act) -> &mut Self {
        self.act(tid, act).at(tid, What::Leaves)
    }

    fn wake(&mut self, by: i32, tid: i32) -> &mut Self {
        self.at(by, What::Waking { tid, in_task: true })
    }

    fn finish(&mut self) -> System {
        std::mem::take(&mut self.follower).finish()
    }
}

fn local(local: Local) -> Option<ChannelObject> {
    Some(ChannelObject::Local(local))
}

/// Slices as thread and marker.
fn slices(system: &System) -> Vec<(i32, &'static str)> {
    let named = |slice: &crate::slices::Slice| {
        (system.thread(slice).map_or(0, |thread| thread.tid), slice.marker.name())
    };
    system.slices.iter().map(named).collect()
}

/// Edges as the two threads and the rule.
fn edges(system: &System) -> Vec<(i32, i32, MarkerRule)> {
    let all = slices(system);
    let tid = |id: SliceId| all[id as usize].0;
    system.edges.iter().map(|edge: &Edge| (tid(edge.from), tid(edge.to), edge.rule)).collect()
}

#[test]
fn who_wakes_a_thread_inside_a_call_on_the_same_futex_causes_what_it_does() {
    let mut scene = Scene::default();
    for tid in [1, 2, 3] {
        scene.run(tid);
    }
    // Two wake on it at the same time; which of them woke thread 3 is known by its waking.
    scene.wait(3, Purpose::Receive, local(FUTEX));
    scene.enter(1, Purpose::Send, local(FUTEX)).enter(2, Purpose::Send, local(FUTEX));
    scene.wake(2, 3).done(1, Act::Posted(FUTEX)).done(2, Act::Posted(FUTEX));
    scene.run(3).done(3, Act::Taken(FUTEX, Much::One));
    for tid in [1, 2, 3] {
        scene.wait(tid, Purpose::Receive, None);
    }
    let system = scene.finish();
    assert_eq!(edges(&system), [(2, 3, MarkerRule::Waking)]);
    assert!(system.edges[0].woke && system.edges[0].opens);
    assert_eq!(system.counts.ambiguous, 0);
}

#[test]
fn without_its_waking_one_of_two_is_not_guessed() {
    let mut scene = Scene::default();
    for tid in [1, 2, 3] {
        scene.run(tid);
    }
    scene.wait(3, Purpose::Receive, local(FUTEX));
    scene.enter(1, Purpose::Send, local(FUTEX)).done(1, Act::Posted(FUTEX));
    scene.enter(2, Purpose::Send, local(FUTEX)).done(2, Act::Posted(FUTEX));
    scene.run(3).done(3, Act::Taken(FUTEX, Much::One));
    for tid in [1, 2, 3] {
        scene.wait(tid, Purpose::Receive, None);
    }
    let system = scene.finish();
    assert_eq!((edges(&system), system.counts.ambiguous), (vec![], 1));
}

#[test]
fn a_lock_that_another_request_held_does_not_join_both() {
    let mut scene = Scene::default();
    let (one, other) = (end(1, 11, 12), end(2, 21, 22));
    scene.run(1).run(2);
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(one, bytes(0, 5)));
    scene.enter(2, Purpose::Receive, None).done(2, Act::Received(other, bytes(0, 5)));
    scene.wait(2, Purpose::Receive, local(FUTEX));
    scene.enter(1, Purpose::Send, local(FUTEX)).wake(1, 2).done(1, Act::Posted(FUTEX));
    scene.run(2).done(2, Act::Taken(FUTEX, Much::One));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(one, bytes(0, 5)));
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(other, bytes(0, 5)));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "tcp_receive"), (2, "tcp_receive")]);
    assert_eq!(edges(&system), [(1, 2, MarkerRule::Waking)]);
    assert!(!system.edges[0].joins);
    assert_eq!(system.sketches, [0, 1]);
    // It waited for none that it had caused.
    assert!(system.slices.iter().all(|slice| slice.true_latency_ns == slice.latency_ns()));
}

#[test]
fn connections_last_from_connect_to_close_and_both_sides_are_joined() {
    let mut scene = Scene::default();
    let (client, server) = (end(1, 11, 12), end(2, 12, 11));
    scene.run(1).run(2).run(3);
    scene.enter(1, Purpose::Connect, None).done(1, Act::Connected(client));
    scene.enter(2, Purpose::Receive, None).done(2, Act::Accepted(server));
    // Thread 3 of the same process goes on with what thread 2 accepted, and closes it.
    let known =
        |tid| What::Known(Known { tid, pid: 2, comm: Comm::new(b"httpd"), is_kernel: false });
    scene.at(2, known(2)).at(3, known(3));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(client, bytes(0, 5)));
    scene.enter(3, Purpose::Receive, None).done(3, Act::Received(server, bytes(0, 5)));
    scene.enter(3, Purpose::Send, None).done(3, Act::Sent(server, bytes(70, 9)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, bytes(70, 9)));
    scene.enter(3, Purpose::Connect, None).done(3, Act::Closed(server));
    scene.enter(1, Purpose::Connect, None).done(1, Act::Closed(client));
    let system = scene.finish();
    let expected = [(1, "tcp_connect"), (3, "tcp_accept"), (1, "tcp_send"), (3, "tcp_receive")];
    assert_eq!(slices(&system), expected);
    let mut found = edges(&system);
    found.sort_by_key(|edge| (edge.2, edge.0));
    let expected =
        [(1, 3, MarkerRule::Bytes), (3, 1, MarkerRule::Bytes), (1, 3, MarkerRule::Connection)];
    assert_eq!(found, expected);
    // The client's request waited for the server's.
    let [asks, serves] = [&system.slices[2], &system.slices[3]];
    assert_eq!(asks.true_latency_ns, asks.latency_ns() - serves.latency_ns());
    assert_eq!(system.counts, SketchCounts::default());
}

#[test]
fn connections_whose_addresses_come_again_are_not_two_sides_of_one() {
    let mut scene = Scene::default();
    let connects = (1, end(1, 11, 12), Act::Connected as fn(Endpoint) -> Act);
    let accepts = (2, end(2, 12, 11), Act::Accepted as fn(Endpoint) -> Act);
    scene.run(1).run(2);
    // Of the first four one side alone was seen.
    for (tid, end, act) in [accepts, accepts, connects, connects, accepts] {
        scene.enter(tid, Purpose::Other, None).done(tid, act(end));
        scene.enter(tid, Purpose::Other, None).done(tid, Act::Closed(end));
    }
    let system = scene.finish();
    assert_eq!(edges(&system), [(1, 2, MarkerRule::Connection)]);
}

#[test]
fn a_connection_that_a_stranger_closes_is_counted() {
    let mut scene = Scene::default();
    let server = end(2, 12, 11);
    let known = |tid, pid| What::Known(Known { tid, pid, comm: Comm::default(), is_kernel: false });
    scene.run(1).run(2).at(1, known(1, 1)).at(2, known(2, 1));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Accepted(server));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(server, bytes(0, 5)));
    scene.enter(2, Purpose::Connect, None).done(2, Act::Closed(server));
    let system = scene.finish();
    assert_eq!((system.counts.closed_elsewhere, slices(&system)), (1, vec![]));
}

#[test]
fn what_a_thread_did_is_not_counted_up_to_where_another_one_closes() {
    let mut scene = Scene::default();
    let server = end(5, 50, 51);
    // That of thread 3 is another process, which inherited the connection.
    for (tid, pid) in [(1, 1), (2, 1), (3, 3)] {
        scene.run(tid).at(tid, What::Known(Known { tid, pid, ..Known::default() }));
    }
    scene.wait(1, Purpose::Other, None).run(1).at(1, What::Leaves);
    for tid in [2, 3] {
        scene.enter(tid, Purpose::Receive, None).done(tid, Act::Received(server, bytes(0, 5)));
    }
    scene.enter(1, Purpose::Other, None).done(1, Act::Closed(server));
    scene.wait(2, Purpose::Receive, None).wait(3, Purpose::Receive, None);
    let system = scene.finish();
    assert_eq!(slices(&system), [(3, "tcp_receive")]);
}

#[test]
fn requests_of_several_on_one_connection_are_left_out() {
    let mut scene = Scene::default();
    let (one, two, behind) = (end(1, 11, 12), end(2, 21, 22), end(3, 31, 32));
    scene.run(1);
    // A loop asks the same server for two clients before any answer.
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(one, bytes(0, 5)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(behind, bytes(0, 5)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(two, bytes(0, 5)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(behind, bytes(5, 5)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(behind, bytes(0, 9)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(one, bytes(0, 9)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(two, bytes(0, 9)));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "tcp_receive"), (1, "tcp_receive")]);
    assert_eq!(system.counts.overlapping, 1);
}

/// As `end`, of a connection between a client's port and that of a server.
fn ported(id: u64, out: u64, into: u64, [local, remote]: [u16; 2]) -> Endpoint {
    let address = |port: u16| Some(([127, 0, 0, 1], port).into());
    Endpoint { local: address(local), remote: address(remote), ..end(id, out, into) }
}

#[test]
fn whose_port_is_listened_on_serves_on_connections_from_before() {
    // The second one's ports are both of those that are given; nothing is known of the third one.
    for (ports, listens, expected) in [
        ([40_000, 80], 1, [(1, "tcp_send"), (2, "tcp_receive")]),
        ([40_000, 50_000], 50_000, [(1, "tcp_send"), (2, "tcp_receive")]),
        ([40_000, 50_000], 1, [(2, "tcp_send"), (1, "tcp_receive")]),
    ] {
        let mut scene = Scene::default();
        let [client, server] = ports;
        let client = ported(1, 11, 12, [client, server]);
        let server = ported(2, 12, 11, [ports[1], ports[0]]);
        scene.follower.listens(listens);
        scene.run(1).run(2);
        // The answer to a request from before.
        scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(90, 5)));
        scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, bytes(90, 5)));
        for at in [5, 10] {
            scene.enter(1, Purpose::Send, None).done(1, Act::Sent(client, bytes(at, 5)));
            scene.enter(2, Purpose::Receive, None).done(2, Act::Received(server, bytes(at, 5)));
            scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(at + 90, 5)));
            let answer = Act::Received(client, bytes(at + 90, 5));
            scene.enter(1, Purpose::Receive, None).done(1, answer);
        }
        let system = scene.finish();
        assert_eq!(slices(&system)[..2], expected, "{ports:?}");
    }
}

#[test]
fn what_a_loop_sends_first_is_of_what_it_connected_for() {
    let mut scene = Scene::default();
    let (one, two, behind) = (end(1, 11, 12), end(2, 21, 22), end(3, 31, 32));
    scene.run(1);
    // It connects for the first request, and has the second one before that is done.
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(one, bytes(0, 5)));
    scene.enter(1, Purpose::Connect, None).done(1, Act::Connected(behind));
    scene.enter(1, Purpose::Loop, None).at(1, What::Leaves);
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(two, bytes(0, 5)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(behind, bytes(0, 5)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(behind, bytes(0, 9)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(one, bytes(0, 9)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(two, bytes(0, 9)));
    scene.enter(1, Purpose::Connect, None).done(1, Act::Closed(behind));
    let system = scene.finish();
    let asks = system.slices.iter().find(|slice| slice.marker == Marker::Send(Family::Tcp));
    let cause = system.slice(asks.unwrap().cause).unwrap();
    assert_eq!(system.key(cause), &crate::slices::Key::End(one));
}

#[test]
fn a_bound_unix_socket_serves_on_connections_from_before() {
    let unix = |id, out, into| Endpoint { protocol: Protocol::UnixStream, ..end(id, out, into) };
    let (client, server) = (unix(1, 11, 12), unix(2, 12, 11));
    let some = |length| Bytes { at: None, length };
    let mut scene = Scene::default();
    scene.follower.is_bound(12);
    scene.run(1).run(2);
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, some(5)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, some(5)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(client, some(5)));
    scene.enter(2, Purpose::Receive, None).done(2, Act::Received(server, some(5)));
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, some(5)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, some(5)));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "unix_send"), (2, "unix_receive")]);
}

#[test]
fn a_server_that_greets_first_is_a_server() {
    let mut scene = Scene::default();
    let (client, server) = (end(1, 11, 12), end(2, 12, 11));
    scene.run(1).run(2);
    scene.enter(1, Purpose::Connect, None).done(1, Act::Connected(client));
    scene.enter(2, Purpose::Receive, None).done(2, Act::Accepted(server));
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(0, 5)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, bytes(0, 5)));
    for at in [5, 10] {
        scene.enter(1, Purpose::Send, None).done(1, Act::Sent(client, bytes(at, 5)));
        scene.enter(2, Purpose::Receive, None).done(2, Act::Received(server, bytes(at, 5)));
        scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(at, 5)));
        scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, bytes(at, 5)));
    }
    let system = scene.finish();
    let asked = [(1, "tcp_send"), (2, "tcp_receive"), (1, "tcp_send"), (2, "tcp_receive")];
    assert_eq!(slices(&system), asked);
    assert_eq!(edges(&system).len(), 4);
}

#[test]
fn messages_go_in_their_order() {
    let mut scene = Scene::default();
    let udp = |id, out, into| Endpoint { protocol: Protocol::Udp, ..end(id, out, into) };
    let (client, server) = (udp(1, 11, 12), udp(2, 12, 11));
    let message = |length| Bytes { at: None, length };
    scene.run(1).run(2);
    scene.wait(2, Purpose::Receive, Some(ChannelObject::End(server)));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(client, message(40)));
    scene.run(2).done(2, Act::Received(server, message(40)));
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, message(90)));
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(client, message(90)));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "udp_send"), (2, "udp_receive")]);
    // What the client's socket held before is not known.
    assert_eq!(edges(&system), [(1, 2, MarkerRule::Message)]);
    assert_eq!(system.counts.unmatched, 1);
}

#[test]
fn queues_eventfds_semaphores_and_signals_have_their_rules() {
    let queue = Local::Queue(3);
    let eventfd = Local::Eventfd(4);
    let semaphore = Local::Semaphore(5);
    let signal = Local::Signal { pid: 2, number: 10 };
    for (object, much, rule) in [
        (queue, Much::One, MarkerRule::Queue),
        (eventfd, Much::All, MarkerRule::Eventfd),
        (signal, Much::One, MarkerRule::Signal),
        (semaphore, Much::IfWoken, MarkerRule::Waking),
    ] {
        let mut scene = Scene::default();
        scene.run(1).run(2);
        scene.wait(2, Purpose::Receive, local(object));
        scene.enter(1, Purpose::Send, local(object));
        if object == semaphore {
            scene.wake(1, 2);
        } else {
            scene.act(1, Act::Posted(object));
        }
        scene.at(1, What::Leaves);
        scene.run(2).done(2, Act::Taken(object, much));
        scene.wait(1, Purpose::Receive, None).wait(2, Purpose::Receive, None);
        let system = scene.finish();
        assert_eq!(edges(&system), [(1, 2, rule)], "{object:?}");
        assert_eq!(system.counts, SketchCounts::default());
    }
}

#[test]
fn threads_are_created_and_joined() {
    let mut scene = Scene::default();
    let server = end(2, 12, 11);
    scene.run(1);
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(server, bytes(0, 5)));
    scene.at(1, What::Created { parent: 1, child: 9, pid: 1 }).run(9);
    // The kernel wakes those who wait for a thread's end by its futex.
    scene.wait(1, Purpose::Receive, local(FUTEX));
    scene.enter(9, Purpose::Exit, None).wake(9, 1).at(9, What::Exited(9));
    scene.run(1).done(1, Act::Taken(FUTEX, Much::One));
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(server, bytes(0, 5)));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "tcp_receive"), (9, "process")]);
    assert_eq!(edges(&system), [(1, 9, MarkerRule::Clone), (9, 1, MarkerRule::Exit)]);
    let [request, thread] = [&system.slices[0], &system.slices[1]];
    assert_eq!(request.true_latency_ns, request.latency_ns() - thread.latency_ns());
}

#[test]
fn requests_of_a_process_that_no_request_made_are_apart() {
    let mut scene = Scene::default();
    let client = end(1, 11, 12);
    scene.run(1).act(1, Act::Made(PIPE));
    // What it read before does not make its children's work one.
    scene.wait(1, Purpose::Receive, local(PIPE)).run(1).done(1, Act::Got(PIPE, 4));
    scene.at(1, What::Created { parent: 1, child: 9, pid: 9 }).run(9);
    for at in [0, 5] {
        scene.enter(9, Purpose::Send, None).done(9, Act::Sent(client, bytes(at, 5)));
        scene.wait(9, Purpose::Receive, Some(ChannelObject::End(client))).run(9);
        scene.done(9, Act::Received(client, bytes(at, 5)));
    }
    scene.at(9, What::Exited(9)).wait(1, Purpose::Receive, local(Local::Child));
    let system = scene.finish();
    let expected = [(1, "pipe"), (9, "process"), (9, "tcp_send"), (9, "tcp_send")];
    assert_eq!(slices(&system), expected);
    assert_eq!(system.sketches, [0, 0, 2, 3]);
}

#[test]
fn a_kernel_thread_works_for_who_woke_it() {
    let mut scene = Scene::default();
    let server = end(2, 12, 11);
    let known = What::Known(Known { tid: 9, pid: 9, comm: Comm::new(b"kworker"), is_kernel: true });
    scene.at(1, known).run(1);
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(server, bytes(0, 5)));
    scene.enter(1, Purpose::Other, None).wake(1, 9).sleep(1);
    scene.run(9).wake(9, 1).sleep(9);
    scene.run(1).at(1, What::Leaves);
    scene.enter(1, Purpose::Send, None).done(1, Act::Sent(server, bytes(0, 5)));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "tcp_receive"), (9, "wakeup")]);
    assert_eq!(edges(&system), [(1, 9, MarkerRule::Waking), (9, 1, MarkerRule::Waking)]);
    let [request, kernel] = [&system.slices[0], &system.slices[1]];
    assert_eq!(request.true_latency_ns, request.latency_ns() - kernel.latency_ns());
    assert_eq!((request.idle_count, request.idle_ns), (1, 40));
}

#[test]
fn what_comes_back_by_a_pipe_goes_on_with_what_asked() {
    let back = Local::Pipe { inode: 6, superblock: 1 };
    let mut scene = Scene::default();
    scene.run(1).run(2);
    scene.act(1, Act::Made(PIPE)).act(1, Act::Made(back));
    scene.wait(2, Purpose::Receive, local(PIPE));
    for _ in 0..2 {
        scene.enter(1, Purpose::Send, local(PIPE)).wake(1, 2).done(1, Act::Put(PIPE, 4));
        scene.wait(1, Purpose::Receive, local(back));
        scene.run(2).done(2, Act::Got(PIPE, 4));
        scene.enter(2, Purpose::Send, local(back)).wake(2, 1).done(2, Act::Put(back, 4));
        scene.wait(2, Purpose::Receive, local(PIPE));
        scene.run(1).done(1, Act::Got(back, 4));
    }
    let system = scene.finish();
    // One slice for each question, with its answer.
    assert_eq!(slices(&system), [(1, "pipe"), (2, "pipe"), (1, "pipe"), (2, "pipe")]);
    assert_eq!(system.sketches, [0, 0, 2, 2]);
    for pair in system.slices.chunks(2) {
        assert_eq!(pair[0].true_latency_ns, pair[0].latency_ns() - pair[1].latency_ns());
    }
}

#[test]
fn what_comes_next_is_another_piece_of_work_also_without_a_sleep() {
    let back = Local::Pipe { inode: 6, superblock: 1 };
    let mut scene = Scene::default();
    scene.run(1).run(2).act(1, Act::Made(PIPE)).act(1, Act::Made(back));
    for _ in 0..2 {
        scene.enter(1, Purpose::Send, local(PIPE)).done(1, Act::Put(PIPE, 4));
        scene.wait(1, Purpose::Receive, None).run(1).at(1, What::Leaves);
    }
    // Two parts of one, then an answer; then another one, which was there already.
    scene.enter(2, Purpose::Receive, local(PIPE)).done(2, Act::Got(PIPE, 2));
    scene.enter(2, Purpose::Receive, local(PIPE)).done(2, Act::Got(PIPE, 2));
    scene.enter(2, Purpose::Send, local(back)).done(2, Act::Put(back, 4));
    scene.enter(2, Purpose::Receive, local(PIPE)).done(2, Act::Got(PIPE, 4));
    scene.wait(2, Purpose::Receive, local(PIPE));
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "pipe"), (1, "pipe"), (2, "pipe"), (2, "pipe")]);
    assert_eq!(system.sketches, [0, 1, 0, 1]);
}

#[test]
fn a_thread_that_may_have_lost_events_gives_up_what_it_was_in() {
    let mut scene = Scene::default();
    let (one, two) = (end(1, 11, 12), end(2, 21, 22));
    scene.run(1).run(2).run(3);
    for (tid, server) in [(1, one), (2, two)] {
        scene.enter(tid, Purpose::Receive, None).done(tid, Act::Received(server, bytes(0, 5)));
    }
    // Thread 2 sleeps meanwhile, and may have been on that CPU; thread 1 was on its own all the time.
    scene.wait(2, Purpose::Receive, None).at(3, What::Lost { until_ns: 0 }).run(2);
    for (tid, server) in [(1, one), (2, two)] {
        scene.enter(tid, Purpose::Send, None).done(tid, Act::Sent(server, bytes(0, 5)));
    }
    let system = scene.finish();
    assert_eq!(slices(&system), [(1, "tcp_receive")]);
    assert_eq!(system.counts.lost, 1);
}

#[test]
fn a_switch_that_the_kernel_did_not_report_is_no_lost_event() {
    let given_up = |loss: Option<u64>| {
        let mut scene = Scene::default();
        let server = end(2, 21, 22);
        scene.run(2).enter(2, Purpose::Receive, None).done(2, Act::Received(server, bytes(0, 5)));
        if let Some(until_ns) = loss {
            scene.at(2, What::Lost { until_ns });
        }
        // Its CPU goes to a thread that no switch leads away from.
        scene.sleep(2).at(2, What::Switch { prev: 0, sleeps: false, next: 9 }).sleep(2).run(2);
        scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(0, 5)));
        let system = scene.finish();
        assert_eq!(slices(&system), []);
        (system.counts.lost, system.counts.unpaired)
    };
    assert_eq!(given_up(None), (0, 1));
    assert_eq!(given_up(Some(1_000)), (1, 0));
}

#[test]
fn a_server_that_never_sleeps_is_not_followed_by_more_than_its_connections() {
    let mut scene = Scene::default();
    scene.run(1);
    for turn in 0..100 {
        for id in 1..=3 {
            let (request, answer) = (bytes(turn * 5, 5), bytes(turn * 7, 7));
            let server = end(id, 10 * id, 10 * id + 1);
            scene.enter(1, Purpose::Receive, None).done(1, Act::Received(server, request));
            scene.enter(1, Purpose::Send, None).done(1, Act::Sent(server, answer));
        }
    }
    assert_eq!(scene.follower.persons.get(0).unwrap().fresh.len(), 3);
    assert_eq!(slices(&scene.finish()).len(), 300);
}

#[test]
fn losses_are_no_begin_and_no_end() {
    let mut scene = Scene::default();
    scene.at(2, What::Lost { until_ns: 0 }).run(1).at(2, What::Lost { until_ns: 0 });
    assert_eq!(scene.finish().span, (20, 20));
}

#[test]
fn markers_of_connections_are_named_by_their_protocol() {
    for (protocol, family) in [
        (Protocol::UnixStream, Family::Unix),
        (Protocol::UnixMessages, Family::Unix),
        (Protocol::Unknown, Family::Socket),
    ] {
        let mut scene = Scene::default();
        let server = Endpoint { protocol, ..end(2, 12, 11) };
        scene.run(1);
        scene.enter(1, Purpose::Receive, None).done(1, Act::Received(server, bytes(0, 5)));
        scene.enter(1, Purpose::Send, None).done(1, Act::Sent(server, bytes(0, 5)));
        let system = scene.finish();
        assert_eq!(system.slices[0].marker, Marker::Receive(family));
    }
}

/// Thread 1 gets a request on that connection, thread 2 takes something up and answers it.
fn answers_for(scene: &mut Scene, server: Endpoint) {
    scene.enter(1, Purpose::Receive, None).done(1, Act::Received(server, bytes(0, 5)));
    scene.enter(2, Purpose::Receive, local(FUTEX)).done(2, Act::Taken(FUTEX, Much::One));
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(0, 5)));
}

#[test]
fn of_very_many_pieces_of_work_all_are_of_the_request_that_is_answered_next() {
    let mut scene = Scene::default();
    scene.run(1).run(2);
    // One comes before all requests.
    scene.enter(2, Purpose::Receive, local(FUTEX)).done(2, Act::Taken(FUTEX, Much::One));
    scene.enter(2, Purpose::Send, None).done(2, Act::Put(PIPE, 4));
    (1..100).for_each(|id| answers_for(&mut scene, end(id, 10 * id, 10 * id + 1)));
    scene.wait(1, Purpose::Receive, None).wait(2, Purpose::Receive, local(FUTEX));
    let system = scene.finish();
    let (pieces, named) = (|| (0..).zip(slices(&system)), (2, "futex"));
    assert_eq!(pieces().filter(|(_, slice)| *slice == named).count(), 100);
    let is_of_none = |id: usize| system.slices[id].cause == crate::slices::NONE;
    let of_none = pieces().filter(|(id, slice)| *slice == named && is_of_none(*id));
    assert_eq!(of_none.map(|(id, _)| id).collect::<Vec<_>>(), [0]);
}

#[test]
fn requests_that_are_answered_are_those_of_who_received_them() {
    let mut scene = Scene::default();
    let server = end(5, 50, 51);
    scene.run(1).run(2);
    answers_for(&mut scene, server);
    scene.enter(2, Purpose::Receive, local(FUTEX)).done(2, Act::Taken(FUTEX, Much::One));
    scene.enter(2, Purpose::Send, None).done(2, Act::Sent(server, bytes(5, 5)));
    let counts = [0, 1].map(|place| scene.follower.persons.get(place).unwrap().answered);
    assert_eq!(counts, [1, 0]);
}

//! Servers at port 80, as our recordings have what they do.

use noise_trace::event::{LostEvents, TraceKind};
use noise_trace::fixtures::{MadeEvent, switch};
use noise_trace::record::Record;

use super::PortWorkEnd::{Lost, Overlapping, Unbegun, Unfinished, Whole};
use super::unread::MAX_ARRIVALS;
use super::*;
use crate::feed::CallReader;

mod generated;

/// The port of the server, and one of a client.
const PORT: i64 = 80;
const CLIENT: i64 = 40_000;

/// Calls, each event 10 ns after the one before.
pub struct Scene {
    reader: CallReader<PortFollower>,
    pub now_ns: u64,
}

impl Scene {
    pub fn of(kind: PortWorkKind) -> Self {
        let mut scene = Self { reader: CallReader::new(PortFollower::new(kind, &[80])), now_ns: 0 };
        for tid in 1..=12 {
            scene.make(tid, MadeEvent::new("", switch(0, 0, tid)));
        }
        scene.now_ns = 1_000;
        scene
    }

    fn requests() -> Self {
        Self::of(PortWorkKind::Requests)
    }

    fn make(&mut self, cpu: i32, made: MadeEvent) -> u64 {
        self.now_ns += 10;
        let record = match made.kind {
            TraceKind::Lost(lost) => Record::lost(self.now_ns, cpu as u32, lost),
            _ => Record::new(self.now_ns, cpu as u32, made),
        };
        self.reader.follow(0, &record, &record.event());
        self.now_ns
    }

    fn named(&mut self, tid: i32, name: String, numbers: &[(&'static str, i64)]) -> u64 {
        self.make(tid, MadeEvent::other(name.leak(), numbers.to_vec().leak()))
    }

    /// A thread begins a call on a connection.
    pub fn enter(&mut self, tid: i32, call: &str, id: i64) -> u64 {
        let object = [
            ("noised_tid", tid.into()),
            ("noised_object", 1),
            ("noised_id", id),
            ("noised_peer", PORT << 16 | (CLIENT + id)),
        ];
        self.named(tid, format!("syscall_entry_{call}"), &object)
    }

    /// It ends, with so many bytes, the last of them before that place.
    pub fn leave(&mut self, tid: i32, call: &str, id: i64, ret: i64, place: i64) -> u64 {
        let end = [
            ("noised_tid", tid.into()),
            ("ret", ret),
            ("noised_object", 1),
            ("noised_id", id),
            ("noised_peer", 0),
            ("noised_position", place),
        ];
        self.named(tid, format!("syscall_exit_{call}"), &end)
    }

    /// All of a call that reads, or that sends: when it begins, and when it ends.
    pub fn read(&mut self, tid: i32, id: i64, bytes: i64, place: i64) -> u64 {
        self.enter(tid, "recvfrom", id);
        self.leave(tid, "recvfrom", id, bytes, place)
    }

    pub fn send(&mut self, tid: i32, id: i64) -> [u64; 2] {
        let began_ns = self.enter(tid, "sendto", id);
        [began_ns, self.leave(tid, "sendto", id, 100, 0)]
    }

    /// Bytes come, the last of them before that place.
    pub fn come(&mut self, id: i64, port: i64, place: i64) -> u64 {
        let peer = PORT << 16 | (CLIENT + port);
        let object = [
            ("noised_object", 1),
            ("noised_id", id),
            ("noised_peer", peer),
            ("noised_position", place),
        ];
        // Where the idle task runs.
        self.named(99, "sk_data_ready".to_owned(), &object)
    }

    /// A connection is accepted.
    pub fn accept(&mut self, tid: i32, id: i64) -> u64 {
        let listener = [
            ("noised_tid", tid.into()),
            ("noised_object", 1),
            ("noised_id", 9_999),
            ("noised_peer", PORT << 16),
        ];
        self.named(tid, "syscall_entry_accept4".to_owned(), &listener);
        let ports = vec![("inode", id), ("local_port", PORT), ("remote_port", CLIENT + id)];
        let texts = &[("local_address", "10.0.0.1"), ("remote_address", "10.0.0.2")];
        let made = MadeEvent::other("noised_connection", ports.leak());
        self.make(tid, MadeEvent { texts, ..made });
        self.leave(tid, "accept4", id, 7, 0)
    }

    pub fn close(&mut self, tid: i32, id: i64) -> u64 {
        self.enter(tid, "close", id);
        self.leave(tid, "close", id, 0, 0)
    }

    /// It waits for others.
    fn wait(&mut self, tid: i32) {
        self.named(tid, "syscall_entry_epoll_wait".to_owned(), &[("noised_tid", tid.into())]);
    }

    fn lose(&mut self) {
        let lost = LostEvents::default();
        self.make(50, MadeEvent::new("lost", TraceKind::Lost(lost)));
    }

    pub fn finish(self) -> Vec<PortWork> {
        let (works, beyond) = self.reader.into_sink().finish();
        assert_eq!(beyond, 0);
        works
    }

    /// Of each: how it came out, when it began and ended, and who ended it.
    fn found(self) -> Vec<(PortWorkEnd, u64, u64, i32)> {
        let works = self.finish();
        works.iter().map(|work| (work.end, work.from_ns, work.to_ns, work.tid)).collect()
    }
}

#[test]
fn a_request_goes_from_its_first_byte_to_the_last_part_of_its_answer() {
    let mut scene = Scene::requests();
    scene.accept(1, 5);
    let first = scene.come(5, 5, 1_010);
    scene.come(5, 5, 1_020);
    scene.read(1, 5, 15, 1_015);
    scene.read(1, 5, 5, 1_020);
    scene.send(1, 5);
    let [_, sent] = scene.send(1, 5);
    // The next one is read by another thread, and answered by a third; its arrival is not recorded.
    let read = scene.read(2, 5, 10, 1_030);
    let [_, answered] = scene.send(3, 5);
    scene.close(1, 5);
    assert_eq!(scene.found(), [(Whole, first, sent, 1), (Whole, read, answered, 3)]);
}

#[test]
fn a_request_may_come_before_its_connection_is_accepted() {
    let mut scene = Scene::requests();
    // Of another connection that had the same ports, and is gone.
    scene.come(0, 5, 900_000_000);
    let came = scene.come(0, 5, 1_010);
    scene.accept(1, 5);
    scene.read(1, 5, 10, 1_010);
    let [_, sent] = scene.send(1, 5);
    scene.close(1, 5);
    assert_eq!(scene.found(), [(Whole, came, sent, 1)]);
}

#[test]
fn what_a_reader_that_is_ahead_reads_is_no_part_of_the_request_before() {
    let mut scene = Scene::requests();
    scene.accept(1, 5);
    let first = scene.come(5, 5, 1_010);
    scene.read(1, 5, 10, 1_010);
    // The client has the answer, and asks again, before the call that sends it returns.
    scene.enter(2, "sendto", 5);
    let second = scene.come(5, 5, 1_020);
    scene.read(1, 5, 5, 1_015);
    scene.read(1, 5, 5, 1_020);
    let sent = scene.leave(2, "sendto", 5, 100, 0);
    let [_, answered] = scene.send(3, 5);
    scene.close(1, 5);
    assert_eq!(scene.found(), [(Whole, first, sent, 2), (Whole, second, answered, 3)]);
}

#[test]
fn requests_that_overlap_are_none() {
    // The next one came before the answer was sent, or before the last part of it.
    for parts in [1, 2] {
        let mut scene = Scene::requests();
        scene.accept(1, 5);
        scene.come(5, 5, 1_010);
        scene.read(1, 5, 10, 1_010);
        if parts == 2 {
            scene.send(1, 5);
        }
        scene.come(5, 5, 1_020);
        scene.send(1, 5);
        scene.read(1, 5, 10, 1_020);
        scene.send(1, 5);
        let third = scene.come(5, 5, 1_030);
        scene.read(1, 5, 10, 1_030);
        let [_, sent] = scene.send(1, 5);
        scene.close(1, 5);
        let found = scene.found();
        assert_eq!([found[0].0, found[1].0], [Overlapping; 2], "{parts}");
        assert_eq!(found[2], (Whole, third, sent, 1));
    }
    // Where it is not recorded when they came: two threads answer what was read twice.
    let mut scene = Scene::requests();
    scene.accept(1, 5);
    scene.read(1, 5, 10, 1_010);
    scene.read(1, 5, 10, 1_020);
    scene.send(2, 5);
    scene.send(3, 5);
    scene.close(1, 5);
    assert_eq!(scene.found()[0].0, Overlapping);
    // The one who answered the request before goes on to, beside another one.
    for turn in [[2, 3], [3, 2]] {
        let mut scene = Scene::requests();
        scene.accept(1, 5);
        scene.read(1, 5, 10, 1_010);
        scene.send(2, 5);
        scene.read(1, 5, 10, 1_020);
        for tid in turn {
            scene.send(tid, 5);
        }
        scene.close(1, 5);
        let found: Vec<_> = scene.found().iter().map(|one| one.0).collect();
        assert_eq!(found, [Overlapping; 2]);
    }
    // It is read while the answer before is being sent.
    let mut scene = Scene::requests();
    scene.accept(1, 5);
    scene.read(1, 5, 10, 1_010);
    scene.enter(2, "sendto", 5);
    scene.read(1, 5, 10, 1_020);
    scene.leave(2, "sendto", 5, 100, 0);
    scene.send(3, 5);
    scene.close(1, 5);
    let found: Vec<_> = scene.found().iter().map(|one| one.0).collect();
    assert_eq!(found, [Overlapping; 2]);
    // That call sent nothing: they may be parts of one.
    let mut scene = Scene::requests();
    scene.accept(1, 5);
    scene.read(1, 5, 10, 1_010);
    scene.enter(2, "sendto", 5);
    scene.read(1, 5, 10, 1_020);
    scene.leave(2, "sendto", 5, -11, 0);
    scene.send(2, 5);
    scene.close(1, 5);
    let found: Vec<_> = scene.found().iter().map(|one| one.0).collect();
    assert_eq!(found, [Overlapping; 2]);
}

#[test]
fn what_has_no_end_or_no_begin_is_said() {
    let mut scene = Scene::requests();
    // Open before the recording: an answer to what was read before.
    scene.send(1, 6);
    let read = scene.read(1, 6, 10, 1_010);
    let [_, sent] = scene.send(1, 6);
    scene.wait(1);
    // Not asked for, not answered, and perhaps not answered in full.
    scene.accept(2, 7);
    scene.send(2, 7);
    scene.read(2, 7, 10, 2_010);
    scene.close(2, 7);
    scene.accept(3, 8);
    scene.read(3, 8, 10, 3_010);
    scene.send(3, 8);
    let found = scene.found();
    let ends: Vec<_> = found.iter().map(|one| one.0).collect();
    assert_eq!(ends, [Unbegun, Whole, Unfinished, Unfinished]);
    assert_eq!(found[1], (Whole, read, sent, 1));
}

#[test]
fn between_events_that_may_be_missing_nothing_is_known() {
    let mut scene = Scene::requests();
    scene.accept(1, 5);
    let read = scene.read(1, 5, 10, 1_010);
    let [_, sent] = scene.send(1, 5);
    scene.wait(1);
    scene.accept(2, 6);
    scene.read(2, 6, 10, 2_010);
    scene.lose();
    scene.send(2, 6);
    // What is read first may go on with what is not known, on those that were not seen before, too.
    for id in [5, 7] {
        scene.read(1, id, 10, 1_020);
        scene.send(1, id);
    }
    let next = scene.read(1, 5, 10, 1_030);
    let [_, answered] = scene.send(1, 5);
    scene.close(1, 5);
    scene.close(1, 7);
    scene.accept(3, 8);
    let new = scene.read(3, 8, 10, 1_010);
    let [_, of_new] = scene.send(3, 8);
    scene.close(3, 8);
    let found = scene.found();
    let lost = found.iter().filter(|one| one.0 == Lost).count();
    let whole: Vec<_> = found.iter().filter(|one| one.0 == Whole).copied().collect();
    assert_eq!((found.len(), lost), (6, 3));
    let expected = [(Whole, read, sent, 1), (Whole, next, answered, 1), (Whole, new, of_new, 3)];
    assert_eq!(whole, expected);
}

/// A connection at which so many bytes come, one by one; then a request on it that is read and answered.
fn with_arrivals(scene: &mut Scene, id: i64, count: usize) {
    scene.accept(1, id);
    for number in 0..count as i64 {
        scene.come(id, id, 1_010 + number);
    }
}

/// All that was found, and how much is more than can be held.
fn found_and_beyond(scene: Scene) -> (Vec<PortWorkEnd>, u64) {
    let (works, beyond) = scene.reader.into_sink().finish();
    (works.iter().map(|work| work.end).collect(), beyond)
}

#[test]
fn requests_whose_arrival_is_forgotten_are_counted() {
    let mut scene = Scene::requests();
    with_arrivals(&mut scene, 5, MAX_ARRIVALS + 1);
    scene.read(1, 5, 10, 1_010);
    scene.send(1, 5);
    scene.come(5, 5, 2_000);
    // The next one comes behind what is forgotten.
    scene.read(1, 5, 926, 2_000);
    scene.close(1, 5);
    assert_eq!(found_and_beyond(scene), (vec![Unfinished], 1));
}

#[test]
fn connections_that_nothing_reads_take_no_memory_without_end() {
    let mut scene = Scene::requests();
    scene.accept(2, 99);
    let first = scene.come(99, 99, 10);
    for id in 1..=20 {
        with_arrivals(&mut scene, id, MAX_ARRIVALS - 1);
        let follower = scene.reader.sink();
        let held: usize = follower.connections.values().map(|one| one.unread.held()).sum();
        assert!(held <= MAX_ARRIVALS_IN_ALL, "{held}");
    }
    scene.read(2, 99, 10, 10);
    let [_, sent] = scene.send(2, 99);
    scene.close(2, 99);
    let (works, beyond) = scene.reader.into_sink().finish();
    // One that is read has no loss by the others.
    let found: Vec<_> = works.iter().map(|work| (work.end, work.from_ns, work.to_ns)).collect();
    assert_eq!((found, beyond), (vec![(Whole, first, sent)], 0));
}

#[test]
fn connections_that_are_gone_take_no_memory() {
    let mut scene = Scene::requests();
    for id in 1..=100 {
        scene.accept(1, id);
        scene.close(1, id);
    }
    let follower = scene.reader.sink();
    assert_eq!([follower.connections.len(), follower.touched.len()], [MAX_CLOSED; 2]);
}

#[test]
fn a_connection_goes_from_accept_to_its_last_close() {
    let mut scene = Scene::of(PortWorkKind::Connections);
    let begins = scene.accept(1, 5);
    scene.read(1, 5, 10, 1_010);
    // A child has it, too, and closes it later.
    scene.close(1, 5);
    scene.send(2, 5);
    let ends = scene.close(2, 5);
    // The number is given again.
    let again = scene.accept(1, 5);
    let over = scene.close(3, 5);
    scene.close(4, 6);
    scene.accept(1, 7);
    let found = scene.found();
    let ended: Vec<_> = found.iter().map(|one| one.0).collect();
    assert_eq!(ended, [Whole, Whole, Unbegun, Unfinished]);
    assert_eq!(found[..2], [(Whole, begins, ends, 2), (Whole, again, over, 3)]);
    // Those that were closed long ago are no more.
    let mut scene = Scene::of(PortWorkKind::Connections);
    for id in 1..=3 * MAX_CLOSED as i64 {
        scene.accept(1, id);
        scene.close(1, id);
    }
    assert_eq!(scene.reader.sink().connections.len(), MAX_CLOSED);
    assert_eq!(scene.found().len(), 3 * MAX_CLOSED);
}

#[test]
fn other_ports_and_clients_are_left_out() {
    let mut scene = Scene::requests();
    scene.reader = CallReader::new(PortFollower::new(PortWorkKind::Requests, &[81]));
    scene.accept(1, 5);
    scene.read(1, 5, 10, 1_010);
    scene.send(1, 5);
    scene.close(1, 5);
    assert!(scene.reader.sink().has_ports && !scene.reader.sink().has_port);
    assert_eq!(scene.found(), []);
    // Bytes that come, and no call.
    let mut scene = Scene::requests();
    scene.come(5, 5, 1_010);
    assert!(!scene.reader.sink().has_ports && !scene.reader.sink().has_port);
    // A client may have the port of a server elsewhere.
    let mut scene = Scene::requests();
    scene.enter(1, "connect", 5);
    let ports = vec![("inode", 5), ("local_port", PORT), ("remote_port", CLIENT + 5)];
    let texts = &[("local_address", "10.0.0.1"), ("remote_address", "10.0.0.2")];
    scene.make(1, MadeEvent { texts, ..MadeEvent::other("noised_connection", ports.leak()) });
    scene.leave(1, "connect", 5, 0, 0);
    scene.send(1, 5);
    scene.read(1, 5, 10, 1_010);
    scene.send(1, 5);
    scene.read(1, 5, 10, 1_020);
    assert_eq!(scene.found(), []);
}

#[test]
fn datagrams_of_each_client_are_requests_of_their_own() {
    let mut scene = Scene::requests();
    let done = |scene: &mut Scene, tid: i32, call: &str, client: i64| {
        let object = [("noised_tid", tid.into()), ("noised_object", 2), ("noised_id", 5)];
        let bound = [&object[..], &[("noised_peer", PORT << 16)]].concat();
        scene.named(tid, format!("syscall_entry_{call}"), &bound);
        let ports = vec![("inode", 5), ("local_port", PORT), ("remote_port", client)];
        let texts = &[("local_address", "10.0.0.1"), ("remote_address", "10.0.0.2")];
        scene.make(tid, MadeEvent { texts, ..MadeEvent::other("noised_connection", ports.leak()) });
        let end = [&object[..], &[("noised_peer", 0), ("ret", 30)]].concat();
        scene.named(tid, format!("syscall_exit_{call}"), &end)
    };
    let first = done(&mut scene, 1, "recvfrom", 4_000);
    let second = done(&mut scene, 2, "recvfrom", 4_001);
    let answered = done(&mut scene, 1, "sendto", 4_001);
    let last = done(&mut scene, 2, "sendto", 4_000);
    scene.wait(1);
    scene.wait(2);
    assert_eq!(scene.found(), [(Whole, second, answered, 1), (Whole, first, last, 2)]);
}

//! Generated servers that know their requests: a pool of threads reads and answers what clients send on several connections.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

use super::{Overlapping, Scene, Whole};
use crate::served::{PortWork, PortWorkEnd, PortWorkKind};

const THREADS: u64 = 12;

/// What is true of a request: how it came out, when it began and ended, and who ended it.
type Truth = (PortWorkEnd, u64, u64, i32);

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Accept,
    /// Bytes of a request come; so many parts of it did.
    Come(u64),
    Read,
    Reads(i32),
    Send(u64),
    Sends(u64, i32),
    /// While the call that answers does not return, the next request came, and perhaps was read.
    Early(i32, bool),
    Close,
}

#[derive(Clone, Debug)]
struct Client {
    id: i64,
    next: Next,
    left: u64,
    /// Behind the bytes that came, and that were read.
    came: i64,
    read: i64,
    /// When the first byte of this request came; of the next one, where that is early.
    from_ns: u64,
    early_ns: Option<u64>,
    /// That came before the answer.
    is_pipelined: bool,
    overlaps: bool,
    sender: i32,
    sent_ns: u64,
}

/// A server, with what is true of its requests.
struct World {
    scene: Scene,
    dice: Dice,
    busy: Vec<i32>,
    truth: Vec<Truth>,
}

impl World {
    /// A thread that is in no call.
    fn thread(&mut self) -> i32 {
        loop {
            let tid = 1 + self.dice.below(THREADS) as i32;
            if !self.busy.contains(&tid) {
                return tid;
            }
        }
    }

    fn come(&mut self, client: &mut Client) -> u64 {
        client.came += 10;
        self.scene.come(client.id, client.id, client.came)
    }

    /// The call that a thread is in sends, and returns.
    fn sent(&mut self, client: &mut Client, tid: i32) {
        self.busy.retain(|busy| *busy != tid);
        client.sent_ns = self.scene.leave(tid, "sendto", client.id, 100, 0);
    }

    /// The request is over: what comes next.
    fn over(&mut self, client: &mut Client) -> Next {
        let overlaps = client.overlaps || client.is_pipelined;
        let end = if overlaps { Overlapping } else { Whole };
        self.truth.push((end, client.from_ns, client.sent_ns, client.sender));
        client.left -= 1;
        client.overlaps = std::mem::take(&mut client.is_pipelined);
        match (client.early_ns.take(), client.left) {
            (Some(early_ns), _) => {
                client.from_ns = early_ns;
                Next::Read
            }
            (None, 0) => Next::Close,
            (None, _) => Next::Come(0),
        }
    }

    /// Whether the next request comes now, before this one is over.
    fn is_early(&mut self, client: &Client) -> bool {
        client.early_ns.is_none() && client.left > 1 && self.dice.one_in(8)
    }

    /// A client, and who works for it, goes on; whether there is more.
    fn step(&mut self, client: &mut Client) -> bool {
        let id = client.id;
        client.next = match client.next {
            Next::Accept => {
                let tid = self.thread();
                self.scene.accept(tid, id);
                Next::Come(0)
            }
            Next::Come(parts) => {
                let came_ns = self.come(client);
                if parts == 0 {
                    client.from_ns = came_ns;
                }
                if self.dice.one_in(2) { Next::Come(parts + 1) } else { Next::Read }
            }
            Next::Read => {
                let tid = self.thread();
                self.busy.push(tid);
                self.scene.enter(tid, "read", id);
                Next::Reads(tid)
            }
            Next::Reads(tid) => {
                self.busy.retain(|busy| *busy != tid);
                // A part of what is there, or all.
                let there = client.came - client.read;
                let bytes = if self.dice.one_in(3) { 1 + there / 2 } else { there };
                client.read += bytes;
                self.scene.leave(tid, "read", id, bytes, client.read);
                if client.read < client.came { Next::Read } else { Next::Send(0) }
            }
            Next::Send(parts) => {
                if parts == 0 {
                    client.sender = self.thread();
                } else if self.busy.contains(&client.sender) {
                    // It is at work for another client.
                    return true;
                }
                if self.is_early(client) {
                    client.early_ns = Some(self.come(client));
                    client.is_pipelined = true;
                }
                self.busy.push(client.sender);
                self.scene.enter(client.sender, "sendto", id);
                Next::Sends(parts, client.sender)
            }
            Next::Sends(_, tid) if self.is_early(client) => {
                client.early_ns = Some(self.come(client));
                let is_read = self.dice.one_in(2);
                if is_read {
                    let reader = self.thread();
                    client.read = client.came;
                    self.scene.read(reader, id, 10, client.came);
                }
                Next::Early(tid, is_read)
            }
            Next::Sends(parts, tid) => {
                self.sent(client, tid);
                if self.dice.one_in(3) { Next::Send(parts + 1) } else { self.over(client) }
            }
            Next::Early(tid, is_read) => {
                self.sent(client, tid);
                let next = self.over(client);
                if is_read { Next::Send(0) } else { next }
            }
            Next::Close => {
                let tid = self.thread();
                self.scene.close(tid, id);
                return false;
            }
        };
        true
    }
}

/// What a server does for some clients, and what is true of their requests.
fn played(seed: u64) -> (Vec<PortWork>, Vec<Truth>) {
    let mut dice = Dice(seed);
    let client = |id: i64, left| Client {
        id,
        next: Next::Accept,
        left,
        came: 1_000 * id,
        read: 1_000 * id,
        from_ns: 0,
        early_ns: None,
        is_pipelined: false,
        overlaps: false,
        sender: 0,
        sent_ns: 0,
    };
    let count = 1 + dice.below(4) as i64;
    let mut clients: Vec<Client> = (1..=count).map(|id| client(id, 1 + dice.below(8))).collect();
    let scene = Scene::of(PortWorkKind::Requests);
    let mut world = World { scene, dice, busy: Vec::new(), truth: Vec::new() };
    while !clients.is_empty() {
        let place = world.dice.below(clients.len() as u64) as usize;
        if !world.step(&mut clients[place]) {
            clients.swap_remove(place);
        }
    }
    let World { scene, mut truth, .. } = world;
    truth.sort_by_key(|(_, from_ns, to_ns, tid)| (*to_ns, *from_ns, *tid));
    (scene.finish(), truth)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// To the nanosecond, and none but those.
    #[test]
    fn requests_are_those_of_the_clients(seed in any::<u64>()) {
        let (found, truth) = played(seed);
        let found: Vec<Truth> =
            found.iter().map(|work| (work.end, work.from_ns, work.to_ns, work.tid)).collect();
        prop_assert_eq!(found, truth);
    }
}

#[test]
fn generated_servers_have_both() {
    let all: Vec<Truth> = (0..200).flat_map(|seed| played(seed).1).collect();
    let overlapping = all.iter().filter(|one| one.0 == Overlapping).count();
    println!("{overlapping} of {} requests overlap", all.len());
    assert!(overlapping > all.len() / 20 && overlapping < all.len() / 2, "{overlapping}");
}

//! Packets on their way, from who sent them.
//!
//! On one machine, a packet that is not sent over a wire stays in one buffer until it arrives. Between machines,
//! and wherever a recording has headers of packets, TCP segments are matched by their connection and sequence
//! numbers: what arrives may be a part of what was sent, where a device cuts it into pieces, and may pass several
//! interfaces.

pub mod headers;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use foldhash::HashMap;
use noise_trace::event::Packet;

/// Packets whose arrival is waited for; the oldest are given up first.
const MAX_PACKETS: usize = 65_536;
/// Segments of one connection that are waited for.
const MAX_OF_FLOW: usize = 64;
/// Bytes of Ethernet's header, which is there when a packet is queued, and is not when it arrives.
const ETHERNET_BYTES: u32 = 14;
/// The interface that leads back to its own machine.
const LOOPBACK: &[u8] = b"lo";

/// A number for what is equal, the same in every recording and run.
fn number(of: impl std::hash::Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}

/// A segment of TCP, as its headers have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its connection and direction: see [`flow`].
    pub flow: u64,
    /// Number of its first byte.
    pub sequence: u32,
    /// The byte that its sender wants next.
    pub acknowledged: u32,
    /// SYN, FIN …
    pub flags: u16,
    /// Its length without headers, bytes.
    pub bytes: u32,
}

/// The number of a connection's direction: addresses and ports, the sender's first.
pub fn flow(addresses: (&[u8], &[u8]), ports: (u16, u16)) -> u64 {
    number((addresses, ports))
}

impl Segment {
    /// The same for a segment wherever it is seen, and for the first of the parts that a device cuts it into; hardly for another.
    pub fn key(&self) -> u64 {
        /// FIN and PSH, which the last part alone has.
        const OF_THE_END: u16 = 0x9;
        number((self.flow, self.sequence, self.acknowledged, self.flags & !OF_THE_END))
    }

    /// Whether another one is it, or a part of it.
    fn covers(&self, other: &Self) -> bool {
        if self.bytes == 0 || other.bytes == 0 {
            return self.key() == other.key();
        }
        other.sequence.wrapping_sub(self.sequence) < self.bytes
    }
}

#[derive(Clone, Debug)]
struct Buffer<T> {
    from: T,
    bytes: u32,
    interface: u64,
    is_loopback: bool,
}

/// What is on its way, and what a table has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransitKey {
    Key(u64),
    Buffer(u16, u64),
    Flow(u64),
}

/// Packets that were seen when they were sent, each with who sent it.
#[derive(Debug)]
pub struct Packets<T> {
    /// By a key that is the same where it arrives. All have the number of their sending.
    keys: HashMap<u64, (T, u64)>,
    /// By recording and address of the buffer.
    buffers: HashMap<(u16, u64), (Buffer<T>, u64)>,
    /// By connection, the oldest first.
    flows: HashMap<u64, VecDeque<(Segment, T, u64)>>,
    /// All, the oldest first; those that arrived are still in it until they are the oldest.
    order: VecDeque<(TransitKey, u64)>,
    count: u64,
}

impl<T> Default for Packets<T> {
    fn default() -> Self {
        Self {
            keys: HashMap::default(),
            buffers: HashMap::default(),
            flows: HashMap::default(),
            order: VecDeque::new(),
            count: 0,
        }
    }
}

impl<T: Clone> Packets<T> {
    /// One was sent. The latest of a key counts: earlier ones were lost, and are sent again.
    pub fn sent(&mut self, key: u64, from: T) {
        let count = self.order(TransitKey::Key(key));
        self.keys.insert(key, (from, count));
    }

    /// One was queued in a buffer.
    pub fn queued(&mut self, machine: u16, packet: &Packet<'_>, from: T) {
        let count = self.order(TransitKey::Buffer(machine, packet.skb));
        let (bytes, interface) = (packet.len, number(packet.name));
        let buffer = Buffer { from, bytes, interface, is_loopback: packet.name == LOOPBACK };
        self.buffers.insert((machine, packet.skb), (buffer, count));
    }

    pub fn sent_segment(&mut self, segment: Segment, from: T) {
        let count = self.order(TransitKey::Flow(segment.flow));
        let flow = self.flows.entry(segment.flow).or_default();
        flow.push_back((segment, from, count));
        if flow.len() > MAX_OF_FLOW {
            flow.pop_front();
        }
    }

    pub fn received(&mut self, key: u64) -> Option<T> {
        self.keys.remove(&key).map(|(from, _)| from)
    }

    /// One arrived in a buffer. A buffer that went out on a wire is free after that, and may have another packet.
    pub fn arrived(&mut self, machine: u16, packet: &Packet<'_>) -> Option<T> {
        let (buffer, _) = self.buffers.remove(&(machine, packet.skb))?;
        let is_same = [0, ETHERNET_BYTES].contains(&buffer.bytes.wrapping_sub(packet.len))
            && (buffer.is_loopback == (packet.name == LOOPBACK))
            && (buffer.is_loopback || buffer.interface != number(packet.name));
        is_same.then_some(buffer.from)
    }

    /// A segment arrived. It may arrive in parts, or pass several interfaces, so it stays.
    pub fn received_segment(&self, segment: &Segment) -> Option<T> {
        let flow = self.flows.get(&segment.flow)?;
        let sent = flow.iter().rev().find(|(sent, ..)| sent.covers(segment))?;
        Some(sent.1.clone())
    }

    fn order(&mut self, place: TransitKey) -> u64 {
        self.count += 1;
        self.order.push_back((place, self.count));
        while self.order.len() > MAX_PACKETS {
            self.forget_oldest();
        }
        self.count
    }

    fn forget_oldest(&mut self) {
        let Some((oldest, number)) = self.order.pop_front() else { return };
        match oldest {
            TransitKey::Key(key) => {
                if self.keys.get(&key).is_some_and(|(_, latest)| *latest == number) {
                    self.keys.remove(&key);
                }
            }
            TransitKey::Buffer(machine, skb) => {
                let key = (machine, skb);
                if self.buffers.get(&key).is_some_and(|(_, latest)| *latest == number) {
                    self.buffers.remove(&key);
                }
            }
            TransitKey::Flow(flow) => {
                let Some(segments) = self.flows.get_mut(&flow) else { return };
                while segments.front().is_some_and(|(_, _, of_it)| *of_it <= number) {
                    segments.pop_front();
                }
                if segments.is_empty() {
                    self.flows.remove(&flow);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, bytes: u32) -> Segment {
        let flow = flow((&[10, 0, 0, 1], &[10, 0, 0, 2]), (40_000, 80));
        Segment { flow, sequence, acknowledged: 7, flags: 0x10, bytes }
    }

    #[test]
    fn directions_of_a_connection_are_apart() {
        let (one, other): (&[u8], &[u8]) = (&[10, 0, 0, 1], &[10, 0, 0, 2]);
        assert_ne!(flow((one, other), (1, 2)), flow((other, one), (2, 1)));
        assert_eq!(flow((one, other), (1, 2)), flow((one, other), (1, 2)));
    }

    #[test]
    fn parts_of_a_segment_come_from_its_sender() {
        let mut packets = Packets::default();
        // Numbers begin again at zero.
        packets.sent_segment(segment(u32::MAX - 99, 3000), 'a');
        packets.sent_segment(segment(2900, 1000), 'b');
        for (sequence, bytes, from) in [
            (u32::MAX - 99, 1448, Some('a')),
            (1348, 1448, Some('a')),
            (2796, 104, Some('a')),
            (2900, 1000, Some('b')),
            (3900, 1, None),
            (u32::MAX - 100, 1, None),
        ] {
            assert_eq!(packets.received_segment(&segment(sequence, bytes)), from, "{sequence}");
        }
        // One without content is no part.
        assert_eq!(packets.received_segment(&segment(2950, 0)), None);
        packets.sent_segment(segment(3900, 0), 'c');
        assert_eq!(packets.received_segment(&segment(3900, 0)), Some('c'));
        // Sent again by another one, it is of that.
        packets.sent_segment(segment(2900, 1000), 'd');
        assert_eq!(packets.received_segment(&segment(2900, 1000)), Some('d'));
    }

    #[test]
    fn a_buffer_that_left_the_machine_is_another_packets() {
        let packet = |skb, len, name| Packet { skb, len, name };
        let mut packets = Packets::default();
        for (sent, received, is_same) in [
            ((100, &b"lo"[..]), (86, &b"lo"[..]), true),
            ((100, b"lo"), (100, b"lo"), true),
            ((100, b"lo"), (60, b"lo"), false),
            ((100, b"lo"), (86, b"eth0"), false),
            ((100, b"veth1"), (86, b"veth2"), true),
            ((100, b"eth0"), (86, b"eth0"), false),
        ] {
            packets.queued(0, &packet(9, sent.0, sent.1), ());
            let found = packets.arrived(0, &packet(9, received.0, received.1));
            assert_eq!(found.is_some(), is_same, "{sent:?} {received:?}");
        }
        packets.queued(0, &packet(9, 100, b"lo"), ());
        assert_eq!(packets.arrived(1, &packet(9, 86, b"lo")), None);
    }

    #[test]
    fn what_never_arrives_is_given_up() {
        let mut packets = Packets::default();
        for number in 0..3 * MAX_PACKETS as u64 {
            match number % 3 {
                0 => packets.sent(number, ()),
                1 => packets.queued(0, &Packet { skb: number, len: 1, name: b"lo" }, ()),
                _ => packets.sent_segment(Segment { flow: number, ..segment(1, 1) }, ()),
            }
        }
        let kept = packets.keys.len() + packets.buffers.len() + packets.flows.len();
        assert!(kept <= MAX_PACKETS && packets.order.len() <= MAX_PACKETS, "{kept}");
    }
}

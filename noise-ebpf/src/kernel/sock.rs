//! Sockets as the network knows them: a `sock` by its address, read by probes.

use noise_common::store::calls::ObjectKind;

use super::{
    Head, INET_PORT, INODE_NUMBER, NET_INUM, SOCK_DADDR, SOCK_DADDR6, SOCK_DPORT, SOCK_FAMILY,
    SOCK_FLAGS, SOCK_NET, SOCK_PROTOCOL, SOCK_SADDR, SOCK_SADDR6, SOCK_SOCKET, SOCK_TYPE,
    SOCKET_INODE, TCP_COPIED_SEQ, TCP_RCV_NXT, TCP_WRITE_SEQ, UNIX_PEER, present, probe,
    probe_user,
};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const SOCK_STREAM: u16 = 1;
const IPPROTO_TCP: u16 = 6;
const IPPROTO_UDP: u16 = 17;
/// `SOCK_DONE` of the kernel's `sock.h`: the other end sends no more.
const DONE: u64 = 1 << 1;

/// The second half of an address of IPv4 as one of IPv6 (`::ffff:0:0/96`), without that of IPv4.
const MAPPED: u64 = 0xffff_0000;

/// An address as a word or two.
#[derive(Clone, Copy)]
pub struct HostAddress {
    words: [u64; 2],
}

impl HostAddress {
    /// The same as one of IPv4; `None` where it is of IPv6.
    #[inline(always)]
    pub fn mapped(self) -> Option<u32> {
        let [first, second] = self.words;
        let is_any = first == 0 && second == 0;
        let is_mapped = first == 0 && second & 0xffff_ffff == MAPPED;
        (is_any || is_mapped).then_some((second >> 32) as u32)
    }

    /// Its words, as they lie in memory.
    #[inline(always)]
    pub const fn words(self) -> [u64; 2] {
        self.words
    }

    #[inline(always)]
    const fn of_four(address: u32) -> Self {
        // No host has the address `::`, so `0.0.0.0` means the same.
        Self { words: [0, if address == 0 { 0 } else { MAPPED | (address as u64) << 32 }] }
    }

    #[inline(always)]
    const fn of_six(words: [u64; 2]) -> Self {
        Self { words }
    }
}

/// An address and a port.
#[derive(Clone, Copy)]
pub struct End {
    pub host: HostAddress,
    pub port: u16,
}

impl End {
    /// The address that lies in the memory of the process that runs (`sockaddr_in`, `sockaddr_in6`).
    #[inline(always)]
    pub fn of_user(address: u64) -> Option<Self> {
        let head: u64 = probe_user(address);
        let port = u16::from_be((head >> 16) as u16);
        let host = match head as u16 {
            AF_INET => HostAddress::of_four((head >> 32) as u32),
            AF_INET6 => HostAddress::of_six([probe_user(address + 8), probe_user(address + 16)]),
            _ => return None,
        };
        Some(Self { host, port })
    }
}

/// Words of a socket that have its family and its ports.
const SOCK_WORDS: usize = 3;

#[derive(Clone, Copy)]
pub struct Sock(u64);

impl Sock {
    /// The one at that address; `None` where it is null.
    #[inline(always)]
    pub fn at(address: u64) -> Option<Self> {
        (address != 0).then_some(Self(address))
    }

    #[inline(always)]
    pub const fn address(self) -> u64 {
        self.0
    }

    /// What it is, and what is known of it beside its inode.
    #[inline(always)]
    pub fn identity(self) -> (ObjectKind, u32) {
        let head = Head::<SOCK_WORDS>::at(self.0);
        match head.get::<u16>(SOCK_FAMILY.load()) {
            AF_UNIX if present(UNIX_PEER.load()) => {
                let peer = Self::at(probe(self.0, UNIX_PEER.load()));
                (ObjectKind::Unix, peer.map_or(0, Self::inode))
            }
            AF_UNIX => (ObjectKind::Unix, 0),
            AF_INET | AF_INET6 => match self.protocol_and_type() {
                (IPPROTO_TCP, SOCK_STREAM) => (ObjectKind::Tcp, self.both_ports(&head)),
                (IPPROTO_UDP, _) => (ObjectKind::Udp, self.both_ports(&head)),
                _ => (ObjectKind::Socket, 0),
            },
            _ => (ObjectKind::Socket, 0),
        }
    }

    /// These two lie side by side.
    #[inline(always)]
    fn protocol_and_type(self) -> (u16, u16) {
        let (protocol, kind) = (SOCK_PROTOCOL.load(), SOCK_TYPE.load());
        if kind == protocol.wrapping_add(2) {
            let both: u32 = probe(self.0, protocol);
            return (both as u16, (both >> 16) as u16);
        }
        (probe(self.0, protocol), probe(self.0, kind))
    }

    #[inline(always)]
    fn both_ports(self, head: &Head<SOCK_WORDS>) -> u32 {
        let (local, remote) = self.ports(head);
        u32::from(local) << 16 | u32::from(remote)
    }

    /// Its local and its remote port; 0 = none.
    #[inline(always)]
    fn ports(self, head: &Head<SOCK_WORDS>) -> (u16, u16) {
        // The number under which it is bound is taken from it once it is closed; this one stays.
        let local: u16 = probe(self.0, INET_PORT.load());
        let remote: u16 = head.get(SOCK_DPORT.load());
        (u16::from_be(local), u16::from_be(remote))
    }

    /// Its own end and the other one.
    #[inline(always)]
    pub fn ends(self) -> (End, End) {
        let head = Head::<SOCK_WORDS>::at(self.0);
        let (local, remote) = self.ports(&head);
        let six =
            |offset: u32| HostAddress::of_six([probe(self.0, offset), probe(self.0, offset + 8)]);
        let four = |offset: u32| HostAddress::of_four(head.get(offset));
        let is_six = head.get::<u16>(SOCK_FAMILY.load()) == AF_INET6;
        let (own, other) = if is_six && present(SOCK_SADDR6.load()) {
            (six(SOCK_SADDR6.load()), six(SOCK_DADDR6.load()))
        } else {
            (four(SOCK_SADDR.load()), four(SOCK_DADDR.load()))
        };
        (End { host: own, port: local }, End { host: other, port: remote })
    }

    /// Low bits of the inode number of its network namespace.
    #[inline(always)]
    pub fn namespace(self) -> u16 {
        probe::<u32>(probe(self.0, SOCK_NET.load()), NET_INUM.load()) as u16
    }

    #[inline(always)]
    pub fn protocol(self) -> u16 {
        probe(self.0, SOCK_PROTOCOL.load())
    }

    /// Up to which byte of its stream it has got.
    #[inline(always)]
    pub fn arrived(self) -> u32 {
        probe(self.0, TCP_RCV_NXT.load())
    }

    /// Low bits of its inode's number; 0 where it has none: it belongs to no process yet, or not any more.
    #[inline(always)]
    pub fn inode(self) -> u32 {
        if !present(SOCKET_INODE.load()) {
            return 0;
        }
        let socket: u64 = probe(self.0, SOCK_SOCKET.load());
        if socket == 0 {
            return 0;
        }
        probe::<u64>(socket + u64::from(SOCKET_INODE.load()), INODE_NUMBER.load()) as u32
    }

    /// Up to which byte of its stream has been sent.
    #[inline(always)]
    pub fn sent(self) -> u32 {
        probe(self.0, TCP_WRITE_SEQ.load())
    }

    /// Up to which byte of its stream has been received by its process: a FIN, which takes the number of a byte,
    /// does not count.
    #[inline(always)]
    pub fn received(self) -> u32 {
        let copied: u32 = probe(self.0, TCP_COPIED_SEQ.load());
        let flags: u64 = probe(self.0, SOCK_FLAGS.load());
        if flags & DONE == 0 || copied != probe::<u32>(self.0, TCP_RCV_NXT.load()) {
            return copied;
        }
        copied.wrapping_sub(1)
    }
}

//! The ends of connections by what recordings say of sockets.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use foldhash::HashMap;

use super::fields::Noised;
use crate::input::{ChannelObject, Endpoint, Local, Protocol};

/// Sockets whose addresses are kept.
const MAX_SOCKETS: usize = 1 << 18;

/// Kinds of objects in our recordings.
pub mod kind {
    pub const TCP: u64 = 1;
    pub const UDP: u64 = 2;
    pub const UNIX: u64 = 3;
    pub const SOCKET: u64 = 4;
    pub const PIPE: u64 = 5;
    pub const EVENTFD: u64 = 6;
    pub const MQUEUE: u64 = 9;
    pub const FUTEX: u64 = 10;
    pub const MSG: u64 = 11;
    pub const SEM: u64 = 12;
}

impl Noised {
    /// The ports of a socket of the internet, its own first; 0 = none. The end of a call does not say them.
    pub fn ports(&self) -> Option<[u16; 2]> {
        let is_internet = matches!(self.kind, kind::TCP | kind::UDP) && self.peer != 0;
        is_internet.then_some([(self.peer >> 16) as u16, self.peer as u16])
    }
}

/// A number for what is equal, the same in every recording and run, and never 0.
fn number(of: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of).max(1)
}

/// The number of what is sent from a unix socket.
pub fn unix(machine: u16, inode: u64) -> u64 {
    number((machine, "unix", inode))
}

#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// With the network namespace that each is in.
    known: HashMap<(u16, u64), ([SocketAddr; 2], u64)>,
    /// Which unix socket accepted the connection of another one: what that says of its peer was said before.
    accepted: HashMap<(u16, u64), u64>,
}

impl Sockets {
    /// The addresses of a socket are known, in the network namespace that it is in.
    pub fn known(
        &mut self,
        machine: u16,
        inode: u64,
        addresses: [Option<SocketAddr>; 2],
        namespace: u64,
    ) {
        let [Some(local), Some(remote)] = addresses else { return };
        if inode == 0 {
            return;
        }
        if self.known.len() >= MAX_SOCKETS {
            self.known.clear();
        }
        self.known.insert((machine, inode), ([local, remote], namespace));
    }

    /// A connection was accepted by that socket.
    pub fn accepted(&mut self, machine: u16, noised: &Noised) {
        if noised.kind != kind::UNIX || noised.peer == 0 {
            return;
        }
        if self.accepted.len() >= MAX_SOCKETS {
            self.accepted.clear();
        }
        self.accepted.insert((machine, noised.peer), noised.id);
    }

    /// What a call of our recordings is about; `addresses` are those that this one call named.
    pub fn object(
        &self,
        machine: u16,
        noised: &Noised,
        addresses: [Option<SocketAddr>; 2],
    ) -> Option<ChannelObject> {
        let Noised { kind, id, mut peer, .. } = *noised;
        if (kind, peer) == (kind::UNIX, 0) {
            peer = self.accepted.get(&(machine, id)).copied().unwrap_or(0);
        }
        Some(match kind {
            kind::TCP => {
                ChannelObject::End(self.internet(machine, noised, addresses, Protocol::Tcp))
            }
            kind::UDP => {
                ChannelObject::End(self.internet(machine, noised, addresses, Protocol::Udp))
            }
            kind::UNIX => ChannelObject::End(Endpoint {
                protocol: Protocol::UnixStream,
                id,
                out: unix(machine, id),
                into: if peer == 0 { 0 } else { unix(machine, peer) },
                local: None,
                remote: None,
            }),
            kind::SOCKET => ChannelObject::End(unknown(id)),
            kind::PIPE => ChannelObject::Local(Local::Pipe { inode: id, superblock: peer }),
            kind::EVENTFD => ChannelObject::Local(Local::Eventfd(id)),
            kind::MQUEUE | kind::MSG => {
                ChannelObject::Local(Local::Queue(number((kind, id, peer))))
            }
            kind::SEM => ChannelObject::Local(Local::Semaphore(number((id, peer)))),
            kind::FUTEX => ChannelObject::Local(Local::Futex { space: peer, address: id }),
            _ => return None,
        })
    }

    fn internet(
        &self,
        machine: u16,
        noised: &Noised,
        addresses: [Option<SocketAddr>; 2],
        protocol: Protocol,
    ) -> Endpoint {
        const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let Noised { id, peer, .. } = *noised;
        let [local_port, remote_port] = [(peer >> 16) as u16, peer as u16];
        let (known, namespace) = self.known.get(&(machine, id)).copied().unzip();
        let [local, remote] = match (addresses, known) {
            ([Some(local), Some(remote)], _) => [local, remote],
            (_, Some([local, remote]))
                if peer == 0 || (local.port(), remote.port()) == (local_port, remote_port) =>
            {
                [local, remote]
            }
            _ => [SocketAddr::new(ANY, local_port), SocketAddr::new(ANY, remote_port)],
        };
        let (out, into) = match protocol {
            // A socket that serves many has no address of its own.
            Protocol::Udp => (
                number(("udp", local.port(), remote.port())),
                number(("udp", remote.port(), local.port())),
            ),
            _ => {
                // Each namespace has a loopback of its own.
                let is_within = [local, remote].iter().any(|end| end.ip().is_loopback());
                let within = is_within.then_some((machine, namespace));
                (number((within, local, remote)), number((within, remote, local)))
            }
        };
        let is_known = remote.port() != 0;
        Endpoint {
            protocol,
            id: if protocol == Protocol::Udp { number((id, remote)) } else { id },
            out: if is_known { out } else { 0 },
            into: if is_known { into } else { 0 },
            local: Some(local),
            remote: is_known.then_some(remote),
        }
    }
}

/// A socket of which nothing is known but that it is one.
pub fn unknown(id: u64) -> Endpoint {
    Endpoint { protocol: Protocol::Unknown, id, out: 0, into: 0, local: None, remote: None }
}

/// The same for a descriptor of a process.
pub fn of_descriptor(pid: i32, fd: i64) -> Endpoint {
    unknown(number(("fd", pid, fd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(id: u64, ports: (u16, u16)) -> Noised {
        let peer = u64::from(ports.0) << 16 | u64::from(ports.1);
        Noised { kind: kind::TCP, id, peer, position: 0 }
    }

    fn end(object: Option<ChannelObject>) -> Endpoint {
        match object {
            Some(ChannelObject::End(end)) => end,
            other => panic!("{other:?} is no socket"),
        }
    }

    #[test]
    fn both_ends_of_a_connection_meet() {
        let mut sockets = Sockets::default();
        let [one, other] = ["10.0.0.1:4000", "10.0.0.2:80"].map(|text| text.parse().unwrap());
        sockets.known(0, 7, [Some(one), Some(other)], 1);
        sockets.known(1, 8, [Some(other), Some(one)], 2);
        let client = end(sockets.object(0, &tcp(7, (4000, 80)), [None; 2]));
        let server = end(sockets.object(1, &tcp(8, (80, 4000)), [None; 2]));
        assert_eq!((client.out, client.into), (server.into, server.out));
        assert!(client.out != client.into && client.out != 0);
        // Without addresses, by ports; an inode that was given again is another socket.
        let client = end(sockets.object(0, &tcp(7, (4001, 80)), [None; 2]));
        let server = end(sockets.object(1, &tcp(9, (80, 4001)), [None; 2]));
        assert_eq!((client.out, client.into), (server.into, server.out));
        assert_eq!(end(sockets.object(0, &tcp(9, (80, 0)), [None; 2])).out, 0);
    }

    #[test]
    fn each_namespace_of_each_machine_has_its_own_loopback() {
        let mut sockets = Sockets::default();
        let [one, other] = ["127.0.0.1:4000", "127.0.0.1:80"].map(|text| text.parse().unwrap());
        let mut flow = |machine, namespace| {
            sockets.known(machine, 7, [Some(one), Some(other)], namespace);
            sockets.known(machine, 8, [Some(other), Some(one)], namespace);
            let client = end(sockets.object(machine, &tcp(7, (4000, 80)), [None; 2]));
            let server = end(sockets.object(machine, &tcp(8, (80, 4000)), [None; 2]));
            assert_eq!((client.out, client.into), (server.into, server.out));
            client.out
        };
        let flows = [flow(0, 1), flow(0, 2), flow(1, 1)];
        assert!(flows[0] != flows[1] && flows[0] != flows[2] && flows[1] != flows[2]);
    }

    #[test]
    fn unix_sockets_meet_once_they_are_accepted() {
        let mut sockets = Sockets::default();
        let unix = |id, peer| Noised { kind: kind::UNIX, id, peer, position: 0 };
        let client = end(sockets.object(0, &unix(5, 0), [None; 2]));
        let server = end(sockets.object(0, &unix(6, 5), [None; 2]));
        assert_eq!((client.out, client.into), (server.into, 0));
        // The client is in its call since before that.
        sockets.accepted(0, &unix(6, 5));
        let client = end(sockets.object(0, &unix(5, 0), [None; 2]));
        assert_eq!((client.out, client.into), (server.into, server.out));
    }
}

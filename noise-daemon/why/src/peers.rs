//! PURE: who asks whom: by connections, of the processes that a victim works with which ask it, and which it asks.
//!
//! Two that wait for each other in turn look alike to the scheduler. What tells them apart:
//!
//! - TCP: the end whose port somebody listens on is the one that is asked.
//! - UDP: a socket that is connected to a port asks the one that is bound to it, and is not connected itself.
//! - Unix sockets: the end that was accepted has the name of the listener, and the one that connected has none. A datagram
//!   socket that is connected to another one's name asks that, unless they are connected to each other.
//!
//! Where an address is translated on the way (DNAT: a port of a container, a service of Kubernetes), the two ends of a
//! connection do not name each other. The server's end still has the client's address then: it is that server, where no other
//! one is connected to that. Where none has it, and the address is one of this host or a table of translations has it, it is
//! not known where the connection leads.
//!
//! The ends of a pipe and of a pair of sockets are alike: they link two processes, and do not say who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use noise_system::unix_sockets::UnixSocket;
use noise_text::clean::clean;
use noise_trace::ipc::Connection;

/// The protocols of TCP and UDP.
const TCP: u32 = 6;
const UDP: u32 = 17;

/// The TCP ports that sockets with these inodes listen on.
pub fn listening(inodes: &BTreeSet<u32>, sockets: &[Connection]) -> BTreeSet<u16> {
    let is_its = |socket: &&Connection| {
        socket.protocol == TCP && socket.remote.port() == 0 && inodes.contains(&socket.inode)
    };
    sockets.iter().filter(is_its).map(|socket| socket.local.port()).collect()
}

/// Whose part it is to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The victim asks the other one.
    Asks,
    /// The other one asks the victim.
    Serves,
}

/// What links two processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerLink {
    /// Connections to this port.
    Tcp(u16),
    /// Datagrams to this port.
    Udp(u16),
    /// A unix socket of this name; of a pair, which has none, empty.
    Unix(String),
    Pipe,
}

impl fmt::Display for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "port {port}"),
            Self::Udp(port) => write!(f, "UDP port {port}"),
            Self::Unix(name) if name.is_empty() => write!(f, "a pair of sockets"),
            Self::Unix(name) => write!(f, "{}", clean(name)),
            Self::Pipe => write!(f, "a pipe"),
        }
    }
}

/// The first port that Linux gives to those that name none.
const EPHEMERAL: u16 = 32_768;

/// A process that the victim works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whose part it is to ask; `None` where nothing says so, and of two that ask each other.
    pub role: Option<Role>,
    pub link: PeerLink,
}

/// Other hosts that a victim has connections with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Whose part it is to ask.
    pub role: Role,
    /// Where to: an address with its port, or `other hosts` where there are several.
    pub name: String,
    /// Whether they are other hosts for certain: an address may lead back to this one.
    pub is_certain: bool,
}

/// Whom it works with, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Processes of this host.
    pub processes: BTreeMap<i32, Peer>,
    pub hosts: Option<Hosts>,
}

/// What processes have open, and what is known of that.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// Inodes of the sockets of each process.
    pub sockets_of: &'a BTreeMap<i32, BTreeSet<u32>>,
    /// Inodes of its pipes.
    pub pipes_of: &'a BTreeMap<i32, BTreeSet<u32>>,
    /// All sockets of the internet of the host.
    pub internet: &'a [Connection],
    /// Connections whose packets go elsewhere than their client says: its address, and the one that it names.
    pub translated: &'a BTreeSet<(SocketAddr, SocketAddr)>,
    pub unix: &'a [UnixSocket],
}

/// Who has what open.
struct Owners<'a> {
    victims: &'a BTreeSet<i32>,
    of: BTreeMap<u32, Vec<i32>>,
}

impl<'a> Owners<'a> {
    fn new(victims: &'a BTreeSet<i32>, all: &BTreeMap<i32, BTreeSet<u32>>) -> Self {
        let mut of: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
        for (pid, inodes) in all {
            inodes.iter().for_each(|inode| of.entry(*inode).or_default().push(*pid));
        }
        Self { victims, of }
    }

    fn all(&self, inode: u32) -> impl Iterator<Item = i32> {
        self.of.get(&inode).filter(|_| inode != 0).into_iter().flatten().copied()
    }

    fn is_victims(&self, inode: u32) -> bool {
        self.all(inode).any(|pid| self.victims.contains(&pid))
    }

    /// Those that are none of the victim's.
    fn others(&self, inode: u32) -> impl Iterator<Item = i32> {
        self.all(inode).filter(|pid| !self.victims.contains(pid))
    }
}

/// What is found, one link after the other.
#[derive(Default)]
struct FoundPeers {
    processes: BTreeMap<i32, Peer>,
    /// `Some(None)` where there are both roles.
    hosts: Option<Option<Role>>,
    names: BTreeSet<SocketAddr>,
    /// Those of them that may lead to this host.
    uncertain: BTreeSet<SocketAddr>,
}

/// Connected sockets, by their ends.
struct SocketEnds<'a> {
    by_both: BTreeMap<(u32, SocketAddr, SocketAddr), &'a Connection>,
    by_local: BTreeMap<SocketAddr, Vec<&'a Connection>>,
    by_remote: BTreeMap<SocketAddr, Vec<&'a Connection>>,
}

impl<'a> SocketEnds<'a> {
    fn of(connected: impl Iterator<Item = &'a Connection>) -> Self {
        let mut by_both = BTreeMap::new();
        let mut by_local: BTreeMap<SocketAddr, Vec<&Connection>> = BTreeMap::new();
        let mut by_remote: BTreeMap<SocketAddr, Vec<&Connection>> = BTreeMap::new();
        for one in connected {
            by_both.insert((within(one), one.local, one.remote), one);
            by_local.entry(one.local).or_default().push(one);
            by_remote.entry(one.remote).or_default().push(one);
        }
        Self { by_both, by_local, by_remote }
    }

    fn direct(&self, one: &Connection) -> Option<&'a Connection> {
        self.by_both.get(&(within(one), one.remote, one.local)).copied()
    }

    /// Those that may be the other end behind a translation: the client's address stays, and no socket names them itself.
    fn behind(&self, one: &Connection, is_server: bool) -> impl Iterator<Item = &'a Connection> {
        let alike = match is_server {
            true => self.by_local.get(&one.remote),
            false => self.by_remote.get(&one.local),
        };
        // What comes from a loopback address stays in its network namespace, where sockets name each other.
        let client = if is_server { one.remote } else { one.local };
        let alike = alike.filter(|_| !client.ip().is_loopback()).into_iter().flatten().copied();
        alike.filter(move |other| self.direct(other).is_none())
    }

    /// The other end: the one that names this one, else the only one that may be it.
    fn other(&self, one: &Connection, is_server: bool) -> Option<&'a Connection> {
        self.direct(one).or_else(|| {
            let mut behind = self.behind(one, is_server);
            let first = behind.next();
            first.filter(|_| behind.next().is_none())
        })
    }
}

impl FoundPeers {
    fn note(&mut self, pid: i32, role: Option<Role>, link: PeerLink) {
        let known = self.processes.entry(pid).or_insert_with(|| Peer { role, link });
        if known.role != role {
            known.role = None;
        }
    }

    /// A pipe or a pair says nothing against what a connection says.
    fn note_link(&mut self, pid: i32, link: PeerLink) {
        self.processes.entry(pid).or_insert(Peer { role: None, link });
    }

    /// A server that is not found among the processes of this host.
    fn note_server(&mut self, own: &Connection, ends: &SocketEnds<'_>, open: Open<'_>) {
        let is_here = |socket: &Connection| socket.local.ip() == own.remote.ip();
        let may_be_here = own.remote.ip().is_loopback()
            || ends.behind(own, false).next().is_some()
            || open.internet.iter().any(is_here)
            || open.translated.contains(&(own.local, own.remote));
        if may_be_here {
            self.uncertain.insert(own.remote);
        }
        self.note_host(Role::Asks, own.remote);
    }

    fn note_host(&mut self, role: Role, remote: SocketAddr) {
        self.names.insert(remote);
        let known = self.hosts.get_or_insert(Some(role));
        if *known != Some(role) {
            *known = None;
        }
    }

    fn tcp(&mut self, owners: &Owners<'_>, open: Open<'_>) {
        let sockets = open.internet;
        let is_tcp = |socket: &&Connection| socket.protocol == TCP;
        let listening: BTreeSet<(u32, u16)> = sockets
            .iter()
            .filter(is_tcp)
            .filter(|socket| socket.remote.port() == 0)
            .map(|socket| (socket.namespace, socket.local.port()))
            .collect();
        let is_listening =
            |socket: &Connection| listening.contains(&(socket.namespace, socket.local.port()));
        let connected = || sockets.iter().filter(is_tcp).filter(|one| one.remote.port() != 0);
        let ends = SocketEnds::of(connected());
        for own in connected().filter(|own| owners.is_victims(own.inode)) {
            let other = ends.other(own, is_listening(own));
            let role = match (is_listening(own), other.map(is_listening)) {
                (true, Some(false) | None) => Some(Role::Serves),
                (false, Some(true) | None) => Some(Role::Asks),
                // Neither end is known to listen, or both.
                (true, Some(true)) | (false, Some(false)) => None,
            };
            let asked = if role == Some(Role::Serves) { own.local } else { own.remote };
            match (other, role) {
                (Some(other), _) => {
                    let link = || PeerLink::Tcp(asked.port());
                    owners.others(other.inode).for_each(|pid| self.note(pid, role, link()));
                }
                (None, Some(Role::Asks)) => self.note_server(own, &ends, open),
                (None, Some(Role::Serves)) => self.note_host(Role::Serves, own.remote),
                (None, None) => {}
            }
        }
        // Clients that came a moment ago: their connections are over, or not accepted yet, and belong to no process.
        let listens = |one: &&Connection| one.remote.port() == 0 && owners.is_victims(one.inode);
        let own_ports: BTreeSet<(u32, u16)> = sockets
            .iter()
            .filter(is_tcp)
            .filter(listens)
            .map(|one| (one.namespace, one.local.port()))
            .collect();
        for one in connected().filter(|one| one.inode == 0) {
            let is_from_elsewhere = ends.other(one, is_listening(one)).is_none();
            if is_from_elsewhere && own_ports.contains(&(one.namespace, one.local.port())) {
                self.note_host(Role::Serves, one.remote);
            }
        }
    }

    fn udp(&mut self, owners: &Owners<'_>, sockets: &[Connection]) {
        let udp = || sockets.iter().filter(|one| one.protocol == UDP && one.inode != 0);
        // A socket at a port that others know takes packets of any host.
        let is_known = |one: &&Connection| {
            one.remote.port() == 0
                && (1..EPHEMERAL).contains(&one.local.port())
                && !one.local.ip().is_loopback()
        };
        if udp().filter(is_known).any(|one| owners.is_victims(one.inode)) {
            self.hosts = Some(None);
        }
        let mut bound: BTreeMap<u16, Vec<&Connection>> = BTreeMap::new();
        for socket in udp().filter(|one| one.remote.port() == 0) {
            bound.entry(socket.local.port()).or_default().push(socket);
        }
        for asks in udp().filter(|one| one.remote.port() != 0) {
            let remote = asks.remote;
            for asked in bound.get(&remote.port()).into_iter().flatten() {
                let (at, link) = (asked.local.ip(), || PeerLink::Udp(remote.port()));
                let is_its = at.is_unspecified() || at == remote.ip();
                if !is_its || is_elsewhere(asks, asked) {
                    continue;
                }
                if owners.is_victims(asks.inode) {
                    let asked = owners.others(asked.inode);
                    asked.for_each(|pid| self.note(pid, Some(Role::Asks), link()));
                } else if owners.is_victims(asked.inode) {
                    let ask = owners.others(asks.inode);
                    ask.for_each(|pid| self.note(pid, Some(Role::Serves), link()));
                }
            }
        }
    }

    fn unix(&mut self, owners: &Owners<'_>, sockets: &[UnixSocket]) {
        // One that waits to be accepted has no inode.
        let numbered = sockets.iter().filter(|socket| socket.inode != 0);
        let by_inode: BTreeMap<u32, &UnixSocket> =
            numbered.map(|socket| (socket.inode, socket)).collect();
        let named = sockets.iter().filter(|socket| socket.is_listening);
        let listening: BTreeSet<&str> = named.map(|socket| socket.name.as_str()).collect();
        let mut alike = Vec::new();
        for one in sockets {
            let Some(other) = by_inode.get(&one.peer).copied() else { continue };
            let asked = asked(one, other, &listening);
            let link =
                || PeerLink::Unix(asked.map_or_else(String::new, |asked| asked.name.clone()));
            let (own, peer) = match (owners.is_victims(one.inode), owners.is_victims(other.inode)) {
                (true, false) => (one, other),
                (false, true) => (other, one),
                (true, true) | (false, false) => continue,
            };
            let role = asked.map(|asked| match asked.inode == own.inode {
                true => Role::Serves,
                false => Role::Asks,
            });
            for pid in owners.others(peer.inode) {
                match role {
                    Some(_) => self.note(pid, role, link()),
                    None => alike.push((pid, link())),
                }
            }
        }
        alike.into_iter().for_each(|(pid, link)| self.note_link(pid, link));
    }
}

/// The network namespace that both ends of a connection are in, where it cannot leave that: a loopback address is another
/// one in each. 0 of all others.
fn within(socket: &Connection) -> u32 {
    if socket.remote.ip().is_loopback() { socket.namespace } else { 0 }
}

/// Whether one end cannot be reached from the other's network namespace.
fn is_elsewhere(asks: &Connection, asked: &Connection) -> bool {
    asks.remote.ip().is_loopback() && asks.namespace != asked.namespace
}

/// Which of two ends is the one that is asked, where `one` is connected to `other`.
fn asked<'s>(
    one: &'s UnixSocket,
    other: &'s UnixSocket,
    listening: &BTreeSet<&str>,
) -> Option<&'s UnixSocket> {
    if one.is_datagram {
        return Some(other).filter(|other| other.peer != one.inode && !other.name.is_empty());
    }
    let listens = |end: &UnixSocket| listening.contains(end.name.as_str());
    match (one.name.is_empty(), other.name.is_empty()) {
        (true, false) => Some(other),
        (false, true) => Some(one),
        (false, false) if listens(one) != listens(other) => {
            Some(if listens(one) { one } else { other })
        }
        _ => None,
    }
}

impl Peers {
    /// Of the processes of a victim and of those that it works with, and of what these have open.
    pub fn of(victims: &BTreeSet<i32>, open: Open<'_>) -> Self {
        let owners = Owners::new(victims, open.sockets_of);
        let mut found = FoundPeers::default();
        found.tcp(&owners, open);
        found.udp(&owners, open.internet);
        found.unix(&owners, open.unix);
        let pipes = Owners::new(victims, open.pipes_of);
        for inode in pipes.of.keys().filter(|inode| pipes.is_victims(**inode)) {
            pipes.others(*inode).for_each(|pid| found.note_link(pid, PeerLink::Pipe));
        }
        let hosts = found.hosts.flatten().map(|role| Hosts {
            role,
            name: match found.names.first().filter(|_| found.names.len() == 1) {
                Some(only) => only.to_string(),
                None => "other hosts".to_owned(),
            },
            is_certain: found.uncertain.is_empty(),
        });
        Self { processes: found.processes, hosts }
    }
}

#[cfg(test)]
mod tests;

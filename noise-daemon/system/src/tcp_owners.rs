//! IO: which user of this host a TCP connection comes from, where both of its ends are here. The kernel's diagnostic sockets
//! (`man 7 sock_diag`) say it to every user. `/proc/net/tcp` does so, too, but is written by a walk over all that may be
//! open: 12 ms where one question here takes 6 µs.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use nix::unistd::write;

/// Of `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const HEADER: usize = 16;
const REQUEST_BYTES: u32 = 16 + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_ONE: u16 = 1;
/// Places in an answer, behind its header: the state, both ports, the user, and the inode.
const STATE: usize = 1;
const PORTS: std::ops::Range<usize> = 4..8;
const UID: usize = 64;
const INODE: usize = 68;
/// As `net/tcp_states.h` has it.
const LISTENS: u8 = 10;
/// More than an answer has.
const BUFFER: usize = 4096;

/// Asks the kernel, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct TcpOwners(OwnedFd);

impl TcpOwners {
    /// Errors: where the kernel, or a sandbox, allows no such socket.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkSockDiag;
        Ok(Self(socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?))
    }

    /// The user whose socket has these addresses, its own first; `None` where no process has it open any more.
    pub fn owner(&self, own: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let request = request(own, remote);
        // What is left of an earlier answer is not this one's. The kernel answers before it returns.
        let mut buffer = [0; BUFFER];
        while recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).is_ok() {}
        write(&self.0, &request).ok()?;
        let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).ok()?;
        parse(buffer.get(..length)?, [own.port(), remote.port()])
    }
}

/// Asks for the one socket with these addresses.
fn request(own: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_BYTES as usize);
    bytes.extend(REQUEST_BYTES.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_ONE.to_ne_bytes());
    // Sequence, and sender: the kernel fills that in.
    bytes.extend([0; 8]);
    let family = match own {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // All states.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(own.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [own.ip(), remote.ip()] {
        let mut place = [0; 16];
        match address {
            IpAddr::V4(address) => {
                let octets = address.octets();
                place.iter_mut().zip(octets).for_each(|(byte, octet)| *byte = octet);
            }
            IpAddr::V6(address) => place = address.octets(),
        }
        bytes.extend(place);
    }
    // Of no interface, and without a cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The user in an answer about a socket with these ports. One that no process has open has root's number: it is of no user.
fn parse(answer: &[u8], ports: [u16; 2]) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let content = answer.get(HEADER..).filter(|_| kind == SOCK_DIAG_BY_FAMILY)?;
    let is_it = content.get(PORTS)? == ports.map(u16::to_be_bytes).as_flattened();
    let is_open = *content.get(STATE)? != LISTENS && word(content, INODE)? != 0;
    word(content, UID).filter(|_| is_it && is_open)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::fchown;

    use nix::unistd::{Uid, geteuid, setfsuid};

    use super::*;

    fn addresses(stream: &TcpStream) -> (SocketAddr, SocketAddr) {
        (stream.local_addr().unwrap(), stream.peer_addr().unwrap())
    }

    #[test]
    fn the_owner_of_a_connection_on_this_host_is_known_while_it_is_open() {
        let owners = TcpOwners::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // It may be without version 6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let (own, remote) = addresses(&client);
            assert_eq!(owners.owner(own, remote), Some(geteuid().as_raw()), "{address}");
            assert_eq!(addresses(&server), (remote, own));
            // A socket that every process has closed has no owner, and the one that listens is no end of a connection.
            drop(client);
            assert_eq!(owners.owner(own, remote), None);
            assert_eq!(owners.owner(remote, SocketAddr::new(own.ip(), 1)), None);
        }
    }

    #[test]
    fn each_connection_has_the_user_who_made_it() {
        if !geteuid().is_root() {
            return;
        }
        let owners = TcpOwners::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let of_other = || {
            // Of this thread alone.
            setfsuid(Uid::from_raw(12_345));
            TcpStream::connect(listener.local_addr().unwrap()).unwrap()
        };
        let client = std::thread::scope(|scope| scope.spawn(of_other).join()).unwrap();
        let (own, remote) = addresses(&client);
        assert_eq!(owners.owner(own, remote), Some(12_345));
        fchown(&client, Some(54_321), None).unwrap();
        assert_eq!(owners.owner(own, remote), Some(54_321));
    }
}

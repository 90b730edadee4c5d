//! IO: the unix sockets of a network namespace, each with the one that it is connected to. `/proc/net/unix` does not say
//! that; the kernel's diagnostic sockets (`man 7 sock_diag`) do, to every user.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread;

use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendmsg,
    setsockopt, socket,
};
use nix::sys::stat::Mode;
use nix::sys::time::{TimeVal, TimeValLike as _};
use noise_text::clean::as_text;

/// Sockets that are read.
const MOST: usize = 65_536;
/// Longer than the kernel takes.
const TIMEOUT_S: i64 = 1;
/// More than it sends at once.
const BUFFER: usize = 64 << 10;

/// Of `linux/netlink.h`, `linux/sock_diag.h` and `linux/unix_diag.h`.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const SHOW_NAME_AND_PEER: u32 = 1 | 4;
const ATTRIBUTE_NAME: u16 = 0;
const ATTRIBUTE_PEER: u16 = 2;
/// The state of a socket that listens, as `net/tcp_states.h` has it.
const LISTENS: u8 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Its inode; 0 while it waits to be accepted.
    pub inode: u32,
    /// The inode of the one that it is connected to; 0 where it is to none.
    pub peer: u32,
    /// The path that it is bound to, or its abstract name behind an `@`; empty where it is not bound. A socket that was
    /// accepted has its listener's.
    pub name: String,
    /// Whether it waits for connections.
    pub is_listening: bool,
    /// Whether it is of datagrams: then the other one need not be connected to it.
    pub is_datagram: bool,
}

/// Errors: where the kernel has no such diagnosis (`CONFIG_UNIX_DIAG`), or does not answer.
pub fn read() -> io::Result<Vec<UnixSocket>> {
    let protocol = SockProtocol::NetlinkSockDiag;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_S))?;
    let (kernel, request) = (NetlinkAddr::new(0, 0), request());
    let parts = [IoSlice::new(&request)];
    sendmsg(socket.as_raw_fd(), &parts, &[], MsgFlags::empty(), Some(&kernel))?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; BUFFER]);
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        if take(buffer.get(..length).unwrap_or_default(), &mut found)? || found.len() >= MOST {
            return Ok(found);
        }
    }
}

/// Those of another network namespace, by a file such as `/proc/PID/ns/net`.
/// Errors: those of [`read`], where this program may not enter it, and where there can be no further thread.
pub fn read_in(namespace: &Path) -> io::Result<Vec<UnixSocket>> {
    let file = open(namespace, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    // Who enters is a thread that ends with this: all others stay where they are.
    let read_there = || {
        setns(&file, CloneFlags::CLONE_NEWNET)?;
        read()
    };
    thread::scope(|scope| {
        let reading = thread::Builder::new().spawn_scoped(scope, read_there)?;
        reading.join().unwrap_or_else(|_| Err(io::Error::other("reading the sockets failed")))
    })
}

/// Asks for the unix sockets in all states, with names and peers.
fn request() -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = HEADER as u32 + 24;
    bytes.extend(length.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    // Sequence, and sender: the kernel fills that in.
    bytes.extend([0; 8]);
    bytes.extend([AddressFamily::Unix as u8, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    // All inodes.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(SHOW_NAME_AND_PEER.to_ne_bytes());
    // No cookie is asked for.
    bytes.extend([0xff; 8]);
    bytes
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Adds the sockets of what came at once; whether that is the end.
fn take(mut bytes: &[u8], found: &mut Vec<UnixSocket>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (word(bytes, 0), short(bytes, 4)) {
        let length = length as usize;
        let content = bytes.get(HEADER..length).unwrap_or_default();
        match kind {
            NLMSG_DONE => return Ok(true),
            SOCK_DIAG_BY_FAMILY => found.extend(parse(content)),
            _ => {
                let number =
                    word(content, 0).map_or(0, |number| number.cast_signed().wrapping_neg());
                return Err(io::Error::from_raw_os_error(number));
            }
        }
        bytes = bytes.get(length.next_multiple_of(4).max(HEADER)..).unwrap_or_default();
    }
    Ok(false)
}

/// A socket from its message.
fn parse(content: &[u8]) -> Option<UnixSocket> {
    let (kind, state) = (*content.get(1)?, *content.get(2)?);
    let mut socket = UnixSocket {
        inode: word(content, 4)?,
        peer: 0,
        name: String::new(),
        is_listening: state == LISTENS,
        is_datagram: i32::from(kind) == libc::SOCK_DGRAM,
    };
    let mut rest = content.get(MESSAGE..)?;
    while let (Some(length), Some(kind)) = (short(rest, 0), short(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(ATTRIBUTE..length) else { break };
        match kind {
            ATTRIBUTE_NAME => socket.name = name(value),
            ATTRIBUTE_PEER => socket.peer = word(value, 0).unwrap_or(0),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

/// A path ends with a zero byte, and an abstract name begins with one.
fn name(bytes: &[u8]) -> String {
    match bytes {
        [] | [0] => String::new(),
        [0, name @ ..] => format!("@{}", as_text(name)),
        path => as_text(path.strip_suffix(&[0]).unwrap_or(path)).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};

    use super::*;

    fn inode(socket: &impl std::os::fd::AsRawFd) -> u32 {
        let file = std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        u32::try_from(file.ino()).unwrap()
    }

    #[test]
    fn the_ends_of_connections_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let address = format!("noised-test-{}", std::process::id());
        let log = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&address).unwrap());
        let log = log.unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect_addr(&log.local_addr().unwrap()).unwrap();
        let all = read().unwrap();
        let find = |inode: u32| all.iter().find(|socket| socket.inode == inode).cloned().unwrap();
        let expected = |inode, peer, name: &str| UnixSocket {
            inode,
            peer,
            name: name.to_owned(),
            is_listening: false,
            is_datagram: false,
        };
        let path = path.to_str().unwrap();
        let (listener, client, server) = (inode(&listener), inode(&client), inode(&server));
        let listening = UnixSocket { is_listening: true, ..expected(listener, 0, path) };
        assert_eq!(find(listener), listening);
        assert_eq!(find(client), expected(client, server, ""));
        assert_eq!(find(server), expected(server, client, path));
        let (one, other) = (inode(&one), inode(&other));
        assert_eq!((find(one).peer, find(other).peer), (other, one));
        let (log, sender) = (inode(&log), inode(&sender));
        let datagram = |socket| UnixSocket { is_datagram: true, ..socket };
        assert_eq!(find(log), datagram(expected(log, 0, &format!("@{address}"))));
        assert_eq!(find(sender), datagram(expected(sender, log, "")));
    }

    #[test]
    fn another_namespace_is_read_and_left() {
        let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let (pair, before) = (UnixStream::pair().unwrap(), own());
        match read_in(Path::new("/proc/self/ns/net")) {
            Ok(all) => {
                let inode = inode(&pair.0);
                assert!(all.iter().any(|socket| socket.inode == inode));
            }
            // To enter one takes a privilege.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        assert_eq!(own(), before);
        assert!(read_in(Path::new("/proc/0/ns/net")).is_err());
    }

    #[test]
    fn what_is_cut_or_refused_is_no_socket() {
        let mut found = Vec::new();
        assert!(!take(&[], &mut found).unwrap());
        assert!(!take(&[40, 0, 0, 0, 20, 0], &mut found).unwrap());
        let mut refused = vec![0; 20];
        (refused[0], refused[4]) = (20, 2);
        refused[16..20].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        let error = take(&refused, &mut found).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        // A length of nothing ends it.
        let mut done = vec![0; 16];
        done[4] = 20;
        done.extend([16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(take(&done, &mut found).unwrap() && found.is_empty());
    }
}

//! System calls of communication, and what they are about: as our recordings have them, and, with less, those of other
//! tracers.

use core::net::{Ipv4Addr, SocketAddr};

use noise_common::store::calls::{CallInfo, ObjectKind};

use crate::task::Task;

pub mod read;

/// The field that is the address of a futex.
pub const FUTEX_ADDRESS: &str = "uaddr";

/// What a call is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// What it is; unknown in traces of other tracers, but of a futex.
    pub kind: ObjectKind,
    /// Which one: an inode, an id or an address, see [`ObjectKind`].
    pub id: u64,
    /// What is known beside: at the begin of a call, the ports of a socket, local << 16 | remote; the inode of the peer of a
    /// unix socket; the device of a pipe; what stands for the memory map of a futex; an ipc namespace.
    pub peer: u32,
    /// Of a TCP socket at the end of a call that sends or receives: the number of the byte of the stream behind the
    /// last one that was sent, or received, so far.
    pub position: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub info: &'static CallInfo,
    /// The thread; 0 where the trace does not say: the one that runs on that CPU.
    pub tid: i32,
    /// The arguments that [`CallInfo::fields`] names, but the address of a futex, which is its object's id.
    pub arguments: [i32; 3],
    pub object: Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    pub info: &'static CallInfo,
    /// The thread; 0 where the trace does not say.
    pub tid: i32,
    pub ret: i64,
    /// What it is about; of a connection that was accepted: the new socket.
    pub object: Object,
    /// What it received stays there, and is received again.
    pub peeks: bool,
}

/// The second object of a call: it follows the begin of the call, or its end, at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    pub tid: i32,
    /// The descriptor, where it is a file, else -1.
    pub fd: i32,
    pub object: Object,
}

/// The addresses of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Its inode; 0 where it has none: it is not accepted yet, or was closed.
    pub inode: u32,
    /// Its protocol: 6 is TCP, 17 UDP.
    pub protocol: u32,
    /// Its own address. One of IPv4 within one of IPv6 is shown as of IPv4, and `::` as `0.0.0.0`.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Low bits of the inode number of its network namespace.
    pub namespace: u32,
}

impl Default for Connection {
    fn default() -> Self {
        let end = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self { inode: 0, protocol: 0, local: end, remote: end, namespace: 0 }
    }
}

/// Something was sent or received by a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// How much, or what was wrong.
    pub ret: i32,
    /// The socket, with its ports or its peer, and its position.
    pub object: Object,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    pub sig: i32,
    /// Where it comes from, as `si_code` says.
    pub code: i32,
    /// The thread that gets it; of one that is taken: that runs.
    pub task: Task,
    /// Whether it is for the whole process.
    pub group: bool,
    /// What became of it: 0 it is delivered, 1 ignored, 2 pending already, 3 and 4 there was no room.
    pub result: i32,
}

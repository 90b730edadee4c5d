//! What slices begin with.

use crate::input::{Local, Protocol};

/// Sockets of one kind, by the names of markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    Tcp,
    Udp,
    Unix,
    /// The recording does not say which.
    Socket,
}

impl From<Protocol> for Family {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Udp => Self::Udp,
            Protocol::UnixStream | Protocol::UnixMessages => Self::Unix,
            Protocol::Unknown => Self::Socket,
        }
    }
}

/// What a slice begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Marker {
    /// A thread accepts a connection; it ends when it is closed.
    Accept(Family),
    /// A thread connects; it ends when the connection is closed.
    Connect(Family),
    /// A thread receives on a connection; it ends when the answer is sent.
    Receive(Family),
    /// A thread sends on a connection; it ends when the answer is received.
    Send(Family),
    /// A thread is created; it ends with that thread.
    Process,
    /// A kernel thread is woken; it ends when that sleeps.
    Wakeup,
    Pipe,
    Queue,
    Semaphore,
    Eventfd,
    Futex,
    Signal,
    /// The end of a child.
    Child,
}

/// All, for messages and for those who look one up by its name.
pub const ALL: [Marker; 25] = [
    Marker::Accept(Family::Tcp),
    Marker::Connect(Family::Tcp),
    Marker::Receive(Family::Tcp),
    Marker::Send(Family::Tcp),
    Marker::Accept(Family::Udp),
    Marker::Connect(Family::Udp),
    Marker::Receive(Family::Udp),
    Marker::Send(Family::Udp),
    Marker::Accept(Family::Unix),
    Marker::Connect(Family::Unix),
    Marker::Receive(Family::Unix),
    Marker::Send(Family::Unix),
    Marker::Accept(Family::Socket),
    Marker::Connect(Family::Socket),
    Marker::Receive(Family::Socket),
    Marker::Send(Family::Socket),
    Marker::Process,
    Marker::Wakeup,
    Marker::Pipe,
    Marker::Queue,
    Marker::Semaphore,
    Marker::Eventfd,
    Marker::Futex,
    Marker::Signal,
    Marker::Child,
];

impl Marker {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept(Family::Tcp) => "tcp_accept",
            Self::Connect(Family::Tcp) => "tcp_connect",
            Self::Receive(Family::Tcp) => "tcp_receive",
            Self::Send(Family::Tcp) => "tcp_send",
            Self::Accept(Family::Udp) => "udp_accept",
            Self::Connect(Family::Udp) => "udp_connect",
            Self::Receive(Family::Udp) => "udp_receive",
            Self::Send(Family::Udp) => "udp_send",
            Self::Accept(Family::Unix) => "unix_accept",
            Self::Connect(Family::Unix) => "unix_connect",
            Self::Receive(Family::Unix) => "unix_receive",
            Self::Send(Family::Unix) => "unix_send",
            Self::Accept(Family::Socket) => "socket_accept",
            Self::Connect(Family::Socket) => "socket_connect",
            Self::Receive(Family::Socket) => "socket_receive",
            Self::Send(Family::Socket) => "socket_send",
            Self::Process => "process",
            Self::Wakeup => "wakeup",
            Self::Pipe => "pipe",
            Self::Queue => "queue",
            Self::Semaphore => "semaphore",
            Self::Eventfd => "eventfd",
            Self::Futex => "futex",
            Self::Signal => "signal",
            Self::Child => "child",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|marker| marker.name() == name)
    }
}

impl From<Local> for Marker {
    fn from(object: Local) -> Self {
        match object {
            Local::Pipe { .. } => Self::Pipe,
            Local::Queue(_) => Self::Queue,
            Local::Semaphore(_) => Self::Semaphore,
            Local::Eventfd(_) => Self::Eventfd,
            Local::Futex { .. } => Self::Futex,
            Local::Signal { .. } => Self::Signal,
            Local::Child => Self::Child,
        }
    }
}

/// How it is known that one slice caused another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MarkerRule {
    /// The same thread sent while it worked on the first one.
    Thread,
    /// Bytes of a connection, by their places in it.
    Bytes,
    /// A message, by the order in which they go.
    Message,
    /// Bytes of a pipe, by their places in it.
    Pipe,
    /// A message of a queue, by their order.
    Queue,
    /// What was posted to an eventfd.
    Eventfd,
    /// What was posted to a semaphore.
    Semaphore,
    /// A futex that one thread alone woke meanwhile.
    Futex,
    Signal,
    /// A thread created another.
    Clone,
    Exit,
    /// One end connected to the other.
    Connection,
    /// It woke a thread that slept in a call on the same thing as its own call.
    Waking,
}

impl MarkerRule {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Bytes => "bytes",
            Self::Message => "message",
            Self::Pipe => "pipe",
            Self::Queue => "queue",
            Self::Eventfd => "eventfd",
            Self::Semaphore => "semaphore",
            Self::Futex => "futex",
            Self::Signal => "signal",
            Self::Clone => "clone",
            Self::Exit => "exit",
            Self::Connection => "connection",
            Self::Waking => "waking",
        }
    }
}

impl From<Local> for MarkerRule {
    fn from(object: Local) -> Self {
        match object {
            Local::Pipe { .. } => Self::Pipe,
            Local::Queue(_) => Self::Queue,
            Local::Semaphore(_) => Self::Semaphore,
            Local::Eventfd(_) => Self::Eventfd,
            Local::Futex { .. } => Self::Futex,
            Local::Signal { .. } => Self::Signal,
            Local::Child => Self::Exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_marker_has_a_name_of_its_own() {
        for marker in ALL {
            assert_eq!(Marker::named(marker.name()), Some(marker));
        }
        assert_eq!(Marker::named("http"), None);
    }
}

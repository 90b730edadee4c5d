//! What slices begin with.

use crate::input::{Local, Protocol};

noise_common::named! {
    /// Sockets of one kind, by the names of markers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Family {
        Tcp = "tcp",
        Udp = "udp",
        Unix = "unix",
        /// The recording does not say which.
        Socket = "socket",
    }
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

macro_rules! markers {
    ($($variant:ident $(($family:path))? = $name:literal,)*) => {
        /// All, for messages and for those who look one up by its name.
        pub const ALL: [Marker; [$($name),*].len()] = [$(Marker::$variant $(($family))?),*];

        impl Marker {
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant $(($family))? => $name,)*
                }
            }
        }
    };
}

markers! {
    Accept(Family::Tcp) = "tcp_accept",
    Connect(Family::Tcp) = "tcp_connect",
    Receive(Family::Tcp) = "tcp_receive",
    Send(Family::Tcp) = "tcp_send",
    Accept(Family::Udp) = "udp_accept",
    Connect(Family::Udp) = "udp_connect",
    Receive(Family::Udp) = "udp_receive",
    Send(Family::Udp) = "udp_send",
    Accept(Family::Unix) = "unix_accept",
    Connect(Family::Unix) = "unix_connect",
    Receive(Family::Unix) = "unix_receive",
    Send(Family::Unix) = "unix_send",
    Accept(Family::Socket) = "socket_accept",
    Connect(Family::Socket) = "socket_connect",
    Receive(Family::Socket) = "socket_receive",
    Send(Family::Socket) = "socket_send",
    Process = "process",
    Wakeup = "wakeup",
    Pipe = "pipe",
    Queue = "queue",
    Semaphore = "semaphore",
    Eventfd = "eventfd",
    Futex = "futex",
    Signal = "signal",
    Child = "child",
}

impl Marker {
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

noise_common::named! {
    /// How it is known that one slice caused another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum MarkerRule {
        /// The same thread sent while it worked on the first one.
        Thread = "thread",
        /// Bytes of a connection, by their places in it.
        Bytes = "bytes",
        /// A message, by the order in which they go.
        Message = "message",
        /// Bytes of a pipe, by their places in it.
        Pipe = "pipe",
        /// A message of a queue, by their order.
        Queue = "queue",
        /// What was posted to an eventfd.
        Eventfd = "eventfd",
        /// What was posted to a semaphore.
        Semaphore = "semaphore",
        /// A futex that one thread alone woke meanwhile.
        Futex = "futex",
        Signal = "signal",
        /// A thread created another.
        Clone = "clone",
        Exit = "exit",
        /// One end connected to the other.
        Connection = "connection",
        /// It woke a thread that slept in a call on the same thing as its own call.
        Waking = "waking",
        /// Its thread answered the request of the first one afterwards.
        Answer = "answer",
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

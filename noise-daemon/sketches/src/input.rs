//! What sketches are made of, whoever recorded it.

use core::net::SocketAddr;

use noise_trace::event::Comm;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input<'a> {
    /// When, in nanoseconds since the epoch of the trace's clock.
    pub time_ns: u64,
    /// In which recording, where several are read together.
    pub machine: u16,
    pub cpu: u32,
    /// The thread that runs there, where the event itself says so; else 0.
    pub tid: i32,
    pub what: What<'a>,
}

/// What happened. Where no thread is named, it is the one that runs on the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What<'a> {
    /// The CPU goes from one thread to another.
    Switch {
        prev: i32,
        /// It does not want the CPU any more.
        sleeps: bool,
        next: i32,
    },
    Waking {
        tid: i32,
        /// By the thread that runs, and not by an interrupt of that.
        in_task: bool,
    },
    Known(Known),
    /// A thread was created; it has its maker's name.
    Created {
        parent: i32,
        child: i32,
        /// Its process; 0 where that is not known.
        pid: i32,
    },
    Exited(i32),
    /// The thread begins a system call.
    Enters {
        call: &'a str,
        purpose: Purpose,
        /// What it is about, where that is known.
        object: Option<ChannelObject>,
    },
    /// The thread's system call ends.
    Leaves,
    Act(Act),
    /// Events of this CPU were lost, up to a time at most, in nanoseconds since the epoch.
    Lost {
        until_ns: u64,
    },
    /// Since the input before, events of some CPU of that recording are missing: what had no CPU may have run there.
    Unseen,
}

/// Who a thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub tid: i32,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    /// Its name; empty where that is not known.
    pub comm: Comm,
    pub is_kernel: bool,
}

/// What a system call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It receives or takes something, and sleeps until that is there.
    Receive,
    /// It sends or posts something.
    Send,
    /// It waits for one of several files: which one, it says when it returns (`poll`, `select`).
    Poll,
    /// The same in a loop of events (`epoll_wait`): what follows need not be of what came before.
    Loop,
    /// It connects, accepts or closes.
    Connect,
    /// It ends the thread.
    Exit,
    Other,
}

impl Purpose {
    /// Whether a thread that sleeps in it waits for what others send, so that one thing ends before and another begins
    /// after. One that waits until there is room for what it sends goes on with the same.
    pub const fn is_boundary(self) -> bool {
        matches!(self, Self::Receive | Self::Poll | Self::Loop)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    /// Streams between processes of a machine.
    UnixStream,
    /// Messages between processes of a machine.
    UnixMessages,
    Unknown,
}

impl Protocol {
    /// Whether messages stay whole.
    pub const fn has_messages(self) -> bool {
        matches!(self, Self::Udp | Self::UnixMessages)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub protocol: Protocol,
    /// Its number, on its machine.
    pub id: u64,
    /// The number of what is sent from here; the same as [`into`](Self::into) of the other end, on whatever machine. 0
    /// where that is not known.
    pub out: u64,
    /// The number of what is received here.
    pub into: u64,
    pub local: Option<SocketAddr>,
    /// That of the other end.
    pub remote: Option<SocketAddr>,
}

/// What communication goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelObject {
    End(Endpoint),
    Local(Local),
}

/// Something of one machine that threads communicate over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Local {
    Pipe {
        inode: u64,
        /// The superblock of that.
        superblock: u64,
    },
    Queue(u64),
    Semaphore(u64),
    Eventfd(u64),
    Futex {
        /// The memory that it is in.
        space: u64,
        address: u64,
    },
    /// A signal of a process.
    Signal {
        pid: i32,
        number: i32,
    },
    /// The end of a child.
    Child,
}

/// Bytes that were sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The place of the first one in all that goes this way, where the recording says so: its low 32 bits, as TCP numbers
    /// bytes.
    pub at: Option<u32>,
    pub length: u64,
}

/// Bytes came to a socket of TCP, and can be received from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub time_ns: u64,
    pub machine: u16,
    /// The socket's number; 0 while its connection is not accepted.
    pub id: u64,
    /// Its own port, and that of the other end.
    pub ports: [u16; 2],
    /// Behind the last byte that came: the low 32 bits, as TCP numbers bytes.
    pub position: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Connected(Endpoint),
    Accepted(Endpoint),
    Sent(Endpoint, Bytes),
    Received(Endpoint, Bytes),
    /// It closed a socket, or shut it down.
    Closed(Endpoint),
    /// A pipe is new: nothing is in it.
    Made(Local),
    /// A socket is new: nothing was sent from it yet.
    Opened(Endpoint),
    /// Both ends of a pair of sockets are new.
    Paired(Endpoint, Endpoint),
    /// It wrote so many bytes to a pipe.
    Put(Local, u64),
    /// It read so many bytes from a pipe.
    Got(Local, u64),
    /// It posts to an eventfd, sends to a queue, woke those who sleep on a futex, sent a signal.
    Posted(Local),
    /// It took what was posted; was woken on a futex; a signal came.
    Taken(Local, Much),
    /// It learnt that this child ended.
    Reaped(i32),
}

/// How much of what was posted is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Much {
    All,
    /// One post, and which one is not known.
    One,
    /// Perhaps nothing: only a thread that was woken while it slept took something (System V's semaphores, whose
    /// calls both give and take).
    IfWoken,
}

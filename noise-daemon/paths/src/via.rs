//! What links a thread that sleeps to who ends that: the object of the system call that it sleeps in, else that of the call in
//! which the other one wakes it. Known where a trace has such calls; else it is what the wake-up itself says: the end of a
//! child, a packet, a timer.
//!
//! Not known: the object of a call that began before the trace, and in traces of other tracers than ours that of a descriptor
//! (all but the address of a futex).

use noise_common::store::calls::{ObjectKind, ObjectSource};
use noise_trace::ipc::{Call, Object};
use serde::{Serialize, Serializer};

use crate::state::Action;

noise_common::named! {
    /// By the names that documents have.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ViaKind {
        /// It was woken; for what it slept is not known.
        #[default]
        Wakeup = "wakeup",
        /// A word in memory: a lock, a condition, a semaphore of a library.
        Futex = "futex",
        Pipe = "pipe",
        Socket = "socket",
        Eventfd = "eventfd",
        /// A message queue of POSIX or of System V.
        Queue = "queue",
        /// A set of semaphores of System V.
        Semaphore = "semaphore",
        /// The lock of a file.
        File = "file",
        /// A page of memory that it touched.
        Page = "page",
        Signal = "signal",
        /// A child that ends.
        Child = "child",
        /// A thread that is made.
        Creation = "creation",
        Timer = "timer",
    }
}

impl Serialize for ViaKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Which lock, pipe, socket … it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Via {
    pub kind: ViaKind,
    /// What the call is about.
    pub object: ObjectKind,
    /// The address of a word or a page, the inode of a pipe or a socket, the id of anything else; 0 where that is not known.
    pub id: u64,
    /// Of a unix socket, the inode of the other end; of one of the internet, its port << 16, plus that at the other end. 0 where
    /// that is not known.
    pub peer: u32,
    /// Descriptors of it: that of who sleeps, and that of who ends the sleep; -1 where there is none, or it is not known.
    pub fds: [i32; 2],
}

impl Default for Via {
    fn default() -> Self {
        Self::of(ViaKind::default())
    }
}

/// Commands of fcntl that wait for the lock of a file: `F_SETLKW`, `F_OFD_SETLKW`.
const WAITS_FOR_LOCK: [i32; 2] = [7, 38];

impl Via {
    pub const fn of(kind: ViaKind) -> Self {
        Self { kind, object: ObjectKind::None, id: 0, peer: 0, fds: [-1; 2] }
    }

    /// What a thread that is in this call sleeps for, or wakes others by. [`ViaKind::Wakeup`] of one that waits for several
    /// files: who wakes it says for which. `None` where the call says nothing of it.
    pub fn of_call(call: &Call) -> Option<Self> {
        // One between two files may sleep at either.
        if call.info.second.is_some() {
            return Some(Self::default());
        }
        let [fd, command, _] = call.arguments;
        let kind = match call.object.kind {
            _ if call.info.source == ObjectSource::Futex => ViaKind::Futex,
            ObjectKind::Pipe => ViaKind::Pipe,
            ObjectKind::Tcp | ObjectKind::Udp | ObjectKind::Unix | ObjectKind::Socket => {
                ViaKind::Socket
            }
            ObjectKind::Eventfd => ViaKind::Eventfd,
            ObjectKind::Mqueue | ObjectKind::Msg => ViaKind::Queue,
            ObjectKind::Sem => ViaKind::Semaphore,
            ObjectKind::Signalfd => ViaKind::Signal,
            ObjectKind::None | ObjectKind::Futex | ObjectKind::Epoll | ObjectKind::Unknown => {
                match call.info.name {
                    "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
                    | "pselect6" | "io_uring_enter" => return Some(Self::default()),
                    "kill" | "tkill" | "tgkill" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo"
                    | "pidfd_send_signal" | "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => {
                        ViaKind::Signal
                    }
                    "flock" => ViaKind::File,
                    "fcntl" if WAITS_FOR_LOCK.contains(&command) => ViaKind::File,
                    "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg"
                    | "accept" | "accept4" | "connect" => ViaKind::Socket,
                    "mq_timedsend" | "mq_timedreceive" => ViaKind::Queue,
                    _ => return None,
                }
            }
        };
        let has_file = match kind {
            ViaKind::Pipe | ViaKind::Socket | ViaKind::Eventfd | ViaKind::File => true,
            ViaKind::Queue => call.object.kind != ObjectKind::Msg,
            _ => false,
        };
        let Object { kind: object, id, peer, .. } = call.object;
        Some(Self { kind, object, id, peer, fds: [if has_file { fd } else { -1 }, -1] })
    }

    /// The same from the other end.
    fn turned(self) -> Self {
        let [own, other] = self.fds;
        let (id, peer) = match self.object {
            ObjectKind::Unix => (self.peer.into(), self.id as u32),
            // Which socket has the other end is not known.
            ObjectKind::Tcp | ObjectKind::Udp => (0, self.peer.rotate_left(16)),
            _ => (self.id, self.peer),
        };
        Self { id, peer, fds: [other, own], ..self }
    }

    /// What links a thread to who ends its sleep, by what each of them is in a call for.
    pub fn linking(action: Action, sleeper: Option<Self>, waker: Option<Self>) -> Self {
        match action {
            Action::Ends => Self::of(ViaKind::Child),
            Action::Creates => Self::of(ViaKind::Creation),
            Action::Times => Self::of(ViaKind::Timer),
            Action::Sends => match sleeper {
                Some(own) if own.kind == ViaKind::Socket => own,
                _ => Self::of(ViaKind::Socket),
            },
            Action::Wakes => Self::of_wakeup(sleeper, waker),
        }
    }

    fn of_wakeup(sleeper: Option<Self>, waker: Option<Self>) -> Self {
        // A signal ends any sleep.
        if let Some(waker) = waker.filter(|waker| waker.kind == ViaKind::Signal) {
            return waker.turned();
        }
        match (sleeper, waker) {
            (Some(Self { kind: ViaKind::Wakeup, .. }), waker) => {
                let is_file = |waker: &Self| {
                    use ViaKind::{Eventfd, Pipe, Queue, Socket};
                    matches!(waker.kind, Pipe | Socket | Eventfd | Queue)
                };
                waker.filter(is_file).map(Self::turned).unwrap_or_default()
            }
            // Who waits for a child is woken by other threads than that one, too.
            (Some(Self { kind: ViaKind::Child, .. }), _) => Self::default(),
            (Some(own), Some(waker)) if own.kind == waker.kind => {
                Self { fds: [own.fds[0], waker.fds[0]], ..own }
            }
            (Some(own), _) => own,
            // One that sleeps since before the trace, or in a call that it does not have, may sleep for anything that its waker
            // gives up in its own call.
            (None, _) => Self::default(),
        }
    }
}

/// The number of a [`Via`] in its graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ViaId(pub(crate) u32);

//! What system calls are for, by their names in any tracer's events.

use crate::input::Purpose;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Receives from a file.
    Receive,
    /// Sends to a file.
    Send,
    /// Receives several messages, and says how many.
    ReceiveMany,
    SendMany,
    /// Moves bytes from one file to another.
    Move,
    Accept,
    Connect,
    Close,
    Shutdown,
    /// Waits for one of several files.
    Poll,
    /// The same in a loop of events.
    Loop,
    /// Waits on a futex, or wakes others, as its operation says.
    Futex,
    FutexWait,
    FutexWake,
    QueueSend,
    QueueReceive,
    /// Gives to a set of semaphores, or takes from it.
    Semaphore,
    Kill,
    /// Waits for a child.
    Wait,
    Exit,
    Socket,
    SocketPair,
    Pipe,
    Eventfd,
    Duplicate,
    Control,
    /// Goes on with the call that a signal interrupted.
    Restart,
    Unfollowed,
    /// Nothing that matters here.
    Other,
}

const CALLS: &[(&str, Does)] = &[
    ("read", Does::Receive),
    ("readv", Does::Receive),
    ("preadv2", Does::Receive),
    ("recv", Does::Receive),
    ("recvfrom", Does::Receive),
    ("recvmsg", Does::Receive),
    ("recvmmsg", Does::ReceiveMany),
    ("write", Does::Send),
    ("writev", Does::Send),
    ("pwritev2", Does::Send),
    ("vmsplice", Does::Send),
    ("send", Does::Send),
    ("sendto", Does::Send),
    ("sendmsg", Does::Send),
    ("sendmmsg", Does::SendMany),
    ("sendfile", Does::Move),
    ("sendfile64", Does::Move),
    ("splice", Does::Move),
    ("accept", Does::Accept),
    ("accept4", Does::Accept),
    ("connect", Does::Connect),
    ("close", Does::Close),
    ("shutdown", Does::Shutdown),
    ("poll", Does::Poll),
    ("ppoll", Does::Poll),
    ("select", Does::Poll),
    ("_newselect", Does::Poll),
    ("pselect6", Does::Poll),
    ("epoll_wait", Does::Loop),
    ("epoll_pwait", Does::Loop),
    ("epoll_pwait2", Does::Loop),
    ("futex", Does::Futex),
    ("futex_time64", Does::Futex),
    ("futex_wait", Does::FutexWait),
    ("futex_wake", Does::FutexWake),
    ("mq_timedsend", Does::QueueSend),
    ("msgsnd", Does::QueueSend),
    ("mq_timedreceive", Does::QueueReceive),
    ("msgrcv", Does::QueueReceive),
    ("semop", Does::Semaphore),
    ("semtimedop", Does::Semaphore),
    ("kill", Does::Kill),
    ("tkill", Does::Kill),
    ("tgkill", Does::Kill),
    ("rt_sigqueueinfo", Does::Kill),
    ("rt_tgsigqueueinfo", Does::Kill),
    ("pidfd_send_signal", Does::Kill),
    ("wait4", Does::Wait),
    ("waitid", Does::Wait),
    ("exit", Does::Exit),
    ("exit_group", Does::Exit),
    ("socket", Does::Socket),
    ("socketpair", Does::SocketPair),
    ("pipe", Does::Pipe),
    ("pipe2", Does::Pipe),
    ("eventfd", Does::Eventfd),
    ("eventfd2", Does::Eventfd),
    ("dup", Does::Duplicate),
    ("dup2", Does::Duplicate),
    ("dup3", Does::Duplicate),
    ("fcntl", Does::Control),
    ("fcntl64", Does::Control),
    ("restart_syscall", Does::Restart),
    ("io_uring_enter", Does::Unfollowed),
    ("futex_waitv", Does::Unfollowed),
    ("futex_requeue", Does::Unfollowed),
    ("tee", Does::Unfollowed),
    ("io_submit", Does::Unfollowed),
];

impl Does {
    pub fn named(call: &str) -> Self {
        let found = CALLS.iter().find(|(name, _)| *name == call);
        found.map_or(Self::Other, |(_, does)| *does)
    }

    /// What it is for; of a futex, by its operation.
    pub fn purpose(self, operation: u64, has_object: bool) -> Purpose {
        match self {
            // Of a file without another reader.
            Self::Receive | Self::Send | Self::Move if !has_object => Purpose::Other,
            Self::Receive | Self::ReceiveMany | Self::Accept => Purpose::Receive,
            Self::FutexWait | Self::QueueReceive | Self::Semaphore | Self::Wait => Purpose::Receive,
            Self::Send | Self::SendMany | Self::FutexWake | Self::QueueSend => Purpose::Send,
            Self::Move | Self::Kill => Purpose::Send,
            Self::Futex if is_wait(operation) => Purpose::Receive,
            Self::Futex => Purpose::Send,
            Self::Poll => Purpose::Poll,
            Self::Loop => Purpose::Loop,
            Self::Connect | Self::Close | Self::Shutdown => Purpose::Connect,
            Self::Exit => Purpose::Exit,
            _ => Purpose::Other,
        }
    }
}

/// Whether an operation of a futex sleeps (`FUTEX_*` of the kernel's `futex.h`).
pub const fn is_wait(operation: u64) -> bool {
    const FLAGS: u64 = 128 | 256;
    // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
    matches!(operation & !FLAGS, 0 | 6 | 9 | 11 | 13)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_futex_waits_or_wakes() {
        for (operation, waits) in [(0, true), (128, true), (137, true), (393, true), (129, false)] {
            assert_eq!(is_wait(operation), waits, "{operation}");
        }
        assert_eq!(Does::named("read").purpose(0, false), Purpose::Other);
        assert_eq!(Does::named("openat"), Does::Other);
    }
}

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

impl Does {
    pub fn named(call: &str) -> Self {
        match call {
            "read" | "readv" | "preadv2" | "recv" | "recvfrom" | "recvmsg" => Self::Receive,
            "recvmmsg" => Self::ReceiveMany,
            "write" | "writev" | "pwritev2" | "vmsplice" | "send" | "sendto" | "sendmsg" => {
                Self::Send
            }
            "sendmmsg" => Self::SendMany,
            "sendfile" | "sendfile64" | "splice" => Self::Move,
            "accept" | "accept4" => Self::Accept,
            "connect" => Self::Connect,
            "close" => Self::Close,
            "shutdown" => Self::Shutdown,
            "poll" | "ppoll" | "select" | "_newselect" | "pselect6" => Self::Poll,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Self::Loop,
            "futex" | "futex_time64" => Self::Futex,
            "futex_wait" => Self::FutexWait,
            "futex_wake" => Self::FutexWake,
            "mq_timedsend" | "msgsnd" => Self::QueueSend,
            "mq_timedreceive" | "msgrcv" => Self::QueueReceive,
            "semop" | "semtimedop" => Self::Semaphore,
            "kill" | "tkill" | "tgkill" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo"
            | "pidfd_send_signal" => Self::Kill,
            "wait4" | "waitid" => Self::Wait,
            "exit" | "exit_group" => Self::Exit,
            "socket" => Self::Socket,
            "socketpair" => Self::SocketPair,
            "pipe" | "pipe2" => Self::Pipe,
            "eventfd" | "eventfd2" => Self::Eventfd,
            "dup" | "dup2" | "dup3" => Self::Duplicate,
            "fcntl" | "fcntl64" => Self::Control,
            "restart_syscall" => Self::Restart,
            "io_uring_enter" | "futex_waitv" | "futex_requeue" | "tee" | "io_submit" => {
                Self::Unfollowed
            }
            _ => Self::Other,
        }
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

//! The system calls by which threads and processes communicate: which are events, what is kept of their arguments, and
//! what they are about.
//!
//! Numbers are those of x86-64, names those that LTTng gives them. Calls of 32-bit programs have other numbers, and are
//! counted alone.

crate::named! {
    /// What a call, or a socket, is about. Events and recordings have the discriminant, recordings also the name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum ObjectKind all OBJECT_KINDS {
        /// Nothing that has an identity.
        #[default]
        None = "none",
        /// A TCP socket: its inode, and its local and remote port.
        Tcp = "tcp",
        /// A UDP socket, likewise.
        Udp = "udp",
        /// A unix socket: its inode, and that of its peer.
        Unix = "unix",
        /// Another socket: its inode.
        Socket = "socket",
        /// A pipe or a FIFO: the low bits of its inode, and the device of its file system.
        Pipe = "pipe",
        /// An eventfd: its id.
        Eventfd = "eventfd",
        /// An epoll instance: its address.
        Epoll = "epoll",
        /// A signalfd: its address.
        Signalfd = "signalfd",
        /// A POSIX message queue: the low bits of its inode, and the device of its file system.
        Mqueue = "mqueue",
        /// A futex: its address, and bits that stand for the memory map that it counts in.
        Futex = "futex",
        /// A System V message queue: its id, and the inode of its ipc namespace.
        Msg = "msg",
        /// A System V set of semaphores, likewise.
        Sem = "sem",
        /// A file that could not be looked up.
        Unknown = "unknown",
    }
}

impl ObjectKind {
    pub fn from_number(number: u64) -> Option<Self> {
        OBJECT_KINDS.get(usize::try_from(number).ok()?).copied()
    }

    /// The same in a program, where a look into a table costs more; what has no kind is unknown.
    #[inline(always)]
    pub const fn from_bits(number: u8) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Tcp,
            2 => Self::Udp,
            3 => Self::Unix,
            4 => Self::Socket,
            5 => Self::Pipe,
            6 => Self::Eventfd,
            7 => Self::Epoll,
            8 => Self::Signalfd,
            9 => Self::Mqueue,
            10 => Self::Futex,
            11 => Self::Msg,
            12 => Self::Sem,
            _ => Self::Unknown,
        }
    }

    /// Whether its identity takes 64 bits, so that nothing else has room beside it.
    #[inline(always)]
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::Epoll | Self::Signalfd | Self::Futex)
    }
}

/// Where the object of a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ObjectSource {
    None,
    /// The file whose descriptor is the first argument that is kept.
    File,
    /// The same, and the call is an event only where that file, or the call's second one, is one of communication.
    IpcFile,
    /// The address that is the first argument.
    Futex,
    /// The id that is the first argument.
    Msg,
    Sem,
}

/// What a call does with its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Role {
    Other,
    /// It receives; the argument of that number has flags, with [`PEEK`] among them. 7: there are none.
    Receives(u8),
    Sends,
    /// It returns the descriptor of a new connection.
    Accepts,
    Connects,
}

/// `MSG_PEEK`: what is received stays there.
pub const PEEK: u64 = 2;
const NO_ARGUMENT: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallInfo {
    pub number: u16,
    /// LTTng's name of it.
    pub name: &'static str,
    pub source: ObjectSource,
    pub role: Role,
    /// The arguments that are kept: LTTng's names, and which they are. Of a call with an object, a second one is
    /// kept in [`EXTRA_BITS`] bits.
    pub fields: &'static [(&'static str, u8)],
    /// Another argument that is a descriptor.
    pub second: Option<u8>,
}

/// Bits of an event for a small argument, such as the operation of a futex.
pub const EXTRA_BITS: u32 = 6;
/// Bits of an event for the number of a call.
pub const NUMBER_BITS: u32 = 16 - EXTRA_BITS;

const fn call(
    number: u16,
    name: &'static str,
    source: ObjectSource,
    role: Role,
    fields: &'static [(&'static str, u8)],
) -> CallInfo {
    CallInfo { number, name, source, role, fields, second: None }
}

const fn file(number: u16, name: &'static str, role: Role) -> CallInfo {
    call(number, name, ObjectSource::File, role, FD)
}

const fn ipc_file(number: u16, name: &'static str, role: Role) -> CallInfo {
    call(number, name, ObjectSource::IpcFile, role, FD)
}

const fn plain(number: u16, name: &'static str, fields: &'static [(&'static str, u8)]) -> CallInfo {
    call(number, name, ObjectSource::None, Role::Other, fields)
}

const fn with_second(info: CallInfo, second: u8) -> CallInfo {
    CallInfo { second: Some(second), ..info }
}

const FD: &[(&str, u8)] = &[("fd", 0)];
const EPFD: &[(&str, u8)] = &[("epfd", 0)];
const UADDR: &[(&str, u8)] = &[("uaddr", 0)];
const SEMID: &[(&str, u8)] = &[("semid", 0)];
const MSQID: &[(&str, u8)] = &[("msqid", 0)];
const MQDES: &[(&str, u8)] = &[("mqdes", 0)];
const PAIR: &[(&str, u8)] = &[("family", 0), ("type", 1), ("protocol", 2)];
const TO_PROCESS: &[(&str, u8)] = &[("pid", 0), ("sig", 1)];
const TO_THREAD: &[(&str, u8)] = &[("pid", 1), ("sig", 2), ("tgid", 0)];
const ANY: Role = Role::Other;
const READ: Role = Role::Receives(NO_ARGUMENT);

/// The calls, in order of their numbers.
pub const CALLS: &[CallInfo] = &[
    ipc_file(0, "read", READ),
    ipc_file(1, "write", Role::Sends),
    ipc_file(3, "close", ANY),
    plain(7, "poll", &[("nfds", 1)]),
    ipc_file(19, "readv", READ),
    ipc_file(20, "writev", Role::Sends),
    plain(22, "pipe", &[]),
    plain(23, "select", &[("n", 0)]),
    plain(34, "pause", &[]),
    with_second(call(40, "sendfile64", ObjectSource::IpcFile, Role::Sends, &[("out_fd", 0)]), 1),
    plain(41, "socket", PAIR),
    file(42, "connect", Role::Connects),
    file(43, "accept", Role::Accepts),
    file(44, "sendto", Role::Sends),
    file(45, "recvfrom", Role::Receives(3)),
    file(46, "sendmsg", Role::Sends),
    file(47, "recvmsg", Role::Receives(2)),
    call(48, "shutdown", ObjectSource::File, ANY, &[("fd", 0), ("how", 1)]),
    file(49, "bind", ANY),
    file(50, "listen", ANY),
    plain(53, "socketpair", PAIR),
    plain(56, "clone", &[("clone_flags", 0)]),
    plain(57, "fork", &[]),
    plain(58, "vfork", &[]),
    plain(60, "exit", &[("error_code", 0)]),
    plain(61, "wait4", &[("upid", 0), ("options", 2)]),
    plain(62, "kill", TO_PROCESS),
    call(65, "semop", ObjectSource::Sem, ANY, SEMID),
    call(69, "msgsnd", ObjectSource::Msg, Role::Sends, MSQID),
    call(70, "msgrcv", ObjectSource::Msg, READ, MSQID),
    plain(72, "fcntl", &[("fd", 0), ("cmd", 1)]),
    plain(73, "flock", &[("fd", 0), ("cmd", 1)]),
    plain(128, "rt_sigtimedwait", &[]),
    plain(129, "rt_sigqueueinfo", TO_PROCESS),
    plain(130, "rt_sigsuspend", &[]),
    plain(200, "tkill", TO_PROCESS),
    call(202, "futex", ObjectSource::Futex, ANY, &[("uaddr", 0), ("op", 1)]),
    plain(219, "restart_syscall", &[]),
    call(220, "semtimedop", ObjectSource::Sem, ANY, SEMID),
    plain(231, "exit_group", &[("error_code", 0)]),
    call(232, "epoll_wait", ObjectSource::File, ANY, EPFD),
    with_second(call(233, "epoll_ctl", ObjectSource::File, ANY, &[("epfd", 0), ("op", 1)]), 2),
    plain(234, "tgkill", TO_THREAD),
    call(242, "mq_timedsend", ObjectSource::File, Role::Sends, MQDES),
    call(243, "mq_timedreceive", ObjectSource::File, READ, MQDES),
    plain(247, "waitid", &[("upid", 1), ("options", 3)]),
    plain(270, "pselect6", &[("n", 0)]),
    plain(271, "ppoll", &[("nfds", 1)]),
    with_second(call(275, "splice", ObjectSource::IpcFile, READ, &[("fd_in", 0)]), 2),
    with_second(call(276, "tee", ObjectSource::IpcFile, ANY, &[("fdin", 0)]), 1),
    ipc_file(278, "vmsplice", ANY),
    call(281, "epoll_pwait", ObjectSource::File, ANY, EPFD),
    plain(284, "eventfd", &[("count", 0)]),
    file(288, "accept4", Role::Accepts),
    plain(290, "eventfd2", &[("count", 0), ("flags", 1)]),
    plain(293, "pipe2", &[("flags", 1)]),
    plain(297, "rt_tgsigqueueinfo", TO_THREAD),
    file(299, "recvmmsg", Role::Receives(3)),
    file(307, "sendmmsg", Role::Sends),
    ipc_file(327, "preadv2", READ),
    ipc_file(328, "pwritev2", Role::Sends),
    plain(424, "pidfd_send_signal", &[("pidfd", 0), ("sig", 1)]),
    plain(426, "io_uring_enter", &[("fd", 0), ("to_submit", 1), ("min_complete", 2)]),
    plain(435, "clone3", &[]),
    call(441, "epoll_pwait2", ObjectSource::File, ANY, EPFD),
    plain(449, "futex_waitv", &[]),
    call(454, "futex_wake", ObjectSource::Futex, ANY, UADDR),
    call(455, "futex_wait", ObjectSource::Futex, ANY, UADDR),
    plain(456, "futex_requeue", &[]),
];

impl CallInfo {
    /// The call of that number, if it is an event.
    pub fn of(number: u16) -> Option<&'static Self> {
        CALLS.get(Self::place(number)?)
    }

    /// Its place among all of them.
    pub fn place(number: u16) -> Option<usize> {
        CALLS.binary_search_by_key(&number, |info| info.number).ok()
    }

    pub fn named(name: &str) -> Option<&'static Self> {
        CALLS.iter().find(|info| info.name == name)
    }

    const fn argument(&self, index: usize) -> u32 {
        if index < self.fields.len() { self.fields[index].1 as u32 } else { NO_ARGUMENT as u32 }
    }

    /// It as the programs have it.
    const fn rule(&self) -> u32 {
        let (role, flags) = match self.role {
            Role::Other => (0, NO_ARGUMENT),
            Role::Receives(flags) => (1, flags),
            Role::Sends => (2, NO_ARGUMENT),
            Role::Accepts => (3, NO_ARGUMENT),
            Role::Connects => (4, NO_ARGUMENT),
        };
        let second = match self.second {
            Some(second) => second,
            None => NO_ARGUMENT,
        };
        1 | (self.source as u32) << 1
            | role << 4
            | (flags as u32) << 7
            | (second as u32) << 10
            | self.argument(0) << 13
            | self.argument(1) << 16
            | self.argument(2) << 19
    }
}

/// What the programs do with a call: [`CallInfo`] in one number. 0: the call is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRule(pub u32);

/// Numbers of calls are below this.
pub const RULES: usize = 512;

/// The rule of each number.
pub const fn rules() -> [u32; RULES] {
    let mut rules = [0; RULES];
    let mut next = 0;
    while next < CALLS.len() {
        rules[CALLS[next].number as usize] = CALLS[next].rule();
        next += 1;
    }
    rules
}

impl CallRule {
    /// Whether the call is an event.
    #[inline(always)]
    pub const fn is_any(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    const fn three(self, at: u32) -> u32 {
        self.0 >> at & 7
    }

    /// Whether its object comes from there.
    #[inline(always)]
    pub const fn is_of(self, source: ObjectSource) -> bool {
        self.three(1) == source as u32
    }

    #[inline(always)]
    pub const fn has_file(self) -> bool {
        self.is_of(ObjectSource::File) || self.is_of(ObjectSource::IpcFile)
    }

    #[inline(always)]
    pub const fn receives(self) -> bool {
        self.three(4) == 1
    }

    #[inline(always)]
    pub const fn sends(self) -> bool {
        self.three(4) == 2
    }

    /// Whether it returns a new connection.
    #[inline(always)]
    pub const fn accepts(self) -> bool {
        self.three(4) == 3
    }

    #[inline(always)]
    pub const fn connects(self) -> bool {
        self.three(4) == 4
    }

    /// Which argument has flags; 7 = none.
    #[inline(always)]
    pub const fn flags(self) -> u32 {
        self.three(7)
    }

    /// Which argument is another descriptor; 7 = none.
    #[inline(always)]
    pub const fn second(self) -> u32 {
        self.three(10)
    }

    /// Which argument is kept as the field of that number (0 to 2); 7 = none.
    #[inline(always)]
    pub const fn field(self, index: u32) -> u32 {
        self.three(13 + 3 * index)
    }
}

/// What a thread is doing between the begin and the end of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CallSlot {
    /// The thread, the call's number above it, and the object's kind above that.
    pub who: u64,
    /// The object's identity, as the event of the begin has it.
    pub key: u64,
    /// Address of its `sock`; 0 where it is none.
    pub sock: u64,
    pub padding: u64,
}

impl CallSlot {
    /// Whose and which call it is, without the object's kind.
    #[inline(always)]
    pub const fn call(tid: u32, number: u32) -> u64 {
        tid as u64 | (number as u64) << 32
    }

    /// Bits of [`Self::who`] below the object's kind.
    pub const KIND_SHIFT: u32 = 56;
}

/// Threads that are in calls at once before they share slots; less where the kernel has no room for as many threads.
pub const CALL_SLOTS: u32 = 65_536;

const _: () = assert!(size_of::<CallSlot>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_in_order_and_fit() {
        assert!(CALLS.is_sorted_by(|one, next| one.number < next.number));
        let rules = rules();
        for info in CALLS {
            let number = usize::from(info.number);
            assert!(number < RULES, "{}", info.name);
            let rule = CallRule(rules[number]);
            assert!(rule.is_any() && rule.is_of(info.source), "{}", info.name);
            assert_eq!(rule.receives(), matches!(info.role, Role::Receives(_)));
            assert_eq!(rule.sends(), info.role == Role::Sends);
            assert_eq!(rule.accepts(), info.role == Role::Accepts);
            assert_eq!(rule.connects(), info.role == Role::Connects);
            for index in 0..3 {
                let field = info.fields.get(index as usize).map_or(7, |(_, which)| *which);
                assert_eq!(rule.field(index), u32::from(field), "{}", info.name);
            }
            assert_eq!(rule.second(), info.second.map_or(7, u32::from), "{}", info.name);
            // An object takes the room of all arguments but one, and a small one.
            assert!(info.source == ObjectSource::None || info.fields.len() <= 2, "{}", info.name);
            assert_eq!(CallInfo::of(info.number), Some(info));
            assert_eq!(CallInfo::named(info.name), Some(info));
        }
        assert_eq!(CallInfo::of(2), None);
        assert!(!CallRule(rules[2]).is_any());
    }

    #[test]
    fn kinds_of_objects_have_numbers() {
        for (number, kind) in (0..).zip(OBJECT_KINDS) {
            assert_eq!((kind as u64, ObjectKind::from_number(number)), (number, Some(kind)));
        }
        assert_eq!(ObjectKind::from_number(OBJECT_KINDS.len() as u64), None);
    }
}

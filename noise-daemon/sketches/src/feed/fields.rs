//! The fields of events of system calls, signals and sockets that matter, as they come.

use core::net::{IpAddr, SocketAddr};

use noise_trace::record::{Record, Stored};
use noise_trace::value::{Shape, Value, Visit};

/// Bytes of a name of a file that are looked at.
const MAX_NAME: usize = 64;

/// What a call is about, by the numbers of our recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noised {
    pub kind: u64,
    pub id: u64,
    /// What is known beside.
    pub peer: u64,
    /// Of TCP, behind the last byte.
    pub position: u32,
}

/// Fields of an event. One that is not there is 0, -1 or empty.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pub fd: i64,
    pub other_fd: i64,
    pub ret: i64,
    /// The operation of a futex, the command of a control.
    pub op: u64,
    /// The address of a futex.
    pub uaddr: u64,
    /// Flags of a call that receives, or makes a descriptor.
    pub flags: u64,
    pub family: u64,
    pub kind: u64,
    pub pid: i64,
    pub sig: i64,
    /// Where it comes from.
    pub code: i64,
    /// What became of it.
    pub result: i64,
    /// The id of a queue or of a set of semaphores.
    pub queue: i64,
    /// Descriptors that were made.
    pub made: [i64; 2],
    /// It has the object of one of our recordings.
    pub is_ours: bool,
    pub noised: Noised,
    /// The thread, in our recordings.
    pub tid: i64,
    pub peeks: bool,
    /// An inode, and a protocol.
    pub inode: u64,
    pub protocol: u64,
    /// The network namespace that a socket is in.
    pub namespace: u64,
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    ports: [u64; 2],
    /// The begin of a file's name.
    pub name: Vec<u8>,
    field: SyscallField,
    elements: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SyscallField {
    #[default]
    None,
    Fd,
    OtherFd,
    Ret,
    Op,
    Uaddr,
    Flags,
    Family,
    Type,
    Pid,
    Sig,
    Code,
    Result,
    Queue,
    Made,
    Object,
    Id,
    Peer,
    Position,
    Tid,
    Peek,
    Inode,
    Protocol,
    Namespace,
    Local,
    Remote,
    LocalPort,
    RemotePort,
    Name,
}

impl SyscallField {
    fn named(name: &str) -> Self {
        match name.strip_prefix('_').unwrap_or(name) {
            "fd" | "fd_in" | "fdin" | "in_fd" | "fildes" | "oldfd" => Self::Fd,
            "fd_out" | "fdout" | "out_fd" => Self::OtherFd,
            "ret" => Self::Ret,
            "op" | "cmd" | "how" => Self::Op,
            "uaddr" => Self::Uaddr,
            "flags" => Self::Flags,
            "family" => Self::Family,
            "type" => Self::Type,
            "pid" => Self::Pid,
            "sig" => Self::Sig,
            "code" => Self::Code,
            "result" => Self::Result,
            "mqdes" | "msqid" | "semid" => Self::Queue,
            "usockvec" => Self::Made,
            "noised_object" => Self::Object,
            "noised_id" => Self::Id,
            "noised_peer" => Self::Peer,
            "noised_position" => Self::Position,
            "noised_tid" => Self::Tid,
            "noised_peek" => Self::Peek,
            "inode" => Self::Inode,
            "protocol" => Self::Protocol,
            "net_ns" => Self::Namespace,
            "local_address" => Self::Local,
            "remote_address" => Self::Remote,
            "local_port" => Self::LocalPort,
            "remote_port" => Self::RemotePort,
            "filename" => Self::Name,
            _ => Self::None,
        }
    }
}

impl Fields {
    pub fn of<'t>(record: &Record<impl Stored<'t>>) -> Self {
        let mut fields = Self { fd: -1, other_fd: -1, queue: -1, made: [-1; 2], ..Self::default() };
        record.visit(&mut fields);
        fields
    }

    /// Its own address and that of the other end.
    pub fn addresses(&self) -> [Option<SocketAddr>; 2] {
        let [local, remote] = self.ports.map(|port| u16::try_from(port).unwrap_or(0));
        let of = |address: Option<IpAddr>, port| {
            address.map(|address| SocketAddr::new(address.to_canonical(), port))
        };
        [of(self.local, local), of(self.remote, remote)]
    }
}

impl Visit for Fields {
    fn name(&mut self, name: &str) {
        self.field = SyscallField::named(name);
        self.elements = 0;
    }

    fn element(&mut self, number: u64) {
        self.elements = usize::try_from(number).unwrap_or(usize::MAX);
        // An array of descriptors has the name of one.
        if self.field == SyscallField::Fd {
            self.field = SyscallField::Made;
        }
    }

    fn value(&mut self, value: Value<'_>) {
        if let Value::Text(text) = value {
            let address = || std::str::from_utf8(text).ok()?.parse().ok();
            match self.field {
                SyscallField::Local => self.local = address(),
                SyscallField::Remote => self.remote = address(),
                SyscallField::Name => {
                    self.name =
                        text.get(..text.len().min(MAX_NAME)).map_or_else(Vec::new, <[u8]>::to_vec)
                }
                _ => {}
            }
            return;
        }
        let Some(unsigned) = value.bits() else { return };
        let value = unsigned.cast_signed();
        match self.field {
            SyscallField::Fd => self.fd = value,
            SyscallField::OtherFd => self.other_fd = value,
            SyscallField::Ret => self.ret = value,
            SyscallField::Op => self.op = unsigned,
            SyscallField::Uaddr => self.uaddr = unsigned,
            SyscallField::Flags => self.flags = unsigned,
            SyscallField::Family => self.family = unsigned,
            SyscallField::Type => self.kind = unsigned,
            SyscallField::Pid => self.pid = value,
            SyscallField::Sig => self.sig = value,
            SyscallField::Code => self.code = value,
            SyscallField::Result => self.result = value,
            SyscallField::Queue => self.queue = value,
            SyscallField::Made => {
                if let Some(place) = self.made.get_mut(self.elements) {
                    *place = value;
                }
            }
            SyscallField::Object => (self.is_ours, self.noised.kind) = (true, unsigned),
            SyscallField::Id => self.noised.id = unsigned,
            SyscallField::Peer => self.noised.peer = unsigned,
            SyscallField::Position => self.noised.position = unsigned as u32,
            SyscallField::Tid => self.tid = value,
            SyscallField::Peek => self.peeks = value != 0,
            SyscallField::Inode => self.inode = unsigned,
            SyscallField::Protocol => self.protocol = unsigned,
            SyscallField::Namespace => self.namespace = unsigned,
            SyscallField::LocalPort => self.ports[0] = unsigned,
            SyscallField::RemotePort => self.ports[1] = unsigned,
            SyscallField::None
            | SyscallField::Local
            | SyscallField::Remote
            | SyscallField::Name => {}
        }
    }

    fn end(&mut self, shape: Shape) {
        if shape == Shape::Elements {
            self.field = SyscallField::None;
        }
    }
}

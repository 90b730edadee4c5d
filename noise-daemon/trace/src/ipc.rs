//! System calls of communication, and what they are about: as our recordings have them, and, with less, those of other
//! tracers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use noise_common::store::calls::{CallInfo, ObjectKind, Source};

use crate::event::{Comm, Kind, Task};
use crate::what::{Fields, Wanted};

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

/// A call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub info: &'static CallInfo,
    /// The thread; 0 where the trace does not say: the one that runs on that CPU.
    pub tid: i32,
    /// The arguments that [`CallInfo::fields`] names, but the address of a futex, which is its object's id.
    pub arguments: [i32; 3],
    /// What it is about.
    pub object: Object,
}

impl Call {
    /// The descriptor of the file that it is about, where it is about one.
    pub fn descriptor(&self) -> Option<i32> {
        let [first, ..] = self.arguments;
        matches!(self.info.source, Source::File | Source::IpcFile).then_some(first)
    }

    /// The operation of a futex, its command with its flags; 0 of other calls.
    pub fn operation(&self) -> u32 {
        let [_, operation, _] = self.arguments;
        if self.info.source == Source::Futex { operation.cast_unsigned() } else { 0 }
    }
}

/// A call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Which.
    pub info: &'static CallInfo,
    /// The thread; 0 where the trace does not say.
    pub tid: i32,
    /// What it returns.
    pub ret: i64,
    /// What it is about; of a connection that was accepted: the new socket.
    pub object: Object,
    /// What it received stays there, and is received again.
    pub peeks: bool,
}

/// The second object of a call: it follows the begin of the call, or its end, at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// The thread.
    pub tid: i32,
    /// The descriptor, where it is a file, else -1.
    pub fd: i32,
    /// The object.
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
    /// That of the other end.
    pub remote: SocketAddr,
    /// Low bits of the inode number of its network namespace.
    pub namespace: u32,
}

/// Something was sent or received by a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// How much, or what was wrong.
    pub ret: i32,
    /// The socket, with its ports or its peer, and its position.
    pub object: Object,
}

/// A signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
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

/// Names that LTTng gave to the call at the begins and ends of calls, in front of its own; those of ftrace; and
/// those of LTTng 2.0, whose ends have no names.
const BEGINS: [&str; 3] = ["syscall_entry_", "sys_enter_", "sys_"];
const ENDS: [&str; 2] = ["syscall_exit_", "sys_exit_"];

/// The call that an event of this name begins (`true`) or ends, if it is one of those that are followed.
pub fn edge(name: &str) -> Option<(&'static CallInfo, bool)> {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    // LTTng 2.0 has it for the begin of that call, which has no end.
    let is_end = name != "sys_exit_group";
    let ends = || ENDS.iter().find_map(|prefix| name.strip_prefix(prefix)).filter(|_| is_end);
    if let Some(call) = ends() {
        return Some((CallInfo::named(call)?, false));
    }
    let call = BEGINS.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    Some((CallInfo::named(call)?, true))
}

/// The field that is the address of a futex.
pub const FUTEX_ADDRESS: &str = "uaddr";

/// Fields of a call's begin.
pub const ENTRY: &[Wanted] = &[
    TID,
    OBJECT,
    ID,
    PEER,
    &[
        "fd",
        "out_fd",
        "fd_in",
        "fdin",
        "epfd",
        "mqdes",
        "pid",
        "upid",
        "pidfd",
        "msqid",
        "semid",
        "nfds",
        "n",
        "clone_flags",
        "error_code",
        "count",
        "flags",
        "family",
    ],
    &["op", "sig", "how", "options", "type", "to_submit", "flags"],
    &["tgid", "protocol", "min_complete"],
    &[FUTEX_ADDRESS],
];
/// Fields of its end.
pub const EXIT: &[Wanted] =
    &[TID, OBJECT, ID, PEER, &["ret"], &["noised_position"], &["noised_peek"]];
/// Fields of a second object.
pub const SECOND: &[Wanted] = &[TID, OBJECT, ID, PEER, &["fd"], &["noised_position"]];

/// Fields of a connection, and of a change of its state.
pub const CONNECTION: &[Wanted] = &[
    &["inode", "noised_id"],
    &["protocol"],
    &["local_address", "saddr"],
    &["local_port", "sport"],
    &["remote_address", "daddr"],
    &["remote_port", "dport"],
    &["net_ns"],
    &["oldstate"],
    &["newstate"],
];
/// Fields of what a socket sent or received, or may receive.
pub const TRANSFER: &[Wanted] = &[TID, OBJECT, ID, PEER, &["ret"], &["noised_position"]];
/// Fields of a file that was open.
pub const OPEN_FILE: &[Wanted] = &[&["pid"], OBJECT, ID, PEER, &["fd"], &["flags"], &["filename"]];
/// Fields of a signal.
pub const SIGNAL: &[Wanted] = &[
    &["sig"],
    &["code"],
    &["comm"],
    &["pid", "noised_tid"],
    &["group", "grp"],
    &["result", "res"],
];

const TID: Wanted = &["noised_tid"];
const OBJECT: Wanted = &["noised_object"];
const ID: Wanted = &["noised_id"];
const PEER: Wanted = &["noised_peer"];

fn object<'t>(fields: &impl Fields<'t>) -> Object {
    let kind = ObjectKind::from_number(fields.int(1)).unwrap_or(ObjectKind::Unknown);
    Object { kind, id: fields.int(2), peer: fields.int(3) as u32, position: 0 }
}

/// The object of a call in a trace that does not say.
const fn unsaid(info: &CallInfo) -> Object {
    let kind = match info.source {
        Source::None => ObjectKind::None,
        _ => ObjectKind::Unknown,
    };
    Object { kind, id: 0, peer: 0, position: 0 }
}

/// The begin of a call, from [`ENTRY`].
pub fn call<'t>(info: &'static CallInfo, fields: &impl Fields<'t>) -> Call {
    let argument = |index: usize| match index < info.fields.len() {
        true => fields.int(4 + index) as i32,
        false => 0,
    };
    let is_futex = info.source == Source::Futex;
    let object = match fields.has(1) {
        true => object(fields),
        false if is_futex => Object { kind: ObjectKind::Futex, id: fields.int(7), ..unsaid(info) },
        false => unsaid(info),
    };
    let first = if is_futex { 0 } else { argument(0) };
    let arguments = [first, argument(1), argument(2)];
    Call { info, tid: fields.int(0) as i32, arguments, object }
}

/// The end of a call, from [`EXIT`].
pub fn call_exit<'t>(info: &'static CallInfo, fields: &impl Fields<'t>) -> Return {
    let object = match fields.has(1) {
        true => Object { position: fields.int(5) as u32, ..object(fields) },
        false => unsaid(info),
    };
    let (tid, ret) = (fields.int(0) as i32, fields.int(4) as i64);
    Return { info, tid, ret, object, peeks: fields.int(6) != 0 }
}

/// A second object, from [`SECOND`].
pub fn second<'t>(fields: &impl Fields<'t>) -> Second {
    let object = Object { position: fields.int(5) as u32, ..object(fields) };
    Second { tid: fields.int(0) as i32, fd: fields.int(4) as i32, object }
}

/// A connection, from [`CONNECTION`].
pub fn connection<'t>(fields: &impl Fields<'t>) -> Connection {
    let end = |at: usize| {
        let text = str::from_utf8(fields.text(at)).unwrap_or_default();
        let address = text.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(address, fields.int(at + 1) as u16)
    };
    Connection {
        inode: fields.int(0) as u32,
        protocol: fields.int(1) as u32,
        local: end(2),
        remote: end(4),
        namespace: fields.int(6) as u32,
    }
}

/// What a socket sent or received, from [`TRANSFER`].
pub fn transfer<'t>(fields: &impl Fields<'t>) -> Transfer {
    let object = Object { position: fields.int(5) as u32, ..object(fields) };
    Transfer { ret: fields.int(4) as i32, object }
}

/// A file that was open, from [`OPEN_FILE`].
pub fn open_file<'t>(fields: &impl Fields<'t>) -> Kind<'t> {
    let unsaid = Object { kind: ObjectKind::Unknown, ..Object::default() };
    Kind::StatedumpFile {
        pid: fields.int(0) as i32,
        fd: fields.int(4) as i32,
        flags: fields.int(5) as u32,
        filename: fields.text(6),
        object: if fields.has(1) { object(fields) } else { unsaid },
    }
}

/// A signal, from [`SIGNAL`].
pub fn signal<'t>(fields: &impl Fields<'t>) -> Signal {
    let task = Task { comm: Comm::new(fields.text(2)), tid: fields.int(3) as i32, prio: 0 };
    Signal {
        sig: fields.int(0) as i32,
        code: fields.int(1) as i32,
        task,
        group: fields.int(4) != 0,
        result: fields.int(5) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_and_ends_are_known_by_the_names_of_all_tracers() {
        let found = |name: &str| edge(name).map(|(info, begins)| (info.name, begins));
        for (name, expected) in [
            ("syscall_entry_recvfrom", Some(("recvfrom", true))),
            ("syscall_exit_futex", Some(("futex", false))),
            ("compat_syscall_entry_read", Some(("read", true))),
            ("sys_enter_read", Some(("read", true))),
            ("sys_exit_read", Some(("read", false))),
            ("sys_read", Some(("read", true))),
            ("sys_exit_group", Some(("exit_group", true))),
            ("sys_exit_exit_group", Some(("exit_group", false))),
            ("exit_syscall", None),
            ("syscall_entry_openat", None),
            ("sched_switch", None),
        ] {
            assert_eq!(found(name), expected, "{name}");
        }
    }
}

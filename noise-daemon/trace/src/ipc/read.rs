//! Events of communication from the fields that tracers give them.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use noise_common::store::calls::{CallInfo, ObjectKind, Source};

use super::{Call, Connection, FUTEX_ADDRESS, Object, Return, Second, Signal, Transfer};
use crate::event::Kind;
use crate::fields::{Fields, Wanted};
use crate::task::{Comm, Task};

/// The call whose begin (`true`) or end an event of this name is, by the names that LTTng and ftrace give to these events. The
/// call's name is empty where older ones of LTTng leave it out, at ends.
pub fn call_name(name: &str) -> Option<(&str, bool)> {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let begins = |prefix| name.strip_prefix(prefix).map(|call| (call, true));
    let ends = |prefix| name.strip_prefix(prefix).map(|call| (call, false));
    match name {
        "exit_syscall" => Some(("", false)),
        // LTTng 2.0 has it for the begin of that call, which has no end.
        "sys_exit" | "sys_exit_group" => begins("sys_"),
        _ => begins("syscall_entry_")
            .or_else(|| ends("syscall_exit_"))
            .or_else(|| begins("sys_enter_"))
            .or_else(|| ends("sys_exit_"))
            .or_else(|| begins("sys_")),
    }
}

/// The call that an event of this name begins (`true`) or ends, if it is one of those that are followed.
pub fn edge(name: &str) -> Option<(&'static CallInfo, bool)> {
    let (call, begins) = call_name(name)?;
    Some((CallInfo::named(call)?, begins))
}

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
        assert_eq!(call_name("syscall_entry_openat"), Some(("openat", true)));
        assert_eq!(call_name("exit_syscall"), Some(("", false)));
        assert_eq!(call_name("sched_switch"), None);
    }
}

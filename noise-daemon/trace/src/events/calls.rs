//! Communication of threads and processes: system calls, sockets and signals.

use core::ffi::CStr;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use noise_common::store::calls::{CallInfo, ObjectKind, ObjectSource};

use super::field::{
    Declared, DeclaredType, EventField, FieldSteps as _, Fields, Hex, Holds, PackedFields,
};
use super::row::events;
use crate::ipc;
use crate::ipc::{Call, FUTEX_ADDRESS, Object, Return, Second, Signal, Transfer};
use crate::task::Comm;
use crate::value::Value;

events! {
    // A call's second object.
    CallOther = "noised_other" => (second: Second) {
        ("fd",              i32,        second.fd)
        ("noised_tid",      i32,        second.tid)
        ("noised_object",   ObjectKind, second.object.kind)
        ("noised_id",       u64,        second.object.id)
        ("noised_peer",     u32,        second.object.peer)
        ("noised_position", u32,        second.object.position)
    }

    Connection = "noised_connection", StatedumpSocket = "noised_statedump_socket" => (connection: ipc::Connection) {
        ("inode",          u32,           connection.inode)
        ("protocol",       u32,           connection.protocol)
        ("local_address",  SocketAddress, connection.local)
        ("local_port",     SocketPort,    connection.local)
        ("remote_address", SocketAddress, connection.remote)
        ("remote_port",    SocketPort,    connection.remote)
        ("net_ns",         u32,           connection.namespace)
    }

    InetSockSetState = "inet_sock_set_state" =>
    { connection: ipc::Connection, from: u32, to: u32 } {
        ("oldstate",  u32,           from)
        ("newstate",  u32,           to)
        ("sport",     SocketPort,    connection.local)
        ("dport",     SocketPort,    connection.remote)
        ("protocol",  u32,           connection.protocol)
        ("saddr",     SocketAddress, connection.local)
        ("daddr",     SocketAddress, connection.remote)
        ("noised_id", u64,           connection.inode)
        ("net_ns",    u32,           connection.namespace)
    }

    SockSendLength = "sock_send_length",
    SockRecvLength = "sock_recv_length" => (transfer: Transfer) {
        ("ret",             i32,        transfer.ret)
        ("noised_object",   ObjectKind, transfer.object.kind)
        ("noised_id",       u64,        transfer.object.id)
        ("noised_peer",     u32,        transfer.object.peer)
        ("noised_position", u32,        transfer.object.position)
    }

    SkDataReady = "sk_data_ready" => (object: Object) {
        ("noised_object",   ObjectKind, object.kind)
        ("noised_id",       u64,        object.id)
        ("noised_peer",     u32,        object.peer)
        ("noised_position", u32,        object.position)
    }

    SignalGenerate = "signal_generate" => (signal: Signal) {
        ("sig",             i32,  signal.sig)
        ("code",            i32,  signal.code)
        ("comm",            Comm, signal.task.comm)
        ("pid",             i32,  signal.task.tid, names known)
        ("group" | "grp",   i32,  signal.group)
        ("result" | "res",  i32,  signal.result)
    }

    SignalDeliver = "signal_deliver" => (signal: Signal) {
        ("sig",                i32, signal.sig)
        ("code",               i32, signal.code)
        ("noised_tid" | "pid", i32, signal.task.tid, names known)
    }
}

/// The address of an end of a connection; 0.0.0.0 where it is none.
struct SocketAddress;
struct SocketPort;

impl Declared for SocketAddress {
    const DECLARED: &'static str = CStr::DECLARED;

    fn split(bytes: &[u8]) -> (Value<'_>, &[u8]) {
        CStr::split(bytes)
    }
}

impl<'t> Holds<'t, SocketAddr> for SocketAddress {
    fn read(place: &mut SocketAddr, fields: &impl Fields<'t>, field: usize) {
        let text = str::from_utf8(fields.text(field)).unwrap_or_default();
        place.set_ip(text.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    }

    fn write(value: SocketAddr, bytes: &mut Vec<u8>) {
        CStr::write(value.ip().to_string().as_bytes(), bytes);
    }
}

impl Declared for SocketPort {
    const DECLARED: &'static str = u32::DECLARED;

    fn split(bytes: &[u8]) -> (Value<'_>, &[u8]) {
        u32::split(bytes)
    }
}

impl<'t> Holds<'t, SocketAddr> for SocketPort {
    fn read(place: &mut SocketAddr, fields: &impl Fields<'t>, field: usize) {
        place.set_port(fields.int(field) as u16);
    }

    fn write(value: SocketAddr, bytes: &mut Vec<u8>) {
        <u32 as Holds<'_, u32>>::write(value.port().into(), bytes);
    }
}

/// What calls have beside the fields of LTTng.
const TID: EventField = EventField::of::<i32>(&["noised_tid"]);
const OBJECT: EventField = EventField::of::<ObjectKind>(&["noised_object"]);
const ID: EventField = EventField::of::<u64>(&["noised_id"]);
const PEER: EventField = EventField::of::<u32>(&["noised_peer"]);

/// Fields of a call's begin. Each call has arguments of its own names: here are those of all.
pub const ENTRY: &[EventField] = &[
    TID,
    OBJECT,
    ID,
    PEER,
    EventField::undeclared(&[
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
    ]),
    EventField::undeclared(&["op", "cmd", "sig", "how", "options", "type", "to_submit", "flags"]),
    EventField::undeclared(&["tgid", "protocol", "min_complete"]),
    EventField::undeclared(&[FUTEX_ADDRESS]),
];

/// Fields of its end.
pub const EXIT: &[EventField] = &[
    EventField::of::<i64>(&["ret"]),
    TID,
    OBJECT,
    ID,
    PEER,
    EventField::of::<u32>(&["noised_position"]),
    EventField::of::<u8>(&["noised_peek"]),
];

/// The fields of a call's begin in recordings, with their types.
pub fn entry_fields(info: &CallInfo) -> impl Iterator<Item = (&'static str, DeclaredType)> {
    let argument = |(name, _): &(&'static str, u8)| match *name {
        FUTEX_ADDRESS => (*name, DeclaredType::of::<Hex>()),
        _ => (*name, DeclaredType::of::<i32>()),
    };
    info.fields
        .iter()
        .map(argument)
        .chain([TID, OBJECT, ID, PEER].iter().filter_map(EventField::recorded))
}

/// The number of a call's begin among the events of calls; that of its end is the next.
pub fn number(info: &CallInfo) -> Option<u32> {
    Some(2 * u32::try_from(CallInfo::place(info.number)?).ok()?)
}

/// The object of a call, whose fields begin at a number.
fn object<'t>(info: &CallInfo, fields: &impl Fields<'t>, first: usize) -> Object {
    let unsaid = match info.source {
        ObjectSource::None => ObjectKind::None,
        _ => ObjectKind::Unknown,
    };
    if !fields.has(first) {
        return Object { kind: unsaid, ..Object::default() };
    }
    Object {
        kind: ObjectKind::from_number(fields.int(first)).unwrap_or(ObjectKind::Unknown),
        id: fields.int(first + 1),
        peer: fields.int(first + 2) as u32,
        position: 0,
    }
}

/// Whether what looks like the begin of exit(2), which has an argument, is what `raw_syscalls` has at the end of any call.
pub fn is_any_end<'t>(name: &str, fields: &impl Fields<'t>) -> bool {
    let own = name.rsplit(':').next().unwrap_or(name);
    matches!(own, "sys_exit" | "compat_sys_exit") && !fields.has(4)
}

/// The begin of a call, from [`ENTRY`].
pub fn read_entry<'t>(info: &'static CallInfo, fields: &impl Fields<'t>) -> Call {
    let argument = |index: usize| match index < info.fields.len() {
        true => fields.int(4 + index) as i32,
        false => 0,
    };
    let is_futex = info.source == ObjectSource::Futex;
    let mut object = object(info, fields, 1);
    if is_futex && !fields.has(1) {
        object = Object { kind: ObjectKind::Futex, id: fields.int(7), ..object };
    }
    let first = if is_futex { 0 } else { argument(0) };
    let arguments = [first, argument(1), argument(2)];
    Call { info, tid: fields.int(0) as i32, arguments, object }
}

/// The end of a call, from [`EXIT`].
pub fn read_exit<'t>(info: &'static CallInfo, fields: &impl Fields<'t>) -> Return {
    let object = Object { position: fields.int(5) as u32, ..object(info, fields, 2) };
    let (ret, tid) = (fields.int(0) as i64, fields.int(1) as i32);
    Return { info, tid, ret, object, peeks: fields.int(6) != 0 }
}

fn write_object(tid: i32, object: &Object, bytes: &mut Vec<u8>) {
    <i32 as Holds<'_, i32>>::write(tid, bytes);
    <ObjectKind as Holds<'_, _>>::write(object.kind, bytes);
    <u64 as Holds<'_, u64>>::write(object.id, bytes);
    <u32 as Holds<'_, _>>::write(object.peer, bytes);
}

pub fn write_entry(call: &Call, bytes: &mut Vec<u8>) {
    for ((name, _), argument) in call.info.fields.iter().zip(call.arguments) {
        if *name == FUTEX_ADDRESS {
            Hex::write(call.object.id, bytes);
        } else {
            <i32 as Holds<'_, i32>>::write(argument, bytes);
        }
    }
    write_object(call.tid, &call.object, bytes);
}

pub fn write_exit(call: &Return, bytes: &mut Vec<u8>) {
    <i64 as Holds<'_, _>>::write(call.ret, bytes);
    write_object(call.tid, &call.object, bytes);
    <u32 as Holds<'_, _>>::write(call.object.position, bytes);
    bytes.push(call.peeks.into());
}

fn unpack_object<'t>(
    fields: PackedFields<'t>,
    tid: &mut i32,
    object: &mut Object,
) -> PackedFields<'t> {
    fields
        .take::<i32, _>(tid)
        .take::<ObjectKind, _>(&mut object.kind)
        .take::<u64, _>(&mut object.id)
        .take::<u32, _>(&mut object.peer)
}

pub fn unpack_entry<'t>(
    info: &'static CallInfo,
    mut fields: PackedFields<'t>,
) -> (Call, PackedFields<'t>) {
    let mut call = Call { info, tid: 0, arguments: [0; 3], object: Object::default() };
    for ((name, _), argument) in info.fields.iter().zip(&mut call.arguments) {
        fields = match *name {
            FUTEX_ADDRESS => fields.take::<Hex, _>(&mut call.object.id),
            _ => fields.take::<i32, _>(argument),
        };
    }
    let left = unpack_object(fields, &mut call.tid, &mut call.object);
    (call, left)
}

pub fn unpack_exit<'t>(
    info: &'static CallInfo,
    fields: PackedFields<'t>,
) -> (Return, PackedFields<'t>) {
    let mut end = Return { info, tid: 0, ret: 0, object: Object::default(), peeks: false };
    let left = fields.take::<i64, _>(&mut end.ret);
    let left = unpack_object(left, &mut end.tid, &mut end.object)
        .take::<u32, _>(&mut end.object.position)
        .recorded::<u8>(|fields, field| end.peeks = fields.int(field) != 0);
    (end, left)
}

//! Events of communication.

use core::net::{IpAddr, SocketAddr};

use noise_common::store::calls::{CALLS, OBJECT_KINDS, ObjectSource};
use proptest::prelude::{Strategy, any, prop_oneof};

use super::{task, text};
use crate::event::{Comm, Task, TraceKind};
use crate::ipc::{Call, Connection, Object, Return, Second, Signal, Transfer};

fn object() -> impl Strategy<Value = Object> {
    let kind = proptest::sample::select(OBJECT_KINDS.to_vec());
    (kind, any::<u64>(), any::<u32>()).prop_map(|(kind, id, peer)| Object {
        kind,
        id,
        peer,
        position: 0,
    })
}

fn placed() -> impl Strategy<Value = Object> {
    (object(), any::<u32>()).prop_map(|(object, position)| Object { position, ..object })
}

fn call() -> impl Strategy<Value = Call> {
    let info = (0..CALLS.len()).prop_map(|place| &CALLS[place]);
    (info, any::<i32>(), any::<[i32; 3]>(), object()).prop_map(|(info, tid, mut all, object)| {
        for (place, argument) in all.iter_mut().enumerate() {
            let is_address = info.source == ObjectSource::Futex && place == 0;
            if place >= info.fields.len() || is_address {
                *argument = 0;
            }
        }
        Call { info, tid, arguments: all, object }
    })
}

fn connection() -> impl Strategy<Value = Connection> {
    let end = || {
        (any::<IpAddr>(), any::<u16>()).prop_map(|(address, port)| SocketAddr::new(address, port))
    };
    (any::<[u32; 3]>(), end(), end()).prop_map(|([inode, protocol, namespace], local, remote)| {
        Connection { inode, protocol, local, remote, namespace }
    })
}

fn signal() -> impl Strategy<Value = Signal> {
    (any::<[i32; 3]>(), task(), any::<bool>()).prop_map(|([sig, code, result], task, group)| {
        Signal { sig, code, task: Task { prio: 0, ..task }, group, result }
    })
}

pub fn kind() -> impl Strategy<Value = TraceKind<'static>> {
    prop_oneof![
        4 => call().prop_map(TraceKind::SyscallEntry),
        4 => (call(), any::<i64>(), placed(), any::<bool>()).prop_map(
            |(Call { info, tid, .. }, ret, object, peeks)| {
                TraceKind::SyscallExit(Return { info, tid, ret, object, peeks })
            }
        ),
        1 => (any::<i32>(), any::<i32>(), placed())
            .prop_map(|(tid, fd, object)| TraceKind::CallOther(Second { tid, fd, object })),
        1 => connection().prop_map(TraceKind::Connection),
        1 => connection().prop_map(TraceKind::StatedumpSocket),
        1 => (connection(), any::<u32>(), any::<u32>()).prop_map(|(connection, from, to)| {
            TraceKind::InetSockSetState { connection, from, to }
        }),
        1 => (any::<i32>(), placed(), any::<bool>()).prop_map(|(ret, object, sends)| match sends {
            true => TraceKind::SockSendLength(Transfer { ret, object }),
            false => TraceKind::SockRecvLength(Transfer { ret, object }),
        }),
        1 => placed().prop_map(TraceKind::SkDataReady),
        1 => signal().prop_map(TraceKind::SignalGenerate),
        // The thread is the one that runs; it is its own target.
        1 => signal().prop_map(|signal| {
            let task = Task { comm: Comm::default(), ..signal.task };
            TraceKind::SignalDeliver(Signal { task, group: false, result: 0, ..signal })
        }),
        1 => (any::<i32>(), any::<i32>(), any::<u32>(), text(), object()).prop_map(
            |(pid, fd, flags, filename, object)| {
                TraceKind::StatedumpFile { pid, fd, flags, filename, object }
            }
        ),
    ]
}

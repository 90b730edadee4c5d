//! Events of communication of the store as events of the model.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use noise_common::store::EventKind;
use noise_common::store::calls::{CallInfo, ObjectKind, ObjectSource};
use noise_common::store::ipc::{self, futex_operation};

use crate::event::{Task, TraceKind};
use crate::ipc::{Call, Connection, Object, Return, Second, Signal, Transfer};

/// Addresses of IPv6, which lie in events of their own before the one that they belong to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    time_ns: u64,
    local: Option<Ipv6Addr>,
    remote: Option<Ipv6Addr>,
}

impl Addresses {
    pub fn note(&mut self, address: [u8; 16], is_remote: bool, time_ns: u64) {
        if time_ns != self.time_ns {
            *self = Self { time_ns, ..Self::default() };
        }
        let place = if is_remote { &mut self.remote } else { &mut self.local };
        *place = Some(address.into());
    }

    /// The addresses of a socket, with those of IPv6 of the same time.
    pub fn connection(
        &mut self,
        ends: &ipc::StoredEnds,
        protocol: u32,
        time_ns: u64,
    ) -> Connection {
        let found = std::mem::take(self);
        let is_its = found.time_ns == time_ns;
        let end = |six: Option<Ipv6Addr>, four: [u8; 4], port| {
            let address = match six.filter(|_| is_its) {
                Some(six) if six.is_unspecified() => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                Some(six) => six.to_canonical(),
                None => IpAddr::V4(four.into()),
            };
            SocketAddr::new(address, port)
        };
        Connection {
            inode: ends.inode,
            protocol,
            local: end(found.local, ends.local, ends.local_port),
            remote: end(found.remote, ends.remote, ends.remote_port),
            namespace: ends.namespace.into(),
        }
    }
}

/// An object at the begin of a call; of a futex, `map` stands for its memory map.
const fn object(of: ipc::StoredObject, map: u32) -> Object {
    let peer = match of.kind {
        ObjectKind::Futex => map,
        _ => of.beside(),
    };
    Object { kind: of.kind, id: of.id(), peer, position: 0 }
}

/// An object at the end of a call.
const fn object_at_end(of: ipc::StoredObject) -> Object {
    let (peer, position) = match of.kind {
        ObjectKind::Tcp => (0, of.beside()),
        _ => (of.beside(), 0),
    };
    Object { kind: of.kind, id: of.id(), peer, position }
}

pub fn entry(call: &ipc::StoredCall) -> Option<TraceKind<'static>> {
    let info = CallInfo::of(call.caller.number)?;
    let (first, extra) = (call.first.cast_signed(), i32::from(call.extra));
    let (arguments, of) = match info.source {
        ObjectSource::None => {
            let (second, third) = (call.object.key as u32, (call.object.key >> 32) as u32);
            let arguments = [first, second.cast_signed(), third.cast_signed()];
            (arguments, Object::default())
        }
        ObjectSource::Futex => {
            let operation = futex_operation(call.extra).cast_signed();
            ([0, operation, 0], object(call.object, call.first))
        }
        ObjectSource::File | ObjectSource::IpcFile | ObjectSource::Msg | ObjectSource::Sem => {
            ([first, extra, 0], object(call.object, 0))
        }
    };
    let tid = call.caller.tid.cast_signed();
    Some(TraceKind::SyscallEntry(Call { info, tid, arguments, object: of }))
}

pub fn exit(call: &ipc::StoredReturn) -> Option<TraceKind<'static>> {
    let info = CallInfo::of(call.caller.number)?;
    let (tid, ret) = (call.caller.tid.cast_signed(), i64::from(call.result));
    let object = object_at_end(call.object);
    Some(TraceKind::SyscallExit(Return { info, tid, ret, object, peeks: call.peeks }))
}

/// The second object of a call.
pub fn other(other: &ipc::Other) -> TraceKind<'static> {
    let tid = other.caller.tid.cast_signed();
    let (fd, object) = match other.object.kind {
        ObjectKind::Futex => (-1, object(other.object, other.first)),
        _ if other.at_end => (other.first.cast_signed(), object_at_end(other.object)),
        _ => (other.first.cast_signed(), object(other.object, 0)),
    };
    TraceKind::CallOther(Second { tid, fd, object })
}

/// A socket sends or receives something, or can receive.
pub fn transfer(which: EventKind, of: &ipc::StoredTransfer) -> TraceKind<'static> {
    let object = Object { position: of.position, ..object(of.object, 0) };
    let transfer = Transfer { ret: of.result, object };
    match which {
        EventKind::SockSend => TraceKind::SockSendLength(transfer),
        EventKind::SockReceive => TraceKind::SockRecvLength(transfer),
        _ => TraceKind::SkDataReady(object),
    }
}

/// A signal is sent to a thread, or that one takes it.
pub fn signal(which: EventKind, of: &ipc::StoredSignal) -> TraceKind<'static> {
    let signal = Signal {
        sig: of.number.into(),
        code: of.code,
        task: Task { tid: of.tid.cast_signed(), ..Task::default() },
        group: of.to_group,
        result: of.result.into(),
    };
    match which {
        EventKind::SignalGenerate => TraceKind::SignalGenerate(signal),
        _ => TraceKind::SignalDeliver(signal),
    }
}

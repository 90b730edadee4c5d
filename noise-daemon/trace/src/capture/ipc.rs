//! Events of communication of the store as events of the model.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use noise_common::store::calls::{CallInfo, ObjectKind, ObjectSource};
use noise_common::store::ipc::{self, futex_operation};
use noise_common::store::{EventKind, StoredEvent};

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

pub fn entry(event: &StoredEvent) -> Option<TraceKind<'static>> {
    let (caller, stored, extra) = (event.caller(), event.object(), event.extra());
    let [first, ..] = event.numbers();
    let info = CallInfo::of(caller.number)?;
    let (arguments, of) = match info.source {
        ObjectSource::None => {
            let (second, third) = (stored.key as u32, (stored.key >> 32) as u32);
            ([first, second, third].map(u32::cast_signed), Object::default())
        }
        ObjectSource::Futex => {
            ([0, futex_operation(extra).cast_signed(), 0], object(stored, first))
        }
        ObjectSource::File | ObjectSource::IpcFile | ObjectSource::Msg | ObjectSource::Sem => {
            ([first.cast_signed(), extra.into(), 0], object(stored, 0))
        }
    };
    let tid = caller.tid.cast_signed();
    Some(TraceKind::SyscallEntry(Call { info, tid, arguments, object: of }))
}

pub fn exit(event: &StoredEvent) -> Option<TraceKind<'static>> {
    let [result, tid, ..] = event.numbers().map(u32::cast_signed);
    let info = CallInfo::of(event.caller().number)?;
    let (ret, object) = (result.into(), object_at_end(event.object()));
    Some(TraceKind::SyscallExit(Return { info, tid, ret, object, peeks: event.peeks() }))
}

/// The second object of a call: its descriptor, or what stands for the memory map of a futex.
pub fn other(event: &StoredEvent) -> TraceKind<'static> {
    let (stored, [first, tid, ..]) = (event.object(), event.numbers());
    let (fd, object) = match stored.kind {
        ObjectKind::Futex => (-1, object(stored, first)),
        _ if event.extra() != 0 => (first.cast_signed(), object_at_end(stored)),
        _ => (first.cast_signed(), object(stored, 0)),
    };
    TraceKind::CallOther(Second { tid: tid.cast_signed(), fd, object })
}

/// A socket sends or receives something, or can receive.
pub fn transfer(which: EventKind, event: &StoredEvent) -> TraceKind<'static> {
    let [result, position, ..] = event.numbers();
    let object = Object { position, ..object(event.object(), 0) };
    let transfer = Transfer { ret: result.cast_signed(), object };
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

//! Hooks of sockets: they write events and measure nothing.

use noise_common::event::CpuState;
use noise_common::store::calls::{ObjectKind, PEEK};
use noise_common::store::ipc::StoredObject;
use noise_common::store::{Class, EventKind};

use crate::calls;
use crate::kernel::Access;
use crate::kernel::sock::Sock;
use crate::maps::{clock_ns, cpu_state};
use crate::store::{self, records};

/// The socket that is the first argument, where events of sockets are written.
#[inline(always)]
fn argument<A: Access>(access: A) -> Option<(*mut CpuState, Sock)> {
    let state = cpu_state()?;
    if !records(state, Class::Io) {
        return None;
    }
    Some((state, Sock::at(access.address(0))?))
}

#[inline(always)]
fn object(sock: Sock) -> StoredObject {
    let (kind, beside) = sock.identity();
    StoredObject { kind, key: u64::from(sock.inode()) | u64::from(beside) << 32 }
}

/// `sock_send_length(socket, result, flags)`: behind the call of the protocol, by whoever sends.
#[inline(always)]
pub fn sent<A: Access>(access: A) -> Option<()> {
    let (state, sock) = argument(access)?;
    let object = object(sock);
    let position = if object.kind == ObjectKind::Tcp { sock.sent() } else { 0 };
    let result = access.argument(1) as u32;
    store::transfer(state, EventKind::SockSend, object, result, position, clock_ns());
    Some(())
}

/// `sock_recv_length(socket, result, flags)`.
#[inline(always)]
pub fn received<A: Access>(access: A) -> Option<()> {
    let (state, sock) = argument(access)?;
    let object = object(sock);
    let position = if object.kind == ObjectKind::Tcp { sock.received() } else { 0 };
    let result = access.argument(1) as u32;
    // What stays there was not received, the kernel's own event says.
    let stays = access.argument(2) & PEEK != 0 && result.cast_signed() > 0;
    let result = if stays { 0 } else { result };
    store::transfer(state, EventKind::SockReceive, object, result, position, clock_ns());
    Some(())
}

/// `sk_data_ready(socket)`.
#[inline(always)]
pub fn ready<A: Access>(access: A) -> Option<()> {
    let (state, sock) = argument(access)?;
    let object = object(sock);
    let position = if object.kind == ObjectKind::Tcp { sock.arrived() } else { 0 };
    store::transfer(state, EventKind::DataReady, object, 0, position, clock_ns());
    Some(())
}

/// `inet_sock_set_state(socket, from, to)`.
#[inline(always)]
pub fn state<A: Access>(access: A) -> Option<()> {
    let (_, sock) = argument(access)?;
    // Those of other protocols have states of other names.
    if sock.identity().0 != ObjectKind::Tcp {
        return None;
    }
    let states = (access.argument(1) & 0xf) as u32 | ((access.argument(2) & 0xf) as u32) << 4;
    calls::state(sock, states, clock_ns());
    Some(())
}

//! What system calls are about: kept by the number of the thread that makes them, from the begin of a call to its end.
//!
//! Looking up a file has many paths. It is a function of its own, without pointers among its arguments: the verifier looks
//! at it once, instead of once for every path to it.

use core::ptr;

use noise_common::store::EventKind;
use noise_common::store::calls::{CallSlot, ObjectKind};
use noise_common::store::ipc::{Caller, StoredObject};

use crate::kernel::file::{Found, look_up};
use crate::kernel::sock::{End, Sock};
use crate::kernel::{Access, CALLS_MASK, Raw, TaskStruct, Typed};
use crate::maps::{NOISE_CALLS, cpu_state};
use crate::store;

/// In the place of a call's number, while a thread's slot has what a descriptor was found to stand for.
const LOOKING: u32 = 0xffff;

/// The slot of a thread.
#[inline(always)]
fn slot(tid: u32) -> Option<*mut CallSlot> {
    NOISE_CALLS.get_ptr_mut(tid & CALLS_MASK.load())
}

/// Writes a slot. Another thread that has the same one may write it at the same time: who reads it looks at whose it
/// is before and afterwards.
#[inline(always)]
fn write(tid: u32, number: u32, found: Found) {
    let Some(slot) = slot(tid) else { return };
    let kind = (found.object.kind as u64) << CallSlot::KIND_SHIFT;
    // SAFETY: the slot is an entry of the map.
    unsafe {
        ptr::write_volatile(&raw mut (*slot).who, 0);
        ptr::write_volatile(&raw mut (*slot).key, found.object.key);
        ptr::write_volatile(&raw mut (*slot).sock, found.sock);
        ptr::write_volatile(&raw mut (*slot).who, CallSlot::call(tid, number) | kind);
    }
}

/// What a slot has of a call; `None` where it is another thread's, or of another call.
#[inline(always)]
fn read(tid: u32, number: u32) -> Option<Found> {
    let slot = slot(tid)?;
    // SAFETY: the slot is an entry of the map.
    let (who, key, sock, again) = unsafe {
        (
            ptr::read_volatile(&raw const (*slot).who),
            ptr::read_volatile(&raw const (*slot).key),
            ptr::read_volatile(&raw const (*slot).sock),
            ptr::read_volatile(&raw const (*slot).who),
        )
    };
    let is_its = who & ((1 << CallSlot::KIND_SHIFT) - 1) == CallSlot::call(tid, number);
    if !is_its || who != again {
        return None;
    }
    let kind = ObjectKind::from_bits((who >> CallSlot::KIND_SHIFT) as u8);
    Some(Found { object: StoredObject { kind, key }, sock })
}

/// Keeps what a call is about.
#[inline(always)]
pub fn keep(caller: Caller, found: Found) {
    write(caller.tid, u32::from(caller.number), found);
}

/// What a call is about that ends, if it was kept.
#[inline(always)]
pub fn kept(caller: Caller) -> Option<Found> {
    read(caller.tid, u32::from(caller.number))
}

/// What a descriptor of the task that runs stands for. What was kept of it is lost.
#[inline(always)]
pub fn find<A: Access>(tid: u32, descriptor: u32) -> Found {
    if A::IS_TYPED {
        noise_file(descriptor, tid);
    } else {
        noise_file_raw(descriptor, tid);
    }
    read(tid, LOOKING).unwrap_or(Found::UNKNOWN)
}

/// Looks a descriptor up with typed pointers.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_file(descriptor: u32, tid: u32) -> u32 {
    let task = TaskStruct::current(Typed(ptr::null_mut()));
    write(tid, LOOKING, look_up(task, descriptor));
    0
}

/// The same by probes alone.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_file_raw(descriptor: u32, tid: u32) -> u32 {
    let task = TaskStruct::current(Raw(ptr::null_mut()));
    write(tid, LOOKING, look_up(task, descriptor));
    0
}

/// Writes the ends of a socket, which has that address: `connection`, or `inet_sock_set_state`. `name` is where the
/// process that runs has the other end's, if it is not 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_ends(sock: u64, name: u64, what: u32, inode: u32, now_ns: u64) -> u32 {
    let (Some(state), Some(sock)) = (cpu_state(), Sock::at(sock)) else { return 0 };
    let (own, mut other) = sock.ends();
    if name != 0 {
        match End::of_user(name) {
            Some(end) => other = end,
            None => return 0,
        }
    }
    let is_state = what >> 8 != 0;
    let kind = if is_state { EventKind::SockState } else { EventKind::Connection };
    store::ends(state, kind, what as u8, sock.namespace(), inode, (own, other), now_ns);
    0
}

/// The addresses of a socket, with its protocol.
#[inline(always)]
pub fn connection(sock: Sock, name: u64, inode: u32, now_ns: u64) {
    noise_ends(sock.address(), name, u32::from(sock.protocol() as u8), inode, now_ns);
}

/// A socket goes from one state to another, four bits each.
#[inline(always)]
pub fn state(sock: Sock, states: u32, now_ns: u64) {
    noise_ends(sock.address(), 0, states & 0xff | 1 << 8, sock.inode(), now_ns);
}

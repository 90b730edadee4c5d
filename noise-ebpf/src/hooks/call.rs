//! System calls of communication: they write events and measure nothing. What is done with a call of which number is
//! in the table of `noise_common::store::calls`.
//!
//! Between its begin and its end, a call's object is kept (see `calls.rs`): the descriptor may be closed, or be another
//! file's, by then. Where another thread has taken the slot meanwhile, the descriptor is looked up again.

use core::hint::black_box;
use core::ptr;

use noise_common::event::CpuState;
use noise_common::store::Class;
use noise_common::store::calls::{CallRule, ObjectKind, ObjectSource, PEEK, RULES, rules};
use noise_common::store::ipc::{Caller, StoredObject, futex_extra};

use crate::calls;
use crate::kernel::file::Found;
use crate::kernel::regs::Regs;
use crate::kernel::sock::Sock;
use crate::kernel::{Access, TaskStruct, probe_user};
use crate::maps::{clock_ns, cpu_state};
use crate::store::{self, records};

/// By number of the call.
#[unsafe(no_mangle)]
static NOISE_RULES: [u32; RULES] = rules();

const NO_ARGUMENT: u32 = 7;
/// Commands of a futex that are about two addresses: from `FUTEX_REQUEUE` to `FUTEX_WAKE_OP`, and
/// `FUTEX_WAIT_REQUEUE_PI` and `FUTEX_CMP_REQUEUE_PI`.
const SECOND_ADDRESS: u32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 11 | 1 << 12;
/// The argument that is a futex's second address.
const SECOND_ADDRESS_AT: u32 = 4;
/// Bits of a small argument.
const SMALL: u64 = 0x3f;

/// What is done with a call; `None` where it is no event.
#[inline(always)]
fn rule(number: u32) -> Option<CallRule> {
    let number = black_box(number) as usize;
    if number >= RULES {
        return None;
    }
    // SAFETY: the number is below that of the rules.
    let rule =
        CallRule(unsafe { ptr::read_volatile((&raw const NOISE_RULES).cast::<u32>().add(number)) });
    rule.is_any().then_some(rule)
}

/// `sys_enter(regs, number)`.
#[inline(always)]
pub fn enter<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if !records(state, Class::Ipc) {
        return None;
    }
    let (number, task) = (access.argument(1) as u32, TaskStruct::current(access));
    if task.is_in_foreign_call() {
        // SAFETY: the state is this CPU's, and no other hook writes this count.
        unsafe { (*state).foreign_calls += 1 };
        return None;
    }
    let rule = rule(number)?;
    let caller = Caller { tid: task.pid(), number: number as u16 };
    let regs = Regs::argument(access);
    let first = regs.get(rule.field(0));
    let small = (regs.get(rule.field(1)) & SMALL) as u8;
    if rule.has_file() {
        let found = calls::find::<A>(caller.tid, first as u32);
        let (second, other) = second(caller.tid, regs, rule);
        calls::keep(caller, found);
        if rule.is_of(ObjectSource::IpcFile) && !found.is_ipc() && !other.is_ipc() {
            return None;
        }
        let now_ns = clock_ns();
        store::call(state, caller, found.object, first as u32, small, now_ns);
        if other.is_ipc() {
            store::call_other(state, caller, other.object, second, false, now_ns);
        }
    } else if rule.is_of(ObjectSource::Futex) {
        futex(task, state, caller, regs, first);
    } else if rule.is_of(ObjectSource::None) {
        let rest = (regs.get(rule.field(1)) & 0xffff_ffff) | regs.get(rule.field(2)) << 32;
        let object = StoredObject { kind: ObjectKind::None, key: rest };
        store::call(state, caller, object, first as u32, 0, clock_ns());
    } else {
        let object = by_id(task, rule, first);
        store::call(state, caller, object, first as u32, 0, clock_ns());
    }
    Some(())
}

/// A queue or a set of semaphores of System V.
#[inline(always)]
fn by_id<A: Access>(task: TaskStruct<A>, rule: CallRule, id: u64) -> StoredObject {
    let kind = if rule.is_of(ObjectSource::Msg) { ObjectKind::Msg } else { ObjectKind::Sem };
    let namespace = task.ipc_namespace();
    StoredObject { kind, key: id & 0xffff_ffff | u64::from(namespace) << 32 }
}

#[inline(always)]
fn futex<A: Access>(
    task: TaskStruct<A>,
    state: *mut CpuState,
    caller: Caller,
    regs: Regs<A>,
    address: u64,
) {
    let map = task.memory_map();
    // The calls that replace it have no operation.
    let operation = if u32::from(caller.number) == FUTEX { regs.get(1) as u32 } else { 0 };
    let object = StoredObject { kind: ObjectKind::Futex, key: address };
    let now_ns = clock_ns();
    store::call(state, caller, object, map, futex_extra(operation), now_ns);
    if SECOND_ADDRESS >> (operation & 0xf) & 1 == 1 {
        let key = regs.get(SECOND_ADDRESS_AT);
        store::call_other(state, caller, StoredObject { key, ..object }, map, false, now_ns);
    }
}

/// Calls with arguments of their own: see `noise_common::store::calls`.
const FUTEX: u32 = 202;
const SENDTO: u32 = 44;
const RECVFROM: u32 = 45;
const SENDMSG: u32 = 46;
const RECVMSG: u32 = 47;
/// The argument that is the address of another end, and the one that is a `msghdr` with such an address.
const NAME_AT: u32 = 4;
const MESSAGE_AT: u32 = 1;
/// The connection is being made.
const EINPROGRESS: i64 = 115;

/// The second file of a call, with its descriptor.
#[inline(always)]
fn second<A: Access>(tid: u32, regs: Regs<A>, rule: CallRule) -> (u32, Found) {
    if rule.second() == NO_ARGUMENT {
        return (0, Found::NONE);
    }
    let descriptor = regs.get(rule.second()) as u32;
    (descriptor, calls::find::<A>(tid, descriptor))
}

/// The object as the event of an end has it: of a stream, with the place in it.
#[inline(always)]
fn placed(found: Found, receives: bool, sends: bool) -> StoredObject {
    let StoredObject { kind, key } = found.object;
    let id = key & 0xffff_ffff;
    match (kind, Sock::at(found.sock)) {
        (ObjectKind::Tcp, Some(sock)) => {
            let place = if receives {
                sock.received()
            } else if sends {
                sock.sent()
            } else {
                0
            };
            StoredObject { kind, key: id | u64::from(place) << 32 }
        }
        (ObjectKind::Tcp | ObjectKind::Udp, _) => StoredObject { kind, key: id },
        _ => found.object,
    }
}

/// Whether the end of a call says between which addresses a socket is; if so, where the process has the other one's, or
/// 0 where it is the socket's.
#[inline(always)]
fn new_end<A: Access>(
    kind: ObjectKind,
    number: u32,
    regs: Regs<A>,
    rule: CallRule,
    result: i64,
) -> Option<u64> {
    let is_connected = rule.connects() && (result == 0 || result == -EINPROGRESS);
    let is_new = is_connected || rule.accepts() && result >= 0;
    match kind {
        ObjectKind::Tcp | ObjectKind::Udp if is_new => Some(0),
        ObjectKind::Udp if result >= 0 => {
            let name = match number {
                SENDTO | RECVFROM => regs.get(NAME_AT),
                // The first field of a `msghdr`.
                SENDMSG | RECVMSG => probe_user(regs.get(MESSAGE_AT)),
                _ => 0,
            };
            (name != 0).then_some(name)
        }
        _ => None,
    }
}

/// `sys_exit(regs, result)`.
#[inline(always)]
pub fn exit<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if !records(state, Class::Ipc) {
        return None;
    }
    let regs = Regs::argument(access);
    let number = regs.number() as u32;
    let (rule, task) = (rule(number)?, TaskStruct::current(access));
    // Its number means another call. It was counted at its begin.
    if task.is_in_foreign_call() {
        return None;
    }
    let caller = Caller { tid: task.pid(), number: number as u16 };
    let result = access.argument(1);
    if rule.has_file() {
        let is_new = rule.accepts() && (result as i64) >= 0;
        let known = if is_new { None } else { calls::kept(caller) };
        let found = match known {
            Some(found) => found,
            None => {
                let descriptor = if is_new { result } else { regs.get(rule.field(0)) };
                calls::find::<A>(caller.tid, descriptor as u32)
            }
        };
        let (second, other) = second(caller.tid, regs, rule);
        if rule.is_of(ObjectSource::IpcFile) && !found.is_ipc() && !other.is_ipc() {
            return None;
        }
        let peeks = regs.get(rule.flags()) & PEEK != 0;
        let object = placed(found, rule.receives(), rule.sends());
        let now_ns = clock_ns();
        if let Some(sock) = Sock::at(found.sock)
            && let Some(name) = new_end(found.object.kind, number, regs, rule, result as i64)
        {
            calls::connection(sock, name, found.object.key as u32, now_ns);
        }
        store::call_exit(state, caller, object, result as u32, peeks, now_ns);
        if other.is_ipc() {
            // What one of them receives, the other one sends.
            let object = placed(other, rule.sends(), rule.receives());
            store::call_other(state, caller, object, second, true, now_ns);
        }
    } else {
        let first = regs.get(rule.field(0));
        let object = if rule.is_of(ObjectSource::None) {
            StoredObject::default()
        } else if rule.is_of(ObjectSource::Futex) {
            StoredObject { kind: ObjectKind::Futex, key: first }
        } else {
            by_id(task, rule, first)
        };
        store::call_exit(state, caller, object, result as u32, false, clock_ns());
    }
    Some(())
}

//! Writes events to the store. The look-up of an array's entry is no call: the kernel puts a handful of
//! instructions in its place.
//!
//! Where a hook reads the clock in any case, the function here asks whether the class is on. Where it may
//! read the clock for the event alone, the hook asks [`records`] first: of [`task`], [`hrtimer`], [`block`],
//! [`net`], [`drop`], [`retransmit`] and what is about calls, sockets and signals.

use core::ptr;

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use noise_common::event::CpuState;
use noise_common::hooks::Vector;
use noise_common::store::event::Body;
use noise_common::store::ipc::{Caller, StoredEnds, StoredObject, StoredSignal};
use noise_common::store::writing::{self, Store};
use noise_common::store::{Class, EventKind, Part, StoredEvent};

use crate::kernel::hrtimer::Hrtimer;
use crate::kernel::packet::{Interface, Skb};
use crate::kernel::request::BlkRequest;
use crate::kernel::sock::End;
use crate::kernel::{Access, TaskStruct};
use crate::maps::NOISE_EVENTS;

/// The parts of the CPU whose state it is.
struct Own(*mut CpuState);

impl Own {
    #[inline(always)]
    fn part(&self, part: usize) -> *mut Part {
        // SAFETY: the state is this CPU's, and the caller keeps `part` below the number of parts; the
        // verifier checks.
        unsafe { (&raw mut (*self.0).store.parts).cast::<Part>().add(part) }
    }
}

// Accesses are volatile: their order is what the rules in noise-common rest on.
impl Store for Own {
    type Slot = *mut u64;

    #[inline(always)]
    fn depth(&mut self) -> u32 {
        // SAFETY: the state is this CPU's.
        unsafe { ptr::read_volatile(&raw const (*self.0).store.depth) }
    }

    #[inline(always)]
    fn set_depth(&mut self, depth: u32) {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(&raw mut (*self.0).store.depth, depth) }
    }

    #[inline(always)]
    fn next(&mut self, part: usize) -> u64 {
        // SAFETY: as above.
        unsafe { ptr::read_volatile(&raw const (*self.part(part)).next) }
    }

    #[inline(always)]
    fn set_next(&mut self, part: usize, next: u64) {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(&raw mut (*self.part(part)).next, next) }
    }

    #[inline(always)]
    fn index(&mut self, part: usize, number: u64) -> u32 {
        // SAFETY: as above.
        let (first, mask) = unsafe { ((*self.part(part)).first, (*self.part(part)).mask) };
        first.wrapping_add(number as u32 & mask)
    }

    #[inline(always)]
    fn slot(&mut self, index: u32) -> Option<*mut u64> {
        NOISE_EVENTS.get_ptr_mut(index).map(<*mut StoredEvent>::cast::<u64>)
    }

    #[inline(always)]
    fn put(&mut self, slot: *mut u64, word: usize, value: u64) {
        // SAFETY: the slot is an entry of the array, of four words.
        unsafe { ptr::write_volatile(slot.add(word), value) }
    }

    #[inline(always)]
    fn lose(&mut self) {
        // SAFETY: the state is this CPU's.
        unsafe { (*self.0).store.lost += 1 }
    }
}

/// Whether events of a class are written.
#[inline(always)]
pub fn records(state: *mut CpuState, class: Class) -> bool {
    // SAFETY: `state` points to a whole CpuState.
    unsafe { (*state).records(class) }
}

#[inline(always)]
fn write(state: *mut CpuState, body: &Body) {
    writing::write(&mut Own(state), body, None);
}

/// `sched_switch`. It runs with interrupts off and interrupts no other writer: what says otherwise was
/// left by one that was preempted.
#[inline(always)]
pub fn switch<A: Access>(
    state: *mut CpuState,
    previous: (TaskStruct<A>, u32),
    left_in: u64,
    preempted: bool,
    next: (TaskStruct<A>, u32),
    now_ns: u64,
) {
    if records(state, Class::Sched) {
        let (from, to) = ((previous.1, previous.0.priority()), (next.1, next.0.priority()));
        let body = Body::switch(from, left_in as u32, preempted, to, now_ns);
        writing::write(&mut Own(state), &body, Some(0));
    }
}

/// A task is woken up, created or moved; `to` is where it moves.
#[inline(always)]
pub fn task<A: Access>(
    state: *mut CpuState,
    kind: EventKind,
    task: TaskStruct<A>,
    to: u32,
    now_ns: u64,
) {
    write(state, &Body::task(kind, task.pid(), task.priority(), task.cpu(), to, now_ns));
}

/// A task creates another one.
#[inline(always)]
pub fn fork<A: Access>(
    state: *mut CpuState,
    parent: TaskStruct<A>,
    child: TaskStruct<A>,
    now_ns: u64,
) {
    if records(state, Class::Sched) {
        let ids = [parent.pid(), child.pid(), child.tgid()];
        write(state, &Body::process(EventKind::Fork, ids, now_ns));
    }
}

/// The task that runs becomes another program.
#[inline(always)]
pub fn exec<A: Access>(state: *mut CpuState, task: TaskStruct<A>, old_pid: u32, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::process(EventKind::Exec, [task.pid(), old_pid, 0], now_ns));
        write(state, &Body::name(task.comm(), now_ns));
    }
}

#[inline(always)]
pub fn exit<A: Access>(state: *mut CpuState, task: TaskStruct<A>, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::process(EventKind::Exit, [task.pid(), task.tgid(), 0], now_ns));
    }
}

/// The task that runs begins to wait for a child. Its id comes from a helper that 5.10 has in `tp_btf` programs, too.
#[inline(always)]
pub fn wait(state: *mut CpuState, child: u32, now_ns: u64) {
    if records(state, Class::Sched) {
        let tid = bpf_get_current_pid_tgid() as u32;
        write(state, &Body::process(EventKind::Wait, [tid, child, 0], now_ns));
    }
}

/// A handler of a device interrupt begins or ends.
#[inline(always)]
pub fn irq(state: *mut CpuState, kind: EventKind, irq: u32, result: u32, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::irq(kind, irq, result, now_ns));
    }
}

/// An interrupt vector begins or ends.
#[inline(always)]
pub fn vector(state: *mut CpuState, kind: EventKind, which: Vector, number: u64, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::vector(kind, which, number as u16, now_ns));
    }
}

/// A softirq vector is raised, begins or ends.
#[inline(always)]
pub fn softirq(state: *mut CpuState, kind: EventKind, vector: usize, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::softirq(kind, vector as u8, now_ns));
    }
}

/// A handler of NMIs ran.
#[inline(always)]
pub fn nmi(state: *mut CpuState, duration_ns: u64, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::nmi(duration_ns, now_ns));
    }
}

/// The function of a high-resolution timer begins.
#[inline(always)]
pub fn hrtimer<A: Access>(state: *mut CpuState, timer: Hrtimer<A>, timer_ns: u64, now_ns: u64) {
    write(state, &Body::hrtimer(timer.address(), timer.function(), timer_ns, now_ns));
}

#[inline(always)]
pub fn hrtimer_exit<A: Access>(state: *mut CpuState, timer: Hrtimer<A>, now_ns: u64) {
    write(state, &Body::hrtimer_exit(timer.pointer(), now_ns));
}

/// So much of a task's wait for a CPU that ends now was its quota's.
#[inline(always)]
pub fn throttled(state: *mut CpuState, pid: u32, throttled_ns: u64, now_ns: u64) {
    if records(state, Class::Sched) {
        write(state, &Body::throttled(pid, throttled_ns, now_ns));
    }
}

/// A step of a block request; `bytes` and `error` of a completion are its own.
#[inline(always)]
pub fn block<A: Access>(
    state: *mut CpuState,
    kind: EventKind,
    request: BlkRequest<A>,
    bytes: u32,
    error: u8,
    now_ns: u64,
) {
    let what = (request.disk(), bytes);
    let place = (request.number(), request.sector());
    write(state, &Body::block(kind, place, what, request.cmd_flags(), error, now_ns));
}

/// A packet is queued, transmitted or received.
#[inline(always)]
pub fn net<A: Access>(
    state: *mut CpuState,
    kind: EventKind,
    skb: Skb<A>,
    at: Interface,
    now_ns: u64,
) {
    let place = (at.index, at.netns);
    write(state, &Body::net(kind, skb.pointer(), skb.len() as u32, place, now_ns));
}

/// A packet is dropped.
#[inline(always)]
pub fn drop<A: Access>(state: *mut CpuState, skb: Skb<A>, reason: u32, now_ns: u64) {
    write(state, &Body::net(EventKind::NetDrop, skb.pointer(), reason, (0, 0), now_ns));
}

/// A segment is sent again.
#[inline(always)]
pub fn retransmit(state: *mut CpuState, skb: u64, at: Interface, now_ns: u64) {
    write(state, &Body::net(EventKind::TcpRetransmit, skb, 0, (at.index, at.netns), now_ns));
}

/// A system call begins.
#[inline(always)]
pub fn call(
    state: *mut CpuState,
    caller: Caller,
    object: StoredObject,
    first: u32,
    extra: u8,
    now_ns: u64,
) {
    write(state, &Body::call(caller, object, first, extra, now_ns));
}

#[inline(always)]
pub fn call_exit(
    state: *mut CpuState,
    caller: Caller,
    object: StoredObject,
    result: u32,
    peeks: bool,
    now_ns: u64,
) {
    write(state, &Body::call_exit(caller, object, result, peeks, now_ns));
}

/// The second object of a call.
#[inline(always)]
pub fn call_other(
    state: *mut CpuState,
    caller: Caller,
    object: StoredObject,
    first: u32,
    at_end: bool,
    now_ns: u64,
) {
    write(state, &Body::call_other(caller, object, first, at_end, now_ns));
}

/// The ends of a socket: `connection`, with its protocol, or `inet_sock_set_state`, with its states.
#[inline(always)]
pub fn ends(
    state: *mut CpuState,
    kind: EventKind,
    small: u8,
    namespace: u16,
    inode: u32,
    (local, remote): (End, End),
    now_ns: u64,
) {
    let (four, other_four) = (local.host.mapped(), remote.host.mapped());
    if four.is_none() || other_four.is_none() {
        write(state, &Body::address(local.host.words(), false, now_ns));
        write(state, &Body::address(remote.host.words(), true, now_ns));
    }
    let ends = StoredEnds {
        inode,
        local: four.unwrap_or(0).to_le_bytes(),
        remote: other_four.unwrap_or(0).to_le_bytes(),
        local_port: local.port,
        remote_port: remote.port,
        namespace,
    };
    write(state, &Body::ends(kind, small, &ends, now_ns));
}

/// A socket sent or received something, or can receive.
#[inline(always)]
pub fn transfer(
    state: *mut CpuState,
    kind: EventKind,
    object: StoredObject,
    result: u32,
    position: u32,
    now_ns: u64,
) {
    write(state, &Body::transfer(kind, object, result, position, now_ns));
}

#[inline(always)]
pub fn signal(state: *mut CpuState, kind: EventKind, signal: &StoredSignal, now_ns: u64) {
    write(state, &Body::signal(kind, signal, now_ns));
}

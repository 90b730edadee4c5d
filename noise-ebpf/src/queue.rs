//! Queues of devices and interfaces: what they serve, and who was ahead of whom.
//!
//! A queue may be served by two CPUs at the same instant; then what one of them served may be taken
//! for the other's. The amounts themselves are added up atomically.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use noise_common::charge::{Cause, ChargeKey, UNKNOWN};
use noise_common::event::CpuState;
use noise_common::queue::{
    Ahead, QUEUE_IDLE_NS, QUEUE_WAITS, QUEUE_WAYS, QUEUES, QueueWait, Served, Share, queue_entry,
};

use crate::charge::spill;
use crate::maps::{NOISE_QUEUES, cpu_state};

/// Set in the number of a device where it stands for what the device has done, not for its queue.
pub const AT_DEVICE: u64 = 1 << 40;

/// The number of a queue's entry, or of one that it may take, because that is free or was not used for long; of none
/// where there is no room.
#[inline(always)]
fn number(queue: u64, now_ns: u64) -> u32 {
    let first = queue_entry(queue);
    // SAFETY: the pointer is an entry of the array.
    if NOISE_QUEUES.get_ptr(first).is_some_and(|served| unsafe { (*served).queue } == queue) {
        return first;
    }
    search(queue, now_ns)
}

/// The same for a queue whose first entry is not its own.
#[inline(never)]
fn search(queue: u64, now_ns: u64) -> u32 {
    let first = queue_entry(queue);
    let mut room = QUEUES as u32;
    for way in 0..QUEUE_WAYS {
        let number = first ^ way;
        let Some(served) = NOISE_QUEUES.get_ptr(number) else { break };
        // SAFETY: the pointer is an entry of the array.
        let (occupant, used_ns) = unsafe { ((*served).queue, (*served).used_ns) };
        if occupant == queue {
            return number;
        }
        let is_free = occupant == 0 || used_ns.wrapping_add(QUEUE_IDLE_NS) < now_ns;
        if is_free && room == QUEUES as u32 {
            room = number;
        }
    }
    room
}

/// The entry of a queue, which is made if there is room.
#[inline(always)]
fn entry(queue: u64, now_ns: u64) -> Option<*mut Served> {
    let served = NOISE_QUEUES.get_ptr_mut(number(queue, now_ns))?;
    // SAFETY: the pointer is an entry of the array.
    unsafe {
        if (*served).queue != queue {
            (*served).begin(queue);
        }
        (*served).used_ns = now_ns;
    }
    Some(served)
}

/// How much a queue has served so far; [`UNKNOWN`] where it is not followed.
#[inline(always)]
pub fn mark(queue: u64, now_ns: u64) -> u64 {
    // SAFETY: the pointer is an entry of the array.
    entry(queue, now_ns).map_or(UNKNOWN, |served| unsafe { (*served).total })
}

/// A queue served an amount on behalf of a cgroup.
#[inline(always)]
pub fn serve(queue: u64, source: u64, amount: u64, now_ns: u64) {
    let Some(served) = entry(queue, now_ns) else { return };
    // SAFETY: the pointer is an entry of the array.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*served).total, amount);
        (*served).sources.note(source, (*served).total);
    }
}

/// Whose turn it is, and what was ahead of it.
#[derive(Clone, Copy)]
pub struct Ticket {
    /// What the queue had served when the wait began.
    pub mark: u64,
    pub cgroup: u64,
}

/// A wait in a queue.
pub struct Wait {
    pub which: QueueWait,
    pub queue: u64,
    /// Who waited, and since when.
    pub ticket: Ticket,
    /// How long it was.
    pub ns: u64,
    /// The device or interface, as keys of charges have it.
    pub place: u32,
}

/// Charges who was ahead.
#[inline(always)]
pub fn charge(state: *mut CpuState, wait: &Wait) {
    // The cause is put in with each part.
    let kind = ChargeKey::kind(wait.place, Cause::Foreign, wait.which.resource());
    let entry = number(wait.queue, 0);
    let served = NOISE_QUEUES.get_ptr(entry);
    // SAFETY: the pointer is an entry of the array.
    let is_followed = served.is_some_and(|served| unsafe { (*served).queue } == wait.queue);
    // SAFETY: the state is this CPU's, and a program that runs does not run again on its CPU before
    // it has ended.
    unsafe {
        let share = &raw mut (*state).shares[wait.which as usize];
        (*share).victim = wait.ticket.cgroup;
        (*share).kind = kind;
        (*share).entry = u64::from(entry);
        (*share).from = if is_followed { wait.ticket.mark } else { UNKNOWN };
        (*share).left_ns = wait.ns;
    }
    noise_ahead(wait.which as u32);
}

/// Takes the parts of the wait in [`CpuState::shares`].
struct Sharing {
    state: *mut CpuState,
    which: u32,
}

impl Ahead for Sharing {
    #[inline(always)]
    fn share(&mut self) -> &mut Share {
        // SAFETY: as in `charge`; the index is one of four.
        unsafe {
            let first = (&raw mut (*self.state).shares).cast::<Share>();
            &mut *first.add(self.which as usize % QUEUE_WAITS)
        }
    }

    #[inline(always)]
    fn charge(&mut self, cause: Cause, culprit: u64, ns: u64) {
        let share = *self.share();
        let cause =
            if is_writeback(self.which) { QueueWait::Writeback.cause(cause) } else { cause };
        let kind = share.kind & !(0xff << 32) | (cause as u64) << 32;
        spill(self.state, share.victim, culprit, kind, ns);
    }

    #[inline(always)]
    fn step(&mut self, _served: &Served, back: u64) -> bool {
        noise_ahead_step(self.which, back as u32) != 0
    }
}

#[inline(always)]
const fn is_writeback(which: u32) -> bool {
    which == QueueWait::Writeback as u32
}

// Then an index is bounded by a mask.
const _: () = assert!(QUEUE_WAITS.is_power_of_two());

/// Divides the wait in [`CpuState::shares`]. A function that is verified by itself.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_ahead(which: u32) -> u32 {
    let Some(state) = cpu_state() else { return 0 };
    let mut parts = Sharing { state, which };
    let Share { entry, from: mark, left_ns: wait_ns, .. } = *parts.share();
    if mark == UNKNOWN {
        if wait_ns > 0 {
            parts.charge(Cause::Untracked, 0, wait_ns);
        }
        return 0;
    }
    let Some(served) = NOISE_QUEUES.get_ptr(entry as u32) else { return 0 };
    // SAFETY: the pointer is an entry of the array.
    unsafe {
        // Of more dirty pages than are remembered, the latest say who dirtied them.
        let oldest = if is_writeback(which) { (*served).oldest() } else { 0 };
        let mark = if mark < oldest { oldest } else { mark };
        (*served).divide(mark, wait_ns, &mut parts);
    }
    0
}

/// One step of that.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_ahead_step(which: u32, back: u32) -> u32 {
    let Some(state) = cpu_state() else { return 1 };
    let mut parts = Sharing { state, which };
    let entry = parts.share().entry as u32;
    let Some(served) = NOISE_QUEUES.get_ptr(entry) else { return 1 };
    // SAFETY: the pointer is an entry of the array.
    u32::from(unsafe { (*served).step(u64::from(back), &mut parts) })
}

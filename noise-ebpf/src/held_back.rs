//! Sleeps for pages that have to be written first: see `noise_common::held_back`.

use noise_common::charge::UNKNOWN;
use noise_common::event::CpuState;
use noise_common::held_back::held_back_slot;
use noise_common::queue::QueueWait;
use noise_common::signals::Signal;

use crate::kernel::dirty::DirtyBalance;
use crate::kernel::{Access, TaskStruct};
use crate::maps::{NOISE_HELD_BACK, measures};
use crate::queue::{self, Ticket, Wait};

/// An uninterruptible sleep that ends.
pub struct EndedSleep {
    pub pid: u32,
    pub cgroup: u64,
    pub since_ns: u64,
    pub now_ns: u64,
}

/// The thread that runs has dirtied pages, and may have to pause for that.
#[inline(always)]
pub fn announce<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    balance: DirtyBalance<A>,
    now_ns: u64,
) -> Option<()> {
    if !measures(state, Signal::UninterruptibleWait) {
        return None;
    }
    let (pid, pages, call) = (task.pid(), balance.queue()?, balance.call());
    let entry = NOISE_HELD_BACK.get_ptr_mut(held_back_slot(pid))?;
    // SAFETY: the pointer is an entry of the array. Where two threads have it in common, the later one has it.
    let is_first = unsafe { (*entry).is_first_of(pid, call) };
    let dirtied = balance.dirtied();
    if is_first && dirtied > 0 {
        queue::serve(pages, task.cgroup(), dirtied, now_ns);
    }
    if balance.pauses() {
        let total = queue::mark(pages, now_ns);
        let mark = if total == UNKNOWN { UNKNOWN } else { total.saturating_sub(balance.dirty()) };
        // SAFETY: as above.
        unsafe { (*entry).announce(pid, pages, mark, call, now_ns) };
    }
    Some(())
}

/// Charges what of a sleep was for pages to be written: all of it where that was announced, or as much as the thread that ends
/// it was held back since it began. `waker` is 0 where no thread does. How long that was, ns.
#[inline(always)]
pub fn charge(state: *mut CpuState, sleep: &EndedSleep, waker: u32) -> u64 {
    let &EndedSleep { pid, cgroup, since_ns, now_ns } = sleep;
    let Some(own) = NOISE_HELD_BACK.get_ptr_mut(held_back_slot(pid)) else { return 0 };
    let Some(other) = NOISE_HELD_BACK.get_ptr(held_back_slot(waker)) else { return 0 };
    let wait_ns = now_ns - since_ns;
    // SAFETY: the pointers are entries of the array. The one of a thread that sleeps is written by its waker, of which there
    // is one at a time; the waker's own is read by the waker.
    let behind = unsafe {
        if (*own).ends_pause(pid, since_ns) {
            (*own).behind(wait_ns)
        } else {
            let held_ns = if waker == 0 { 0 } else { (*other).held_since(waker, since_ns) };
            (*other).behind(if held_ns > wait_ns { wait_ns } else { held_ns })
        }
    };
    if behind.held_ns == 0 {
        return 0;
    }
    // SAFETY: as above.
    unsafe { (*own).add(pid, behind, since_ns, now_ns) };
    let ticket = Ticket { mark: behind.mark, cgroup };
    let (which, ns) = (QueueWait::Writeback, behind.held_ns);
    queue::charge(state, &Wait { which, queue: behind.queue, ticket, ns, place: 0 });
    behind.held_ns
}

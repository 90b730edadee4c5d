//! Uninterruptible sleep. Its begin lives where a wait for a CPU would: the time, negated.

use noise_common::charge::{Cause, Resource, VECTOR_SOURCE};
use noise_common::event::CpuState;
use noise_common::loss::Loss;
use noise_common::signals::{BLOCK, Signal, is_uninterruptible_wait};

use crate::charge::charge;
use crate::held_back::{self, EndedSleep};
use crate::kernel::{Access, TaskStruct};
use crate::ledger;
use crate::maps::{EventClock, NOISE_WAITING, drop_event, measures, record_rotating, trusts};

/// A task is switched away from in some state of sleep.
#[inline(always)]
pub fn sleep<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    pid: u32,
    left_in: u64,
    now_ns: u64,
) {
    if !is_uninterruptible_wait(left_in)
        || !measures(state, Signal::UninterruptibleWait)
        || task.is_frozen()
    {
        return;
    }
    let Some(entry) = NOISE_WAITING.get_ptr_mut(pid) else {
        return drop_event(state, Signal::UninterruptibleWait, Loss::OutOfRange);
    };
    // SAFETY: the pointer is an entry of the array; entries are only written under the run-queue
    // lock of the task, and once it sleeps by its waker, of which there is one at a time.
    unsafe { *entry = -(now_ns as i64) };
}

/// Whether who ends a sleep is neither a task nor completes requests of a block device.
#[inline(always)]
fn is_impersonal(cause: Cause, culprit: u64) -> bool {
    match cause {
        Cause::Idle | Cause::Kthread => true,
        Cause::Hardirq => culprit & VECTOR_SOURCE != 0,
        Cause::Softirq => culprit != u64::from(BLOCK),
        _ => false,
    }
}

/// A task is woken up from this CPU, with its own lock held and interrupts off, unless it still runs;
/// then it has no sleep here.
///
/// A sleep that is seen here has begun for good: its CPU writes nothing more before the task is runnable
/// again. One that begins after its wake-up is overwritten by the wait for a CPU.
#[inline(always)]
pub fn wake<A: Access>(state: *mut CpuState, task: TaskStruct<A>, clock: &mut EventClock) {
    let Some(entry) = NOISE_WAITING.get_ptr_mut(task.pid()) else { return };
    // SAFETY: as above.
    let since = unsafe { *entry };
    if since >= 0 {
        // The start of a wait for a CPU, of a task that sleeps: the end of that wait was not seen. The
        // task stays asleep until its waker, which runs this, goes on.
        if since > 0 && !task.is_runnable() {
            // SAFETY: as above.
            unsafe { *entry = 0 };
        }
        return;
    }
    // SAFETY: as above.
    unsafe { *entry = 0 };
    let since_ns = since.wrapping_neg() as u64;
    if !measures(state, Signal::UninterruptibleWait)
        || !trusts(state, Signal::UninterruptibleWait, since_ns)
    {
        return;
    }
    let now_ns = clock.now_ns();
    if now_ns < since_ns {
        return drop_event(state, Signal::UninterruptibleWait, Loss::ClockBackwards);
    }
    let (cgroup, wait_ns) = (task.cgroup(), now_ns - since_ns);
    record_rotating(state, Signal::UninterruptibleWait, cgroup, wait_ns, now_ns);
    // SAFETY: the state is this CPU's.
    let interrupt = unsafe { (*state).nesting.running() };
    let waker = if interrupt.is_none() { ledger::running_pid(state) } else { 0 };
    let sleep = EndedSleep { pid: task.pid(), cgroup, since_ns, now_ns };
    let behind_ns = held_back::charge(state, &sleep, waker);
    if behind_ns > 0 && behind_ns == wait_ns {
        return;
    }
    let (mut cause, mut culprit) = interrupt.unwrap_or_else(|| ledger::runs(state, cgroup));
    // It sleeps still, and so bears the mark still.
    if is_impersonal(cause, culprit) && task.is_in_iowait() {
        (cause, culprit) = (Cause::Iowait, 0);
    }
    charge(state, Resource::Uninterruptible, cause, cgroup, culprit, wait_ns - behind_ns);
}

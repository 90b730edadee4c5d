//! Run-queue latency. The start of a wait lives in an array by pid: `time << 1 | cause`, 0 = not
//! waiting. The low bit is the index into [`noise_common::signals::CAUSES`].

use noise_common::event::{CpuState, Drop};
use noise_common::signals::Signal;

use crate::maps::{NOISE_WAITING, clock_ns, cpu_state, drop_event, record_interval};

const CAUSE_WAKEUP: u64 = 0;
const CAUSE_PREEMPT: u64 = 1;

/// A task was woken up or created.
///
/// A wake-up of a task that already waits does not restart its wait. One of a task that still
/// runs leaves a start which the task's next switch-out overwrites or clears: both happen under
/// the lock of the run queue.
#[inline(always)]
pub fn wake(pid: u32) -> Option<()> {
    let Some(start) = NOISE_WAITING.get_ptr_mut(pid) else {
        drop_event(cpu_state()?, Signal::RunqueueWait, Drop::OutOfRange);
        return None;
    };
    // SAFETY: the pointer is an entry of the array; entries are only written under the run-queue
    // lock of the task.
    unsafe {
        if *start == 0 {
            *start = clock_ns() << 1 | CAUSE_WAKEUP;
        }
    }
    Some(())
}

/// A task stops running.
#[inline(always)]
pub fn leave(state: *mut CpuState, pid: u32, stays_runnable: bool, now_ns: u64) {
    let Some(start) = NOISE_WAITING.get_ptr_mut(pid) else {
        return drop_event(state, Signal::RunqueueWait, Drop::OutOfRange);
    };
    // SAFETY: as in `wake`.
    unsafe { *start = if stays_runnable { now_ns << 1 | CAUSE_PREEMPT } else { 0 } };
}

/// A task starts to run: its wait is over.
#[inline(always)]
pub fn run(state: *mut CpuState, pid: u32, now_ns: u64) {
    let Some(start) = NOISE_WAITING.get_ptr_mut(pid) else {
        return drop_event(state, Signal::RunqueueWait, Drop::OutOfRange);
    };
    // SAFETY: as in `wake`.
    let waiting = unsafe { core::ptr::replace(start, 0) };
    if waiting == 0 {
        return drop_event(state, Signal::RunqueueWait, Drop::NoStart);
    }
    record_interval(state, Signal::RunqueueWait, (waiting & 1) as usize, waiting >> 1, now_ns);
}

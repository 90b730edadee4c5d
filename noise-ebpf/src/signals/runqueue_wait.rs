//! Run-queue latency. The start of a wait lives in an array by pid: `time << 1 | cause`, 0 or less =
//! not waiting. The low bit is the index into [`noise_common::signals::CAUSES`].

use noise_common::event::CpuState;
use noise_common::loss::Loss;
use noise_common::signals::Signal;

use crate::kernel::{Access, TaskStruct};
use crate::ledger::{self, Start};
use crate::maps::{
    EventClock, NOISE_WAITING, cpu_state, drop_event, measures, record_fixed, this_cpu,
};
use crate::signals::cgroup_runqueue_wait;

const CAUSE_WAKEUP: i64 = 0;
const CAUSE_PREEMPT: i64 = 1;

#[inline(always)]
const fn start(now_ns: u64, cause: i64) -> i64 {
    (now_ns as i64) << 1 | cause
}

/// A task was woken up, or, if `NEW`, created.
///
/// A wake-up of a task that already waits does not restart its wait. One of a task that still
/// runs leaves a start which the task's next switch-out overwrites or clears: both happen under
/// the lock of the run queue. A new task has not waited yet: a start is that of another one, whose
/// end was not seen. So is one of a task that sleeps; `uninterruptible_wait::wake` takes it away.
#[inline(always)]
pub fn wake<A: Access, const NEW: bool>(task: TaskStruct<A>, mut clock: EventClock) -> Option<()> {
    let pid = task.pid();
    let Some(start) = NOISE_WAITING.get_ptr_mut(pid) else {
        drop_event(cpu_state()?, Signal::RunqueueWait, Loss::OutOfRange);
        return None;
    };
    // SAFETY: the pointer is an entry of the array; entries are only written under the run-queue
    // lock of the task.
    unsafe {
        if NEW || *start <= 0 {
            let now_ns = clock.now_ns();
            *start = self::start(now_ns, CAUSE_WAKEUP);
            ledger::wait_begins(task, pid, task.cpu(), now_ns);
        }
    }
    Some(())
}

/// A task is put on another CPU; most of them sleep.
#[inline(always)]
pub fn migrate<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    to_cpu: u32,
    mut clock: EventClock,
) -> Option<()> {
    let pid = task.pid();
    let start = NOISE_WAITING.get_ptr(pid)?;
    // SAFETY: as in `wake`.
    let waiting = unsafe { *start };
    if waiting > 0 {
        ledger::migrate(state, task, pid, (waiting >> 1) as u64, to_cpu, clock.now_ns());
    }
    Some(())
}

/// A task stops running.
#[inline(always)]
pub fn leave<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    pid: u32,
    stays_runnable: bool,
    now_ns: u64,
) {
    let Some(start) = NOISE_WAITING.get_ptr_mut(pid) else {
        return drop_event(state, Signal::RunqueueWait, Loss::OutOfRange);
    };
    // SAFETY: as in `wake`.
    unsafe {
        *start = if stays_runnable { self::start(now_ns, CAUSE_PREEMPT) } else { 0 };
        if stays_runnable {
            ledger::wait_begins(task, pid, this_cpu(), now_ns);
        }
    }
}

/// A task of a cgroup starts to run: its wait is over.
#[inline(always)]
pub fn run<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    pid: u32,
    cgroup: u64,
    now_ns: u64,
) {
    let Some(start) = NOISE_WAITING.get_ptr_mut(pid) else {
        return drop_event(state, Signal::RunqueueWait, Loss::OutOfRange);
    };
    // SAFETY: as in `wake`.
    let waiting = unsafe { core::ptr::replace(start, 0) };
    if waiting <= 0 {
        return drop_event(state, Signal::RunqueueWait, Loss::NoStart);
    }
    let at_ns = (waiting >> 1) as u64;
    if now_ns < at_ns {
        return drop_event(state, Signal::RunqueueWait, Loss::ClockBackwards);
    }
    let cause = waiting & 1;
    record_fixed(state, Signal::RunqueueWait, cause as usize, now_ns - at_ns, now_ns);
    cgroup_runqueue_wait::run(state, cgroup, now_ns - at_ns, now_ns);
    let is_measured =
        measures(state, Signal::RunqueueWait) || measures(state, Signal::CgroupRunqueueWait);
    let start = Start { pid, cpu: this_cpu(), at_ns, cause: cause as u32 };
    ledger::wait_ends(state, task, cgroup, start, is_measured, now_ns);
}

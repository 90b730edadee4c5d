//! The scheduler's hooks.

use crate::kernel::{Access, Task};
use crate::maps::{clock_ns, cpu_state};
use crate::signals::{context_switch, net_rx_wait, runqueue_wait};

/// `sched_switch(preempt, prev, next[, prev_state])`: runs with the run queue locked.
#[inline(always)]
pub fn switch<A: Access>(access: A) -> Option<()> {
    let previous = Task::argument(access, 1);
    let previous_pid = previous.pid();
    let next_pid = Task::argument(access, 2).pid();
    let preempted = access.argument(0) & 0xff != 0;
    let stays_runnable = preempted || previous.switched_out_state() == 0;
    let state = cpu_state()?;
    let now_ns = clock_ns();
    if previous_pid != 0 {
        context_switch::count(state, stays_runnable);
        runqueue_wait::leave(state, previous_pid, stays_runnable, now_ns);
    }
    if next_pid != 0 {
        runqueue_wait::run(state, next_pid, now_ns);
    }
    Some(())
}

/// `sched_wakeup(task)` and `sched_wakeup_new(task)`.
#[inline(always)]
pub fn wakeup<A: Access>(access: A) -> Option<()> {
    runqueue_wait::wake(Task::argument(access, 0).pid())
}

/// `sched_waking(task)`: on the CPU of the waker, unlike `sched_wakeup`.
#[inline(always)]
pub fn waking<A: Access>(_access: A) -> Option<()> {
    net_rx_wait::wake(cpu_state()?);
    Some(())
}

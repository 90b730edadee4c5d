//! The scheduler's hooks.

use noise_common::store::{Class, EventKind};

use crate::kernel::{Access, TaskStruct, pid_argument};
use crate::ledger;
use crate::maps::{EventClock, clock_ns, cpu_state};
use crate::signals::{context_switch, net_rx_wait, runqueue_wait, softirq, uninterruptible_wait};
use crate::store::{self, records};

/// `sched_switch(preempt, prev, next[, prev_state])`: runs with the run queue locked.
#[inline(always)]
pub fn switch<A: Access>(access: A) -> Option<()> {
    let previous = TaskStruct::argument(access, 1);
    let previous_pid = previous.pid();
    let preempted = access.argument(0) & 0xff != 0;
    let left_in = if preempted { 0 } else { previous.switched_out_state() };
    let stays_runnable = left_in == 0;
    let next = TaskStruct::argument(access, 2);
    let next_pid = next.pid();
    let next_cgroup = next.cgroup();
    let state = cpu_state()?;
    let now_ns = clock_ns();
    store::switch(state, (previous, previous_pid), left_in, preempted, (next, next_pid), now_ns);
    let stolen_ns = next.stolen_ns();
    // SAFETY: the state is this CPU's, and no other hook writes this total.
    unsafe {
        // Other CPUs read it; what is not written stays in their caches.
        if (*state).nesting.taken.stolen_ns != stolen_ns {
            (*state).nesting.taken.stolen_ns = stolen_ns;
        }
    }
    // Before the turn is charged what was taken from it.
    softirq::switch(state, previous_pid, next_pid, now_ns);
    ledger::charge_running::<true>(state, now_ns);
    if previous_pid != 0 {
        context_switch::count(state, stays_runnable);
        runqueue_wait::leave(state, previous, previous_pid, stays_runnable, now_ns);
        uninterruptible_wait::sleep(state, previous, previous_pid, left_in, now_ns);
    }
    if next_pid != 0 {
        runqueue_wait::run(state, next, next_pid, next_cgroup, now_ns);
    }
    let victim = ledger::leaving(state);
    ledger::begin_turn(state, next, next_pid, next_cgroup, now_ns);
    if previous_pid != 0 && next_pid != 0 && stays_runnable {
        ledger::preempted(state, victim);
    }
    Some(())
}

/// `sched_wakeup(task)` and, if `NEW`, `sched_wakeup_new(task)`: under the lock of the run queue that
/// the task is put on.
#[inline(always)]
pub fn wakeup<A: Access, const NEW: bool>(access: A) -> Option<()> {
    let (task, mut clock) = (TaskStruct::argument(access, 0), EventClock::unread());
    if NEW {
        let state = cpu_state()?;
        if records(state, Class::Sched) {
            store::task(state, EventKind::WakeupNew, task, 0, clock.now_ns());
        }
    }
    runqueue_wait::wake::<A, NEW>(task, clock)
}

/// `sched_migrate_task(task, to_cpu)`.
#[inline(always)]
pub fn migrate<A: Access>(access: A) -> Option<()> {
    let (state, task) = (cpu_state()?, TaskStruct::argument(access, 0));
    let (to_cpu, mut clock) = (access.argument(1) as u32, EventClock::unread());
    if records(state, Class::Sched) {
        store::task(state, EventKind::Migrate, task, to_cpu, clock.now_ns());
    }
    runqueue_wait::migrate(state, task, to_cpu, clock)
}

/// `sched_waking(task)`: on the CPU of the waker, unlike `sched_wakeup`.
#[inline(always)]
pub fn waking<A: Access>(access: A) -> Option<()> {
    let (state, task) = (cpu_state()?, TaskStruct::argument(access, 0));
    let mut clock = EventClock::unread();
    if records(state, Class::Sched) {
        store::task(state, EventKind::Waking, task, 0, clock.now_ns());
    }
    net_rx_wait::wake(state, task, &mut clock);
    uninterruptible_wait::wake(state, task, &mut clock);
    Some(())
}

/// `sched_process_fork(parent, child)`.
#[inline(always)]
pub fn fork<A: Access>(access: A) -> Option<()> {
    let (parent, child) = (TaskStruct::argument(access, 0), TaskStruct::argument(access, 1));
    store::fork(cpu_state()?, parent, child, clock_ns());
    Some(())
}

/// `sched_process_exec(task, old_pid, binary)`: the task runs.
#[inline(always)]
pub fn exec<A: Access>(access: A) -> Option<()> {
    let (task, old_pid) = (TaskStruct::argument(access, 0), access.argument(1) as u32);
    store::exec(cpu_state()?, task, old_pid, clock_ns());
    Some(())
}

/// `sched_process_exit(task[, group_dead])`.
#[inline(always)]
pub fn exit<A: Access>(access: A) -> Option<()> {
    store::exit(cpu_state()?, TaskStruct::argument(access, 0), clock_ns());
    Some(())
}

/// `sched_process_wait(pid)`: by the task that waits.
#[inline(always)]
pub fn wait<A: Access>(access: A) -> Option<()> {
    store::wait(cpu_state()?, pid_argument(access, 0), clock_ns());
    Some(())
}

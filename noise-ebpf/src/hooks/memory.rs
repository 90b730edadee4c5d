//! Memory hooks. All run in the task that does the work, which may sleep and move meanwhile.

use noise_common::signals::Signal;

use crate::kernel::{Access, Task};
use crate::maps::{clock_ns, cpu_state};
use crate::signals::task_time;

/// `mm_vmscan_direct_reclaim_begin` and `mm_vmscan_memcg_reclaim_begin`.
#[inline(always)]
pub fn reclaim_begin<A: Access>(access: A) -> Option<()> {
    begin(Signal::DirectReclaim, Task::current(access))
}

/// `mm_vmscan_direct_reclaim_end` and `mm_vmscan_memcg_reclaim_end`.
#[inline(always)]
pub fn reclaim_end<A: Access>(access: A) -> Option<()> {
    end(Signal::DirectReclaim, Task::current(access))
}

/// `mm_compaction_begin`.
#[inline(always)]
pub fn compaction_begin<A: Access>(access: A) -> Option<()> {
    let task = Task::current(access);
    if task.is_kernel_thread() {
        return None;
    }
    begin(Signal::Compaction, task)
}

/// `mm_compaction_end`.
#[inline(always)]
pub fn compaction_end<A: Access>(access: A) -> Option<()> {
    let task = Task::current(access);
    if task.is_kernel_thread() {
        return None;
    }
    end(Signal::Compaction, task)
}

#[inline(always)]
fn begin<A: Access>(signal: Signal, task: Task<A>) -> Option<()> {
    task_time::begin(cpu_state()?, signal, task.pid(), clock_ns());
    Some(())
}

#[inline(always)]
fn end<A: Access>(signal: Signal, task: Task<A>) -> Option<()> {
    task_time::end(cpu_state()?, signal, task.pid(), clock_ns());
    Some(())
}

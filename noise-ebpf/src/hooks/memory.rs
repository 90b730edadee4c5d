//! Memory hooks. All run in the task that does the work, which may sleep and move meanwhile.

use crate::held_back;
use crate::kernel::dirty::DirtyBalance;
use crate::kernel::{Access, TaskStruct};
use crate::maps::{clock_ns, cpu_state};
use crate::signals::{compaction, direct_reclaim};

/// `mm_vmscan_direct_reclaim_begin` and `mm_vmscan_memcg_reclaim_begin`.
#[inline(always)]
pub fn reclaim_begin<A: Access>(access: A) -> Option<()> {
    direct_reclaim::begin(cpu_state()?, TaskStruct::current(access).pid(), clock_ns());
    Some(())
}

/// `mm_vmscan_direct_reclaim_end` and `mm_vmscan_memcg_reclaim_end`.
#[inline(always)]
pub fn reclaim_end<A: Access>(access: A) -> Option<()> {
    direct_reclaim::end(cpu_state()?, TaskStruct::current(access).pid(), clock_ns());
    Some(())
}

/// The task that compacts, if it is not a kernel thread, which does so in the background.
#[inline(always)]
fn compacting<A: Access>(access: A) -> Option<u32> {
    let task = TaskStruct::current(access);
    (!task.is_kernel_thread()).then(|| task.pid())
}

/// `mm_compaction_begin`.
#[inline(always)]
pub fn compaction_begin<A: Access>(access: A) -> Option<()> {
    compaction::begin(cpu_state()?, compacting(access)?, clock_ns());
    Some(())
}

/// `mm_compaction_end`.
#[inline(always)]
pub fn compaction_end<A: Access>(access: A) -> Option<()> {
    compaction::end(cpu_state()?, compacting(access)?, clock_ns());
    Some(())
}

/// `balance_dirty_pages`.
#[inline(always)]
pub fn balance_dirty<A: Access>(access: A) -> Option<()> {
    let balance = DirtyBalance::of(access)?;
    held_back::announce(cpu_state()?, TaskStruct::current(access), balance, clock_ns())
}

//! Time that a task spends in the kernel for itself: `direct_reclaim` and `compaction`. Both are rare
//! and long, so their starts may live in a hash.

use noise_common::event::{CpuState, task_key};
use noise_common::loss::Loss;
use noise_common::signals::Signal;

use crate::maps::{NOISE_TASKS, drop_event, insert_or_drop, record_interval};

#[inline(always)]
pub fn begin(state: *mut CpuState, signal: Signal, pid: u32, now_ns: u64) {
    insert_or_drop(state, signal, &NOISE_TASKS, task_key(signal as u32, pid), &now_ns);
}

#[inline(always)]
pub fn end(state: *mut CpuState, signal: Signal, pid: u32, now_ns: u64) {
    let key = task_key(signal as u32, pid);
    let Some(start) = NOISE_TASKS.get_ptr(key) else {
        return drop_event(state, signal, Loss::NoStart);
    };
    // SAFETY: the pointer is an entry of the map; no other task has this key.
    let start_ns = unsafe { *start };
    let _ = NOISE_TASKS.remove(key);
    record_interval(state, signal, 0, start_ns, now_ns);
}

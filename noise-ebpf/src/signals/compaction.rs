//! Memory that tasks compact themselves.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::task_time;

#[inline(always)]
pub fn begin(state: *mut CpuState, pid: u32, now_ns: u64) {
    task_time::begin(state, Signal::Compaction, pid, now_ns);
}

#[inline(always)]
pub fn end(state: *mut CpuState, pid: u32, now_ns: u64) {
    task_time::end(state, Signal::Compaction, pid, now_ns);
}

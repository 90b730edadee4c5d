//! Run-queue latency by cgroup.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::record_rotating;

/// A task of a cgroup runs after a wait.
#[inline(always)]
pub fn run(state: *mut CpuState, cgroup: u64, wait_ns: u64, now_ns: u64) {
    record_rotating(state, Signal::CgroupRunqueueWait, cgroup, wait_ns, now_ns);
}

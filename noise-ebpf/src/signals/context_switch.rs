//! Switches away from tasks: two counters per CPU, read in place by the daemon.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::measures;

/// A task other than the idle task was switched out.
#[inline(always)]
pub fn count(state: *mut CpuState, stays_runnable: bool) {
    if !measures(state, Signal::ContextSwitch) {
        return;
    }
    // SAFETY: the state is this CPU's, and only `sched_switch`, which cannot nest, writes it.
    unsafe { (*state).switches[usize::from(stays_runnable)] += 1 };
}

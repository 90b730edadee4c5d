//! Softirq vectors.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::{drop_event, record_fixed};

/// A vector's action begins.
#[inline(always)]
pub fn enter(state: *mut CpuState, vector: usize, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).nesting.enter_softirq(vector as u32, now_ns) };
}

/// A vector's action ends.
#[inline(always)]
pub fn exit(state: *mut CpuState, vector: usize, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe {
        match (*state).nesting.exit_softirq(vector as u32, now_ns) {
            Ok(ended) => {
                (*state).ledger.softirqs.note(vector as u64, (*state).nesting.taken.softirq_ns);
                record_fixed(state, Signal::Softirq, vector, ended.net_ns, now_ns);
            }
            Err(loss) => drop_event(state, Signal::Softirq, loss),
        }
    }
}

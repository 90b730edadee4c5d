//! Softirq vectors.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::kernel::{PREEMPT_RT, present};
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
        let before_ns = if present(PREEMPT_RT.load()) { (*state).suspended.before_ns() } else { 0 };
        match (*state).nesting.exit_softirq(vector as u32, now_ns) {
            Ok(ended) => {
                (*state).ledger.softirqs.note(vector as u64, (*state).nesting.taken.softirq_ns);
                let net_ns = ended.net_ns + before_ns;
                record_fixed(state, Signal::Softirq, vector, net_ns, now_ns);
            }
            Err(loss) => drop_event(state, Signal::Softirq, loss),
        }
    }
}

/// Another task runs: with PREEMPT_RT a vector waits for its task, and goes on with it.
#[inline(always)]
pub fn switch(state: *mut CpuState, previous_pid: u32, next_pid: u32, now_ns: u64) {
    if !present(PREEMPT_RT.load()) {
        return;
    }
    // SAFETY: the state is this CPU's.
    let (nesting, suspended) = unsafe { (&mut (*state).nesting, &mut (*state).suspended) };
    if let Some(vector) = nesting.suspend_softirq(suspended, previous_pid, now_ns) {
        // SAFETY: as above.
        unsafe { (*state).ledger.softirqs.note(u64::from(vector), nesting.taken.softirq_ns) };
    }
    nesting.resume_softirq(suspended, next_pid, now_ns);
}

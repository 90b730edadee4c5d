//! Softirq vectors. Softirqs do not nest on a CPU.

use noise_common::event::{CpuState, Drop};
use noise_common::nesting::Frame;
use noise_common::signals::Signal;

use crate::maps::{drop_event, record_fixed};

/// A vector's action begins.
#[inline(always)]
pub fn enter(state: *mut CpuState, vector: usize, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe {
        (*state).softirq = Frame::open(now_ns, &(*state).taken);
        (*state).softirq_running = vector as u32 + 1;
    }
}

/// A vector's action ends.
#[inline(always)]
pub fn exit(state: *mut CpuState, vector: usize, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe {
        let running = (*state).softirq_running;
        (*state).softirq_running = 0;
        if running != vector as u32 + 1 {
            return drop_event(state, Signal::Softirq, Drop::NoStart);
        }
        match (*state).softirq.net_ns(now_ns, &(*state).taken) {
            Some(net_ns) => {
                (*state).taken.softirq_ns += net_ns;
                (*state).ledger.softirqs.note(vector as u64, (*state).taken.softirq_ns);
                record_fixed(state, Signal::Softirq, vector, net_ns, now_ns);
            }
            None => drop_event(state, Signal::Softirq, Drop::ClockBackwards),
        }
    }
}

//! Backlog before a softirq is served: the first raise per CPU and vector.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::{clock_ns, measures, record_interval};
use crate::signals::net_rx_wait;

/// The vector's number.
const NET_RX: usize = 3;

/// A vector is raised on this CPU. Runs with interrupts off.
#[inline(always)]
pub fn raise(state: *mut CpuState, vector: usize) {
    if !measures(state, Signal::SoftirqRaiseWait) && !measures(state, Signal::NetRxWait) {
        return;
    }
    // SAFETY: the state is this CPU's; the caller checked the vector.
    unsafe {
        if (*state).raised_ns[vector] == 0 {
            let now_ns = clock_ns();
            (*state).raised_ns[vector] = now_ns;
            if vector == NET_RX {
                (*state).raised_taken = (*state).nesting.taken_by(now_ns);
            }
        }
    }
}

/// A vector is served. An entry without a raise of its own is normal (see noise-common).
#[inline(always)]
pub fn enter(state: *mut CpuState, vector: usize, now_ns: u64) {
    // SAFETY: the state is this CPU's; the caller checked the vector.
    let raised_ns = unsafe { core::ptr::replace(&raw mut (*state).raised_ns[vector], 0) };
    if vector == NET_RX {
        net_rx_wait::begin(state, raised_ns, now_ns);
    }
    if raised_ns != 0 {
        record_interval(state, Signal::SoftirqRaiseWait, vector, raised_ns, now_ns);
    }
}

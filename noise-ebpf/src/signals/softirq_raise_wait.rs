//! Backlog before a softirq is served: the first raise per CPU and vector.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::{EventClock, record_interval};

/// A vector is raised on this CPU, with interrupts off. When, if it is the first raise since its last entry.
#[inline(always)]
pub fn raise(state: *mut CpuState, vector: usize, clock: &mut EventClock) -> Option<u64> {
    // SAFETY: the state is this CPU's; the caller checked the vector.
    unsafe {
        if (*state).raised_ns[vector] != 0 {
            return None;
        }
        let now_ns = clock.now_ns();
        (*state).raised_ns[vector] = now_ns;
        Some(now_ns)
    }
}

/// When a vector that is now served was raised; 0 = not seen, which is normal (see noise-common).
#[inline(always)]
pub fn take(state: *mut CpuState, vector: usize) -> u64 {
    // SAFETY: the state is this CPU's; the caller checked the vector.
    unsafe { core::ptr::replace(&raw mut (*state).raised_ns[vector], 0) }
}

/// A vector is served that was raised at `raised_ns`.
#[inline(always)]
pub fn enter(state: *mut CpuState, vector: usize, raised_ns: u64, now_ns: u64) {
    if raised_ns != 0 {
        record_interval(state, Signal::SoftirqRaiseWait, vector, raised_ns, now_ns);
    }
}

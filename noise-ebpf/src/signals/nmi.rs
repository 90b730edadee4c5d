//! NMI handlers: the kernel reports their duration itself.

use noise_common::event::CpuState;
use noise_common::loss::Loss;
use noise_common::signals::Signal;

use crate::maps::{drop_event, record_fixed};

/// A handler ran for `delta_ns`.
#[inline(always)]
pub fn handled(state: *mut CpuState, delta_ns: i64, now_ns: u64) {
    if delta_ns < 0 {
        return drop_event(state, Signal::Nmi, Loss::ClockBackwards);
    }
    // SAFETY: the state is this CPU's, and only NMIs, which do not nest, write this total.
    unsafe { (*state).nesting.handled_nmi(delta_ns as u64) };
    record_fixed(state, Signal::Nmi, 0, delta_ns as u64, now_ns);
}

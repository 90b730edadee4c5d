//! Interrupt vectors without a handler. They run with interrupts off, so they do not nest.

use noise_common::charge::VECTOR_SOURCE;
use noise_common::event::{CpuState, Drop};
use noise_common::nesting::Frame;
use noise_common::signals::{Signal, Vector};

use crate::maps::{drop_event, record_fixed};

/// A vector begins.
#[inline(always)]
pub fn enter(state: *mut CpuState, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).vector = Frame::open(now_ns, &(*state).taken) };
}

/// A vector ends.
#[inline(always)]
pub fn exit(state: *mut CpuState, which: Vector, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe {
        let frame = (*state).vector;
        (*state).vector.start_ns = 0;
        if frame.start_ns == 0 {
            return drop_event(state, Signal::Vector, Drop::NoStart);
        }
        match frame.net_ns(now_ns, &(*state).taken) {
            Some(net_ns) => {
                (*state).taken.hardirq_ns += net_ns;
                let source = VECTOR_SOURCE | which as u64;
                (*state).ledger.hardirqs.note(source, (*state).taken.hardirq_ns);
                record_fixed(state, Signal::Vector, which as usize, net_ns, now_ns);
            }
            None => drop_event(state, Signal::Vector, Drop::ClockBackwards),
        }
    }
}

/// Whether a vector runs on this CPU.
#[inline(always)]
pub fn runs(state: *mut CpuState) -> bool {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).vector.start_ns != 0 }
}

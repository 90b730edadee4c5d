//! Interrupt vectors without a handler.

use noise_common::charge::VECTOR_SOURCE;
use noise_common::event::CpuState;
use noise_common::signals::{Signal, Vector};

use crate::maps::{drop_event, record_fixed};

#[inline(always)]
pub fn enter(state: *mut CpuState, which: Vector, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).nesting.enter_vector(which, now_ns) };
}

#[inline(always)]
pub fn exit(state: *mut CpuState, which: Vector, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe {
        match (*state).nesting.exit_vector(now_ns) {
            Ok(ended) => {
                let source = VECTOR_SOURCE | which as u64;
                (*state).ledger.hardirqs.note(source, (*state).nesting.taken.hardirq_ns);
                record_fixed(state, Signal::Vector, which as usize, ended.net_ns, now_ns);
            }
            Err(loss) => drop_event(state, Signal::Vector, loss),
        }
    }
}

//! Device interrupt handlers.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::{drop_event, record_keyed};

#[inline(always)]
pub fn enter(state: *mut CpuState, irq: u32, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    let entered = unsafe { (*state).nesting.enter_irq(irq, now_ns) };
    if let Err(loss) = entered {
        drop_event(state, Signal::Hardirq, loss);
    }
}

#[inline(always)]
pub fn exit(state: *mut CpuState, irq: u32, now_ns: u64) {
    let source = u64::from(irq);
    // SAFETY: the state is this CPU's.
    unsafe {
        match (*state).nesting.exit_irq(irq, now_ns) {
            Ok(ended) => {
                (*state).ledger.hardirqs.note(source, (*state).nesting.taken.hardirq_ns);
                record_keyed(state, Signal::Hardirq, source, ended.net_ns, now_ns);
            }
            Err(loss) => drop_event(state, Signal::Hardirq, loss),
        }
    }
}

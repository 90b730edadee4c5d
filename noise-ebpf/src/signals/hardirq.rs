//! Device interrupt handlers: a small stack per CPU, for drivers that enable interrupts.

use noise_common::event::{CpuState, Drop, IRQ_DEPTH};
use noise_common::nesting::Frame;
use noise_common::signals::Signal;

use crate::maps::{drop_event, record_keyed};

/// A handler begins.
#[inline(always)]
pub fn enter(state: *mut CpuState, irq: u32, now_ns: u64) {
    // SAFETY: the state is this CPU's; the index is checked.
    unsafe {
        let depth = core::hint::black_box((*state).irqs.depth) as usize;
        if depth >= IRQ_DEPTH {
            return drop_event(state, Signal::Hardirq, Drop::OutOfRange);
        }
        (*state).irqs.irqs[depth] = irq;
        (*state).irqs.frames[depth] = Frame::open(now_ns, &(*state).taken);
        (*state).irqs.depth = depth as u32 + 1;
    }
}

/// A handler ends.
#[inline(always)]
pub fn exit(state: *mut CpuState, irq: u32, now_ns: u64) {
    // SAFETY: the state is this CPU's; the index is checked.
    unsafe {
        let depth = core::hint::black_box((*state).irqs.depth.wrapping_sub(1)) as usize;
        if depth >= IRQ_DEPTH {
            return drop_event(state, Signal::Hardirq, Drop::NoStart);
        }
        (*state).irqs.depth = depth as u32;
        if (*state).irqs.irqs[depth] != irq {
            // The programs were attached in the middle of a handler.
            return drop_event(state, Signal::Hardirq, Drop::NoStart);
        }
        match (*state).irqs.frames[depth].net_ns(now_ns, &(*state).taken) {
            Some(net_ns) => {
                (*state).taken.hardirq_ns += net_ns;
                (*state).ledger.hardirqs.note(u64::from(irq), (*state).taken.hardirq_ns);
                record_keyed(state, Signal::Hardirq, u64::from(irq), net_ns, now_ns);
            }
            None => drop_event(state, Signal::Hardirq, Drop::ClockBackwards),
        }
    }
}

/// Whether a handler runs on this CPU.
#[inline(always)]
pub fn runs(state: *mut CpuState) -> bool {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).irqs.depth != 0 }
}

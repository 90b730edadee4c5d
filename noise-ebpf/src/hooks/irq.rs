//! Hardirq, vector and NMI hooks.

use noise_common::signals::Vector;
use noise_common::store::EventKind;

use crate::kernel::Access;
use crate::ledger;
use crate::maps::{clock_ns, cpu_state};
use crate::signals::{hardirq, nmi, vector};
use crate::store;

/// `irq_handler_entry(irq, action)`.
#[inline(always)]
pub fn handler_entry<A: Access>(access: A) -> Option<()> {
    let (state, irq, now_ns) = (cpu_state()?, access.argument(0) as u32, clock_ns());
    store::irq(state, EventKind::IrqEntry, irq, 0, now_ns);
    hardirq::enter(state, irq, now_ns);
    Some(())
}

/// `irq_handler_exit(irq, action, result)`.
#[inline(always)]
pub fn handler_exit<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    let (irq, now_ns) = (access.argument(0) as u32, clock_ns());
    store::irq(state, EventKind::IrqExit, irq, access.argument(2) as u32, now_ns);
    hardirq::exit(state, irq, now_ns);
    ledger::charge_long_turn(state, now_ns);
    Some(())
}

/// `<vector>_entry(number)`.
#[inline(always)]
pub fn vector_entry<A: Access>(access: A, which: Vector) -> Option<()> {
    let (state, now_ns) = (cpu_state()?, clock_ns());
    store::vector(state, EventKind::VectorEntry, which, access.argument(0), now_ns);
    vector::enter(state, which, now_ns);
    Some(())
}

/// `<vector>_exit(number)`.
#[inline(always)]
pub fn vector_exit<A: Access>(access: A, which: Vector) -> Option<()> {
    let state = cpu_state()?;
    let now_ns = clock_ns();
    store::vector(state, EventKind::VectorExit, which, access.argument(0), now_ns);
    vector::exit(state, which, now_ns);
    ledger::charge_long_turn(state, now_ns);
    Some(())
}

/// `nmi_handler(handler, delta_ns, handled)`.
#[inline(always)]
pub fn nmi<A: Access>(access: A) -> Option<()> {
    let (state, now_ns) = (cpu_state()?, clock_ns());
    store::nmi(state, access.argument(1), now_ns);
    nmi::handled(state, access.argument(1) as i64, now_ns);
    Some(())
}

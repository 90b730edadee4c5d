//! Hardirq, vector and NMI hooks.

use noise_common::signals::Vector;

use crate::kernel::Access;
use crate::ledger;
use crate::maps::{clock_ns, cpu_state};
use crate::signals::{hardirq, nmi, vector};

/// `irq_handler_entry(irq, action)`.
#[inline(always)]
pub fn handler_entry<A: Access>(access: A) -> Option<()> {
    hardirq::enter(cpu_state()?, access.argument(0) as u32, clock_ns());
    Some(())
}

/// `irq_handler_exit(irq, action, result)`.
#[inline(always)]
pub fn handler_exit<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    let now_ns = clock_ns();
    hardirq::exit(state, access.argument(0) as u32, now_ns);
    ledger::charge_long_turn(state, now_ns);
    Some(())
}

/// `<vector>_entry(number)`.
#[inline(always)]
pub fn vector_entry(which: Vector) -> Option<()> {
    vector::enter(cpu_state()?, which, clock_ns());
    Some(())
}

/// `<vector>_exit(number)`.
#[inline(always)]
pub fn vector_exit(which: Vector) -> Option<()> {
    let state = cpu_state()?;
    let now_ns = clock_ns();
    vector::exit(state, which, now_ns);
    ledger::charge_long_turn(state, now_ns);
    Some(())
}

/// `nmi_handler(handler, delta_ns, handled)`.
#[inline(always)]
pub fn nmi<A: Access>(access: A) -> Option<()> {
    nmi::handled(cpu_state()?, access.argument(1) as i64, clock_ns());
    Some(())
}

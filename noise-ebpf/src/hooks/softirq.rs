//! Softirq hooks: `softirq_raise`, `_entry` and `_exit`, each with the vector's number.

use noise_common::signals::{SOFTIRQ_VECTORS, Signal};
use noise_common::store::{Class, EventKind};

use crate::kernel::Access;
use crate::maps::{EventClock, clock_ns, cpu_state, measures};
use crate::signals::{net_rx_wait, softirq, softirq_raise_wait};
use crate::store::{self, records};

/// The vector's number, if it is one that this program knows.
#[inline(always)]
fn vector<A: Access>(access: A) -> Option<usize> {
    let vector = core::hint::black_box(access.argument(0) as u32) as usize;
    (vector < SOFTIRQ_VECTORS.len()).then_some(vector)
}

/// `softirq_raise(vector)`.
#[inline(always)]
pub fn raise<A: Access>(access: A) -> Option<()> {
    let vector = vector(access)?;
    let (state, mut clock) = (cpu_state()?, EventClock::unread());
    if records(state, Class::Sched) {
        store::softirq(state, EventKind::SoftirqRaise, vector, clock.now_ns());
    }
    if !measures(state, Signal::SoftirqRaiseWait) && !measures(state, Signal::NetRxWait) {
        return None;
    }
    let now_ns = softirq_raise_wait::raise(state, vector, &mut clock)?;
    net_rx_wait::raised(state, vector, now_ns);
    Some(())
}

/// `softirq_entry(vector)`.
#[inline(always)]
pub fn entry<A: Access>(access: A) -> Option<()> {
    let vector = vector(access)?;
    let state = cpu_state()?;
    let now_ns = clock_ns();
    store::softirq(state, EventKind::SoftirqEntry, vector, now_ns);
    let raised_ns = softirq_raise_wait::take(state, vector);
    net_rx_wait::begin(state, vector, raised_ns, now_ns);
    softirq_raise_wait::enter(state, vector, raised_ns, now_ns);
    softirq::enter(state, vector, now_ns);
    Some(())
}

/// `softirq_exit(vector)`.
#[inline(always)]
pub fn exit<A: Access>(access: A) -> Option<()> {
    let vector = vector(access)?;
    let (state, now_ns) = (cpu_state()?, clock_ns());
    store::softirq(state, EventKind::SoftirqExit, vector, now_ns);
    softirq::exit(state, vector, now_ns);
    net_rx_wait::forget(state);
    Some(())
}

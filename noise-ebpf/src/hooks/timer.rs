//! Hooks of high-resolution timers: they write events and measure nothing.

use noise_common::store::Class;

use crate::kernel::Access;
use crate::kernel::hrtimer::{Hrtimer, time};
use crate::maps::{clock_ns, cpu_state};
use crate::store::{self, records};

/// `hrtimer_expire_entry(timer, now)`.
#[inline(always)]
pub fn expire_entry<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if records(state, Class::Sched) {
        let now_ns = clock_ns();
        store::hrtimer(state, Hrtimer::argument(access), time(access, 1), now_ns);
    }
    Some(())
}

/// `hrtimer_expire_exit(timer)`: the timer may be gone by then.
#[inline(always)]
pub fn expire_exit<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if records(state, Class::Sched) {
        store::hrtimer_exit(state, Hrtimer::argument(access), clock_ns());
    }
    Some(())
}

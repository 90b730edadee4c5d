//! From the arrival of a packet to the wake-up of its receiver, within one NET_RX softirq.

use noise_common::event::{CpuState, Drop, Received};
use noise_common::signals::Signal;

use crate::maps::{clock_ns, drop_event, record_keyed};
use crate::signals::{hardirq, vector};

/// `softirq_running` while NET_RX runs: its number plus one.
const NET_RX_RUNS: u32 = 3 + 1;

/// Whether a packet that arrives now can be followed.
#[inline(always)]
pub fn listens(state: *mut CpuState) -> bool {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).softirq_running == NET_RX_RUNS }
}

/// A packet arrives.
#[inline(always)]
pub fn receive(state: *mut CpuState, interface: u64, now_ns: u64) {
    // SAFETY: the state is this CPU's. A hardirq's wake-up in between does not look at it.
    unsafe { (*state).received = Received { at_ns: now_ns, interface } };
}

/// Another softirq begins, or this one ends: what was received woke nobody.
#[inline(always)]
pub fn forget(state: *mut CpuState) {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).received.at_ns = 0 };
}

/// A task is woken up from this CPU.
#[inline(always)]
pub fn wake(state: *mut CpuState) {
    // SAFETY: the state is this CPU's.
    unsafe {
        let received = (*state).received;
        if received.at_ns == 0 || hardirq::runs(state) || vector::runs(state) {
            return;
        }
        forget(state);
        let now_ns = clock_ns();
        if now_ns < received.at_ns {
            return drop_event(state, Signal::NetRxWait, Drop::ClockBackwards);
        }
        let wait_ns = now_ns - received.at_ns;
        record_keyed(state, Signal::NetRxWait, received.interface, wait_ns, now_ns);
    }
}

//! TCP segments sent again, counted by interface.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::count_keyed;

/// A segment is sent again over `interface`.
#[inline(always)]
pub fn count(state: *mut CpuState, interface: u64) {
    count_keyed(state, Signal::TcpRetransmit, interface);
}

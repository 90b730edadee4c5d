//! Dropped packets, counted by the kernel's reason.

use noise_common::event::CpuState;
use noise_common::signals::Signal;

use crate::maps::count_keyed;

/// A packet was dropped; `u32::MAX` where the kernel gives no reason.
#[inline(always)]
pub fn count(state: *mut CpuState, reason: u32) {
    count_keyed(state, Signal::PacketDrop, u64::from(reason));
}

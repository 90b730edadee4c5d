//! Packets between queueing and transmission.
//!
//! Most packets are transmitted at once, so their start times live in a direct-mapped table
//! (a few nanoseconds); a packet that is pushed out of its slot by another moves to a hash.

use noise_common::event::{CpuState, Drop, PacketTimes, packet_slot};
use noise_common::signals::Signal;

use crate::kernel::{Access, Skb};
use crate::maps::{NOISE_PACKETS, NOISE_SPILLED, drop_event, insert_or_drop, record_keyed};

/// Bytes by which a packet may grow on its way: a VLAN tag that the device cannot insert.
const TAG_BYTES: u64 = 4;

/// A packet is handed to an interface.
#[inline(always)]
pub fn queue<A: Access>(state: *mut CpuState, skb: Skb<A>, now_ns: u64) -> Option<()> {
    let address = skb.address();
    let slot = NOISE_PACKETS.get_ptr_mut(packet_slot(address))?;
    // SAFETY: the pointer is an entry of the array. Two CPUs may use one slot at once; then one
    // packet goes unmatched and is counted as such.
    unsafe {
        let occupant = *slot;
        if occupant.skb != 0 && occupant.skb != address {
            insert_or_drop(state, Signal::NetTxWait, &NOISE_SPILLED, occupant.skb, &occupant);
        }
        *slot = PacketTimes { skb: address, queued_ns: now_ns, len: u64::from(skb.len()) };
    }
    Some(())
}

/// When a packet that is now transmitted was queued.
#[inline(always)]
pub fn take<A: Access>(state: *mut CpuState, skb: Skb<A>) -> Option<u64> {
    let address = skb.address();
    let slot = NOISE_PACKETS.get_ptr_mut(packet_slot(address))?;
    // SAFETY: the pointer is an entry of the array.
    let (queued_ns, len) = unsafe {
        if (*slot).skb == address {
            (*slot).skb = 0;
            ((*slot).queued_ns, (*slot).len)
        } else if let Some(spilled) = NOISE_SPILLED.get_ptr(address) {
            let found = ((*spilled).queued_ns, (*spilled).len);
            let _ = NOISE_SPILLED.remove(address);
            found
        } else {
            drop_event(state, Signal::NetTxWait, Drop::NoStart);
            return None;
        }
    };
    let grown = u64::from(skb.len()).wrapping_sub(len);
    if grown != 0 && grown != TAG_BYTES {
        // Another packet in the memory of one that was split by software segmentation.
        drop_event(state, Signal::NetTxWait, Drop::NoStart);
        return None;
    }
    Some(queued_ns)
}

/// A packet is transmitted.
#[inline(always)]
pub fn start(state: *mut CpuState, queued_ns: u64, interface: u64, now_ns: u64) {
    if now_ns < queued_ns {
        return drop_event(state, Signal::NetTxWait, Drop::ClockBackwards);
    }
    record_keyed(state, Signal::NetTxWait, interface, now_ns - queued_ns, now_ns);
}

/// A packet was dropped on its way.
#[inline(always)]
pub fn forget<A: Access>(skb: Skb<A>) {
    let address = skb.address();
    if let Some(slot) = NOISE_PACKETS.get_ptr_mut(packet_slot(address)) {
        // SAFETY: the pointer is an entry of the array.
        unsafe {
            if (*slot).skb == address {
                (*slot).skb = 0;
            } else {
                let _ = NOISE_SPILLED.remove(address);
            }
        }
    }
}

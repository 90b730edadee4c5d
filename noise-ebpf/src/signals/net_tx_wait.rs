//! Packets between queueing and transmission.
//!
//! Most packets are transmitted at once, by the CPU that queued them, so each CPU keeps the one that
//! it queued last. A packet that another one follows moves to a direct-mapped table, and to a hash
//! where its slot there is taken.
//!
//! Where one memory has several entries, because a packet left one behind when it went another way,
//! the newest is the packet's.

use noise_common::charge::UNKNOWN;
use noise_common::event::{CpuState, PacketTimes, packet_slot};
use noise_common::loss::Loss;
use noise_common::queue::QueueWait;
use noise_common::signals::Signal;

use crate::kernel::packet::{Interface, Skb};
use crate::kernel::{Access, CPUS};
use crate::maps::{
    NOISE_CPUS, NOISE_PACKETS, NOISE_SPILLED, drop_event, insert_or_drop, record_keyed, trusts,
};
use crate::queue::{self, Ticket, Wait};

/// Bytes by which a packet may grow on its way: a VLAN tag that the device cannot insert.
const TAG_BYTES: u64 = 4;
/// What a CPU keeps of a packet for longer than this may be left behind, ns.
const LONG_NS: u64 = 100_000;
/// CPUs that are searched for a packet; on those beyond, it goes unmatched.
const MOST_CPUS: u32 = 512;

/// A packet is handed to an interface.
#[inline(always)]
pub fn queue<A: Access>(state: *mut CpuState, skb: Skb<A>, at: Interface, now_ns: u64) {
    let address = skb.pointer();
    let mark = queue::mark(at.identity(), now_ns);
    let cgroup = skb.cgroup();
    // SAFETY: the state is this CPU's.
    unsafe {
        let last = (*state).queued;
        if last.skb != 0 && last.skb != address {
            put_aside(state, &last);
        }
        (*state).queued =
            PacketTimes { skb: address, queued_ns: now_ns, len: skb.len(), mark, cgroup };
    }
}

/// Moves a packet that waits to the table.
#[inline(always)]
fn put_aside(state: *mut CpuState, packet: &PacketTimes) {
    let Some(slot) = NOISE_PACKETS.get_ptr_mut(packet_slot(packet.skb)) else { return };
    // SAFETY: the pointer is an entry of the array. Two CPUs may use one slot at once; then one
    // packet goes unmatched and is counted as such.
    unsafe {
        let occupant = *slot;
        if occupant.skb != 0 && occupant.skb != packet.skb {
            insert_or_drop(state, Signal::NetTxWait, &NOISE_SPILLED, occupant.skb, &occupant);
        }
        *slot = *packet;
    }
}

/// Looks for a packet wherever it may be, and takes it from there, if it is newer than `found`.
#[inline(never)]
fn find(address: u64, found: &mut PacketTimes) -> bool {
    if let Some(aside) = take_aside(address)
        && aside.queued_ns > found.queued_ns
    {
        *found = aside;
    }
    // Not a step more: the verifier follows each.
    for cpu in 0..MOST_CPUS.min(CPUS.load()) {
        let Some(state) = NOISE_CPUS.get_ptr_mut(cpu) else { break };
        // SAFETY: the pointer is an entry of the array. Where that CPU queues another packet at this
        // very moment, one of the two goes unmatched and is counted as such.
        unsafe {
            let queued = (*state).queued;
            if queued.skb == address {
                (*state).queued.skb = 0;
                if queued.queued_ns > found.queued_ns {
                    *found = queued;
                }
            }
        }
    }
    found.queued_ns != 0
}

/// Takes a packet that was put aside.
#[inline(always)]
fn take_aside(address: u64) -> Option<PacketTimes> {
    let slot = NOISE_PACKETS.get_ptr_mut(packet_slot(address))?;
    // SAFETY: the pointer is an entry of the array.
    unsafe {
        if (*slot).skb == address {
            let packet = *slot;
            (*slot).skb = 0;
            return Some(packet);
        }
        let packet = *NOISE_SPILLED.get_ptr(address)?;
        let _ = NOISE_SPILLED.remove(address);
        Some(packet)
    }
}

/// When a packet that is now transmitted was queued.
#[inline(always)]
pub fn take<A: Access>(state: *mut CpuState, skb: Skb<A>, now_ns: u64) -> Option<PacketTimes> {
    // SAFETY: the state is this CPU's.
    let mut packet = unsafe {
        let own = (*state).queued;
        if own.skb == skb.pointer() {
            (*state).queued.skb = 0;
            own
        } else {
            PacketTimes::NONE
        }
    };
    if now_ns.wrapping_sub(packet.queued_ns) > LONG_NS && !find(skb.address(), &mut packet) {
        drop_event(state, Signal::NetTxWait, Loss::NoStart);
        return None;
    }
    if !trusts(state, Signal::NetTxWait, packet.queued_ns) {
        // Left behind when the signal was switched off.
        drop_event(state, Signal::NetTxWait, Loss::NoStart);
        return None;
    }
    let grown = skb.len().wrapping_sub(packet.len);
    if grown != 0 && grown != TAG_BYTES {
        // Another packet in the memory of one that was split by software segmentation.
        drop_event(state, Signal::NetTxWait, Loss::NoStart);
        return None;
    }
    Some(packet)
}

/// A packet is transmitted. One that had nothing ahead of it waited for no cgroup.
#[inline(always)]
pub fn start(state: *mut CpuState, packet: &PacketTimes, at: Interface, now_ns: u64) {
    if now_ns < packet.queued_ns {
        return drop_event(state, Signal::NetTxWait, Loss::ClockBackwards);
    }
    let ns = now_ns - packet.queued_ns;
    let interface = at.subject();
    record_keyed(state, Signal::NetTxWait, interface, ns, now_ns);
    let queue = at.identity();
    let (which, place) = (QueueWait::Transmit, interface as u32);
    let ticket = Ticket { mark: packet.mark, cgroup: packet.cgroup };
    // Of a queue that is not followed, it is not known whether something was ahead.
    let mark = queue::mark(queue, now_ns);
    if mark != packet.mark || mark == UNKNOWN {
        queue::charge(state, &Wait { which, queue, ticket, ns, place });
    }
    queue::serve(queue, packet.cgroup, packet.len, now_ns);
}

/// A packet was dropped on its way.
#[inline(always)]
pub fn forget<A: Access>(state: *mut CpuState, skb: Skb<A>) {
    // SAFETY: the state is this CPU's.
    unsafe {
        if (*state).queued.skb == skb.pointer() {
            (*state).queued.skb = 0;
        }
    }
    let _ = take_aside(skb.address());
}

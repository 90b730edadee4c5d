//! From the arrival of a packet to the wake-up of its receiver, within one NET_RX softirq, or within one turn
//! of a thread that polls in its place.

use noise_common::charge::{Cause, ChargeKey, Resource, UNKNOWN};
use noise_common::event::CpuState;
use noise_common::ledger::Runner;
use noise_common::loss::Loss;
use noise_common::signals::{BACKLOG_NS, NET_RX, Received, Signal, polls_packets};

use crate::charge::{charge_here, spill};
use crate::kernel::{Access, TaskStruct};
use crate::ledger;
use crate::maps::{EventClock, drop_event, record_keyed};

/// Whether a packet that arrives now can be followed.
#[inline(always)]
pub fn listens(state: *mut CpuState) -> bool {
    // SAFETY: the state is this CPU's.
    let nesting = unsafe { &(*state).nesting };
    nesting.in_softirq(NET_RX) || (nesting.running().is_none() && polls(state))
}

/// Whether it is the turn of a thread that polls interfaces.
#[inline(always)]
fn polls(state: *mut CpuState) -> bool {
    // SAFETY: the pointer is an entry of the ring.
    let turn = unsafe { &*ledger::newest(state) };
    turn.runner == Runner::Kthread as u32 && polls_packets(turn.comm[0])
}

/// A softirq vector is raised for the first time since its last entry.
#[inline(always)]
pub fn raised(state: *mut CpuState, vector: usize, now_ns: u64) {
    if vector == NET_RX as usize {
        // SAFETY: the state is this CPU's.
        unsafe { (*state).raised_taken = (*state).nesting.taken_by(now_ns) };
    }
}

/// A softirq vector begins that was raised at `raised_ns`; 0 = not seen.
#[inline(always)]
pub fn begin(state: *mut CpuState, vector: usize, raised_ns: u64, now_ns: u64) {
    forget(state);
    if vector != NET_RX as usize {
        return;
    }
    // SAFETY: the state is this CPU's.
    unsafe {
        if raised_ns == 0 || now_ns.wrapping_sub(raised_ns) < BACKLOG_NS {
            (*state).backlog.until_ns = 0;
            return;
        }
        let wait = &raw mut (*state).backlog.wait;
        (*wait).since_ns = raised_ns;
        (*wait).taken = (*state).raised_taken;
        (*state).backlog.taken = (*state).nesting.taken_by(now_ns);
        (*state).backlog.until_ns = now_ns;
    }
}

#[inline(always)]
pub fn receive(state: *mut CpuState, interface: u64, now_ns: u64) {
    // SAFETY: the state is this CPU's. A hardirq's wake-up in between does not look at it.
    unsafe {
        let interrupts_ns = (*state).nesting.taken.interrupts_ns();
        (*state).received = Received { at_ns: now_ns, interface, interrupts_ns };
    }
}

/// Another softirq begins, or this one ends: what was received woke no task.
#[inline(always)]
pub fn forget(state: *mut CpuState) {
    // SAFETY: the state is this CPU's.
    unsafe { (*state).received.at_ns = 0 };
}

/// A task is woken up from this CPU.
///
/// What the task waited for is the softirq or the thread that polls, less what interrupted it, and before that
/// whatever kept the softirq waiting. A thread that is woken up to poll is no receiver: the packet goes on.
#[inline(always)]
pub fn wake<A: Access>(state: *mut CpuState, task: TaskStruct<A>, clock: &mut EventClock) {
    // SAFETY: the state is this CPU's.
    unsafe {
        let received = (*state).received;
        if received.at_ns == 0 || (*state).nesting.in_hardirq() {
            return;
        }
        if task.polls() {
            return;
        }
        forget(state);
        let in_softirq = (*state).nesting.in_softirq(NET_RX);
        // Nothing tells when a thread has done with a packet; another one is another turn.
        if !in_softirq && received.at_ns < (*ledger::newest(state)).start_ns {
            return;
        }
        let now_ns = clock.now_ns();
        if now_ns < received.at_ns {
            return drop_event(state, Signal::NetRxWait, Loss::ClockBackwards);
        }
        let wait_ns = now_ns - received.at_ns;
        record_keyed(state, Signal::NetRxWait, received.interface, wait_ns, now_ns);
        let (victim, place) = (task.cgroup(), received.interface as u32);
        let grown_ns = (*state).nesting.taken.interrupts_ns().wrapping_sub(received.interrupts_ns);
        let hardirq_ns = if grown_ns < wait_ns { grown_ns } else { wait_ns };
        if hardirq_ns > 0 {
            let kind = ChargeKey::kind(place, Cause::Hardirq, Resource::NetRx);
            spill(state, victim, UNKNOWN, kind, hardirq_ns);
        }
        let (cause, culprit) = match in_softirq {
            true => (Cause::Softirq, u64::from(NET_RX)),
            false => ledger::runs(state, victim),
        };
        let (kind, own_ns) = (ChargeKey::kind(place, cause, Resource::NetRx), wait_ns - hardirq_ns);
        // A task that is woken has its lock held, with interrupts off, unless it still runs.
        if ledger::may_run(state, task.pid()) {
            spill(state, victim, culprit, kind, own_ns);
        } else {
            charge_here(state, kind, victim, culprit, own_ns);
        }
        if in_softirq {
            ledger::charge_backlog(state, victim, place);
        }
    }
}

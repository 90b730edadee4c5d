//! Time from a packet's arrival in the stack to the wake-up of its receiver: `netif_receive_skb` to
//! the next `sched_waking` in the same NET_RX softirq, or in the same turn of the kernel thread that polls in
//! its place (threaded NAPI), outside of interrupts that nest in it.
//!
//! Each packet counts at most once, and of several packets before one wake-up the last. A thread that
//! is woken up to poll is no receiver. Packets that wake no task, and those that a task hands to the stack itself
//! (`tun`), are not counted.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::ledger::Waiting;
use crate::nesting::Taken;
use crate::remedy::Remedy;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::NetRxWait,
    name: "net_rx_wait",
    metric: "noised_net_rx_wait_seconds",
    help: "Time from the arrival of a packet in the network stack to the wake-up of its receiver.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["interface"],
    hooks: &[Hook::NetReceive, Hook::SchedWaking, Hook::SoftirqEntry, Hook::SoftirqExit],
    fields: &["SKB_DEV", "DEV_IFINDEX", "DEV_NET", "NET_INUM"],
    storage: Storage::Keyed,
    between: "`netif_receive_skb` → wake-up of the receiver in the same softirq, or turn of a NAPI thread",
    delays: "packets that came",
    disturbed: "packets from {victim} {wait} to be delivered",
    listed: "packets until delivery",
    domain: Domain::Network,
    subject: SubjectKind::Interface,
    resource: Some(Resource::NetRx),
    watched: true,
    remedies: &[
        (Cause::Foreign, &[Remedy::PacketSteering, Remedy::IrqAffinity]),
        (Cause::Own, &[Remedy::PacketSteering, Remedy::IrqAffinity]),
    ],
    shown: Shown::Way { way: Way::Receive, stage: Stage::Delivery },
    ..SignalInfo::PLAIN
};

/// The packet that this CPU received last, in its NET_RX softirq or in a thread that polls.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Received {
    /// When; 0 = none, or already used by a wake-up.
    pub at_ns: u64,
    /// The interface, as [`super::interface_subject`] makes it.
    pub interface: u64,
    /// What hard interrupts had taken by then, ns.
    pub interrupts_ns: u64,
}

/// Whether a kernel thread whose name begins with this word polls interfaces: `napi/eth0-8193`, `backlog_napi/0`.
#[inline(always)]
pub const fn polls_packets(name: u64) -> bool {
    const INTERFACE: u64 = u64::from_ne_bytes(*b"napi/\0\0\0");
    const INTERFACE_BITS: u64 = u64::from_ne_bytes(*b"\xff\xff\xff\xff\xff\0\0\0");
    const BACKLOG: u64 = u64::from_ne_bytes(*b"backlog_");
    name & INTERFACE_BITS == INTERFACE || name == BACKLOG
}

/// From the raise of NET_RX to its entry.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Backlog {
    pub wait: Waiting,
    /// The entry; 0 where the backlog was short.
    pub until_ns: u64,
    /// What had been taken by then.
    pub taken: Taken,
}

/// Backlogs from this length on delay the delivery of packets noticeably, ns.
pub const BACKLOG_NS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::polls_packets;

    #[test]
    fn threads_that_poll_are_known_by_their_names() {
        let polls = |name: &[u8; 8]| polls_packets(u64::from_ne_bytes(*name));
        for name in [b"napi/eth", b"napi/x-1", b"napi/\0\0\0", b"backlog_"] {
            assert!(polls(name), "{name:?}");
        }
        for name in [b"napi\0\0\0\0", b"kworker/", b"xnapi/et", b"backlog\0", b"\0\0\0\0\0\0\0\0"] {
            assert!(!polls(name), "{name:?}");
        }
    }
}

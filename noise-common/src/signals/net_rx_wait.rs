//! Time from a packet's arrival in the stack to the wake-up of its receiver: `netif_receive_skb` to
//! the next `sched_waking` in the same NET_RX softirq, outside of interrupts that nest in it.
//!
//! Each packet counts at most once, and of several packets before one wake-up the last. Packets
//! that wake no task, and packets received outside the softirq (threaded NAPI), are not counted.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::ledger::Waiting;
use crate::nesting::Taken;
use crate::remedy::Remedy;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{Buckets, Kind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::NetRxWait,
    name: "net_rx_wait",
    metric: "noised_net_rx_wait_seconds",
    help: "Time from the arrival of a packet in the network stack to the wake-up of its receiver.",
    kind: Kind::Histogram(Buckets::Wide),
    labels: &["interface"],
    hooks: &[Hook::NetReceive, Hook::SchedWaking, Hook::SoftirqEntry, Hook::SoftirqExit],
    fields: &["SKB_DEV", "DEV_IFINDEX", "DEV_NET", "NET_INUM"],
    storage: Storage::Keyed,
    between: "`netif_receive_skb` → wake-up of the receiver in the same softirq",
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

/// The packet that this CPU's NET_RX softirq received last.
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

/// From the raise of NET_RX to its entry.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Backlog {
    /// The raise.
    pub wait: Waiting,
    /// The entry; 0 where the backlog was short.
    pub until_ns: u64,
    /// What had been taken by then.
    pub taken: Taken,
}

/// Backlogs from this length on delay the delivery of packets noticeably, ns.
pub const BACKLOG_NS: u64 = 10_000;

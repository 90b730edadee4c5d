//! Time of a packet in an interface's queue: `net_dev_queue` to `net_dev_start_xmit` of the same
//! socket buffer.
//!
//! Packets that software segmentation splits before transmission are not counted: their segments are
//! other buffers. Interfaces of other network namespaces than the host's are one subject together.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::NetTxWait,
    name: "net_tx_wait",
    metric: "noised_net_tx_wait_seconds",
    help: "Time of a packet from queueing at the interface to the start of its transmission.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["interface"],
    hooks: &[Hook::NetQueue, Hook::NetXmit],
    optional_hooks: &[Hook::FreeSkb],
    fields: &["SKB_LEN", "DEV_IFINDEX", "DEV_NET", "NET_INUM"],
    storage: Storage::Keyed,
    between: "`net_dev_queue` → `net_dev_start_xmit` of the same packet",
    delays: "packets to be sent",
    disturbed: "packets {wait} in the queue of {victim} to be sent",
    listed: "packets waiting to be sent",
    domain: Domain::Network,
    subject: SubjectKind::Interface,
    resource: Some(Resource::NetTx),
    watched: true,
    remedies: &[
        (Cause::Foreign, &[Remedy::TrafficShaping]),
        (Cause::Own, &[Remedy::TrafficShaping]),
    ],
    shown: Shown::Way { way: Way::Send, stage: Stage::Queue },
    ..SignalInfo::PLAIN
};

/// Subject of all interfaces that are not in the host's network namespace.
pub const OTHER_INTERFACE: u64 = 0;

/// Subject of an interface: its index where it is in the host's network namespace.
#[inline(always)]
pub const fn interface_subject(ifindex: u32, netns: u32, host_netns: u32) -> u64 {
    if netns == host_netns { ifindex as u64 } else { OTHER_INTERFACE }
}

//! Delays of a recording: the signals that are measured live, computed from events afterwards, by the same
//! arithmetic of [`noise_common`]: [`Nesting`] for interrupts, [`Ledger`] for what ran during a wait.
//!
//! A wait for a CPU begins with the first wake-up of a thread that does not run (see [`Begin`]), or with a switch that leaves
//! it runnable, and ends with the next switch to it; a switch that puts it to sleep drops it. The idle task
//! never waits. It is divided in three ways, each of which sums to the wait:
//!
//! - among the threads that ran on the CPU where the thread ran in the end, interrupts included;
//! - the same, over the CPUs that it waited on;
//! - as live: over the CPUs that it waited on, what interrupts took apart from what threads did.
//!
//! Where events of a CPU are lost, waits there have the time up to its next switch as untracked, interrupts that
//! run are forgotten, and the wait of a thread that is woken afterwards begins anew.
//!
//! Not known here: quotas and the hypervisor; delays are charged to threads, not to cgroups. What a recording lacks is in [`Document::missing`].
//!
//! [`Nesting`]: noise_common::nesting::Nesting
//! [`Ledger`]: noise_common::ledger::Ledger
//! [`Document::missing`]: document::Document::missing

mod cpu;
pub mod document;
mod interrupts;
mod older;
mod packets;
mod requests;
mod sums;
mod waits;
pub mod watch;

use std::collections::BTreeSet;

use self::cpu::Cpus;
use self::document::Document;
use self::interrupts::Interrupts;
use self::packets::Packets;
use self::requests::Requests;
pub use self::waits::Begin;
use self::waits::Waits;
use self::watch::Watch;
use crate::event::{Event, Kind};

/// Computes delays while events come in, in the order of time.
#[derive(Default)]
pub struct Delays {
    cpus: Cpus,
    waits: Waits,
    interrupts: Interrupts,
    requests: Requests,
    packets: Packets,
    /// Kinds of events that came, as far as delays need them.
    seen: BTreeSet<&'static str>,
    from_ns: Option<u64>,
    to_ns: u64,
    discarded: u64,
}

impl Delays {
    /// Waits of threads that are woken begin with that event.
    pub fn new(begin: Begin) -> Self {
        Self { waits: Waits::new(begin), ..Self::default() }
    }

    /// Takes the next event.
    pub fn follow(&mut self, event: &Event<'_>) {
        self.follow_each(event, &mut ());
    }

    /// Takes the next event, and shows the delays that end with it.
    pub fn follow_each(&mut self, event: &Event<'_>, watch: &mut impl Watch) {
        self.from_ns.get_or_insert(event.time_ns);
        self.to_ns = event.time_ns;
        if let Some(kind) = needed(&event.kind) {
            self.seen.insert(kind);
        }
        if let Kind::Lost(loss) = &event.kind {
            self.discarded = self.discarded.saturating_add(loss.events.max(loss.packets));
        }
        self.interrupts.follow(event, &mut self.cpus, watch);
        self.requests.follow(event, watch);
        self.packets.follow(event, &self.cpus, watch);
        self.waits.follow(event, &mut self.cpus, watch);
    }

    /// Counts from now on only: delays that ended before are left out, those under way are not.
    pub fn begin(&mut self, from_ns: u64) {
        self.from_ns = Some(from_ns);
        self.discarded = 0;
        self.waits.begin(from_ns);
        self.interrupts.begin();
        self.requests.begin();
        self.packets.begin();
    }

    /// What came out.
    pub fn finish(self) -> Document {
        let missing = NEEDED.iter().filter(|kind| !self.seen.contains(*kind));
        Document {
            from_ns: self.from_ns.unwrap_or(0),
            to_ns: self.to_ns,
            discarded: self.discarded,
            untracked_ns: self.waits.untracked_ns(),
            threads: self.waits.documents(),
            hardirq: self.interrupts.hardirq(),
            vector: self.interrupts.vector(),
            softirq: self.interrupts.softirq(),
            softirq_raise_wait: self.interrupts.raise(),
            block_queue_wait: self.requests.block_queue(),
            block_device_wait: self.requests.block_device(),
            net_tx_wait: self.packets.net_tx(),
            net_rx_wait: self.packets.net_rx(),
            missing: missing.map(|kind| (*kind).to_owned()).collect(),
        }
    }
}

/// Events that delays are computed from.
const NEEDED: [&str; 14] = [
    "sched_switch",
    "sched_wakeup",
    "sched_migrate_task",
    "irq_handler_entry",
    "vectors",
    "softirq_raise",
    "softirq_entry",
    "nmi_handler",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_complete",
    "net_dev_queue",
    "net_dev_xmit",
    "netif_receive_skb",
];

const fn needed(kind: &Kind<'_>) -> Option<&'static str> {
    Some(match kind {
        Kind::SchedSwitch { .. } => "sched_switch",
        Kind::SchedWakeup(_) => "sched_wakeup",
        Kind::SchedMigrateTask { .. } => "sched_migrate_task",
        Kind::IrqHandlerEntry { .. } => "irq_handler_entry",
        Kind::VectorEntry { .. } => "vectors",
        Kind::SoftirqRaise { .. } => "softirq_raise",
        Kind::SoftirqEntry { .. } => "softirq_entry",
        Kind::NmiHandler { .. } => "nmi_handler",
        Kind::BlockRqInsert(_) => "block_rq_insert",
        Kind::BlockRqIssue(_) => "block_rq_issue",
        Kind::BlockRqComplete(_) => "block_rq_complete",
        Kind::NetDevQueue(_) => "net_dev_queue",
        Kind::NetDevStartXmit(_) | Kind::NetDevXmit { .. } => "net_dev_xmit",
        Kind::NetifReceiveSkb(_) => "netif_receive_skb",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

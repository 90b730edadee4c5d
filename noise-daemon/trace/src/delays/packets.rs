//! Waits of packets.

use std::collections::BTreeMap;

use foldhash::HashMap;
use noise_common::signals::{NET_RX, Signal, polls_packets};

use super::cpu::{Cpu, Cpus};
use super::document::Interface;
use super::name_of;
use super::sums::Spread;
use super::watch::{Delay, DelaySubject, Watch};
use crate::event::{Comm, Event, Packet, TraceKind};

/// Packets that are on their way at a time; further ones are not measured.
const MAX_OPEN: usize = 1 << 18;
/// Interfaces that are kept apart.
const MAX_INTERFACES: usize = 65_536;
/// Bytes by which a packet may grow on its way: a VLAN tag that the device cannot insert.
const TAG_BYTES: u32 = 4;

#[derive(Debug, Default)]
pub struct PacketDelays {
    /// By address: since when, and of what length.
    sent: HashMap<u64, (u64, u32)>,
    /// By CPU, the latest packet that its softirq, or a thread that polls, received without a wake-up since.
    received: HashMap<u32, (u64, String)>,
    ended: BTreeMap<Signal, BTreeMap<String, Spread>>,
}

fn interface(packet: &Packet<'_>) -> String {
    name_of(packet.name).into_owned()
}

impl PacketDelays {
    pub fn follow(&mut self, event: &Event<'_>, cpus: &Cpus, watch: &mut impl Watch) {
        let now_ns = event.time_ns;
        let all = &mut self.ended;
        let mut ended = |signal: Signal, name: String, from_ns: u64| {
            let (subject, cpu, to_ns) = (DelaySubject::Interface(&name), event.cpu, now_ns);
            watch.delayed(&Delay { signal, subject, cpu, from_ns, to_ns, net_ns: None });
            let all = all.entry(signal).or_default();
            if all.len() < MAX_INTERFACES || all.contains_key(&name) {
                all.entry(name).or_default().add(to_ns.saturating_sub(from_ns));
            }
        };
        match &event.kind {
            TraceKind::NetDevQueue(packet)
                if self.sent.len() < MAX_OPEN || self.sent.contains_key(&packet.skb) =>
            {
                self.sent.insert(packet.skb, (now_ns, packet.len));
            }
            // The first of the two ends the wait.
            TraceKind::NetDevStartXmit(packet) | TraceKind::NetDevXmit { packet, .. } => {
                let Some((since_ns, len)) = self.sent.remove(&packet.skb) else { return };
                // Of another length, it is another packet in the memory of one that was split.
                if matches!(event.kind, TraceKind::NetDevStartXmit(_))
                    && ![0, TAG_BYTES].contains(&packet.len.wrapping_sub(len))
                {
                    return;
                }
                ended(Signal::NetTxWait, interface(packet), since_ns);
            }
            TraceKind::SkbKfree { skb, .. } => {
                self.sent.remove(skb);
            }
            TraceKind::NetifReceiveSkb(packet) if is_receiving(cpus, event.cpu) => {
                self.received.insert(event.cpu, (now_ns, interface(packet)));
            }
            // A thread that polls passes the packet on.
            TraceKind::SchedWaking(woken) if polls(&woken.task.comm) => {}
            TraceKind::SchedWaking(_) if is_receiving(cpus, event.cpu) => {
                if let Some((since_ns, name)) = self.received.remove(&event.cpu) {
                    ended(Signal::NetRxWait, name, since_ns);
                }
            }
            TraceKind::SoftirqEntry { .. } | TraceKind::SoftirqExit { .. } => {
                self.received.remove(&event.cpu);
            }
            TraceKind::Lost(_) => {
                self.received.remove(&event.cpu);
                self.lose();
            }
            // Where softirqs are preempted, another thread's turn does not end one.
            TraceKind::SchedSwitch { .. } if cpus.known(event.cpu).is_some_and(is_polling) => {
                self.received.remove(&event.cpu);
            }
            _ => {}
        }
    }

    /// Events are missing: what is on its way may have gone, and another packet have its memory.
    pub fn lose(&mut self) {
        self.sent.clear();
    }

    /// Forgets what was counted.
    pub fn begin(&mut self) {
        self.ended.clear();
    }

    /// The waits at each interface, also of a signal without any.
    pub fn documents(&self) -> BTreeMap<Signal, Vec<Interface>> {
        let of = |signal| {
            let all = self.ended.get(&signal).into_iter().flatten();
            all.map(|(name, whole)| Interface { interface: name.clone(), whole: *whole }).collect()
        };
        [Signal::NetTxWait, Signal::NetRxWait].map(|signal| (signal, of(signal))).into()
    }
}

/// Whether a thread of this name polls interfaces.
fn polls(comm: &Comm) -> bool {
    comm.0.first_chunk().is_some_and(|word| polls_packets(u64::from_ne_bytes(*word)))
}

/// Whether a CPU runs the softirq that receives packets, or a thread that polls, and no interrupt in it.
fn is_receiving(cpus: &Cpus, cpu: u32) -> bool {
    let in_softirq = |cpu: &Cpu| cpu.nesting.in_softirq(NET_RX) && !cpu.nesting.in_hardirq();
    cpus.known(cpu).is_some_and(|cpu| in_softirq(cpu) || is_polling(cpu))
}

/// Whether a CPU runs a thread that polls, and no interrupt in it.
fn is_polling(cpu: &Cpu) -> bool {
    cpu.nesting.running().is_none() && cpu.runner().is_some_and(|(_, comm)| polls(&comm))
}

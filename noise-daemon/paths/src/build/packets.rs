//! Packets: who sent what is handled somewhere.

use noise_trace::contexts::CpuContext;
use noise_trace::event::{Comm, Packet};

use super::machine::Handled;
use super::{Builder, EventPlace};
use crate::graph::{LinkOrigin, NO_CPU, PointPlace, Who, Worker};
use crate::packets::Segment;
use crate::state::{Action, State};
use crate::via::{Via, ViaKind};

impl Builder {
    /// A packet leaves whoever runs on a CPU; `key` is the same where it arrives.
    pub fn sent(&mut self, machine: u16, cpu: u32, time_ns: u64, key: u64) {
        let at = EventPlace { machine, cpu, time_ns };
        let Some(place) = self.act(at) else { return };
        self.packets.sent(key, place);
    }

    /// A packet with that key arrives on a CPU. The next wake-up there in the same context is linked to its sender.
    pub fn received(&mut self, machine: u16, cpu: u32, time_ns: u64, key: u64) {
        let at = EventPlace { machine, cpu, time_ns };
        if self.act(at).is_none() {
            return;
        }
        let from = self.packets.received(key);
        self.handle(at, key, from);
    }

    /// A packet is queued by whoever runs on a CPU. One that is passed on comes from who sent it.
    pub(super) fn queued(&mut self, at: EventPlace, packet: &Packet<'_>, segment: Option<Segment>) {
        let handled = self.machine(at.machine).cpu(at.cpu).packet;
        let key = segment.map_or(packet.skb, |segment| segment.key());
        let place = match handled.filter(|handled| handled.key == key) {
            Some(handled) => handled.link.from,
            None => match self.act(at) {
                Some(place) => place,
                None => return,
            },
        };
        self.packets.queued(at.machine, packet, place);
        if let Some(segment) = segment {
            self.packets.sent_segment(segment, place);
        }
    }

    pub(super) fn arrived(
        &mut self,
        at: EventPlace,
        packet: &Packet<'_>,
        segment: Option<Segment>,
    ) {
        let in_buffer = self.packets.arrived(at.machine, packet);
        let by_number = segment.and_then(|segment| self.packets.received_segment(&segment));
        let key = segment.map_or(packet.skb, |segment| segment.key());
        self.handle(at, key, in_buffer.or(by_number));
    }

    /// What is handled on a CPU from now on is a packet, where its sender is known.
    fn handle(&mut self, at: EventPlace, key: u64, from: Option<PointPlace>) {
        let packet = from.and_then(|from| {
            let time_ns = self.graph.point(from)?.time_ns;
            let (action, via) = (Action::Sends, self.graph.number(Via::of(ViaKind::Socket)));
            Some(Handled { key, link: LinkOrigin { from, time_ns, action, via } })
        });
        self.machine(at.machine).cpu(at.cpu).packet = packet;
    }

    /// A point for whoever handles a packet on a CPU: the kernel itself in a softirq, else the thread.
    fn act(&mut self, at: EventPlace) -> Option<PointPlace> {
        let contexts = self.machine(at.machine).contexts(at.cpu);
        let (context, since_ns) = (contexts.running(), contexts.softirq_since_ns());
        if !matches!(context, CpuContext::Softirq(_)) {
            let id = self.current(at)?;
            return Some(self.append(at, id));
        }
        let kernel = self.machine(at.machine).cpu(at.cpu).kernel;
        let id = kernel.unwrap_or_else(|| {
            let who = Who::Kernel { machine: at.machine, cpu: at.cpu };
            self.graph.add(who, Comm::new(b"kernel"))
        });
        self.machine(at.machine).cpu(at.cpu).kernel = Some(id);
        let last_ns = self.graph.get(id).and_then(Worker::span).map(|(_, last_ns)| last_ns);
        if last_ns.is_none_or(|last_ns| last_ns < since_ns) {
            self.graph.append(id, since_ns, None, NO_CPU);
        }
        Some(self.graph.append(id, at.time_ns, Some(State::Running), at.cpu))
    }
}

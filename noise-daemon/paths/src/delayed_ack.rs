//! Packets that TCP held back until an acknowledgement came, which their receiver sent late.
//!
//! A sender with Nagle's algorithm (RFC 896) keeps a small segment until all before it is acknowledged; a receiver that has
//! nothing to answer yet acknowledges by a timer, about 40 ms later. Where both ends are on this host, all of it is seen:
//! the timer softirq queues the acknowledgement, the receiving softirq then queues the segment that was held back, and
//! the thread that this segment wakes was waiting for it. A segment that was lost and is sent again by a timer looks the same.

use std::collections::{BTreeMap, BTreeSet};

use noise_trace::contexts::{Contexts, CpuContext};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::PerCpu;

use crate::graph::{Graph, Who, Worker};
use crate::held::Sleep;
use crate::state::State;

const TIMER: u32 = 1;
const NET_RX: u32 = 3;
/// Packets on their way, and wake-ups, that are kept.
const MOST: usize = 1 << 16;

/// Why a packet was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    ByTimer,
    /// On the arrival of one that a timer had sent.
    OnArrival,
}

#[derive(Debug, Default)]
struct PacketCpu {
    contexts: Contexts,
    /// The packet that is handled, where it is one of these.
    handled: Option<(u64, Sent)>,
}

/// Follows events in their order.
#[derive(Debug, Default)]
pub struct DelayedAcks {
    cpus: PerCpu<PacketCpu>,
    packets: BTreeMap<u64, Sent>,
    /// Threads that such a packet woke, and when.
    woken: BTreeSet<(i32, u64)>,
}

/// How long threads slept because of that, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayedNs {
    /// Until such a packet woke them.
    pub own: u64,
    /// Until another thread answered, while that one waited for such a packet: by the id of the other thread.
    pub by: BTreeMap<i32, u64>,
}

impl DelayedAcks {
    pub fn follow(&mut self, event: &Event<'_>) {
        let Some(cpu) = self.cpus.of(event.cpu) else { return };
        let context = cpu.contexts.running();
        match &event.kind {
            TraceKind::NetDevQueue(packet) => {
                let sent = match (context, cpu.handled) {
                    (CpuContext::Softirq(TIMER), _) => Some(Sent::ByTimer),
                    // It is passed on.
                    (CpuContext::Softirq(NET_RX), Some((skb, sent))) if skb == packet.skb => {
                        Some(sent)
                    }
                    (CpuContext::Softirq(NET_RX), Some(_)) => Some(Sent::OnArrival),
                    _ => None,
                };
                match sent {
                    Some(sent) if self.packets.len() < MOST => {
                        self.packets.insert(packet.skb, sent);
                    }
                    _ => {
                        self.packets.remove(&packet.skb);
                    }
                }
            }
            TraceKind::NetifReceiveSkb(packet) => {
                let sent = self.packets.remove(&packet.skb);
                cpu.handled = sent.map(|sent| (packet.skb, sent));
            }
            TraceKind::SchedWaking(woken) => {
                let is_late = matches!(cpu.handled, Some((_, Sent::OnArrival)));
                let is_received = context == CpuContext::Softirq(NET_RX);
                if is_late && is_received && self.woken.len() < MOST {
                    self.woken.insert((woken.task.tid, event.time_ns));
                }
            }
            TraceKind::SoftirqEntry { .. } | TraceKind::SoftirqExit { .. } | TraceKind::Lost(_) => {
                cpu.handled = None;
            }
            _ => {}
        }
        cpu.contexts.follow(event);
    }

    /// How long threads of a program slept because of that, between two times. `sleeps` are those of its sleeps that packets
    /// of other programs ended.
    pub fn finish(
        &self,
        graph: &Graph,
        sleeps: &[Sleep],
        is_own: impl Fn(i32) -> bool,
        (from_ns, to_ns): (u64, u64),
    ) -> DelayedNs {
        let mut delayed = DelayedNs::default();
        // Of the others, by thread.
        let mut late: BTreeMap<i32, Vec<(u64, u64)>> = BTreeMap::new();
        for (_, worker) in graph.workers().filter(|_| !self.woken.is_empty()) {
            let Who::Thread { tid, .. } = worker.who else { continue };
            let woken = self.woken.range((tid, 0)..=(tid, u64::MAX)).map(|(_, at_ns)| *at_ns);
            for (since_ns, at_ns) in woken.filter_map(|at_ns| sleep_until(worker, at_ns)) {
                let (since_ns, at_ns) = (since_ns.max(from_ns), at_ns.min(to_ns));
                if is_own(tid) {
                    delayed.own = delayed.own.saturating_add(at_ns.saturating_sub(since_ns));
                } else {
                    late.entry(tid).or_default().push((since_ns, at_ns));
                }
            }
        }
        for sleep in sleeps {
            let Some(late) = late.get(&sleep.waker) else { continue };
            let both = late.iter().map(|(since_ns, at_ns)| {
                (*at_ns).min(sleep.to_ns).saturating_sub((*since_ns).max(sleep.from_ns))
            });
            let ns = both.fold(0_u64, u64::saturating_add);
            let sum = delayed.by.entry(sleep.waker).or_default();
            *sum = sum.saturating_add(ns);
        }
        delayed.by.retain(|_, ns| *ns > 0);
        delayed
    }
}

/// A worker's sleep until packets that ended then: from when on.
fn sleep_until(worker: &Worker, at_ns: u64) -> Option<(u64, u64)> {
    let number = worker.last_until(at_ns)?;
    let end = worker.point(number).filter(|end| end.time_ns == at_ns)?;
    let begin = worker.point(number.checked_sub(1)?)?;
    (end.state == Some(State::Network)).then_some((begin.time_ns, at_ns))
}

#[cfg(test)]
mod tests {
    use noise_trace::event::Packet;

    use super::*;
    use crate::build::Builder;
    use noise_trace::fixtures::{ASLEEP, switch, waking};

    const MS: u64 = 1_000_000;

    fn queue(skb: u64) -> TraceKind<'static> {
        TraceKind::NetDevQueue(Packet { skb, len: 66, name: b"lo" })
    }

    fn receive(skb: u64) -> TraceKind<'static> {
        TraceKind::NetifReceiveSkb(Packet { skb, len: 52, name: b"lo" })
    }

    fn delayed(events: &[(u64, TraceKind<'static>)], own: i32, sleeps: &[(u64, u64)]) -> DelayedNs {
        let (mut builder, mut acks) = (Builder::default(), DelayedAcks::default());
        for (time_ns, kind) in events {
            let event = Event { time_ns: *time_ns, cpu: 0, kind: *kind };
            builder.follow(&event);
            acks.follow(&event);
        }
        let sleep = |&(from_ns, to_ns): &(u64, u64)| {
            let worker = builder.thread(0, own).unwrap();
            Sleep { worker, tid: own, from_ns, to_ns, waker: 2 }
        };
        let sleeps: Vec<Sleep> = sleeps.iter().map(sleep).collect();
        acks.finish(builder.graph(), &sleeps, |tid| tid == own, (0, 100 * MS))
    }

    /// 1 has sent one half, and the server 2 waits for the other, which leaves after 40 ms.
    fn nagle() -> Vec<(u64, TraceKind<'static>)> {
        vec![
            (MS, switch(0, ASLEEP, 2)),
            (2 * MS, switch(2, ASLEEP, 1)),
            (3 * MS, switch(1, ASLEEP, 0)),
            (43 * MS, TraceKind::SoftirqEntry { vec: TIMER }),
            (43 * MS, queue(7)),
            (43 * MS, TraceKind::SoftirqExit { vec: TIMER }),
            (43 * MS, TraceKind::SoftirqEntry { vec: NET_RX }),
            (43 * MS, receive(7)),
            (43 * MS, queue(8)),
            (43 * MS, receive(8)),
            (44 * MS, waking(2)),
            (44 * MS, TraceKind::SoftirqExit { vec: NET_RX }),
            (45 * MS, switch(0, ASLEEP, 2)),
            (46 * MS, switch(2, ASLEEP, 0)),
        ]
    }

    #[test]
    fn who_waits_for_one_that_waits_for_a_late_packet_waits_for_the_acknowledgement() {
        let found = delayed(&nagle(), 1, &[(3 * MS, 46 * MS)]);
        assert_eq!(found, DelayedNs { own: 0, by: [(2, 41 * MS)].into() });
        // Of the server itself it is its own sleep.
        assert_eq!(delayed(&nagle(), 2, &[]), DelayedNs { own: 42 * MS, ..DelayedNs::default() });
        // A sleep at another time.
        assert_eq!(delayed(&nagle(), 1, &[(45 * MS, 46 * MS)]), DelayedNs::default());
    }

    #[test]
    fn packets_of_threads_and_of_timers_themselves_are_not_late() {
        // The receiving softirq answers what a thread sent.
        let mut by_thread = nagle();
        by_thread.splice(3..6, [(42 * MS, queue(7))]);
        // What a timer sent is passed on, and wakes the server.
        let mut passed_on = nagle();
        for (_, kind) in &mut passed_on {
            match kind {
                TraceKind::NetDevQueue(packet) | TraceKind::NetifReceiveSkb(packet) => {
                    packet.skb = 7
                }
                _ => {}
            }
        }
        for events in [by_thread, passed_on] {
            assert_eq!(delayed(&events, 1, &[(3 * MS, 46 * MS)]), DelayedNs::default());
        }
    }
}

//! PURE: which sleeps of threads began behind a packet that they sent: since it was woken last, the thread handed a packet to an
//! interface. And whether threads sent any data between two times.
//!
//! What was sent, and whether it asks for an answer, no packet's event says. A thread that receives from a TCP connection also
//! acknowledges what it has received: these segments have no content, and are known by their length.

use std::collections::{BTreeMap, BTreeSet};

use noise_trace::contexts::{Contexts, CpuContext};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{PerCpu, Processor};

/// Sleeps that are kept.
const MOST: usize = 1 << 18;
/// Bound for the kept packets of threads, and for the times in which sends were not seen.
const MOST_PACKETS: usize = 1 << 18;
/// Lengths of a segment of TCP without content, of both versions of IP, behind a header of Ethernet and with the times that
/// Linux puts into each.
const BARE: [u32; 2] = [66, 86];
/// Those without that header, or without times. Where there is one, another of the lengths above may have content.
const OTHER_BARE: [u32; 4] = [40, 52, 54, 72];

/// When threads handed packets to an interface, in the order of time.
#[derive(Debug, Default)]
struct HandedPackets {
    data: BTreeMap<i32, Vec<u64>>,
    /// Those that have no content, unless there are others without times.
    bare: BTreeMap<i32, Vec<u64>>,
    has_other_bare: bool,
    /// From when until when it was not seen who sent what.
    unseen: Vec<(u64, u64)>,
    /// How many of these there are.
    kept: usize,
    /// Whether there is any packet among the events.
    has_any: bool,
}

impl HandedPackets {
    /// One that a thread sent, where that is known.
    fn note(&mut self, at_ns: u64, len: u32, tid: Option<i32>) {
        if self.kept >= MOST_PACKETS {
            return;
        }
        self.kept += 1;
        let Some(tid) = tid else { return self.unseen.push((at_ns, at_ns)) };
        let of = if BARE.contains(&len) { &mut self.bare } else { &mut self.data };
        of.entry(tid).or_default().push(at_ns);
    }

    fn lose(&mut self, from_ns: u64, to_ns: u64) {
        if self.kept < MOST_PACKETS {
            self.kept += 1;
            self.unseen.push((from_ns, to_ns));
        }
    }

    /// How often one of these threads sent data between two times, both of them included, as far as that is known.
    fn count(&self, tids: &BTreeSet<i32>, from_ns: u64, to_ns: u64) -> usize {
        let between = |times: &Vec<u64>| {
            let behind = times.partition_point(|at_ns| *at_ns <= to_ns);
            behind.saturating_sub(times.partition_point(|at_ns| *at_ns < from_ns))
        };
        let of = |kept: &BTreeMap<i32, Vec<u64>>| {
            tids.iter().filter_map(|tid| kept.get(tid)).map(between).sum::<usize>()
        };
        of(&self.data) + if self.has_other_bare { of(&self.bare) } else { 0 }
    }

    /// Whether it may be that one of these threads sent data between two times, both of them included.
    fn may_be_between(&self, tids: &BTreeSet<i32>, from_ns: u64, to_ns: u64) -> bool {
        let is_between = |times: &Vec<u64>| {
            let first = times.partition_point(|at_ns| *at_ns < from_ns);
            times.get(first).is_some_and(|at_ns| *at_ns <= to_ns)
        };
        let sent = |of: &BTreeMap<i32, Vec<u64>>| {
            tids.iter().filter_map(|tid| of.get(tid)).any(is_between)
        };
        let is_unseen = |(begin_ns, end_ns): &(u64, u64)| *begin_ns <= to_ns && *end_ns >= from_ns;
        let is_known = self.has_any && self.kept < MOST_PACKETS;
        !is_known
            || sent(&self.data)
            || self.has_other_bare && sent(&self.bare)
            || self.unseen.iter().any(is_unseen)
    }
}

/// Follows events in their order.
#[derive(Debug, Default)]
pub struct Sends {
    cpus: PerCpu<(Contexts, Processor)>,
    /// Threads that sent something since they were woken.
    sent: BTreeSet<i32>,
    sleeps: BTreeSet<(i32, u64)>,
    packets: HandedPackets,
}

impl Sends {
    /// Takes the next event; `is_wanted` says whose sleeps matter.
    pub fn follow(&mut self, event: &Event<'_>, is_wanted: impl Fn(i32) -> bool) {
        let Some((contexts, cpu)) = self.cpus.of(event.cpu) else { return };
        let current = cpu.follow(event);
        if let TraceKind::NetDevQueue(packet) = &event.kind {
            self.packets.has_any = true;
            self.packets.has_other_bare |= OTHER_BARE.contains(&packet.len);
        }
        match &event.kind {
            // A packet that a softirq sends is not the current thread's.
            TraceKind::NetDevQueue(packet) if contexts.running() == CpuContext::Task => {
                self.sent.extend(current.filter(|tid| is_wanted(*tid)));
                if current.is_none_or(&is_wanted) {
                    self.packets.note(event.time_ns, packet.len, current);
                }
            }
            TraceKind::SchedSwitch { prev, prev_state, .. } => {
                let sleeps = prev_state.is_asleep();
                if sleeps && self.sent.remove(&prev.tid) && self.sleeps.len() < MOST {
                    self.sleeps.insert((prev.tid, event.time_ns));
                }
            }
            TraceKind::SchedWaking(woken) => {
                self.sent.remove(&woken.task.tid);
            }
            // The running thread is unknown from here on, and sleeps may have been missed.
            TraceKind::Lost(loss) => {
                self.sent.clear();
                self.packets.lose(loss.from_ns, loss.to_ns.max(event.time_ns));
            }
            _ => {}
        }
        contexts.follow(event);
    }

    /// Whether it may be that one of these threads sent data between two times, both of them included.
    pub fn are_between(&self, tids: &BTreeSet<i32>, from_ns: u64, to_ns: u64) -> bool {
        self.packets.may_be_between(tids, from_ns, to_ns)
    }

    /// How often one of these threads sent data between two times, both of them included, as far as that is known.
    pub fn count(&self, tids: &BTreeSet<i32>, from_ns: u64, to_ns: u64) -> usize {
        self.packets.count(tids, from_ns, to_ns)
    }

    /// Whether a thread's sleep that began then is one of them.
    pub fn are_before(&self, tid: i32, since_ns: u64) -> bool {
        self.sleeps.contains(&(tid, since_ns))
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::event::{LostEvents, Packet};
    use noise_trace::fixtures::{ASLEEP, switch, waking};

    use super::*;

    fn packet() -> TraceKind<'static> {
        TraceKind::NetDevQueue(Packet { skb: 1, len: 60, name: b"lo" })
    }

    #[test]
    fn a_sleep_behind_a_packet_is_found_and_no_other() {
        let mut sends = Sends::default();
        let events = [
            (10, switch(0, 0, 7)),
            (11, packet()),
            // It is preempted, and goes on.
            (12, switch(7, 0, 8)),
            (13, switch(8, ASLEEP, 7)),
            (14, switch(7, ASLEEP, 0)),
            (20, waking(7)),
            (21, switch(0, 0, 7)),
            // Nothing was sent since.
            (22, switch(7, ASLEEP, 8)),
            // A packet of a softirq is not the one's that it interrupts.
            (23, TraceKind::SoftirqEntry { vec: 3 }),
            (24, packet()),
            (25, TraceKind::SoftirqExit { vec: 3 }),
            (26, switch(8, ASLEEP, 9)),
            // One that is not wanted.
            (27, packet()),
            (28, switch(9, ASLEEP, 0)),
        ];
        for (time_ns, kind) in events {
            sends.follow(&Event { time_ns, cpu: 0, kind }, |tid| tid < 9);
        }
        let found: Vec<_> = sends.sleeps.iter().copied().collect();
        assert_eq!(found, [(7, 14)]);
        // What was sent before events were lost may be answered.
        let lost = TraceKind::Lost(LostEvents { events: 1, packets: 0, from_ns: 31, to_ns: 32 });
        for (time_ns, kind) in
            [(30, switch(0, 0, 7)), (31, packet()), (32, lost), (33, switch(7, ASLEEP, 0))]
        {
            sends.follow(&Event { time_ns, cpu: 0, kind }, |tid| tid < 9);
        }
        assert!(!sends.are_before(7, 33));
        assert!(sends.are_before(7, 14) && !sends.are_before(7, 22));
    }

    #[test]
    fn data_is_told_from_what_acknowledges_some() {
        let packet =
            |time_ns, len| (time_ns, TraceKind::NetDevQueue(Packet { skb: 1, len, name: b"lo" }));
        let follow = |more: &[(u64, TraceKind<'static>)]| {
            let mut sends = Sends::default();
            let events =
                [(10, switch(0, 0, 7)), packet(11, 66), packet(20, 80), (30, switch(7, 0, 8))];
            for (time_ns, kind) in events.iter().chain(more) {
                let event = Event { time_ns: *time_ns, cpu: 0, kind: *kind };
                sends.follow(&event, |tid| tid == 7);
            }
            sends
        };
        let between =
            |sends: &Sends, from_ns, to_ns| sends.are_between(&[7].into(), from_ns, to_ns);
        let sends = follow(&[]);
        assert!(between(&sends, 20, 20) && between(&sends, 12, 40));
        assert!(!between(&sends, 10, 19) && !between(&sends, 21, 90));
        assert!(!sends.are_between(&[8].into(), 10, 90));
        // One without times: what is as long as one with them may be data.
        assert!(between(&follow(&[packet(40, 54)]), 10, 19));
        let lost = LostEvents { events: 1, packets: 0, from_ns: 50, to_ns: 60 };
        let sends = follow(&[(60, TraceKind::Lost(lost)), packet(70, 80)]);
        assert!(between(&sends, 55, 58) && !between(&sends, 61, 69));
        // Who sends behind a loss is not known.
        assert!(between(&sends, 61, 70));
        assert!(between(&Sends::default(), 10, 90), "packets are not among the events");
    }
}

//! PURE: which sleeps of threads began behind a packet that they sent: since it was woken last, the thread handed a packet to an
//! interface.
//!
//! What was sent, and whether it asks for an answer, no packet's event says.

use std::collections::BTreeSet;

use noise_trace::contexts::{Context, Contexts};
use noise_trace::event::{Event, Kind};
use noise_trace::follow::{PerCpu, Processor};

/// Sleeps that are kept.
const MOST: usize = 1 << 18;

/// Follows events in their order.
#[derive(Debug, Default)]
pub struct Sends {
    cpus: PerCpu<(Contexts, Processor)>,
    /// Threads that sent something since they were woken.
    sent: BTreeSet<i32>,
    sleeps: BTreeSet<(i32, u64)>,
}

impl Sends {
    /// Takes the next event; `is_wanted` says whose sleeps matter.
    pub fn follow(&mut self, event: &Event<'_>, is_wanted: impl Fn(i32) -> bool) {
        let Some((contexts, cpu)) = self.cpus.of(event.cpu) else { return };
        let current = cpu.follow(event);
        match &event.kind {
            // A packet that a softirq sends is not the current thread's.
            Kind::NetDevQueue(_) if contexts.running() == Context::Task => {
                self.sent.extend(current.filter(|tid| is_wanted(*tid)));
            }
            Kind::SchedSwitch { prev, prev_state, .. } => {
                let sleeps = prev_state.is_asleep();
                if sleeps && self.sent.remove(&prev.tid) && self.sleeps.len() < MOST {
                    self.sleeps.insert((prev.tid, event.time_ns));
                }
            }
            Kind::SchedWaking(woken) => {
                self.sent.remove(&woken.task.tid);
            }
            // Who runs there is not known, nor who slept meanwhile.
            Kind::Lost(_) => self.sent.clear(),
            _ => {}
        }
        contexts.follow(event);
    }

    /// Whether a thread's sleep that began then is one of them.
    pub fn are_before(&self, tid: i32, since_ns: u64) -> bool {
        self.sleeps.contains(&(tid, since_ns))
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::event::{Loss, Packet, Task, Woken};
    use noise_trace::state::LeftIn;

    use super::*;

    const ASLEEP: i64 = 1;

    fn task(tid: i32) -> Task {
        Task { tid, ..Task::default() }
    }

    fn switch(prev: i32, state: i64, next: i32) -> Kind<'static> {
        Kind::SchedSwitch { prev: task(prev), prev_state: LeftIn::of(state), next: task(next) }
    }

    fn packet() -> Kind<'static> {
        Kind::NetDevQueue(Packet { skb: 1, len: 60, name: b"lo" })
    }

    fn waking(tid: i32) -> Kind<'static> {
        Kind::SchedWaking(Woken { task: task(tid), target_cpu: 0 })
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
            (23, Kind::SoftirqEntry { vec: 3 }),
            (24, packet()),
            (25, Kind::SoftirqExit { vec: 3 }),
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
        let lost = Kind::Lost(Loss { events: 1, packets: 0, from_ns: 31, to_ns: 32 });
        for (time_ns, kind) in
            [(30, switch(0, 0, 7)), (31, packet()), (32, lost), (33, switch(7, ASLEEP, 0))]
        {
            sends.follow(&Event { time_ns, cpu: 0, kind }, |tid| tid < 9);
        }
        assert!(!sends.are_before(7, 33));
        assert!(sends.are_before(7, 14) && !sends.are_before(7, 22));
    }
}

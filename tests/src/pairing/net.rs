//! `net_tx_wait{interface}` and `net_rx_wait{interface}`.
//!
//! Sending: from `net_dev_queue` to `net_dev_start_xmit` of the same packet. Receiving: from the
//! latest `netif_receive_skb` inside a `NET_RX` softirq, or in a kernel thread that polls, to the first
//! `sched_waking` that follows on that CPU in the same softirq, or before the thread gives way to a softirq or
//! to another thread; a wake-up by an interrupt that came between is not the packet's, nor is that of a thread
//! that polls, and a packet that no wake-up follows, or that came elsewhere, counts nowhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::interrupts::{Context, Stacks};
use super::raise::softirq_raise_wait;
use super::{Paired, Sample};
use crate::ftrace::event::{Event, Kind};

/// What noised calls an interface of another network namespace.
const OTHER: &str = "~other";

/// The waits, with interfaces of other network namespaces under noised's one name for them. Events of ftrace do not say
/// the namespace: where another one has an interface with the name of one of ours (every namespace has `lo`), its packets
/// count as ours.
pub fn folded(paired: &Paired, own: &BTreeSet<String>) -> Paired {
    let mut folded = paired.clone();
    for sample in folded.samples.iter_mut().chain(&mut folded.orphans) {
        if !own.contains(&*sample.labels.0) {
            sample.labels.0 = OTHER.into();
        }
    }
    folded
}

fn sample(event: &Event, interface: &Arc<str>, start_ns: u64) -> Sample {
    Sample {
        labels: (Arc::clone(interface), "".into()),
        pid: 0,
        cpu: event.cpu,
        end_ns: event.time_ns,
        value_ns: event.time_ns.saturating_sub(start_ns),
        nested_ns: 0,
    }
}

/// Waits of packets to be sent.
///
/// A start without a queueing is no orphan: the segments of a large packet, and packets that bypass
/// the queue, start so.
pub fn net_tx_wait(events: &[Event]) -> Paired {
    let mut queued: HashMap<u64, u64> = HashMap::new();
    let mut paired = Paired::default();
    for event in events {
        match &event.kind {
            Kind::TxQueue { skb, .. } => {
                queued.insert(*skb, event.time_ns);
            }
            Kind::TxStart { skb, interface } => {
                if let Some(start_ns) = queued.remove(skb) {
                    paired.samples.push(sample(event, interface, start_ns));
                }
            }
            _ => {}
        }
    }
    paired
}

/// Waits of received packets, on a host where these threads poll.
pub fn net_rx_wait(events: &[Event], pollers: &BTreeSet<i32>) -> Paired {
    let mut stacks = Stacks::default();
    let mut received: HashMap<u32, (u64, Arc<str>)> = HashMap::new();
    // Who runs by the switches. Where a thread runs to which none was seen, the programs did not see it either: they may
    // not know that a polling thread runs.
    let mut running: HashMap<u32, i32> = HashMap::new();
    let mut paired = Paired::default();
    let receives = |stacks: &Stacks, event: &Event| match stacks.innermost(event.cpu) {
        Some(Context::Softirq(vector)) => &**vector == "net_rx",
        Some(_) => false,
        None => pollers.contains(&event.pid),
    };
    for event in events {
        stacks.step(event);
        match &event.kind {
            Kind::Receive { interface } if receives(&stacks, event) => {
                received.insert(event.cpu, (event.time_ns, Arc::clone(interface)));
            }
            Kind::Waking { pid } if receives(&stacks, event) && !pollers.contains(pid) => {
                if let Some((start_ns, interface)) = received.remove(&event.cpu) {
                    let sample = Sample { pid: *pid, ..sample(event, &interface, start_ns) };
                    let runs = running.get(&event.cpu).is_none_or(|pid| *pid == event.pid);
                    match runs || stacks.innermost(event.cpu).is_some() {
                        true => paired.samples.push(sample),
                        false => paired.orphans.push(sample),
                    }
                }
            }
            Kind::SoftirqEntry { .. } | Kind::SoftirqExit { .. } => {
                received.remove(&event.cpu);
            }
            Kind::Switch { next, .. } => {
                running.insert(event.cpu, *next);
                if stacks.innermost(event.cpu).is_none() {
                    received.remove(&event.cpu);
                }
            }
            _ => {}
        }
    }
    paired
}

/// What came before deliveries: from the raise to the entry of the softirq that each is made in, where
/// that is no shorter than `least_ns`. They end with the entry.
pub fn net_rx_backlogs(events: &[Event], deliveries: &[Sample], least_ns: u64) -> Vec<Sample> {
    let raised = softirq_raise_wait(events);
    // One whose raise was not seen waited for nothing.
    let mut entries: Vec<Sample> = raised.samples.into_iter().chain(raised.orphans).collect();
    entries.retain(|entry| &*entry.labels.0 == "net_rx");
    entries.sort_by_key(|entry| (entry.cpu, entry.end_ns));
    let of = |delivery: &Sample| {
        let place = (delivery.cpu, delivery.end_ns);
        let behind = entries.partition_point(|entry| (entry.cpu, entry.end_ns) <= place);
        let entry = behind.checked_sub(1).and_then(|last| entries.get(last))?;
        let is_its = entry.cpu == delivery.cpu && entry.value_ns >= least_ns;
        is_its.then(|| Sample { pid: delivery.pid, ..entry.clone() })
    };
    deliveries.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{folded, net_rx_backlogs, net_rx_wait, net_tx_wait};
    use crate::ftrace::event::{Event, Kind, Left};
    use crate::pairing::testing::{at, brief};

    fn enter(time: u64) -> Event {
        at(time, 0, Kind::SoftirqEntry { vector: "net_rx".into() })
    }

    fn exit(time: u64) -> Event {
        at(time, 0, Kind::SoftirqExit { vector: "net_rx".into() })
    }

    fn receive(time: u64) -> Event {
        at(time, 0, Kind::Receive { interface: "lo".into() })
    }

    fn waking(time: u64) -> Event {
        at(time, 0, Kind::Waking { pid: 7 })
    }

    #[test]
    fn the_same_packet_is_paired() {
        let queue =
            |time, skb| at(time, 0, Kind::TxQueue { skb, interface: "lo".into(), bytes: 60 });
        let start = |time, skb| at(time, 1, Kind::TxStart { skb, interface: "lo".into() });
        // Packet 2 was dropped and its memory used again; 3 was never queued; 1 is sent once.
        let events = [
            queue(10, 1),
            queue(11, 2),
            queue(15, 2),
            start(20, 1),
            start(21, 2),
            start(22, 3),
            start(23, 1),
        ];
        assert_eq!(brief(&net_tx_wait(&events).samples), [("lo", "", 10, 0), ("lo", "", 6, 0)]);
    }

    #[test]
    fn interfaces_of_other_namespaces_are_one() {
        let queue = |skb, interface: &str| {
            at(skb, 0, Kind::TxQueue { skb, interface: interface.into(), bytes: 60 })
        };
        let start =
            |skb, interface: &str| at(9, 1, Kind::TxStart { skb, interface: interface.into() });
        let events = [queue(1, "lo"), queue(2, "eth7"), start(1, "lo"), start(2, "eth7")];
        let own = BTreeSet::from(["lo".to_owned()]);
        let found = folded(&net_tx_wait(&events), &own);
        assert_eq!(brief(&found.samples), [("lo", "", 8, 0), ("~other", "", 7, 0)]);
    }

    #[test]
    fn the_latest_packet_and_the_first_wakeup_count() {
        let events =
            [enter(1), receive(10), receive(20), waking(25), waking(26), receive(30), exit(40)];
        assert_eq!(brief(&net_rx_wait(&events, &BTreeSet::new()).samples), [("lo", "", 5, 0)]);
    }

    #[test]
    fn a_wakeup_by_an_interrupt_or_in_another_softirq_does_not_count() {
        let events = [
            receive(1),
            waking(2),
            enter(3),
            receive(10),
            at(11, 0, Kind::VectorEntry { vector: "local_timer".into() }),
            waking(12),
            at(13, 0, Kind::VectorExit { vector: "local_timer".into() }),
            waking(14),
            receive(15),
            exit(20),
            enter(21),
            waking(22),
            exit(23),
            waking(24),
        ];
        assert_eq!(brief(&net_rx_wait(&events, &BTreeSet::new()).samples), [("lo", "", 4, 0)]);
    }

    #[test]
    fn a_thread_that_polls_delivers_until_it_gives_way() {
        let by = |pid, event: Event| Event { pid, ..event };
        let waking = |time, pid| by(5, at(time, 0, Kind::Waking { pid }));
        let left = Left::Asleep;
        let events = [
            by(6, receive(1)),
            by(6, at(2, 0, Kind::Waking { pid: 7 })),
            by(5, receive(10)),
            // The packet goes on to another thread that polls.
            waking(11, 8),
            waking(13, 7),
            waking(14, 7),
            by(5, receive(20)),
            by(5, enter(21)),
            by(5, exit(22)),
            waking(23, 7),
            by(5, receive(30)),
            by(5, at(31, 0, Kind::Switch { prev: 5, left, next: 6 })),
            by(6, at(32, 0, Kind::Switch { prev: 6, left, next: 5 })),
            waking(33, 7),
        ];
        let found = net_rx_wait(&events, &BTreeSet::from([5, 8])).samples;
        assert_eq!(brief(&found), [("lo", "", 3, 0)]);
    }

    #[test]
    fn what_a_thread_delivers_to_which_no_switch_was_seen_may_count() {
        let by = |pid, event: Event| Event { pid, ..event };
        let left = Left::Asleep;
        let switch = |time, prev, next| at(time, 0, Kind::Switch { prev, left, next });
        let events = [
            switch(1, 5, 1),
            // From 1 to 5: missing.
            by(5, receive(10)),
            by(5, waking(12)),
            at(15, 0, Kind::LostSwitch { prev: 1, next: 5 }),
            switch(15, 5, 0),
            switch(16, 0, 5),
            by(5, receive(20)),
            by(5, waking(24)),
        ];
        let found = net_rx_wait(&events, &BTreeSet::from([5]));
        assert_eq!(brief(&found.samples), [("lo", "", 4, 0)]);
        assert_eq!(brief(&found.orphans), [("lo", "", 2, 0)]);
    }

    #[test]
    fn a_delivery_that_waited_for_its_softirq_has_a_backlog() {
        let raise = |time| at(time, 0, Kind::SoftirqRaise { vector: "net_rx".into() });
        let events = [
            raise(1),
            enter(20),
            receive(21),
            waking(22),
            receive(23),
            waking(24),
            exit(30),
            raise(40),
            enter(49),
            receive(50),
            waking(51),
            exit(52),
            enter(90),
            receive(91),
            waking(92),
        ];
        let deliveries = net_rx_wait(&events, &BTreeSet::new()).samples;
        let backlogs = net_rx_backlogs(&events, &deliveries, 10);
        let brief: Vec<_> =
            backlogs.iter().map(|one| (one.pid, one.end_ns, one.value_ns)).collect();
        assert_eq!(brief, [(7, 20, 19), (7, 20, 19)]);
    }
}

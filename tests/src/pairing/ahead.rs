//! Who was ahead in a queue: what waits there is charged to whatever was in it before, by size.
//!
//! A stay is the time that a request or a packet spends where others have to wait for it. A wait is
//! divided among the stays that had begun, and had not ended, when it began; by their bytes. A wait with
//! nothing ahead is nobody's.

use std::collections::{BTreeMap, BTreeSet};

use super::block::Life;
use super::charges::{Charge, Holder};
use crate::ftrace::event::{Event, Kind};

/// Something in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stay {
    pid: i32,
    bytes: u64,
    from_ns: u64,
    to_ns: u64,
}

/// Divides the waits of the chosen threads; a wait begins when a stay does, which is its own.
fn divide(mut stays: Vec<(Stay, Option<u64>)>, chosen: &BTreeSet<i32>) -> Vec<Charge> {
    stays.sort_by_key(|(stay, _)| stay.from_ns);
    let mut present: Vec<Stay> = Vec::new();
    let mut charges = Vec::new();
    for (own, wait_ends_ns) in stays {
        present.retain(|stay| stay.to_ns > own.from_ns);
        if let Some(end_ns) = wait_ends_ns.filter(|_| chosen.contains(&own.pid)) {
            let wait_ns = end_ns.saturating_sub(own.from_ns);
            let total: u64 = present.iter().map(|stay| stay.bytes).sum();
            let charge = |holder, ns| Charge { pid: own.pid, end_ns, holder, ns };
            let mut bytes: BTreeMap<i32, u64> = BTreeMap::new();
            for stay in &present {
                *bytes.entry(stay.pid).or_default() += stay.bytes;
            }
            if total == 0 {
                charges.push(charge(Holder::Unknown, wait_ns));
            }
            charges.extend(bytes.into_iter().filter(|_| total > 0).map(|(pid, bytes)| {
                let part = u128::from(wait_ns) * u128::from(bytes) / u128::from(total);
                charge(Holder::Task(pid), u64::try_from(part).unwrap_or(u64::MAX))
            }));
        }
        present.push(own);
    }
    charges.sort_by_key(|charge| charge.end_ns);
    charges
}

/// Waits in the queue of one device: behind what was queued there, or under way at the device.
pub fn block_queue(lives: &[Life], chosen: &BTreeSet<i32>) -> Vec<Charge> {
    let stay = |life: &Life| {
        let from_ns = life.inserted_ns.unwrap_or(life.issued_ns);
        let (pid, bytes, to_ns) = (life.pid, life.sectors * 512, life.completed_ns);
        let wait = life.inserted_ns.map(|_| life.issued_ns);
        (Stay { pid, bytes, from_ns, to_ns }, wait)
    };
    divide(lives.iter().map(stay).collect(), chosen)
}

/// Waits for one device: beside what was under way there.
pub fn block_device(lives: &[Life], chosen: &BTreeSet<i32>) -> Vec<Charge> {
    let stay = |life: &Life| {
        let (pid, bytes, from_ns) = (life.pid, life.sectors * 512, life.issued_ns);
        (Stay { pid, bytes, from_ns, to_ns: life.completed_ns }, Some(life.completed_ns))
    };
    divide(lives.iter().map(stay).collect(), chosen)
}

/// Waits of packets to be sent through one interface, whose packets are queued by their senders.
pub fn net_tx(events: &[Event], interface: &str, chosen: &BTreeSet<i32>) -> Vec<Charge> {
    let mut queued: BTreeMap<u64, Stay> = BTreeMap::new();
    let mut stays = Vec::new();
    for event in events {
        match &event.kind {
            Kind::TxQueue { skb, interface: found, bytes } if **found == *interface => {
                let (pid, from_ns) = (event.pid, event.time_ns);
                let stay = Stay { pid, bytes: u64::from(*bytes), from_ns, to_ns: 0 };
                queued.insert(*skb, stay);
            }
            Kind::TxStart { skb, .. } => {
                if let Some(stay) = queued.remove(skb) {
                    let to_ns = event.time_ns;
                    stays.push((Stay { to_ns, ..stay }, Some(to_ns)));
                }
            }
            _ => {}
        }
    }
    divide(stays, chosen)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{block_device, block_queue, net_tx};
    use crate::ftrace::event::{Event, Kind};
    use crate::pairing::block::Life;
    use crate::pairing::charges::{Charge, Holder};

    fn brief(charges: &[Charge]) -> Vec<(Holder, u64)> {
        charges.iter().map(|charge| (charge.holder.clone(), charge.ns)).collect()
    }

    fn life(pid: i32, sectors: u64, times: (Option<u64>, u64, u64)) -> Life {
        let (inserted_ns, issued_ns, completed_ns) = times;
        Life { device: 1, pid, sectors, inserted_ns, issued_ns, completed_ns }
    }

    #[test]
    fn a_request_waits_for_what_was_there_before_it() {
        let lives = [
            life(5, 8, (Some(100), 140, 240)),
            life(6, 24, (Some(50), 130, 200)),
            life(7, 8, (None, 60, 150)),
            life(8, 8, (Some(10), 20, 90)),
            life(9, 8, (Some(101), 120, 300)),
        ];
        let chosen = BTreeSet::from([5]);
        assert_eq!(
            brief(&block_queue(&lives, &chosen)),
            [(Holder::Task(6), 30), (Holder::Task(7), 10)]
        );
        assert_eq!(
            brief(&block_device(&lives, &chosen)),
            [(Holder::Task(6), 60), (Holder::Task(7), 20), (Holder::Task(9), 20)]
        );
    }

    #[test]
    fn a_packet_waits_for_those_queued_before_it() {
        let event = |time_ns, pid, kind| Event { time_ns, cpu: 0, pid, kind };
        let queue = |time, pid, skb, bytes| {
            event(time, pid, Kind::TxQueue { skb, interface: "wire".into(), bytes })
        };
        let start = |time, skb| event(time, 0, Kind::TxStart { skb, interface: "wire".into() });
        let events = [
            queue(10, 6, 1, 300),
            queue(20, 5, 2, 100),
            queue(30, 5, 3, 100),
            start(40, 1),
            start(60, 2),
            start(70, 3),
            queue(80, 5, 4, 100),
            start(81, 4),
        ];
        assert_eq!(
            brief(&net_tx(&events, "wire", &BTreeSet::from([5]))),
            [
                (Holder::Task(6), 40),
                (Holder::Task(5), 10),
                (Holder::Task(6), 30),
                (Holder::Unknown, 1),
            ]
        );
    }
}

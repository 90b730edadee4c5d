//! Who was ahead in a queue: a wait there is charged to those whom the queue served meanwhile, by size.
//!
//! A device's queue serves a request when it issues it, the device when it has done it (its own part
//! of the wait is the victim's own doing), an interface's queue a packet when it starts to transmit it.
//! A wait in which no request was served is charged to no one.

use std::collections::{BTreeMap, BTreeSet};

use super::block::Life;
use super::charges::{Charge, Holder};
use crate::ftrace::event::{Event, Kind};

/// Something that was served, and how long it had waited for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Service {
    pid: i32,
    bytes: u64,
    /// When its wait began, if it was seen to.
    from_ns: Option<u64>,
    /// When it was served.
    at_ns: u64,
    /// What its own part of its wait weighs.
    own_bytes: u64,
}

/// Divides the waits of the chosen threads.
fn divide(mut services: Vec<Service>, chosen: &BTreeSet<i32>) -> Vec<Charge> {
    services.sort_by_key(|service| service.at_ns);
    let mut charges = Vec::new();
    for own in services.iter().filter(|own| chosen.contains(&own.pid)) {
        let Some(from_ns) = own.from_ns else { continue };
        let first = services.partition_point(|service| service.at_ns <= from_ns);
        let meanwhile = services.iter().skip(first).take_while(|service| service.at_ns < own.at_ns);
        let mut bytes: BTreeMap<i32, u64> = BTreeMap::new();
        for service in meanwhile {
            *bytes.entry(service.pid).or_default() += service.bytes;
        }
        if own.own_bytes > 0 {
            *bytes.entry(own.pid).or_default() += own.own_bytes;
        }
        let total: u64 = bytes.values().sum();
        let wait_ns = own.at_ns.saturating_sub(from_ns);
        let charge = |holder, ns| Charge { pid: own.pid, end_ns: own.at_ns, holder, ns };
        if total == 0 {
            charges.push(charge(Holder::Idle, wait_ns));
            continue;
        }
        charges.extend(bytes.into_iter().map(|(pid, bytes)| {
            let part = u128::from(wait_ns) * u128::from(bytes) / u128::from(total);
            charge(Holder::Task(pid), u64::try_from(part).unwrap_or(u64::MAX))
        }));
    }
    charges
}

/// The part of these waits that is one's or another's by the order of two events which lie closer
/// together than their stamps can tell: a wait in which one request was served, about when it began,
/// is charged whole to one thread or to none.
fn doubtful(mut services: Vec<Service>, chosen: &BTreeSet<i32>, resolution_ns: u64) -> u64 {
    services.sort_by_key(|service| service.at_ns);
    let mut doubtful_ns = 0;
    for own in services.iter().filter(|own| chosen.contains(&own.pid)) {
        let Some(from_ns) = own.from_ns else { continue };
        let least = from_ns.saturating_sub(resolution_ns);
        let first = services.partition_point(|service| service.at_ns < least);
        let most = own.at_ns + resolution_ns;
        let (mut certain, mut close) = (own.own_bytes, 0);
        for other in services.iter().skip(first).take_while(|service| service.at_ns <= most) {
            let is_close = |at_ns: u64| other.at_ns.abs_diff(at_ns) <= resolution_ns;
            if other == own {
                continue;
            }
            if is_close(from_ns) || is_close(own.at_ns) {
                close += other.bytes;
            } else {
                certain += other.bytes;
            }
        }
        if close > 0 {
            let wait_ns = u128::from(own.at_ns.saturating_sub(from_ns));
            let part = wait_ns * u128::from(close) / u128::from(close + certain);
            doubtful_ns += u64::try_from(part).unwrap_or(u64::MAX);
        }
    }
    doubtful_ns
}

/// What of the waits in the queue of one device is not known, at this distance of two stamps.
pub fn block_queue_doubt(lives: &[Life], chosen: &BTreeSet<i32>, resolution_ns: u64) -> u64 {
    doubtful(issues(lives), chosen, resolution_ns)
}

/// Waits in the queue of one device.
pub fn block_queue(lives: &[Life], chosen: &BTreeSet<i32>) -> Vec<Charge> {
    divide(issues(lives), chosen)
}

fn issues(lives: &[Life]) -> Vec<Service> {
    let issue = |life: &Life| Service {
        pid: life.pid,
        bytes: life.sectors * 512,
        from_ns: life.inserted_ns,
        at_ns: life.issued_ns,
        own_bytes: 0,
    };
    lives.iter().map(issue).collect()
}

/// Waits for one device.
pub fn block_device(lives: &[Life], chosen: &BTreeSet<i32>) -> Vec<Charge> {
    divide(completions(lives), chosen)
}

/// What of the waits for one device is not known, at this distance of two stamps.
pub fn block_device_doubt(lives: &[Life], chosen: &BTreeSet<i32>, resolution_ns: u64) -> u64 {
    doubtful(completions(lives), chosen, resolution_ns)
}

fn completions(lives: &[Life]) -> Vec<Service> {
    let completion = |life: &Life| Service {
        pid: life.pid,
        bytes: life.sectors * 512,
        from_ns: Some(life.issued_ns),
        at_ns: life.completed_ns,
        own_bytes: life.sectors * 512,
    };
    lives.iter().map(completion).collect()
}

/// Waits of packets to be sent through one interface, whose packets are queued by their senders.
pub fn net_tx(events: &[Event], interface: &str, chosen: &BTreeSet<i32>) -> Vec<Charge> {
    let mut queued: BTreeMap<u64, Service> = BTreeMap::new();
    let mut started = Vec::new();
    for event in events {
        let at_ns = event.time_ns;
        match &event.kind {
            Kind::TxQueue { skb, interface: found, bytes } if **found == *interface => {
                let (pid, bytes) = (event.pid, u64::from(*bytes));
                let service = Service { pid, bytes, from_ns: Some(at_ns), at_ns, own_bytes: 0 };
                queued.insert(*skb, service);
            }
            Kind::TxStart { skb, .. } => {
                let service = queued.remove(skb);
                started.extend(service.map(|service| Service { at_ns, ..service }));
            }
            _ => {}
        }
    }
    divide(started, chosen)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{block_device, block_queue, block_queue_doubt, net_tx};
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
    fn a_request_waits_for_what_is_served_before_it() {
        let lives = [
            life(5, 8, (Some(100), 140, 240)),
            life(6, 24, (Some(50), 130, 200)),
            life(7, 8, (None, 120, 150)),
            life(8, 8, (Some(10), 20, 250)),
            life(5, 8, (Some(300), 310, 320)),
        ];
        let chosen = BTreeSet::from([5]);
        assert_eq!(
            brief(&block_queue(&lives, &chosen)),
            [(Holder::Task(6), 30), (Holder::Task(7), 10), (Holder::Idle, 10)]
        );
        assert_eq!(
            brief(&block_device(&lives, &chosen)),
            [
                (Holder::Task(5), 20),
                (Holder::Task(6), 60),
                (Holder::Task(7), 20),
                (Holder::Task(5), 10),
            ]
        );
    }

    #[test]
    fn what_hangs_on_the_order_of_two_stamps_is_doubtful() {
        let chosen = BTreeSet::from([5]);
        // Waits from 100 to 200 behind one of another's, issued when it began, in the middle, or not.
        let behind = |others: &[(u64, u64)]| {
            let others = others.iter().map(|&(at, sectors)| life(6, sectors, (None, at, at + 500)));
            let own = life(5, 1, (Some(100), 200, 900));
            let lives: Vec<Life> = others.chain([own]).collect();
            block_queue_doubt(&lives, &chosen, 10)
        };
        assert_eq!(behind(&[]), 0);
        assert_eq!(behind(&[(150, 1)]), 0);
        assert_eq!(behind(&[(95, 1)]), 100);
        assert_eq!(behind(&[(105, 1)]), 100);
        assert_eq!(behind(&[(209, 1)]), 100);
        assert_eq!(behind(&[(80, 1), (220, 1)]), 0);
        assert_eq!(behind(&[(95, 1), (150, 3)]), 25);
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
                (Holder::Idle, 1)
            ]
        );
    }
}

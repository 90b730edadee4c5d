//! Waits of block requests and of packets.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use noise_common::signals::NET_RX;

use super::cpu::Cpus;
use super::document::{Device, Interface};
use super::sums::Spread;
use super::watch::{Delay, Signal, Subject, Watch};
use crate::event::{Event, Kind, Packet, Request};

/// Requests or packets that are on their way at a time; further ones are not measured.
const MAX_OPEN: usize = 1 << 18;
/// Devices and interfaces that are kept apart.
const MAX_PLACES: usize = 65_536;

/// A request, as long as it is on its way: device and first sector.
type RequestKey = (u32, u64);

/// Waits of requests and packets.
#[derive(Debug, Default)]
pub struct Requests {
    queued: HashMap<RequestKey, u64>,
    issued: HashMap<RequestKey, u64>,
    queue: BTreeMap<u32, Spread>,
    device: BTreeMap<u32, Spread>,
    disks: BTreeMap<u32, String>,
    sent: HashMap<u64, (u64, String)>,
    tx: BTreeMap<String, Spread>,
    /// By CPU, the latest packet that its softirq received without a wake-up since.
    received: HashMap<u32, (u64, String)>,
    rx: BTreeMap<String, Spread>,
}

fn open<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: K, value: V) {
    if map.len() < MAX_OPEN || map.contains_key(&key) {
        map.insert(key, value);
    }
}

fn add<K: Ord>(map: &mut BTreeMap<K, Spread>, key: K, ns: u64) {
    if map.len() < MAX_PLACES || map.contains_key(&key) {
        map.entry(key).or_default().add(ns);
    }
}

fn key(request: &Request<'_>) -> RequestKey {
    (request.dev, request.sector)
}

fn interface(packet: &Packet<'_>) -> String {
    String::from_utf8_lossy(packet.name).into_owned()
}

impl Requests {
    /// Takes the next event.
    pub fn follow(&mut self, event: &Event<'_>, cpus: &Cpus, watch: &mut impl Watch) {
        let now_ns = event.time_ns;
        let mut ended = |signal: Signal, subject: Subject<'_>, from_ns: u64| {
            let (cpu, to_ns) = (event.cpu, now_ns);
            watch.delayed(&Delay { signal, subject, cpu, from_ns, to_ns, net_ns: None });
        };
        match &event.kind {
            Kind::BlockRqInsert(request) => open(&mut self.queued, key(request), now_ns),
            Kind::BlockRqIssue(request) => {
                if let Some(since_ns) = self.queued.remove(&key(request)) {
                    add(&mut self.queue, request.dev, now_ns.saturating_sub(since_ns));
                    let subject = device(&self.disks, request.dev);
                    ended(Signal::BlockQueueWait, subject, since_ns);
                }
                open(&mut self.issued, key(request), now_ns);
            }
            Kind::BlockRqRequeue(request) => {
                self.issued.remove(&key(request));
                open(&mut self.queued, key(request), now_ns);
            }
            Kind::BlockRqComplete(request) => {
                if let Some(since_ns) = self.issued.remove(&key(request)) {
                    add(&mut self.device, request.dev, now_ns.saturating_sub(since_ns));
                    let subject = device(&self.disks, request.dev);
                    ended(Signal::BlockDeviceWait, subject, since_ns);
                }
            }
            Kind::StatedumpBlockDevice { dev, name } if self.disks.len() < MAX_PLACES => {
                self.disks.insert(*dev, String::from_utf8_lossy(name).into_owned());
            }
            Kind::NetDevQueue(packet) => {
                open(&mut self.sent, packet.skb, (now_ns, interface(packet)));
            }
            // The first of the two ends the wait.
            Kind::NetDevStartXmit(packet) | Kind::NetDevXmit { packet, .. } => {
                if let Some((since_ns, name)) = self.sent.remove(&packet.skb) {
                    ended(Signal::NetTxWait, Subject::Interface(&name), since_ns);
                    add(&mut self.tx, name, now_ns.saturating_sub(since_ns));
                }
            }
            Kind::NetifReceiveSkb(packet) if is_receiving(cpus, event.cpu) => {
                self.received.insert(event.cpu, (now_ns, interface(packet)));
            }
            Kind::SchedWaking(_) if is_receiving(cpus, event.cpu) => {
                if let Some((since_ns, name)) = self.received.remove(&event.cpu) {
                    ended(Signal::NetRxWait, Subject::Interface(&name), since_ns);
                    add(&mut self.rx, name, now_ns.saturating_sub(since_ns));
                }
            }
            Kind::SoftirqExit { vec: NET_RX } => {
                self.received.remove(&event.cpu);
            }
            _ => {}
        }
    }

    /// Forgets what was counted.
    pub fn begin(&mut self) {
        self.queue.clear();
        self.device.clear();
        self.tx.clear();
        self.rx.clear();
    }

    fn devices(&self, spreads: &BTreeMap<u32, Spread>) -> Vec<Device> {
        let document = |(dev, whole): (&u32, &Spread)| {
            let name = device(&self.disks, *dev).to_string();
            Device { dev: *dev, name, whole: *whole }
        };
        spreads.iter().map(document).collect()
    }

    /// From the queue to the device.
    pub fn block_queue(&self) -> Vec<Device> {
        self.devices(&self.queue)
    }

    /// On the device.
    pub fn block_device(&self) -> Vec<Device> {
        self.devices(&self.device)
    }

    /// From the interface's queue to its driver.
    pub fn net_tx(&self) -> Vec<Interface> {
        interfaces(&self.tx)
    }

    /// From the network stack to the receiver's wake-up.
    pub fn net_rx(&self) -> Vec<Interface> {
        interfaces(&self.rx)
    }
}

fn device(disks: &BTreeMap<u32, String>, dev: u32) -> Subject<'_> {
    Subject::Device(dev, disks.get(&dev).map(String::as_str))
}

/// Whether a CPU runs the softirq that receives packets, and no interrupt in it.
fn is_receiving(cpus: &Cpus, cpu: u32) -> bool {
    cpus.known(cpu).is_some_and(|cpu| cpu.nesting.in_softirq(NET_RX) && !cpu.nesting.in_hardirq())
}

fn interfaces(spreads: &BTreeMap<String, Spread>) -> Vec<Interface> {
    let interface =
        |(name, whole): (&String, &Spread)| Interface { interface: name.clone(), whole: *whole };
    spreads.iter().map(interface).collect()
}

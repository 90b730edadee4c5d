//! Waits of block requests.
//!
//! A recording has no ids of requests: device, first sector and size identify one. A part that is done
//! moves a request's first sector on, a bio merged in front moves it back. Of requests with the same three
//! the latest is taken: their number and sum do not depend on that.

use std::collections::BTreeMap;

use super::ahead::{Ahead, Done, Stage as AheadStage};
use super::document::Device;
use super::sums::Spread;
use super::watch::{Delay, Signal, Subject, Watch};
use crate::event::{Event, Kind, Request};

/// Requests that are on their way at a time; further ones are not measured.
const MAX_OPEN: usize = 1 << 18;
/// Requests with the same device, sector and size: of more than that, the ends of the older ones were lost.
const MAX_ALIKE: usize = 64;
/// Devices that are kept apart.
const MAX_DEVICES: usize = 65_536;

/// The bit of a write among LTTng's of what a request does.
const WRITE: u32 = 1;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Open {
    since_ns: u64,
    sectors: u32,
    /// The driver gave it back, and it may be inserted once more.
    is_back: bool,
    /// Who asked for it: who queued it, where that was seen.
    tid: i32,
    /// Of one that was issued: since when it had been queued, where that was seen.
    queued_ns: Option<u64>,
}

/// Requests at one stage of their way.
#[derive(Debug, Default)]
struct Stage {
    /// By device, first sector, and order of coming.
    open: BTreeMap<(u32, u64, u64), Open>,
    came: u64,
}

/// A request without a place, as a flush, is shown at sector 0, and of some steps at the last there is.
fn place(request: &Request<'_>) -> (u32, u64) {
    let sector = if request.sector == u64::MAX { 0 } else { request.sector };
    (request.dev, sector)
}

impl Stage {
    fn put(&mut self, (dev, sector): (u32, u64), open: Open) {
        if self.open.len() >= MAX_OPEN {
            return;
        }
        let alike = self.open.range((dev, sector, 0)..=(dev, sector, u64::MAX));
        let oldest = alike.clone().next().map(|(key, _)| *key);
        if let Some(oldest) = oldest.filter(|_| alike.count() >= MAX_ALIKE) {
            self.open.remove(&oldest);
        }
        self.came += 1;
        self.open.insert((dev, sector, self.came), open);
    }

    /// Takes the latest request at a place that fits, of those of a size where there is one.
    fn take(
        &mut self,
        (dev, sector): (u32, u64),
        sectors: u32,
        fits: impl Fn(&Open) -> bool,
    ) -> Option<Open> {
        // A request without sectors is no other one at the first of them.
        let fits = |open: &Open| (open.sectors == 0) == (sectors == 0) && fits(open);
        let alike = || {
            let alike = self.open.range((dev, sector, 0)..=(dev, sector, u64::MAX)).rev();
            alike.filter(|(_, open)| fits(open))
        };
        let found = alike().find(|(_, open)| open.sectors == sectors).or_else(|| alike().next());
        let key = *found?.0;
        self.open.remove(&key)
    }

    /// Takes the request that lies behind the begin of another one, and no further than its end.
    fn take_within(&mut self, (dev, sector): (u32, u64), sectors: u32) -> Option<Open> {
        if sectors == 0 {
            return None;
        }
        let end = sector.saturating_add(sectors.into());
        let (key, _) = self
            .open
            .range((dev, sector.saturating_add(1), 0)..(dev, end, 0))
            .find(|((_, begin, _), open)| begin.saturating_add(open.sectors.into()) <= end)?;
        let key = *key;
        self.open.remove(&key)
    }
}

/// Waits of requests.
#[derive(Debug, Default)]
pub struct Requests {
    queued: Stage,
    issued: Stage,
    queue: BTreeMap<u32, Spread>,
    device: BTreeMap<u32, Spread>,
    disks: BTreeMap<u32, String>,
    /// Where it is wanted who was ahead of whom.
    ahead: Option<Box<Ahead>>,
}

fn add(map: &mut BTreeMap<u32, Spread>, dev: u32, ns: u64) {
    if map.len() < MAX_DEVICES || map.contains_key(&dev) {
        map.entry(dev).or_default().add(ns);
    }
}

impl Requests {
    /// Takes the next event.
    pub fn follow(&mut self, event: &Event<'_>, watch: &mut impl Watch) {
        let now_ns = event.time_ns;
        let mut ended = |signal: Signal, subject: Subject<'_>, from_ns: u64| {
            let (cpu, to_ns) = (event.cpu, now_ns);
            watch.delayed(&Delay { signal, subject, cpu, from_ns, to_ns, net_ns: None });
        };
        match &event.kind {
            Kind::BlockRqInsert(request) => {
                let (place, sectors) = (place(request), request.sectors);
                // One that was given back waits since then.
                let back = self.queued.take(place, sectors, |open| open.is_back);
                let (since_ns, tid) =
                    back.map_or((now_ns, request.tid), |open| (open.since_ns, open.tid));
                let (is_back, queued_ns) = (false, None);
                self.queued.put(place, Open { since_ns, sectors, is_back, tid, queued_ns });
                if let Some(ahead) = &mut self.ahead {
                    ahead.named(request.tid, request.comm);
                }
            }
            Kind::BlockRqIssue(request) => {
                let (place, sectors) = (place(request), request.sectors);
                let queued = self.queued.take(place, sectors, |_| true);
                let queued = queued.or_else(|| self.queued.take_within(place, sectors));
                if let Some(open) = queued {
                    add(&mut self.queue, request.dev, now_ns.saturating_sub(open.since_ns));
                    let subject = device(&self.disks, request.dev);
                    ended(Signal::BlockQueueWait, subject, open.since_ns);
                }
                let tid = queued.map_or(request.tid, |open| open.tid);
                let (is_back, queued_ns) = (false, queued.map(|open| open.since_ns));
                self.issued.put(place, Open { since_ns: now_ns, sectors, is_back, tid, queued_ns });
                if let Some(ahead) = &mut self.ahead {
                    if queued.is_none() {
                        ahead.named(request.tid, request.comm);
                    }
                    ahead.served(request.dev, AheadStage::Queue, tid, sectors, now_ns);
                }
            }
            Kind::BlockRqRequeue(request) => {
                let (place, sectors) = (place(request), request.sectors);
                let issued = self.issued.take(place, sectors, |_| true);
                let tid = issued.map_or(request.tid, |open| open.tid);
                let (is_back, queued_ns) = (true, None);
                self.queued.put(place, Open { since_ns: now_ns, sectors, is_back, tid, queued_ns });
            }
            Kind::BlockRqMerge(request) => {
                self.queued.take(place(request), request.sectors, |_| true);
            }
            Kind::BlockRqComplete(request) => {
                let (place, done) = (place(request), request.sectors);
                // What ends without sectors and is no flush has asked for one, and was not issued itself.
                if done == 0 && request.rwbs & WRITE != 0 {
                    return;
                }
                let Some(open) = self.issued.take(place, done, |_| true) else { return };
                if open.sectors > done {
                    let (dev, sector) = place;
                    let rest = Open { sectors: open.sectors - done, ..open };
                    self.issued.put((dev, sector.saturating_add(done.into())), rest);
                    return;
                }
                add(&mut self.device, request.dev, now_ns.saturating_sub(open.since_ns));
                let subject = device(&self.disks, request.dev);
                ended(Signal::BlockDeviceWait, subject, open.since_ns);
                if let Some(ahead) = &mut self.ahead {
                    // What the request needed itself is its own share of the wait.
                    ahead.served(request.dev, AheadStage::Device, open.tid, done, now_ns);
                    let (dev, queued_ns, issued_ns) = (request.dev, open.queued_ns, open.since_ns);
                    ahead.ended(event.cpu, Done { dev, queued_ns, issued_ns, done_ns: now_ns });
                }
            }
            Kind::StatedumpBlockDevice { dev, name } if self.disks.len() < MAX_DEVICES => {
                self.disks.insert(*dev, String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
    }

    /// From now on it is noted who was ahead of whom.
    pub fn note_ahead(&mut self) {
        self.ahead.get_or_insert_default();
    }

    /// Who was ahead, where that is noted.
    pub fn ahead(&self) -> Option<&Ahead> {
        self.ahead.as_deref()
    }

    /// Forgets what was counted.
    pub fn begin(&mut self) {
        self.queue.clear();
        self.device.clear();
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
}

fn device(disks: &BTreeMap<u32, String>, dev: u32) -> Subject<'_> {
    Subject::Device(dev, disks.get(&dev).map(String::as_str))
}

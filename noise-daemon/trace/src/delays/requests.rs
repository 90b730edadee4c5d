//! Waits of block requests.
//!
//! A recording has no ids of requests: device, operation, first sector and size identify one. A part that is done
//! moves a request's first sector on, a bio merged in front moves it back. Of requests with the same four
//! the latest is taken: their number and sum do not depend on that.
//!
//! Where events are lost, the end of any request that is under way may be among them, and the next one at its place
//! may be another's: those requests are not measured, nor are those that begin meanwhile. Nor are requests without a disk, as live.

use std::collections::BTreeMap;

use noise_common::signals::Signal;

use super::ahead::{Ahead, Done, RequestStage as AheadStage};
use super::cpu::Cpus;
use super::document::Device;
use super::name_of;
use super::sums::Spread;
use super::watch::{Delay, DelaySubject, Watch};
use crate::event::{Event, Request, TraceKind};
use crate::rwbs::{DISCARD, FLUSH, PREFLUSH, READ, WRITE, other_operation};

/// Requests that are on their way at a time; further ones are not measured.
const MAX_OPEN: usize = 1 << 18;
/// Requests with the same device, sector and size: of more than that, the ends of the older ones were lost.
const MAX_ALIKE: usize = 64;
/// Requests behind the begin of one that are looked at: it was put together of the first of them.
const MAX_WITHIN: usize = 256;
/// Devices that are kept apart.
const MAX_DEVICES: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    Discard,
    /// It has no sectors.
    Flush,
    /// A flush before Linux 4.8, which is a write, too. Later it is the end of the request that asked for a flush and
    /// was not issued itself, so that it ends none of the former.
    FlushingWrite,
    /// Something else, with the bits that say what; 0 where the event does not say.
    Other(u32),
}

impl Operation {
    fn of(request: &Request<'_>) -> Self {
        let is = |flag: u32| request.rwbs & flag != 0;
        let other = other_operation(request.rwbs);
        if request.sectors == 0 && is(FLUSH | PREFLUSH) {
            if is(WRITE) { Self::FlushingWrite } else { Self::Flush }
        } else if other != 0 {
            Self::Other(other)
        } else if is(DISCARD) {
            Self::Discard
        } else if is(WRITE) {
            Self::Write
        } else if is(READ) {
            Self::Read
        } else {
            Self::Other(other)
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct InFlightRequest {
    since_ns: u64,
    sectors: u32,
    operation: Operation,
    /// The driver gave it back, and it may be inserted once more.
    is_back: bool,
    /// Who asked for it: who queued it, where that was seen.
    tid: Option<i32>,
    /// Of one that was issued: since when it had been queued, where that was seen.
    queued_ns: Option<u64>,
}

/// Requests at one stage of their way.
#[derive(Debug, Default)]
struct InFlightRequests {
    /// By device, first sector, and order of coming.
    open: BTreeMap<(u32, u64, u64), InFlightRequest>,
    came: u64,
}

/// A request without a place, as a flush, is shown at sector 0, and of some steps at the last there is.
fn place(request: &Request<'_>) -> (u32, u64) {
    let sector = if request.sector == u64::MAX { 0 } else { request.sector };
    (request.dev, sector)
}

fn parts(request: &Request<'_>) -> ((u32, u64), u32, Operation) {
    (place(request), request.sectors, Operation::of(request))
}

impl InFlightRequests {
    fn put(&mut self, (dev, sector): (u32, u64), open: InFlightRequest) {
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
        (sectors, operation): (u32, Operation),
        fits: impl Fn(&InFlightRequest) -> bool,
    ) -> Option<InFlightRequest> {
        // A request without sectors is no other one at the first of them.
        let fits = |open: &InFlightRequest| {
            (open.sectors == 0) == (sectors == 0) && open.operation == operation && fits(open)
        };
        let alike = || {
            let alike = self.open.range((dev, sector, 0)..=(dev, sector, u64::MAX)).rev();
            alike.filter(|(_, open)| fits(open))
        };
        let found = alike().find(|(_, open)| open.sectors == sectors).or_else(|| alike().next());
        let key = *found?.0;
        self.open.remove(&key)
    }

    /// Takes the request that lies behind the begin of another one, and no further than its end.
    fn take_within(
        &mut self,
        (dev, sector): (u32, u64),
        (sectors, operation): (u32, Operation),
    ) -> Option<InFlightRequest> {
        if sectors == 0 {
            return None;
        }
        let end = sector.saturating_add(sectors.into());
        let behind = self.open.range((dev, sector.saturating_add(1), 0)..(dev, end, 0));
        let (key, _) = behind.take(MAX_WITHIN).find(|((_, begin, _), open)| {
            begin.saturating_add(open.sectors.into()) <= end && open.operation == operation
        })?;
        let key = *key;
        self.open.remove(&key)
    }
}

#[derive(Debug, Default)]
pub struct RequestDelays {
    queued: InFlightRequests,
    issued: InFlightRequests,
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

impl RequestDelays {
    pub fn follow(&mut self, event: &Event<'_>, cpus: &Cpus, watch: &mut impl Watch) {
        let now_ns = event.time_ns;
        // ftrace and perf leave out which thread it is: the one that runs.
        let asker = |request: &Request<'_>| match request.tid {
            0 => cpus.known(event.cpu)?.runs.current(),
            tid => Some(tid),
        };
        let mut ended = |signal: Signal, subject: DelaySubject<'_>, from_ns: u64| {
            let (cpu, to_ns) = (event.cpu, now_ns);
            watch.delayed(&Delay { signal, subject, cpu, from_ns, to_ns, net_ns: None });
        };
        match &event.kind {
            TraceKind::BlockRqInsert(request)
            | TraceKind::BlockRqIssue(request)
            | TraceKind::BlockRqRequeue(request)
            | TraceKind::BlockRqMerge(request)
            | TraceKind::BlockRqComplete(request)
                if !has_disk(request) => {}
            TraceKind::BlockRqInsert(request) => {
                let (place, sectors, operation) = parts(request);
                // One that was given back waits since then.
                let back = self.queued.take(place, (sectors, operation), |open| open.is_back);
                let asker = asker(request);
                let (since_ns, tid) =
                    back.map_or((now_ns, asker), |open| (open.since_ns, open.tid));
                let (is_back, queued_ns) = (false, None);
                let open =
                    InFlightRequest { since_ns, sectors, operation, is_back, tid, queued_ns };
                self.queued.put(place, open);
                if let Some(ahead) = &mut self.ahead {
                    ahead.named(asker, request.comm);
                }
            }
            TraceKind::BlockRqIssue(request) => {
                let (place, sectors, operation) = parts(request);
                let queued = self.queued.take(place, (sectors, operation), |_| true);
                let within = || self.queued.take_within(place, (sectors, operation));
                let queued = queued.or_else(within);
                if let Some(open) = queued {
                    add(&mut self.queue, request.dev, now_ns.saturating_sub(open.since_ns));
                    let subject = device(&self.disks, request.dev);
                    ended(Signal::BlockQueueWait, subject, open.since_ns);
                }
                let asked = queued.and_then(|open| open.tid);
                let tid = asked.or_else(|| asker(request));
                let (is_back, queued_ns) = (false, queued.map(|open| open.since_ns));
                let since_ns = now_ns;
                let open =
                    InFlightRequest { since_ns, sectors, operation, is_back, tid, queued_ns };
                self.issued.put(place, open);
                if let Some(ahead) = &mut self.ahead {
                    if asked.is_none() {
                        ahead.named(tid, request.comm);
                    }
                    ahead.served(request.dev, AheadStage::Queue, tid, sectors, now_ns);
                }
            }
            TraceKind::BlockRqRequeue(request) => {
                let (place, sectors, operation) = parts(request);
                let issued = self.issued.take(place, (sectors, operation), |_| true);
                let tid = issued.map_or_else(|| asker(request), |open| open.tid);
                let (is_back, queued_ns) = (true, None);
                let since_ns = now_ns;
                let open =
                    InFlightRequest { since_ns, sectors, operation, is_back, tid, queued_ns };
                self.queued.put(place, open);
            }
            TraceKind::BlockRqMerge(request) => {
                let (place, sectors, operation) = parts(request);
                self.queued.take(place, (sectors, operation), |_| true);
            }
            TraceKind::BlockRqComplete(request) => {
                let (place, done, operation) = parts(request);
                // What ends without sectors and is no flush has asked for one, and was not issued itself.
                if done == 0 && operation == Operation::Write {
                    return;
                }
                let Some(open) = self.issued.take(place, (done, operation), |_| true) else {
                    return;
                };
                if open.sectors > done {
                    let (dev, sector) = place;
                    let rest = InFlightRequest { sectors: open.sectors - done, ..open };
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
            TraceKind::Lost(_) => self.lose(),
            TraceKind::StatedumpBlockDevice { dev, name } if self.disks.len() < MAX_DEVICES => {
                self.disks.insert(*dev, name_of(name).into_owned());
            }
            _ => {}
        }
    }

    /// Events are missing: what is under way may have ended.
    pub fn lose(&mut self) {
        self.queued.open.clear();
        self.issued.open.clear();
    }

    /// From now on it is noted who was ahead of whom.
    pub fn note_ahead(&mut self) {
        self.ahead.get_or_insert_default();
    }

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

    pub fn block_device(&self) -> Vec<Device> {
        self.devices(&self.device)
    }
}

/// A request of a disk, whose number is never that of another device.
const fn has_disk(request: &Request<'_>) -> bool {
    request.dev >> 20 != 0
}

fn device(disks: &BTreeMap<u32, String>, dev: u32) -> DelaySubject<'_> {
    DelaySubject::Device(dev, disks.get(&dev).map(String::as_str))
}

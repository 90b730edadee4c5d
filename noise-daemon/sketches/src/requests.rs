//! Requests as they go from service to service: which service asks which, how long each takes to come to a request, and what
//! of a request's time is whose.
//!
//! A *service* is a process with what requests come to it by. The time of a request falls into parts. A slice's own time is
//! that without the slices that it waits for. A slice that sends a request has none that is work: up to the begin of the
//! slice that the request leads to, that one had not come to it yet (packets, waking, waiting for a CPU, other requests
//! before it); behind its end, the asking thread had not come to the answer. Where the other side is in no recording, all of
//! it is spent there.

use core::fmt;
use core::net::SocketAddr;
use std::collections::{BTreeMap, HashMap, HashSet};

use noise_trace::event::Comm;
use serde::{Serialize, Serializer};

use crate::marker::{Marker, MarkerRule};
use crate::served::{PortWork, PortWorkEnd};
use crate::slices::{Edge, Ended, Key, NONE, Slice, SliceId};
use crate::system::System;
use crate::tiers::{Tier, is_life, percentile, tier};

/// How far causes are gone back.
const MAX_CHAIN: usize = 256;
/// Slices of one request that are looked at.
const MAX_SLICES: usize = 1 << 14;

/// By what requests come to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entrance {
    /// A port that it receives on.
    Port(u16),
    Marker(Marker),
    /// None: it only asks.
    None,
    /// It is in no recording; this is its address.
    Address(SocketAddr),
}

/// Who works on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Service {
    /// Its process; empty where that is in no recording.
    pub process: Comm,
    pub entrance: Entrance,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, entrance } = self;
        match entrance {
            Entrance::Port(port) => write!(f, "{process} :{port}"),
            // Each kind of sockets has a row of its own.
            Entrance::Marker(Marker::Send(family)) => {
                write!(f, "not recorded ({})", family.name())
            }
            Entrance::Marker(marker) => write!(f, "{process} {}", marker.name()),
            Entrance::None => write!(f, "{process}"),
            Entrance::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a part of a request's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The service works on it, or waits for something else than another service.
    Own,
    /// It was sent, and the service has not come to it.
    Reach,
    /// The answer was sent, and the service that asked has not come to it.
    Back,
    /// It is somewhere that is in no recording.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestPart {
    pub slice: SliceId,
    pub kind: PartKind,
    /// Whose time it is.
    pub service: Service,
    /// Its thread, by its place.
    #[serde(skip)]
    pub thread: u32,
    /// From then on, nanoseconds since the epoch.
    pub from_ns: u64,
    pub to_ns: u64,
}

impl RequestPart {
    pub const fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Requests of one service to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestLink {
    /// Who asks; `null` where that is in no recording, and where links of all who ask are one.
    pub caller: Option<Service>,
    pub service: Service,
    /// Half of the requests are come to in this time, nanoseconds.
    pub reach_p50_ns: u64,
    /// 99 % of them.
    pub reach_p99_ns: u64,
    /// Their slices. Of a service that is in no recording these are the asking ones.
    #[serde(flatten)]
    pub tier: Tier,
}

/// Calls to a port, made by threads that had requests to work on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnassignedCalls {
    /// What is behind the port.
    pub service: Service,
    /// `None` of what is no port.
    pub port: Option<u16>,
    pub calls: u64,
    /// Of them, those that nothing says of for which request they were made.
    pub unassigned: u64,
}

/// Slices with those that they caused and waited for.
#[derive(Debug)]
pub struct Requests<'s> {
    system: &'s System,
    /// Those that each caused, in the order of time; no connection as a whole.
    below: HashMap<SliceId, Vec<SliceId>>,
    waits: HashMap<SliceId, Vec<SliceId>>,
    /// When what began a slice was sent.
    sent_ns: HashMap<SliceId, u64>,
}

const fn sends(slice: &Slice) -> bool {
    matches!(slice.marker, Marker::Send(_))
}

/// What of a time is in none of others, which may overlap, as stretches in the order of time.
fn gaps((from_ns, to_ns): (u64, u64), mut others: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    others.sort_unstable();
    let (mut free, mut at) = (Vec::new(), from_ns);
    for (from, to) in others {
        if from.min(to_ns) > at {
            free.push((at, from.min(to_ns)));
        }
        at = at.max(to);
    }
    if to_ns > at {
        free.push((at, to_ns));
    }
    free
}

impl<'s> Requests<'s> {
    pub fn new(system: &'s System) -> Self {
        let mut below: HashMap<SliceId, Vec<SliceId>> = HashMap::new();
        for (id, slice) in (0..).zip(&system.slices) {
            if slice.cause != NONE && !is_life(slice.marker) {
                below.entry(slice.cause).or_default().push(id);
            }
        }
        for ids in below.values_mut() {
            ids.sort_by_key(|id| (system.slice(*id).map(|slice| slice.from_ns), *id));
        }
        let mut waits: HashMap<SliceId, Vec<SliceId>> = HashMap::new();
        for (id, dependent) in system.waits(&system.edges) {
            waits.entry(id).or_default().push(dependent);
        }
        let is_cause = |slice: SliceId, cause: SliceId| {
            system.slice(slice).is_some_and(|slice| slice.cause == cause)
        };
        let opening = system.edges.iter().filter(|edge| {
            edge.opens && edge.rule != MarkerRule::Thread && is_cause(edge.to, edge.from)
        });
        // A call that sends may end after its bytes were received.
        let sent = |edge: &Edge| match system.slice(edge.from).filter(|slice| sends(slice)) {
            Some(asks) => asks.from_ns,
            None => edge.sent_ns,
        };
        let sent_ns = opening.map(|edge| (edge.to, sent(edge))).collect();
        Self { system, below, waits, sent_ns }
    }

    /// The service that a slice is of: of one that sends, who asks.
    pub fn service(&self, id: SliceId) -> Option<Service> {
        let mut slice = self.system.slice(id)?;
        let process = self.system.thread(slice)?.process;
        for _ in 0..MAX_CHAIN {
            if !sends(slice) {
                break;
            }
            match self.system.slice(slice.cause).filter(|cause| cause.thread == slice.thread) {
                Some(cause) => slice = cause,
                None => return Some(Service { process, entrance: Entrance::None }),
            }
        }
        let port = match (slice.marker, self.system.key(slice)) {
            (Marker::Receive(_), Key::End(end)) => end.local.map(|local| local.port()),
            _ => None,
        };
        let entrance = port.map_or(Entrance::Marker(slice.marker), Entrance::Port);
        Some(Service { process, entrance })
    }

    /// The service in no recording that a slice asks.
    fn away(&self, slice: &Slice) -> Service {
        let remote = match self.system.key(slice) {
            Key::End(end) => end.remote,
            _ => None,
        };
        let entrance = remote.map_or(Entrance::Marker(slice.marker), Entrance::Address);
        Service { process: Comm::default(), entrance }
    }

    /// How long a service had not come to what began a slice, nanoseconds; `None` where no recording has who sent it.
    pub fn reach_ns(&self, id: SliceId) -> Option<u64> {
        let slice = self.system.slice(id)?;
        Some(slice.from_ns.saturating_sub(*self.sent_ns.get(&id)?))
    }

    /// The slices of the requests on a port that were answered, in the order of their ends: of those that one thread read and
    /// answered.
    pub fn served(&self, port: u16, works: &[PortWork]) -> Vec<SliceId> {
        let arrived = |slice: &Slice| {
            matches!(slice.marker, Marker::Receive(_))
                && slice.ended == Ended::Explicit
                && self.system.key(slice).ports()[0] == Some(port)
        };
        let of = |(id, slice): (SliceId, &Slice)| {
            let thread = self.system.thread(slice)?;
            Some(((thread.machine, thread.tid, slice.from_ns, slice.to_ns), id))
        };
        let all = (0..).zip(&self.system.slices).filter(|(_, slice)| arrived(slice));
        let slices: HashMap<_, SliceId> = all.filter_map(of).collect();
        let is_whole = |work: &&PortWork| work.end == PortWorkEnd::Whole && work.port == port;
        let slice = |work: &PortWork| {
            let by_one = (work.machine, work.read_by, work.read_ns, work.to_ns);
            slices.get(&by_one).copied().filter(|_| work.read_by == work.tid)
        };
        works.iter().filter(is_whole).filter_map(slice).collect()
    }

    /// A request and all that it caused, without connections as wholes.
    pub fn all_below(&self, root: SliceId) -> Vec<SliceId> {
        let (mut found, mut left) = (Vec::new(), vec![root]);
        while let Some(id) = left.pop() {
            // More than that: causes in a circle, or a whole recording below one slice.
            if found.len() >= MAX_SLICES {
                break;
            }
            found.push(id);
            left.extend(self.below.get(&id).into_iter().flatten().rev());
        }
        found
    }

    /// The parts of a request's time, whose services are known.
    pub fn parts(&self, root: SliceId) -> Vec<RequestPart> {
        let mut parts = Vec::new();
        if let (Some(slice), Some(sent_ns)) = (self.system.slice(root), self.sent_ns.get(&root)) {
            self.part(&mut parts, root, PartKind::Reach, (*sent_ns, slice.from_ns));
        }
        for id in self.all_below(root) {
            let Some(slice) = self.system.slice(id) else { continue };
            let whole = (slice.from_ns, slice.to_ns);
            let times = |ids: Option<&Vec<SliceId>>| -> Vec<(SliceId, (u64, u64))> {
                let ids = ids.into_iter().flatten();
                let time = |id: &SliceId| {
                    self.system.slice(*id).map(|slice| (*id, (slice.from_ns, slice.to_ns)))
                };
                ids.filter_map(time).collect()
            };
            if !sends(slice) {
                let waits = times(self.waits.get(&id)).into_iter().map(|(_, time)| time);
                for gap in gaps(whole, waits.collect()) {
                    self.part(&mut parts, id, PartKind::Own, gap);
                }
                continue;
            }
            let below = times(self.below.get(&id));
            if below.is_empty() {
                let service = self.away(slice);
                let (from_ns, to_ns) = whole;
                let (kind, thread) = (PartKind::Away, slice.thread);
                parts.push(RequestPart { slice: id, kind, service, thread, from_ns, to_ns });
                continue;
            }
            for gap in gaps(whole, below.iter().map(|(_, time)| *time).collect()) {
                match below.iter().find(|(_, (from_ns, _))| *from_ns == gap.1) {
                    Some((reached, _)) => self.part(&mut parts, *reached, PartKind::Reach, gap),
                    None => self.part(&mut parts, id, PartKind::Back, gap),
                }
            }
        }
        parts
    }

    fn part(
        &self,
        parts: &mut Vec<RequestPart>,
        id: SliceId,
        kind: PartKind,
        (from_ns, to_ns): (u64, u64),
    ) {
        if let (Some(slice), Some(service)) = (self.system.slice(id), self.service(id))
            && from_ns < to_ns
        {
            let thread = slice.thread;
            parts.push(RequestPart { slice: id, kind, service, thread, from_ns, to_ns });
        }
    }

    /// Of the calls of those processes that some slices are of, how many are not known to be for one of their requests, by
    /// the port that is called, or else the service; those with most of them first.
    pub fn unassigned(&self, ids: impl IntoIterator<Item = SliceId>) -> Vec<UnassignedCalls> {
        let process = |slice: &Slice| {
            self.system.thread(slice).map(|thread| (thread.machine, thread.pid, thread.process))
        };
        let of = |id: SliceId| self.system.slice(id).and_then(process);
        let callers: HashSet<_> = ids.into_iter().filter_map(of).collect();
        let mut groups: BTreeMap<(Option<u16>, Option<Service>), UnassignedCalls> = BTreeMap::new();
        for (id, slice) in (0..).zip(&self.system.slices) {
            let is_call = self.system.is_call_of_server(slice);
            if !is_call || !process(slice).is_some_and(|process| callers.contains(&process)) {
                continue;
            }
            let below = self.below.get(&id).and_then(|below| below.first());
            let service = below.and_then(|below| self.service(*below));
            let service = service.unwrap_or_else(|| self.away(slice));
            let [_, port] = self.system.key(slice).ports();
            let key = (port, port.is_none().then_some(service));
            let new = || UnassignedCalls { service, port, calls: 0, unassigned: 0 };
            let group = groups.entry(key).or_insert_with(new);
            group.calls += 1;
            group.unassigned += u64::from(self.system.is_unassigned(slice));
        }
        let mut all: Vec<_> = groups.into_values().filter(|of| of.unassigned > 0).collect();
        all.sort_by_key(|of| std::cmp::Reverse(of.unassigned));
        all
    }

    /// Which service asks which, of some slices; the links of all who ask are one where they are not told apart. Those with
    /// most true latency come first.
    pub fn links(
        &self,
        ids: impl IntoIterator<Item = SliceId>,
        by_caller: bool,
    ) -> Vec<RequestLink> {
        let mut groups: BTreeMap<(Option<Service>, Service), Vec<SliceId>> = BTreeMap::new();
        for id in ids {
            let Some(slice) = self.system.slice(id).filter(|slice| !is_life(slice.marker)) else {
                continue;
            };
            let (caller, service) = match sends(slice) {
                // Who was asked has slices of its own.
                true if self.below.contains_key(&id) => continue,
                true if slice.ended != Ended::Explicit => continue,
                true => (self.service(id), Some(self.away(slice))),
                false => (self.service(slice.cause), self.service(id)),
            };
            if let Some(service) = service {
                groups.entry((caller.filter(|_| by_caller), service)).or_default().push(id);
            }
        }
        let link = |((caller, service), ids): ((Option<Service>, Service), Vec<SliceId>)| {
            let mut reaches: Vec<u64> = ids.iter().filter_map(|id| self.reach_ns(*id)).collect();
            reaches.sort_unstable();
            let first = ids.first().and_then(|id| self.system.slice(*id))?;
            let process = service.process;
            Some(RequestLink {
                caller,
                service,
                reach_p50_ns: percentile(&reaches, 50),
                reach_p99_ns: percentile(&reaches, 99),
                tier: tier(self.system, process, first.marker, &ids, self.system.span),
            })
        };
        let mut links: Vec<RequestLink> = groups.into_iter().filter_map(link).collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.tier.true_latency_sum_ns));
        links
    }
}

#[cfg(test)]
mod tests;

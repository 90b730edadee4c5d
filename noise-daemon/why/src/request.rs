//! What a stretch of events says of the requests on a port, as one document.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use noise_paths::build::{Builder, Waker};
use noise_paths::document::{PathsDocument, Traced, traced};
use noise_paths::execution::Execution;
use noise_paths::feed;
use noise_paths::graph::{Graph, Worker};
use noise_paths::walk::{Bounds, walk};
use noise_sketches::document::SketchesDocument as Sketch;
use noise_sketches::feed::CallReader;
use noise_sketches::follow::Follower;
use noise_sketches::marker::Marker;
use noise_sketches::requests::{
    PartKind, RequestLink, RequestPart, Requests, Service, UnassignedCalls,
};
use noise_sketches::served::{PortFollower, PortWork, PortWorkEnd, PortWorkKind};
use noise_sketches::slices::SliceId;
use noise_sketches::system::System;
use noise_sketches::tiers::percentile;
use noise_text::clean::{as_text, clean};
use noise_trace::event::TraceKind;
use noise_trace::reach::Reach;
use noise_trace::record::Source as _;
use noise_trace::threads::Threads;
use serde::Serialize;

use super::beside::Known;
use super::culprits::Blamed;
use super::culprits::culprits;
use super::findings::blame;
use super::stretch::EventStretch;

/// Requests whose time is divided: the last ones.
const MOST_REQUESTS: usize = 1000;
/// Parts of all of them together.
const MOST_PARTS: usize = 1 << 16;
/// A part is short, and so is what others did meanwhile.
const BOUNDS: Bounds = Bounds { depth: 64, points: 1 << 16 };

/// A stretch of events as slices and as a graph.
pub struct Heard {
    pub system: System,
    /// What came to the ports.
    works: Vec<PortWork>,
    /// Of these, more than can be held.
    beyond: u64,
    graph: Builder,
    threads: Threads,
    /// Events that were lost meanwhile.
    discarded: u64,
}

impl Heard {
    /// Goes over the events once, for requests on those ports.
    pub fn of(stretch: &EventStretch, ports: &[u16]) -> Self {
        let served = PortFollower::new(PortWorkKind::Requests, ports);
        let mut calls = CallReader::new((Follower::default(), served));
        let mut graph = Builder::new(Waker::Waking);
        let (mut threads, mut discarded) = (Threads::default(), 0_u64);
        let mut reader = stretch.reader();
        while let Some(record) = reader.read() {
            let event = record.event();
            if let TraceKind::Lost(loss) = &event.kind {
                discarded = discarded.saturating_add(loss.events.max(loss.packets));
            }
            threads.follow(&event);
            calls.follow(0, &record, &event);
            feed::follow(&mut graph, 0, &record, &event);
        }
        let (follower, served) = calls.into_sink();
        let (works, beyond) = served.finish();
        Self { system: follower.finish(), works, beyond, graph, threads, discarded }
    }

    /// What is said of the requests on a port that are not counted.
    fn uncounted(&self, port: u16, is_its: impl Fn(i32) -> bool) -> Vec<String> {
        let mut notes = uncounted(port, &self.works, is_its);
        if self.beyond > 0 {
            let beyond = self.beyond;
            notes.push(format!(
                "{beyond} requests or connections are more than can be held: they are not counted"
            ));
        }
        notes
    }

    /// Threads of a part's process.
    fn is_of(&self, pids: &BTreeSet<i32>, tid: i32) -> bool {
        self.threads.get(tid).is_some_and(|thread| pids.contains(&thread.pid))
    }
}

/// Of the requests on a port: what is said of those that are not counted.
fn uncounted(port: u16, works: &[PortWork], is_its: impl Fn(i32) -> bool) -> Vec<String> {
    let of = |which: &dyn Fn(&PortWork) -> bool| {
        let its = works.iter().filter(|work| work.port == port && is_its(work.read_by));
        its.filter(|work| which(work)).count()
    };
    let overlapping = of(&|work| work.end == PortWorkEnd::Overlapping);
    let handed_on = of(&|work| work.end == PortWorkEnd::Whole && work.read_by != work.tid);
    let rows = [
        (overlapping, "overlapped others on their connection (pipelined or multiplexed)"),
        (handed_on, "were answered by another thread than the one that read them"),
    ];
    let rows = rows.into_iter().filter(|(count, _)| *count > 0);
    rows.map(|(count, what)| {
        format!("{count} requests on port {port} {what}: they are not counted")
    })
    .collect()
}

/// Why there is nothing to show of these ports: of one at least.
pub fn nothing(ports: &[u16], heard: &Heard, seconds: f64) -> String {
    let system = &heard.system;
    let is_of = |slice: &&noise_sketches::slices::Slice| {
        matches!(slice.marker, Marker::Accept(_) | Marker::Receive(_))
            && system.key(slice).ports()[0].is_some_and(|port| ports.contains(&port))
    };
    let counts = &system.counts;
    let (lost, calls) = (heard.discarded, &counts.not_followed);
    let named: Vec<String> = ports.iter().map(u16::to_string).collect();
    let named = match named.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("ports {} and {last}", first.join(", ")),
        only => format!("port {}", only.concat()),
    };
    let mut sentence = match system.slices.iter().any(|slice| is_of(&slice)) {
        true => format!(
            "connections came to {named} in {seconds:.2} s, but no request was answered on one"
        ),
        false => format!("no request was answered on {named} in {seconds:.2} s"),
    };
    let longer = match ports {
        [first, ..] => format!(": send some, or watch longer with --request {first} --next 30s"),
        [] => String::new(),
    };
    sentence.push_str(&longer);
    if lost > 0 {
        sentence.push_str(&format!("; {lost} events were lost meanwhile"));
    }
    for port in ports {
        for note in heard.uncounted(*port, |_| true) {
            sentence.push_str(&format!("; {note}"));
        }
    }
    if calls.contains_key("io_uring_enter") {
        sentence.push_str("; a server that uses io_uring is not followed");
    }
    sentence
}

/// Whose requests are meant: of all who answer them, or of these processes.
pub type Whose<'p> = Option<&'p BTreeSet<i32>>;

/// What time was spent on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// The label of the cgroup that its processes are in, where it is one and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    #[serde(skip)]
    pub pids: BTreeSet<i32>,
    /// How long that was.
    pub spent_ns: u64,
    /// Of it, before the service had come to the request.
    pub reach_ns: u64,
    /// By what its threads did: states of critical paths; `busy` is that they ran before they came to the request, `task`
    /// also that another thread ran that they waited for.
    pub states_ns: BTreeMap<&'static str, u64>,
    /// For whom they waited, the longest first.
    pub culprits: Vec<Blamed>,
}

impl Spent {
    fn add(&mut self, part: &RequestPart, states: &BTreeMap<&'static str, u64>) {
        self.spent_ns = self.spent_ns.saturating_add(part.ns());
        if part.kind == PartKind::Reach {
            self.reach_ns = self.reach_ns.saturating_add(part.ns());
        }
        for (state, ns) in states {
            let sum = self.states_ns.entry(state).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }

    /// Time in a state.
    pub fn ns(&self, state: &str) -> u64 {
        self.states_ns.get(state).copied().unwrap_or(0)
    }
}

/// A service on the way of the requests.
#[derive(Clone, Debug, Serialize)]
pub struct Tier {
    /// Its slices, of all requests.
    #[serde(flatten)]
    pub link: RequestLink,
    /// Its share of the time of the requests whose time is divided.
    pub share: f64,
    /// Its time in these.
    #[serde(flatten)]
    pub spent: Spent,
}

/// The time of one service in one request.
#[derive(Clone, Debug, Serialize)]
pub struct Own {
    pub service: Service,
    #[serde(flatten)]
    pub spent: Spent,
}

#[derive(Debug, Serialize)]
pub struct Slowest<'s> {
    pub slice: SliceId,
    /// From when it was sent, or received where that is not known, until it was answered.
    pub latency_ns: u64,
    /// Where its time went, the service with most of it first.
    pub tiers: Vec<Own>,
    pub parts: Vec<RequestPart>,
    /// All that it caused.
    pub sketch: Sketch<'s>,
}

/// All that is said. Times are nanoseconds since 1970, as recordings have them.
#[derive(Debug, Serialize)]
pub struct RequestFindings<'s> {
    pub port: u16,
    pub source: &'static str,
    /// By how much times are ahead of CLOCK_MONOTONIC.
    pub clock_offset_ns: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    pub span_ns: u64,
    pub discarded: u64,
    pub notes: Vec<String>,
    /// Requests that were answered, and how many that is in a second.
    pub requests: u64,
    pub rate: f64,
    /// From when they were sent, or received where that is not known, until they were answered.
    pub latency_mean_ns: u64,
    pub latency_p50_ns: u64,
    pub latency_p99_ns: u64,
    pub latency_max_ns: u64,
    /// Calls that cannot be assigned to a request, by the port that is called: what they took is in no
    /// request's time but its caller's own.
    pub unassigned: Vec<UnassignedCalls>,
    /// Requests whose time is divided: the last ones.
    pub divided: u64,
    /// The services on their way, those with most of their time first.
    pub tiers: Vec<Tier>,
    pub slowest: Slowest<'s>,
}

/// Slices with their requests.
pub struct Looked<'h> {
    heard: &'h Heard,
    requests: Requests<'h>,
}

/// Parts of some requests, and what each was spent on.
struct Divided {
    parts: Vec<(SliceId, RequestPart)>,
    states: Vec<BTreeMap<&'static str, u64>>,
    /// Of each part that has one.
    paths: Vec<(usize, Traced)>,
}

impl<'h> Looked<'h> {
    pub fn at(heard: &'h Heard) -> Self {
        Self { heard, requests: Requests::new(&heard.system) }
    }

    /// How long a request took.
    fn latency_ns(&self, id: SliceId) -> u64 {
        let own_ns = self.heard.system.slice(id).map_or(0, |slice| slice.latency_ns());
        own_ns.saturating_add(self.requests.reach_ns(id).unwrap_or(0))
    }

    /// The requests that were answered on a port.
    pub fn answered(&self, port: u16, whose: Whose<'_>) -> Vec<SliceId> {
        let system = &self.heard.system;
        let is_its = |id: &SliceId| {
            let thread = system.slice(*id).and_then(|slice| system.thread(slice));
            whose.is_none_or(|pids| thread.is_some_and(|thread| pids.contains(&thread.pid)))
        };
        let mut ids = self.requests.served(port, &self.heard.works);
        ids.retain(is_its);
        ids
    }

    /// What is said of the requests on a port; `None` where there was none.
    pub fn find_out(
        &'h self,
        (port, whose): (u16, Whose<'_>),
        stretch: &EventStretch,
        known: &Known<'_>,
    ) -> Option<RequestFindings<'h>> {
        let ids = self.answered(port, whose);
        let slowest = ids.iter().copied().max_by_key(|id| (self.latency_ns(*id), *id))?;
        let mut latencies: Vec<u64> = ids.iter().map(|id| self.latency_ns(*id)).collect();
        latencies.sort_unstable();
        let mut looked_at: Vec<SliceId> = ids.iter().rev().take(MOST_REQUESTS).copied().collect();
        let last: HashSet<SliceId> = looked_at.iter().copied().collect();
        if !last.contains(&slowest) {
            looked_at.push(slowest);
        }
        let divided = self.divide(&looked_at, stretch);
        // Many requests have no more of the slowest than the rest of them had.
        let is_last = |id: SliceId| last.contains(&id);
        let spent = self.spent(&divided, is_last, known);
        let all_ns = spent.iter().fold(0_u64, |sum, (_, one)| sum.saturating_add(one.spent_ns));
        let below: HashSet<SliceId> =
            ids.iter().flat_map(|id| self.requests.all_below(*id)).collect();
        let unassigned = self.requests.unassigned(below.iter().copied());
        let mut links = self.requests.links(below, false);
        let tier = |(service, spent): (Service, Spent)| {
            let place = links.iter().position(|link| link.service == service)?;
            let share = spent.spent_ns as f64 / all_ns.max(1) as f64;
            Some(Tier { link: links.swap_remove(place), share, spent })
        };
        let tiers = spent.into_iter().filter_map(tier).collect();
        let span_ns = stretch.to_ns.saturating_sub(stretch.from_ns);
        let is_its = |tid| whose.is_none_or(|pids| self.heard.is_of(pids, tid));
        Some(RequestFindings {
            port,
            source: stretch.source,
            clock_offset_ns: stretch.offset_ns,
            from_ns: stretch.from_ns,
            to_ns: stretch.to_ns,
            span_ns,
            discarded: self.heard.discarded,
            notes: [stretch.notes.clone(), self.heard.uncounted(port, is_its)].concat(),
            requests: ids.len() as u64,
            rate: ids.len() as f64 * 1e9 / span_ns.max(1) as f64,
            latency_mean_ns: mean(&latencies),
            latency_p50_ns: percentile(&latencies, 50),
            latency_p99_ns: percentile(&latencies, 99),
            latency_max_ns: latencies.last().copied().unwrap_or(0),
            unassigned,
            divided: divided.requests(is_last),
            tiers,
            slowest: self.slowest(slowest, &divided, known),
        })
    }

    fn slowest(&'h self, slice: SliceId, divided: &Divided, known: &Known<'_>) -> Slowest<'h> {
        let own = self.spent(divided, |id| id == slice, known);
        let mut parts = self.requests.parts(slice);
        parts.sort_by_key(|part| (part.from_ns, part.to_ns));
        let mut shown = self.requests.all_below(slice);
        shown.sort_unstable();
        let system = &self.heard.system;
        let (tiers, discarded) = (Vec::new(), self.heard.discarded);
        Slowest {
            slice,
            latency_ns: self.latency_ns(slice),
            tiers: own.into_iter().map(|(service, spent)| Own { service, spent }).collect(),
            parts,
            sketch: Sketch {
                system,
                span: system.span,
                shown,
                tiers,
                has_condition: false,
                answer: None,
                nearest: None,
                discarded,
                reach: Reach::default(),
                unread_lines: None,
            },
        }
    }

    /// Divides the time of requests, of the first ones where all have too many parts.
    fn divide(&self, ids: &[SliceId], stretch: &EventStretch) -> Divided {
        let mut parts: Vec<(SliceId, RequestPart)> = Vec::new();
        // The slowest one comes last, and is looked at in any case.
        let (rest, last) = ids.split_at(ids.len().saturating_sub(1));
        for id in last.iter().chain(rest) {
            if parts.len() >= MOST_PARTS {
                break;
            }
            parts.extend(self.requests.parts(*id).into_iter().map(|part| (*id, part)));
        }
        let mut document = PathsDocument::default();
        let mut numbers: Vec<usize> = Vec::new();
        for (number, (_, part)) in parts.iter().enumerate() {
            if let Some(traced) = self.path(part) {
                document.executions.push(traced);
                numbers.push(number);
            }
        }
        blame(stretch, &mut document);
        let mut states: Vec<BTreeMap<&'static str, u64>> = vec![BTreeMap::new(); parts.len()];
        for (number, traced) in numbers.iter().zip(&document.executions) {
            let (Some((_, part)), Some(states)) = (parts.get(*number), states.get_mut(*number))
            else {
                continue;
            };
            let tid = self.tid(part);
            for segment in &traced.path {
                let state = match segment.state {
                    "running" if segment.tid != tid => "task",
                    "running" if part.kind == PartKind::Reach => "busy",
                    state => state,
                };
                let sum = states.entry(state).or_default();
                *sum = sum.saturating_add(segment.to_ns.saturating_sub(segment.from_ns));
            }
        }
        for ((_, part), states) in parts.iter().zip(&mut states) {
            let rest = part.ns().saturating_sub(states.values().sum());
            if rest > 0 {
                let state = if part.kind == PartKind::Away { "network" } else { "unknown" };
                let sum = states.entry(state).or_default();
                *sum = sum.saturating_add(rest);
            }
        }
        let paths = numbers.into_iter().zip(document.executions).collect();
        Divided { parts, states, paths }
    }

    fn tid(&self, part: &RequestPart) -> i32 {
        self.heard.system.threads.get(part.thread as usize).map_or(0, |thread| thread.tid)
    }

    /// What the thread of a part did in it, and in its sleeps those who woke it.
    fn path(&self, part: &RequestPart) -> Option<Traced> {
        if part.kind == PartKind::Away {
            return None;
        }
        let graph: &Graph = self.heard.graph.graph();
        let worker = self.heard.graph.thread(0, self.tid(part))?;
        let (from_ns, to_ns) = (part.from_ns, part.to_ns);
        let last_ns = graph.get(worker).and_then(Worker::span)?.1;
        let path = walk(graph, worker, from_ns, to_ns.min(last_ns), BOUNDS)?;
        let execution = Execution { worker, from_ns, to_ns, has_begin: true, has_end: true };
        Some(traced(graph, "", &execution, &path))
    }

    /// The time of each service in some of the requests that are divided; the one with most of it first.
    fn spent(
        &self,
        divided: &Divided,
        is_asked: impl Fn(SliceId) -> bool,
        known: &Known<'_>,
    ) -> Vec<(Service, Spent)> {
        let mut all: BTreeMap<Service, (Spent, Vec<&Traced>)> = BTreeMap::new();
        for ((request, part), states) in divided.parts.iter().zip(&divided.states) {
            if !is_asked(*request) {
                continue;
            }
            let (spent, _) = all.entry(part.service).or_default();
            spent.add(part, states);
            // What is spent in no recording is spent by no thread that is seen.
            let thread = self.heard.system.threads.get(part.thread as usize);
            if let Some(thread) = thread.filter(|_| part.kind != PartKind::Away) {
                spent.pids.insert(thread.pid);
            }
        }
        for (number, traced) in &divided.paths {
            if let Some((request, part)) = divided.parts.get(*number)
                && is_asked(*request)
                && let Some((_, paths)) = all.get_mut(&part.service)
            {
                paths.push(traced);
            }
        }
        let finish = |(service, (mut spent, paths)): (Service, (Spent, Vec<&Traced>))| {
            let is_own = |tid| self.heard.is_of(&spent.pids, tid);
            spent.culprits = culprits(paths, &is_own, &self.heard.threads, known);
            spent.cgroup = cgroup_of(&spent.pids, known);
            (service, spent)
        };
        let mut all: Vec<(Service, Spent)> = all.into_iter().map(finish).collect();
        all.sort_by_key(|(_, spent)| std::cmp::Reverse(spent.spent_ns));
        all
    }
}

/// The mean of latencies, ns.
fn mean(latencies: &[u64]) -> u64 {
    let sum = latencies.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    sum / latencies.len().max(1) as u64
}

/// The label of the only cgroup that processes are in.
fn cgroup_of(pids: &BTreeSet<i32>, known: &Known<'_>) -> Option<String> {
    let path = |pid: &i32| Some(PathBuf::from(as_text((known.cgroup)(*pid)?).into_owned()));
    let paths: BTreeSet<PathBuf> = pids.iter().map(path).collect::<Option<_>>()?;
    let only = paths.first().filter(|_| paths.len() == 1)?;
    Some(clean(&(known.label)(only)).into_owned())
}

impl Divided {
    /// How many of some requests are divided.
    fn requests(&self, is_asked: impl Fn(SliceId) -> bool) -> u64 {
        let requests: HashSet<SliceId> = self.parts.iter().map(|(request, _)| *request).collect();
        requests.into_iter().filter(|id| is_asked(*id)).count() as u64
    }
}

//! What calls on sockets say, where a recording has them with their ports: a server's requests and connections, and of
//! which port an event is.

use std::collections::HashMap;

use noise_sketches::feed::CallReader;
use noise_sketches::served::{PortFollower, PortWork, PortWorkEnd, PortWorkKind};
use noise_trace::event::Event;
use noise_trace::record::{Record, Stored};
use noise_trace::value::{Shape, Value, Visit};

use super::delimited::{Delimited, DelimiterTally, MAX_FOUND};
use super::{Execution, Wanted};
use crate::graph::{Graph, Who, WorkerId};
use crate::packets::headers::ends;

/// Kinds of objects that have ports, in our recordings.
const INTERNET: [u64; 2] = [1, 2];

/// Follows calls on sockets.
#[derive(Clone, Debug)]
pub struct SocketCalls {
    calls: CallReader<PortFollower>,
    /// Executions that are over, and of each request or connection that is, the place among them.
    over: Vec<Delimited>,
    seen: Vec<Option<usize>>,
}

impl SocketCalls {
    /// Where what is wanted needs them.
    pub fn of(wanted: &Wanted) -> Option<Self> {
        let follower = match wanted {
            Wanted::Request(port) => PortFollower::new(PortWorkKind::Requests, &[*port]),
            Wanted::Connection(port) => PortFollower::new(PortWorkKind::Connections, &[*port]),
            Wanted::Events(events) if events.0.has_ports() || events.1.has_ports() => {
                PortFollower::new(PortWorkKind::Requests, &[])
            }
            _ => return None,
        };
        let calls = CallReader::new(follower);
        Some(Self { calls, over: Vec::new(), seen: Vec::new() })
    }

    pub fn follow<'t>(&mut self, record: &Record<impl Stored<'t>>, event: &Event<'t>) {
        self.calls.follow(0, record, event);
    }

    /// The ports of a socket: of the one that an event is about, else of that of the call that its thread is in.
    pub fn ports<'t>(
        &self,
        record: &Record<impl Stored<'t>>,
        tid: Option<i32>,
    ) -> Option<[u16; 2]> {
        let mut fields = PortFields::default();
        record.visit(&mut fields);
        let headers = || ends(record).map(|ends| [ends.from_port, ends.to_port]);
        let call = || self.calls.ports(0, tid?);
        fields.ports().or_else(headers).or_else(call)
    }

    pub const fn has_ports(&self) -> bool {
        self.calls.sink().has_ports
    }

    /// Where a server did nothing at a port: why that may be.
    pub fn lacks(&self, port: u16) -> Option<String> {
        let calls = self.calls.sink();
        let io_uring = match calls.has_io_uring {
            true => "; what a server does with io_uring is not recorded",
            false => "",
        };
        (!calls.has_port)
            .then(|| format!("this recording has no connection of port {port}{io_uring}"))
    }

    /// Executions that are over, in the order in which that became known.
    pub fn over(&mut self, graph: &Graph, (from_ns, to_ns): (u64, u64)) -> &[Delimited] {
        let works = self.calls.sink().over();
        let new = works.get(self.seen.len()..).unwrap_or_default();
        let threads = if new.is_empty() { HashMap::new() } else { threads(graph) };
        for work in new {
            let is_whole = work.end == PortWorkEnd::Whole
                && work.from_ns < work.to_ns
                && (from_ns <= work.from_ns && work.to_ns <= to_ns)
                && self.over.len() < MAX_FOUND;
            let number = worker(&threads, work).filter(|_| is_whole).map(|worker| {
                let (number, execution) = (self.over.len(), execution(work, worker));
                self.over.push(Delimited { execution, number: Some(number), key: None });
                number
            });
            self.seen.push(number);
        }
        &self.over
    }

    /// Since when something is under way that is not over.
    pub fn needed_ns(&self) -> Option<u64> {
        self.calls.sink().needed_ns()
    }

    /// What a server did between two times, and what is no execution.
    pub fn finish(
        self,
        graph: &Graph,
        (from_ns, to_ns): (u64, u64),
    ) -> (Vec<Delimited>, DelimiterTally) {
        let Self { calls, over, seen } = self;
        let (works, beyond) = calls.into_sink().finish_unsorted();
        let mut works: Vec<_> = works.into_iter().enumerate().collect();
        works.sort_by_key(|(_, work)| work.order());
        let mut tally = DelimiterTally { beyond, ..DelimiterTally::default() };
        let threads = if works.is_empty() { HashMap::new() } else { threads(graph) };
        let mut found = Vec::new();
        for (place, work) in works {
            let number = seen.get(place).copied().flatten();
            let known = number.and_then(|number| over.get(number)).map(|of| of.execution.worker);
            if work.from_ns < from_ns || work.to_ns > to_ns {
                continue;
            }
            let count = match work.end {
                PortWorkEnd::Overlapping => &mut tally.overlapping,
                PortWorkEnd::Unfinished => &mut tally.unfinished,
                PortWorkEnd::Unbegun => &mut tally.unbegun,
                PortWorkEnd::Lost => &mut tally.lost,
                PortWorkEnd::Whole if work.from_ns >= work.to_ns => &mut tally.momentary,
                PortWorkEnd::Whole => match known.or_else(|| worker(&threads, &work)) {
                    None => &mut tally.strangers,
                    Some(_) if found.len() >= MAX_FOUND => &mut tally.beyond,
                    Some(worker) => {
                        let execution = execution(&work, worker);
                        found.push(Delimited { execution, number, key: None });
                        continue;
                    }
                },
            };
            *count += 1;
        }
        (found, tally)
    }
}

fn execution(work: &PortWork, worker: WorkerId) -> Execution {
    let PortWork { from_ns, to_ns, .. } = *work;
    Execution { worker, from_ns, to_ns, has_begin: true, has_end: true }
}

/// The threads of the first recording by their ids. Each has the time by which it, or a later one with its id, was there:
/// these times are in order, and an id may have come again a million times.
type ThreadsById = HashMap<i32, Vec<(u64, WorkerId)>>;

fn threads(graph: &Graph) -> ThreadsById {
    let threads = graph.workers().filter_map(|(id, worker)| match worker.who {
        Who::Thread { machine: 0, tid } => Some((tid, worker.created_ns, id)),
        _ => None,
    });
    by_id(threads)
}

/// By their ids, in the order in which they come. One of which it is not known when it was created was always there.
fn by_id(threads: impl Iterator<Item = (i32, Option<u64>, WorkerId)>) -> ThreadsById {
    let mut all = ThreadsById::new();
    for (tid, created_ns, id) in threads {
        all.entry(tid).or_default().push((created_ns.unwrap_or(0), id));
    }
    for of_id in all.values_mut() {
        let mut least_ns = u64::MAX;
        for (from_ns, _) in of_id.iter_mut().rev() {
            least_ns = least_ns.min(*from_ns);
            *from_ns = least_ns;
        }
    }
    all
}

/// The thread that ended it: the latest that had its id by then.
fn worker(threads: &ThreadsById, work: &PortWork) -> Option<WorkerId> {
    let all = threads.get(&work.tid)?;
    let later = all.partition_point(|(from_ns, _)| *from_ns <= work.to_ns);
    all.get(later.checked_sub(1)?).map(|(_, id)| *id)
}

#[derive(Clone, Copy, Debug)]
enum PortField {
    Kind,
    Both,
    Local,
    Remote,
}

/// Reads the ports that an event says itself.
#[derive(Debug, Default)]
struct PortFields {
    field: Option<PortField>,
    depth: u32,
    kind: u64,
    both: u64,
    local: u64,
    remote: u64,
}

impl PortFields {
    fn ports(&self) -> Option<[u16; 2]> {
        let both = if INTERNET.contains(&self.kind) { self.both } else { 0 };
        let ports = [self.local as u16 | (both >> 16) as u16, self.remote as u16 | both as u16];
        (ports != [0, 0]).then_some(ports)
    }
}

impl Visit for PortFields {
    fn name(&mut self, name: &str) {
        let of = match name.strip_prefix('_').unwrap_or(name) {
            "noised_object" => Some(PortField::Kind),
            "noised_peer" => Some(PortField::Both),
            "local_port" | "sport" => Some(PortField::Local),
            "remote_port" | "dport" => Some(PortField::Remote),
            _ => None,
        };
        self.field = of.filter(|_| self.depth == 0);
    }

    fn value(&mut self, value: Value<'_>) {
        let (Some(field), Some(number)) = (self.field.take(), value.bits()) else { return };
        match field {
            PortField::Kind => self.kind = number,
            PortField::Both => self.both = number,
            PortField::Local => self.local = number,
            PortField::Remote => self.remote = number,
        }
    }

    fn begin(&mut self, _: Shape) {
        self.depth += 1;
    }

    fn end(&mut self, _: Shape) {
        self.depth = self.depth.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(tid: i32, to_ns: u64) -> PortWork {
        let (end, read_by, read_ns) = (PortWorkEnd::Whole, tid, 0);
        PortWork { machine: 0, port: 80, end, from_ns: 0, to_ns, tid, read_by, read_ns }
    }

    #[test]
    fn the_thread_that_ended_it_is_the_latest_that_had_its_id() {
        let known = [Some(10), None, Some(30), Some(20), Some(50)];
        let numbered = (0..).map(WorkerId).zip(known);
        let threads = by_id(numbered.map(|(id, created_ns)| (7, created_ns, id)));
        for to_ns in 0..60 {
            let was_there = |of: &Option<u64>| of.is_none_or(|ns| ns <= to_ns);
            let expected = known.iter().rposition(was_there).map(|place| WorkerId(place as u32));
            assert_eq!(worker(&threads, &ended(7, to_ns)), expected, "{to_ns}");
        }
        assert_eq!(worker(&threads, &ended(8, 60)), None);
    }

    #[test]
    fn an_id_that_comes_again_and_again_takes_no_time_without_end() {
        const COUNT: u32 = 500_000;
        let created = (0..COUNT).map(|number| (7, Some(u64::from(number)), WorkerId(number)));
        let threads = by_id(created);
        for number in 0..COUNT {
            assert_eq!(worker(&threads, &ended(7, u64::from(number))), Some(WorkerId(number)));
        }
    }
}

//! Requests and connections of servers, by their ports: when each begins and ends, and which thread ends it.
//!
//! A request is a matter of its connection: any thread may read it, and any may answer it. It begins when its first byte
//! arrives where the recording says that, else when the first call that reads it returns; it ends when the last call returns
//! that sends before the next request is read. What is read before anything is sent is one request: several reads may be
//! its parts. A connection goes from `accept` to the last `close` of it.
//!
//! A call that sends is of the request that was read last when the call began: the client may have the answer, and the
//! server the next request, before that call returns. Requests *overlap*, and which answer is whose is not known, where
//! - bytes that are read behind an answer had come before the last call that sends the answer began;
//! - they were read before that call returned, and when they came is not recorded;
//! - two threads send, and there was more than one read before, or one of the two answered the request before.
//!
//! Memory grows with open connections, with bytes that arrived and that no call has read, and with what is found; all have
//! bounds, and what is beyond is counted.

mod over;
mod unread;

use std::collections::VecDeque;

use foldhash::{HashMap, HashSet};

use self::unread::{MAX_ARRIVALS_IN_ALL, UnreadBytes, keep_within};
use crate::feed::CallSink;
use crate::input::{Act, Arrived, Bytes, ChannelObject, Endpoint, Input, Protocol, Purpose, What};

/// Connections that are followed.
const MAX_CONNECTIONS: usize = 1 << 18;
/// Connections that were closed, and that another process may go on with.
const MAX_CLOSED: usize = if cfg!(test) { 4 } else { 1 << 16 };
/// Ports of connections that were not accepted yet, and at which bytes arrived.
const MAX_UNACCEPTED: usize = 1 << 16;
const MAX_WORKS: usize = 1 << 20;

/// How a request or a connection came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortWorkEnd {
    /// It has its begin and its end.
    Whole,
    /// Others were under way on its connection at the time.
    Overlapping,
    /// It has no end.
    Unfinished,
    /// It has no begin.
    Unbegun,
    /// Events were lost meanwhile.
    Lost,
}

/// A request, or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortWork {
    pub machine: u16,
    pub port: u16,
    pub end: PortWorkEnd,
    /// From then on, nanoseconds since the epoch.
    pub from_ns: u64,
    pub to_ns: u64,
    /// The thread that ended it; 0 where it has no end.
    pub tid: i32,
    /// The thread that read a request first, and when that call returned.
    pub read_by: i32,
    pub read_ns: u64,
}

impl PortWork {
    /// They are sorted by this.
    pub const fn order(&self) -> (u64, u64, i32) {
        (self.to_ns, self.from_ns, self.tid)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortWorkKind {
    Requests,
    Connections,
}

#[derive(Clone, Copy, Debug)]
struct PortAnswer {
    /// When its last call began.
    began_ns: u64,
    to_ns: u64,
    tid: i32,
}

#[derive(Clone, Copy, Debug)]
struct PortRequest {
    /// Its number on its connection.
    number: u32,
    from_ns: u64,
    /// When its first byte came, where that is recorded.
    came_ns: Option<u64>,
    /// It was recorded, and more of this kind came than can be held.
    is_forgotten: bool,
    read_ns: u64,
    read_by: i32,
    reads: u32,
    answer: Option<PortAnswer>,
    end: PortWorkEnd,
}

impl PortRequest {
    const fn overlaps(&mut self) {
        if !matches!(self.end, PortWorkEnd::Lost) {
            self.end = PortWorkEnd::Overlapping;
        }
    }

    const fn is_answered_by(&self, tid: i32) -> bool {
        matches!(self.answer, Some(answer) if answer.tid == tid)
    }

    /// Whether it may have come before that answer was sent.
    fn precedes(&self, answer: PortAnswer) -> bool {
        self.came_ns.is_none_or(|came_ns| came_ns < answer.began_ns)
    }
}

/// A call that a thread is in.
#[derive(Clone, Copy, Debug)]
struct PortCall {
    began_ns: u64,
    /// On which connection it sends, and the number of the request that was read last.
    sends: Option<((u16, u64), u32)>,
}

#[derive(Clone, Debug, Default)]
struct ServedConnection {
    ports: [u16; 2],
    accepted_ns: Option<u64>,
    closed: Option<(u64, i32)>,
    is_client: bool,
    /// Since it was made, or since events were lost, nothing was read.
    is_unread: bool,
    /// What is read first may go on with what is not known.
    is_behind_loss: bool,
    is_lost: bool,
    /// Requests so far.
    number: u32,
    /// Calls that send, and began since the latest of them was read.
    sending: u32,
    /// The latest request, and the one before that.
    latest: Option<PortRequest>,
    before: Option<PortRequest>,
    unread: UnreadBytes,
}

/// Follows what servers do at some ports.
#[derive(Clone, Debug)]
pub struct PortFollower {
    kind: PortWorkKind,
    ports: Vec<u16>,
    connections: HashMap<(u16, u64), ServedConnection>,
    /// Bytes that came to connections that were not accepted, by their ports.
    unaccepted: HashMap<(u16, [u16; 2]), UnreadBytes>,
    /// No fewer arrivals than are held of all connections.
    arrivals: usize,
    /// Those that did something since events were lost.
    touched: HashSet<(u16, u64)>,
    /// Those that were closed, and when.
    closed: VecDeque<((u16, u64), u64)>,
    calls: HashMap<(u16, i32), PortCall>,
    has_losses: bool,
    /// When threads that sent last waited for others.
    waits: HashMap<(u16, i32), u64>,
    works: Vec<PortWork>,
    /// What is more than can be held.
    pub beyond: u64,
    /// Whether calls say ports, and whether one was of these ports.
    pub has_ports: bool,
    pub has_port: bool,
    /// Calls of `io_uring`, which does what is not seen.
    pub has_io_uring: bool,
}

impl PortFollower {
    pub fn new(kind: PortWorkKind, ports: &[u16]) -> Self {
        Self {
            kind,
            ports: ports.to_vec(),
            connections: HashMap::default(),
            unaccepted: HashMap::default(),
            arrivals: 0,
            touched: HashSet::default(),
            closed: VecDeque::new(),
            calls: HashMap::default(),
            has_losses: false,
            waits: HashMap::default(),
            works: Vec::new(),
            beyond: 0,
            has_ports: false,
            has_port: false,
            has_io_uring: false,
        }
    }

    /// All that was found, by when it ended.
    pub fn finish(self) -> (Vec<PortWork>, u64) {
        let (mut works, beyond) = self.finish_unsorted();
        works.sort_by_key(PortWork::order);
        (works, beyond)
    }

    /// The same, those first that [were over](Self::over).
    pub fn finish_unsorted(mut self) -> (Vec<PortWork>, u64) {
        let keys: Vec<(u16, u64)> = self.connections.keys().copied().collect();
        for key in keys {
            self.settle(key);
        }
        (self.works, self.beyond)
    }

    fn push(&mut self, work: PortWork) {
        match self.works.len() < MAX_WORKS {
            true => self.works.push(work),
            false => self.beyond += 1,
        }
    }

    fn push_if(&mut self, kind: PortWorkKind, work: PortWork) {
        if self.kind == kind {
            self.push(work);
        }
    }

    /// A request of which no more is known. One that is answered has its end if that is known to be the last of its answer.
    fn push_request(&mut self, (machine, port): (u16, u16), request: PortRequest, is_over: bool) {
        if request.is_forgotten {
            self.beyond += u64::from(self.kind == PortWorkKind::Requests);
            return;
        }
        let PortRequest { from_ns, read_ns, read_by, answer, mut end, .. } = request;
        if end == PortWorkEnd::Whole && (answer.is_none() || !is_over) {
            end = PortWorkEnd::Unfinished;
        }
        let (to_ns, tid) = answer.map_or((read_ns, 0), |answer| (answer.to_ns, answer.tid));
        let work = PortWork { machine, port, end, from_ns, to_ns, tid, read_by, read_ns };
        self.push_if(PortWorkKind::Requests, work);
    }

    /// Whether the thread that answered has waited for others since.
    fn has_gone_on(&self, machine: u16, request: &PortRequest) -> bool {
        let Some(answer) = request.answer else { return false };
        self.waits.get(&(machine, answer.tid)).is_some_and(|wait_ns| *wait_ns >= answer.to_ns)
    }

    /// The connection is no more, or nothing follows on it.
    fn settle(&mut self, key: (u16, u64)) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.touched.remove(&key);
        let machine = key.0;
        let of = (machine, connection.ports[0]);
        if let Some(before) = connection.before {
            self.push_request(of, before, true);
        }
        if let Some(latest) = connection.latest {
            let is_over = connection.closed.is_some() || self.has_gone_on(machine, &latest);
            self.push_request(of, latest, is_over);
        }
        if connection.is_client {
            return;
        }
        let (from, to) = (connection.accepted_ns, connection.closed);
        let end = match (from, to) {
            (None, None) => return,
            _ if connection.is_lost => PortWorkEnd::Lost,
            (Some(_), Some(_)) => PortWorkEnd::Whole,
            (Some(_), None) => PortWorkEnd::Unfinished,
            (None, Some(_)) => PortWorkEnd::Unbegun,
        };
        let (to_ns, tid) = to.or(from.map(|from_ns| (from_ns, 0))).unwrap_or_default();
        let (from_ns, port) = (from.unwrap_or(to_ns), of.1);
        let work = PortWork { machine, port, end, from_ns, to_ns, tid, read_by: 0, read_ns: 0 };
        self.push_if(PortWorkKind::Connections, work);
    }

    /// Whether a connection of those ports is one of the asked.
    fn is_asked(&mut self, ports: [u16; 2]) -> bool {
        self.has_ports = true;
        let is_asked = self.ports.contains(&ports[0]);
        self.has_port |= is_asked;
        is_asked
    }

    fn touch(&mut self, key: (u16, u64)) -> Option<&mut ServedConnection> {
        let connection = self.connections.get_mut(&key)?;
        self.touched.insert(key);
        Some(connection)
    }

    /// The connection with a number; a new one where its number has other ports, or is not known.
    fn connection(&mut self, key: (u16, u64), ports: [u16; 2]) -> Option<&mut ServedConnection> {
        if self.connections.get(&key).is_some_and(|found| found.ports != ports) {
            self.settle(key);
        }
        if !self.connections.contains_key(&key) {
            if self.connections.len() >= MAX_CONNECTIONS {
                self.beyond += 1;
                return None;
            }
            let is_behind_loss = self.has_losses;
            let new = ServedConnection {
                ports,
                is_unread: true,
                is_behind_loss,
                ..ServedConnection::default()
            };
            self.connections.insert(key, new);
        }
        self.touch(key)
    }

    /// The same of an end, where it is one of the asked; one that was closed is still open elsewhere.
    fn used(&mut self, machine: u16, end: &Endpoint) -> Option<&mut ServedConnection> {
        let ports = ports(end)?;
        if !self.is_asked(ports) {
            return None;
        }
        let connection = self.connection((machine, end.id), ports)?;
        connection.closed = None;
        (!connection.is_client).then_some(connection)
    }

    fn received(&mut self, (machine, tid): (u16, i32), now_ns: u64, end: &Endpoint, bytes: Bytes) {
        let Some(connection) = self.used(machine, end) else { return };
        let is_forgotten = connection.unread.is_forgotten(bytes);
        let came_ns = connection.unread.read(bytes);
        connection.is_unread = false;
        if let Some(latest) = &mut connection.latest
            && latest.answer.is_none()
            && connection.sending == 0
        {
            latest.reads = latest.reads.saturating_add(1);
            return;
        }
        let is_lost = std::mem::take(&mut connection.is_behind_loss);
        connection.number = connection.number.wrapping_add(1);
        connection.sending = 0;
        let mut new = PortRequest {
            number: connection.number,
            from_ns: came_ns.unwrap_or(now_ns),
            came_ns,
            is_forgotten,
            read_ns: now_ns,
            read_by: tid,
            reads: 1,
            answer: None,
            end: if is_lost { PortWorkEnd::Lost } else { PortWorkEnd::Whole },
        };
        let before = connection.before.take();
        connection.before = connection.latest.take();
        if let Some(latest) = &mut connection.before
            && latest.answer.is_some_and(|answer| came_ns.is_some() && new.precedes(answer))
        {
            latest.overlaps();
            new.overlaps();
        }
        connection.latest = Some(new);
        let port = connection.ports[0];
        if let Some(before) = before {
            self.push_request((machine, port), before, true);
        }
    }

    /// A thread begins to send.
    fn sends(&mut self, (machine, tid): (u16, i32), began_ns: u64, end: &Endpoint) {
        let Some(connection) = self.used(machine, end) else { return };
        connection.sending += 1;
        let sends = Some(((machine, end.id), connection.number));
        self.calls.insert((machine, tid), PortCall { began_ns, sends });
    }

    /// A thread's call is over.
    fn leaves(&mut self, thread: (u16, i32)) {
        let Some(PortCall { sends: Some((key, number)), .. }) = self.calls.remove(&thread) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if connection.number == number {
            connection.sending = connection.sending.saturating_sub(1);
        }
        // It sent nothing: what was read meanwhile may be more of the same request.
        if let ServedConnection { before: Some(before), latest: Some(latest), .. } = connection
            && before.number == number
            && before.answer.is_none()
        {
            before.overlaps();
            latest.overlaps();
        }
    }

    fn sent(&mut self, (machine, tid): (u16, i32), now_ns: u64, end: &Endpoint) {
        let call = self.calls.get(&(machine, tid)).copied();
        let began_ns = call.map_or(0, |call| call.began_ns);
        let answer = PortAnswer { began_ns, to_ns: now_ns, tid };
        let Some(connection) = self.used(machine, end) else { return };
        let port = connection.ports[0];
        let is_first = std::mem::take(&mut connection.is_unread);
        let Some(latest) = &mut connection.latest else {
            // What was not asked for, or the answer to what was read before the recording.
            let is_old = connection.accepted_ns.is_none() && end.protocol == Protocol::Tcp;
            if is_first && is_old && !connection.is_behind_loss {
                let (from_ns, to_ns, read_by, read_ns) = (now_ns, now_ns, 0, 0);
                let end = PortWorkEnd::Unbegun;
                let work = PortWork { machine, port, end, from_ns, to_ns, tid, read_by, read_ns };
                self.push_if(PortWorkKind::Requests, work);
            }
            return;
        };
        let sends = call.and_then(|call| call.sends).filter(|(key, _)| *key == (machine, end.id));
        let number = sends.map(|(_, number)| number);
        let is_of_latest =
            number.map_or(began_ns >= latest.read_ns, |number| number == latest.number);
        let before = &mut connection.before;
        if !is_of_latest {
            if let Some(before) = before {
                before.answer = Some(answer);
                if latest.precedes(answer) || number.is_some_and(|number| number != before.number) {
                    before.overlaps();
                    latest.overlaps();
                }
            }
        } else {
            if let Some(first) = latest.answer.filter(|first| first.tid != tid) {
                let answers = |request: &PortRequest| {
                    request.is_answered_by(tid) || request.is_answered_by(first.tid)
                };
                if let Some(before) = before.as_mut().filter(|before| answers(before)) {
                    before.overlaps();
                    latest.overlaps();
                }
                if latest.reads > 1 {
                    latest.overlaps();
                }
            }
            latest.answer = Some(answer);
        }
        self.waits.entry((machine, tid)).or_insert(0);
    }

    fn begun(&mut self, machine: u16, end: &Endpoint, accepted_ns: Option<u64>) {
        let key = (machine, end.id);
        self.settle(key);
        let Some(ports) = ports(end).filter(|ports| self.is_asked(*ports)) else { return };
        let unread = self.unaccepted.remove(&(machine, ports)).unwrap_or_default();
        if let Some(connection) = self.connection(key, ports) {
            connection.is_client = accepted_ns.is_none();
            (connection.accepted_ns, connection.unread) = (accepted_ns, unread);
            connection.is_behind_loss = false;
        }
    }

    fn closed(&mut self, (machine, tid): (u16, i32), now_ns: u64, end: &Endpoint) {
        let Some(connection) = self.used(machine, end) else { return };
        connection.closed = Some((now_ns, tid));
        self.closed.push_back(((machine, end.id), now_ns));
        if self.closed.len() > MAX_CLOSED
            && let Some((key, closed_ns)) = self.closed.pop_front()
            && let Some(oldest) = self.connections.get(&key)
            && oldest.closed.is_some_and(|(at_ns, _)| at_ns == closed_ns)
        {
            self.settle(key);
        }
    }

    /// Events are missing: what is under way may have ended, and other things begun.
    fn lost(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            let Some(mut connection) = self.connections.remove(&key) else { continue };
            let of = (key.0, connection.ports[0]);
            if let Some(before) = connection.before.take() {
                self.push_request(of, before, true);
            }
            if let Some(mut latest) = connection.latest.take() {
                let is_over = connection.closed.is_some() || self.has_gone_on(key.0, &latest);
                if !is_over {
                    latest.end = PortWorkEnd::Lost;
                }
                self.push_request(of, latest, is_over);
            }
            connection.is_lost |= connection.closed.is_none();
            connection.is_behind_loss = true;
            connection.unread = UnreadBytes::default();
            connection.sending = 0;
            self.connections.insert(key, connection);
        }
        self.unaccepted.clear();
        self.calls.clear();
        self.has_losses = true;
    }
}

/// The ports of a socket of the internet, its own first.
fn ports(end: &Endpoint) -> Option<[u16; 2]> {
    Some([end.local?.port(), end.remote?.port()])
}

impl CallSink for PortFollower {
    fn follow(&mut self, input: &Input<'_>) {
        let (thread, now_ns) = ((input.machine, input.tid), input.time_ns);
        match &input.what {
            What::Enters { purpose, object, .. } => {
                // A call that it was in before had an end that is not there.
                self.leaves(thread);
                self.calls.insert(thread, PortCall { began_ns: now_ns, sends: None });
                if purpose.is_boundary()
                    && let Some(wait_ns) = self.waits.get_mut(&thread)
                {
                    *wait_ns = now_ns;
                }
                if let (Purpose::Send, Some(ChannelObject::End(end))) = (purpose, object) {
                    self.sends(thread, now_ns, end);
                }
            }
            What::Leaves => self.leaves(thread),
            What::Exited(tid) => {
                self.leaves((input.machine, *tid));
                if let Some(wait_ns) = self.waits.get_mut(&(input.machine, *tid)) {
                    *wait_ns = now_ns;
                }
            }
            What::Lost { .. } | What::Unseen => self.lost(),
            What::Act(Act::Received(end, bytes)) => self.received(thread, now_ns, end, *bytes),
            What::Act(Act::Sent(end, _)) => self.sent(thread, now_ns, end),
            What::Act(Act::Accepted(end)) => self.begun(input.machine, end, Some(now_ns)),
            What::Act(Act::Connected(end)) => self.begun(input.machine, end, None),
            What::Act(Act::Closed(end)) => self.closed(thread, now_ns, end),
            _ => {}
        }
    }

    fn arrived(&mut self, arrived: &Arrived) {
        let Arrived { time_ns, machine, id, ports, position } = *arrived;
        // What listens has no other end.
        if ports[1] == 0 || !self.ports.contains(&ports[0]) {
            return;
        }
        if self.arrivals >= MAX_ARRIVALS_IN_ALL {
            let accepted = self.connections.values_mut().map(|connection| &mut connection.unread);
            let all: Vec<_> = accepted.chain(self.unaccepted.values_mut()).collect();
            self.arrivals = keep_within(MAX_ARRIVALS_IN_ALL / 2, all);
        }
        self.arrivals += 1;
        if id != 0 {
            if let Some(connection) = self.connection((machine, id), ports) {
                connection.unread.add(position, time_ns);
            }
            return;
        }
        if self.unaccepted.len() >= MAX_UNACCEPTED {
            self.beyond += self.unaccepted.len() as u64;
            self.unaccepted.clear();
        }
        self.unaccepted.entry((machine, ports)).or_default().add(position, time_ns);
    }

    fn not_followed(&mut self, call: &str) {
        self.has_io_uring |= call == "io_uring_enter";
    }
}

#[cfg(test)]
mod tests;

//! Connections: what threads send and receive on each of them, as requests and answers.
//!
//! A thread that receives first serves: its slice goes from there to the last that it sends before it receives again. One
//! that sends first asks: its slice goes from there to the last that it receives before it sends again. What is never
//! answered goes to the last communication before the thread sleeps in another one; where the answer comes after such
//! sleeps, all parts before it are one.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::Follower;
use super::persons::ThreadId;
use super::taken::Stint;
use crate::channels::{Arrival, Way};
use crate::counts::Missing;
use crate::input::{Bytes, Endpoint};
use crate::marker::Marker;
use crate::slices::{Edge, NONE, SliceId, rule_of};
use crate::tallies::TallyMark;

mod before;
mod given;
mod over;

/// Connections that are followed; the oldest are given up first.
const MAX_ENDS: usize = 1 << 18;
/// Parts of a request that is not answered.
const MAX_PARTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionRole {
    /// It receives and then sends.
    Serves,
    /// It sends and then receives.
    Asks,
}

#[derive(Clone, Debug)]
struct SlicePart {
    id: SliceId,
    from: TallyMark,
    /// Where it ends unless an answer comes.
    bound: Option<TallyMark>,
    /// Another thread answered it.
    done_by: Option<Stint>,
    /// The slice that the thread worked on when it began.
    cause: Option<SliceId>,
}

#[derive(Clone, Debug)]
struct OngoingSlice {
    thread: ThreadId,
    role: ConnectionRole,
    parts: Vec<SlicePart>,
    answered: Option<TallyMark>,
    /// It is of more than one request.
    is_mixed: bool,
}

/// A connection from its begin to its end.
#[derive(Clone, Debug)]
struct Life {
    thread: ThreadId,
    id: SliceId,
    from: TallyMark,
    is_used: bool,
}

#[derive(Clone, Debug)]
struct ConnectionEnd {
    machine: u16,
    id: u64,
    key: u32,
    opens: Vec<OngoingSlice>,
    life: Option<Life>,
    /// What threads here are: the side that accepted serves, the one that connected asks. Else what one was first.
    role: Option<ConnectionRole>,
    /// It was seen to be accepted, or to connect, or its ports say which side did.
    is_sure: bool,
    /// That was before the recording: what is received first may be the answer to what was sent then.
    is_old: bool,
    /// The slice that it was connected for, until something is sent: a loop of events may do other things before that.
    made_for: Option<SliceId>,
    /// Threads that asked, or that connected it.
    asked: Vec<ThreadId>,
    /// In which turn of a thread that waits for events the latest answer was received.
    answered_turn: Option<u32>,
    /// Calls of several requests were under way on it at once.
    is_shared: bool,
    /// More of a request came once before it was answered.
    is_several: bool,
    /// How much what began calls on it and what ended them disagreed of late.
    doubt: u8,
    /// Threads of which events were lost: what they do first may go on with something that is not known.
    unsure: Vec<ThreadId>,
}

impl ConnectionEnd {
    /// Whether what a thread receives here was not asked for, so that it begins nothing: the answer to what was lost, or what
    /// the other side sends by itself.
    fn is_unasked(&mut self, thread: ThreadId, is_unsure: bool) -> bool {
        if self.role != Some(ConnectionRole::Asks) {
            self.unsure.retain(|unsure| *unsure != thread);
            return false;
        }
        let is_lost = is_unsure || self.unsure.contains(&thread);
        is_lost || (self.is_sure && (self.is_old || self.asked.contains(&thread)))
    }
}

#[derive(Debug, Default)]
pub struct FollowedEnds {
    all: Vec<Option<ConnectionEnd>>,
    places: HashMap<(u16, u64), u32>,
    free: Vec<u32>,
    /// Each with its place, the oldest first; those that are gone are still in it until they are the oldest.
    order: VecDeque<(u16, u64, u32)>,
}

impl FollowedEnds {
    fn get_mut(&mut self, place: u32) -> Option<&mut ConnectionEnd> {
        self.all.get_mut(place as usize)?.as_mut()
    }

    fn key(&self, place: u32) -> u32 {
        self.all.get(place as usize).and_then(Option::as_ref).map_or(0, |found| found.key)
    }

    fn find(&self, machine: u16, end: &Endpoint) -> Option<u32> {
        self.places.get(&(machine, end.id)).copied()
    }

    fn add(&mut self, machine: u16, id: u64, key: u32) -> u32 {
        let connection = ConnectionEnd {
            machine,
            id,
            key,
            opens: Vec::new(),
            life: None,
            role: None,
            is_sure: false,
            is_old: false,
            made_for: None,
            asked: Vec::new(),
            answered_turn: None,
            is_shared: false,
            is_several: false,
            doubt: 0,
            unsure: Vec::new(),
        };
        let place = match self.free.pop() {
            Some(place) => {
                if let Some(free) = self.all.get_mut(place as usize) {
                    *free = Some(connection);
                }
                place
            }
            None => {
                self.all.push(Some(connection));
                self.all.len() as u32 - 1
            }
        };
        self.places.insert((machine, id), place);
        self.order.push_back((machine, id, place));
        place
    }

    fn remove(&mut self, place: u32) -> Option<ConnectionEnd> {
        let connection = self.all.get_mut(place as usize)?.take()?;
        self.places.remove(&(connection.machine, connection.id));
        self.free.push(place);
        Some(connection)
    }

    /// The oldest of too many.
    fn too_many(&mut self) -> Option<u32> {
        while self.order.len() > MAX_ENDS {
            let (machine, id, place) = self.order.pop_front()?;
            if self.places.get(&(machine, id)) == Some(&place) {
                return Some(place);
            }
        }
        None
    }

    fn open_mut(&mut self, place: u32, thread: ThreadId) -> Option<&mut OngoingSlice> {
        self.get_mut(place)?.opens.iter_mut().find(|open| open.thread == thread)
    }

    fn take_open(&mut self, place: u32, thread: ThreadId) -> Option<OngoingSlice> {
        let opens = &mut self.get_mut(place)?.opens;
        let found = opens.iter().position(|open| open.thread == thread)?;
        Some(opens.swap_remove(found))
    }

    /// The thread sleeps: what is not answered ends here, unless an answer comes.
    pub fn bound(&mut self, place: u32, thread: ThreadId, mark: &TallyMark) {
        if let Some(part) = self.open_mut(place, thread).and_then(|open| open.parts.last_mut())
            && part.bound.is_none()
        {
            part.bound = Some(mark.clone());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceEndReason {
    /// The next one begins, or the connection or the thread ends.
    Over,
    Missing(Missing),
}

impl Follower {
    /// The place of a connection.
    fn end(&mut self, machine: u16, end: &Endpoint) -> u32 {
        if let Some(place) = self.ends.find(machine, end) {
            return place;
        }
        let key = self.store.end(end);
        let place = self.ends.add(machine, end.id, key);
        if let (Some(role), Some(connection)) = (self.role_before(end), self.ends.get_mut(place)) {
            (connection.role, connection.is_sure, connection.is_old) = (Some(role), true, true);
        }
        if let Some(oldest) = self.ends.too_many() {
            self.forget_end(oldest, None);
        }
        place
    }

    /// A slice that goes from the begin of a connection to its end, and the connection's key.
    pub(super) fn begin_life(
        &mut self,
        thread: ThreadId,
        end: &Endpoint,
        marker: Marker,
        from: TallyMark,
    ) -> Option<(SliceId, u32)> {
        let machine = self.persons.machine(thread);
        // One that has its number and was not seen to be closed.
        if let Some(place) = self.ends.find(machine, end) {
            self.forget_end(place, None);
        }
        let place = self.end(machine, end);
        let key = self.ends.key(place);
        let id = self.store.open(marker, thread, key, from.at_ns);
        let connection = self.ends.get_mut(place)?;
        connection.life = Some(Life { thread, id, from, is_used: false });
        (connection.is_sure, connection.is_old) = (true, false);
        connection.role = match marker {
            Marker::Accept(_) => Some(ConnectionRole::Serves),
            _ => {
                connection.asked.push(thread);
                Some(ConnectionRole::Asks)
            }
        };
        self.persons.get_mut(thread)?.ends.insert(place);
        Some((id, key))
    }

    /// A thread does something on a connection: where another one accepted it, and did nothing more, it is of this
    /// one from now on.
    fn uses(&mut self, place: u32, thread: ThreadId, now_ns: u64) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        person.ends.insert(place);
        person.fresh.insert(place);
        let Some(connection) = self.ends.get_mut(place) else { return };
        let Some(life) = &mut connection.life else { return };
        if life.is_used || life.thread == thread {
            life.is_used = true;
            return;
        }
        life.thread = thread;
        life.from = person.mark_entry(now_ns);
        life.is_used = true;
        self.store.hand_over(life.id, thread, life.from.at_ns);
    }

    fn begin_part(
        &mut self,
        thread: ThreadId,
        role: ConnectionRole,
        (end, key): (&Endpoint, u32),
        from: TallyMark,
        cause: Option<SliceId>,
    ) -> SlicePart {
        let family = end.protocol.into();
        let marker = match role {
            ConnectionRole::Serves => Marker::Receive(family),
            ConnectionRole::Asks => Marker::Send(family),
        };
        let at_ns = from.at_ns;
        let id = self.store.open(marker, thread, key, at_ns);
        if let Some(cause) = cause {
            self.store.edge(Edge::of_thread(cause, id, key, at_ns));
            self.expects(thread, cause, true);
        }
        SlicePart { id, from, bound: None, done_by: None, cause }
    }

    /// A request has its answer: its parts are one.
    fn answer(&mut self, place: u32, thread: ThreadId, to: TallyMark) -> Option<SliceId> {
        self.without_done(place, thread);
        let has_turns = self.has_turns(thread);
        let open = self.ends.open_mut(place, thread)?;
        let first = open.parts.first().filter(|first| first.done_by.is_none())?;
        let (id, is_first) = (first.id, open.answered.is_none());
        open.answered = Some(to);
        if !is_first {
            return Some(id);
        }
        let first_cause = open.parts.first().map(|part| part.cause);
        let causes: Vec<SliceId> = open.parts.iter().filter_map(|part| part.cause).collect();
        let more: Vec<SliceId> = open.parts.iter().skip(1).map(|part| part.id).collect();
        open.is_mixed |= match open.role == ConnectionRole::Asks && !has_turns {
            // The answer may be to what is of no request.
            true => open.parts.iter().any(|part| Some(part.cause) != first_cause),
            false => causes.iter().any(|cause| Some(cause) != causes.first()),
        };
        open.parts.truncate(1);
        for part in more {
            self.store.merge(part, id);
        }
        for cause in causes {
            self.expects(thread, cause, false);
        }
        self.store.answered(id);
        Some(id)
    }

    pub(super) fn sent(&mut self, thread: ThreadId, now_ns: u64, end: &Endpoint, bytes: Bytes) {
        let machine = self.persons.machine(thread);
        let place = self.end(machine, end);
        self.uses(place, thread, now_ns);
        let made_for = self.begins_with(place, thread);
        let known = self.ends.open_mut(place, thread);
        let known = known.map(|open| (open.role, open.answered.is_some()));
        let serves =
            self.ends.get_mut(place).is_some_and(|of| of.role == Some(ConnectionRole::Serves));
        let asks = known.map_or(!serves, |(role, _)| role == ConnectionRole::Asks);
        if asks || known.is_none() {
            self.next_piece(thread, now_ns, place);
        }
        let has_turns = self.has_turns(thread);
        let last_sent = self.last_sent(thread);
        let current = match has_turns && asks {
            true => made_for.or_else(|| self.goes_on_with(thread, place)),
            false => self.current(thread),
        };
        if let Some(current) = current {
            self.sends(thread, current);
        }
        if known.is_none() && serves {
            // The answer to what another thread received, or what was not asked for.
            self.answers(place, thread, current);
            self.goes(end, bytes, (current.unwrap_or(NONE), now_ns));
            return;
        }
        let Some(person) = self.persons.get(thread) else { return };
        let open = self.ends.open_mut(place, thread);
        let owner = match known {
            Some((ConnectionRole::Serves, is_answered)) => {
                let to = person.mark(now_ns, true);
                let id = self.answer(place, thread, to);
                if let Some(person) = self.persons.get_mut(thread) {
                    person.current = id;
                }
                if let Some(id) = id {
                    self.sent_answer(thread, place, (id, !is_answered));
                }
                id
            }
            Some((ConnectionRole::Asks, false)) => {
                let last = open.and_then(|open| open.parts.last());
                let goes_on = last.filter(|last| {
                    let is_same = match has_turns {
                        true => last.cause.is_some() || last_sent == Some(last.id),
                        false => true,
                    };
                    last.bound.is_none() && is_same && (last.cause == current || current.is_none())
                });
                match goes_on.map(|last| last.id) {
                    Some(id) => Some(id),
                    None => {
                        let from = person.mark_entry(now_ns);
                        self.more(place, thread, ConnectionRole::Asks, end, from, current)
                    }
                }
            }
            Some((ConnectionRole::Asks, true)) | None => {
                let from = person.mark_entry(now_ns);
                self.over(place, thread, SliceEndReason::Over);
                self.more(place, thread, ConnectionRole::Asks, end, from, current)
            }
        };
        if let Some(owner) = owner {
            if asks {
                self.sent_call(thread, place, owner, (current, made_for));
            }
            self.goes(end, bytes, (owner, now_ns));
        }
    }

    /// What a slice sends is on its way.
    fn goes(&mut self, end: &Endpoint, bytes: Bytes, from: (SliceId, u64)) {
        if end.out == 0 {
            return;
        }
        let (way, messages) = (Way::Flow(end.out), end.protocol.has_messages());
        let joined = self.channels.sent(way, bytes, messages, from, self.losses);
        for (origin, arrival) in joined {
            self.join(rule_of(end.protocol), &origin, &arrival, false);
        }
    }

    /// One more part of what a thread does on a connection, or the first one.
    fn more(
        &mut self,
        place: u32,
        thread: ThreadId,
        role: ConnectionRole,
        end: &Endpoint,
        from: TallyMark,
        cause: Option<SliceId>,
    ) -> Option<SliceId> {
        let key = self.ends.key(place);
        let part = self.begin_part(thread, role, (end, key), from, cause);
        let id = part.id;
        let connection = self.ends.get_mut(place)?;
        let mut first = None;
        match connection.opens.iter_mut().find(|open| open.thread == thread) {
            Some(open) => {
                // Without a bound it goes on to where the next one begins.
                if let Some(last) = open.parts.last_mut() {
                    last.bound.get_or_insert_with(|| part.from.clone());
                }
                open.parts.push(part);
                if open.parts.len() > MAX_PARTS {
                    first = Some(open.parts.remove(0));
                }
            }
            None => {
                connection.role.get_or_insert(role);
                if role == ConnectionRole::Asks && !connection.asked.contains(&thread) {
                    connection.asked.push(thread);
                }
                connection.unsure.retain(|unsure| *unsure != thread);
                connection.opens.push(OngoingSlice {
                    thread,
                    role,
                    parts: vec![part],
                    answered: None,
                    is_mixed: false,
                });
            }
        }
        if let Some(part) = first {
            self.part_over(thread, part, SliceEndReason::Over);
        }
        Some(id)
    }

    pub(super) fn received(&mut self, thread: ThreadId, now_ns: u64, end: &Endpoint, bytes: Bytes) {
        let machine = self.persons.machine(thread);
        let place = self.end(machine, end);
        self.uses(place, thread, now_ns);
        let has_open = self.ends.open_mut(place, thread).is_some();
        let is_unsure = self.persons.get(thread).is_some_and(|person| person.is_unsure);
        let is_unasked = !has_open
            && self.ends.get_mut(place).is_some_and(|of| of.is_unasked(thread, is_unsure));
        let (current, has_turns) = (self.current(thread), self.has_turns(thread));
        let Some(person) = self.persons.get_mut(thread) else { return };
        let open = self.ends.open_mut(place, thread);
        let known = open.as_ref().map(|open| (open.role, open.answered.is_some()));
        let (target, opens) = match known {
            // What no one asked for is no request's: what a loop of events sends then may be for that.
            None if is_unasked && has_turns => {
                self.took_up(thread, None, None);
                if let Some(person) = self.persons.get_mut(thread) {
                    person.current = None;
                }
                (None, false)
            }
            None if is_unasked => (current, false),
            Some((ConnectionRole::Asks, _)) => {
                let to = person.mark(now_ns, true);
                let cause = open.and_then(|open| open.parts.first()).and_then(|part| part.cause);
                let id = self.answer(place, thread, to);
                let cause = match id {
                    Some(id) => self.took_answer(thread, place, id, cause),
                    None => cause,
                };
                let cause = self.open(cause);
                match cause {
                    Some(cause) => self.resume(thread, cause, now_ns),
                    None => {
                        if let Some(person) = self.persons.get_mut(thread) {
                            person.current = None;
                        }
                    }
                }
                self.took_up(thread, cause, id);
                (id, false)
            }
            Some((ConnectionRole::Serves, false)) => {
                let last = open.and_then(|open| open.parts.last());
                let goes_on = last.filter(|last| last.bound.is_none() && last.done_by.is_none());
                let goes_on = goes_on.map(|last| last.id);
                let (id, opens) = match goes_on {
                    Some(id) => (Some(id), false),
                    None => {
                        let from = person.mark(now_ns, false);
                        (self.more(place, thread, ConnectionRole::Serves, end, from, None), true)
                    }
                };
                self.more_came(place, now_ns, (id, opens));
                if let Some(person) = self.persons.get_mut(thread) {
                    person.current = id;
                }
                if let Some(id) = id {
                    self.took_request(thread, place, id);
                }
                (id, opens)
            }
            Some((ConnectionRole::Serves, true)) | None => {
                person.is_unsure = false;
                let from = person.mark(now_ns, false);
                self.over(place, thread, SliceEndReason::Over);
                let id = self.more(place, thread, ConnectionRole::Serves, end, from, None);
                self.is_several(place, id);
                if let Some(person) = self.persons.get_mut(thread) {
                    person.current = id;
                }
                if let Some(id) = id {
                    self.took_request(thread, place, id);
                }
                (id, true)
            }
        };
        let slice = target.unwrap_or(NONE);
        let arrival = Arrival { slice, received_ns: now_ns, opens, key: self.ends.key(place) };
        if end.into == 0 {
            self.counts.unmatched += 1;
            return;
        }
        let (way, messages) = (Way::Flow(end.into), end.protocol.has_messages());
        let taken = self.channels.received(way, bytes, messages, self.losses);
        let woken = self.woken(thread);
        for origin in &taken.origins {
            let woke = woken.is_some_and(|woken| self.is_of(origin.slice, woken.thread));
            self.join(rule_of(end.protocol), origin, &arrival, woke);
        }
        if let Some(rest) = taken.rest
            && self.channels.wait(way, rest, arrival)
        {
            self.counts.unmatched += 1;
        }
        if taken.is_unmatched {
            self.counts.unmatched += 1;
        }
    }

    pub(super) fn closed(&mut self, thread: ThreadId, now_ns: u64, end: &Endpoint) {
        let machine = self.persons.machine(thread);
        let Some(place) = self.ends.find(machine, end) else { return };
        let Some(person) = self.persons.get(thread) else { return };
        let mark = person.mark_entry(now_ns);
        // A process that inherited it goes on with it.
        let own = person.process_id();
        let is_own = |thread: ThreadId, follower: &Self| {
            follower.persons.get(thread).is_some_and(|person| person.process_id() == own)
        };
        let Some(connection) = self.ends.get_mut(place) else { return };
        let threads: Vec<ThreadId> = connection.opens.iter().map(|open| open.thread).collect();
        let life = connection.life.as_ref().map(|life| life.thread);
        let (mine, others): (Vec<_>, Vec<_>) =
            threads.into_iter().partition(|other| is_own(*other, self));
        let is_life_mine = life.is_some_and(|life| is_own(life, self));
        if others.is_empty() && (life.is_none() || is_life_mine) {
            self.forget_end(place, Some((thread, &mark)));
            return;
        }
        self.ends.bound(place, thread, &mark);
        for other in mine {
            self.over(place, other, SliceEndReason::Over);
        }
        if is_life_mine {
            let life = self.ends.get_mut(place).and_then(|connection| connection.life.take());
            self.life_over(life, Some((thread, &mark)));
        }
    }
}

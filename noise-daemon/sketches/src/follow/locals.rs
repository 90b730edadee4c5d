//! Pipes, queues, eventfds, semaphores, futexes, signals, children.

use super::Follower;
use super::persons::{Implicit, ThreadId, WakeInCall};
use crate::channels::{Arrival, Origin, Way};
use crate::input::{Bytes, ChannelObject, Local, Much};
use crate::marker::{Marker, MarkerRule};
use crate::slices::{Edge, Ended, NONE, SliceId};
use crate::tallies::TallyMark;
use crate::tokens::{Came, Post};

/// Slices with one marker that one thread has at once.
const MAX_IMPLICIT: usize = 64;

/// Where what is sent on it goes.
pub fn outgoing(machine: u16, object: &ChannelObject) -> Option<Way> {
    match object {
        ChannelObject::End(end) => (end.out != 0).then_some(Way::Flow(end.out)),
        ChannelObject::Local(local @ Local::Pipe { .. }) => Some(Way::Local(machine, *local)),
        ChannelObject::Local(_) => None,
    }
}

/// How much, as an edge has it.
pub fn small(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Follower {
    fn open_implicit(
        &mut self,
        thread: ThreadId,
        (marker, key): (Marker, u32),
        from: TallyMark,
        asks: bool,
    ) -> SliceId {
        self.end_implicit(thread, |implicit| {
            implicit.is_answered() || (implicit.bound.is_some() && implicit.pending == 0)
        });
        let id = self.store.open(marker, thread, key, from.at_ns);
        let Some(person) = self.persons.get_mut(thread) else { return id };
        let implicit = Implicit {
            id,
            from,
            key,
            asks,
            has_sent: asks,
            answered: None,
            bound: None,
            pending: 0,
            served: None,
        };
        person.implicit.push(implicit);
        person.current = Some(id);
        if !asks {
            person.begins = Some(key);
            self.took_piece(thread, id);
        }
        let Some(person) = self.persons.get_mut(thread) else { return id };
        if person.implicit.len() > MAX_IMPLICIT {
            let oldest = person.implicit.remove(0);
            self.finish_implicit(thread, &oldest);
        }
        id
    }

    /// Ends those slices with one marker of a thread.
    pub(super) fn end_implicit(&mut self, thread: ThreadId, which: impl Fn(&Implicit) -> bool) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        let over: Vec<Implicit> =
            person.implicit.extract_if(.., |implicit| which(implicit)).collect();
        for implicit in over {
            self.finish_implicit(thread, &implicit);
        }
    }

    fn finish_implicit(&mut self, thread: ThreadId, implicit: &Implicit) {
        match implicit.end() {
            Some(to) => self.close(thread, implicit.id, Ended::Implicit, &implicit.from, to),
            None => self.drop_unfinished(implicit.id),
        }
    }

    /// A thread goes on with a slice.
    pub(super) fn resume(&mut self, thread: ThreadId, slice: SliceId, now_ns: u64) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        person.current = Some(slice);
        let mark = person.mark(now_ns, true);
        if let Some(implicit) = person.implicit.iter_mut().find(|known| known.id == slice) {
            implicit.bound = None;
            implicit.answered = Some(mark);
        }
    }

    /// What a thread sends on a connection after it answered the request of another one is of the next piece of work, also
    /// where it did not sleep before it took that up.
    pub(super) fn next_piece(&mut self, thread: ThreadId, now_ns: u64, place: u32) {
        let Some(current) = self.current(thread) else { return };
        let Some(person) = self.persons.get_mut(thread) else { return };
        let from = person.mark_entry(now_ns);
        let of = person.implicit.iter_mut().find(|known| known.id == current);
        let Some(of) = of.filter(|of| of.served.is_some_and(|served| served != place)) else {
            return;
        };
        of.bound.get_or_insert_with(|| from.clone());
        let key = of.key;
        let Some(marker) = self.store.get(current).map(|slice| slice.marker) else { return };
        self.open_implicit(thread, (marker, key), from, false);
    }

    /// A thread sends something while it works on a slice.
    pub(super) fn sends(&mut self, thread: ThreadId, slice: SliceId) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        if let Some(implicit) = person.implicit.iter_mut().find(|known| known.id == slice) {
            implicit.has_sent = true;
        }
    }

    /// The slice that a thread works on when it sends or posts; a new one where it works on nothing.
    pub(super) fn work_on(
        &mut self,
        thread: ThreadId,
        now_ns: u64,
        local: Local,
    ) -> Option<SliceId> {
        let current = self.current(thread);
        let person = self.persons.get(thread)?;
        if current.is_none() && person.is_unsure {
            return None;
        }
        let is_over = |slice: SliceId| {
            person.implicit.iter().any(|implicit| implicit.id == slice && implicit.is_answered())
        };
        if let Some(current) = current.filter(|current| !is_over(*current)) {
            self.sends(thread, current);
            return Some(current);
        }
        let (machine, from) = (person.machine, person.mark_entry(now_ns));
        let key = self.store.local(machine, local);
        Some(self.open_implicit(thread, (local.into(), key), from, true))
    }

    /// Where something came that a slice began with, and the thread sent something since, the next piece of work begins,
    /// also where it did not sleep before.
    fn ends_before(&mut self, thread: ThreadId, now_ns: u64, key: u32) {
        let Some(current) = self.current(thread) else { return };
        let Some(person) = self.persons.get_mut(thread) else { return };
        if person.call.is_some_and(|call| call.slept) {
            return;
        }
        let mark = person.mark_entry(now_ns);
        let begun = person.implicit.iter_mut().find(|known| known.id == current);
        if let Some(begun) = begun.filter(|known| known.key == key && known.has_sent) {
            begun.bound = Some(mark);
            person.current = None;
        }
    }

    /// The slice that something belongs to which came from these, and whether it is new: the one that the thread works on
    /// where it slept until that came, an open one that caused it, else the one that it works on, else a new one.
    fn arrives(
        &mut self,
        thread: ThreadId,
        now_ns: u64,
        begins: (Marker, u32),
        from: &[SliceId],
    ) -> (SliceId, bool) {
        self.ends_before(thread, now_ns, begins.1);
        if let Some(person) = self.persons.get_mut(thread).filter(|person| person.is_unsure) {
            if person.begins != Some(begins.1) {
                return (NONE, false);
            }
            person.is_unsure = false;
        }
        let current = self.current(thread).filter(|current| !self.store.is_answered(*current));
        let Some(person) = self.persons.get(thread) else { return (NONE, false) };
        let slept = person.call.is_some_and(|call| call.slept);
        let latest = person.implicit.last().map(|implicit| implicit.id);
        let older = |slice: &SliceId| {
            Some(*slice) != latest && person.implicit.iter().any(|known| known.id == *slice)
        };
        let returned = || {
            let from = from.iter().filter(|slice| **slice != NONE);
            let mut found = from.filter_map(|slice| self.returns_to(thread, *slice));
            found.find(|slice| !older(slice))
        };
        let waits = current.filter(|_| slept);
        if let Some(slice) = waits.or_else(returned).or(current) {
            if self.is_work(slice) {
                self.resume(thread, slice, now_ns);
                self.took_up(thread, Some(slice), None);
            }
            return (slice, false);
        }
        let from = person.mark(now_ns, false);
        let slice = self.open_implicit(thread, begins, from, false);
        self.took_up(thread, Some(slice), None);
        (slice, true)
    }

    pub(super) fn put(&mut self, thread: ThreadId, now_ns: u64, local: Local, length: u64) {
        let machine = self.persons.machine(thread);
        let slice = self.work_on(thread, now_ns, local).unwrap_or(NONE);
        let bytes = Bytes { at: None, length };
        let way = Way::Local(machine, local);
        let joined = self.channels.sent(way, bytes, false, (slice, now_ns), self.losses);
        for (origin, arrival) in joined {
            self.join(local.into(), &origin, &arrival, false);
        }
    }

    pub(super) fn got(&mut self, thread: ThreadId, now_ns: u64, local: Local, length: u64) {
        let machine = self.persons.machine(thread);
        let way = Way::Local(machine, local);
        let bytes = Bytes { at: None, length };
        let taken = self.channels.received(way, bytes, false, self.losses);
        let woken = self.woken(thread);
        let mut causes: Vec<SliceId> = taken.origins.iter().map(|origin| origin.slice).collect();
        // A sender that is still in its call is known by that.
        let sender = taken.rest.and_then(|_| self.channels.only_sender(way));
        causes.extend(sender.and_then(|sender| self.current(sender)));
        causes.extend(woken.map(|woken| woken.slice));
        let key = self.store.local(machine, local);
        let (slice, opens) = self.arrives(thread, now_ns, (local.into(), key), &causes);
        let arrival = Arrival { slice, received_ns: now_ns, opens, key };
        for origin in &taken.origins {
            let woke = woken.is_some_and(|woken| self.is_of(origin.slice, woken.thread));
            self.join(local.into(), origin, &arrival, woke);
        }
        if let Some(rest) = taken.rest
            && self.channels.wait(way, rest, arrival)
        {
            self.counts.unmatched += 1;
        }
        if taken.is_unmatched && taken.origins.is_empty() && taken.rest.is_none() {
            match woken {
                Some(woken) => self.join_waking(&woken, &arrival),
                None => self.counts.unmatched += 1,
            }
        }
    }

    pub(super) fn posted(&mut self, thread: ThreadId, now_ns: u64, local: Local) {
        let machine = self.persons.machine(thread);
        let slice = self.work_on(thread, now_ns, local).unwrap_or(NONE);
        let post = Post { slice, sent_ns: now_ns };
        self.tokens.posted(machine, local, post, self.losses);
    }

    pub(super) fn took(&mut self, thread: ThreadId, now_ns: u64, local: Local, much: Much) {
        let Some(person) = self.persons.get(thread) else { return };
        let (machine, since_ns) = (person.machine, person.since_ns(now_ns));
        let came = self.tokens.taken(machine, local, much, since_ns, self.losses);
        let woken = self.woken(thread);
        if much == Much::IfWoken && woken.is_none() {
            return;
        }
        // All that was posted says more than who was the first to do so.
        let is_sure = much == Much::All && matches!(came, Came::From(_));
        let key = self.store.local(machine, local);
        let marker = Marker::from(local);
        if let Some(woken) = woken.filter(|_| !is_sure) {
            let (slice, opens) = self.arrives(thread, now_ns, (marker, key), &[woken.slice]);
            self.join_waking(&woken, &Arrival { slice, received_ns: now_ns, opens, key });
            return;
        }
        let posts = match came {
            Came::From(posts) => posts,
            Came::Ambiguous => {
                self.counts.ambiguous += 1;
                Vec::new()
            }
            Came::Unknown => {
                self.counts.unmatched += 1;
                Vec::new()
            }
        };
        let causes: Vec<SliceId> = posts.iter().map(|post| post.slice).collect();
        let (slice, opens) = self.arrives(thread, now_ns, (marker, key), &causes);
        let arrival = Arrival { slice, received_ns: now_ns, opens, key };
        for post in posts {
            let woke = woken.is_some_and(|woken| self.is_of(post.slice, woken.thread));
            let origin = Origin { slice: post.slice, sent_ns: post.sent_ns, bytes: 0 };
            self.join(local.into(), &origin, &arrival, woke);
        }
    }

    /// A child ended, and its maker learnt that; 0 where the recording does not say which one.
    pub(super) fn reaped(&mut self, thread: ThreadId, now_ns: u64, child: i32) {
        let Some(reaper) = self.persons.get(thread) else { return };
        let (machine, pid) = (reaper.machine, reaper.process_id());
        let woken = self.woken(thread).filter(|woken| woken.by_exit);
        let found = match woken {
            Some(woken) => Some(woken.thread),
            // In a namespace of processes an id may be another one's.
            None => self.persons.find(machine, child).filter(|child| {
                self.persons.get(*child).is_some_and(|child| child.parent == Some(pid))
            }),
        };
        let ended = found.and_then(|child| self.persons.get(child));
        let Some((from, tid)) =
            ended.and_then(|child| Some((child.process.as_ref()?.0, child.tid)))
        else {
            self.counts.unmatched += u64::from(child != 0);
            return;
        };
        let sent_ns = self.store.get(from).map_or(now_ns, |slice| slice.to_ns);
        let key = self.store.thread(tid);
        let (slice, opens) = self.arrives(thread, now_ns, (Marker::Child, key), &[from]);
        let arrival = Arrival { slice, received_ns: now_ns, opens, key };
        let origin = Origin { slice: from, sent_ns, bytes: 0 };
        self.join(MarkerRule::Exit, &origin, &arrival, woken.is_some());
    }

    /// Who woke a thread in the call that it is in.
    pub(super) fn woken(&self, thread: ThreadId) -> Option<WakeInCall> {
        self.persons.get(thread)?.woken
    }

    pub(super) fn is_of(&self, slice: SliceId, thread: ThreadId) -> bool {
        self.store.get(slice).is_some_and(|slice| slice.thread == thread)
    }

    /// What was sent by one slice arrived in another.
    pub(super) fn join(
        &mut self,
        rule: MarkerRule,
        origin: &Origin,
        arrival: &Arrival,
        woke: bool,
    ) {
        let edge = arrival.edge(rule, (origin.slice, origin.sent_ns));
        self.store.edge(Edge { woke, bytes: small(origin.bytes), ..edge });
    }

    fn join_waking(&mut self, woken: &WakeInCall, arrival: &Arrival) {
        let rule = if woken.by_exit { MarkerRule::Exit } else { MarkerRule::Waking };
        let edge = arrival.edge(rule, (woken.slice, woken.at_ns));
        self.store.edge(Edge { woke: true, ..edge });
    }
}

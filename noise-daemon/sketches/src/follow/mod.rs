//! Cuts what threads do into slices, and joins these by what went from one to another.
//!
//! *Whose work is it?* A thread works on the slice that its latest communication belongs to. What it sends meanwhile on
//! another connection is caused by that one; when the answer to that comes, it goes on with the first one, also where a
//! loop of events brought others in between. What comes otherwise from a slice that one of its open slices caused, itself
//! or by others, belongs to that open slice. After a wait in a loop of events, and after a sleep behind an answer, a
//! thread works on nothing until the next communication.
//! For threads that wait for events of many connections, [`evidence`] decides which call belongs to which request.
//!
//! Memory grows with open connections, threads and the slices that are kept; each of the three has a bound, and what is
//! beyond is counted.

mod acts;
mod ends;
mod evidence;
mod locals;
mod persons;
mod schedule;
mod stints;
mod taken;

use std::collections::{HashMap, HashSet, VecDeque};

use self::ends::FollowedEnds;
use self::evidence::claims::CallClaims;
pub use self::persons::NamedOwner;
use self::persons::{Persons, ThreadId};
use crate::channels::Channels;
use crate::counts::SketchCounts;
use crate::input::{ChannelObject, Input, Purpose, What};
use crate::marker::Marker;
use crate::slices::{Ended, SliceId, Store};
use crate::system::System;
use crate::tallies::TallyMark;
use crate::tokens::Tokens;

/// Connections whose other side did not appear yet.
const MAX_CONNECTS: usize = 1 << 16;
/// How far causes are followed.
const MAX_CHAIN: usize = 64;

/// A connection of which one side is known.
#[derive(Clone, Copy, Debug)]
struct HalfConnection {
    life: SliceId,
    at_ns: u64,
    key: u32,
    /// It is the side that connects.
    connects: bool,
}

/// Follows all events, and gives slices and edges.
#[derive(Debug, Default)]
pub struct Follower {
    persons: Persons,
    ends: FollowedEnds,
    channels: Channels,
    tokens: Tokens,
    store: Store,
    /// Calls of threads that wait for events.
    calls: CallClaims,
    counts: SketchCounts,
    /// Connects by the number of what they send, with those that were known first at the front of `connect_order`.
    connects: HashMap<u64, HalfConnection>,
    connect_order: VecDeque<u64>,
    /// Ports that someone listened on when a recording began.
    listening: HashSet<u16>,
    /// Unix sockets that were bound then, by the number of what they send.
    bound: HashSet<u64>,
    /// How often events were lost.
    losses: u32,
    span: Option<(u64, u64)>,
}

impl Follower {
    pub fn follow(&mut self, input: &Input<'_>) {
        let now_ns = input.time_ns;
        if !matches!(input.what, What::Lost { .. } | What::Unseen) {
            let (from_ns, to_ns) = self.span.unwrap_or((now_ns, now_ns));
            self.span = Some((from_ns, to_ns.max(now_ns)));
        }
        match input.what {
            What::Switch { prev, sleeps, next } => self.switch(input, prev, sleeps, next),
            What::Waking { tid, in_task } => self.waking(input, tid, in_task),
            What::Known(known) => {
                self.persons.known(input.machine, &known);
            }
            What::Created { parent, child, pid } => self.created(input, parent, child, pid),
            What::Exited(tid) => self.exited(input, tid),
            What::Lost { until_ns } => self.lost(input, until_ns),
            What::Unseen => self.unseen(input),
            What::Enters { call, purpose, object } => {
                if let Some(thread) = self.running(input) {
                    self.enters(thread, now_ns, call, purpose, object);
                }
            }
            What::Leaves => {
                if let Some(thread) = self.running(input) {
                    self.leaves(thread);
                }
            }
            What::Act(act) => {
                if let Some(thread) = self.running(input) {
                    self.act(thread, now_ns, &act);
                }
            }
        }
    }

    /// The thread that runs on the CPU. Where events were lost since it was seen, what it was in is given up.
    fn running(&mut self, input: &Input<'_>) -> Option<ThreadId> {
        let (thread, missing) = self.persons.running(input)?;
        if let Some(missing) = missing {
            self.give_up(thread, missing);
        }
        Some(thread)
    }

    /// Whether a slice goes on; none does not.
    fn open(&self, slice: Option<SliceId>) -> Option<SliceId> {
        slice.map(|slice| self.store.whole(slice)).filter(|slice| self.store.is_open(*slice))
    }

    /// The slice that a thread works on.
    fn current(&self, thread: ThreadId) -> Option<SliceId> {
        self.open(self.persons.get(thread)?.current)
    }

    /// The open slice of a thread that a slice was caused by, itself or by others.
    fn returns_to(&self, thread: ThreadId, from: SliceId) -> Option<SliceId> {
        let mut slice = self.store.whole(from);
        for _ in 0..MAX_CHAIN {
            let found = self.store.get(slice)?;
            if found.thread == thread
                && self.store.is_open(slice)
                && !matches!(found.marker, Marker::Accept(_) | Marker::Connect(_))
            {
                return Some(slice);
            }
            slice = self.store.whole(found.cause);
        }
        None
    }

    fn close(
        &mut self,
        thread: ThreadId,
        id: SliceId,
        ended: Ended,
        from: &TallyMark,
        to: &TallyMark,
    ) {
        let calls = self
            .persons
            .get(thread)
            .map(|thread| thread.calls.between(from, to))
            .unwrap_or_default();
        self.store.close(id, ended, to.at_ns, &to.idle.since(&from.idle), calls);
    }

    fn enters(
        &mut self,
        thread: ThreadId,
        now_ns: u64,
        call: &str,
        purpose: Purpose,
        object: Option<ChannelObject>,
    ) {
        let name = self.store.profiles.number(call);
        self.leaves(thread);
        if matches!(purpose, Purpose::Poll | Purpose::Loop) {
            self.turn(thread);
        }
        if let (Purpose::Send, Some(object)) = (purpose, object) {
            let machine = self.persons.machine(thread);
            if let Some(way) = locals::outgoing(machine, &object) {
                self.channels.enter(way, thread);
            }
        }
        if let Some(person) = self.persons.get_mut(thread) {
            person.enters(now_ns, name, purpose, object);
        }
    }

    fn leaves(&mut self, thread: ThreadId) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        let Some(call) = person.call.take() else { return };
        person.woken = None;
        if let (Purpose::Send, Some(object)) = (call.purpose, call.object) {
            let machine = self.persons.machine(thread);
            if let Some(way) = locals::outgoing(machine, &object) {
                self.channels.leave(way, thread);
            }
        }
    }

    /// Someone listens on a port when a recording begins.
    pub fn listens(&mut self, port: u16) {
        self.listening.insert(port);
    }

    /// A unix socket is bound when a recording begins; `out` is the number of what it sends.
    pub fn is_bound(&mut self, out: u64) {
        if self.bound.len() < MAX_CONNECTS {
            self.bound.insert(out);
        }
    }

    /// A call of a kind that is not followed.
    pub fn not_followed(&mut self, call: &str) {
        match self.counts.not_followed.get_mut(call) {
            Some(count) => *count += 1,
            None => {
                self.counts.not_followed.insert(call.to_owned(), 1);
            }
        }
    }

    pub fn finish(mut self) -> System {
        self.judge_all();
        self.judge_stints();
        self.end_all();
        self.counts.unmatched += self.channels.unmatched();
        self.counts.left_out = self.store.left_out;
        self.counts.edges_left_out = self.store.edges_left_out;
        System::new(self.store, self.persons.finish(), self.counts, self.span)
    }
}

#[cfg(test)]
mod tests;

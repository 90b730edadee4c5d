//! Whose the calls of threads of events are, when all is known.
//!
//! A call has two witnesses: what began it, which is what was read before it was sent, and what ended it, which is the
//! request that was answered behind its answer. Where both name one request, the call is of that; where they name two, it
//! is of none. One alone counts where nearly all that its thread sends follows from what it reads. A request that may be
//! more than one, since clients send ahead, has no calls.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::follow::Follower;
use crate::follow::persons::ThreadId;
use crate::slices::{Edge, NONE, SliceId};

/// Calls whose verdict waits; the oldest get theirs first.
const MAX_CALLS: usize = if cfg!(test) { 1 << 10 } else { 1 << 18 };

/// What is known of a call that a thread of events made.
#[derive(Clone, Copy, Debug)]
pub struct CallClaim {
    pub thread: ThreadId,
    /// Its connection.
    pub place: u32,
    /// The call of the same request before it, or [`NONE`].
    pub before: SliceId,
    /// The request of what seems to have begun it, or [`NONE`].
    pub begun_by: SliceId,
    /// Its connection was made for that.
    pub is_made_for: bool,
    /// The request that was answered behind its answer, or [`NONE`].
    pub ended_for: SliceId,
    /// It was sent while its thread had this one request.
    pub alone_with: SliceId,
    /// Its answer came after that of the request that it seemed to be of.
    pub is_late: bool,
    /// Another call was under way on its connection.
    pub is_mixed: bool,
    /// That was so before with others on its connection.
    pub is_shared: bool,
}

/// Calls by their slices, the oldest first in `order`.
#[derive(Debug, Default)]
pub struct CallClaims {
    pub all: HashMap<SliceId, CallClaim>,
    order: VecDeque<SliceId>,
    /// Requests of which more came, and when it did so last.
    more: HashMap<SliceId, u64>,
}

impl CallClaims {
    /// More came on the connection of a request before that was answered.
    pub fn more_came(&mut self, request: SliceId, now_ns: u64) {
        if self.more.len() < MAX_CALLS {
            self.more.insert(request, now_ns);
        }
    }

    /// One more call. Returns the oldest, if they are too many.
    pub fn add(&mut self, slice: SliceId, call: CallClaim) -> Option<(SliceId, CallClaim)> {
        self.all.insert(slice, call);
        self.order.push_back(slice);
        if self.order.len() <= MAX_CALLS {
            return None;
        }
        let oldest = self.order.pop_front()?;
        Some((oldest, self.all.remove(&oldest)?))
    }

    fn drain(&mut self) -> Vec<(SliceId, CallClaim)> {
        let order = std::mem::take(&mut self.order);
        let mut all = std::mem::take(&mut self.all);
        order.into_iter().filter_map(|call| Some((call, all.remove(&call)?))).collect()
    }
}

impl Follower {
    /// The recording ends: all calls get their verdicts.
    pub(in crate::follow) fn judge_all(&mut self) {
        for thread in self.persons.ids() {
            self.turns_over(thread);
        }
        self.look_ahead();
        for (call, claim) in self.calls.drain() {
            self.verdict(call, &claim);
        }
    }

    /// Finds who has clients that send ahead: calls for a request were made before all of it had come.
    fn look_ahead(&mut self) {
        let mut ahead: HashMap<SliceId, bool> =
            self.calls.more.keys().map(|request| (*request, false)).collect();
        for (call, claim) in &self.calls.all {
            let Some(from_ns) = self.store.get(*call).map(|slice| slice.from_ns) else { continue };
            for request in [claim.begun_by, claim.ended_for] {
                if self.calls.more.get(&request).is_some_and(|more_ns| from_ns < *more_ns) {
                    ahead.insert(request, true);
                }
            }
        }
        for (request, is_ahead) in ahead {
            let Some(thread) = self.store.get(request).map(|slice| slice.thread) else { continue };
            if let Some(turns) = self.turns(thread) {
                turns.trust.more_came(is_ahead);
            }
        }
    }

    /// The request that a call is of, or [`NONE`].
    fn request_of(&self, claim: &CallClaim) -> SliceId {
        let turns = self.persons.get(claim.thread).and_then(|person| person.turns.as_ref());
        let trust = turns.map(|turns| turns.trust).unwrap_or_default();
        // Who goes on at once with what it reads sends nothing else behind that.
        let begins = trust.begins() || turns.is_some_and(|turns| turns.pace.is_at_once());
        let [begun, ended, alone] = [claim.begun_by, claim.ended_for, claim.alone_with]
            .map(|slice| if slice == NONE { NONE } else { self.store.whole(slice) });
        let request = match (begun, ended) {
            _ if claim.is_late || claim.is_mixed => NONE,
            (begun, ended) if claim.is_shared && (begun == NONE || ended == NONE) => NONE,
            (NONE, NONE) if trust.begins() => alone,
            (begun, NONE) if begins => begun,
            (NONE, ended) if trust.ends() => ended,
            (begun, ended) if begun == ended => begun,
            _ => NONE,
        };
        let is_several = self.store.get(request).is_some_and(|request| request.is_several);
        if is_several && trust.is_ahead() { NONE } else { request }
    }

    /// What a call was taken for meanwhile gives way to what is known of it.
    pub(super) fn verdict(&mut self, call: SliceId, claim: &CallClaim) {
        let request = self.request_of(claim);
        let Some(slice) = self.store.get(call).copied() else { return };
        let known = if slice.cause == NONE { NONE } else { self.store.whole(slice.cause) };
        if known == request {
            return;
        }
        if known != NONE {
            self.store.undo(slice.cause, call);
        }
        if request != NONE {
            self.store.edge(Edge::of_thread(request, call, slice.key, slice.from_ns));
        }
    }
}

//! Whose requests and calls on connections are, as far as that is found later.

use super::{ConnectionRole, FollowedEnds, SliceEndReason, SlicePart, ThreadId};
use crate::follow::taken::Stint;
use crate::follow::{Follower, MAX_CHAIN};
use crate::slices::{NONE, SliceId};

/// So many calls that agree make up for one that does not.
const DISAGREES: u8 = 3;
const MOST_DOUBT: u8 = 12;

/// A request that another thread answers, or answered.
#[derive(Clone, Copy, Debug)]
struct ForeignRequest {
    id: SliceId,
    reader: ThreadId,
    done_by: Option<Stint>,
}

impl FollowedEnds {
    /// Requests on a connection that the threads that received them did not answer.
    fn requests(&self, place: u32) -> impl Iterator<Item = ForeignRequest> {
        let connection = self.all.get(place as usize).and_then(Option::as_ref);
        let opens = connection.into_iter().flat_map(|connection| &connection.opens);
        let asked = opens.filter(|open| open.role == ConnectionRole::Serves);
        asked.flat_map(|open| {
            let reader = open.thread;
            let by_reader = open.answered.as_ref().map(|_| (reader, u32::MAX));
            let of = move |part: &SlicePart| (part.id, part.done_by.or(by_reader));
            open.parts.iter().map(of).map(move |(id, done_by)| ForeignRequest {
                id,
                reader,
                done_by,
            })
        })
    }

    /// Another thread answered that one.
    fn done(&mut self, place: u32, request: SliceId, by: Stint) {
        let opens = self.get_mut(place).into_iter().flat_map(|connection| &mut connection.opens);
        if let Some(part) = opens.flat_map(|open| &mut open.parts).find(|part| part.id == request) {
            part.done_by = Some(by);
        }
    }

    /// Several requests use a connection at once.
    pub fn shares(&mut self, place: u32) {
        if let Some(connection) = self.get_mut(place) {
            connection.is_shared = true;
        }
    }

    /// What began a call and what ended it are of one request.
    pub fn agrees(&mut self, place: u32) {
        if let Some(connection) = self.get_mut(place) {
            connection.doubt = connection.doubt.saturating_sub(1);
        }
    }

    pub fn disagrees(&mut self, place: u32) {
        if let Some(connection) = self.get_mut(place) {
            connection.doubt = (connection.doubt + DISAGREES).min(MOST_DOUBT);
        }
    }

    /// Whether both have to agree, or nothing can be known.
    pub fn is_doubtful(&self, place: u32) -> bool {
        let connection = self.all.get(place as usize).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.is_shared || connection.doubt >= DISAGREES)
    }

    /// What a thread sent on a connection that is not answered.
    pub fn parts(&mut self, place: u32, thread: ThreadId) -> Vec<SliceId> {
        let open = self.open_mut(place, thread);
        open.into_iter().flat_map(|open| &open.parts).map(|part| part.id).collect()
    }

    pub fn is_shared(&self, place: u32) -> bool {
        let connection = self.all.get(place as usize).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.is_shared)
    }

    /// A part of a call has a cause, or has none; whether that is still waited for.
    pub fn give_part(
        &mut self,
        place: u32,
        thread: ThreadId,
        call: SliceId,
        cause: Option<SliceId>,
    ) -> bool {
        let Some(open) = self.open_mut(place, thread) else { return false };
        let is_answered = open.answered.is_some();
        let Some(part) = open.parts.iter_mut().find(|part| part.id == call) else { return false };
        part.cause = cause;
        !is_answered
    }

    /// An answer was received in that turn of a thread.
    pub fn answered_in(&mut self, place: u32, turn: u32) {
        if let Some(connection) = self.get_mut(place) {
            connection.answered_turn = Some(turn);
        }
    }

    pub fn answered_turn(&self, place: u32) -> Option<u32> {
        self.all.get(place as usize)?.as_ref()?.answered_turn
    }
}

impl Follower {
    /// A request on a connection on which several may have come at once is not known to be one.
    pub(super) fn is_several(&mut self, place: u32, request: Option<SliceId>) {
        let is_several = self.ends.get_mut(place).is_some_and(|connection| connection.is_several);
        if let Some(request) = request.filter(|_| is_several) {
            self.store.is_several(request);
        }
    }

    /// More came on a connection before what came last was answered: the rest of a request, or the next one.
    pub(super) fn more_came(
        &mut self,
        place: u32,
        now_ns: u64,
        (latest, begins): (Option<SliceId>, bool),
    ) {
        let open = self.ends.requests(place).filter(|request| request.done_by.is_none());
        let open: Vec<SliceId> = open.map(|request| request.id).collect();
        if begins && open.len() < 2 {
            self.is_several(place, latest);
            return;
        }
        if let Some(connection) = self.ends.get_mut(place) {
            connection.is_several = true;
        }
        for request in open {
            self.store.is_several(request);
            self.calls.more_came(request, now_ns);
        }
    }

    /// Requests that others answered are apart from one that the thread itself answers.
    pub(super) fn without_done(&mut self, place: u32, thread: ThreadId) {
        let Some(open) = self.ends.open_mut(place, thread) else { return };
        if open.parts.iter().all(|part| part.done_by.is_some()) {
            return;
        }
        let done: Vec<SlicePart> =
            open.parts.extract_if(.., |part| part.done_by.is_some()).collect();
        for part in done {
            self.part_over(thread, part, SliceEndReason::Over);
        }
    }

    /// A thread sends on a connection on which others received requests: the answer to the only one that is not answered.
    /// Then that is what it works on. Of several it may be any, and what is sent when all are answered is more of an
    /// answer, or was not asked for; so that which of two was the answer is not known.
    pub(super) fn answers(&mut self, place: u32, thread: ThreadId, current: Option<SliceId>) {
        let stint = self.stint(thread, place);
        let requests: Vec<ForeignRequest> = self.ends.requests(place).collect();
        let Some(latest) = requests.last().copied() else {
            self.answered_what_is_lost(thread);
            return;
        };
        let open: Vec<_> = requests.iter().filter(|request| request.done_by.is_none()).collect();
        let found = current.and_then(|current| self.found_in(current, &requests));
        let request = match (open.as_slice(), found) {
            // One that waits for events works on many in turn.
            (_, None) if self.has_turns(thread) => return,
            (_, Some(found)) if self.has_turns(thread) => found,
            ([], _) => {
                if latest.done_by != Some(stint) {
                    self.store.is_disputed(latest.id);
                    self.answered_twice(latest.reader);
                    self.answered_for(thread, NONE, thread);
                }
                return;
            }
            ([only], _) => **only,
            (several, _) => {
                let several: Vec<SliceId> = several.iter().map(|request| request.id).collect();
                for id in several {
                    self.store.is_disputed(id);
                    self.ends.done(place, id, stint);
                }
                self.answered_twice(latest.reader);
                latest
            }
        };
        self.ends.done(place, request.id, stint);
        self.answered_for(thread, request.id, request.reader);
        if let Some(person) = self.persons.get_mut(thread) {
            person.implicit.iter_mut().for_each(|of| of.served = Some(place));
        }
    }

    /// That of some requests which caused a slice.
    fn found_in(&self, slice: SliceId, requests: &[ForeignRequest]) -> Option<ForeignRequest> {
        let mut slice = slice;
        for _ in 0..MAX_CHAIN {
            let found = requests.iter().find(|request| self.store.whole(request.id) == slice);
            if let Some(found) = found {
                return Some(*found);
            }
            slice = self.store.whole(self.store.get(slice)?.cause);
        }
        None
    }
}

//! Whose requests and calls on connections are, as far as that is found later.

use super::{ConnectionRole, FollowedEnds, ThreadId};
use crate::follow::{Follower, MAX_CHAIN};
use crate::slices::{NONE, SliceId};

/// So many calls that agree make up for one that does not.
const DISAGREES: u8 = 3;
const MOST_DOUBT: u8 = 12;

impl FollowedEnds {
    /// Requests on a connection that are not answered, and whether another thread answered one.
    fn requests(&self, place: u32) -> impl Iterator<Item = (SliceId, bool)> {
        let connection = self.all.get(place as usize).and_then(Option::as_ref);
        let opens = connection.into_iter().flat_map(|connection| &connection.opens);
        let asked =
            opens.filter(|open| open.role == ConnectionRole::Serves && open.answered.is_none());
        asked.flat_map(|open| &open.parts).map(|part| (part.id, part.is_done))
    }

    /// Another thread answered that one.
    fn done(&mut self, place: u32, request: SliceId) {
        let opens = self.get_mut(place).into_iter().flat_map(|connection| &mut connection.opens);
        if let Some(part) = opens.flat_map(|open| &mut open.parts).find(|part| part.id == request) {
            part.is_done = true;
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
    /// A thread sends on a connection on which others received requests: the answer to the one that caused what it works on,
    /// else to the only one that is not answered. Then that is what it works on.
    pub(super) fn answers(&mut self, place: u32, thread: ThreadId, current: SliceId) {
        let requests: Vec<(SliceId, bool)> = self.ends.requests(place).collect();
        if requests.is_empty() {
            return;
        }
        let mut slice = current;
        let mut found = None;
        for _ in 0..MAX_CHAIN {
            found = requests.iter().find(|(id, _)| self.store.whole(*id) == slice);
            let Some(next) = self.store.get(slice).filter(|_| found.is_none()) else { break };
            slice = self.store.whole(next.cause);
        }
        let request = match found {
            Some((request, _)) => *request,
            // One that waits for events works on many in turn.
            None if self.has_turns(thread) => return,
            None => {
                let mut left = requests.iter().filter(|(_, is_done)| !is_done);
                match (left.next(), left.next()) {
                    (Some((request, _)), None) if *request != NONE => *request,
                    _ => return,
                }
            }
        };
        self.ends.done(place, request);
        self.answers_for(thread, request);
        if let Some(person) = self.persons.get_mut(thread)
            && let Some(of) = person.implicit.iter_mut().find(|known| known.id == current)
        {
            of.served = Some(place);
        }
    }
}

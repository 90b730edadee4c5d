//! How what threads do on connections ends: closed, left, lost, or with the recording.

use super::{Life, OngoingSlice, SliceEndReason, SlicePart, ThreadId};
use crate::counts::Missing;
use crate::follow::Follower;
use crate::slices::{Ended, SliceId};
use crate::tallies::TallyMark;

impl Follower {
    /// A connection is gone; who closed it, and when, where that was seen.
    pub(super) fn forget_end(&mut self, place: u32, by: Option<(ThreadId, &TallyMark)>) {
        if let Some((thread, mark)) = by {
            self.ends.bound(place, thread, mark);
        }
        let Some(connection) = self.ends.remove(place) else { return };
        let life = connection.life.as_ref().map(|life| life.thread);
        for thread in connection.opens.iter().map(|open| open.thread).chain(life) {
            if let Some(person) = self.persons.get_mut(thread) {
                person.ends.remove(&place);
                person.fresh.remove(&place);
            }
        }
        for open in connection.opens {
            self.turns_without(open.thread, place);
            self.open_over(open, SliceEndReason::Over);
        }
        self.life_over(connection.life, by);
    }

    pub(super) fn life_over(&mut self, life: Option<Life>, by: Option<(ThreadId, &TallyMark)>) {
        let Some(Life { thread, id, from, .. }) = life else { return };
        match by {
            Some((closer, mark)) if closer == thread => {
                self.close(thread, id, Ended::Explicit, &from, mark);
            }
            Some(_) => {
                self.store.drop(id);
                self.counts.closed_elsewhere += 1;
            }
            None => self.drop_unfinished(id),
        }
    }

    /// What a thread does on a connection is over.
    pub(super) fn over(&mut self, place: u32, thread: ThreadId, why: SliceEndReason) {
        if let Some(open) = self.ends.take_open(place, thread) {
            self.turns_without(thread, place);
            self.open_over(open, why);
        }
    }

    pub(super) fn open_over(&mut self, open: OngoingSlice, why: SliceEndReason) {
        let OngoingSlice { thread, parts, answered, is_mixed, .. } = open;
        let Some(to) = answered else {
            for part in parts {
                self.part_over(thread, part, why);
            }
            return;
        };
        let Some(first) = parts.first() else { return };
        if is_mixed {
            self.store.drop(first.id);
            self.counts.overlapping += 1;
        } else {
            self.close(thread, first.id, Ended::Explicit, &first.from, &to);
        }
    }

    /// A slice with one marker waits for an answer, or not any more.
    pub(in crate::follow) fn expects(&mut self, thread: ThreadId, slice: SliceId, begins: bool) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        if let Some(found) = person.implicit.iter_mut().find(|implicit| implicit.id == slice) {
            found.pending = match begins {
                true => found.pending.saturating_add(1),
                false => found.pending.saturating_sub(1),
            };
        }
    }

    /// A part without an answer: up to where the thread slept.
    pub(super) fn part_over(&mut self, thread: ThreadId, part: SlicePart, why: SliceEndReason) {
        if let Some(cause) = part.cause {
            self.expects(thread, cause, false);
        }
        match (part.bound, why) {
            (Some(bound), SliceEndReason::Over) => {
                self.close(thread, part.id, Ended::Implicit, &part.from, &bound);
            }
            (None, SliceEndReason::Over) => self.drop_unfinished(part.id),
            (_, SliceEndReason::Missing(missing)) => {
                self.store.drop(part.id);
                self.counts.give_up(missing);
            }
        }
    }

    /// A thread ends, and with it what it does on a connection.
    pub(in crate::follow) fn leave_end(&mut self, place: u32, thread: ThreadId, mark: &TallyMark) {
        self.ends.bound(place, thread, mark);
        self.over(place, thread, SliceEndReason::Over);
        let Some(connection) = self.ends.get_mut(place) else { return };
        let life = connection.life.take_if(|life| life.thread == thread);
        if let Some(Life { id, from, .. }) = life {
            self.close(thread, id, Ended::Implicit, &from, mark);
        }
    }

    /// Events of a thread are missing.
    pub(in crate::follow) fn lose_end(&mut self, place: u32, thread: ThreadId, missing: Missing) {
        self.over(place, thread, SliceEndReason::Missing(missing));
        let Some(connection) = self.ends.get_mut(place) else { return };
        if !connection.unsure.contains(&thread) {
            connection.unsure.push(thread);
        }
        if let Some(life) = connection.life.take_if(|life| life.thread == thread) {
            self.store.drop(life.id);
            self.counts.give_up(missing);
        }
    }

    pub(in crate::follow) fn end_ends(&mut self) {
        for place in 0..self.ends.all.len() as u32 {
            self.forget_end(place, None);
        }
    }
}

//! Threads that get requests from another thread, by a queue: which of what they took up was for which request.
//!
//! A thread takes up a piece of work when it is woken, or without that when it finds one, and may be woken for one and take
//! another. So what it did since it answered a request was for that which it answers next. A *stint* ends where it sleeps in
//! the queue: what was not answered until then is of no request that is known.
//!
//! Who answered a request is known where one thread alone sent something between that request and the next one on its
//! connection. Where another one did so, too, one of both sent what was not asked for; then what began a piece has to name
//! the same request. So has it behind lost events.

use super::persons::{Person, ThreadId};
use super::taken::{Stint, StintItem, Stints};
use super::{Follower, MAX_CHAIN};
use crate::marker::{Marker, MarkerRule};
use crate::slices::{Edge, NONE, Slice, SliceId};

/// What a thread did that waits for its verdict; the older half gets it first.
const MAX_ITEMS: usize = if cfg!(test) { 64 } else { 1 << 12 };
/// The same of a thread that answered none so far.
const FEW_ITEMS: usize = 64;
/// One in so many requests that several threads answered is much.
const MUCH: u32 = 16;
/// One in so many pieces of work may be of another request than what woke a thread for it.
const EXCEPTIONS: u32 = 50;

impl Follower {
    fn stints(&mut self, thread: ThreadId) -> Option<&mut Stints> {
        self.persons.get_mut(thread).map(|person| &mut person.stints)
    }

    /// A thread sends an answer, or more of one.
    pub(super) fn stint(&mut self, thread: ThreadId, place: u32) -> Stint {
        let Some(stints) = self.stints(thread) else { return (thread, 0) };
        if stints.answering != Some(place) {
            stints.answering = Some(place);
            stints.number = stints.number.wrapping_add(1);
        }
        (thread, stints.number)
    }

    /// A thread took up a piece of work.
    pub(super) fn took_piece(&mut self, thread: ThreadId, piece: SliceId) {
        if let Some(stints) = self.stints(thread) {
            stints.answering = None;
        }
        self.does(thread, StintItem::Piece(piece));
    }

    fn does(&mut self, thread: ThreadId, item: StintItem) {
        let Some(stints) = self.stints(thread) else { return };
        stints.items.push(item);
        let most = if stints.has_answered { MAX_ITEMS } else { FEW_ITEMS };
        if stints.items.len() > most {
            // What was taken up last there may be answered behind it.
            let mut older = stints.items.iter().take(most / 2);
            let settled = older.rposition(|item| !matches!(item, StintItem::Piece(_)));
            let count = settled.map_or(most / 2, |last| last + 1);
            self.judge_stint(thread, count);
        }
    }

    /// A thread sleeps until there is more work.
    pub(super) fn stint_ends(&mut self, thread: ThreadId) {
        if let Some(stints) = self.stints(thread) {
            stints.ends();
            stints.is_behind_loss = false;
        }
    }

    /// A thread answered a request that another one received; [`NONE`] where it is not known which.
    pub(super) fn answered_for(&mut self, thread: ThreadId, request: SliceId, reader: ThreadId) {
        if let Some(reader) = self.persons.get_mut(reader).filter(|_| request != NONE) {
            reader.answered = reader.answered.saturating_add(1);
        }
        let Some(stints) = self.stints(thread) else { return };
        stints.has_answered = true;
        let is_behind_loss = stints.is_behind_loss;
        // Without a piece before it, nothing is to be joined with it.
        if !matches!(stints.items.last(), None | Some(StintItem::Ends)) {
            self.does(thread, StintItem::Answer { request, reader, is_behind_loss });
        }
    }

    /// What it answered may have been received when events were lost.
    pub(super) fn answered_what_is_lost(&mut self, thread: ThreadId) {
        if self.losses > 0 {
            self.answered_for(thread, NONE, thread);
        }
    }

    /// Of the requests that a thread received, one was answered by two others, or by one at two times.
    pub(super) fn answered_twice(&mut self, reader: ThreadId) {
        if let Some(reader) = self.persons.get_mut(reader) {
            reader.answered_twice = reader.answered_twice.saturating_add(1);
        }
    }

    /// The recording ends: all that threads took up gets its verdict.
    pub(super) fn judge_stints(&mut self) {
        for thread in self.persons.ids() {
            self.judge_stint(thread, usize::MAX);
        }
    }

    /// Whether requests that a thread receives are often answered twice: clients send ahead, or are sent what they did not
    /// ask for.
    fn is_often_twice(&self, reader: ThreadId) -> bool {
        let is_often =
            |reader: &Person| reader.answered_twice > reader.answered / MUCH && reader.answered > 0;
        self.persons.get(reader).is_some_and(is_often)
    }

    /// Whether a request may be more than one, since clients send ahead.
    fn may_be_several(&self, request: &Slice, reader: ThreadId) -> bool {
        request.is_several && self.is_often_twice(reader)
    }

    /// Whether it is known that a thread answered a request.
    fn is_certain(&self, request: SliceId, reader: ThreadId) -> bool {
        self.store.get(request).is_some_and(|request| {
            let is_behind_loss = self.losses > 0 && self.is_often_twice(reader);
            !(request.is_disputed || is_behind_loss || self.may_be_several(request, reader))
        })
    }

    /// Whether what began a piece of work names one request.
    fn is_begun_by_one(&self, piece: SliceId) -> bool {
        let mut slice = self.store.whole(piece);
        for _ in 0..MAX_CHAIN {
            let Some(found) = self.store.get(slice) else { return true };
            if matches!(found.marker, Marker::Receive(_)) {
                return !self.may_be_several(found, found.thread);
            }
            slice = self.store.whole(found.cause);
        }
        false
    }

    /// The first of what a thread did get their verdict.
    fn judge_stint(&mut self, thread: ThreadId, count: usize) {
        let Some(stints) = self.stints(thread) else { return };
        let count = count.min(stints.items.len());
        let items: Vec<StintItem> = stints.items.drain(..count).collect();
        if !stints.has_answered {
            return;
        }
        let answered = self.answered_pieces(&items);
        let (mut agreed, mut disagreed) = (0, 0);
        for (piece, request, is_sure) in &answered {
            if *is_sure {
                let is_same = self.is_caused_by(*piece, *request);
                (agreed, disagreed) =
                    (agreed + u32::from(is_same), disagreed + u32::from(!is_same));
            }
        }
        let has_losses = self.losses > 0;
        let Some(stints) = self.stints(thread) else { return };
        stints.agreed = stints.agreed.saturating_add(agreed);
        stints.disagreed = stints.disagreed.saturating_add(disagreed);
        let is_shown = stints.agreed > 0 || !has_losses;
        let is_woken_for_it = is_shown && stints.disagreed <= stints.agreed / EXCEPTIONS;
        for (piece, request, is_sure) in answered {
            self.store.is_asked(piece);
            let is_same = request != NONE && self.is_caused_by(piece, request);
            if is_same || (request == NONE && is_woken_for_it && self.is_begun_by_one(piece)) {
                continue;
            }
            self.piece_is_of(piece, if is_sure { request } else { NONE });
        }
    }

    /// Each piece of work with the request that was answered behind it, or [`NONE`], and whether that says enough.
    fn answered_pieces(&self, items: &[StintItem]) -> Vec<(SliceId, SliceId, bool)> {
        let mut answered = Vec::new();
        let (mut own, mut earlier): (Vec<SliceId>, Vec<SliceId>) = (Vec::new(), Vec::new());
        for item in items {
            match *item {
                StintItem::Piece(piece) => own.push(piece),
                StintItem::Answer { request, reader, is_behind_loss }
                    if self.is_certain(request, reader) =>
                {
                    let sure = own.drain(..).map(|piece| (piece, request, !is_behind_loss));
                    answered.extend(sure);
                    answered.extend(earlier.drain(..).map(|piece| (piece, request, false)));
                }
                StintItem::Answer { .. } => earlier.append(&mut own),
                StintItem::Ends => {
                    let left = own.drain(..).chain(earlier.drain(..));
                    answered.extend(left.map(|piece| (piece, NONE, false)));
                }
            }
        }
        answered.extend(own.into_iter().chain(earlier).map(|piece| (piece, NONE, false)));
        answered
    }

    /// A piece of work was for a request, or is not known to be for one.
    fn piece_is_of(&mut self, piece: SliceId, request: SliceId) {
        let Some(slice) = self.store.get(piece).copied() else { return };
        if slice.cause != NONE {
            self.store.undo(slice.cause, piece);
        }
        let Some(found) = self.store.get(request).copied() else { return };
        if found.from_ns <= slice.from_ns {
            let from = (request, found.from_ns);
            let edge = Edge::new(MarkerRule::Answer, from, (piece, slice.from_ns), found.key);
            self.store.edge(Edge { opens: true, ..edge });
        }
    }
}

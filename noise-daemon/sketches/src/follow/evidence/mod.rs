//! Who works on what in a thread that waits for events of many connections: its latest communication does not say so.
//!
//! Such a thread reads what is ready, and goes on with each of it in this order: at once, when it has read all, or in one
//! of its next turns. So what it sends is joined with what it read by the order of both, where that leaves one way only.
//! An answer says whose it is, by its connection. The answer to a call came for the request that is answered next; where
//! that is known, it is known for which request the call was, also if nothing said so when it was made: a connection of
//! a pool is one request's from the call to the answer. What is found meanwhile is what a thread goes on with; the
//! [verdict](claims) comes at the end.

pub(super) mod claims;
mod order;
mod pace;
mod trust;
pub(super) mod turns;

use self::claims::CallClaim;
use self::order::pairs;
use self::pace::MOST_TURNS;
use self::turns::{DOUBTFUL_TURNS, LoopTurns, Read, SentKind, TurnSend};
use super::Follower;
use super::persons::ThreadId;
use crate::slices::{Edge, NONE, SliceId};

/// How far calls of one request are gone back.
const MAX_CHAIN: usize = 64;

/// What speaks for a send to be of a read: an answer counts more than all that is not one, and among answers those
/// whose request is known to be the same.
const ANSWER: u64 = 1 << 32;
const AGREES: u64 = 1 << 16;
const CALL: u64 = 1;

/// A call that was made.
#[derive(Clone, Copy, Debug)]
struct Claim {
    call: SliceId,
    place: u32,
    /// The slice that it was given to at once, or [`NONE`].
    given: SliceId,
    /// What it is found to be of is not just likely.
    is_sure: bool,
}

impl Follower {
    fn turns(&mut self, thread: ThreadId) -> Option<&mut LoopTurns> {
        self.persons.get_mut(thread)?.turns.as_deref_mut()
    }

    /// Whether a thread waits for events of many connections.
    pub(super) fn has_turns(&self, thread: ThreadId) -> bool {
        self.persons.get(thread).is_some_and(|person| person.turns.is_some())
    }

    /// A thread looks for events, and what it sends from then on is of another turn.
    pub(super) fn turn(&mut self, thread: ThreadId) {
        self.judge(thread);
        let Some(person) = self.persons.get_mut(thread) else { return };
        let turns = person.turns.get_or_insert_default();
        turns.turn += 1;
        turns.doubts = turns.doubts.saturating_sub(1);
        let turn = turns.turn;
        turns.pace.begins(turn);
        turns.reads.retain(|read| turn - read.turn <= MOST_TURNS);
    }

    /// What a thread of events read and sent last, is all.
    fn turns_over(&mut self, thread: ThreadId) {
        if self.has_turns(thread) {
            self.judge(thread);
        }
    }

    /// It sleeps until there are any: it has gone on with all that it read.
    pub(super) fn rests(&mut self, thread: ThreadId) {
        self.judge(thread);
        if let Some(turns) = self.turns(thread) {
            turns.turn += MOST_TURNS + 1;
            turns.reads.clear();
            turns.pace.rests();
        }
    }

    /// Events of a thread were lost.
    pub(super) fn lose_turns(&mut self, thread: ThreadId) {
        if let Some(turns) = self.turns(thread) {
            let (turn, pace) = (turns.turn + MOST_TURNS + 1, std::mem::take(&mut turns.pace));
            let mut trust = turns.trust;
            trust.is_behind_loss = true;
            *turns =
                LoopTurns { turn, pace, trust, doubts: DOUBTFUL_TURNS, ..LoopTurns::default() };
            turns.pace.rests();
        }
    }

    /// A thread read something to go on with.
    pub(super) fn took_up(
        &mut self,
        thread: ThreadId,
        work: Option<SliceId>,
        call: Option<SliceId>,
    ) {
        self.judge(thread);
        let Some(turns) = self.turns(thread) else { return };
        let (work, call) = (work.unwrap_or(NONE), call.unwrap_or(NONE));
        turns.bound();
        // The rest of what came in parts.
        turns.reads.retain(|read| (read.work, read.call) != (work, call) || call == work);
        let read = Read { work, call, turn: turns.turn, is_past: false };
        turns.reads.push(read);
        turns.pace.reads(read.turn);
        let now =
            turns.reads.iter().rev().take_while(|read| read.turn == turns.turn && !read.is_past);
        let mut now = now.map(|read| read.work);
        let last = now.next();
        if now.any(|work| Some(work) != last)
            && let Some(person) = self.persons.get_mut(thread)
        {
            person.current = None;
        }
    }

    /// A request came to a thread.
    pub(super) fn took_request(&mut self, thread: ThreadId, place: u32, request: SliceId) {
        if let Some(turns) = self.turns(thread) {
            turns.requests.insert(place);
            self.took_up(thread, Some(request), None);
        }
    }

    /// What is under way on a connection is over.
    pub(super) fn turns_without(&mut self, thread: ThreadId, place: u32) {
        if let Some(turns) = self.turns(thread) {
            turns.requests.remove(&place);
            turns.calls.remove(&place);
        }
    }

    /// The answer to a call came: what the thread goes on with. A request that is answered already did not wait for it.
    pub(super) fn took_answer(
        &mut self,
        thread: ThreadId,
        place: u32,
        call: SliceId,
        cause: Option<SliceId>,
    ) -> Option<SliceId> {
        self.judge(thread);
        let Some(turns) = self.turns(thread) else { return cause };
        let (is_first, turn) = (turns.calls.remove(&place), turns.turn);
        self.ends.answered_in(place, turn);
        if !is_first {
            return cause;
        }
        let cause = self.store.get(call).map(|call| call.cause).filter(|cause| *cause != NONE);
        match cause.filter(|cause| self.store.is_answered(*cause)) {
            Some(of) => {
                self.give_call(place, call, of, None);
                if let Some(known) = self.calls.all.get_mut(&call) {
                    known.is_late = true;
                }
                None
            }
            None => cause,
        }
    }

    /// The slice that what a thread sends now must be of, whatever comes after it.
    pub(super) fn goes_on_with(&self, thread: ThreadId, place: u32) -> Option<SliceId> {
        let turns = self.persons.get(thread)?.turns.as_ref()?;
        let candidates = turns.candidates();
        let mut works = candidates.iter().filter_map(|place| turns.reads.get(*place));
        let first = *works.next()?;
        let is_same = works.all(|read| read.work == first.work);
        let is_after_answer = turns.sends.iter().any(|sent| sent.kind == SentKind::Answer);
        let idle = turns.requests.len().saturating_sub(turns.calls.len());
        let is_warm = self.is_warm(turns, place) && (idle > turns.pending() || turns.doubts > 0);
        let work = self.open(Some(first.work).filter(|work| *work != NONE))?;
        let is_warm = is_warm || self.ends.is_doubtful(place);
        (is_same && !is_after_answer && !is_warm).then_some(work)
    }

    /// Whether a connection was another call's just before.
    fn is_warm(&self, turns: &LoopTurns, place: u32) -> bool {
        let answered = self.ends.answered_turn(place);
        answered.is_some_and(|turn| turns.turn.saturating_sub(turn) <= MOST_TURNS)
    }

    /// What a thread sent last, where it read nothing since.
    pub(super) fn last_sent(&self, thread: ThreadId) -> Option<SliceId> {
        Some(self.persons.get(thread)?.turns.as_ref()?.sends.last()?.slice)
    }

    /// A thread sent a call, or more of it.
    pub(super) fn sent_call(
        &mut self,
        thread: ThreadId,
        place: u32,
        call: SliceId,
        (cause, made_for): (Option<SliceId>, Option<SliceId>),
    ) {
        let turns = self.persons.get(thread).and_then(|person| person.turns.as_ref());
        let Some(turns) = turns.filter(|_| self.last_sent(thread) != Some(call)) else { return };
        let is_single = !turns.calls.contains(&place);
        // Between a call and its answer a connection is one request's: more calls at once say that this one is not.
        let kind = SentKind::Call {
            place,
            cause: cause.unwrap_or(NONE),
            idle: turns.requests.len().saturating_sub(turns.calls.len()),
            is_alone: turns.requests.len() <= 1 && turns.doubts == 0,
            is_warm: self.is_warm(turns, place),
        };
        let has_requests = !turns.requests.is_empty();
        if let Some(turns) = self.turns(thread) {
            turns.bound();
            turns.calls.insert(place);
            turns.sends.push(TurnSend { slice: call, kind });
        }
        if has_requests {
            self.store.is_asked(call);
        }
        if !is_single {
            self.ends.shares(place);
        }
        let (before, ended_for, alone_with) = (NONE, NONE, NONE);
        let begun_by = made_for.unwrap_or(NONE);
        let (is_late, is_mixed, is_shared) = (false, !is_single, self.ends.is_shared(place));
        let claim = CallClaim {
            thread,
            place,
            before,
            begun_by,
            is_made_for: begun_by != NONE,
            ended_for,
            alone_with,
            is_late,
            is_mixed,
            is_shared,
        };
        if !is_single {
            for other in self.ends.parts(place, thread) {
                if let Some(known) = self.calls.all.get_mut(&other) {
                    known.is_mixed = true;
                }
            }
        }
        if let Some((oldest, claim)) = self.calls.add(call, claim) {
            self.verdict(oldest, &claim);
        }
    }

    /// A thread sent the answer to a request, for the first time or again.
    pub(super) fn sent_answer(
        &mut self,
        thread: ThreadId,
        place: u32,
        (request, is_first): (SliceId, bool),
    ) {
        let is_more = self.last_sent(thread) == Some(request);
        let Some(turns) = self.turns(thread) else { return };
        turns.bound();
        turns.requests.remove(&place);
        match is_first {
            _ if is_more => {}
            true => turns.sends.push(TurnSend { slice: request, kind: SentKind::Answer }),
            // Nothing was read behind the answer before: it is more of that, or that of another request.
            false => turns.trust.answers_again(),
        }
    }

    /// How much speaks for a send to be of a read.
    fn fit(&self, read: &Read, sent: &TurnSend) -> u64 {
        let whole = |slice: SliceId| self.store.whole(slice);
        let cause = |call: SliceId| self.store.get(call).map_or(NONE, |call| whole(call.cause));
        match sent.kind {
            SentKind::Answer if read.call == NONE => {
                if whole(read.work) == sent.slice {
                    ANSWER + AGREES
                } else {
                    0
                }
            }
            SentKind::Answer => {
                let from = |slice: SliceId| self.store.get(slice).map(|slice| slice.from_ns);
                let is_within = from(sent.slice) <= from(read.call);
                let agrees = if cause(read.call) == sent.slice { AGREES } else { 0 };
                if is_within { ANSWER + agrees } else { 0 }
            }
            SentKind::Call { cause: NONE, .. } => CALL,
            SentKind::Call { cause: known, .. } => {
                let work = if read.call == NONE { whole(read.work) } else { cause(read.call) };
                if work == NONE || work == whole(known) { CALL } else { 0 }
            }
        }
    }

    /// Joins what a thread sent with what it read before.
    fn judge(&mut self, thread: ThreadId) {
        let Some(turns) = self.turns(thread).filter(|turns| !turns.sends.is_empty()) else {
            return;
        };
        let sends = std::mem::take(&mut turns.sends);
        let candidates = turns.candidates();
        let mut reads: Vec<Read> =
            candidates.iter().filter_map(|place| turns.reads.get(*place)).copied().collect();
        let (turn, pending) = (turns.turn, turns.pending());
        let is_now = |read: &&Read| read.turn == turn && !read.is_past;
        let behind = turns.reads.iter().filter(is_now).count();
        turns.reads.iter_mut().for_each(|read| read.is_past = true);
        // Where others may wait for a connection, one that was just used is theirs.
        let is_theirs = |(number, sent): (usize, &TurnSend)| match sent.kind {
            SentKind::Call { idle, is_warm, .. } => {
                is_warm && idle > pending.saturating_sub(number)
            }
            SentKind::Answer => false,
        };
        let theirs: Vec<bool> = sends.iter().enumerate().map(is_theirs).collect();
        let own = theirs.iter().filter(|theirs| !**theirs).count();
        turns.pace.sends(turn, sends.len(), behind);
        if behind > 0 && turns.pace.is_at_once() {
            reads.drain(..reads.len().saturating_sub(1));
        } else {
            turns.pace.compares(reads.len(), own, behind > 0);
        }
        let is_single = behind > 0 && reads.len() == 1;
        let has_doubts = turns.doubts > 0;
        let is_sure = (is_single || turns.pace.is_regular()) && !has_doubts;
        let is_wild = has_doubts || (!is_single && turns.pace.is_wild());
        let all_calls = sends.iter().all(|sent| sent.kind != SentKind::Answer);
        let of = |answers_alone: bool| {
            pairs(reads.len(), sends.len(), |read, send| {
                match (reads.get(read), sends.get(send), theirs.get(send)) {
                    (Some(_), Some(TurnSend { kind: SentKind::Call { .. }, .. }), _)
                        if answers_alone =>
                    {
                        0
                    }
                    (Some(read), Some(sent), Some(false)) => self.fit(read, sent),
                    _ => 0,
                }
            })
        };
        let mut only = match reads.len() {
            // What goes on at once may make several calls.
            1 if all_calls && behind > 0 => {
                theirs.iter().map(|theirs| (!theirs).then_some(0)).collect()
            }
            _ => of(false),
        };
        if !is_sure && !all_calls {
            // Calls that are of nothing that was read say nothing of whose the answers are.
            for ((place, answer), sent) in only.iter_mut().zip(of(true)).zip(&sends) {
                if sent.kind == SentKind::Answer {
                    *place = answer;
                }
            }
        }
        if let Some(turns) = self.turns(thread).filter(|_| !has_doubts) {
            for ((sent, place), is_theirs) in sends.iter().zip(&only).zip(&theirs) {
                match sent.kind {
                    SentKind::Answer => turns.trust.answers(place.is_none()),
                    SentKind::Call { .. } if *is_theirs => {}
                    SentKind::Call { .. } => turns.trust.calls(place.is_none()),
                }
            }
        }
        for (sent, place) in sends.iter().zip(only) {
            let read = place.and_then(|place| reads.get(place)).copied();
            match sent.kind {
                SentKind::Answer => {
                    let Some(read) = read else { continue };
                    let agrees = self.fit(&read, sent) >= ANSWER + AGREES;
                    if let Some(turns) = self.turns(thread) {
                        turns.pace.answers(turn - read.turn);
                        if behind > 1 && reads.len() > 1 && agrees {
                            turns.pace.is_of_last(reads.last() == Some(&read));
                        }
                    }
                    if read.call != NONE {
                        self.settle(read.call, sent.slice, is_wild);
                    }
                }
                SentKind::Call { place, cause, is_alone, .. } => {
                    let claim = Claim { call: sent.slice, place, given: cause, is_sure };
                    self.begun_by(&claim, read, is_alone);
                }
            }
            if let (Some(read), Some(turns)) = (read, self.turns(thread)) {
                turns.reads.retain(|other| *other != Read { is_past: true, ..read });
            }
        }
    }

    /// A call is of what was read; or that is not known.
    fn begun_by(&mut self, claim: &Claim, read: Option<Read>, is_alone: bool) {
        let &Claim { call, place, given, is_sure } = claim;
        let work = read.map_or(NONE, |read| match read.call {
            NONE => read.work,
            before => self.store.get(before).map_or(NONE, |before| before.cause),
        });
        let work = self.open(Some(work).filter(|work| *work != NONE));
        let work = work.filter(|work| !self.store.is_answered(*work));
        if let (Some(read), Some(known)) = (read, self.calls.all.get_mut(&call)) {
            known.before = if is_sure { read.call } else { NONE };
            if !known.is_made_for {
                known.begun_by = work.unwrap_or(NONE);
            }
        } else if let Some(known) = self.calls.all.get_mut(&call).filter(|_| is_alone) {
            known.alone_with = given;
        }
        let is_known = read.is_some() && is_sure;
        if given != NONE && !is_known && !is_alone {
            self.give_call(place, call, given, None);
        }
        if given == NONE
            && is_known
            && !self.ends.is_doubtful(place)
            && let Some(work) = work
        {
            self.give_call(place, call, NONE, Some(work));
        }
    }

    /// The answer to a call came for a request: so that call, and those before it, were for it.
    fn settle(&mut self, call: SliceId, request: SliceId, has_doubts: bool) {
        let mut call = call;
        for _ in 0..MAX_CHAIN {
            let Some(known) = self.calls.all.get(&call).copied() else { return };
            let Some(slice) = self.store.get(call).copied() else { return };
            let from_ns = self.store.get(request).map_or(u64::MAX, |request| request.from_ns);
            if known.is_mixed || from_ns > slice.from_ns {
                return;
            }
            let begun_by = if slice.cause == NONE { known.begun_by } else { slice.cause };
            let is_doubtful = has_doubts || self.ends.is_doubtful(known.place);
            if let Some(claim) = self.calls.all.get_mut(&call) {
                claim.ended_for = request;
            }
            if begun_by != NONE {
                let is_same = self.store.whole(begun_by) == request;
                if let Some(turns) = self.turns(known.thread).filter(|turns| turns.doubts == 0) {
                    turns.trust.agrees(is_same);
                }
            }
            match self.store.whole(begun_by) {
                begun_by if begun_by == request => self.ends.agrees(known.place),
                NONE => {}
                // What began it says something else.
                _ => {
                    self.ends.disagrees(known.place);
                    if slice.cause != NONE {
                        self.give_call(known.place, call, slice.cause, None);
                    }
                    call = known.before;
                    continue;
                }
            }
            if slice.cause == request {
                return;
            }
            if slice.cause == NONE && (begun_by != NONE || !is_doubtful) {
                self.give_call(known.place, call, NONE, Some(request));
            }
            call = known.before;
        }
    }

    /// A call gets a cause, or loses it.
    fn give_call(&mut self, place: u32, call: SliceId, old: SliceId, cause: Option<SliceId>) {
        let Some(slice) = self.store.get(call).copied() else { return };
        if old != NONE {
            self.store.undo(old, call);
        }
        if self.ends.give_part(place, slice.thread, call, cause) {
            if old != NONE {
                self.expects(slice.thread, old, false);
            }
            if let Some(cause) = cause {
                self.expects(slice.thread, cause, true);
            }
        }
        if let Some(cause) = cause {
            self.store.edge(Edge::of_thread(cause, call, slice.key, slice.from_ns));
        }
    }

    pub(super) fn is_caused_by(&self, slice: SliceId, request: SliceId) -> bool {
        let mut slice = self.store.whole(slice);
        for _ in 0..MAX_CHAIN {
            if slice == self.store.whole(request) {
                return true;
            }
            let Some(found) = self.store.get(slice) else { return false };
            slice = self.store.whole(found.cause);
        }
        false
    }
}

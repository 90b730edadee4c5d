//! What a thread of events read and sent, by the turns of its loop.

use foldhash::HashSet;

use super::pace::LoopPace;
use super::trust::LoopTrust;
use crate::slices::SliceId;

/// Turns after lost events in which both the begin and the end of a call have to say whose it is.
pub(super) const DOUBTFUL_TURNS: u8 = 8;
/// The most reads and sends of one turn that are kept. A turn with more joins nothing.
const MAX_OF_TURN: usize = 256;

/// What a thread took up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The slice to go on with; [`NONE`] where that is not known.
    pub(super) work: SliceId,
    /// The call to which it is the answer, or [`NONE`].
    pub(super) call: SliceId,
    pub(super) turn: u32,
    /// Something was sent since.
    pub(super) is_past: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentKind {
    Call {
        place: u32,
        /// The slice that it was given to at once, or [`NONE`].
        cause: SliceId,
        /// Requests of which none is known that they wait for an answer.
        idle: usize,
        /// There was one request alone.
        is_alone: bool,
        /// Its connection was another request's just before.
        is_warm: bool,
    },
    Answer,
}

#[derive(Clone, Copy, Debug)]
pub struct TurnSend {
    /// The call, or the request that is answered.
    pub(super) slice: SliceId,
    pub(super) kind: SentKind,
}

/// What a thread does between its waits for events.
#[derive(Clone, Debug, Default)]
pub struct LoopTurns {
    pub(super) turn: u32,
    pub(super) reads: Vec<Read>,
    pub(super) sends: Vec<TurnSend>,
    /// By their places, connections with a request that is not answered, and those with a call that is not.
    pub(super) requests: HashSet<u32>,
    pub(super) calls: HashSet<u32>,
    pub(super) pace: LoopPace,
    pub(super) trust: LoopTrust,
    /// For so many turns, what was under way when events were lost may go on.
    pub(super) doubts: u8,
}

impl LoopTurns {
    /// Drops a turn that has too many reads or sends: it could not join any, and would grow without end.
    pub(super) fn bound(&mut self) {
        if self.reads.len() >= MAX_OF_TURN || self.sends.len() >= MAX_OF_TURN {
            self.reads.clear();
            self.sends.clear();
            self.doubts = DOUBTFUL_TURNS;
        }
    }

    /// How much of what was read goes on now, or will do so.
    pub(super) fn pending(&self) -> usize {
        let is_now = |read: &&Read| read.turn == self.turn && !read.is_past;
        match self.reads.iter().filter(is_now).count() {
            0 => self.reads.iter().filter(|read| self.pace.comes(self.turn - read.turn)).count(),
            now => now,
        }
    }

    /// Places of what may go on now.
    pub(super) fn candidates(&self) -> Vec<usize> {
        let is_now = |read: &Read| read.turn == self.turn && !read.is_past;
        let in_turn = self.reads.iter().any(is_now);
        let goes_on =
            |read: &Read| self.pace.is_usual(self.turn - read.turn) && (!in_turn || is_now(read));
        let all = self.reads.iter().enumerate().filter(|(_, read)| goes_on(read));
        all.map(|(place, _)| place).collect()
    }
}

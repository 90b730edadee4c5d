//! Slices and edges while they are being made, and what they are about.

use std::fmt;

use foldhash::HashMap;

use crate::input::{Endpoint, Local, Protocol};
use crate::marker::{Family, Marker, MarkerRule};
use crate::tallies::{Idle, Profiles};

pub type SliceId = u32;
pub const NONE: SliceId = u32::MAX;

/// Slices that are held: about three quarters of a gigabyte with their edges.
pub const MAX_SLICES: usize = if cfg!(test) { 1 << 16 } else { 6 << 20 };
/// Edges that are held.
const MAX_EDGES: usize = 2 * MAX_SLICES;
/// Most keys of slices that are kept.
const MAX_KEYS: usize = 1 << 20;
/// Elements of a piece of a long list.
const PIECE: usize = 1 << 14;

/// A list that grows without being copied.
#[derive(Clone, Debug)]
pub struct Long<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Long<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> Long<T> {
    pub fn len(&self) -> usize {
        let last = self.pieces.last().map_or(0, Vec::len);
        self.pieces.len().saturating_sub(1) * PIECE + last
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn push(&mut self, value: T) {
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push(value),
            None => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(value);
                self.pieces.push(piece);
            }
        }
    }

    pub fn get(&self, place: usize) -> Option<&T> {
        self.pieces.get(place / PIECE)?.get(place % PIECE)
    }

    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.pieces.get_mut(place / PIECE)?.get_mut(place % PIECE)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// All, each piece given back once it was gone over.
    pub fn drain(self) -> impl Iterator<Item = T> {
        self.pieces.into_iter().flatten()
    }
}

/// Where a slice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Open,
    Kept,
    Dropped,
    /// It is a part of another one.
    Merged(SliceId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With the other marker of the pair.
    Explicit,
    /// With the last communication before the thread slept in another one.
    Implicit,
}

impl Ended {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Implicit => "implicit",
        }
    }
}

/// Events of one thread between two boundaries.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The thread, by its place.
    pub thread: u32,
    /// What it is about, by its place.
    pub key: u32,
    pub marker: Marker,
    pub ended: Ended,
    pub state: State,
    /// Its system calls, by the place of their combination: [`UNKNOWN`](crate::tallies::UNKNOWN) where that is not kept.
    pub profile: u32,
    pub cause: SliceId,
    /// A call of a thread that had requests under way, or work that a thread got from others that receive requests.
    pub is_asked: bool,
    /// A request that came in several reads, or behind such a one on its connection: it may be more than one.
    pub is_several: bool,
    /// Who answered it is not known.
    pub is_disputed: bool,
    /// The cluster that it is in, from 0 on; [`NONE`] where it is in none.
    pub cluster: u32,
    /// Stretches without a CPU: how many.
    pub idle_count: u32,
    pub idle_ns: u64,
    /// Their variance, square nanoseconds.
    pub idle_variance: f64,
    /// From then on, nanoseconds since the epoch.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Its latency without that of the tiers that it waited for, nanoseconds.
    pub true_latency_ns: u64,
}

impl Slice {
    /// One of which nothing else is known yet.
    pub const fn begins(marker: Marker, thread: u32, key: u32, from_ns: u64) -> Self {
        Self {
            thread,
            key,
            marker,
            ended: Ended::Implicit,
            state: State::Open,
            profile: 0,
            cause: NONE,
            is_asked: false,
            is_several: false,
            is_disputed: false,
            cluster: NONE,
            idle_count: 0,
            idle_ns: 0,
            idle_variance: 0.0,
            from_ns,
            to_ns: from_ns,
            true_latency_ns: 0,
        }
    }

    pub const fn latency_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// The mean of its stretches without a CPU, nanoseconds.
    pub fn idle_mean_ns(&self) -> f64 {
        self.idle_ns as f64 / f64::from(self.idle_count.max(1))
    }
}

/// One slice caused another, or went on in it.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The one that caused.
    pub from: SliceId,
    pub to: SliceId,
    /// How that is known.
    pub rule: MarkerRule,
    /// The other one began with it.
    pub opens: bool,
    /// It also woke the other one's thread.
    pub woke: bool,
    /// Both are of one sketch: it opens the other one, or goes back to what it came from. Else it is of another piece of work
    /// that this one waited for, as for a lock.
    pub joins: bool,
    /// What it went over, by its place.
    pub key: u32,
    /// Bytes that say so, or how much was posted.
    pub bytes: u32,
    /// When it was sent, nanoseconds since the epoch.
    pub sent_ns: u64,
    pub received_ns: u64,
}

impl Edge {
    /// From one slice at a time to another.
    pub(crate) const fn new(
        rule: MarkerRule,
        (from, sent_ns): (SliceId, u64),
        (to, received_ns): (SliceId, u64),
        key: u32,
    ) -> Self {
        let (opens, woke, joins, bytes) = (false, false, false, 0);
        Self { from, to, rule, opens, woke, joins, key, bytes, sent_ns, received_ns }
    }

    /// A thread begins another slice at work on one.
    pub(crate) const fn of_thread(from: SliceId, to: SliceId, key: u32, at_ns: u64) -> Self {
        Self { opens: true, ..Self::new(MarkerRule::Thread, (from, at_ns), (to, at_ns), key) }
    }
}

/// What a slice is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key {
    End(Endpoint),
    Local(Local),
    Thread(i32),
    /// One of those that are too many.
    Other,
}

impl Key {
    pub fn ports(&self) -> [Option<u16>; 2] {
        match self {
            Self::End(end) => [end.local, end.remote].map(|end| end.map(|end| end.port())),
            _ => [None, None],
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End(Endpoint { protocol, id, local, remote, .. }) => {
                let family = Family::from(*protocol).name();
                match (local, remote) {
                    (Some(local), Some(remote)) => write!(f, "{family} {local} {remote}"),
                    (Some(local), None) => write!(f, "{family} {local}"),
                    (None, Some(remote)) => write!(f, "{family} to {remote}"),
                    (None, None) => write!(f, "{family} {id}"),
                }
            }
            Self::Local(Local::Pipe { inode, superblock: 0 }) => write!(f, "pipe {inode}"),
            Self::Local(Local::Pipe { inode, superblock }) => {
                write!(f, "pipe {superblock}:{inode}")
            }
            Self::Local(Local::Queue(id)) => write!(f, "queue {id}"),
            Self::Local(Local::Semaphore(id)) => write!(f, "semaphore {id}"),
            Self::Local(Local::Eventfd(id)) => write!(f, "eventfd {id}"),
            Self::Local(Local::Futex { space, address }) => write!(f, "futex {space}:{address:#x}"),
            Self::Local(Local::Signal { pid, number }) => write!(f, "signal {number} to {pid}"),
            Self::Local(Local::Child) => write!(f, "child"),
            Self::Thread(tid) => write!(f, "thread {tid}"),
            Self::Other => write!(f, "other"),
        }
    }
}

/// Whether a socket's messages stay whole, for the rule that joins them.
pub const fn rule_of(protocol: Protocol) -> MarkerRule {
    if protocol.has_messages() { MarkerRule::Message } else { MarkerRule::Bytes }
}

#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Slices by their numbers.
    pub slices: Long<Slice>,
    pub edges: Long<Edge>,
    pub keys: Vec<Key>,
    locals: HashMap<(u16, Local), u32>,
    pub profiles: Profiles,
    /// Slices that were too many.
    pub left_out: u64,
    /// Edges that were too many.
    pub edges_left_out: u64,
    /// Slices whose first cause turned out wrong, with the cause that was found since, or [`NONE`].
    pub corrected: HashMap<SliceId, SliceId>,
}

impl Store {
    /// A slice begins; [`NONE`] where there are too many.
    pub fn open(&mut self, marker: Marker, thread: u32, key: u32, from_ns: u64) -> SliceId {
        if self.slices.len() >= MAX_SLICES {
            self.left_out += 1;
            return NONE;
        }
        let id = self.slices.len() as SliceId;
        self.slices.push(Slice::begins(marker, thread, key, from_ns));
        id
    }

    pub fn close(
        &mut self,
        id: SliceId,
        ended: Ended,
        to_ns: u64,
        idle: &Idle,
        calls: Vec<(u16, u32)>,
    ) {
        let profile = self.profiles.place(calls);
        if let Some(slice) = self.get_mut(id) {
            slice.state = State::Kept;
            slice.ended = ended;
            slice.to_ns = to_ns.max(slice.from_ns);
            slice.profile = profile;
            slice.idle_count = idle.count;
            slice.idle_ns = idle.sum_ns;
            slice.idle_variance = variance(idle);
        }
    }

    pub fn drop(&mut self, id: SliceId) {
        if let Some(slice) = self.get_mut(id) {
            slice.state = State::Dropped;
        }
    }

    /// It is a part of an earlier one.
    pub fn merge(&mut self, id: SliceId, into: SliceId) {
        if let Some(slice) = self.get_mut(id) {
            slice.state = State::Merged(into);
        }
    }

    pub fn get(&self, id: SliceId) -> Option<&Slice> {
        self.slices.get(id as usize)
    }

    fn get_mut(&mut self, id: SliceId) -> Option<&mut Slice> {
        self.slices.get_mut(id as usize)
    }

    /// The slice that it is a part of, or itself.
    pub fn whole(&self, id: SliceId) -> SliceId {
        match self.get(id).map(|slice| slice.state) {
            Some(State::Merged(into)) => into,
            _ => id,
        }
    }

    pub fn is_open(&self, id: SliceId) -> bool {
        self.get(self.whole(id)).is_some_and(|slice| slice.state == State::Open)
    }

    /// A slice that goes on has its answer; more of that may come.
    pub fn answered(&mut self, id: SliceId) {
        if let Some(slice) = self.get_mut(id) {
            slice.ended = Ended::Explicit;
        }
    }

    pub fn is_answered(&self, id: SliceId) -> bool {
        self.get(id).is_some_and(|slice| slice.ended == Ended::Explicit)
    }

    /// Another thread goes on with it.
    pub fn hand_over(&mut self, id: SliceId, thread: u32, from_ns: u64) {
        if let Some(slice) = self.get_mut(id) {
            (slice.thread, slice.from_ns) = (thread, from_ns);
        }
    }

    /// A request may be more than one.
    pub fn is_several(&mut self, id: SliceId) {
        if let Some(slice) = self.get_mut(id) {
            slice.is_several = true;
        }
    }

    /// More than one thread answered a request, or one did so that may have sent something else.
    pub fn is_disputed(&mut self, id: SliceId) {
        if let Some(slice) = self.get_mut(id) {
            slice.is_disputed = true;
        }
    }

    /// One of several requests may be what caused it.
    pub fn is_asked(&mut self, id: SliceId) {
        if let Some(slice) = self.get_mut(id) {
            slice.is_asked = true;
        }
    }

    /// A slice did not cause another one.
    pub fn undo(&mut self, from: SliceId, to: SliceId) {
        if let Some(slice) = self.get_mut(to).filter(|slice| slice.cause == from) {
            slice.cause = NONE;
            self.corrected.insert(to, NONE);
        }
    }

    pub fn edge(&mut self, edge: Edge) {
        if edge.from == NONE || edge.to == NONE || edge.from == edge.to {
            return;
        }
        if edge.opens
            && let Some(slice) = self.get_mut(edge.to)
            && slice.cause == NONE
        {
            slice.cause = edge.from;
            if let Some(cause) = self.corrected.get_mut(&edge.to) {
                *cause = edge.from;
            }
        }
        // Several parts of one thing come one after the other.
        let last = self.edges.len().checked_sub(1).and_then(|last| self.edges.get_mut(last));
        if let Some(last) = last
            && (last.from, last.to, last.rule) == (edge.from, edge.to, edge.rule)
        {
            last.bytes = last.bytes.saturating_add(edge.bytes);
            last.woke |= edge.woke;
            return;
        }
        if self.edges.len() >= MAX_EDGES {
            self.edges_left_out += 1;
            return;
        }
        self.edges.push(edge);
    }

    /// A socket's place among keys. One that is no more has its place to the end, since slices have it.
    pub fn end(&mut self, end: &Endpoint) -> u32 {
        self.key(Key::End(*end))
    }

    /// The place of something of one machine.
    pub fn local(&mut self, machine: u16, local: Local) -> u32 {
        if let Some(place) = self.locals.get(&(machine, local)) {
            return *place;
        }
        let place = self.key(Key::Local(local));
        if self.locals.len() < MAX_KEYS {
            self.locals.insert((machine, local), place);
        }
        place
    }

    /// The place of a thread.
    pub fn thread(&mut self, tid: i32) -> u32 {
        self.key(Key::Thread(tid))
    }

    fn key(&mut self, key: Key) -> u32 {
        if self.keys.len() >= MAX_KEYS {
            if self.keys.len() == MAX_KEYS {
                self.keys.push(Key::Other);
            }
            return MAX_KEYS as u32;
        }
        self.keys.push(key);
        self.keys.len() as u32 - 1
    }
}

/// The variance of stretches without a CPU, square nanoseconds, from exact sums.
fn variance(idle: &Idle) -> f64 {
    let count = u128::from(idle.count);
    if count == 0 {
        return 0.0;
    }
    let (sum, squares) = (u128::from(idle.sum_ns), idle.squares);
    // n Σx² - (Σx)², over n².
    match (count.checked_mul(squares), sum.checked_mul(sum)) {
        (Some(all), Some(sum)) => all.saturating_sub(sum) as f64 / (count * count) as f64,
        _ => {
            let mean = sum as f64 / count as f64;
            (squares as f64 / count as f64 - mean * mean).max(0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_lists() {
        let mut long = Long::default();
        assert_eq!((long.len(), long.get(0)), (0, None));
        for value in 0..3 * PIECE {
            long.push(value);
            assert_eq!(long.len(), value + 1);
        }
        assert_eq!(long.get(PIECE), Some(&PIECE));
        assert!(long.iter().copied().eq(0..3 * PIECE));
    }

    #[test]
    fn variances_are_exact() {
        let mut idle = Idle::default();
        assert_eq!(variance(&idle), 0.0);
        for ns in [2, 4, 4, 4, 5, 5, 7, 9] {
            idle.add(ns);
        }
        assert_eq!(variance(&idle), 4.0);
        let mut long = Idle::default();
        (0..4).for_each(|_| long.add(u64::MAX / 8));
        assert_eq!(variance(&long), 0.0);
    }

    #[test]
    fn too_many_slices_and_edges_are_counted() {
        let mut store = Store::default();
        for _ in 0..MAX_SLICES + 3 {
            store.open(Marker::Pipe, 0, 0, 0);
        }
        assert_eq!((store.slices.len(), store.left_out), (MAX_SLICES, 3));
        for number in 0..MAX_EDGES as SliceId + 5 {
            store.edge(Edge::new(MarkerRule::Bytes, (number, 0), (number + 1, 0), 0));
        }
        assert_eq!((store.edges.len(), store.edges_left_out), (MAX_EDGES, 5));
    }
}

//! What goes one way between two places: bytes by where they stand, messages by their order; and from which slice each
//! of them came.
//!
//! A sender's call may end after the receiver's, so what was received may wait for its sender to be known.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::input::{Bytes, Local};
use crate::marker::MarkerRule;
use crate::slices::{Edge, SliceId};

/// Channels that are followed; the oldest are given up first.
const MAX_CHANNELS: usize = 1 << 18;
/// What was sent, or received, of one channel, that waits for its other side.
const MAX_WAITING: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// One direction of a connection.
    Flow(u64),
    /// A pipe or a queue of a machine.
    Local(u16, Local),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The slice; [`NONE`] where it was in none.
    pub slice: SliceId,
    /// When it was sent, nanoseconds since the epoch.
    pub sent_ns: u64,
    /// So much of it.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub slice: SliceId,
    /// When, nanoseconds since the epoch.
    pub received_ns: u64,
    /// The slice began with it.
    pub opens: bool,
    /// The key of where it came.
    pub key: u32,
}

impl Arrival {
    /// That of what one slice sent at a time.
    pub const fn edge(&self, rule: MarkerRule, from: (SliceId, u64)) -> Edge {
        let to = (self.slice, self.received_ns);
        Edge { opens: self.opens, ..Edge::new(rule, from, to, self.key) }
    }
}

#[derive(Clone, Copy, Debug)]
struct SentByteRange {
    from: u64,
    to: u64,
    slice: SliceId,
    sent_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Awaited {
    from: u64,
    to: u64,
    arrival: Arrival,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    has_messages: bool,
    /// Places are those of the recording; else they are counted here.
    is_placed: bool,
    /// The losses by which the counts below hold.
    counted_at: Option<u32>,
    written: u64,
    read: u64,
    sent: VecDeque<SentByteRange>,
    awaited: VecDeque<Awaited>,
    /// Threads that are in a call that sends on it.
    inside: Vec<u32>,
}

impl Channel {
    /// Begins anew, with nothing in it.
    fn sync(&mut self, losses: u32) {
        self.sent.clear();
        self.awaited.clear();
        self.read = self.written;
        self.counted_at = Some(losses);
    }

    fn is_counted(&self, losses: u32) -> bool {
        self.is_placed || self.counted_at == Some(losses)
    }

    /// A place whose low 32 bits are known: the one that is nearest to the latest.
    fn place(&mut self, at: u32) -> u64 {
        let latest = self.written.max(self.read);
        if !self.is_placed {
            self.is_placed = true;
            return (1 << 32) + u64::from(at);
        }
        let ahead = at.wrapping_sub(latest as u32).cast_signed();
        latest.saturating_add_signed(i64::from(ahead))
    }

    fn range(&mut self, bytes: Bytes, writes: bool) -> (u64, u64) {
        let length = if self.has_messages { 1 } else { bytes.length };
        let from = match bytes.at {
            Some(at) => self.place(at),
            None if writes => self.written,
            None => self.read,
        };
        let to = from.saturating_add(length);
        match writes {
            true => self.written = self.written.max(to),
            false => self.read = self.read.max(to),
        }
        (from, to)
    }

    /// What was sent of a range, and is received now; and the part of it that nothing sent is known of.
    fn take(&mut self, from: u64, to: u64) -> (Vec<Origin>, u64) {
        let mut origins: Vec<Origin> = Vec::new();
        let mut covered = 0u64;
        for sent in &self.sent {
            let bytes = sent.to.min(to).saturating_sub(sent.from.max(from));
            if bytes == 0 {
                continue;
            }
            covered += bytes;
            match origins.last_mut().filter(|last| last.slice == sent.slice) {
                Some(last) => last.bytes += bytes,
                None => {
                    origins.push(Origin { slice: sent.slice, sent_ns: sent.sent_ns, bytes });
                }
            }
        }
        while self.sent.front().is_some_and(|sent| sent.to <= to) {
            self.sent.pop_front();
        }
        (origins, (to - from).saturating_sub(covered))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Channels {
    all: HashMap<Way, Channel>,
    order: VecDeque<Way>,
}

impl Channels {
    fn channel(&mut self, way: Way) -> &mut Channel {
        if !self.all.contains_key(&way) {
            self.order.push_back(way);
            if self.order.len() > MAX_CHANNELS
                && let Some(oldest) = self.order.pop_front()
            {
                self.all.remove(&oldest);
            }
        }
        self.all.entry(way).or_default()
    }

    /// It is new: nothing is in it.
    pub fn begin(&mut self, way: Way, losses: u32) {
        *self.channel(way) = Channel { counted_at: Some(losses), ..Channel::default() };
    }

    /// A thread sleeps until something comes: nothing is in it.
    pub fn is_empty_now(&mut self, way: Way, losses: u32) {
        let channel = self.channel(way);
        let is_sure = channel.inside.is_empty() && channel.awaited.is_empty();
        if is_sure && !channel.is_placed {
            channel.sync(losses);
        }
    }

    /// A thread is in a call that sends.
    pub fn enter(&mut self, way: Way, thread: u32) {
        self.channel(way).inside.push(thread);
    }

    /// It is not any more.
    pub fn leave(&mut self, way: Way, thread: u32) {
        if let Some(channel) = self.all.get_mut(&way) {
            channel.inside.retain(|inside| *inside != thread);
        }
    }

    /// The thread that alone is in a call that sends.
    pub fn only_sender(&self, way: Way) -> Option<u32> {
        match self.all.get(&way)?.inside.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Something was sent; those who had received it already.
    pub fn sent(
        &mut self,
        way: Way,
        bytes: Bytes,
        messages: bool,
        (slice, sent_ns): (SliceId, u64),
        losses: u32,
    ) -> Vec<(Origin, Arrival)> {
        let channel = self.channel(way);
        channel.has_messages = messages;
        if bytes.at.is_none() && !channel.is_counted(losses) {
            return Vec::new();
        }
        let (mut from, to) = channel.range(bytes, true);
        let mut joined = Vec::new();
        channel.awaited.retain_mut(|awaited| {
            let bytes = awaited.to.min(to).saturating_sub(awaited.from.max(from));
            if bytes > 0 {
                joined.push((Origin { slice, sent_ns, bytes }, awaited.arrival));
                awaited.from = awaited.to.min(to);
            }
            awaited.from < awaited.to
        });
        let received = joined.iter().map(|(origin, _)| origin.bytes).sum::<u64>();
        from = from.saturating_add(received);
        if from < to {
            channel.sent.push_back(SentByteRange { from, to, slice, sent_ns });
            if channel.sent.len() > MAX_WAITING {
                channel.sent.pop_front();
            }
        }
        joined
    }

    /// From where that comes which is received now.
    pub fn received(&mut self, way: Way, bytes: Bytes, messages: bool, losses: u32) -> Taken {
        let channel = self.channel(way);
        channel.has_messages = messages;
        if bytes.at.is_none() && !channel.is_counted(losses) {
            return Taken { origins: Vec::new(), is_unmatched: true, rest: None };
        }
        let (from, to) = channel.range(bytes, false);
        let known_to = channel.sent.back().map_or(from, |sent| sent.to);
        let (origins, missing) = channel.take(from, to);
        // What lies behind all that is known to be sent may still come; a gap before that does not.
        let rest = to.saturating_sub(known_to.max(from));
        let is_unmatched = missing > rest;
        Taken { origins, is_unmatched, rest: (rest > 0).then_some((to - rest, to)) }
    }

    /// The rest of what was received waits for its sender. The oldest that does so in vain is given up: whether one was.
    pub fn wait(&mut self, way: Way, (from, to): (u64, u64), arrival: Arrival) -> bool {
        let channel = self.channel(way);
        channel.awaited.push_back(Awaited { from, to, arrival });
        let is_full = channel.awaited.len() > MAX_WAITING;
        if is_full {
            channel.awaited.pop_front();
        }
        is_full
    }

    /// What was received and never found its sender.
    pub fn unmatched(&self) -> u64 {
        self.all.values().map(|channel| channel.awaited.len() as u64).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub origins: Vec<Origin>,
    /// A part of it is of a sender that is not known, and will not be.
    pub is_unmatched: bool,
    /// Its part whose sender is not known yet.
    pub rest: Option<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slices::NONE;

    const WAY: Way = Way::Flow(7);

    fn placed(at: u32, length: u64) -> Bytes {
        Bytes { at: Some(at), length }
    }

    fn counted(length: u64) -> Bytes {
        Bytes { at: None, length }
    }

    fn slices(taken: &Taken) -> Vec<(SliceId, u64)> {
        taken.origins.iter().map(|origin| (origin.slice, origin.bytes)).collect()
    }

    fn arrival(slice: SliceId) -> Arrival {
        Arrival { slice, received_ns: 9, opens: true, key: 0 }
    }

    #[test]
    fn bytes_come_from_who_sent_them() {
        let mut channels = Channels::default();
        channels.sent(WAY, placed(100, 50), false, (1, 1), 0);
        channels.sent(WAY, placed(150, 50), false, (2, 2), 0);
        let taken = channels.received(WAY, placed(100, 70), false, 0);
        assert_eq!(slices(&taken), [(1, 50), (2, 20)]);
        assert!(taken.rest.is_none() && !taken.is_unmatched);
        assert_eq!(slices(&channels.received(WAY, placed(170, 30), false, 0)), [(2, 30)]);
    }

    #[test]
    fn the_receiver_may_come_first() {
        let mut channels = Channels::default();
        // Numbers begin again at zero on the way.
        let at = u32::MAX - 10;
        let taken = channels.received(WAY, placed(at, 30), false, 0);
        channels.wait(WAY, taken.rest.unwrap(), arrival(5));
        let joined = channels.sent(WAY, placed(at, 20), false, (1, 1), 0);
        assert_eq!(joined, [(Origin { slice: 1, sent_ns: 1, bytes: 20 }, arrival(5))]);
        let joined = channels.sent(WAY, placed(at.wrapping_add(20), 20), false, (2, 2), 0);
        assert_eq!(joined[0].0, Origin { slice: 2, sent_ns: 2, bytes: 10 });
        let taken = channels.received(WAY, placed(at.wrapping_add(30), 10), false, 0);
        assert_eq!(slices(&taken), [(2, 10)]);
        assert_eq!(channels.unmatched(), 0);
    }

    #[test]
    fn bytes_over_a_gap_are_not_joined() {
        let mut channels = Channels::default();
        // The event of 100..150 was lost.
        channels.sent(WAY, placed(150, 50), false, (2, 2), 0);
        let taken = channels.received(WAY, placed(100, 100), false, 0);
        assert_eq!(slices(&taken), [(2, 50)]);
        assert!(taken.is_unmatched && taken.rest.is_none());
    }

    #[test]
    fn counted_bytes_hold_until_a_loss() {
        let mut channels = Channels::default();
        // What was in it before is not known.
        channels.sent(WAY, counted(10), false, (1, 1), 0);
        assert!(channels.received(WAY, counted(10), false, 0).is_unmatched);
        channels.is_empty_now(WAY, 0);
        channels.sent(WAY, counted(10), false, (2, 2), 0);
        assert_eq!(slices(&channels.received(WAY, counted(10), false, 0)), [(2, 10)]);
        channels.sent(WAY, counted(10), false, (3, 3), 0);
        assert!(channels.received(WAY, counted(10), false, 1).is_unmatched);
        channels.begin(WAY, 1);
        channels.sent(WAY, counted(4), false, (4, 4), 1);
        assert_eq!(slices(&channels.received(WAY, counted(2), false, 1)), [(4, 2)]);
    }

    #[test]
    fn a_channel_is_not_empty_while_somebody_sends() {
        let mut channels = Channels::default();
        channels.enter(WAY, 3);
        assert_eq!(channels.only_sender(WAY), Some(3));
        channels.is_empty_now(WAY, 0);
        assert!(channels.sent(WAY, counted(1), false, (1, 1), 0).is_empty());
        assert!(channels.received(WAY, counted(1), false, 0).is_unmatched);
        channels.leave(WAY, 3);
        channels.is_empty_now(WAY, 0);
        channels.sent(WAY, counted(1), false, (1, 1), 0);
        assert_eq!(slices(&channels.received(WAY, counted(1), false, 0)), [(1, 1)]);
    }

    #[test]
    fn messages_count_as_one_each() {
        let mut channels = Channels::default();
        channels.begin(WAY, 0);
        channels.sent(WAY, counted(500), true, (1, 1), 0);
        channels.sent(WAY, counted(900), true, (2, 2), 0);
        assert_eq!(slices(&channels.received(WAY, counted(500), true, 0)), [(1, 1)]);
        // Cut off by a short buffer.
        assert_eq!(slices(&channels.received(WAY, counted(100), true, 0)), [(2, 1)]);
    }

    #[test]
    fn what_is_never_received_is_given_up() {
        let mut channels = Channels::default();
        for at in 0..10 * MAX_WAITING as u32 {
            channels.sent(WAY, placed(at, 1), false, (at, u64::from(at)), 0);
        }
        assert_eq!(channels.all[&WAY].sent.len(), MAX_WAITING);
        for flow in 0..2 * MAX_CHANNELS as u64 {
            channels.sent(Way::Flow(flow), placed(0, 1), false, (NONE, 0), 0);
        }
        assert!(channels.all.len() <= MAX_CHANNELS && channels.order.len() <= MAX_CHANNELS);
    }
}

//! Reads the events of one CPU as they are written, each once and in the order of time.

use std::io;
use std::ops::Range;

use noise_common::store::reading::Piece;
use noise_common::store::{PARTS, StoredEvent};

use super::culprits::Culprits;
use super::history::History;
use crate::kernel::{Copied, EventStore};

/// Events that are copied at once: 256 KiB.
const MOST_AT_ONCE: usize = 8_192;
/// Events that memory is kept for between two readings: 10 KiB.
const MOST_CARRIED: usize = 256;

/// A CPU that is followed.
#[derive(Debug, Default)]
pub struct Follower {
    pub history: History,
    /// When they were needed last, ns.
    pub wanted_ns: u64,
    /// Number of the next event of each part; `None` before the first reading.
    next: Option<[u64; PARTS]>,
    /// Time of the latest event of each part, ns.
    latest_ns: [u64; PARTS],
    /// Up to here all is settled, ns.
    settled_ns: u64,
    /// What was read and is not settled yet.
    carried: Vec<FollowedEvent>,
}

/// An event, or `None` where some are missing; its time, or the earliest of theirs, ns.
#[derive(Clone, Copy, Debug)]
struct FollowedEvent {
    at_ns: u64,
    event: Option<StoredEvent>,
}

impl Follower {
    /// Takes the events of a CPU in a stretch of time that are there and were not taken yet, at most about
    /// `most`; how many were read.
    ///
    /// Errors: where there is no such CPU, or its events cannot be mapped.
    pub fn follow(
        &mut self,
        cpu: u32,
        events: &mut EventStore,
        span: Range<u64>,
        most: usize,
        culprits: &mut Culprits,
    ) -> io::Result<usize> {
        let mut next = match self.next {
            Some(next) => next,
            None => {
                let mut next = [0; PARTS];
                for (part, next) in next.iter_mut().enumerate() {
                    *next = events.first_since(cpu, part, span.start)?;
                }
                next
            }
        };
        let read = self.read(cpu, events, span, most, &mut next, culprits);
        self.next = Some(next);
        read
    }

    fn read(
        &mut self,
        cpu: u32,
        events: &mut EventStore,
        span: Range<u64>,
        most: usize,
        next: &mut [u64; PARTS],
        culprits: &mut Culprits,
    ) -> io::Result<usize> {
        let mut read = 0;
        // The other parts have few: all of them are there when the first is gone through.
        for (part, next) in next.iter_mut().enumerate().skip(1) {
            let copied = events.copy(cpu, part, *next..u64::MAX, MOST_AT_ONCE)?;
            read += self.take(part, &copied, span.start);
            *next = copied.stretch().resume();
        }
        let [first, ..] = next;
        loop {
            let copied = events.copy(cpu, 0, *first..u64::MAX, MOST_AT_ONCE)?;
            read += self.take(0, &copied, span.start);
            *first = copied.stretch().resume();
            let is_last = copied.events.len() < MOST_AT_ONCE;
            let [latest_ns, ..] = self.latest_ns;
            let settled_ns = if is_last { span.end } else { latest_ns.min(span.end) };
            self.settle(settled_ns, culprits);
            if is_last || read >= most {
                return Ok(read);
            }
        }
    }

    /// Whether so much was written since the last reading that it is time for another: an eighth of what the CPU
    /// has room for.
    pub fn is_due(&self, cpu: u32, events: &EventStore) -> bool {
        let Some([first, ..]) = self.next else { return true };
        events.next(cpu, 0).is_ok_and(|next| next.saturating_sub(first) >= events.room() / 8)
    }

    /// Notes what of a copy of a part is whole, and from when on some is missing; how many events it has.
    fn take(&mut self, part: usize, copied: &Copied, since_ns: u64) -> usize {
        let Self { latest_ns, settled_ns, carried, .. } = self;
        let Some(latest_ns) = latest_ns.get_mut(part) else { return 0 };
        let resume = copied.stretch().resume();
        for piece in copied.stretch().pieces() {
            match piece {
                Piece::Event(event) if event.time_ns >= since_ns => {
                    *latest_ns = event.time_ns.max(*latest_ns);
                    carried.push(FollowedEvent { at_ns: event.time_ns, event: Some(*event) });
                }
                // Missing are events behind the latest: other parts may have some of the time between.
                Piece::Gap(gap) if gap.first < resume => {
                    let at_ns = (*settled_ns).max(*latest_ns);
                    carried.push(FollowedEvent { at_ns, event: None });
                }
                // What is not finished yet is read again.
                Piece::Event(_) | Piece::Gap(_) => {}
            }
        }
        copied.events.len()
    }

    /// Hands on what is older than a time, in order.
    fn settle(&mut self, until_ns: u64, culprits: &mut Culprits) {
        let Self { history, carried, settled_ns, .. } = self;
        carried.sort_by_key(|step| step.at_ns);
        let settled = carried.partition_point(|step| step.at_ns < until_ns);
        for step in carried.drain(..settled) {
            match &step.event {
                Some(event) => history.follow(event, culprits),
                None => history.miss(),
            }
        }
        *settled_ns = until_ns.max(*settled_ns);
        // There is a follower for each CPU.
        carried.shrink_to(MOST_CARRIED);
    }
}

#[cfg(test)]
mod tests;

//! A stretch of the flight recorder as bytes: what `/api/v1/events` of the local socket answers.
//!
//! A head, then items, the last of which is [`AnswerItem::End`]: an answer without it was cut off. All numbers
//! are little-endian.
//!
//! | bytes of the head | |
//! |---|---|
//! | 8 | `NOISEDev` |
//! | 4, 4 | version; number of CPUs |
//! | 8, 8 | CLOCK_MONOTONIC and CLOCK_REALTIME at the same moment, ns |
//! | 8, 8 | begin and end of the stretch as requested, ns on CLOCK_MONOTONIC |
//!
//! Each item begins with 24 bytes: its kind, the number of the part, 2 bytes that are 0, the CPU (4), and
//! two numbers (8 each) whose meaning is the kind's. Behind [`AnswerItem::Events`] follow its events of 32 bytes
//! each, as [`StoredEvent::to_bytes`] has them; behind [`AnswerItem::Mark`], whose "part" is 1 for a begin and 0 for an end and whose
//! numbers are its own and its time: when it was sent (8), process, thread and user (4 each), name and key, each with its
//! length (1) before it.

use std::io::{self, Read};

use noise_common::store::{PARTS, StoredEvent};

use crate::marks::Mark;

/// The version that is written, and the only one that is read.
pub const EVENTS_VERSION: u32 = 1;
/// The kind of content, as HTTP names it.
pub const EVENTS_CONTENT_TYPE: &str = "application/vnd.noised.events";
/// Most events of one item.
pub const MOST_EVENTS: usize = 2048;
/// More CPUs than any host has.
const MOST_CPUS: u32 = 8192;

const MAGIC: &[u8; 8] = b"NOISEDev";
const HEAD_BYTES: usize = 48;
const ITEM_BYTES: usize = 24;
const EVENT_BYTES: usize = size_of::<StoredEvent>();

/// What is said of all that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StretchHead {
    pub cpus: u32,
    /// CLOCK_MONOTONIC at some moment, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME at that moment, ns since 1970.
    pub realtime_ns: u64,
    /// Begin of the stretch as requested, ns on CLOCK_MONOTONIC.
    pub since_ns: u64,
    pub until_ns: u64,
}

/// Where an item belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemPlace {
    pub cpu: u32,
    /// Its part of the store.
    pub part: u8,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerItem {
    /// The events of a part follow. It holds all from that time on; 0 = all there ever were.
    Part {
        place: ItemPlace,
        /// The time, ns on CLOCK_MONOTONIC.
        complete_from_ns: u64,
        /// Bits of the classes of events that are kept now; 0 where that is not said.
        classes: u32,
        /// A number that another store of events, as a daemon has from its start on, hardly has; 0 where that is not said.
        store: u32,
    },
    /// Events in order of their numbers, which is nearly the order of time.
    Events {
        place: ItemPlace,
        /// Number of the first; the others follow without a gap.
        first: u64,
        /// At most [`MOST_EVENTS`] of them.
        events: Vec<StoredEvent>,
    },
    /// Events that were overwritten or unfinished when their turn came.
    Missing {
        place: ItemPlace,
        /// Number of the first.
        first: u64,
        count: u64,
    },
    /// A mark of a program.
    Mark(Mark),
    End {
        /// Events that were sent.
        events: u64,
        /// Events that were missing.
        missing: u64,
    },
}

/// Why bytes are not a stretch.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// They cannot be read, or end early.
    #[error("the events cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("these are not events of noised")]
    NotEvents,
    #[error(
        "the events have version {0}, this noised reads {EVENTS_VERSION}: use the same version on both \
         sides"
    )]
    Version(u32),
    /// An item that makes no sense.
    #[error("the events are damaged: {0}")]
    Damaged(&'static str),
}

impl StretchHead {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&EVENTS_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.cpus.to_le_bytes());
        for number in [self.monotonic_ns, self.realtime_ns, self.since_ns, self.until_ns] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
}

impl AnswerItem {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let (kind, place, numbers) = match self {
            Self::Part { place, complete_from_ns, classes, store } => {
                // A noised that knows of no number of the store reads and writes the classes alone.
                let second = u64::from(*store) << 32 | u64::from(*classes);
                (1, *place, [*complete_from_ns, second])
            }
            Self::Events { place, first, events } => (2, *place, [*first, events.len() as u64]),
            Self::Missing { place, first, count } => (3, *place, [*first, *count]),
            Self::End { events, missing } => (4, ItemPlace::default(), [*events, *missing]),
            Self::Mark(mark) => {
                let place = ItemPlace { cpu: 0, part: mark.begins.into() };
                (5, place, [mark.number, mark.time_ns])
            }
        };
        bytes.extend_from_slice(&[kind, place.part, 0, 0]);
        bytes.extend_from_slice(&place.cpu.to_le_bytes());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        if let Self::Events { events, .. } = self {
            bytes.reserve(events.len() * EVENT_BYTES);
            events.iter().for_each(|event| bytes.extend_from_slice(&event.to_bytes()));
        }
        if let Self::Mark(mark) = self {
            mark.write(bytes);
        }
    }
}

/// Reads a stretch, item by item; its memory does not grow with the stretch.
#[derive(Debug)]
pub struct EventsReader<R> {
    from: R,
    head: StretchHead,
    ended: bool,
}

/// The 8-byte number at a place.
fn number(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The 4-byte number at a place.
fn short(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl<R: Read> EventsReader<R> {
    /// Errors: where it is none of this version.
    pub fn new(mut from: R) -> Result<Self, EventsError> {
        let mut bytes = [0; HEAD_BYTES];
        from.read_exact(&mut bytes)?;
        if !bytes.starts_with(MAGIC) {
            return Err(EventsError::NotEvents);
        }
        match short(&bytes, 8) {
            EVENTS_VERSION => {}
            other => return Err(EventsError::Version(other)),
        }
        let head = StretchHead {
            cpus: short(&bytes, 12),
            monotonic_ns: number(&bytes, 16),
            realtime_ns: number(&bytes, 24),
            since_ns: number(&bytes, 32),
            until_ns: number(&bytes, 40),
        };
        // Memory is taken for each.
        if head.cpus > MOST_CPUS {
            return Err(EventsError::Damaged("more CPUs than any host has"));
        }
        Ok(Self { from, head, ended: false })
    }

    /// What is said of all.
    pub fn head(&self) -> StretchHead {
        self.head
    }

    /// What it reads from; behind the last item, that is what follows.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// The next item; `None` behind the last.
    /// Errors: where it is damaged, or the stretch ends early.
    pub fn next_item(&mut self) -> Result<Option<AnswerItem>, EventsError> {
        if self.ended {
            return Ok(None);
        }
        let mut bytes = [0; ITEM_BYTES];
        self.from.read_exact(&mut bytes)?;
        let [kind, part, ..] = bytes;
        let place = ItemPlace { cpu: short(&bytes, 4), part };
        let (first, second) = (number(&bytes, 8), number(&bytes, 16));
        // Memory is taken for each.
        if (1..=3).contains(&kind) && (place.cpu >= self.head.cpus || usize::from(part) >= PARTS) {
            return Err(EventsError::Damaged("a part that there is not"));
        }
        Ok(Some(match kind {
            1 => AnswerItem::Part {
                place,
                complete_from_ns: first,
                classes: second as u32,
                store: (second >> 32) as u32,
            },
            2 => {
                let count = usize::try_from(second).ok().filter(|count| *count <= MOST_EVENTS);
                let count = count.ok_or(EventsError::Damaged("too many events in one piece"))?;
                AnswerItem::Events { place, first, events: self.events(count)? }
            }
            3 => AnswerItem::Missing { place, first, count: second },
            4 => {
                self.ended = true;
                AnswerItem::End { events: first, missing: second }
            }
            5 => AnswerItem::Mark(self.mark(part == 1, first, second)?),
            _ => return Err(EventsError::Damaged("a piece of an unknown kind")),
        }))
    }

    fn mark(&mut self, begins: bool, number_of: u64, time_ns: u64) -> Result<Mark, EventsError> {
        let mut bytes = [0; 20];
        self.from.read_exact(&mut bytes)?;
        let id = |at: usize| short(&bytes, at).cast_signed();
        Ok(Mark {
            number: number_of,
            sent_ns: number(&bytes, 0),
            time_ns,
            begins,
            pid: id(8),
            tid: id(12),
            uid: short(&bytes, 16),
            name: self.text()?,
            key: self.text()?,
        })
    }

    fn text(&mut self) -> Result<Box<str>, EventsError> {
        let mut length = [0; 1];
        self.from.read_exact(&mut length)?;
        let mut bytes = vec![0; usize::from(length[0])];
        self.from.read_exact(&mut bytes)?;
        let text = String::from_utf8(bytes);
        Ok(text.map_err(|_| EventsError::Damaged("a mark that is no text"))?.into())
    }

    fn events(&mut self, count: usize) -> Result<Vec<StoredEvent>, EventsError> {
        let mut bytes = vec![0; count * EVENT_BYTES];
        self.from.read_exact(&mut bytes)?;
        let (events, _) = bytes.as_chunks();
        Ok(events.iter().map(StoredEvent::from_bytes).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn items() -> Vec<AnswerItem> {
        let place = ItemPlace { cpu: 3, part: 1 };
        let event = |number| StoredEvent { number, time_ns: 5, kind: 1, ..StoredEvent::default() };
        vec![
            AnswerItem::Part { place, complete_from_ns: 7, classes: 3, store: u32::MAX },
            AnswerItem::Missing { place, first: 9, count: 2 },
            AnswerItem::Mark(Mark {
                number: 3,
                sent_ns: 8,
                time_ns: 7,
                begins: true,
                pid: 11,
                tid: 12,
                uid: 13,
                name: "query".into(),
                key: "\u{e4}".into(),
            }),
            AnswerItem::Events { place, first: 11, events: (11..15).map(event).collect() },
            AnswerItem::End { events: 4, missing: 2 },
        ]
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        StretchHead { cpus: 4, monotonic_ns: 1, realtime_ns: 2, since_ns: 3, until_ns: 4 }
            .write(&mut bytes);
        items().iter().for_each(|item| item.write(&mut bytes));
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<AnswerItem>, EventsError> {
        let mut reader = EventsReader::new(bytes)?;
        let mut items = Vec::new();
        while let Some(item) = reader.next_item()? {
            items.push(item);
        }
        Ok(items)
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written();
        assert_eq!(read(&bytes).unwrap(), items());
        assert_eq!(EventsReader::new(bytes.as_slice()).unwrap().head().realtime_ns, 2);
        for length in 0..bytes.len() {
            let error = read(&bytes[..length]).unwrap_err();
            assert!(matches!(error, EventsError::Unreadable(_)), "{length}: {error}");
        }
    }

    #[test]
    fn what_is_something_else_is_refused() {
        let mut bytes = written();
        bytes[8] = 2;
        assert!(matches!(read(&bytes), Err(EventsError::Version(2))));
        bytes[0] = b'X';
        assert!(matches!(read(&bytes), Err(EventsError::NotEvents)));
        let mut bytes = written();
        bytes[12..16].copy_from_slice(&8193_u32.to_le_bytes());
        assert!(matches!(read(&bytes), Err(EventsError::Damaged(_))));
        let mut bytes = written();
        bytes[HEAD_BYTES] = 9;
        assert!(matches!(read(&bytes), Err(EventsError::Damaged(_))));
        for place in [ItemPlace { cpu: 4, part: 0 }, ItemPlace { cpu: 0, part: PARTS as u8 }] {
            let mut bytes = written();
            bytes.truncate(HEAD_BYTES);
            AnswerItem::Missing { place, first: 0, count: 1 }.write(&mut bytes);
            assert!(matches!(read(&bytes), Err(EventsError::Damaged(_))), "{place:?}");
        }
        let mut bytes = written();
        // The count of the events, behind the mark.
        bytes[HEAD_BYTES + 3 * ITEM_BYTES + 20 + 8 + 2 - 1 + 18] = 1;
        assert!(matches!(read(&bytes), Err(EventsError::Damaged(_))));
    }

    proptest! {
        #[test]
        fn nothing_makes_the_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), place in any::<usize>(),
            byte in any::<u8>(),
        ) {
            let _ = read(&bytes);
            let mut changed = written();
            let place = place % changed.len();
            changed[place] = byte;
            let _ = read(&changed);
            let mut longer = written();
            longer.extend(bytes);
            prop_assert_eq!(read(&longer).unwrap(), items());
        }
    }
}

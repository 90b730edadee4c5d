//! Events that were kept, as a recording: packets of each CPU, with the names of those that they are about.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;

use noise_common::store::StoredEvent;
use noise_common::store::reading::PartStretch;
use noise_record::marks::marked;
use noise_trace::capture::Capture;
use noise_trace::ctf::write::{Packets, Uuid, metadata};
use noise_wire::events::{AnswerItem, ItemPlace, StretchHead};

use super::file::{About, KeptError, read};

/// A packet is whole when it has so many bytes.
const PACKET_BYTES: usize = 256 << 10;

/// A recording that is in memory.
pub struct Replayed {
    /// How its streams are laid out.
    pub metadata: String,
    /// The packets of each CPU.
    pub packets: Vec<Packets>,
    /// Events that are missing in them.
    pub lost: u64,
}

/// By how much real time is ahead of the events' clock, ns.
pub fn offset_ns(head: &StretchHead) -> u64 {
    // More than a recording's clock can have is none.
    head.realtime_ns.saturating_sub(head.monotonic_ns).min(i64::MAX.cast_unsigned())
}

/// Makes a recording of a file's events within a time (ns on CLOCK_MONOTONIC).
/// Errors: where the file is damaged.
pub fn replay(
    from: impl Read,
    about: &About,
    span_ns: RangeInclusive<u64>,
    uuid: Uuid,
) -> Result<Replayed, KeptError> {
    let mut replay = None;
    let (begin_ns, end_ns) = (*span_ns.start(), *span_ns.end());
    let (head, _) = read(from, |head, item| {
        let replay = replay.get_or_insert_with(|| StoreReplay {
            capture: Capture::new(uuid, head.cpus, PACKET_BYTES, begin_ns, &about.who.dump()),
            parts: BTreeMap::new(),
            span_ns: span_ns.clone(),
        });
        match item {
            AnswerItem::Part { place, complete_from_ns, .. } => {
                replay.capture.reaches_back_to(place.cpu, complete_from_ns, end_ns);
            }
            AnswerItem::Missing { place, count, .. } => replay.miss(place, count),
            AnswerItem::Events { place, first, events } => replay.add(place, first, &events),
            AnswerItem::Mark(mark) if replay.span_ns.contains(&mark.time_ns) => {
                replay.capture.mark(marked(&mark));
            }
            _ => {}
        }
    })?;
    let metadata = metadata(uuid, &about.who.origin(offset_ns(&head)));
    let Some(StoreReplay { mut capture, .. }) = replay else {
        return Ok(Replayed { metadata, packets: Vec::new(), lost: 0 });
    };
    capture.finish(end_ns, &mut about.who.names());
    let packets = (0..head.cpus).map(|cpu| capture.packets(cpu)).collect();
    Ok(Replayed { metadata, packets, lost: capture.discarded() })
}

struct StoreReplay {
    capture: Capture,
    parts: BTreeMap<ItemPlace, PartProgress>,
    span_ns: RangeInclusive<u64>,
}

/// How far a part of the store is.
#[derive(Clone, Copy, Debug, Default)]
struct PartProgress {
    /// How many are missing behind its latest event.
    missing: u64,
    /// That event is behind the time.
    is_over: bool,
}

impl StoreReplay {
    /// Events are missing that may be of the time: those that come next say whether they are, where any come.
    fn miss(&mut self, place: ItemPlace, count: u64) {
        let part = self.parts.entry(place).or_default();
        if !part.is_over {
            part.missing = part.missing.saturating_add(count);
            self.capture.missing(place.cpu, place.part.into(), part.missing);
        }
    }

    /// Adds those that are within the time. What is missing between them is missing in the recording, too.
    fn add(&mut self, place: ItemPlace, first: u64, events: &[StoredEvent]) {
        let part = self.parts.entry(place).or_default();
        let (mut missing, mut at) = (std::mem::take(&mut part.missing), first);
        let side = |event: &StoredEvent| side(event, &self.span_ns);
        for run in events.chunk_by(|one, other| side(one) == side(other)) {
            let next = at.saturating_add(run.len() as u64);
            let wanted = at.saturating_sub(std::mem::take(&mut missing));
            let side = run.first().map(side);
            // What is missing before one that is behind the time may be of the time.
            part.is_over = side == Some(Ordering::Greater);
            match side {
                Some(Ordering::Less) => self.capture.missing(place.cpu, place.part.into(), 0),
                Some(Ordering::Equal) => {
                    // All of them were whole when they were kept.
                    let stretch =
                        PartStretch { wanted, first: at, events: run, capacity: u64::MAX, next };
                    self.capture.add(place.cpu, place.part.into(), stretch);
                }
                Some(Ordering::Greater) | None => {}
            }
            at = next;
        }
    }
}

/// Whether an event is before a time, within it, or behind it.
fn side(event: &StoredEvent, span_ns: &RangeInclusive<u64>) -> Ordering {
    match event.time_ns {
        at_ns if at_ns < *span_ns.start() => Ordering::Less,
        at_ns if at_ns > *span_ns.end() => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout};
    use noise_trace::event::TraceKind;
    use noise_trace::record::Source as _;

    use super::*;
    use crate::file::made;

    fn names(span_ns: RangeInclusive<u64>) -> Vec<(u64, String)> {
        let file = made::file();
        let replayed = replay(file.as_slice(), &made::about(), span_ns, [1; 16]).unwrap();
        let layout = TraceLayout::parse(&replayed.metadata).unwrap();
        assert_eq!(replayed.packets.len(), 1);
        let bytes = replayed.packets[0].bytes();
        let mut reader = CtfReader::new(&layout, &[StreamFile::held("channel0_0", bytes)]);
        let named = |kind: &TraceKind<'_>| match kind {
            TraceKind::SchedSwitch { next, .. } => Some(next.comm.to_string()),
            TraceKind::SchedWaking(woken) => Some(woken.task.comm.to_string()),
            TraceKind::IrqHandlerEntry { .. } => Some("irq".to_owned()),
            _ => None,
        };
        let mut all = Vec::new();
        while let Some(record) = reader.read() {
            all.extend(named(&record.kind()).map(|name| (record.time_ns, name)));
        }
        all
    }

    #[test]
    fn events_have_their_names_and_real_time() {
        let ms = |at: u64| at * 1_000_000;
        let all = names(0..=u64::MAX);
        let begin: Vec<_> = all.iter().take(3).cloned().collect();
        let expected = [(1_010, "hog"), (1_020, "web"), (1_050, "web")];
        assert_eq!(begin, expected.map(|(at, name)| (ms(at), name.to_owned())));
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn a_part_of_the_time_has_its_events_alone() {
        let part = names(50_000_000..=61_000_000);
        let at: Vec<u64> = part.iter().map(|(at, _)| at / 1_000_000).collect();
        assert_eq!(at, [1_050, 1_060, 1_061]);
    }

    #[test]
    fn what_is_missing_behind_the_last_event_is_lost_up_to_the_end() {
        let losses = |missing: bool, span_ns: RangeInclusive<u64>| {
            let mut plain = zstd::decode_all(made::file().as_slice()).unwrap();
            if missing {
                let mut end = Vec::new();
                AnswerItem::End { events: 9, missing: 2 }.write(&mut end);
                let at = plain.windows(end.len()).position(|at| at == end).unwrap();
                let mut more = Vec::new();
                let place = ItemPlace { cpu: 0, part: 0 };
                AnswerItem::Missing { place, first: 14, count: 3 }.write(&mut more);
                plain.splice(at..at, more);
            }
            let file = zstd::encode_all(plain.as_slice(), 1).unwrap();
            replay(file.as_slice(), &made::about(), span_ns, [1; 16]).unwrap().lost
        };
        let ms = |at: u64| at * 1_000_000;
        // Two are missing before the first one, and one at least was overwritten before it.
        assert_eq!([false, true].map(|missing| losses(missing, 0..=ms(70))), [3, 6]);
        // What is missing behind an event that is later was of a later time, or it was not.
        assert_eq!([false, true].map(|missing| losses(missing, ms(20)..=ms(64))), [0, 0]);
        assert_eq!([false, true].map(|missing| losses(missing, ms(20)..=ms(66))), [0, 3]);
    }
}

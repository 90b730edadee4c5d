//! Events that were kept, as a recording: packets of each CPU, with the names of those that they are about.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;

use noise_common::store::reading::Stretch;
use noise_common::store::{Event, PARTS};
use noise_trace::capture::Capture;
use noise_trace::ctf::write::{Packets, Uuid, metadata};
use noise_wire::events::{Item, Place, StretchHead};

use super::file::{About, KeptError, read};
use crate::marks::marked;

/// A packet is whole when it has so many bytes.
const PACKET_BYTES: usize = 256 << 10;
/// More CPUs than any host has.
const MOST_CPUS: u32 = 8192;

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
///
/// # Errors
/// Where the file is damaged.
pub fn replay(
    from: impl Read,
    about: &About,
    span_ns: RangeInclusive<u64>,
    uuid: Uuid,
) -> Result<Replayed, KeptError> {
    let mut replay = None;
    let (begin_ns, end_ns) = (*span_ns.start(), *span_ns.end());
    let (head, _) = read(from, |head, item| {
        let replay = replay.get_or_insert_with(|| Replay {
            capture: Capture::new(
                uuid,
                head.cpus.min(MOST_CPUS),
                PACKET_BYTES,
                begin_ns,
                &about.who.dump(),
            ),
            next: BTreeMap::new(),
            span_ns: span_ns.clone(),
        });
        match item {
            Item::Part { place, complete_from_ns, .. } => {
                replay.capture.reaches_back_to(place.cpu, complete_from_ns, end_ns);
            }
            Item::Missing { place, first, .. } => {
                replay.next.entry(place).or_insert(first);
            }
            Item::Events { place, first, events } => replay.add(place, first, &events),
            Item::Mark(mark) if replay.span_ns.contains(&mark.time_ns) => {
                replay.capture.mark(marked(&mark));
            }
            _ => {}
        }
    })?;
    let metadata = metadata(uuid, &about.who.origin(offset_ns(&head)));
    let Some(Replay { mut capture, .. }) = replay else {
        return Ok(Replayed { metadata, packets: Vec::new(), lost: 0 });
    };
    capture.finish(end_ns, &mut about.who.names());
    let packets = (0..head.cpus.min(MOST_CPUS)).map(|cpu| capture.packets(cpu)).collect();
    Ok(Replayed { metadata, packets, lost: capture.discarded() })
}

/// Events on their way.
struct Replay {
    capture: Capture,
    /// Number of the next event of each part.
    next: BTreeMap<Place, u64>,
    span_ns: RangeInclusive<u64>,
}

impl Replay {
    /// Adds those that are within the time. What is missing between them is missing in the recording, too.
    fn add(&mut self, place: Place, first: u64, events: &[Event]) {
        let part = usize::from(place.part);
        if part >= PARTS {
            return;
        }
        let next = self.next.entry(place).or_insert(first);
        let (mut wanted, mut at) = ((*next).min(first), first);
        *next = first.saturating_add(events.len() as u64);
        let is_within = |event: &Event| self.span_ns.contains(&event.time_ns);
        for run in events.chunk_by(|one, other| is_within(one) == is_within(other)) {
            let end = at.saturating_add(run.len() as u64);
            let first_ns = run.first().map_or(0, |event| event.time_ns);
            if wanted < at && first_ns > *self.span_ns.end() {
                // They may be of the time, though those behind them are not.
                self.capture.reaches_back_to(place.cpu, first_ns, *self.span_ns.end());
            }
            if run.first().is_some_and(is_within) {
                // All of them were whole when they were kept.
                let stretch =
                    Stretch { wanted, first: at, events: run, capacity: u64::MAX, next: end };
                self.capture.add(place.cpu, part, stretch);
            }
            (at, wanted) = (end, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::ctf::{Layout, Reader, StreamFile};
    use noise_trace::event::Kind;
    use noise_trace::record::Source as _;

    use super::*;
    use crate::kept::file::made;

    fn names(span_ns: RangeInclusive<u64>) -> Vec<(u64, String)> {
        let file = made::file();
        let replayed = replay(file.as_slice(), &made::about(), span_ns, [1; 16]).unwrap();
        let layout = Layout::parse(&replayed.metadata).unwrap();
        assert_eq!(replayed.packets.len(), 1);
        let bytes = replayed.packets[0].bytes();
        let mut reader = Reader::new(&layout, &[StreamFile::held("channel0_0", bytes)]);
        let named = |kind: &Kind<'_>| match kind {
            Kind::SchedSwitch { next, .. } => Some(next.comm.to_string()),
            Kind::SchedWaking(woken) => Some(woken.task.comm.to_string()),
            Kind::IrqHandlerEntry { .. } => Some("irq".to_owned()),
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
}

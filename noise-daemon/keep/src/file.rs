//! The format of the events that are kept of an incident: what `/api/v1/events` answers, then [`About`] as
//! JSON, all of it compressed (zstd).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use jiff::Timestamp;
use noise_analysis::Watched;
use noise_common::store::StoredEvent;
use noise_serve::EventPieces;
use noise_trace::capture::unnamed;
use noise_trace::event::TraceKind;
use noise_trace::events::threads;
use noise_wire::events::{AnswerItem, EventsError, EventsReader, StretchHead};

pub use super::who::KeptNumbers;

/// The fastest: it is done while the host is disturbed.
const COMPRESSION: i32 = 1;
/// Window that unpacking may use, as a power of two; ours take 2^21.
const WINDOW_LOG: u32 = 24;
/// More than the largest flight recorder that can be set holds: a small file can unpack to any length.
const MOST_UNPACKED_BYTES: u64 = 20 << 30;
/// Most bytes of what follows the events.
const MOST_ABOUT_BYTES: u64 = 16 << 20;

/// Of which incident the events are, and who is in them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct About {
    pub incident: u64,
    /// Begin of the first disturbed window.
    pub started: Timestamp,
    pub opened: Timestamp,
    pub signal: Watched,
    pub subject: String,
    pub who: KeptNumbers,
}

/// What a stretch of events has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenEvents {
    /// What is said of all.
    pub head: StretchHead,
    /// Threads that events name, with the number of these events.
    pub tids: BTreeMap<u32, u64>,
    pub irqs: BTreeSet<u32>,
    /// Time of the oldest event and of the newest, ns on CLOCK_MONOTONIC; `None` where there is none.
    pub span_ns: Option<(u64, u64)>,
    pub events: u64,
    /// How many were missing.
    pub missing: u64,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It cannot be written, or opened.
    #[error("the file of its kernel events: {0}")]
    File(#[from] io::Error),
    /// It is cut off, or something else.
    #[error("the file of its kernel events is cut off, damaged or none of noised ({0})")]
    Damaged(io::Error),
    /// What is in it cannot be read, or is something else.
    #[error("its kernel events: {0}")]
    Events(#[from] EventsError),
    /// What follows the events cannot be understood.
    #[error("its kernel events: who is who is damaged: {0}")]
    About(#[from] serde_json::Error),
}

impl KeptError {
    /// What unpacks the file says what is wrong with it as an error of reading.
    fn of_reading(error: io::Error) -> Self {
        use io::ErrorKind::{InvalidData, Other, UnexpectedEof};
        match error.kind() {
            InvalidData | Other | UnexpectedEof => Self::Damaged(error),
            _ => Self::File(error),
        }
    }

    fn of_events(error: EventsError) -> Self {
        match error {
            EventsError::Unreadable(error) => Self::of_reading(error),
            error => Self::Events(error),
        }
    }
}

impl SeenEvents {
    fn note(&mut self, event: &StoredEvent) {
        let at_ns = event.time_ns;
        let (from_ns, to_ns) = self.span_ns.unwrap_or((at_ns, at_ns));
        self.span_ns = Some((from_ns.min(at_ns), to_ns.max(at_ns)));
        self.events += 1;
        let Some(kind) = unnamed(event) else { return };
        if let TraceKind::IrqHandlerEntry { irq, .. } = kind {
            self.irqs.insert(irq);
        }
        for tid in threads(&kind).into_iter().flatten().filter(|tid| *tid > 0) {
            *self.tids.entry(tid.cast_unsigned()).or_default() += 1;
        }
    }
}

/// Reads pieces, and writes each to somewhere else on the way.
struct Tee<'a, W> {
    pieces: EventPieces,
    piece: Vec<u8>,
    at: usize,
    to: W,
    failure: &'a Cell<Option<io::Error>>,
}

impl<W: Write> Read for Tee<'_, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.piece.len() {
            let Some(piece) = self.pieces.next() else { return Ok(0) };
            if let Err(error) = self.to.write_all(&piece) {
                self.failure.set(Some(error));
                return Ok(0);
            }
            (self.piece, self.at) = (piece, 0);
        }
        let left = self.piece.get(self.at..).unwrap_or_default();
        let length = left.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(left) {
            *place = *byte;
        }
        self.at += length;
        Ok(length)
    }
}

/// Writes a file: the pieces of an answer of the flight recorder, and what `about` says when all of them are
/// there. Its memory does not grow with them.
/// Errors: where the recorder cannot be read, or the file cannot be written.
pub fn write(
    to: impl Write,
    pieces: EventPieces,
    about: impl FnOnce(&SeenEvents) -> About,
) -> Result<(SeenEvents, About), KeptError> {
    let failure = Cell::new(None);
    let written = write_all(to, pieces, about, &failure);
    match failure.take() {
        Some(error) => Err(error.into()),
        None => written,
    }
}

fn write_all(
    to: impl Write,
    pieces: EventPieces,
    about: impl FnOnce(&SeenEvents) -> About,
    failure: &Cell<Option<io::Error>>,
) -> Result<(SeenEvents, About), KeptError> {
    let mut packer = zstd::Encoder::new(to, COMPRESSION)?;
    packer.include_checksum(true)?;
    let tee = Tee { pieces, piece: Vec::new(), at: 0, to: packer, failure };
    let mut reader = EventsReader::new(tee)?;
    let mut seen = SeenEvents { head: reader.head(), ..SeenEvents::default() };
    while let Some(item) = reader.next_item()? {
        match item {
            AnswerItem::Events { events, .. } => events.iter().for_each(|event| seen.note(event)),
            AnswerItem::Missing { count, .. } => seen.missing += count,
            _ => {}
        }
    }
    let about = about(&seen);
    let mut packer = reader.into_inner().to;
    packer.write_all(&serde_json::to_vec(&about)?)?;
    packer.finish()?.flush()?;
    Ok((seen, about))
}

/// Reads a file, item by item.
/// Errors: where it is damaged, or none.
pub fn read(
    from: impl Read,
    mut each: impl FnMut(&StretchHead, AnswerItem),
) -> Result<(StretchHead, About), KeptError> {
    let mut unpacker = zstd::Decoder::new(from)?.single_frame();
    unpacker.window_log_max(WINDOW_LOG)?;
    let mut reader =
        EventsReader::new(unpacker.take(MOST_UNPACKED_BYTES)).map_err(KeptError::of_events)?;
    let head = reader.head();
    while let Some(item) = reader.next_item().map_err(KeptError::of_events)? {
        each(&head, item);
    }
    let mut rest = Vec::new();
    let mut about = reader.into_inner().take(MOST_ABOUT_BYTES);
    about.read_to_end(&mut rest).map_err(KeptError::of_reading)?;
    Ok((head, serde_json::from_slice(&rest)?))
}

/// The events of a file, as the flight recorder answered them; they end where the file is damaged.
/// Errors: where it is none.
pub fn pieces(from: impl Read + Send + 'static) -> Result<EventPieces, KeptError> {
    let mut unpacker = zstd::Decoder::new(from)?.single_frame();
    unpacker.window_log_max(WINDOW_LOG)?;
    let mut reader =
        EventsReader::new(unpacker.take(MOST_UNPACKED_BYTES)).map_err(KeptError::of_events)?;
    let mut head = Vec::new();
    reader.head().write(&mut head);
    let items = std::iter::from_fn(move || {
        let mut piece = Vec::new();
        reader.next_item().ok().flatten()?.write(&mut piece);
        Some(piece)
    });
    Ok(Box::new(std::iter::once(head).chain(items)))
}

#[cfg(any(test, feature = "fixtures"))]
#[expect(clippy::unwrap_used, reason = "what only tests are made of fails by panicking")]
pub mod made {
    //! Files for tests.

    use noise_common::store::EventKind;
    use noise_common::store::event::Body;
    use noise_wire::events::ItemPlace;

    use super::{About, AnswerItem, EventPieces, KeptNumbers, StretchHead};

    /// CPU 0, in milliseconds: thread 7 sleeps from 10 on, is woken at 20 while 9 runs, and runs from 50 to 60;
    /// then the same again, ten times as fast.
    pub fn pieces() -> EventPieces {
        let ms = |at: u64| at * 1_000_000;
        let mut bodies = vec![
            Body::switch((7, 120), 1, false, (9, 120), ms(10)),
            Body::task(EventKind::Waking, 7, 120, 0, 0, ms(20)),
            Body::switch((9, 120), 0, true, (7, 120), ms(50)),
            Body::switch((7, 120), 1, false, (9, 120), ms(60)),
            Body::irq(EventKind::IrqEntry, 36, 0, ms(61)),
            Body::irq(EventKind::IrqExit, 36, 1, ms(61) + 1_000),
        ];
        bodies.extend([
            Body::task(EventKind::Waking, 7, 120, 0, 0, ms(62)),
            Body::switch((9, 120), 0, true, (7, 120), ms(65)),
            Body::switch((7, 120), 1, false, (9, 120), ms(66)),
        ]);
        of(&bodies)
    }

    /// CPU 0, in milliseconds: 7 reads from `vda` from 10 to 40, behind a read of 9; 8 sleeps for longer, for
    /// something else; 7 sleeps from 42 to 60, and only 45 to 47 for a read.
    pub fn disk_pieces() -> EventPieces {
        let ms = |at: u64| at * 1_000_000;
        let vda = 254 << 20;
        let block = |kind, (request, sector): (u64, u64), bytes, at: u64| {
            Body::block(kind, (request << 6, sector), (vda, bytes), 0, 0, ms(at))
        };
        let (own, others) = ((1, 100), (2, 900));
        let bodies = [
            Body::switch((0, 120), 0, false, (8, 120), ms(1)),
            Body::switch((8, 120), 2, false, (9, 120), ms(2)),
            block(EventKind::BlockIssue, others, 8192, 5),
            Body::switch((9, 120), 2, false, (7, 120), ms(6)),
            block(EventKind::BlockIssue, own, 4096, 9),
            Body::switch((7, 120), 2, false, (0, 120), ms(10)),
            Body::irq(EventKind::IrqEntry, 36, 0, ms(29)),
            block(EventKind::BlockComplete, others, 8192, 29),
            Body::task(EventKind::Waking, 9, 120, 0, 0, ms(29)),
            Body::irq(EventKind::IrqExit, 36, 1, ms(29) + 1_000),
            Body::switch((0, 120), 0, false, (9, 120), ms(29) + 2_000),
            Body::switch((9, 120), 1, false, (0, 120), ms(29) + 3_000),
            Body::irq(EventKind::IrqEntry, 36, 0, ms(39)),
            block(EventKind::BlockComplete, own, 4096, 39),
            Body::task(EventKind::Waking, 7, 120, 0, 0, ms(39)),
            Body::irq(EventKind::IrqExit, 36, 1, ms(39) + 1_000),
            Body::switch((0, 120), 0, false, (7, 120), ms(40)),
            Body::switch((7, 120), 1, false, (0, 120), ms(42)),
            block(EventKind::BlockIssue, own, 4096, 45),
            block(EventKind::BlockComplete, own, 4096, 47),
            Body::task(EventKind::Waking, 7, 120, 0, 0, ms(60)),
            Body::switch((0, 120), 0, false, (7, 120), ms(60)),
            Body::switch((7, 120), 1, false, (0, 120), ms(61)),
            Body::task(EventKind::Waking, 8, 120, 0, 0, ms(66)),
            Body::switch((0, 120), 0, false, (8, 120), ms(66)),
        ];
        of(&bodies)
    }

    /// An answer that has these events of CPU 0, some of which are missing before them.
    pub fn of(bodies: &[Body]) -> EventPieces {
        let ms = |at: u64| at * 1_000_000;
        let events: Vec<_> = (5..).zip(bodies).map(|(number, body)| body.stored(number)).collect();
        let place = ItemPlace { cpu: 0, part: 0 };
        let mut head = Vec::new();
        StretchHead {
            cpus: 1,
            monotonic_ns: ms(70),
            realtime_ns: ms(1_070),
            since_ns: 0,
            until_ns: ms(70),
        }
        .write(&mut head);
        let mut rest = Vec::new();
        let complete_from_ns = events.first().map_or(0, |event| event.time_ns);
        AnswerItem::Part { place, complete_from_ns, classes: 3, store: 0 }.write(&mut rest);
        AnswerItem::Missing { place, first: 3, count: 2 }.write(&mut rest);
        let count = events.len() as u64;
        AnswerItem::Events { place, first: 5, events }.write(&mut rest);
        AnswerItem::End { events: count, missing: 2 }.write(&mut rest);
        Box::new([head, rest].into_iter())
    }

    /// Of incident 7 of the victim `web.service`, which thread 7 is in.
    pub fn about() -> About {
        let who = r#"{"hostname":"box","kernel":"6.1","version":"x","recorder":"noised","threads":[
            {"tid":7,"pid":7,"ppid":1,"comm":"web"},{"tid":9,"pid":9,"ppid":1,"comm":"hog"}],
            "cgroups":[["/system.slice/hog.service",[9]],["/system.slice/web.service",[7]]],
            "interrupts":[[36,"virtio1"]],"disks":[],"interfaces":[],"namespace":5}"#;
        About {
            incident: 7,
            started: "1970-01-01T00:00:01.03Z".parse().unwrap(),
            opened: "2026-11-21T09:00:00Z".parse().unwrap(),
            signal: noise_common::signals::Signal::CgroupRunqueueWait.into(),
            subject: "web.service".to_owned(),
            who: serde_json::from_str::<KeptNumbers>(who).unwrap(),
        }
    }

    /// Of an incident of the reads from `vda`, with the threads 7 (`web`), 8 (`other`) and 9 (`hog`).
    pub fn disk_about(signal: noise_common::signals::Signal) -> About {
        let who = r#"{"hostname":"box","kernel":"6.1","version":"x","recorder":"noised","threads":[
            {"tid":7,"pid":7,"ppid":1,"comm":"web"},{"tid":8,"pid":8,"ppid":1,"comm":"other"},
            {"tid":9,"pid":9,"ppid":1,"comm":"hog"}],"cgroups":[],"interrupts":[[36,"virtio1-req.0"]],
            "disks":[[266338304,"vda"]],"interfaces":[],"namespace":5}"#;
        About {
            signal: signal.into(),
            subject: "vda read".to_owned(),
            started: "1970-01-01T00:00:01Z".parse().unwrap(),
            who: serde_json::from_str::<KeptNumbers>(who).unwrap(),
            ..about()
        }
    }

    /// A file of such an incident.
    pub fn disk_file(signal: noise_common::signals::Signal) -> Vec<u8> {
        let mut bytes = Vec::new();
        super::write(&mut bytes, disk_pieces(), |_| disk_about(signal)).unwrap();
        bytes
    }

    pub fn file() -> Vec<u8> {
        let mut bytes = Vec::new();
        super::write(&mut bytes, pieces(), |_| about()).unwrap();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use noise_common::store::event::Body;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        let (seen, about) = write(&mut bytes, made::pieces(), |seen| {
            assert_eq!(seen.tids, BTreeMap::from([(7, 7), (9, 5)]));
            made::about()
        })
        .unwrap();
        assert_eq!((seen.events, seen.missing, seen.irqs), (9, 2, BTreeSet::from([36])));
        assert_eq!(seen.span_ns, Some((10_000_000, 66_000_000)));
        let mut events = 0;
        let (head, read) = read(bytes.as_slice(), |_, item| {
            if let AnswerItem::Events { events: some, .. } = item {
                events += some.len();
            }
        })
        .unwrap();
        assert_eq!((head, read, events), (seen.head, about, 9));
    }

    #[test]
    fn threads_that_any_event_names_are_seen() {
        let pieces = made::of(&[Body::throttled(5, 1_000, 1_000_000)]);
        let (seen, _) = write(Vec::new(), pieces, |_| made::about()).unwrap();
        assert_eq!(seen.tids, BTreeMap::from([(5, 1)]));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_refused() {
        let whole = made::file();
        for length in 0..whole.len() {
            assert!(read(&whole[..length], |_, _| {}).is_err(), "{length}");
        }
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x10;
        let _ = read(flipped.as_slice(), |_, _| {});
        assert!(read(&b"garbage"[..], |_, _| {}).is_err());
    }

    #[test]
    fn a_full_disk_and_a_recorder_that_fails_are_errors() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = write(Full, made::pieces(), |_| made::about()).unwrap_err();
        assert!(matches!(error, KeptError::File(_)), "{error}");
        let cut: EventPieces = Box::new(made::pieces().take(1));
        let error = write(Vec::new(), cut, |_| made::about()).unwrap_err();
        assert!(matches!(error, KeptError::Events(_)), "{error}");
    }
}

//! Traces that were cut or changed: read as far as they go, and what could not be read is counted.

use noise_trace::clock::Clock;
use noise_trace::ctf::{Layout, Reader, StreamFile, metadata};
use noise_trace::event::Kind;
use noise_trace::export::Export;
use noise_trace::export::perfetto::Perfetto;
use noise_trace::export::tables::Tables;
use noise_trace::record::Source as _;
use noise_trace::select::Select;

use crate::files::Trace;
use crate::wire::Message;

/// Places at random, in a trace of a megabyte; fewer in a larger one, so that it takes as long.
const PLACES: usize = 1_000;

/// Numbers that look random (xorshift64*), the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) as usize % end
    }
}

/// Reads all, and each event's kind. Events, and whether something could not be read.
fn read(layout: &Layout, name: &str, bytes: &[u8]) -> (usize, bool) {
    let mut reader = Reader::new(layout, &[StreamFile { name, bytes }]);
    let mut events = 0;
    let mut last_ns = 0;
    for record in reader.by_ref() {
        assert!(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        events += usize::from(!matches!(record.kind(), Kind::Lost(_)));
    }
    let damage = reader.damage();
    assert_eq!(damage.is_none(), damage.to_string().is_empty(), "{damage:?}");
    (events, !damage.is_none())
}

/// Exports all in all forms; what comes out can be read.
fn exported(layout: &Layout, name: &str, bytes: &[u8]) {
    let clock = layout.clocks.first().cloned().unwrap_or_else(Clock::epoch);
    let perfetto = Perfetto::new(&clock, &layout.env);
    let tables = Some(Tables::default());
    let mut export = Export::new(Select::default(), Some(perfetto), tables, true);
    for record in Reader::new(layout, &[StreamFile { name, bytes }]) {
        export.add(&record);
    }
    export.finish();
    let packets = export.perfetto.as_mut().unwrap().packets().bytes();
    assert!(Message::read(packets).messages(1).count() > 1);
    for line in export.lines.unwrap().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

/// Where packets begin, and the end.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let magic = 0xc1fc_1fc1_u32.to_le_bytes();
    // Packets begin at pages.
    let pages = (0..bytes.len()).step_by(4096);
    let begins = pages.filter(|at| bytes[*at..].starts_with(&magic));
    begins.chain([bytes.len()]).collect()
}

/// Cut at each packet's begin, one byte before and behind it, and anywhere.
pub fn cut(trace: &Trace) -> Result<(), String> {
    let mut random = Random(1);
    for (name, bytes) in &trace.files {
        let (whole, damaged) = read(&trace.layout, name, bytes);
        assert!(!damaged);
        let mut before = 0;
        for boundary in boundaries(bytes) {
            let (events, damaged) = read(&trace.layout, name, &bytes[..boundary]);
            assert!(!damaged && events >= before, "{name} cut at {boundary}: {events}");
            before = events;
            for at in [boundary.saturating_sub(1), (boundary + 1).min(bytes.len())] {
                let (events, _) = read(&trace.layout, name, &bytes[..at]);
                assert!(events <= whole);
            }
        }
        assert_eq!(before, whole);
    }
    let all: usize = trace.files.iter().map(|(_, bytes)| bytes.len()).sum();
    let places = (PLACES * (1 << 20) / all).min(PLACES);
    for place in 0..places {
        let (name, bytes) = &trace.files[place % trace.files.len()];
        let boundaries = boundaries(bytes);
        let at = random.below(bytes.len());
        // Each packet stands by itself: those before are read by the test of whole ones.
        let begin = boundaries.iter().rev().find(|boundary| **boundary <= at).copied().unwrap_or(0);
        let (_, damaged) = read(&trace.layout, name, &bytes[begin..at]);
        assert!(damaged || at == begin, "{name} cut at {at}");
    }
    Ok(())
}

/// Bits flipped at random, in streams and in metadata.
pub fn flipped(trace: &Trace) -> Result<(), String> {
    let mut random = Random(2);
    let (name, whole) = trace.files.iter().min_by_key(|(_, bytes)| bytes.len()).unwrap();
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..=round % 20 {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        // Headers are few and matter most.
        if round % 2 == 0 {
            let at = random.below(100);
            bytes[at] ^= 1 << random.below(8);
        }
        read(&trace.layout, name, &bytes);
        // That takes longer.
        if round % 20 == 0 {
            exported(&trace.layout, name, &bytes);
        }
    }
    let text = std::fs::read(trace.folder.join("metadata")).unwrap();
    let text = metadata::text(&text).unwrap().into_bytes();
    for round in 0..30 {
        let mut bytes = text.clone();
        // The first part has all that is not an event.
        let end = if round % 2 == 0 { 4096 } else { bytes.len() };
        for _ in 0..=round % 3 {
            let at = random.below(end);
            bytes[at] ^= 1 << random.below(8);
        }
        if let Ok(layout) = Layout::parse(&String::from_utf8_lossy(&bytes)) {
            read(&layout, name, whole);
        }
    }
    Ok(())
}

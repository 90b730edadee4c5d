//! Traces that were cut or changed: read as far as they go, and what could not be read is counted.

use std::num::NonZero;
use std::process::Command;
use std::{env, fs, thread};

use noise_trace::clock::TraceClock;
use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout, metadata};
use noise_trace::delays::Begin;
use noise_trace::event::TraceKind;
use noise_trace::export::Export;
use noise_trace::export::perfetto::Perfetto;
use noise_trace::export::tables::Tables;
use noise_trace::reach::Reach;
use noise_trace::record::Source as _;
use noise_trace::select::Select;

use crate::files::Trace;
use crate::wire::Message;

/// Places at random in each trace.
const PLACES: usize = 1_000;
/// Memory that reading may take beyond the trace itself.
const MAX_MEMORY_KB: u64 = 8 << 10;
/// Names the trace that the process of its own cuts.
pub const CUT: &str = "NOISED_CUT_TRACE";

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
fn read(layout: &TraceLayout, name: &str, bytes: &[u8]) -> (usize, bool) {
    let mut reader = CtfReader::new(layout, &[StreamFile::held(name, bytes)]);
    let mut events = 0;
    let mut last_ns = 0;
    while let Some(record) = reader.read() {
        assert!(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        events += usize::from(!matches!(record.kind(), TraceKind::Lost(_)));
    }
    let damage = reader.damage();
    assert_eq!(damage.is_none(), damage.to_string().is_empty(), "{damage:?}");
    (events, !damage.is_none())
}

/// Exports all in all forms; what comes out can be read.
fn exported(layout: &TraceLayout, name: &str, bytes: &[u8]) {
    let clock = layout.clocks.first().cloned().unwrap_or_else(TraceClock::epoch);
    let perfetto = Perfetto::new(&clock, &layout.env);
    let tables = Some(Tables::default());
    let mut export = Export::new(Select::default(), Begin::default(), Some(perfetto), tables, true);
    let mut reader = CtfReader::new(layout, &[StreamFile::held(name, bytes)]);
    while let Some(record) = reader.read() {
        export.add(&record).unwrap();
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

/// What can be read of a packet of which so many bytes are left, and the sentence about the rest. Where it lacks only what
/// fills it up, all is read.
fn read_cut(trace: &Trace, name: &str, packet: &[u8], left: usize, what: &str) -> usize {
    let mut reader = CtfReader::new(&trace.layout, &[StreamFile::held(name, &packet[..left])]);
    let mut events = 0;
    while let Some(record) = reader.read() {
        events += usize::from(record.loss().is_none());
    }
    let damage = reader.damage();
    if damage.is_none() {
        assert_eq!((events, false), read(&trace.layout, name, packet), "{what}");
        return events;
    }
    let sentence = damage.to_string();
    assert!(damage.missing_bytes + damage.unread_bytes > 0, "{what}: {damage:?}");
    assert!(damage.sentences.len() == 1 && sentence.lines().count() == 1, "{what}: {sentence}");
    events
}

/// Cut at each packet's begin, one byte before and behind it, and anywhere, in a process of its own, whose
/// memory is watched.
pub fn cut(trace: &Trace) -> Result<(), String> {
    let name = trace.folder.file_name().unwrap();
    let output = Command::new(env::current_exe().unwrap()).env(CUT, name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Kilobytes that this process takes, by a line of its status.
fn memory_kb(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    found.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// What the process of its own does.
pub fn cut_alone(trace: &Trace) {
    // The peak begins anew.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before_kb = memory_kb("VmRSS:");
    let mut random = Random(1);
    let place = |number: usize| {
        let (name, bytes) = &trace.files[number % trace.files.len()];
        (name, bytes, random.below(bytes.len()))
    };
    let places: Vec<_> = (0..PLACES).map(place).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for (name, bytes) in &trace.files {
            scope.spawn(|| cut_at_boundaries(trace, name, bytes));
        }
        for places in places.chunks(PLACES.div_ceil(threads)) {
            scope.spawn(move || {
                for (name, bytes, at) in places {
                    let boundaries = boundaries(bytes);
                    // Each packet stands by itself: those before are read by the test of whole ones.
                    let next = boundaries.partition_point(|boundary| boundary <= at);
                    let packet = boundaries[next - 1]..boundaries[next];
                    if packet.start < *at {
                        let left = at - packet.start;
                        let what = format!("{name} cut at {at}");
                        read_cut(trace, name, &bytes[packet], left, &what);
                    }
                }
            });
        }
    });
    all_cut(trace, &mut random);
    let more_kb = memory_kb("VmHWM:").saturating_sub(before_kb);
    assert!(more_kb <= MAX_MEMORY_KB, "{more_kb} kB beyond the trace");
}

fn cut_at_boundaries(trace: &Trace, name: &str, bytes: &[u8]) {
    let (whole, damaged) = read(&trace.layout, name, bytes);
    assert!(!damaged);
    let (mut before, mut begin) = (0, 0);
    for boundary in boundaries(bytes) {
        let (events, damaged) = read(&trace.layout, name, &bytes[begin..boundary]);
        assert!(!damaged, "{name} cut at {boundary}");
        if boundary > 0 {
            let what = format!("{name} cut before {boundary}");
            let packet = &bytes[begin..boundary];
            assert!(read_cut(trace, name, packet, packet.len() - 1, &what) <= events);
        }
        if boundary < bytes.len() {
            let what = format!("{name} cut behind {boundary}");
            assert_eq!(read_cut(trace, name, &bytes[boundary..], 1, &what), 0);
        }
        (before, begin) = (before + events, boundary);
    }
    assert_eq!(before, whole);
}

/// All streams cut at once, and merged.
fn all_cut(trace: &Trace, random: &mut Random) {
    for _ in 0..2 {
        let files = trace
            .files
            .iter()
            .map(|(name, bytes)| StreamFile::held(name, &bytes[..random.below(bytes.len())]));
        let mut reader = CtfReader::new(&trace.layout, &files.collect::<Vec<_>>());
        let mut last_ns = 0;
        while let Some(record) = reader.read() {
            assert!(record.time_ns >= last_ns);
            last_ns = record.time_ns;
        }
        assert_eq!(reader.damage().to_string().lines().count(), 1);
    }
}

/// What is said of a trace of which a CPU has no more than so many packets.
fn reach(trace: &Trace, cpu: usize, packets: usize) -> Reach {
    let mut files = trace.streams();
    let (name, bytes) = &trace.files[cpu];
    files[cpu] = StreamFile::held(name, &bytes[..boundaries(bytes)[packets]]);
    let mut reader = CtfReader::new(&trace.layout, &files);
    let mut reach = Reach::default();
    while let Some(record) = reader.read() {
        reach.follow(record.time_ns, record.cpu, record.loss().as_ref());
    }
    assert!(reader.damage().is_none());
    reach
}

/// Cut at the begin of a packet, so that nothing but its end says that some are missing.
pub fn shortened(trace: &Trace) -> Result<(), String> {
    let sentence = reach(trace, 1, 1).to_string();
    assert!(sentence.starts_with("CPU 1 is known up to +"), "{sentence}");
    // The last packet of each was made when the session was destroyed, behind all events.
    let all = boundaries(&trace.files[0].1).len() - 1;
    assert_eq!(reach(trace, 0, all - 1).to_string(), "");
    Ok(())
}

/// Bits flipped at random, in streams and in metadata.
pub fn flipped(trace: &Trace) -> Result<(), String> {
    let mut random = Random(2);
    let (name, bytes) = trace.files.iter().min_by_key(|(_, bytes)| bytes.len()).unwrap();
    // The first packet holds thousands of events.
    let whole = &bytes[..boundaries(bytes)[1]];
    for round in 0..60 {
        let mut bytes = whole.to_vec();
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
    let text = fs::read(trace.folder.join("metadata")).unwrap();
    let text = metadata::text(&text).unwrap().into_bytes();
    for round in 0..30 {
        let mut bytes = text.clone();
        // The first part has all that is not an event.
        let end = if round % 2 == 0 { 4096 } else { bytes.len() };
        for _ in 0..=round % 3 {
            let at = random.below(end);
            bytes[at] ^= 1 << random.below(8);
        }
        if let Ok(layout) = TraceLayout::parse(&String::from_utf8_lossy(&bytes)) {
            read(&layout, name, whole);
        }
    }
    Ok(())
}

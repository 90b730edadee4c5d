//! A kernel trace of LTTng, several times one after the other, as one trace: of any length, and with the events
//! of a real one.
//!
//! Each repetition is later than the one before. Compact headers of events hold the low 27 bits of the clock, which
//! a shift by a multiple of 2^27 leaves as they are. Extended ones hold 64 bits, at any byte of a packet: all numbers
//! that lie between the begin and the end of their packet are taken for such times. Numbers of packets and counts of
//! discarded events go on.
//!
//! Read are traces with 64-bit little-endian packets as LTTng 2.7 and later lay them out on x86-64.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// What a packet begins with.
const MAGIC: [u8; 4] = 0xc1fc_1fc1_u32.to_le_bytes();
/// Where a packet has its numbers, in bytes.
const BEGIN_AT: usize = 32;
const END_AT: usize = 40;
const CONTENT_BITS_AT: usize = 48;
const PACKET_BITS_AT: usize = 56;
const SEQUENCE_AT: usize = 64;
const DISCARDED_AT: usize = 72;
/// Where its events begin.
const EVENTS_AT: usize = 84;
/// What the clock has counted when compact headers of events begin at zero again.
const COMPACT: u64 = 1 << 27;
/// The file that says how a trace is laid out.
const METADATA: &str = "metadata";

/// A trace that can be repeated.
#[derive(Clone, Debug)]
pub struct Original {
    folder: PathBuf,
    /// Names of its streams.
    streams: Vec<String>,
    /// Bytes of all streams.
    pub bytes: u64,
    /// How much later each repetition is, counts of the clock (nanoseconds, of LTTng's).
    pub shift: u64,
}

impl Original {
    /// Looks at the packets of a trace.
    /// Errors: if it is laid out in another way, or cannot be read.
    pub fn open(folder: &Path) -> Result<Self> {
        ensure!(folder.join(METADATA).is_file(), "there is no trace in {}", folder.display());
        let mut streams = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a name that is no text")?;
            if entry.file_type()?.is_file() && name != METADATA {
                streams.push(name);
            }
        }
        streams.sort();
        let mut original = Self { folder: folder.to_path_buf(), streams, bytes: 0, shift: 0 };
        let (mut first, mut last) = (u64::MAX, 0);
        for name in &original.streams {
            let stream = fs::read(folder.join(name))?;
            original.bytes += stream.len() as u64;
            for packet in packets(&stream).with_context(|| name.clone())? {
                first = first.min(number(packet, BEGIN_AT)?);
                last = last.max(number(packet, END_AT)?);
            }
        }
        ensure!(first <= last, "{} has no packets", folder.display());
        original.shift = (last - first + 1).next_multiple_of(COMPACT);
        Ok(original)
    }

    /// How often it has to be repeated for so many bytes.
    pub fn times_for(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.bytes.max(1)).max(1)
    }

    /// Writes it `times` times, as one trace, into a folder.
    /// Errors: if it cannot be read, or the other cannot be written.
    pub fn write(&self, into: &Path, times: u64) -> Result<()> {
        fs::copy(self.folder.join(METADATA), into.join(METADATA))?;
        for name in &self.streams {
            let mut stream = fs::read(self.folder.join(name))?;
            let changes = changes(&stream, self.shift)?;
            let mut file = File::create(into.join(name))?;
            for _ in 0..times {
                file.write_all(&stream)?;
                for (at, more) in &changes {
                    let now = number(&stream, *at)?.wrapping_add(*more);
                    stream[*at..*at + 8].copy_from_slice(&now.to_le_bytes());
                }
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
    number.map(|number| u64::from_le_bytes(*number)).context("a packet is cut short")
}

/// The packets of a stream.
fn packets(mut stream: &[u8]) -> Result<Vec<&[u8]>> {
    let mut packets = Vec::new();
    while !stream.is_empty() {
        ensure!(stream.starts_with(&MAGIC), "no packet of LTTng");
        let length = usize::try_from(number(stream, PACKET_BITS_AT)? / 8)?;
        ensure!(length >= EVENTS_AT, "a packet without events");
        let (packet, rest) = stream.split_at_checked(length).context("a packet is cut short")?;
        packets.push(packet);
        stream = rest;
    }
    Ok(packets)
}

/// Where the numbers of a stream are that differ from one repetition to the next, and by how much.
fn changes(stream: &[u8], shift: u64) -> Result<Vec<(usize, u64)>> {
    let packets = packets(stream)?;
    let discarded = packets.last().map_or(Ok(0), |last| number(last, DISCARDED_AT))?;
    let mut changes = Vec::new();
    let mut begin = 0;
    for packet in &packets {
        for (at, more) in [
            (BEGIN_AT, shift),
            (END_AT, shift),
            (SEQUENCE_AT, packets.len() as u64),
            (DISCARDED_AT, discarded),
        ] {
            changes.push((begin + at, more));
        }
        changes.extend(times(packet)?.into_iter().map(|at| (begin + at, shift)));
        begin += packet.len();
    }
    Ok(changes)
}

/// Where the events of a packet have times of 64 bits.
fn times(packet: &[u8]) -> Result<Vec<usize>> {
    let within = number(packet, BEGIN_AT)?..=number(packet, END_AT)?;
    let content = usize::try_from(number(packet, CONTENT_BITS_AT)?.div_ceil(8))?;
    let content = packet.get(..content).context("a packet is shorter than its content")?;
    let mut times = Vec::new();
    let mut at = EVENTS_AT;
    while let Ok(number) = number(content, at) {
        let is_time = within.contains(&number);
        times.extend(is_time.then_some(at));
        at += if is_time { 8 } else { 1 };
    }
    Ok(times)
}

//! Which files of a trace go on where others end. A tracer that rotates closes the file of a ring buffer at
//! a length or by the clock and goes on in the next one; numbers of packets and counters of what was lost do
//! not begin anew there. A ring of files (LTTng's `--tracefile-count`) names the oldest one anything: the
//! order is that of the packets.

use std::collections::BTreeMap;

use super::layout::TraceLayout;
use super::packet::{PacketHead, open};
use crate::window::{Content, Window};

#[derive(Clone, Copy)]
pub struct StreamFile<'t> {
    /// Its name, without folders.
    pub name: &'t str,
    pub content: Content<'t>,
}

impl<'t> StreamFile<'t> {
    /// One whose bytes are in memory.
    pub const fn held(name: &'t str, bytes: &'t [u8]) -> Self {
        Self { name, content: Content::Held(bytes) }
    }
}

/// A ring buffer: number of the stream, CPU, name without numbers at its end.
pub type RingBuffer<'t> = (u64, u32, &'t str);

/// When a packet began, and its number, as far as it says. What says neither comes before and behind nothing.
type PacketBegin = (Option<u64>, Option<u64>);

struct RingBufferFile {
    number: usize,
    first: PacketBegin,
    last: PacketBegin,
}

/// The numbers of all files, those together that one stream goes through, in its order; chains come in the
/// order of their first files. A file whose first packet does not say of which CPU it is stays alone, and so
/// does one that begins before the last packet of another one of its ring buffer did.
///
/// So many bytes of each packet are looked at, or as many as its begin has.
pub fn chains(layout: &TraceLayout, files: &[StreamFile<'_>], usual: usize) -> Vec<Vec<usize>> {
    let mut buffers: BTreeMap<RingBuffer<'_>, Vec<usize>> = BTreeMap::new();
    let mut chains = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let packet = open(layout, &mut Window::new(file.content, usual), 0);
        match packet.ok().and_then(|packet| buffer(&packet, file.name)) {
            Some(buffer) => buffers.entry(buffer).or_default().push(number),
            None => chains.push(vec![number]),
        }
    }
    for numbers in buffers.into_values() {
        if numbers.len() == 1 {
            chains.push(numbers);
            continue;
        }
        let part = |number: usize| {
            let window = files.get(number).map(|file| Window::new(file.content, usual));
            let (first, last) = window.map(|window| ends(layout, window)).unwrap_or_default();
            RingBufferFile { number, first, last }
        };
        let mut parts: Vec<RingBufferFile> = numbers.into_iter().map(part).collect();
        parts.sort_by_key(|part| part.first);
        for one in parts.chunk_by(|before, behind| before.last < behind.first) {
            chains.push(one.iter().map(|part| part.number).collect());
        }
    }
    chains.sort();
    chains
}

pub fn buffer<'t>(packet: &PacketHead<'_>, name: &'t str) -> Option<RingBuffer<'t>> {
    Some((packet.stream, packet.context.cpu?, stem(name)))
}

/// `channel` of `channel_3` and of `channel_3_0`: CPU, and number of the file.
fn stem(name: &str) -> &str {
    let shorter = |name| {
        let (stem, digits) = str::rsplit_once(name, '_')?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(stem)
    };
    let once = shorter(name).unwrap_or(name);
    shorter(once).unwrap_or(once)
}

/// Of its first packet, and of the last one that can be reached.
fn ends(layout: &TraceLayout, mut window: Window<'_>) -> (PacketBegin, PacketBegin) {
    let mut ends = None;
    let mut at = 0_u64;
    while at < window.length()
        && let Ok(packet) = open(layout, &mut window, at)
    {
        let moment = (packet.context.begin, packet.context.sequence);
        ends = Some((ends.map_or(moment, |(first, _)| first), moment));
        at = at.saturating_add(packet.length);
    }
    ends.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_channels() {
        let names = ["channel0_12", "channel0_12_3", "a_1_2_3", "stream", "x_", "perf_stream_1"];
        assert_eq!(names.map(stem), ["channel0", "channel0", "a_1", "stream", "x_", "perf_stream"]);
    }
}

//! The begin of a packet: which stream it is of, how long, which time, what was lost.

use super::layout::{Layout, StreamClass};
use super::node::SLOTS;
use super::walk::{Bytes, walk_fields};
use crate::value::{Shape, Value, Visit};

/// What each packet begins with, where the layout has a field `magic`.
pub const MAGIC: u64 = 0xc1fc_1fc1;

/// What is known of a packet before its events are read.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'t> {
    /// Its stream's number.
    pub stream: u64,
    /// Its stream.
    pub class: &'t StreamClass,
    /// Its bytes and the end of its content.
    pub bytes: Bytes<'t>,
    /// Where its events begin, in bits.
    pub events_at: u64,
    /// Its length in the file.
    pub length: usize,
    /// Bytes that it announces and the file does not have.
    pub missing: u64,
    /// What its context says.
    pub context: Context,
}

/// What a packet's context says, as far as it does. Times are as recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    stream_id: Option<u64>,
    magic: Option<u64>,
    content_size: Option<u64>,
    packet_size: Option<u64>,
    /// Time of its begin.
    pub begin: Option<u64>,
    /// Time of its end.
    pub end: Option<u64>,
    /// Events that its stream lost since it began, and the bits of that counter.
    pub discarded: Option<u64>,
    /// Its number in its stream.
    pub sequence: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
}

impl Context {
    /// Time of its end, where that bounds its events: buffers of a crashed tracer have 0 there.
    pub fn bound(&self) -> Option<u64> {
        self.end.filter(|end| self.begin.is_none_or(|begin| begin <= *end))
    }
}

/// Picks the fields that matter out of a header or a context.
struct Collect<'a> {
    context: &'a mut Context,
    depth: u32,
    name: &'static str,
}

const NAMES: [&str; 9] = [
    "magic",
    "stream_id",
    "content_size",
    "packet_size",
    "timestamp_begin",
    "timestamp_end",
    "events_discarded",
    "packet_seq_num",
    "cpu_id",
];

impl Visit for Collect<'_> {
    fn name(&mut self, name: &str) {
        let plain = name.strip_prefix('_').unwrap_or(name);
        let known = NAMES.into_iter().find(|known| *known == plain && self.depth == 0);
        self.name = known.unwrap_or("");
    }

    fn element(&mut self, _: u64) {
        self.name = "";
    }

    fn value(&mut self, value: Value<'_>) {
        let number = match value {
            Value::Unsigned { value, .. } => value,
            Value::Signed { value, .. } => value as u64,
            Value::Float(_) | Value::Text(_) | Value::Label { .. } => return,
        };
        let context = &mut *self.context;
        match self.name {
            "magic" => context.magic = Some(number),
            "stream_id" => context.stream_id = Some(number),
            "content_size" => context.content_size = Some(number),
            "packet_size" => context.packet_size = Some(number),
            "timestamp_begin" => context.begin = Some(number),
            "timestamp_end" => context.end = Some(number),
            "events_discarded" => context.discarded = Some(number),
            "packet_seq_num" => context.sequence = Some(number),
            "cpu_id" => context.cpu = Some(number as u32),
            _ => {}
        }
    }

    fn begin(&mut self, _: Shape) {
        self.depth += 1;
        self.name = "";
    }

    fn end(&mut self, _: Shape) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Reads the begin of a packet from the bytes of a file from there on.
///
/// # Errors
/// In words, what is wrong with it.
pub fn open<'t>(layout: &'t Layout, rest: &'t [u8]) -> Result<Packet<'t>, &'static str> {
    let all = Bytes { bytes: rest, end: (rest.len() as u64).saturating_mul(8) };
    let mut context = Context::default();
    let mut at = 0;
    let mut slots = [0; SLOTS];
    let cut = "the file ends within its header";
    if let Some(header) = &layout.packet_header {
        let mut collect = Collect { context: &mut context, depth: 0, name: "" };
        at = walk_fields(header, all, at, &mut slots, &mut collect).map_err(|_| cut)?;
    }
    if context.magic.is_some_and(|magic| magic != MAGIC) {
        return Err("its magic number is missing");
    }
    let id = context.stream_id.or_else(|| layout.only_stream());
    let stream = id.and_then(|id| Some((id, layout.streams.get(&id)?)));
    let (stream, class) = stream.ok_or("its stream is not known")?;
    if let Some(fields) = &class.packet_context {
        slots = [0; SLOTS];
        let mut collect = Collect { context: &mut context, depth: 0, name: "" };
        at = walk_fields(fields, all, at, &mut slots, &mut collect).map_err(|_| cut)?;
    }
    let packet = context.packet_size.or(context.content_size).unwrap_or(all.end);
    let content = context.content_size.unwrap_or(packet);
    if content > packet || content < at || packet == 0 || !packet.is_multiple_of(8) {
        return Err("its sizes contradict each other");
    }
    let length = usize::try_from(packet / 8).unwrap_or(usize::MAX);
    let there = rest.get(..length).unwrap_or(rest);
    let missing = (packet / 8).saturating_sub(rest.len() as u64);
    let bytes = Bytes { bytes: there, end: content.min(all.end) };
    Ok(Packet { stream, class, bytes, events_at: at, length, missing, context })
}

//! The begin of a packet: which stream it is of, how long, which time, what was lost.

use super::layout::{StreamClass, TraceLayout};
use super::node::{SLOTS, Slots, Struct};
use super::walk::{Bytes, Cut, skip_fields, walk_fields};
use crate::value::{Shape, Value, Visit};
use crate::window::Window;

/// Where there is less than a packet's begin.
pub const ENDS: &str = "the file ends within its header";
/// What is read at first of a packet.
const HEAD_BYTES: usize = 4 << 10;
/// The longest begin of a packet. LTTng's have some hundred bytes.
const MAX_HEAD_BYTES: usize = 1 << 20;

/// What each packet begins with, where the layout has a field `magic`.
pub const MAGIC: u64 = 0xc1fc_1fc1;

/// What is known of a packet before its events are read.
#[derive(Clone, Copy, Debug)]
pub struct PacketHead<'t> {
    pub stream: u64,
    pub class: &'t StreamClass,
    /// The end of its content, in bits, as far as the file has it.
    pub end: u64,
    /// Where its events begin, in bits.
    pub events_at: u64,
    /// Its length in the file.
    pub length: u64,
    /// Bytes that it announces and the file never had, where its content is among them.
    pub missing: u64,
    /// Whether the file ends in its content.
    pub is_cut: bool,
    pub context: PacketContext,
}

/// What a packet's context says, as far as it does. Times are as recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketContext {
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
    pub cpu: Option<u32>,
}

impl PacketContext {
    /// Time of its end, where that bounds its events: buffers of a crashed tracer have 0 there.
    pub fn bound(&self) -> Option<u64> {
        self.end.filter(|end| self.begin.is_none_or(|begin| begin <= *end))
    }
}

/// Picks the fields that matter out of a header or a context.
struct Collect<'a> {
    context: &'a mut PacketContext,
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

/// Why a packet's begin cannot be read.
enum Refused {
    Cut,
    Other(&'static str),
}

impl From<Cut> for Refused {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Beyond => Self::Cut,
            Cut::Empty => Self::Other("it has too many fields without a size"),
        }
    }
}

/// Number and class of the stream, the context, and the place behind it.
type PacketPreamble<'t> = (u64, &'t StreamClass, PacketContext, u64);

/// Takes what matters of fields. The place behind them.
fn collect(
    fields: &Struct,
    all: Bytes<'_>,
    at: u64,
    context: &mut PacketContext,
) -> Result<u64, Cut> {
    skip_fields(fields, all, at, &mut Slots::new(&mut [0; SLOTS], at))?;
    let mut collect = Collect { context, depth: 0, name: "" };
    walk_fields(fields, all, at, &mut Slots::new(&mut [0; SLOTS], at), &mut collect)
}

fn head<'t>(layout: &'t TraceLayout, bytes: &[u8]) -> Result<PacketPreamble<'t>, Refused> {
    let all = Bytes { bytes, end: (bytes.len() as u64).saturating_mul(8) };
    let mut context = PacketContext::default();
    let mut at = 0;
    if let Some(header) = &layout.packet_header {
        at = collect(header, all, at, &mut context)?;
    }
    if context.magic.is_some_and(|magic| magic != MAGIC) {
        return Err(Refused::Other("its magic number is missing"));
    }
    let id = context.stream_id.or_else(|| layout.only_stream());
    let stream = id.and_then(|id| Some((id, layout.streams.get(&id)?)));
    let (stream, class) = stream.ok_or(Refused::Other("its stream is not known"))?;
    if let Some(fields) = &class.packet_context {
        at = collect(fields, all, at, &mut context)?;
    }
    Ok((stream, class, context, at))
}

/// Reads the begin of the packet at that byte of a file. The window begins there then.
/// Errors: in words, what is wrong with it.
pub fn open<'t>(
    layout: &'t TraceLayout,
    window: &mut Window<'_>,
    at: u64,
) -> Result<PacketHead<'t>, &'static str> {
    let mut least = window.usual().min(HEAD_BYTES);
    let (stream, class, context, events_at) = loop {
        let bytes = window.view(at, least);
        let bytes = bytes.get(..MAX_HEAD_BYTES).unwrap_or(bytes);
        let length = bytes.len();
        match head(layout, bytes) {
            Ok(head) => break head,
            Err(Refused::Other(what)) => return Err(what),
            Err(Refused::Cut) => {}
        }
        if at.saturating_add(length as u64) >= window.length() {
            return Err(ENDS);
        }
        if length >= MAX_HEAD_BYTES {
            return Err("its header is longer than 1 MiB");
        }
        least = length.saturating_mul(2).clamp(1, MAX_HEAD_BYTES);
    };
    let rest = window.length().saturating_sub(at);
    let announced = window.announced().saturating_sub(at);
    let all = announced.saturating_mul(8);
    let packet = context.packet_size.or(context.content_size).unwrap_or(all);
    let content = context.content_size.unwrap_or(packet);
    if content > packet || content < events_at || packet == 0 || !packet.is_multiple_of(8) {
        return Err("its sizes contradict each other");
    }
    let length = packet / 8;
    // What fills a packet up behind its content has nothing in it: without that, the packet is whole.
    let is_whole = |bytes: u64| content <= bytes.saturating_mul(8);
    Ok(PacketHead {
        stream,
        class,
        end: content.min(rest.saturating_mul(8)),
        events_at,
        length,
        missing: if is_whole(announced) { 0 } else { length.saturating_sub(announced) },
        is_cut: !is_whole(rest),
        context,
    })
}

//! What the metadata of a trace says: who recorded it, its clocks, its streams, its kinds of events.

use std::collections::{BTreeMap, HashMap};

use super::CtfError;
use super::class::EventClass;
use super::header::Header;
use super::node::Struct;
use super::resolve::{Resolver, is_big};
use super::tsdl;
use super::tsdl::tree::{BlockLine, Top, TsdlValue, Type};
use crate::clock::TraceClock;
use crate::events::What;
use crate::state::Numbers;

/// Places of the table of kinds for each kind that there is, at most.
const SPREAD: u64 = 16;

/// Events that share headers and contexts.
#[derive(Debug, Default)]
pub struct StreamClass {
    pub header: Header,
    /// Fields of its packets.
    pub packet_context: Option<Struct>,
    /// Fields that each event has in front of its own.
    pub event_context: Option<Struct>,
    classes: Vec<EventClass>,
    dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
}

impl StreamClass {
    fn add(&mut self, id: u64, class: EventClass) {
        self.classes.push(class);
        self.sparse.insert(id, u32::try_from(self.classes.len()).unwrap_or(u32::MAX));
    }

    /// Makes finding kinds fast, where their numbers are close together.
    fn finish(&mut self) {
        let last = self.sparse.keys().max().copied().unwrap_or(0);
        let room = (self.classes.len() as u64).saturating_mul(SPREAD).saturating_add(SPREAD);
        if last >= room {
            return;
        }
        self.dense.resize(last as usize + 1, 0);
        for (id, number) in self.sparse.drain() {
            if let Some(place) = self.dense.get_mut(id as usize) {
                *place = number;
            }
        }
    }

    #[inline(always)]
    pub fn class(&self, id: u64) -> Option<&EventClass> {
        let number = match self.dense.get(usize::try_from(id).ok()?) {
            Some(number) => *number,
            None if self.sparse.is_empty() => return None,
            None => self.sparse.get(&id).copied()?,
        };
        self.classes.get((number as usize).checked_sub(1)?)
    }

    pub fn classes(&self) -> &[EventClass] {
        &self.classes
    }
}

/// A trace, as its metadata describes it.
#[derive(Debug, Default)]
pub struct TraceLayout {
    /// Its number, which each packet repeats.
    pub uuid: Option<[u8; 16]>,
    /// Whether its byte order is big-endian.
    pub big: bool,
    pub packet_header: Option<Struct>,
    pub streams: BTreeMap<u64, StreamClass>,
    pub clocks: Vec<TraceClock>,
    /// What it says about where and by what it was recorded.
    pub env: BTreeMap<String, String>,
    /// Whether it is a chunk of a session that LTTng rotates, which only the name of its folder says.
    pub is_chunk: bool,
    /// The widest alignment of anything in a packet, bits, a power of two.
    pub widest: u64,
    kinds: usize,
}

fn wrong(sentence: impl Into<String>) -> CtfError {
    CtfError::Metadata(sentence.into())
}

/// The value of a line `name = value;`.
fn set<'a, 'i>(lines: &'a [BlockLine<'i>], name: &str) -> Option<&'a TsdlValue<'i>> {
    lines.iter().rev().find_map(|line| match line {
        BlockLine::Set(path, value) if path.as_slice() == [name] => Some(value),
        _ => None,
    })
}

fn number(lines: &[BlockLine<'_>], name: &str) -> Result<Option<u64>, CtfError> {
    let Some(value) = set(lines, name) else { return Ok(None) };
    match value.number() {
        Some(number) => Ok(Some(number)),
        None => Err(wrong(format!("`{name}` is no number"))),
    }
}

/// The type of a line `path := type;`.
fn typed<'a, 'i>(lines: &'a [BlockLine<'i>], path: &[&str]) -> Option<&'a Type<'i>> {
    lines.iter().find_map(|line| match line {
        BlockLine::Typed(found, ty) if found.as_slice() == path => Some(ty),
        _ => None,
    })
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn clock(lines: &[BlockLine<'_>]) -> Result<TraceClock, CtfError> {
    let signed = |name: &str| match set(lines, name) {
        Some(TsdlValue::Number(number)) => i64::try_from(*number)
            .map_err(|_| wrong(format!("the clock's `{name}` is beyond 64 bits"))),
        Some(_) => Err(wrong(format!("the clock's `{name}` is no number"))),
        None => Ok(0),
    };
    let word =
        |name: &str| set(lines, name).and_then(TsdlValue::word).unwrap_or_default().to_owned();
    let frequency_hz = number(lines, "freq")?.unwrap_or(1_000_000_000);
    if frequency_hz == 0 {
        return Err(wrong("a clock has a frequency of 0"));
    }
    Ok(TraceClock {
        name: word("name"),
        description: word("description"),
        frequency_hz,
        offset_s: signed("offset_s")?,
        offset_cycles: signed("offset")?,
    })
}

fn env(lines: &[BlockLine<'_>]) -> BTreeMap<String, String> {
    let pair = |line: &BlockLine<'_>| match line {
        BlockLine::Set(path, value) => {
            let value = match value {
                TsdlValue::Text(text) => text.clone(),
                TsdlValue::Number(number) => number.to_string(),
                TsdlValue::Words(words) => words.join("."),
            };
            Some((path.join("."), value))
        }
        BlockLine::Typed(..) | BlockLine::Declared(_) => None,
    };
    lines.iter().filter_map(pair).collect()
}

/// How the kernel that was recorded numbers states of threads: LTTng and noised say its release under one name,
/// `perf data convert` under another.
fn numbers(env: &BTreeMap<String, String>) -> Numbers {
    let release = env.get("kernel_release").or_else(|| env.get("release"));
    Numbers::of(release.map_or("", String::as_str))
}

/// Blocks of one word.
fn blocks<'a, 'i>(tops: &'a [Top<'i>], word: &'a str) -> impl Iterator<Item = &'a [BlockLine<'i>]> {
    tops.iter().filter_map(move |top| match top {
        Top::Block(found, lines) if *found == word => Some(lines.as_slice()),
        Top::Block(..) | Top::Declared(_) => None,
    })
}

/// Enters a block and learns what it declares.
fn enter<'a, 'i>(resolver: &mut Resolver<'a, 'i>, lines: &'a [BlockLine<'i>]) {
    resolver.enter();
    for line in lines {
        match line {
            BlockLine::Declared(declaration) => resolver.declare(declaration),
            BlockLine::Typed(_, ty) => resolver.declare_type(ty),
            BlockLine::Set(..) => {}
        }
    }
}

impl TraceLayout {
    /// Reads the text of the metadata.
    /// Errors: one sentence about what cannot be understood.
    pub fn parse(text: &str) -> Result<Self, CtfError> {
        if tsdl::is_endless(text) {
            return Err(wrong("it declares more than any tracer does"));
        }
        let parsed = tsdl::parse(text);
        let tops = parsed.map_err(|(line, rest)| CtfError::Syntax(line, rest))?;
        let mut resolver = Resolver::new();
        let mut layout = Self::default();
        for block in blocks(&tops, "clock") {
            let clock = clock(block)?;
            resolver.clocks.push(clock.name.clone());
            layout.clocks.push(clock);
        }
        for block in blocks(&tops, "trace") {
            if (number(block, "major")?, number(block, "minor")?) != (Some(1), Some(8)) {
                return Err(wrong("only version 1.8 of CTF is read"));
            }
            layout.big = is_big(set(block, "byte_order").and_then(TsdlValue::word), false)?;
            layout.uuid = set(block, "uuid").and_then(TsdlValue::word).and_then(uuid);
        }
        resolver.big = layout.big;
        for top in &tops {
            if let Top::Declared(declaration) = top {
                resolver.declare(declaration);
            }
        }
        layout.env = blocks(&tops, "env").flat_map(env).collect();
        for block in blocks(&tops, "trace") {
            layout.packet_header = scope(&mut resolver, block, &["packet", "header"])?;
        }
        for block in blocks(&tops, "stream") {
            let id = number(block, "id")?.unwrap_or(0);
            layout.streams.insert(id, stream(&mut resolver, block)?);
        }
        // A trace of one stream may leave its block out: then neither packets nor events have anything in front
        // of them.
        if layout.streams.is_empty() && blocks(&tops, "event").next().is_some() {
            layout.streams.insert(0, StreamClass::default());
        }
        for block in blocks(&tops, "event") {
            layout.add_event(&mut resolver, block)?;
        }
        layout.widest = resolver.widest;
        for (id, stream) in &mut layout.streams {
            let kinds = stream.classes.len();
            if kinds > 1 && !stream.header.has_kind() {
                return Err(wrong(format!(
                    "stream {id} has {kinds} kinds of events, and nothing in front of an event says of which kind it is: \
                     its header needs an `id`"
                )));
            }
            stream.finish();
        }
        if layout.streams.is_empty() {
            return Err(wrong("there is neither a stream nor an event"));
        }
        Ok(layout)
    }

    fn add_event<'a, 'i>(
        &mut self,
        resolver: &mut Resolver<'a, 'i>,
        block: &'a [BlockLine<'i>],
    ) -> Result<(), CtfError> {
        let name = set(block, "name").and_then(TsdlValue::word);
        let name = name.ok_or_else(|| wrong("an event has no name"))?;
        let named = |error| match error {
            CtfError::Metadata(sentence) => CtfError::Metadata(format!("event {name}: {sentence}")),
            other => other,
        };
        let id = number(block, "id").map_err(named)?.unwrap_or(0);
        let stream = number(block, "stream_id").map_err(named)?;
        // A trace of one stream may leave its number out.
        let only = || self.streams.keys().next().copied().unwrap_or(0);
        let stream = self.streams.get_mut(&stream.unwrap_or_else(only));
        let stream = stream.ok_or_else(|| named(wrong("its stream is not defined")))?;
        let numbers = numbers(&self.env);
        let context = scope(resolver, block, &["context"]).map_err(named)?;
        let fields = scope(resolver, block, &["fields"]).map_err(named)?.unwrap_or_default();
        stream.add(id, EventClass::new(name, self.kinds, numbers, context, fields));
        self.kinds += 1;
        Ok(())
    }

    /// Whether it may have events of a kind.
    pub fn has(&self, what: What) -> bool {
        let mut classes = self.streams.values().flat_map(StreamClass::classes);
        classes.any(|class| class.what == what)
    }

    /// Whether LTTng's tracer recorded it, or one that names LTTng's, as ours.
    pub fn is_lttngs(&self) -> bool {
        self.is_by("lttng")
    }

    /// Whether `perf data convert` wrote it.
    pub fn is_perfs(&self) -> bool {
        self.is_by("perf")
    }

    fn is_by(&self, tracer: &str) -> bool {
        self.env.get("tracer_name").is_some_and(|name| name.starts_with(tracer))
    }

    /// The stream of packets that name none.
    pub fn only_stream(&self) -> Option<u64> {
        self.streams.keys().next().copied().filter(|_| self.streams.len() == 1)
    }
}

fn scope<'a, 'i>(
    resolver: &mut Resolver<'a, 'i>,
    block: &'a [BlockLine<'i>],
    path: &[&str],
) -> Result<Option<Struct>, CtfError> {
    let Some(ty) = typed(block, path) else { return Ok(None) };
    enter(resolver, block);
    let laid_out = resolver.scope(&path.join("."), ty);
    resolver.leave();
    laid_out.map(Some)
}

fn stream<'a, 'i>(
    resolver: &mut Resolver<'a, 'i>,
    block: &'a [BlockLine<'i>],
) -> Result<StreamClass, CtfError> {
    let header = scope(resolver, block, &["event", "header"])?;
    let header = Header::new(header.as_ref())
        .ok_or_else(|| wrong("event headers of other things than integers are not supported"))?;
    Ok(StreamClass {
        header,
        packet_context: scope(resolver, block, &["packet", "context"])?,
        event_context: scope(resolver, block, &["event", "context"])?,
        classes: Vec::new(),
        dense: Vec::new(),
        sparse: HashMap::new(),
    })
}

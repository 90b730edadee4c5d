//! Events as lines of text, in the form that babeltrace prints.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_text::clean::{as_text, clean};

use crate::bounded::Bounded;
use crate::decimal;
use crate::event::LostEvents;
use crate::record::{Record, Stored};
use crate::value::{Shape, Value, Visit};

/// Nanoseconds of a second, and seconds of a day.
const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;
/// From so far behind the first event of a recording, a time of the day may be nearer to it on another day: half a day,
/// less what clocks are set forward.
const DATED_S: u64 = 11 * 3600;

/// Writes events of one trace, one after the other.
#[derive(Clone, Debug)]
pub struct TextLines {
    host: String,
    zone: TimeZone,
    /// The first second whose day is written; none where no day ever is.
    dated: Option<u64>,
    before_ns: Option<u64>,
    /// The second of that event, and how lines of it begin.
    second: Option<u64>,
    begin: String,
}

impl TextLines {
    /// Of a trace that was recorded on this host; the name may be empty. Times are UTC.
    pub fn new(host: &str) -> Self {
        let host = if host.is_empty() { String::new() } else { format!("{} ", clean(host)) };
        let zone = TimeZone::UTC;
        Self { host, zone, dated: None, before_ns: None, second: None, begin: String::new() }
    }

    /// Of a recording that begins so many nanoseconds after the epoch of its clock: times are those of a zone, and have
    /// their day in front where it could be mistaken.
    pub fn since(self, begin_ns: u64, zone: TimeZone) -> Self {
        Self { zone, dated: Some(begin_ns / SECOND_NS + DATED_S), ..self }
    }

    /// Adds a line: time of day, distance from the event before, host, name, CPU, fields.
    pub fn write<'t>(&mut self, record: &Record<impl Stored<'t>>, line: &mut String) {
        let time_ns = record.time_ns;
        let second = time_ns / SECOND_NS;
        if self.second != Some(second) {
            self.second = Some(second);
            self.begin = begin(second, &self.zone, self.dated.is_some_and(|from| second >= from));
        }
        line.push_str(&self.begin);
        decimal::push_nine(time_ns % SECOND_NS, line);
        match self.before_ns.replace(time_ns) {
            None => line.push_str("] (+?.?????????) "),
            Some(before_ns) => {
                let since_ns = time_ns.saturating_sub(before_ns);
                line.push_str("] (+");
                decimal::push(since_ns / SECOND_NS, line);
                line.push('.');
                decimal::push_nine(since_ns % SECOND_NS, line);
                line.push_str(") ");
            }
        }
        line.push_str(&self.host);
        line.push_str(record.name());
        line.push_str(": { cpu_id = ");
        decimal::push(record.cpu.into(), line);
        line.push_str(" }");
        if let Some(loss) = record.loss() {
            lost(&loss, line);
            return;
        }
        let mut context = FieldWriter { line, open: LastWritten::Nothing };
        record.visit_contexts(&mut Bounded::new(&mut context), |bounded| {
            let context = bounded.inner();
            if context.open != LastWritten::Nothing {
                context.line.push_str(" }");
            }
            context.line.push_str(", {");
            context.open = LastWritten::First;
        });
        if context.open != LastWritten::Nothing {
            line.push_str(" }");
        }
        line.push_str(", {");
        let mut fields = FieldWriter { line, open: LastWritten::First };
        let mut bounded = Bounded::new(&mut fields);
        record.visit(&mut bounded);
        let is_cut = bounded.is_cut();
        line.push_str(if is_cut { ", ... }\n" } else { " }\n" });
    }
}

/// How lines of events of a second begin: the time of day, behind the day where that is asked for.
fn begin(second: u64, zone: &TimeZone, is_dated: bool) -> String {
    let time = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
    let offset = time.map_or(0, |time| i64::from(zone.to_offset(time).seconds()));
    let day = time.filter(|_| is_dated).map(|time| time.to_zoned(zone.clone()).date());
    let day = day.map_or_else(String::new, |day| format!("{day} "));
    let second = second.saturating_add_signed(offset) % DAY_S;
    format!("[{day}{:02}:{:02}:{:02}.", second / 3600, second / 60 % 60, second % 60)
}

fn lost(loss: &LostEvents, line: &mut String) {
    let LostEvents { events, packets, from_ns, to_ns } = loss;
    let _ = writeln!(
        line,
        ", {{ events = {events}, packets = {packets}, from_ns = {from_ns}, to_ns = {to_ns} }}"
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWritten {
    Nothing,
    /// A brace or a bracket.
    First,
    Value,
}

struct FieldWriter<'a> {
    line: &'a mut String,
    open: LastWritten,
}

impl FieldWriter<'_> {
    fn next(&mut self) {
        self.line.push_str(if self.open == LastWritten::Value { ", " } else { " " });
    }
}

impl Visit for FieldWriter<'_> {
    fn name(&mut self, name: &str) {
        self.next();
        self.line.push_str(name.strip_prefix('_').unwrap_or(name));
        self.line.push_str(" = ");
    }

    fn element(&mut self, number: u64) {
        self.next();
        let _ = write!(self.line, "[{number}] = ");
    }

    fn value(&mut self, value: Value<'_>) {
        write_value(value, self.line);
        self.open = LastWritten::Value;
    }

    fn begin(&mut self, shape: Shape) {
        self.line.push_str(if shape == Shape::Elements { "[" } else { "{" });
        self.open = LastWritten::First;
    }

    fn end(&mut self, shape: Shape) {
        self.line.push_str(if shape == Shape::Elements { " ]" } else { " }" });
        self.open = LastWritten::Value;
    }
}

fn write_value(value: Value<'_>, line: &mut String) {
    match value {
        Value::Unsigned { value, base } => write_number(value, base, line),
        Value::Signed { value, base: 10, .. } => decimal::push_signed(value, line),
        Value::Signed { value, base, bits } => {
            let unused = 64_u32.saturating_sub(bits);
            write_number((value as u64) << unused >> unused, base, line);
        }
        Value::Float(value) => {
            let _ = write!(line, "{value}");
        }
        Value::Text(text) => write_text(text, line),
        Value::Label { label, value } => {
            match label {
                Some(label) => write_text(label.as_bytes(), {
                    line.push_str("( ");
                    line
                }),
                None => line.push_str("( <unknown>"),
            }
            line.push_str(" : container = ");
            write_value(*value, line);
            line.push_str(" )");
        }
    }
}

fn write_number(value: u64, base: u8, line: &mut String) {
    let _ = match base {
        16 => write!(line, "0x{value:X}"),
        8 => write!(line, "0{value:o}"),
        2 => write!(line, "0b{value:b}"),
        _ => {
            decimal::push(value, line);
            Ok(())
        }
    };
}

/// In quotes. What would end the text or the line is escaped; nearly all texts have nothing of it.
fn write_text(text: &[u8], line: &mut String) {
    line.push('"');
    let text = as_text(text);
    let is_plain = |byte| !matches!(byte, b'"' | b'\\' | b'\n' | b'\r' | b'\t');
    if text.bytes().all(is_plain) {
        line.push_str(&text);
    } else {
        text.chars().for_each(|c| write_character(c, line));
    }
    line.push('"');
}

fn write_character(c: char, line: &mut String) {
    match c {
        '"' => line.push_str("\\\""),
        '\\' => line.push_str("\\\\"),
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        other => line.push(other),
    }
}

//! A kind of event of one trace, with a layout that is computed once: where its fields lie is known without
//! a look at the fields before them, but for strings and sequences.

use noise_text::clean::clean;

use super::bits;
use super::node::{Int, Node, SLOTS, Slots, Struct};
use super::walk::{Bytes, Cut, skip_field};
use crate::event::TraceKind;
use crate::events::{self, EventField, Fields, What};
use crate::state::{LeftIn, Numbers};

/// Fields of fixed places, and one behind them that is of any length.
#[derive(Debug)]
struct FixedFieldRun {
    /// Alignment of its begin, bits.
    align: u64,
    /// Length of the fixed part, bits.
    bits: u64,
    /// Number of the field that ends it.
    tail: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum CtfFieldLocation {
    /// The event has no such field, or it is of another type than is asked for.
    Nowhere,
    /// An integer, so many bits into a run.
    Int(u16, u64, Int),
    /// So many characters, so many bits into a run.
    Characters(u16, u64, u64),
    /// A string that ends a run.
    Text(u16),
    /// An integer that ends a run, as others need it.
    TailInt(u16, Int),
}

#[derive(Debug)]
pub struct EventClass {
    /// As the trace has it.
    pub name: Box<str>,
    /// Its number among all kinds of the trace.
    pub number: usize,
    pub what: What,
    /// How its trace numbers the states of threads.
    pub numbers: Numbers,
    /// Fields of the event's own context.
    pub context: Option<Struct>,
    pub fields: Struct,
    runs: Vec<FixedFieldRun>,
    places: Vec<CtfFieldLocation>,
}

/// Names are shown without the underscore that tracers put in front of them.
pub fn shown(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

impl EventClass {
    pub fn new(
        name: &str,
        number: usize,
        numbers: Numbers,
        context: Option<Struct>,
        fields: Struct,
    ) -> Self {
        let mut runs: Vec<FixedFieldRun> = Vec::new();
        let mut open = FixedFieldRun { align: fields.align, bits: 0, tail: None };
        let mut found = Vec::with_capacity(fields.fields.len());
        for (number, (_, node)) in fields.fields.iter().enumerate() {
            let fixed = node.fixed();
            // What is aligned more than the run lies at a place that depends on where the run begins.
            if node.align() > open.align && (open.bits > 0 || fixed.is_none()) {
                runs.push(open);
                open = FixedFieldRun { align: node.align(), bits: 0, tail: None };
            }
            open.align = open.align.max(node.align());
            let run = runs.len().min(usize::from(u16::MAX)) as u16;
            let Some(fixed) = fixed else {
                found.push(match node {
                    Node::Text => CtfFieldLocation::Text(run),
                    Node::Int(int) | Node::Enum(int, _) => CtfFieldLocation::TailInt(run, *int),
                    _ => CtfFieldLocation::Nowhere,
                });
                open.tail = Some(number);
                runs.push(open);
                open = FixedFieldRun { align: 1, bits: 0, tail: None };
                continue;
            };
            // What is longer than 64 bits can say lies beyond the end of any packet.
            let at = bits::claimed(open.bits, node.align()).unwrap_or(u64::MAX);
            found.push(match node {
                Node::Int(int) | Node::Enum(int, _) => CtfFieldLocation::Int(run, at, *int),
                Node::Array(of, count) if of.is_characters() => {
                    CtfFieldLocation::Characters(run, at, *count)
                }
                _ => CtfFieldLocation::Nowhere,
            });
            open.bits = at.saturating_add(fixed);
        }
        if open.bits > 0 {
            runs.push(open);
        }
        let what = What::named(name);
        let place = |field: &EventField| {
            let number = field.names.iter().find_map(|wanted| {
                fields.fields.iter().position(|(name, _)| shown(name) == *wanted)
            });
            number
                .and_then(|number| found.get(number).copied())
                .unwrap_or(CtfFieldLocation::Nowhere)
        };
        let places = what.fields().iter().map(place).collect();
        // Of another's metadata: it may have anything in it, lines among it.
        let name = clean(name).as_ref().into();
        Self { name, number, what, numbers, context, fields, runs, places }
    }

    /// The place behind fields that begin at `at`.
    /// Errors: where they lie beyond the content.
    #[inline]
    pub fn skip(&self, bytes: Bytes<'_>, at: u64) -> Result<u64, Cut> {
        match self.runs.as_slice() {
            [] => Ok(at),
            [FixedFieldRun { align, bits, tail: None }] => {
                let behind = bits::aligned(at, *align).saturating_add(*bits);
                if behind > bytes.end { Err(Cut::Beyond) } else { Ok(behind) }
            }
            runs => self.skip_runs(runs, bytes, at),
        }
    }

    fn skip_runs(&self, runs: &[FixedFieldRun], bytes: Bytes<'_>, mut at: u64) -> Result<u64, Cut> {
        let mut kept = [0; SLOTS];
        let mut slots = Slots::new(&mut kept, at);
        for run in runs {
            at = bits::aligned(at, run.align).saturating_add(run.bits);
            if at > bytes.end {
                return Err(Cut::Beyond);
            }
            if let Some((_, node)) = run.tail.and_then(|tail| self.fields.fields.get(tail)) {
                at = skip_field(node, bytes, at, &mut slots)?;
            }
        }
        Ok(at)
    }

    /// What an event is whose fields begin at `at`. It was skipped before: all of it is there.
    #[inline]
    pub fn kind<'t>(&'t self, bytes: Bytes<'t>, at: u64) -> TraceKind<'t> {
        events::kind(self.what, &self.name, &EventFields { class: self, bytes, at })
    }
}

struct EventFields<'t> {
    class: &'t EventClass,
    bytes: Bytes<'t>,
    at: u64,
}

impl<'t> EventFields<'t> {
    #[inline(always)]
    fn place(&self, field: usize) -> CtfFieldLocation {
        self.class.places.get(field).copied().unwrap_or(CtfFieldLocation::Nowhere)
    }

    /// Where a run begins.
    #[inline(always)]
    fn run(&self, number: u16) -> Option<u64> {
        let first = self.class.runs.first()?;
        let begin = bits::aligned(self.at, first.align);
        if number == 0 { Some(begin) } else { self.later_run(number) }
    }

    fn later_run(&self, number: u16) -> Option<u64> {
        let (before, from) = self.class.runs.split_at_checked(usize::from(number))?;
        let at = self.class.skip_runs(before, self.bytes, self.at).ok()?;
        Some(bits::aligned(at, from.first()?.align))
    }

    /// Where the field begins that ends a run.
    fn tail(&self, number: u16) -> Option<u64> {
        Some(self.run(number)? + self.class.runs.get(usize::from(number))?.bits)
    }

    #[inline(always)]
    fn find_int(&self, field: usize) -> Option<u64> {
        let (at, int) = match self.place(field) {
            CtfFieldLocation::Int(run, at, int) => (self.run(run)? + at, int),
            CtfFieldLocation::TailInt(run, int) => (self.tail(run)?, int),
            CtfFieldLocation::Nowhere
            | CtfFieldLocation::Characters(..)
            | CtfFieldLocation::Text(_) => return None,
        };
        Some(int.read(self.bytes.bytes, at, self.bytes.end)?.0)
    }

    #[inline(always)]
    fn find_text(&self, field: usize) -> Option<&'t [u8]> {
        match self.place(field) {
            CtfFieldLocation::Characters(run, at, count) => {
                self.bytes.characters(self.run(run)? + at, count)
            }
            CtfFieldLocation::Text(run) => {
                Some(self.bytes.text(bits::aligned(self.tail(run)?, 8))?.0)
            }
            CtfFieldLocation::Nowhere
            | CtfFieldLocation::Int(..)
            | CtfFieldLocation::TailInt(..) => None,
        }
    }
}

impl<'t> Fields<'t> for EventFields<'t> {
    #[inline(always)]
    fn has(&self, field: usize) -> bool {
        !matches!(self.place(field), CtfFieldLocation::Nowhere)
    }

    #[inline(always)]
    fn int(&self, field: usize) -> u64 {
        self.find_int(field).unwrap_or(0)
    }

    #[inline(always)]
    fn state(&self, field: usize) -> LeftIn {
        self.class.numbers.state(self.int(field) as i64)
    }

    #[inline(always)]
    fn text(&self, field: usize) -> &'t [u8] {
        self.find_text(field).unwrap_or_default()
    }
}

//! Where an event lies, and what is read of it there.

use crate::ctf::class::EventClass;
use crate::ctf::header::Head;
use crate::ctf::layout::StreamClass;
use crate::ctf::node::{SLOTS, Slots, Struct};
use crate::ctf::walk::{Bytes, Cut, skip_fields, walk_fields};
use crate::event::TraceKind;
use crate::record::{self, Stored};
use crate::value::Visit;
use crate::window::Window;

/// Where an event lies in the window.
pub struct RecordPlace<'t> {
    class: &'t EventClass,
    stream: &'t StreamClass,
    /// Where its contexts begin, in bits.
    context_at: u64,
    /// Where its own fields begin, in bits.
    fields_at: u64,
    /// Nothing of it lies behind that, in bits.
    end: u64,
}

/// An event, with the window that it lies in.
#[derive(Clone, Copy)]
pub struct Located<'r> {
    place: &'r RecordPlace<'r>,
    window: &'r Window<'r>,
}

impl<'r> Located<'r> {
    /// Of what was located in that window.
    #[inline(always)]
    pub const fn new(place: &'r RecordPlace<'r>, window: &'r Window<'r>) -> Self {
        Self { place, window }
    }

    #[inline(always)]
    fn bytes(&self) -> Bytes<'r> {
        Bytes { bytes: self.window.seen(), end: self.place.end }
    }
}

pub type CtfRecord<'t> = record::Record<Located<'t>>;

impl<'t> Stored<'t> for Located<'t> {
    fn name(&self) -> &'t str {
        &self.place.class.name
    }

    fn number(&self) -> Option<usize> {
        Some(self.place.class.number)
    }

    #[inline]
    fn kind(&self) -> TraceKind<'t> {
        self.place.class.kind(self.bytes(), self.place.fields_at)
    }

    fn visit(&self, visit: &mut impl Visit) {
        // It was skipped over before: all of it is there.
        let _ = show(&self.place.class.fields, self.bytes(), self.place.fields_at, visit);
    }

    /// First the context of all events of its stream, then that of its kind.
    #[inline]
    fn visit_contexts<V: Visit>(&self, visit: &mut V, mut begin: impl FnMut(&mut V)) {
        let RecordPlace { class, stream, context_at: mut at, .. } = *self.place;
        for context in [&stream.event_context, &class.context].into_iter().flatten() {
            begin(visit);
            match show(context, self.bytes(), at, visit) {
                Ok(behind) => at = behind,
                Err(_) => return,
            }
        }
    }
}

/// Shows fields. Of those that always have the same length none is kept for another one.
fn show(fields: &Struct, bytes: Bytes<'_>, at: u64, visit: &mut impl Visit) -> Result<u64, Cut> {
    match fields.fixed {
        Some(_) => walk_fields(fields, bytes, at, &mut Slots::new(&mut [], at), visit),
        None => walk_fields(fields, bytes, at, &mut Slots::new(&mut [0; SLOTS], at), visit),
    }
}

pub enum Missed {
    Cut,
    Empty,
    Kind,
    Size,
}

impl From<Cut> for Missed {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Beyond => Self::Cut,
            Cut::Empty => Self::Empty,
        }
    }
}

/// What the header of the event at that place says, where the event lies, and the place behind it.
#[inline(always)]
pub fn locate<'t>(
    stream: &'t StreamClass,
    bytes: Bytes<'_>,
    at: u64,
) -> Result<(Head, RecordPlace<'t>, u64), Missed> {
    let (head, context_at) = stream.header.read(bytes, at)?;
    let class = stream.class(head.kind).ok_or(Missed::Kind)?;
    let mut fields_at = context_at;
    if stream.event_context.is_some() || class.context.is_some() {
        fields_at = skip_contexts([&stream.event_context, &class.context], bytes, context_at)?;
    }
    let behind = class.skip(bytes, fields_at)?;
    Ok((head, RecordPlace { class, stream, context_at, fields_at, end: bytes.end }, behind))
}

#[inline(never)]
fn skip_contexts(
    contexts: [&Option<Struct>; 2],
    bytes: Bytes<'_>,
    mut at: u64,
) -> Result<u64, Cut> {
    for context in contexts.into_iter().flatten() {
        at = skip_fields(context, bytes, at, &mut Slots::new(&mut [0; SLOTS], at))?;
    }
    Ok(at)
}

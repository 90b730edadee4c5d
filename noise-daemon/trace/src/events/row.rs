//! How an event is written down: its names, what it consists of in the model, and its fields in the order in which a
//! recording has them. From that come its reader, its writer, its form in Perfetto's traces, and the threads that it
//! names.
//!
//! ```text
//! events! {
//!     SchedWaking = "sched_waking" perfetto 20, SchedWakeup = "sched_wakeup" perfetto 17 => (woken: Woken) {
//!         ("comm" = comm 1,       Comm, woken.task.comm)
//!         ("tid" | "pid" = int 2, i32,  woken.task.tid, names known)
//!         ("prio" = prio 3,       i32,  woken.task.prio)
//!         ("target_cpu" = int 5,  i32,  woken.target_cpu)
//!     }
//! }
//! ```
//!
//! Events in front of one `=>` have the same fields. Behind it, `(woken: Woken)` is the value of a kind that has just one,
//! and `{ irq: u32, ret: i32 }` are the names and types of several, as the entry of the event has them.
//!
//! Of several names of an event or of a field, the first is the one of our recordings, the others are those of other tracers.
//! A field has a type of the recording ([`super::field`]) and a place in the model.
//!
//! - `read` in front of a field: other tracers alone have it. It needs no place where only its presence counts.
//! - `write`: it has a value, and is not read.
//! - `by`: a function that reads a field which tracers do not have alike.
//! - `names known`, behind `by`: it is the id of a thread that the event names; where it is 0, the thread is not known, and
//!   none is named. With `names any`, 0 is the idle task, and is named, too. An event names two threads at most.
//! - `perfetto 20`: the number of the event's message in Perfetto's `FtraceEvent`. An event without it is exported as a generic
//!   one, with all its fields.
//! - `= int 2`: the number of the field in that message, and the method of [`PerfettoFields`] that writes it. Fields with `read`
//!   or `write` have none.

use noise_protobuf::Message;
use noise_text::clean::as_text;

use super::field::{EventField, FieldSteps};
use crate::event::TraceKind;
use crate::rwbs;
use crate::state::LeftIn;
use crate::task::Comm;

pub trait EventRow {
    /// The name in recordings.
    const NAME: &'static str;
    const FIELDS: &'static [EventField];

    fn is_named(name: &str) -> bool;

    /// Reads it; the step behind its last field.
    fn read<'t, S: FieldSteps<'t>>(next: S) -> (TraceKind<'t>, S);

    /// Appends its fields, if it is this event.
    fn write(kind: &TraceKind<'_>, bytes: &mut Vec<u8>);

    /// Writes it with Perfetto's type. False, and nothing is written, if it is another event or its row gives no type.
    fn perfetto(kind: &TraceKind<'_>, message: &mut Message, add_prio: i32) -> bool;

    /// Finds the threads that it names, if it is this event.
    fn threads(kind: &TraceKind<'_>, named: &mut NamedThreads);
}

/// The threads that an event names, the first two.
#[derive(Default)]
pub struct NamedThreads {
    found: [Option<i32>; 2],
}

impl NamedThreads {
    /// A thread, unless its id is 0: then it is not known.
    pub fn known(&mut self, tid: i32) {
        if tid != 0 {
            self.any(tid);
        }
    }

    /// A thread, or the idle task, whose id is 0.
    pub fn any(&mut self, tid: i32) {
        if let Some(place) = self.found.iter_mut().find(|place| place.is_none()) {
            *place = Some(tid);
        }
    }

    pub const fn found(&self) -> [Option<i32>; 2] {
        self.found
    }
}

/// The fields of an event as Perfetto's type has them.
pub struct PerfettoFields<'m> {
    message: &'m mut Message,
    /// What is added to priorities to have the kernel's.
    add_prio: i32,
}

impl<'m> PerfettoFields<'m> {
    pub const fn new(message: &'m mut Message, add_prio: i32) -> Self {
        Self { message, add_prio }
    }

    pub fn int(&mut self, number: u32, value: impl Into<i64>) {
        self.message.signed(number, value);
    }

    pub fn unsigned(&mut self, number: u32, value: u64) {
        self.message.unsigned(number, value);
    }

    pub fn text(&mut self, number: u32, value: &[u8]) {
        self.message.text(number, &as_text(value));
    }

    pub fn comm(&mut self, number: u32, value: Comm) {
        self.text(number, value.bytes());
    }

    pub fn state(&mut self, number: u32, value: LeftIn) {
        self.int(number, value.bits());
    }

    pub fn prio(&mut self, number: u32, value: i32) {
        self.int(number, value.saturating_add(self.add_prio));
    }

    pub fn rwbs(&mut self, number: u32, value: u32) {
        self.message.text(number, &rwbs::letters(value));
    }
}

macro_rules! events {
    (@event $event:ident $names:tt $perfetto:tt ($part:ident: $type:ty) $fields:tt) => {
        events! { @make $event $names $perfetto [0, $part: $type] $fields }
    };
    (@event $event:ident $names:tt $perfetto:tt { $($part:ident: $type:ty),* } $fields:tt) => {
        events! { @make $event $names $perfetto [$($part, $part: $type)*] $fields }
    };
    (@make $event:ident [$($name:literal)+] $perfetto:tt [$($member:tt, $part:ident: $type:ty)*] { $($field:tt)* }) => {
        pub struct $event;

        impl $crate::events::row::EventRow for $event {
            const NAME: &'static str = [$($name),+][0];
            const FIELDS: &'static [$crate::events::EventField] = &[$(events!(@field $field)),*];

            fn is_named(name: &str) -> bool {
                matches!(name, $($name)|+)
            }

            #[inline(always)]
            fn read<'t, S: $crate::events::field::FieldSteps<'t>>(
                next: S,
            ) -> ($crate::event::TraceKind<'t>, S) {
                $(let mut $part = <$type>::default();)*
                $(let next = events!(@read next $field);)*
                ($crate::event::TraceKind::$event { $($member: $part),* }, next)
            }

            #[inline]
            fn write(kind: &$crate::event::TraceKind<'_>, bytes: &mut Vec<u8>) {
                if let $crate::event::TraceKind::$event { $($member: $part),* } = *kind {
                    $(events!(@write bytes $field);)*
                    // Not all of it is in recordings.
                    let _ = (bytes, $($part),*);
                }
            }

            fn perfetto(
                kind: &$crate::event::TraceKind<'_>,
                message: &mut noise_protobuf::Message,
                add_prio: i32,
            ) -> bool {
                events! {
                    @typed $event $perfetto (kind message add_prio)
                    [$($member, $part)*] { $($field)* }
                }
            }

            fn threads(
                kind: &$crate::event::TraceKind<'_>,
                named: &mut $crate::events::row::NamedThreads,
            ) {
                if let $crate::event::TraceKind::$event { $($member: $part),* } = *kind {
                    $(events!(@thread named $field);)*
                    let _ = (named, $($part),*);
                }
            }
        }
    };

    (@typed $event:ident [] ($kind:ident $message:ident $add_prio:ident) $parts:tt
        { $($field:tt)* }) => {{
        $(events!(@unnumbered $field);)*
        let _ = ($kind, $message, $add_prio);
        false
    }};
    (@typed $event:ident [$number:literal] ($kind:ident $message:ident $add_prio:ident)
        [$($member:tt, $part:ident)*] { $($field:tt)* }) => {{
        let $crate::event::TraceKind::$event { $($member: $part),* } = *$kind else { return false };
        $message.message($number, |message| {
            let mut fields = $crate::events::row::PerfettoFields::new(message, $add_prio);
            $(events!(@number fields $field);)*
            // Not all of it is in Perfetto.
            let _ = (&mut fields, $($part),*);
        });
        true
    }};

    (@field (read $($name:literal)|+ $(, $of:ty, $place:expr $(, $($note:tt)+)?)?)) => {
        $crate::events::EventField::undeclared(&[$($name),+])
    };
    (@field ($(write)? $($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty, $value:expr
        $(, $($note:tt)+)?)) => {
        $crate::events::EventField::of::<$of>(&[$($name),+])
    };

    (@read $next:ident (read $($name:literal)|+)) => { $next.foreign(|_, _| ()) };
    (@read $next:ident (read $($name:literal)|+, $of:ty, $place:expr $(, names $which:ident)?)) => {
        $next.foreign(|fields, field| events!(@hold $of, $place, fields, field))
    };
    (@read $next:ident (write $($name:literal)|+, $of:ty, $value:expr)) => {
        $next.recorded::<$of>(|_, _| ())
    };
    (@read $next:ident ($($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty, $place:expr
        $(, names $which:ident)?)) => {
        $next.recorded::<$of>(|fields, field| events!(@hold $of, $place, fields, field))
    };
    (@read $next:ident ($($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty, $place:expr,
        by $by:ident $(, names $which:ident)?)) => {
        $next.recorded::<$of>(|fields, field| $place = $by(fields, field))
    };
    (@hold $of:ty, $place:expr, $fields:ident, $field:ident) => {
        <$of as $crate::events::field::Holds<'_, _>>::read(&mut $place, $fields, $field)
    };

    (@write $bytes:ident (read $($field:tt)*)) => {};
    (@write $bytes:ident ($(write)? $($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty,
        $value:expr $(, $($note:tt)+)?)) => {
        <$of as $crate::events::field::Holds<'_, _>>::write($value, $bytes)
    };

    (@number $fields:ident ($($name:literal)|+ = $type:ident $number:literal, $of:ty, $value:expr
        $(, $($note:tt)+)?)) => {
        $fields.$type($number, $value)
    };
    (@number $fields:ident $field:tt) => { events!(@unnumbered $field) };
    (@unnumbered (read $($field:tt)*)) => {};
    (@unnumbered ($(write)? $($name:literal)|+, $($field:tt)*)) => {};

    (@thread $named:ident ($(read)? $($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty,
        $tid:expr, $(by $by:ident,)? names $which:ident)) => {
        $named.$which($tid)
    };
    (@thread $named:ident (read $($name:literal)|+ $(, $of:ty, $place:expr)?)) => {};
    (@thread $named:ident ($(write)? $($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty,
        $place:expr $(, by $by:ident)?)) => {};

    ($($($event:ident = $($name:literal)|+ $(perfetto $number:literal)?),+ => $parts:tt $fields:tt)+) => {
        $($(events! { @event $event [$($name)+] [$($number)?] $parts $fields })+)+
    };
}

pub(super) use events;

//! How an event is written down: its names, what it consists of in the model, and its fields in the order in which a
//! recording has them. From that its reader and its writer are made.
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
//! Events in front of one `=>` have the same fields. Of several names of an event or of a field, the first is the one of
//! our recordings, the others are those of other tracers. A field has a type of the recording ([`super::field`]) and a
//! place in the model. A `read` field is one that other tracers alone have; without a place it is only asked for by its
//! number. A `write` field has a value, and is not read. `by` names a function that reads a field which tracers do not have
//! alike. `names known` marks the id of a thread that the event names, 0 = not known, `names any` one that may be the idle
//! task. `perfetto` and the number behind a field's names say what Perfetto's `FtraceEvent` has in their place
//! ([`PerfettoFields`] lists the kinds).

use noise_protobuf::Message;
use noise_text::clean::as_text;

use super::field::{EventField, FieldSteps};
use crate::event::TraceKind;
use crate::rwbs;
use crate::state::LeftIn;
use crate::task::Comm;

/// An event of the table.
pub trait EventRow {
    /// The name in recordings.
    const NAME: &'static str;
    const FIELDS: &'static [EventField];

    fn is_named(name: &str) -> bool;

    /// Reads it; the step behind its last field.
    fn read<'t, S: FieldSteps<'t>>(next: S) -> (TraceKind<'t>, S);

    /// Appends its fields, if it is this event.
    fn write(kind: &TraceKind<'_>, bytes: &mut Vec<u8>);

    /// Writes it with Perfetto's type, if it is this event and Perfetto has one: whether it did.
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
    /// One that has to be known; 0 = it is not.
    pub fn known(&mut self, tid: i32) {
        if tid != 0 {
            self.any(tid);
        }
    }

    /// One that may be the idle task.
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
    /// What its priorities have more than those of the trace.
    add_prio: i32,
}

impl<'m> PerfettoFields<'m> {
    pub const fn new(message: &'m mut Message, add_prio: i32) -> Self {
        Self { message, add_prio }
    }

    pub fn int(&mut self, number: u32, value: impl Into<i64>) {
        self.message.signed(number, value);
    }

    pub fn address(&mut self, number: u32, value: u64) {
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

    (@typed $event:ident [] ($kind:ident $message:ident $add_prio:ident) $parts:tt $fields:tt) => {{
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
    (@read $next:ident (read $($name:literal)|+, $of:ty, $place:expr $(, names $($which:tt)+)?)) => {
        $next.foreign(|fields, field| events!(@hold $of, $place, fields, field))
    };
    (@read $next:ident (write $($name:literal)|+, $of:ty, $value:expr)) => {
        $next.recorded::<$of>(|_, _| ())
    };
    (@read $next:ident ($($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty, $place:expr
        $(, names $($which:tt)+)?)) => {
        $next.recorded::<$of>(|fields, field| events!(@hold $of, $place, fields, field))
    };
    (@read $next:ident ($($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty, $place:expr,
        by $by:ident $(, names $($which:tt)+)?)) => {
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
    (@number $fields:ident $field:tt) => {};

    (@thread $named:ident ($(read)? $($name:literal)|+ $(= $type:ident $number:literal)?, $of:ty,
        $tid:expr, $(by $by:ident,)? names $which:ident)) => {
        $named.$which($tid)
    };
    (@thread $named:ident $field:tt) => {};

    ($($($event:ident = $($name:literal)|+ $(perfetto $number:literal)?),+ => $parts:tt $fields:tt)+) => {
        $($(events! { @event $event [$($name)+] [$($number)?] $parts $fields })+)+
    };
}

pub(super) use events;

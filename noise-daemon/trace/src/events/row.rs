//! How an event is written down: its names, what it consists of in the model, and its fields in the order in which a
//! recording has them. From that its reader and its writer are made.
//!
//! ```text
//! events! {
//!     SchedProcessExit = "sched_process_exit", SchedProcessFree = "sched_process_free" => (task: Task) {
//!         ("comm",        Comm, task.comm)
//!         ("tid" | "pid", i32,  task.tid)
//!         ("prio",        i32,  task.prio)
//!     }
//! }
//! ```
//!
//! Events in front of one `=>` have the same fields. Of several names of an event or of a field, the first is the one of
//! our recordings, the others are those of other tracers. A field has a type of the recording ([`super::field`]) and a
//! place in the model. A `read` field is one that other tracers alone have; without a place it is only asked for by its
//! number. A `write` field has a value, and is not read. `by` names a function that reads a field which tracers do not have
//! alike.

use super::field::{EventField, FieldSteps};
use crate::event::TraceKind;

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
}

macro_rules! events {
    (@event $event:ident $names:tt ($part:ident: $type:ty) $fields:tt) => {
        events! { @make $event $names [0, $part: $type] $fields }
    };
    (@event $event:ident $names:tt { $($part:ident: $type:ty),* } $fields:tt) => {
        events! { @make $event $names [$($part, $part: $type)*] $fields }
    };
    (@make $event:ident [$($name:literal)+] [$($member:tt, $part:ident: $type:ty)*] { $($field:tt)* }) => {
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
        }
    };

    (@field (read $($name:literal)|+ $(, $of:ty, $place:expr)?)) => {
        $crate::events::EventField::undeclared(&[$($name),+])
    };
    (@field ($(write)? $($name:literal)|+, $of:ty, $value:expr $(, by $by:ident)?)) => {
        $crate::events::EventField::of::<$of>(&[$($name),+])
    };

    (@read $next:ident (read $($name:literal)|+)) => { $next.foreign(|_, _| ()) };
    (@read $next:ident (read $($name:literal)|+, $of:ty, $place:expr)) => {
        $next.foreign(|fields, field| events!(@hold $of, $place, fields, field))
    };
    (@read $next:ident (write $($name:literal)|+, $of:ty, $value:expr)) => {
        $next.recorded::<$of>(|_, _| ())
    };
    (@read $next:ident ($($name:literal)|+, $of:ty, $place:expr)) => {
        $next.recorded::<$of>(|fields, field| events!(@hold $of, $place, fields, field))
    };
    (@read $next:ident ($($name:literal)|+, $of:ty, $place:expr, by $by:ident)) => {
        $next.recorded::<$of>(|fields, field| $place = $by(fields, field))
    };
    (@hold $of:ty, $place:expr, $fields:ident, $field:ident) => {
        <$of as $crate::events::field::Holds<'_, _>>::read(&mut $place, $fields, $field)
    };

    (@write $bytes:ident (read $($field:tt)*)) => {};
    (@write $bytes:ident ($(write)? $($name:literal)|+, $of:ty, $value:expr $(, by $by:ident)?)) => {
        <$of as $crate::events::field::Holds<'_, _>>::write($value, $bytes)
    };

    ($($($event:ident = $($name:literal)|+),+ => $parts:tt $fields:tt)+) => {
        $($(events! { @event $event [$($name)+] $parts $fields })+)+
    };
}

pub(super) use events;

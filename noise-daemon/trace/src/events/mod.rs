//! The table of events: one file for each family, one row for each event. From it comes which event a name means, whatever
//! tracer wrote it, which fields make it up, how recordings of ours hold it, which type Perfetto has for it, and which
//! threads it names.
//!
//! A new event is an entry of [`for_each_event`] and a row in its family. Interrupt vectors and system calls have no rows:
//! their names and numbers come from [`VECTOR_HOOKS`] and [`CALLS`], and all else of them is written by hand below.

mod block;
mod calls;
mod dump;
mod field;
mod irq;
mod marks;
mod net;
mod row;
mod sched;

use std::sync::LazyLock;

use noise_common::hooks::{Edge, VECTOR_HOOKS, Vector};
use noise_common::store::calls::{CALLS, CallInfo};
use noise_protobuf::Message;

use crate::event::{TraceKind, for_each_event};
use crate::ipc::read::edge;
pub use field::{Declared, EventField, Fields};
use field::{DeclaredType, FieldReader, PackedFields};
pub use marks::MARK_ACTIONS;
use row::{EventRow as _, NamedThreads};

macro_rules! is_dump {
    (dump) => {
        true
    };
    ($family:ident) => {
        false
    };
}

macro_rules! list {
    (
        recorded { $($(#[$doc:meta])* $family:ident::$event:ident
            $(($($only:tt)*))? $({$($parts:tt)*})?,)* }
        foreign { $($(#[$foreign_doc:meta])* $elsewhere:ident::$foreign:ident
            $(($($foreign_only:tt)*))? $({$($foreign_parts:tt)*})?,)* }
    ) => {
        /// A kind, before its fields are read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum What {
            $($event,)*
            $($foreign,)*
            VectorEntry(Vector),
            VectorExit(Vector),
            SyscallEntry(&'static CallInfo),
            SyscallExit(&'static CallInfo),
            Other,
        }

        /// The places of recorded events in [`for_each_event`].
        enum RecordedOrder {
            $($event,)*
        }

        /// Their names and fields in recordings.
        const RECORDED: &[(&str, &[EventField])] =
            &[$(($family::$event::NAME, $family::$event::FIELDS),)*];

        impl What {
            /// The event with a row that has that name.
            fn listed(name: &str) -> Option<Self> {
                $(if $elsewhere::$foreign::is_named(name) {
                    return Some(Self::$foreign);
                })*
                $(if $family::$event::is_named(name) {
                    return Some(Self::$event);
                })*
                None
            }

            /// The fields that [`kind`] asks for, by their numbers.
            pub const fn fields(self) -> &'static [EventField] {
                match self {
                    $(Self::$event => $family::$event::FIELDS,)*
                    $(Self::$foreign => $elsewhere::$foreign::FIELDS,)*
                    Self::VectorEntry(_) | Self::VectorExit(_) => irq::VECTOR,
                    Self::SyscallEntry(_) => calls::ENTRY,
                    Self::SyscallExit(_) => calls::EXIT,
                    Self::Other => &[],
                }
            }
        }

        /// Reads what an event of a kind consists of.
        #[inline]
        pub fn kind<'t>(what: What, name: &'t str, fields: &impl Fields<'t>) -> TraceKind<'t> {
            match what {
                What::CgroupAttach if dump::is_of_other_hierarchy(fields) => TraceKind::Other(name),
                What::SyscallEntry(_) if calls::is_any_end(name, fields) => TraceKind::Other(name),
                $(What::$event => $family::$event::read(FieldReader::new(fields)).0,)*
                $(What::$foreign => $elsewhere::$foreign::read(FieldReader::new(fields)).0,)*
                What::VectorEntry(which) => {
                    TraceKind::VectorEntry { which, vector: fields.int(0) as u32 }
                }
                What::VectorExit(which) => TraceKind::VectorExit { which, vector: fields.int(0) as u32 },
                What::SyscallEntry(info) => TraceKind::SyscallEntry(calls::read_entry(info, fields)),
                What::SyscallExit(info) => TraceKind::SyscallExit(calls::read_exit(info, fields)),
                What::Other => TraceKind::Other(name),
            }
        }

        /// The number of an event in recordings; `None` of those that they do not have.
        #[inline]
        pub fn number(kind: &TraceKind<'_>) -> Option<u32> {
            Some(match kind {
                $(TraceKind::$event { .. } => const { numbered(RecordedOrder::$event as u32) },)*
                TraceKind::VectorEntry { which, .. } => {
                    VECTORS_AT + irq::vector_number(*which, Edge::Entry)
                }
                TraceKind::VectorExit { which, .. } => {
                    VECTORS_AT + irq::vector_number(*which, Edge::Exit)
                }
                TraceKind::SyscallEntry(call) => CALLS_AT + calls::number(call.info)?,
                TraceKind::SyscallExit(call) => CALLS_AT + calls::number(call.info)? + 1,
                _ => return None,
            })
        }

        /// Reads an event from its fields as [`write`] appends them; the bytes behind it. `None` of one that
        /// recordings do not have.
        #[inline]
        pub fn unpack(what: What, bytes: &[u8]) -> Option<(TraceKind<'_>, &[u8])> {
            let fields = PackedFields(bytes);
            let (kind, left) = match what {
                $(What::$event => $family::$event::read(fields),)*
                What::VectorEntry(which) => {
                    let (vector, left) = irq::unpack_vector(fields);
                    (TraceKind::VectorEntry { which, vector }, left)
                }
                What::VectorExit(which) => {
                    let (vector, left) = irq::unpack_vector(fields);
                    (TraceKind::VectorExit { which, vector }, left)
                }
                What::SyscallEntry(info) => {
                    let (call, left) = calls::unpack_entry(info, fields);
                    (TraceKind::SyscallEntry(call), left)
                }
                What::SyscallExit(info) => {
                    let (end, left) = calls::unpack_exit(info, fields);
                    (TraceKind::SyscallExit(end), left)
                }
                _ => return None,
            };
            Some((kind, left.0))
        }

        /// Whether an event is part of a state dump.
        #[inline]
        pub const fn is_dumped(kind: &TraceKind<'_>) -> bool {
            match kind {
                $(TraceKind::$event { .. } => is_dump!($family),)*
                _ => false,
            }
        }

        /// Writes an event with Perfetto's type. False, and nothing is written, if its row gives no type.
        pub fn perfetto(kind: &TraceKind<'_>, message: &mut Message, add_prio: i32) -> bool {
            match kind {
                $(TraceKind::$event { .. } => $family::$event::perfetto(kind, message, add_prio),)*
                $(TraceKind::$foreign { .. } => $elsewhere::$foreign::perfetto(kind, message, add_prio),)*
                TraceKind::VectorEntry { which, vector } => {
                    irq::perfetto_vector(*which, Edge::Entry, *vector, message)
                }
                TraceKind::VectorExit { which, vector } => {
                    irq::perfetto_vector(*which, Edge::Exit, *vector, message)
                }
                _ => false,
            }
        }

        pub fn threads(kind: &TraceKind<'_>) -> [Option<i32>; 2] {
            let mut named = NamedThreads::default();
            match kind {
                $(TraceKind::$event { .. } => $family::$event::threads(kind, &mut named),)*
                $(TraceKind::$foreign { .. } => $elsewhere::$foreign::threads(kind, &mut named),)*
                TraceKind::SyscallEntry(call) => named.known(call.tid),
                TraceKind::SyscallExit(end) => named.known(end.tid),
                _ => {}
            }
            named.found()
        }

        /// Appends the fields of an event, as recordings have them.
        #[inline]
        pub fn write(kind: &TraceKind<'_>, bytes: &mut Vec<u8>) {
            match kind {
                $(TraceKind::$event { .. } => $family::$event::write(kind, bytes),)*
                TraceKind::VectorEntry { vector, .. } | TraceKind::VectorExit { vector, .. } => {
                    irq::write_vector(*vector, bytes);
                }
                TraceKind::SyscallEntry(call) => calls::write_entry(call, bytes),
                TraceKind::SyscallExit(call) => calls::write_exit(call, bytes),
                // These are not recorded.
                _ => {}
            }
        }
    };
}

for_each_event!(list);

/// The event that follows those of vectors.
const AFTER_VECTORS: RecordedOrder = RecordedOrder::NmiHandler;
const VECTORS_AT: u32 = AFTER_VECTORS as u32;
/// The first number of calls: two of each, begin and end.
const CALLS_AT: u32 = (RECORDED.len() + VECTOR_HOOKS.len()) as u32;

const fn numbered(place: u32) -> u32 {
    if place < VECTORS_AT { place } else { place + VECTOR_HOOKS.len() as u32 }
}

impl What {
    /// The kind of an event of that name.
    pub fn named(name: &str) -> Self {
        // perf puts the subsystem in front: `sched:sched_switch`.
        let name = name.rsplit(':').next().unwrap_or(name);
        if let Some(what) = Self::listed(name).or_else(|| irq::vector_named(name)) {
            return what;
        }
        match edge(name) {
            Some((info, true)) => Self::SyscallEntry(info),
            Some((info, false)) => Self::SyscallExit(info),
            None => Self::Other,
        }
    }
}

/// The name of an event in recordings, and its fields with their types.
pub type DeclaredEvent = (String, Vec<(&'static str, DeclaredType)>);

/// All events, in order of their numbers; those of calls where a recording may have them.
pub fn declarations(has_calls: bool) -> impl Iterator<Item = DeclaredEvent> {
    let recorded = |fields: &[EventField]| fields.iter().filter_map(EventField::recorded).collect();
    let listed =
        move |(name, fields): &(&str, &[EventField])| ((*name).to_owned(), recorded(fields));
    let (first, last) = RECORDED.split_at(VECTORS_AT as usize);
    let vectors = irq::vector_names().map(move |name| (name, recorded(irq::VECTOR)));
    let call = move |info: &CallInfo| {
        let name = |edge: &str| format!("syscall_{edge}_{}", info.name);
        [
            (name("entry"), calls::entry_fields(info).collect()),
            (name("exit"), recorded(calls::EXIT)),
        ]
    };
    let calls = if has_calls { CALLS } else { &[] };
    first
        .iter()
        .map(listed)
        .chain(vectors)
        .chain(last.iter().map(listed))
        .chain(calls.iter().flat_map(call))
}

pub struct RecordedEvent {
    pub name: String,
    pub what: What,
    pub fields: Vec<(&'static str, DeclaredType)>,
}

/// All of them, by their numbers.
pub static RECORDED_EVENTS: LazyLock<Vec<RecordedEvent>> = LazyLock::new(|| {
    let recorded = |(name, fields): DeclaredEvent| {
        let what = What::named(&name);
        RecordedEvent { name, what, fields }
    };
    declarations(true).map(recorded).collect()
});

#[cfg(test)]
mod tests {
    use super::{Vector, What};

    #[test]
    fn names_of_all_tracers_are_known() {
        for (name, what) in [
            ("sched_switch", What::SchedSwitch),
            ("sched:sched_switch", What::SchedSwitch),
            ("irq_softirq_entry", What::SoftirqEntry),
            ("softirq_entry", What::SoftirqEntry),
            ("timer_hrtimer_expire_entry", What::HrtimerExpireEntry),
            ("hrtimer_expire_exit", What::HrtimerExpireExit),
            ("local_timer_entry", What::VectorEntry(Vector::LocalTimer)),
            ("x86_irq_vectors_reschedule_exit", What::VectorExit(Vector::Reschedule)),
            ("irq_vectors:call_function_single_exit", What::VectorExit(Vector::CallFunctionSingle)),
            ("nmi:nmi_handler", What::NmiHandler),
            ("syscall_entry_openat", What::Other),
            ("timer_start", What::Other),
            ("", What::Other),
        ] {
            assert_eq!(What::named(name), what, "{name}");
        }
    }
}

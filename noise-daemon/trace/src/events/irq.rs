//! Interrupts, softirqs and timers.

use core::ffi::CStr;

use noise_common::hooks::{Edge, Hook, VECTOR_HOOKS, Vector};
use noise_protobuf::Message;

use super::What;
use super::field::{EventField, Hex, Holds, PackedFields};
use super::row::events;

events! {
    IrqHandlerEntry = "irq_handler_entry" perfetto 36 => { irq: u32, name: &[u8] } {
        ("irq" = int 1,   i32,  irq)
        ("name" = text 2, CStr, name)
    }

    IrqHandlerExit = "irq_handler_exit" perfetto 37 => { irq: u32, ret: i32 } {
        ("irq" = int 1, i32, irq)
        ("ret" = int 2, i32, ret)
    }

    SoftirqRaise = "irq_softirq_raise" | "softirq_raise" perfetto 26,
    SoftirqEntry = "irq_softirq_entry" | "softirq_entry" perfetto 24,
    SoftirqExit = "irq_softirq_exit" | "softirq_exit" perfetto 25 => { vec: u32 } {
        ("vec" = int 1, u32, vec)
    }

    NmiHandler = "nmi_handler" => { delta_ns: i64, handled: i32 } {
        ("delta_ns",     i64, delta_ns)
        (read "handled", i32, handled)
    }

    HrtimerExpireEntry = "timer_hrtimer_expire_entry" | "hrtimer_expire_entry" perfetto 553 =>
    { hrtimer: u64, function: u64, now: i64 } {
        ("hrtimer" = unsigned 1,  Hex, hrtimer)
        ("now" = int 2,           i64, now)
        ("function" = unsigned 3, Hex, function)
    }

    HrtimerExpireExit = "timer_hrtimer_expire_exit" | "hrtimer_expire_exit" perfetto 554 =>
    { hrtimer: u64 } {
        ("hrtimer" = unsigned 1, Hex, hrtimer)
    }
}

/// Begins and ends of all interrupt vectors have the same field.
pub const VECTOR: &[EventField] = &[EventField::of::<i32>(&["vector"])];

/// What LTTng puts in front of the kernel's names.
const VECTOR_PREFIX: &str = "x86_irq_vectors_";

/// The event of a vector that has that name.
pub fn vector_named(name: &str) -> Option<What> {
    let name = name.strip_prefix(VECTOR_PREFIX).unwrap_or(name);
    match VECTOR_HOOKS.iter().find(|hook| hook.tracepoint() == name)? {
        Hook::Vector(which, Edge::Entry) => Some(What::VectorEntry(*which)),
        Hook::Vector(which, Edge::Exit) => Some(What::VectorExit(*which)),
        _ => None,
    }
}

/// The names of all of them in recordings, in the order of their numbers.
pub fn vector_names() -> impl Iterator<Item = String> {
    VECTOR_HOOKS.iter().map(|hook| format!("{VECTOR_PREFIX}{}", hook.tracepoint()))
}

/// The number of an event among those of vectors.
pub const fn vector_number(which: Vector, edge: Edge) -> u32 {
    let exit = match edge {
        Edge::Entry => 0,
        Edge::Exit => 1,
    };
    2 * which as u32 + exit
}

/// Perfetto has a type for the local timer alone.
pub fn perfetto_vector(which: Vector, edge: Edge, vector: u32, message: &mut Message) -> bool {
    let field = match (which, edge) {
        (Vector::LocalTimer, Edge::Entry) => 559,
        (Vector::LocalTimer, Edge::Exit) => 560,
        _ => return false,
    };
    message.message(field, |event| event.unsigned(1, vector));
    true
}

pub fn write_vector(vector: u32, bytes: &mut Vec<u8>) {
    <i32 as Holds<'_, u32>>::write(vector, bytes);
}

pub fn unpack_vector(fields: PackedFields<'_>) -> (u32, PackedFields<'_>) {
    let mut vector = 0;
    let left = fields.take::<i32, _>(&mut vector);
    (vector, left)
}

//! Interrupts, softirqs and timers.

use core::ffi::CStr;

use noise_common::hooks::{Edge, Hook, VECTOR_HOOKS, Vector};

use super::What;
use super::field::{EventField, Hex, Holds, PackedFields};
use super::row::events;

events! {
    IrqHandlerEntry = "irq_handler_entry" => { irq: u32, name: &[u8] } {
        ("irq",  i32,  irq)
        ("name", CStr, name)
    }

    IrqHandlerExit = "irq_handler_exit" => { irq: u32, ret: i32 } {
        ("irq", i32, irq)
        ("ret", i32, ret)
    }

    SoftirqRaise = "irq_softirq_raise" | "softirq_raise",
    SoftirqEntry = "irq_softirq_entry" | "softirq_entry",
    SoftirqExit = "irq_softirq_exit" | "softirq_exit" => { vec: u32 } {
        ("vec", u32, vec)
    }

    NmiHandler = "nmi_handler" => { delta_ns: i64, handled: i32 } {
        ("delta_ns",     i64, delta_ns)
        (read "handled", i32, handled)
    }

    HrtimerExpireEntry = "timer_hrtimer_expire_entry" | "hrtimer_expire_entry" =>
    { hrtimer: u64, function: u64, now: i64 } {
        ("hrtimer",  Hex, hrtimer)
        ("now",      i64, now)
        ("function", Hex, function)
    }

    HrtimerExpireExit = "timer_hrtimer_expire_exit" | "hrtimer_expire_exit" => { hrtimer: u64 } {
        ("hrtimer", Hex, hrtimer)
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

pub fn write_vector(vector: u32, bytes: &mut Vec<u8>) {
    <i32 as Holds<'_, u32>>::write(vector, bytes);
}

pub fn unpack_vector(fields: PackedFields<'_>) -> (u32, PackedFields<'_>) {
    let mut vector = 0;
    let left = fields.take::<i32, _>(&mut vector);
    (vector, left)
}

//! What programs say themselves; LTTng has none like it.

use core::ffi::CStr;

use super::field::{Declared, Fields, Holds};
use super::row::events;
use crate::event;
use crate::value::Value;

/// The action of a mark that begins something, and of one that ends it.
pub const MARK_ACTIONS: [&str; 2] = ["begin", "end"];

events! {
    Mark = "noised_mark" => (mark: event::ProgramMark<'_>) {
        ("action",    MarkAction, mark.begins)
        ("name",      CStr,       mark.name)
        ("key",       CStr,       mark.key)
        ("pid",       i32,        mark.pid)
        ("tid",       i32,        mark.tid, names known)
        ("uid",       u32,        mark.uid)
        ("before_ns", u64,        mark.before_ns)
    }
}

struct MarkAction;

impl Declared for MarkAction {
    const DECLARED: &'static str = CStr::DECLARED;

    fn split(bytes: &[u8]) -> (Value<'_>, &[u8]) {
        CStr::split(bytes)
    }
}

impl<'t> Holds<'t, bool> for MarkAction {
    fn read(place: &mut bool, fields: &impl Fields<'t>, field: usize) {
        *place = fields.text(field) == MARK_ACTIONS[0].as_bytes();
    }

    fn write(begins: bool, bytes: &mut Vec<u8>) {
        CStr::write(MARK_ACTIONS[usize::from(!begins)].as_bytes(), bytes);
    }
}

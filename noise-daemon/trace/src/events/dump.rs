//! What there was when the recording began.

use core::ffi::CStr;

use noise_common::store::calls::ObjectKind;

pub use super::calls::StatedumpSocket;
use super::field::Fields;
use super::row::events;
use crate::event::Dumped;
use crate::ipc::Object;
use crate::task::Comm;

events! {
    StatedumpStart = "lttng_statedump_start" => {} {}

    // Mode, status and namespace are not known.
    StatedumpProcess = "lttng_statedump_process_state" => (dumped: Dumped) {
        ("tid",            i32,  dumped.tid, names known)
        (write "vtid",     i32,  dumped.tid)
        ("pid",            i32,  dumped.pid)
        (write "vpid",     i32,  dumped.pid)
        ("ppid",           i32,  dumped.ppid)
        (write "vppid",    i32,  dumped.ppid)
        ("name",           Comm, dumped.comm)
        (write "type",     i32,  is_kernel_thread(&dumped))
        (write "mode",     i32,  0_i32)
        (write "submode",  i32,  UNKNOWN_SUBMODE)
        (write "status",   i32,  0_i32)
        (write "ns_level", i32,  0_i32)
        (write "ns_inum",  u32,  0_u32)
    }

    StatedumpInterrupt = "lttng_statedump_interrupt" =>
    { irq: u32, name: &[u8], action: &[u8] } {
        ("irq",    u32,  irq)
        ("name",   CStr, name)
        ("action", CStr, action)
    }

    StatedumpBlockDevice = "lttng_statedump_block_device" => { dev: u32, name: &[u8] } {
        ("dev",      u32,  dev)
        ("diskname", CStr, name)
    }

    StatedumpInterface = "lttng_statedump_network_interface" => { name: &[u8] } {
        ("name", CStr, name)
    }

    StatedumpEnd = "lttng_statedump_end" => {} {}

    // LTTng has none like it.
    CgroupAttach = "statedump_cgroup" | "cgroup_attach_task" => { tid: i32, path: &[u8] } {
        ("tid" | "pid",       i32,  tid, names known)
        ("path" | "dst_path", CStr, path)
        (read "dst_root")
    }

    StatedumpFile = "lttng_statedump_file_descriptor" =>
    { pid: i32, fd: i32, flags: u32, filename: &[u8], object: Object } {
        ("pid",           i32,        pid, names known)
        ("fd",            i32,        fd)
        ("flags",         u32,        flags)
        ("filename",      CStr,       filename)
        ("noised_object", ObjectKind, object.kind, by kind_or_unknown)
        ("noised_id",     u64,        object.id)
        ("noised_peer",   u32,        object.peer)
    }
}

/// The first kernel thread, from which all others come.
const FIRST_KERNEL_THREAD: i32 = 2;
/// LTTng's number of a submode that is unknown.
const UNKNOWN_SUBMODE: i32 = 1;

/// LTTng has it as a number, too.
fn is_kernel_thread(dumped: &Dumped) -> bool {
    [dumped.pid, dumped.ppid].contains(&FIRST_KERNEL_THREAD)
}

/// Hierarchies of version 1 have other numbers, and may disagree with each other.
pub fn is_of_other_hierarchy<'t>(fields: &impl Fields<'t>) -> bool {
    fields.int(2) != 0
}

/// Unknown where the trace does not say.
fn kind_or_unknown<'t>(fields: &impl Fields<'t>, field: usize) -> ObjectKind {
    let number = fields.has(field).then(|| fields.int(field));
    number.and_then(ObjectKind::from_number).unwrap_or(ObjectKind::Unknown)
}

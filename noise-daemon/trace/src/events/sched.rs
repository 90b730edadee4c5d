//! What the scheduler does.

use core::ffi::CStr;

use super::field::Fields;
use super::row::events;
use crate::event::{Task, Woken};
use crate::state::LeftIn;
use crate::task::Comm;

events! {
    SchedSwitch = "sched_switch" perfetto 4 => { prev: Task, prev_state: LeftIn, next: Task } {
        ("prev_comm" = comm 1,            Comm,   prev.comm)
        ("prev_tid" | "prev_pid" = int 2, i32,    prev.tid, names any)
        ("prev_prio" = prio 3,            i32,    prev.prio)
        ("prev_state" = state 4,          LeftIn, prev_state)
        ("next_comm" = comm 5,            Comm,   next.comm)
        ("next_tid" | "next_pid" = int 6, i32,    next.tid, names any)
        ("next_prio" = prio 7,            i32,    next.prio)
    }

    SchedWaking = "sched_waking" perfetto 20,
    SchedWakeup = "sched_wakeup" perfetto 17,
    SchedWakeupNew = "sched_wakeup_new" perfetto 114 => (woken: Woken) {
        ("comm" = comm 1,       Comm, woken.task.comm)
        ("tid" | "pid" = int 2, i32,  woken.task.tid, names known)
        ("prio" = prio 3,       i32,  woken.task.prio)
        ("target_cpu" = int 5,  i32,  woken.target_cpu)
    }

    SchedMigrateTask = "sched_migrate_task" perfetto 491 =>
    { task: Task, orig_cpu: u32, dest_cpu: u32 } {
        ("comm" = comm 1,       Comm, task.comm)
        ("tid" | "pid" = int 2, i32,  task.tid, names known)
        ("prio" = prio 3,       i32,  task.prio)
        ("orig_cpu" = int 4,    i32,  orig_cpu)
        ("dest_cpu" = int 5,    i32,  dest_cpu)
    }

    SchedProcessFork = "sched_process_fork" perfetto 239 =>
    { parent: Task, parent_pid: i32, child: Task, child_pid: i32 } {
        ("parent_comm" | "comm" = comm 1, Comm, parent.comm)
        ("parent_tid" = int 2,            i32,  parent.tid, by thread, names known)
        ("parent_pid" | "pid",            i32,  parent_pid, by process)
        ("child_comm" = comm 3,           Comm, child.comm)
        ("child_tid" = int 4,             i32,  child.tid,  by thread, names known)
        ("child_pid",                     i32,  child_pid,  by process)
    }

    SchedProcessExec = "sched_process_exec" perfetto 237 =>
    { filename: &[u8], tid: i32, old_tid: i32 } {
        ("filename" = text 1,   CStr, filename)
        ("tid" | "pid" = int 2, i32,  tid, names known)
        ("old_tid" | "old_pid", i32,  old_tid)
    }

    SchedProcessExit = "sched_process_exit" perfetto 238 => (task: Task) {
        ("comm" = comm 1,       Comm, task.comm)
        ("tid" | "pid" = int 2, i32,  task.tid, names known)
        ("prio" = prio 4,       i32,  task.prio)
    }

    SchedProcessFree = "sched_process_free" perfetto 240 => (task: Task) {
        ("comm" = comm 1,       Comm, task.comm)
        ("tid" | "pid" = int 2, i32,  task.tid, names known)
        ("prio" = prio 3,       i32,  task.prio)
    }

    SchedProcessWait = "sched_process_wait" perfetto 242 => { comm: Comm, child: i32, prio: i32 } {
        ("comm" = comm 1,       Comm, comm)
        ("tid" | "pid" = int 2, i32,  child, names known)
        ("prio" = prio 3,       i32,  prio)
    }

    // What a quota took, which LTTng does not have.
    Throttled = "noised_throttled" => { task: Task, throttled_ns: u64 } {
        ("comm",         Comm, task.comm)
        ("tid" | "pid",  i32,  task.tid, names known)
        ("throttled_ns", u64,  throttled_ns)
    }
}

/// A thread that creates another one, or is created. LTTng has its process in the next field; the kernel's own event has
/// the thread itself there, and no process.
fn thread<'t>(fields: &impl Fields<'t>, field: usize) -> i32 {
    fields.int(if fields.has(field) { field } else { field + 1 }) as i32
}

fn process<'t>(fields: &impl Fields<'t>, field: usize) -> i32 {
    if fields.has(field - 1) { fields.int(field) as i32 } else { 0 }
}

//! What the scheduler does.

use core::ffi::CStr;

use super::field::Fields;
use super::row::events;
use crate::event::{Task, Woken};
use crate::state::LeftIn;
use crate::task::Comm;

events! {
    SchedSwitch = "sched_switch" => { prev: Task, prev_state: LeftIn, next: Task } {
        ("prev_comm",             Comm,   prev.comm)
        ("prev_tid" | "prev_pid", i32,    prev.tid)
        ("prev_prio",             i32,    prev.prio)
        ("prev_state",            LeftIn, prev_state)
        ("next_comm",             Comm,   next.comm)
        ("next_tid" | "next_pid", i32,    next.tid)
        ("next_prio",             i32,    next.prio)
    }

    SchedWaking = "sched_waking",
    SchedWakeup = "sched_wakeup",
    SchedWakeupNew = "sched_wakeup_new" => (woken: Woken) {
        ("comm",        Comm, woken.task.comm)
        ("tid" | "pid", i32,  woken.task.tid)
        ("prio",        i32,  woken.task.prio)
        ("target_cpu",  i32,  woken.target_cpu)
    }

    SchedMigrateTask = "sched_migrate_task" => { task: Task, orig_cpu: u32, dest_cpu: u32 } {
        ("comm",        Comm, task.comm)
        ("tid" | "pid", i32,  task.tid)
        ("prio",        i32,  task.prio)
        ("orig_cpu",    i32,  orig_cpu)
        ("dest_cpu",    i32,  dest_cpu)
    }

    SchedProcessFork = "sched_process_fork" =>
    { parent: Task, parent_pid: i32, child: Task, child_pid: i32 } {
        ("parent_comm" | "comm", Comm, parent.comm)
        ("parent_tid",           i32,  parent.tid, by thread)
        ("parent_pid" | "pid",   i32,  parent_pid, by process)
        ("child_comm",           Comm, child.comm)
        ("child_tid",            i32,  child.tid,  by thread)
        ("child_pid",            i32,  child_pid,  by process)
    }

    SchedProcessExec = "sched_process_exec" => { filename: &[u8], tid: i32, old_tid: i32 } {
        ("filename",            CStr, filename)
        ("tid" | "pid",         i32,  tid)
        ("old_tid" | "old_pid", i32,  old_tid)
    }

    SchedProcessExit = "sched_process_exit",
    SchedProcessFree = "sched_process_free" => (task: Task) {
        ("comm",        Comm, task.comm)
        ("tid" | "pid", i32,  task.tid)
        ("prio",        i32,  task.prio)
    }

    SchedProcessWait = "sched_process_wait" => { comm: Comm, child: i32, prio: i32 } {
        ("comm",        Comm, comm)
        ("tid" | "pid", i32,  child)
        ("prio",        i32,  prio)
    }

    // What a quota took, which LTTng does not have.
    Throttled = "noised_throttled" => { task: Task, throttled_ns: u64 } {
        ("comm",         Comm, task.comm)
        ("tid" | "pid",  i32,  task.tid)
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

//! Uninterruptible sleep by cgroup: from the switch away from a task in that state until it is woken.
//!
//! Such a task waits for something in the kernel that no signal ends: a disk, a page of a file, memory
//! that others free, a lock, the child of a `vfork`. Who wakes it up is charged with the wait: a device's
//! interrupt, the softirq that completes requests or ends a timer, a kernel thread, a task. Where the kernel
//! marks the sleep as one for I/O (`in_iowait`), and a timer, an idle CPU or a kernel thread ended it, `iowait` is
//! charged: so it is with writes that wait for the writeback of other pages, with disks that a kernel thread serves, and
//! with file systems of other hosts.
//!
//! Where the kernel holds a thread back that writes to files faster than a device takes it (`balance_dirty_pages`), the sleep
//! is charged to those who dirtied the pages of that device which are to be written, the latest ones in proportion. So is the
//! sleep of a thread which waits for another one, as far as that was held back meanwhile: for the lock of a file, for example.
//!
//! A kernel thread that idles (`TASK_IDLE`, or any state with `TASK_NOLOAD`) has nothing to do and does
//! not wait; nor does a task that the freezer stopped, or a parked thread. Not counted are tasks that slept
//! already when the programs were attached, and those whose wake-up was under way before they were
//! switched away from: they wait for a CPU from then on. Where the kernel shows no interrupts, the task
//! that they interrupt is charged.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::UninterruptibleWait,
    name: "uninterruptible_wait",
    metric: "noised_uninterruptible_wait_seconds",
    help: "Time from being switched away from in uninterruptible sleep to being woken, by the cgroup that slept.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["cgroup"],
    hooks: &[Hook::SchedSwitch, Hook::SchedWaking, Hook::SchedWakeup],
    optional_hooks: &[Hook::DirtyBalance],
    fields: &["TASK_PID", "TASK_FLAGS", "TASK_CGROUPS", "CGROUP_KN", "KN_ID"],
    storage: Storage::Rotating,
    between: "switched away from in uninterruptible sleep (disk, page-in, `fsync`, locks of the kernel) → woken",
    delays: "uninterruptible sleeps",
    domain: Domain::Cpu,
    subject: SubjectKind::Cgroup,
    resource: Some(Resource::Uninterruptible),
    watched: true,
    remedies: &[
        (Cause::Hardirq, DEVICE),
        (Cause::Softirq, DEVICE),
        (Cause::Idle, DEVICE),
        (Cause::Kthread, DEVICE),
        (Cause::Iowait, DEVICE),
        (Cause::Writeback, &[Remedy::FasterDevice]),
        // Who ends a sleep is whom it waits for: to slow that down makes it longer.
        (Cause::Foreign, &[Remedy::MemoryLimits]),
        (Cause::Own, &[Remedy::FewerThreads]),
    ],
    table: "By cgroup",
    ..SignalInfo::PLAIN
};

/// Against waits that the completion of a request ends.
const DEVICE: &[Remedy] = &[Remedy::FasterDevice, Remedy::IoScheduler, Remedy::MemoryLimits];

/// `TASK_UNINTERRUPTIBLE` and `TASK_NOLOAD` of the kernel's `linux/sched.h`, the same since 4.2.
const UNINTERRUPTIBLE: u64 = 0x2;
const NOLOAD: u64 = 0x400;

/// Whether a task that is switched away from in this state waits for something.
#[inline(always)]
pub const fn is_uninterruptible_wait(state: u64) -> bool {
    state & (UNINTERRUPTIBLE | NOLOAD) == UNINTERRUPTIBLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_parked_frozen_and_dead_tasks_do_not_wait() {
        const WAKEKILL: u64 = 0x100;
        const FREEZABLE: u64 = 0x2000;
        let [interruptible, stopped, traced, dead, zombie, parked, frozen] =
            [0x1, 0x4 | WAKEKILL, 0x8, 0x80, 0x20, 0x40, 0x8000];
        for waits in [2, 2 | WAKEKILL, 2 | FREEZABLE, 2 | WAKEKILL | FREEZABLE] {
            assert!(is_uninterruptible_wait(waits), "{waits:x}");
        }
        let idle = UNINTERRUPTIBLE | NOLOAD;
        for other in [0, interruptible, stopped, traced, dead, zombie, parked, frozen] {
            assert!(!is_uninterruptible_wait(other), "{other:x}");
        }
        assert!(!is_uninterruptible_wait(idle) && !is_uninterruptible_wait(idle | FREEZABLE));
    }
}

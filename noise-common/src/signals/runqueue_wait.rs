//! Run-queue latency: from the moment a task became runnable until it runs.
//!
//! A task becomes runnable by a wake-up, by its creation, or by being preempted (or yielding) while
//! it could go on. A task that is woken while it still runs, or while it already waits, does not
//! start a new wait. The idle task never waits. Tasks that already waited when the programs were
//! attached are not counted.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::remedy::{Remedies, Remedy};
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::RunqueueWait,
    name: "runqueue_wait",
    metric: "noised_runqueue_wait_seconds",
    help: "Time from being runnable (woken up, created or preempted) to running, by what made the task runnable.",
    kind: ExportKind::Histogram(Buckets::Fine),
    labels: &["cause"],
    hooks: &[Hook::SchedSwitch, Hook::SchedWakeup, Hook::SchedWakeupNew],
    fields: &["TASK_PID"],
    storage: Storage::Fixed { subjects: CAUSES.len() },
    between: "runnable (woken, created or preempted) → running: run-queue latency",
    values: "`wakeup`, `preempt`",
    delays: "waits for a CPU",
    disturbed: "tasks of this host {wait} for a CPU",
    domain: Domain::Cpu,
    subject: SubjectKind::Kinds(&CAUSES),
    resource: Some(Resource::Cpu),
    watched: true,
    remedies: REMEDIES,
    table: "By what made the task runnable",
    ..SignalInfo::PLAIN
};

/// What made the waiting task runnable; the index is the subject of the cell.
pub const CAUSES: [&str; 2] = ["wakeup", "preempt"];

/// What helps against waits for a CPU, of the host or of a cgroup.
pub(super) const REMEDIES: Remedies = &[
    (
        Cause::Foreign,
        &[
            Remedy::CpuWeight,
            Remedy::SchedulingPolicy,
            Remedy::CpuAffinity,
            Remedy::CpuQuota,
            Remedy::IsolatedCpus,
        ],
    ),
    (Cause::Own, &[Remedy::FewerThreads]),
    (Cause::Kthread, &[Remedy::WorkqueueCpus, Remedy::HugePages, Remedy::IsolatedCpus]),
    (Cause::Idle, &[Remedy::IdleStates]),
];

//! Run-queue latency by cgroup: the waits of [`super::runqueue_wait`], by who waited.
//!
//! The cgroup is the one of the host's unified hierarchy; where the `cpu` controller still has a
//! hierarchy of its own, a task in the root of the unified one counts for its cgroup there. A task
//! that moves between cgroups while it waits counts for the one that it is in when it runs.

use crate::charge::Resource;
use crate::hooks::Hook;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage, runqueue_wait};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::CgroupRunqueueWait,
    name: "cgroup_runqueue_wait",
    metric: "noised_cgroup_runqueue_wait_seconds",
    help: "Time from being runnable to running, by the cgroup that waited.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["cgroup"],
    hooks: &[Hook::SchedSwitch, Hook::SchedWakeup, Hook::SchedWakeupNew],
    optional_hooks: &[Hook::SchedMigrate],
    fields: &["TASK_PID", "TASK_CGROUPS", "CGROUP_KN", "KN_ID"],
    storage: Storage::Rotating,
    between: "the same waits, by the cgroup that waited",
    delays: "waits for a CPU",
    disturbed: "{victim} {waits} for a CPU",
    domain: Domain::Cpu,
    subject: SubjectKind::Cgroup,
    part_of: Some(Signal::RunqueueWait),
    resource: Some(Resource::Cpu),
    outliers: true,
    watched: true,
    remedies: runqueue_wait::REMEDIES,
    table: "By cgroup",
    ..SignalInfo::PLAIN
};

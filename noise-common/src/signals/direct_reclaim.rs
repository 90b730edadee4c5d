//! Time in which a task reclaims memory itself, because the host or its own cgroup has none free. The
//! background reclaim of kswapd is not among it.

use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::DirectReclaim,
    name: "direct_reclaim",
    metric: "noised_direct_reclaim_seconds",
    help: "Time in which a task reclaims memory itself, for the host or for its cgroup's limit.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &[],
    hooks: &[Hook::ReclaimBegin, Hook::ReclaimEnd],
    optional_hooks: &[Hook::MemcgBegin, Hook::MemcgEnd],
    fields: &["TASK_PID"],
    storage: Storage::Fixed { subjects: 1 },
    between: "a task begins to reclaim memory itself, for the host or for its cgroup's limit → it ends",
    delays: "memory to be freed",
    disturbed: "tasks of this host {wait} for memory to be freed",
    domain: Domain::Memory,
    subject: SubjectKind::Host,
    watched: true,
    inherent: &[Remedy::MemoryLimits, Remedy::EarlierReclaim],
    ..SignalInfo::PLAIN
};

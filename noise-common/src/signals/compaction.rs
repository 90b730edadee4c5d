//! Time in which a task compacts memory itself, one zone at a time, to get a large page. The
//! background compaction of kernel threads is not among it.

use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Compaction,
    name: "compaction",
    metric: "noised_compaction_seconds",
    help: "Time in which a task compacts a memory zone itself; kernel threads excepted.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &[],
    hooks: &[Hook::CompactionBegin, Hook::CompactionEnd],
    fields: &["TASK_PID", "TASK_FLAGS"],
    storage: Storage::Fixed { subjects: 1 },
    between: "a task begins to compact a memory zone itself → it ends; kernel threads excepted",
    disturbed: "tasks of this host {wait} for memory to be compacted",
    domain: Domain::Memory,
    subject: SubjectKind::Host,
    watched: true,
    inherent: &[Remedy::HugePages, Remedy::ProactiveCompaction],
    ..SignalInfo::PLAIN
};

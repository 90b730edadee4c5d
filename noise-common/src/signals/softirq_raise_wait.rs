//! Backlog before a softirq is served: from the first `softirq_raise` of a vector on a CPU since the
//! vector's last entry there to its `softirq_entry`.
//!
//! A vector that is raised again after the kernel took its pending mask but before the entry is
//! served twice with one wait: the second entry has no raise of its own and counts nothing.

use crate::charge::Cause;
use crate::hooks::Hook;
use crate::remedy::against;
use crate::shown::Shown;
use crate::signals::{Buckets, ExportKind, SOFTIRQ_VECTORS, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::SoftirqRaiseWait,
    name: "softirq_raise_wait",
    metric: "noised_softirq_raise_wait_seconds",
    help: "Time from the first raise of a softirq vector to its entry on that CPU.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["vector"],
    hooks: &[Hook::SoftirqRaise, Hook::SoftirqEntry],
    fields: &[],
    storage: Storage::Fixed { subjects: SOFTIRQ_VECTORS.len() },
    between: "first `softirq_raise` → `softirq_entry` on that CPU",
    disturbed: "softirq {victim} {starts} late",
    domain: Domain::Interrupts,
    subject: SubjectKind::Vectors(&SOFTIRQ_VECTORS),
    cause: Some(Cause::Softirq),
    inherent: against(Cause::Softirq),
    shown: Shown::Before { kind: "softirq" },
    ..SignalInfo::PLAIN
};

//! Time in x86 interrupt vectors that are no device interrupts: local timer, inter-processor
//! interrupts, irq work, APIC events; from the vector's `_entry` to its `_exit` tracepoint, net of NMIs.
//!
//! Other architectures have no such tracepoints; there this signal is absent.

use crate::charge::Cause;
use crate::hooks::{VECTOR_HOOKS, VECTORS};
use crate::remedy::Remedy;
use crate::shown::Shown;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Vector,
    name: "vector",
    metric: "noised_vector_seconds",
    help: "Time in an interrupt vector that is no device interrupt (timer, inter-processor, APIC), net of NMIs.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["vector"],
    hooks: VECTOR_HOOKS.split_at(2).0,
    optional_hooks: VECTOR_HOOKS.split_at(2).1,
    fields: &[],
    storage: Storage::Fixed { subjects: VECTORS.len() },
    interrupts: Some("vector"),
    between: "x86 interrupt vectors without a device handler (local timer, inter-processor interrupts, APIC), net",
    disturbed: "interrupt {victim} {takes} longer",
    domain: Domain::Interrupts,
    subject: SubjectKind::Vectors(&VECTORS),
    cause: Some(Cause::Hardirq),
    inherent: &[Remedy::IsolatedCpus],
    shown: Shown::Source { kind: "vector" },
    ..SignalInfo::PLAIN
};

//! Time in x86 interrupt vectors that are no device interrupts: local timer, inter-processor
//! interrupts, irq work, APIC events; from the vector's `_entry` to its `_exit` tracepoint, net of NMIs.
//!
//! Other architectures have no such tracepoints; there this signal is absent.

use crate::charge::Cause;
use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::shown::{RECENT, Shown};
use crate::signals::{Buckets, Kind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Vector,
    name: "vector",
    metric: "noised_vector_seconds",
    help: "Time in an interrupt vector that is no device interrupt (timer, inter-processor, APIC), net of NMIs.",
    kind: Kind::Histogram(Buckets::Wide),
    labels: &["vector"],
    hooks: &[Hook::LocalTimerEntry, Hook::LocalTimerExit],
    optional_hooks: &[
        Hook::RescheduleEntry,
        Hook::RescheduleExit,
        Hook::CallFunctionEntry,
        Hook::CallFunctionExit,
        Hook::CallSingleEntry,
        Hook::CallSingleExit,
        Hook::IrqWorkEntry,
        Hook::IrqWorkExit,
        Hook::PlatformIpiEntry,
        Hook::PlatformIpiExit,
        Hook::SpuriousEntry,
        Hook::SpuriousExit,
        Hook::ApicErrorEntry,
        Hook::ApicErrorExit,
        Hook::ThermalEntry,
        Hook::ThermalExit,
        Hook::ThresholdEntry,
        Hook::ThresholdExit,
        Hook::DeferredErrorEntry,
        Hook::DeferredErrorExit,
    ],
    fields: &[],
    storage: Storage::Fixed { subjects: VECTORS.len() },
    interrupts: Some("vector"),
    between: "x86 interrupt vectors without a device handler (local timer, inter-processor interrupts, APIC), net",
    values: "",
    domain: Domain::Interrupts,
    subject: SubjectKind::Vectors(&VECTORS),
    part_of: None,
    resource: None,
    cause: Some(Cause::Hardirq),
    outliers: false,
    watched: false,
    remedies: &[],
    inherent: &[Remedy::IsolatedCpus],
    shown: Shown::Source { kind: "vector" },
    table: RECENT,
};

/// An x86 interrupt vector that the kernel serves without an irq handler; the discriminant is the
/// subject of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Vector {
    /// `local_timer`.
    LocalTimer,
    /// `reschedule`.
    Reschedule,
    /// `call_function`.
    CallFunction,
    /// `call_function_single`.
    CallFunctionSingle,
    /// `irq_work`.
    IrqWork,
    /// `x86_platform_ipi`.
    PlatformIpi,
    /// `spurious_apic`.
    Spurious,
    /// `error_apic`.
    ApicError,
    /// `thermal_apic`.
    Thermal,
    /// `threshold_apic`.
    Threshold,
    /// `deferred_error_apic`.
    DeferredError,
}

/// Names of the vectors, as the kernel's tracepoints have them.
pub const VECTORS: [&str; 11] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "spurious_apic",
    "error_apic",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
];

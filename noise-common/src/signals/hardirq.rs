//! Time in the handlers of device interrupts: `irq_handler_entry` to `irq_handler_exit`.
//!
//! Net of NMIs and of handlers nested inside. One value per handler: a shared line calls several.
//! x86 vectors (local timer, reschedule, ...) never pass here; see `vector`.

use crate::charge::Cause;
use crate::hooks::Hook;
use crate::remedy::against;
use crate::shown::Shown;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Hardirq,
    name: "hardirq",
    metric: "noised_hardirq_seconds",
    help: "Time in the handler of a device interrupt, net of what interrupted it.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["irq", "name"],
    hooks: &[Hook::IrqHandlerEntry, Hook::IrqHandlerExit],
    fields: &[],
    storage: Storage::Keyed,
    interrupts: Some("hardirq"),
    between: "`irq_handler_entry` → `irq_handler_exit`, net",
    disturbed: "interrupt {victim} {takes} longer",
    domain: Domain::Interrupts,
    subject: SubjectKind::Irq,
    cause: Some(Cause::Hardirq),
    inherent: against(Cause::Hardirq),
    shown: Shown::Source { kind: "irq" },
    ..SignalInfo::PLAIN
};

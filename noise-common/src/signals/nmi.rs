//! Time in NMI handlers, as the kernel itself measured it (`nmi_handler`'s delta argument, by the
//! scheduler clock). One value per handler call; an NMI may call several.

use crate::charge::Cause;
use crate::hooks::Hook;
use crate::remedy::against;
use crate::shown::Shown;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Nmi,
    name: "nmi",
    metric: "noised_nmi_seconds",
    help: "Time in an NMI handler, as the kernel measured it.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &[],
    hooks: &[Hook::NmiHandler],
    fields: &[],
    storage: Storage::Fixed { subjects: 1 },
    interrupts: Some("nmi"),
    between: "NMI handlers, as the kernel timed them",
    disturbed: "NMIs {take} longer",
    domain: Domain::Interrupts,
    subject: SubjectKind::Host,
    cause: Some(Cause::Nmi),
    inherent: against(Cause::Nmi),
    shown: Shown::Source { kind: "nmi" },
    ..SignalInfo::PLAIN
};

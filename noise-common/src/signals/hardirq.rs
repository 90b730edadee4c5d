//! Time in the handlers of device interrupts: `irq_handler_entry` to `irq_handler_exit`.
//!
//! Net of NMIs and of handlers nested inside. One value per handler: a shared line calls several.
//! x86 vectors (local timer, reschedule, ...) never pass here; see `vector`.

use crate::hooks::Hook;
use crate::signals::{Buckets, Kind, Signal, SignalInfo, Storage};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Hardirq,
    name: "hardirq",
    metric: "noised_hardirq_seconds",
    help: "Time in the handler of a device interrupt, net of what interrupted it.",
    kind: Kind::Histogram(Buckets::Wide),
    labels: &["irq", "name"],
    hooks: &[Hook::IrqHandlerEntry, Hook::IrqHandlerExit],
    optional_hooks: &[],
    fields: &[],
    storage: Storage::Keyed,
    interrupts: Some("hardirq"),
};

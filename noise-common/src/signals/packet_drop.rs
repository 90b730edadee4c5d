//! Packets that the kernel freed because it dropped them (`kfree_skb`), by its reason.
//!
//! Kernels before 5.17 give no reason; there all are `unknown`.

use crate::hooks::Hook;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::PacketDrop,
    name: "packet_drop",
    metric: "noised_packet_drops_total",
    help: "Packets dropped by the kernel, by its reason.",
    kind: ExportKind::Counter,
    labels: &["reason"],
    hooks: &[Hook::FreeSkb],
    fields: &[],
    storage: Storage::KeyedCounter,
    between: "packets dropped by the kernel, counted",
    values: "the kernel's own",
    domain: Domain::Network,
    subject: SubjectKind::DropReason,
    shown: Shown::Way { way: Way::Drop, stage: Stage::Events },
    ..SignalInfo::PLAIN
};

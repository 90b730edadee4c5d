//! Time in softirq vectors: `softirq_entry` to `softirq_exit`, net of the hardirqs, vectors and NMIs
//! that interrupted them.

use crate::charge::Cause;
use crate::hooks::Hook;
use crate::remedy::against;
use crate::shown::Shown;
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::Softirq,
    name: "softirq",
    metric: "noised_softirq_seconds",
    help: "Time in a softirq vector, net of the hardirqs and NMIs that interrupted it.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["vector"],
    hooks: &[Hook::SoftirqEntry, Hook::SoftirqExit],
    fields: &[],
    storage: Storage::Fixed { subjects: SOFTIRQ_VECTORS.len() },
    interrupts: Some("softirq"),
    between: "`softirq_entry` → `softirq_exit`, net",
    disturbed: "softirq {victim} {takes} longer",
    domain: Domain::Interrupts,
    subject: SubjectKind::Vectors(&SOFTIRQ_VECTORS),
    cause: Some(Cause::Softirq),
    inherent: against(Cause::Softirq),
    shown: Shown::Source { kind: "softirq" },
    ..SignalInfo::PLAIN
};

/// Names of the softirq vectors by number (the kernel's order, in lower case).
pub const SOFTIRQ_VECTORS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// The number of the vector that receives packets.
pub const NET_RX: u32 = 3;
/// The number of the vector that completes requests of block devices.
pub const BLOCK: u32 = 4;

#[cfg(test)]
mod tests {
    #[test]
    fn vectors_with_a_part_of_their_own_have_their_names() {
        assert_eq!(super::SOFTIRQ_VECTORS[super::NET_RX as usize], "net_rx");
        assert_eq!(super::SOFTIRQ_VECTORS[super::BLOCK as usize], "block");
    }
}

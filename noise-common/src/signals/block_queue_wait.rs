//! Time in a block device's queue: `block_rq_insert` to `block_rq_issue` of the same request.
//!
//! A request that the driver gives back (`block_rq_requeue`) waits again from there. A request that
//! is merged into another (`block_rq_merge`) disappears. Requests that are issued directly, without
//! an insert, never waited and are not counted.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::BlockQueueWait,
    name: "block_queue_wait",
    metric: "noised_block_queue_wait_seconds",
    help: "Time of a block request from its insertion into the queue to its issue to the driver.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["device", "operation"],
    hooks: &[Hook::BlockInsert, Hook::BlockIssue],
    optional_hooks: &[Hook::BlockRequeue, Hook::BlockMerge],
    fields: &["REQUEST_QUEUE", "REQUEST_FLAGS", "REQUEST_LEN", "DISK_MAJOR", "DISK_MINOR"],
    storage: Storage::Keyed,
    between: "`block_rq_insert` → `block_rq_issue`",
    delays: "requests in the queue",
    disturbed: "{operation} requests {wait} in the queue of {device}",
    domain: Domain::Disk,
    subject: SubjectKind::Request,
    resource: Some(Resource::BlockQueue),
    watched: true,
    remedies: &[
        (Cause::Foreign, &[Remedy::IoWeight, Remedy::IoMax, Remedy::IoScheduler]),
        (Cause::Own, &[Remedy::IoScheduler, Remedy::FasterDevice]),
    ],
    shown: Shown::Way { way: Way::Block, stage: Stage::Queue },
    ..SignalInfo::PLAIN
};

/// Names of the operations; the index is the low byte of the subject.
pub const OPERATIONS: [&str; 5] = ["read", "write", "flush", "discard", "other"];

/// Index into [`OPERATIONS`] of a request's `cmd_flags` (its low byte is the `req_op`: 0 read,
/// 1 write, 2 flush, 3 discard, 7 zone append, which writes).
#[inline(always)]
pub const fn operation_of(cmd_flags: u32) -> u64 {
    match cmd_flags & 0xff {
        operation @ 0..=3 => operation as u64,
        7 => 1,
        _ => 4,
    }
}

/// Subject of a request: its device's numbers and its operation.
#[inline(always)]
pub const fn block_subject(major: u32, minor: u32, operation: u64) -> u64 {
    ((major as u64) << 40) | ((minor as u64) << 8) | operation
}

/// Device numbers and operation index of a subject.
pub const fn split_block_subject(subject: u64) -> (u32, u32, usize) {
    ((subject >> 40) as u32, (subject >> 8) as u32, (subject & 0xff) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_survive_the_round_trip() {
        for (major, minor, operation) in [(254, 0, 0), (259, 0xf_ffff, 4), (0xfff, u32::MAX, 2)] {
            let subject = block_subject(major, minor, operation as u64);
            assert_eq!(split_block_subject(subject), (major, minor, operation));
        }
    }

    #[test]
    fn operations_are_named() {
        let names =
            [0, 1, 2, 3, 7, 9, 0x1_0001].map(|flags| OPERATIONS[operation_of(flags) as usize]);
        assert_eq!(names, ["read", "write", "flush", "discard", "write", "other", "write"]);
    }
}

//! Time at a block device: `block_rq_issue` to the `block_rq_complete` that ends the request.
//!
//! A partial completion is not the end. An attempt that the driver gives back
//! (`block_rq_requeue`) is void: only the issue that led to completion counts.

use crate::charge::{Cause, Resource};
use crate::hooks::Hook;
use crate::remedy::Remedy;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{Buckets, ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::BlockDeviceWait,
    name: "block_device_wait",
    metric: "noised_block_device_wait_seconds",
    help: "Time of a block request from its issue to the driver to its last completion.",
    kind: ExportKind::Histogram(Buckets::Wide),
    labels: &["device", "operation"],
    hooks: &[Hook::BlockIssue, Hook::BlockComplete],
    optional_hooks: &[Hook::BlockRequeue, Hook::BlockMerge],
    fields: &["REQUEST_QUEUE", "REQUEST_FLAGS", "REQUEST_LEN", "DISK_MAJOR", "DISK_MINOR"],
    storage: Storage::Keyed,
    between: "`block_rq_issue` → last `block_rq_complete`",
    delays: "requests at the device",
    disturbed: "{device} {takes} longer for {operation} requests",
    domain: Domain::Disk,
    subject: SubjectKind::Request,
    resource: Some(Resource::BlockDevice),
    watched: true,
    remedies: &[
        (Cause::Foreign, &[Remedy::IoMax, Remedy::FasterDevice]),
        (Cause::Own, &[Remedy::FasterDevice]),
    ],
    shown: Shown::Way { way: Way::Block, stage: Stage::Device },
    ..SignalInfo::PLAIN
};

//! Requests of block devices. LTTng does not say the same of all their steps.

use super::What;
use super::field::Fields;
use super::row::events;
use crate::event::Request;
use crate::rwbs::parse;
use crate::task::Comm;

events! {
    BlockRqInsert = "block_rq_insert" perfetto 126,
    BlockRqIssue = "block_rq_issue" perfetto 45 => (request: Request<'_>) {
        ("dev" = int 1,           u32,  request.dev)
        ("sector" = unsigned 2,   u64,  request.sector)
        ("nr_sector" = int 3,     u32,  request.sectors)
        ("bytes" = int 4,         u32,  request.bytes)
        ("tid",                   i32,  request.tid, names known)
        ("rwbs" = rwbs 5,         u32,  request.rwbs, by rwbs)
        ("comm" = text 6,         Comm, request.comm)
        (read "error" | "errors", i32,  request.error)
    }

    BlockRqMerge = "block_rq_merge" => (request: Request<'_>) {
        ("dev",                   u32,  request.dev)
        ("sector",                u64,  request.sector)
        ("nr_sector",             u32,  request.sectors)
        ("rwbs",                  u32,  request.rwbs, by rwbs)
        ("tid",                   i32,  request.tid)
        ("comm",                  Comm, request.comm)
        (read "bytes",            u32,  request.bytes)
        (read "error" | "errors", i32,  request.error)
    }

    BlockRqRequeue = "block_rq_requeue" perfetto 129 => (request: Request<'_>) {
        ("dev" = int 1,         u32,  request.dev)
        ("sector" = unsigned 2, u64,  request.sector)
        ("nr_sector" = int 3,   u32,  request.sectors)
        ("error" | "errors",    i32,  request.error)
        ("rwbs" = rwbs 5,       u32,  request.rwbs, by rwbs)
        (read "bytes",          u32,  request.bytes)
        (read "tid",            i32,  request.tid, names known)
        (read "comm",           Comm, request.comm)
    }

    // Who asked for a request has no part in its completion, which happens on any CPU.
    BlockRqComplete = "block_rq_complete" perfetto 125 => (request: Request<'_>) {
        ("dev" = int 1,         u32,  request.dev)
        ("sector" = unsigned 2, u64,  request.sector)
        ("nr_sector" = int 3,   u32,  request.sectors)
        ("error" | "errors",    i32,  request.error)
        ("rwbs" = rwbs 5,       u32,  request.rwbs, by rwbs)
        (read "bytes",          u32,  request.bytes)
        (read "tid",            i32,  request.tid)
        (read "comm",           Comm, request.comm)
    }
}

/// What a request does, which perf writes in letters.
#[inline]
fn rwbs<'t>(fields: &impl Fields<'t>, field: usize) -> u32 {
    match fields.int(field) as u32 {
        0 => parse(fields.text(field)),
        bits => bits,
    }
}

impl What {
    /// Whether it is a step of a block request.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Self::BlockRqInsert
                | Self::BlockRqIssue
                | Self::BlockRqComplete
                | Self::BlockRqRequeue
                | Self::BlockRqMerge
        )
    }
}

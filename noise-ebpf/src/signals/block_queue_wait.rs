//! Time of requests in a block device's queue.

use noise_common::event::{CpuState, RequestTimes};
use noise_common::loss::Loss;
use noise_common::queue::QueueWait;
use noise_common::signals::Signal;

use crate::maps::{NOISE_REQUESTS, drop_event, insert_or_drop, measures, record_keyed, trusts};
use crate::queue::{self, Ticket, Wait};

/// A request enters the queue. One that was put back waits since then.
#[inline(always)]
pub fn queue(
    state: *mut CpuState,
    request: u64,
    times: Option<*mut RequestTimes>,
    ticket: Ticket,
    now_ns: u64,
) {
    match times {
        // SAFETY: the block layer hands a request from stage to stage, never to two at once.
        Some(times) => unsafe {
            if (*times).queued_ns == 0 || !trusts(state, Signal::BlockQueueWait, (*times).queued_ns)
            {
                (*times).queued_ns = now_ns;
                (*times).queue_mark = ticket.mark;
            }
            (*times).issued_ns = 0;
            (*times).cgroup = ticket.cgroup;
        },
        None => {
            let Ticket { mark: queue_mark, cgroup } = ticket;
            let times =
                RequestTimes { queued_ns: now_ns, queue_mark, cgroup, ..RequestTimes::NONE };
            insert_or_drop(state, Signal::BlockQueueWait, &NOISE_REQUESTS, request, &times);
        }
    }
}

/// A request leaves the queue; one that was never in it did not wait.
#[inline(always)]
pub fn issue(state: *mut CpuState, times: *mut RequestTimes, subject: u64, disk: u64, now_ns: u64) {
    // SAFETY: as in `queue`.
    let queued_ns = unsafe { core::ptr::replace(&raw mut (*times).queued_ns, 0) };
    if queued_ns == 0 || !trusts(state, Signal::BlockQueueWait, queued_ns) {
        return;
    }
    if now_ns < queued_ns {
        return drop_event(state, Signal::BlockQueueWait, Loss::ClockBackwards);
    }
    if !measures(state, Signal::BlockQueueWait) {
        return;
    }
    record_keyed(state, Signal::BlockQueueWait, subject, now_ns - queued_ns, now_ns);
    // SAFETY: as in `queue`.
    let ticket = unsafe { Ticket { mark: (*times).queue_mark, cgroup: (*times).cgroup } };
    let (which, ns) = (QueueWait::Queue, now_ns - queued_ns);
    queue::charge(state, &Wait { which, queue: disk, ticket, ns, place: disk as u32 });
}

/// The driver gave a request back: it waits again, and the attempt does not count.
#[inline(always)]
pub fn requeue(times: *mut RequestTimes, mark: u64, now_ns: u64) {
    // SAFETY: as in `queue`.
    unsafe {
        (*times).queued_ns = now_ns;
        (*times).queue_mark = mark;
        (*times).issued_ns = 0;
    }
}

/// A request was merged into another.
#[inline(always)]
pub fn forget(times: *mut RequestTimes) {
    // SAFETY: as in `queue`.
    unsafe {
        (*times).queued_ns = 0;
        (*times).issued_ns = 0;
    }
}

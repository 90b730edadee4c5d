//! Time of requests in a block device's queue.

use noise_common::event::{CpuState, Drop, RequestTimes};
use noise_common::signals::Signal;

use crate::maps::{NOISE_REQUESTS, drop_event, insert_or_drop, record_keyed};

/// A request enters the queue. One that was put back waits since then.
#[inline(always)]
pub fn queue(state: *mut CpuState, request: u64, times: Option<*mut RequestTimes>, now_ns: u64) {
    match times {
        // SAFETY: the block layer hands a request from stage to stage, never to two at once.
        Some(times) => unsafe {
            if (*times).queued_ns == 0 {
                (*times).queued_ns = now_ns;
            }
            (*times).issued_ns = 0;
        },
        None => {
            let times = RequestTimes { queued_ns: now_ns, issued_ns: 0 };
            insert_or_drop(state, Signal::BlockQueueWait, &NOISE_REQUESTS, request, &times);
        }
    }
}

/// A request leaves the queue; one that was never in it did not wait.
#[inline(always)]
pub fn issue(state: *mut CpuState, times: *mut RequestTimes, subject: u64, now_ns: u64) {
    // SAFETY: as in `queue`.
    let queued_ns = unsafe { core::ptr::replace(&raw mut (*times).queued_ns, 0) };
    if queued_ns == 0 {
        return;
    }
    if now_ns < queued_ns {
        return drop_event(state, Signal::BlockQueueWait, Drop::ClockBackwards);
    }
    record_keyed(state, Signal::BlockQueueWait, subject, now_ns - queued_ns, now_ns);
}

/// The driver gave a request back: it waits again, and the attempt does not count.
#[inline(always)]
pub fn requeue(times: *mut RequestTimes, now_ns: u64) {
    // SAFETY: as in `queue`.
    unsafe {
        (*times).queued_ns = now_ns;
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

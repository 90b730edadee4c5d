//! Time of requests at a block device.

use noise_common::event::{CpuState, RequestTimes};
use noise_common::loss::Loss;
use noise_common::queue::QueueWait;
use noise_common::signals::Signal;

use crate::maps::{NOISE_REQUESTS, drop_event, insert_or_drop, record_keyed};
use crate::queue::{self, AT_DEVICE, Ticket, Wait};

/// A request goes to the driver.
#[inline(always)]
pub fn issue(
    state: *mut CpuState,
    request: u64,
    times: Option<*mut RequestTimes>,
    ticket: Ticket,
    now_ns: u64,
) {
    match times {
        // SAFETY: the block layer hands a request from stage to stage, never to two at once.
        Some(times) => unsafe {
            (*times).queued_ns = 0;
            (*times).issued_ns = now_ns;
            (*times).device_mark = ticket.mark;
            (*times).cgroup = ticket.cgroup;
        },
        None => {
            let Ticket { mark: device_mark, cgroup } = ticket;
            let times =
                RequestTimes { issued_ns: now_ns, device_mark, cgroup, ..RequestTimes::NONE };
            insert_or_drop(state, Signal::BlockDeviceWait, &NOISE_REQUESTS, request, &times);
        }
    }
}

/// When a request that ends was issued; 0 = not seen.
#[inline(always)]
pub fn take(times: Option<*mut RequestTimes>) -> u64 {
    let Some(times) = times else { return 0 };
    // SAFETY: as in `issue`.
    unsafe {
        (*times).queued_ns = 0;
        core::ptr::replace(&raw mut (*times).issued_ns, 0)
    }
}

/// The last part of a request is done.
#[inline(always)]
pub fn complete(
    state: *mut CpuState,
    subject: u64,
    disk: u64,
    ticket: Ticket,
    issued_ns: u64,
    now_ns: u64,
) {
    if now_ns < issued_ns {
        return drop_event(state, Signal::BlockDeviceWait, Loss::ClockBackwards);
    }
    record_keyed(state, Signal::BlockDeviceWait, subject, now_ns - issued_ns, now_ns);
    let (which, ns) = (QueueWait::Device, now_ns - issued_ns);
    queue::charge(state, &Wait { which, queue: disk | AT_DEVICE, ticket, ns, place: disk as u32 });
}

/// A completion whose issue was not seen.
#[inline(always)]
pub fn unknown(state: *mut CpuState) {
    drop_event(state, Signal::BlockDeviceWait, Loss::NoStart);
}

//! Time of requests at a block device.

use noise_common::event::{CpuState, Drop, RequestTimes};
use noise_common::signals::Signal;

use crate::maps::{NOISE_REQUESTS, drop_event, insert_or_drop, record_keyed};

/// A request goes to the driver.
#[inline(always)]
pub fn issue(state: *mut CpuState, request: u64, times: Option<*mut RequestTimes>, now_ns: u64) {
    match times {
        // SAFETY: the block layer hands a request from stage to stage, never to two at once.
        Some(times) => unsafe {
            (*times).queued_ns = 0;
            (*times).issued_ns = now_ns;
        },
        None => {
            let times = RequestTimes { queued_ns: 0, issued_ns: now_ns };
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
pub fn complete(state: *mut CpuState, subject: u64, issued_ns: u64, now_ns: u64) {
    if now_ns < issued_ns {
        return drop_event(state, Signal::BlockDeviceWait, Drop::ClockBackwards);
    }
    record_keyed(state, Signal::BlockDeviceWait, subject, now_ns - issued_ns, now_ns);
}

/// A completion whose issue was not seen.
#[inline(always)]
pub fn unknown(state: *mut CpuState) {
    drop_event(state, Signal::BlockDeviceWait, Drop::NoStart);
}

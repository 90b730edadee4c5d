//! Block-layer hooks. All take the request.

use noise_common::event::{CpuState, RequestTimes};
use noise_common::signals::{Signal, block_subject, operation_of};
use noise_common::store::{Class, EventKind};

use crate::kernel::Access;
use crate::kernel::request::BlkRequest;
use crate::maps::{EventClock, NOISE_REQUESTS, cpu_state, measures, trusts};
use crate::queue::{self, AT_DEVICE, Ticket};
use crate::signals::{block_device_wait, block_queue_wait};
use crate::store::{self, records};

/// What [`operation_of`] makes of a write.
const WRITE: u64 = 1;

/// The work of a request for a device: its sectors, and one for the request itself.
#[inline(always)]
fn sectors(bytes: u32) -> u64 {
    u64::from(bytes >> 9) + 1
}

/// The request as the subject of a signal; `None` where it has no disk.
#[inline(always)]
fn subject<A: Access>(request: BlkRequest<A>) -> Option<u64> {
    let (major, minor) = request.device();
    (major != 0).then(|| block_subject(major, minor, operation_of(request.cmd_flags())))
}

/// The entry of a request that is under way.
#[inline(always)]
fn times<A: Access>(request: BlkRequest<A>) -> Option<*mut RequestTimes> {
    NOISE_REQUESTS.get_ptr_mut(request.address())
}

/// The device of a request, as keys of queues and places of charges have it.
#[inline(always)]
fn disk<A: Access>(request: BlkRequest<A>) -> u64 {
    u64::from(request.disk())
}

/// Writes a step of a request to the store, and returns its time.
#[inline(always)]
fn note<A: Access>(state: *mut CpuState, kind: EventKind, request: BlkRequest<A>) -> EventClock {
    let mut clock = EventClock::unread();
    if records(state, Class::Io) {
        store::block(state, kind, request, request.remaining_bytes(), 0, clock.now_ns());
    }
    clock
}

/// `block_rq_insert(request)`.
#[inline(always)]
pub fn insert<A: Access>(access: A) -> Option<()> {
    let request = BlkRequest::argument(access);
    let state = cpu_state()?;
    let mut clock = note(state, EventKind::BlockInsert, request);
    if !measures(state, Signal::BlockQueueWait) {
        return None;
    }
    let now_ns = clock.now_ns();
    let ticket = Ticket { mark: queue::mark(disk(request), now_ns), cgroup: request.cgroup() };
    block_queue_wait::queue(state, request.address(), times(request), ticket, now_ns);
    Some(())
}

/// `block_rq_issue(request)`.
#[inline(always)]
pub fn issue<A: Access>(access: A) -> Option<()> {
    let request = BlkRequest::argument(access);
    let state = cpu_state()?;
    let mut clock = note(state, EventKind::BlockIssue, request);
    let at_device = measures(state, Signal::BlockDeviceWait);
    if !at_device && !measures(state, Signal::BlockQueueWait) {
        return None;
    }
    let now_ns = clock.now_ns();
    let times = times(request);
    let disk = disk(request);
    if let (Some(times), Some(subject)) = (times, subject(request)) {
        block_queue_wait::issue(state, times, subject, disk, now_ns);
    }
    let cgroup = request.cgroup();
    if at_device {
        let ticket = Ticket { mark: queue::mark(disk | AT_DEVICE, now_ns), cgroup };
        block_device_wait::issue(state, request.address(), times, ticket, now_ns);
    }
    queue::serve(disk, cgroup, sectors(request.remaining_bytes()), now_ns);
    Some(())
}

/// `block_rq_requeue(request)`: the driver gave it back.
#[inline(always)]
pub fn requeue<A: Access>(access: A) -> Option<()> {
    let request = BlkRequest::argument(access);
    let now_ns = note(cpu_state()?, EventKind::BlockRequeue, request).now_ns();
    block_queue_wait::requeue(times(request)?, queue::mark(disk(request), now_ns), now_ns);
    Some(())
}

/// `block_rq_merge(request)`: it became part of another.
#[inline(always)]
pub fn merge<A: Access>(access: A) -> Option<()> {
    let request = BlkRequest::argument(access);
    note(cpu_state()?, EventKind::BlockMerge, request);
    block_queue_wait::forget(times(request)?);
    Some(())
}

/// `block_rq_complete(request, error, bytes)`.
#[inline(always)]
pub fn complete<A: Access>(access: A) -> Option<()> {
    let request = BlkRequest::first_argument(access);
    let bytes = access.argument(2) as u32;
    let (state, mut clock) = (cpu_state()?, EventClock::unread());
    if records(state, Class::Io) {
        let (kind, error) = (EventKind::BlockComplete, access.argument(1) as u32);
        let error = if error > 255 { u8::MAX } else { error as u8 };
        store::block(state, kind, request, bytes, error, clock.now_ns());
    }
    if bytes < request.remaining_bytes() {
        return None;
    }
    let at_device = measures(state, Signal::BlockDeviceWait);
    if !at_device && !measures(state, Signal::BlockQueueWait) {
        return None;
    }
    let times = times(request);
    let issued_ns = block_device_wait::take(times);
    if !at_device {
        return None;
    }
    if bytes == 0 && operation_of(request.cmd_flags()) == WRITE {
        // The flush machinery ends the request of its caller: one that was never issued, or that
        // has ended before.
        return None;
    }
    if issued_ns == 0 || !trusts(state, Signal::BlockDeviceWait, issued_ns) {
        block_device_wait::unknown(state);
        return None;
    }
    let now_ns = clock.now_ns();
    let disk = disk(request);
    // SAFETY: the pointer is an entry of the map, whose request is not issued again meanwhile.
    let RequestTimes { device_mark: mark, cgroup, .. } = times.map(|times| unsafe { *times })?;
    // What the request needed itself is its own share of the wait.
    queue::serve(disk | AT_DEVICE, cgroup, sectors(bytes), now_ns);
    let ticket = Ticket { mark, cgroup };
    block_device_wait::complete(state, subject(request)?, disk, ticket, issued_ns, now_ns);
    Some(())
}

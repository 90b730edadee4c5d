//! The clock of all measurements: CLOCK_MONOTONIC, which the BPF programs read as well, so that gaps
//! and events are on one scale. Read without a system call wherever the kernel allows it.

/// Now, ns.
#[inline(always)]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

//! How far the stamps of two clocks' places may be apart.

use crate::task::cpus;

/// Samples of a series on one CPU that may be cold ones: code that runs seldom finds cold caches, and each
/// CPU has its own.
const COLD_SAMPLES_PER_CPU: u64 = 50;
/// How far the two stamps of a cold event may be apart (up to 9.2 us were seen on an idle machine;
/// the kernel's statistics have means only, so this cannot be measured on the way).
pub(super) const COLD_NS: u64 = 10_000;
/// How far the sum of a series may be off that has no more samples than those: one of them may find
/// memory that the hypervisor took away (130 us were seen, in the interrupt of a memory balloon).
const COLD_SUM_NS: u64 = 400_000;
/// One cold sample in so many may be off by more than warm ones may.
pub(super) const COLD_SAMPLES_PER_STRAY: u64 = 5;
/// One sample in so many may have been held up by an interrupt between the two stamps: at 10,000
/// interrupts a second and 300 ns between the stamps it is one in 330.
pub(super) const SAMPLES_PER_STRAY: u64 = 200;
/// How long it may have been held up: an interrupt, and the softirqs that run at its end.
const STRAY_NS: u64 = 100_000;

/// Samples of a series that may be cold ones.
pub(super) fn cold_samples() -> u64 {
    COLD_SAMPLES_PER_CPU * cpus() as u64
}

/// How far the sum of so many samples may be off whose stamps usually are so far apart, ns.
pub(super) fn apart_ns(stamps: u64, resolution_ns: f64) -> f64 {
    let cold = stamps.min(cold_samples());
    let strays = stamps.div_ceil(SAMPLES_PER_STRAY);
    let cold_sum_ns = if stamps <= cold_samples() { COLD_SUM_NS } else { 0 };
    (cold * COLD_NS + strays * STRAY_NS + cold_sum_ns) as f64
        + (stamps - cold) as f64 * resolution_ns
}

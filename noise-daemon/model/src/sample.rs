//! One snapshot of everything collected: plain data, with its time.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use noise_common::charge::{Cause, Charged, Resource};
use noise_common::hooks::Hook;
use noise_common::loss::Loss;
use noise_common::signals::Signal;

use super::cgroups::Cgroups;
use super::histogram::Histogram;
use super::labels::ROOT;
use super::name::name;
use super::outlier::OutlierRecord;

/// Label values of a series. What samples share of them is in memory once.
pub type Labels = Arc<[String]>;

/// What identifies a series: its signal and label values.
pub type Label = (Signal, Labels);

/// One histogram: a signal with its label values.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Series {
    pub signal: Signal,
    /// Values of the signal's labels.
    pub labels: Labels,
    pub totals: Histogram,
    /// The longest value of the windows that were open since the previous sample, ns.
    pub recent_max_ns: u64,
}

/// One counter: a signal with its label values.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    pub signal: Signal,
    /// Values of the signal's labels.
    pub labels: Labels,
    pub total: u64,
}

/// Who was charged with the delays of whom.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Interference {
    /// What the victim had to wait for, or what was taken from it.
    pub resource: Resource,
    pub cause: Cause,
    /// Where: a device or interface by name; empty for CPUs.
    #[serde(deserialize_with = "name")]
    pub place: Arc<str>,
    /// Who was delayed: a cgroup's label. `~gone` is one that was gone before its name was looked up, `~unknown` one
    /// that the programs could not identify, `~other` all for which there was no room.
    #[serde(deserialize_with = "name")]
    pub victim: Arc<str>,
    /// Who did it: the label of a cgroup, kernel thread, irq or softirq vector; the cause's name
    /// where the cause says it all.
    #[serde(deserialize_with = "name")]
    pub culprit: Arc<str>,
    pub charged: Charged,
}

impl Interference {
    /// How long the victim was held up by something else, ns: by others, interrupts, its quota, the hypervisor. Not
    /// waits behind its own work and its own writes, for CPUs that were idle, or for a reason that is not known; nor sleeps that a device
    /// ends, as the wait for that device is charged for itself. Nor requests and uninterruptible sleeps of the root cgroup:
    /// they belong to kernel threads that flush the page cache, and no program waits for those threads.
    pub fn held_up_ns(&self) -> u64 {
        let is_held_up = is_held_up(self.resource, self.cause, &self.victim, &self.culprit);
        if is_held_up { self.charged.ns } else { 0 }
    }

    /// How long threads of the victim could not go on, ns: in so much time, each of them loses no more than that. Not
    /// requests and packets, of which many wait at once: a thread that waits for one sleeps, and that is charged for itself.
    pub fn of_threads_ns(&self) -> u64 {
        if is_of_threads(self.resource) { self.charged.ns } else { 0 }
    }

    /// The order of [`Sample::interference`]: by all but the charge.
    pub fn order(&self, other: &Self) -> Ordering {
        let kind = |one: &Self| (one.resource, one.cause);
        (kind(self).cmp(&kind(other)))
            .then_with(|| by_name(&self.place, &other.place))
            .then_with(|| by_name(&self.victim, &other.victim))
            .then_with(|| by_name(&self.culprit, &other.culprit))
    }
}

/// Whether something else held up a victim: see [`Interference::held_up_ns`].
pub(super) fn is_held_up(resource: Resource, cause: Cause, victim: &str, culprit: &str) -> bool {
    let of_disks = [Resource::BlockQueue, Resource::BlockDevice, Resource::Uninterruptible];
    let is_flush = victim == ROOT && of_disks.contains(&resource);
    let is_own = matches!(cause, Cause::Own | Cause::Idle | Cause::Untracked)
        || cause == Cause::Writeback && culprit == victim;
    let is_device = resource == Resource::Uninterruptible
        && matches!(cause, Cause::Hardirq | Cause::Softirq | Cause::Nmi);
    !is_own && !is_device && !is_flush
}

/// Whether that is time of the victim's threads: see [`Interference::of_threads_ns`].
pub(super) fn is_of_threads(resource: Resource) -> bool {
    resource.is_timed() && resource.place().is_none()
}

/// Names that are one and the same need not be read.
fn by_name(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

/// How one hook fares.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HookSample {
    pub hook: Hook,
    /// Whether its program runs.
    pub attached: bool,
    /// Runs of its program, where the kernel keeps the statistic.
    pub runs: u64,
    pub run_ns: u64,
    /// Events that it missed because it was already running on that CPU.
    pub missed: u64,
}

/// What one source of noise did to a measured CPU.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NoiseSource {
    /// Its kind, in the words of the kernel's osnoise tracer.
    pub source: Cow<'static, str>,
    /// Its net time in samples of noise, ns.
    pub ns: u64,
    pub count: u64,
    /// The longest, net, ns.
    pub longest_ns: u64,
}

/// What a thread that measures one CPU has seen since it began.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CpuNoise {
    pub cpu: u32,
    /// How long it was measured, ns.
    pub runtime_ns: u64,
    /// By source; their times add up to the noise.
    pub sources: Vec<NoiseSource>,
}

/// How the configuration was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Reload {
    /// The last attempt failed: what was read before goes on.
    pub failed: bool,
    /// When it was last read as a whole, seconds since 1970; 0 = unknown.
    pub read_at_s: u64,
}

/// What the flight recorder holds, and what went by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Recorder {
    pub bytes: u64,
    /// Events that were written since attach.
    pub events: u64,
    /// Of those, the ones whose place newer ones took before anything read them.
    pub overwritten: u64,
    /// How far back all CPUs go, ns; of a CPU that has not come round yet, since the start.
    pub held_ns: u64,
    /// How far back half of the CPUs go at least, ns; likewise.
    pub held_median_ns: u64,
    /// Memory that it would have after a restart; 0 = not known.
    pub next_bytes: u64,
}

/// Everything collected at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Sample {
    /// When, on CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Histograms, ordered by signal and labels. One that is missing is gone; if it comes again, it begins at 0.
    pub series: Vec<Series>,
    /// Counters, ordered by signal and labels. One that is missing is gone; if it comes again, it begins at 0.
    pub counts: Vec<Count>,
    /// Who was charged with the delays of whom, ordered by all but the charge; each pair once. One
    /// that is missing is gone; if it comes again, it begins at 0.
    pub interference: Vec<Interference>,
    /// Long waits that were reported since the previous sample, the oldest first; each is in one sample.
    pub outliers: Vec<OutlierRecord>,
    /// Net time that interrupts took from each CPU: CPU, source, ns.
    pub interrupted: Vec<(u32, Cow<'static, str>, u64)>,
    /// Time that tasks waited for each CPU on which they ran in the end: CPU, ns.
    pub waited: Vec<(u32, u64)>,
    /// Time that the hypervisor took from each CPU: CPU, ns.
    pub stolen: Vec<(u32, u64)>,
    /// Page faults of the host since boot: kind, count.
    pub page_faults: Vec<(Cow<'static, str>, u64)>,
    /// Noise of the CPUs that are measured from the inside, in order of their numbers.
    pub noise: Vec<CpuNoise>,
    /// What was not counted.
    pub drops: Vec<(Signal, Loss, u64)>,
    pub hooks: Vec<HookSample>,
    /// Signals that are not measured here, and why.
    pub absent: Vec<(Signal, String)>,
    /// How many series were folded into `~other` before they were sampled, by metric.
    pub folded: Vec<(Cow<'static, str>, u64)>,
    /// The flight recorder, if there is one.
    pub recorder: Option<Recorder>,
    /// The configuration of the daemon that took it.
    pub reload: Reload,
    /// What cgroups are counted of, and whether there is a hierarchy that names them.
    pub hierarchies: Vec<(Cow<'static, str>, bool)>,
    /// What others call the cgroups that the sample names; empty where that is not to be shown. Not written: it is for
    /// labels of metrics alone.
    #[serde(skip)]
    pub cgroups: Arc<Cgroups>,
}

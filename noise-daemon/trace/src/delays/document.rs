//! What `noised trace delays` prints as JSON.

use std::collections::BTreeMap;

use noise_common::signals::Signal;
use serde::Serialize;

pub use super::sums::Spread;
use crate::ftrace::UnreadLines;
use crate::reach::Reach;

/// Delays of a recording. Times are in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DelaysDocument {
    /// Time of the first event, since the epoch of the trace's clock.
    pub from_ns: u64,
    /// Time of the last one.
    pub to_ns: u64,
    /// Events that were lost while recording.
    pub discarded: u64,
    /// CPUs that are not known from its begin to its end.
    #[serde(flatten)]
    pub reach: Reach,
    /// Time of all waits for a CPU that no cause is known for: the sum of `untracked` in all `culprits`.
    pub untracked_ns: u64,
    /// Threads that ran or waited, those that waited longest first.
    pub threads: Vec<ThreadDocument>,
    pub hardirq: Vec<Handler>,
    /// Vectors of the CPUs themselves.
    pub vector: Vec<Handler>,
    pub softirq: Vec<Softirq>,
    /// From a raise to the softirq.
    pub softirq_raise_wait: Vec<Raise>,
    /// From the queue to the device.
    pub block_queue_wait: Vec<Device>,
    pub block_device_wait: Vec<Device>,
    #[serde(flatten)]
    pub packets: BTreeMap<Signal, Vec<Interface>>,
    /// Kinds of events that the recording has none of: what is measured with them is missing here.
    pub missing: Vec<String>,
    /// Lines of a text that could not be read, where they are more than 1 %: figures may be far off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_lines: Option<UnreadLines>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ThreadDocument {
    pub tid: i32,
    pub comm: String,
    /// How long it ran, from switch to switch.
    pub run_ns: u64,
    pub waits: WaitsByStart,
    /// Threads that ran on the CPU that it got in the end. They sum to the waits.
    pub culprits: Vec<Culprit>,
    /// Threads that ran on the CPUs where it waited. They sum to the waits.
    pub culprits_following_migrations: Vec<Culprit>,
    /// The same, with the time in interrupts charged to the interrupts, as live. They sum to the waits.
    pub charges: Vec<Charge>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WaitsByStart {
    pub wakeup: Spread,
    /// With a switch away from a thread that wanted to go on.
    pub preempt: Spread,
}

/// A thread that ran during a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Culprit {
    /// Its id; 0 = an idle task, -1 = unknown.
    pub tid: i32,
    pub comm: String,
    /// `thread`, `idle` or `untracked`.
    pub cause: &'static str,
    pub ns: u64,
}

/// A thread or an interrupt that ran during a wait.
#[derive(Clone, Debug, Serialize)]
pub struct Charge {
    /// The thread's id, where it was one; 0 = an idle task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// `thread`, `idle`, `hardirq`, `softirq`, `nmi`, `throttle` (its own quota) or `untracked`.
    pub cause: &'static str,
    /// The interrupt: its number, or the name of its vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub ns: u64,
}

/// A device interrupt or a vector.
#[derive(Clone, Debug, Serialize)]
pub struct Handler {
    /// Its number; none of a vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irq: Option<u32>,
    pub name: String,
    /// From entry to exit.
    #[serde(flatten)]
    pub whole: Spread,
    /// The sum without what nested inside.
    pub net_ns: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Softirq {
    pub vector: u32,
    pub name: &'static str,
    /// From entry to exit.
    #[serde(flatten)]
    pub whole: Spread,
    /// The sum without what nested inside.
    pub net_ns: u64,
}

/// Waits of a softirq.
#[derive(Clone, Debug, Serialize)]
pub struct Raise {
    pub vector: u32,
    pub name: &'static str,
    /// From the first raise to the entry.
    #[serde(flatten)]
    pub whole: Spread,
}

/// Waits of a block device's requests.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// As the kernel numbers it.
    pub dev: u32,
    /// Its name, where the recording has it, else `major:minor`.
    pub name: String,
    #[serde(flatten)]
    pub whole: Spread,
}

/// Waits of an interface's packets.
#[derive(Clone, Debug, Serialize)]
pub struct Interface {
    pub interface: String,
    #[serde(flatten)]
    pub whole: Spread,
}

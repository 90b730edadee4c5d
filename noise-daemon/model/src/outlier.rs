//! One long wait with all that it consists of: plain data, with names in place of numbers.

use std::sync::Arc;

use noise_common::charge::Cause;

use super::name::name;

/// A part of a long wait: what ran, or happened, meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OutlierPart {
    /// Who: the label of a cgroup, kernel thread, irq or softirq vector; the cause's name where the
    /// cause says it all.
    #[serde(deserialize_with = "name")]
    pub culprit: Arc<str>,
    pub cause: Cause,
    /// The thread that ran; 0 where it was no thread.
    pub pid: u32,
    /// Its name; empty where it was no thread.
    #[serde(deserialize_with = "name")]
    pub comm: Arc<str>,
    pub ns: u64,
}

/// A wait for a CPU that was longer than its threshold.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OutlierRecord {
    /// When the wait ended, ns on CLOCK_MONOTONIC. Means nothing after a reboot, so it is not written.
    #[serde(skip)]
    pub at_ns: u64,
    pub wait_ns: u64,
    /// Who waited: a cgroup's label.
    #[serde(deserialize_with = "name")]
    pub victim: Arc<str>,
    /// The thread that waited.
    pub pid: u32,
    #[serde(deserialize_with = "name")]
    pub comm: Arc<str>,
    /// The CPU on which it ran in the end.
    pub cpu: u32,
    /// What made it runnable: one of [`noise_common::signals::CAUSES`].
    #[serde(deserialize_with = "name")]
    pub made_runnable: Arc<str>,
    /// What the wait consists of, in the order of time as far as it is known.
    pub parts: Vec<OutlierPart>,
    /// Time of the wait that no part accounts for, ns.
    pub rest_ns: u64,
}

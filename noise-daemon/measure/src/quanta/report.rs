//! What the benches of fixed quanta measured.

use std::time::Duration;

use noise_text::cpulist::CpuList;

use super::super::placement::Priority;

pub const FTQ_FORMAT: &str = "noised-ftq";
pub const FWQ_FORMAT: &str = "noised-fwq";
pub const QUANTA_VERSION: u32 = 1;

#[derive(Clone, Debug)]
pub struct QuantaOptions {
    pub cpus: CpuList,
    pub duration: Duration,
    /// Length of a quantum, ns; of work, the time that it takes without noise.
    pub quantum_ns: u64,
    /// Priority of the measuring threads.
    pub priority: Priority,
}

/// Samples of one CPU, at most: 80 MB.
pub const SAMPLES_MAX: u64 = 10_000_000;

impl QuantaOptions {
    /// Quanta of a length that fit into the duration.
    pub fn samples(&self, quantum_ns: u64) -> u64 {
        let quanta = self.duration.as_nanos() / u128::from(quantum_ns.max(1));
        u64::try_from(quanta).unwrap_or(u64::MAX)
    }

    /// Room for so many, up to [`SAMPLES_MAX`], of which every page has been written to.
    pub(super) fn room(&self, quantum_ns: u64) -> Vec<u64> {
        let samples = self.samples(quantum_ns).clamp(1, SAMPLES_MAX);
        let mut room = vec![1; usize::try_from(samples).unwrap_or(1)];
        room.clear();
        room
    }
}

/// What is the same in all quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantum {
    /// Their time, ns: samples are units of work.
    TimeNs(u64),
    /// Their units of work: samples are times, ns.
    WorkUnits(u64),
}

/// Quanta of all CPUs that were measured at once.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct QuantaReport {
    /// [`FTQ_FORMAT`] or [`FWQ_FORMAT`].
    pub format: String,
    /// Version of this document.
    pub version: u32,
    /// Name of the host.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// When it was measured.
    pub started: jiff::Timestamp,
    /// What is the same in all quanta.
    pub quantum: Quantum,
    /// The CPUs, in order of their numbers.
    pub cpus: Vec<CpuQuanta>,
}

/// The quanta of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CpuQuanta {
    /// Number of the CPU.
    pub cpu: u32,
    /// When the first quantum began, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Units of work that were finished in each quantum, or how long each took, ns.
    pub samples: Vec<u64>,
}

impl QuantaReport {
    /// Whether the quanta are of time.
    pub const fn is_of_time(&self) -> bool {
        matches!(self.quantum, Quantum::TimeNs(_))
    }
}

impl CpuQuanta {
    /// When each quantum began, CLOCK_MONOTONIC, ns.
    pub fn starts_ns(&self, quantum: Quantum) -> impl Iterator<Item = u64> {
        let length_ns = move |sample: &u64| match quantum {
            Quantum::TimeNs(ns) => ns,
            Quantum::WorkUnits(_) => *sample,
        };
        self.samples.iter().scan(self.start_ns, move |next_ns, sample| {
            let start_ns = *next_ns;
            *next_ns = start_ns.saturating_add(length_ns(sample));
            Some(start_ns)
        })
    }
}

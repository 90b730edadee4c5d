//! From a report of detours to a node, as measured, of one source alone, or without one.

use super::lane::Lane;
use super::node::Node;
use crate::shares::{DetourShare, Shares, SourceKey};
use crate::{CpuDetours, Detour, DetourReport};

/// Why a report is no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is no such CPU.
    #[error("CPU {0} was not measured; this report has {1}")]
    NoSuchCpu(u32, String),
    /// There is no CPU at all.
    #[error("this report has no CPU: measure again")]
    NoCpu,
    /// The CPUs were not measured at the same time.
    #[error(
        "the CPUs of this report were not measured at the same time, so they are not one node; \
         choose one of them with --cpu ({0})"
    )]
    NotAtOnce(String),
    /// There is nothing but detours.
    #[error("CPU {0} was in detours all the time: there is no undisturbed time to compute in")]
    AlwaysDisturbed(u32),
}

/// What of the measured noise a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    All,
    /// Only the shares of one source, by its place in [`Trace::keys`].
    Alone(usize),
    /// What would be left without one source.
    Without(usize),
}

/// CPUs that were measured at once, over the time that they have in common.
#[derive(Clone, Debug)]
pub struct Trace {
    shares: Shares,
    cpus: Vec<ScaleCpu>,
    length: f64,
}

#[derive(Clone, Debug)]
struct ScaleCpu {
    number: u32,
    detours: Vec<ClippedDetour>,
}

/// A detour, cut to the common time; ns.
#[derive(Clone, Debug)]
struct ClippedDetour {
    start: f64,
    duration: f64,
    shares: Vec<DetourShare>,
}

impl Trace {
    /// Of all CPUs of a report, or of one.
    /// Errors: those of [`TraceError`].
    pub fn new(report: &DetourReport, only: Option<u32>) -> Result<Self, TraceError> {
        let listed = || {
            let numbers = report.cpus.iter().map(|cpu| cpu.cpu.to_string());
            numbers.collect::<Vec<_>>().join(", ")
        };
        let chosen = |cpu: &&CpuDetours| only.is_none_or(|only| cpu.cpu == only);
        let cpus: Vec<&CpuDetours> = report.cpus.iter().filter(chosen).collect();
        if let (Some(only), true) = (only, cpus.is_empty()) {
            return Err(TraceError::NoSuchCpu(only, listed()));
        }
        let end = |cpu: &CpuDetours| cpu.start_ns.saturating_add(cpu.duration_ns);
        let from = cpus.iter().map(|cpu| cpu.start_ns).max().ok_or(TraceError::NoCpu)?;
        let to = cpus.iter().map(|cpu| end(cpu)).min().ok_or(TraceError::NoCpu)?;
        if to <= from {
            return Err(TraceError::NotAtOnce(listed()));
        }
        let shares = Shares::of(report);
        let cpus = cpus.into_iter().map(|cpu| ScaleCpu::new(cpu, &shares, from, to)).collect();
        let trace = Self { shares, cpus, length: (to - from) as f64 };
        let busy = |cpu: &&ScaleCpu| trace.lane(cpu, Noise::All).is_none();
        match trace.cpus.iter().find(busy) {
            Some(cpu) => Err(TraceError::AlwaysDisturbed(cpu.number)),
            None => Ok(trace),
        }
    }

    pub fn keys(&self) -> &[SourceKey] {
        self.shares.keys()
    }

    /// Numbers of the CPUs.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// The time that all CPUs were measured, ns.
    pub const fn length(&self) -> f64 {
        self.length
    }

    /// Share of the CPUs' time that this noise takes, 0..=1.
    pub fn overhead(&self, noise: Noise) -> f64 {
        let detours = self.cpus.iter().flat_map(|cpu| &cpu.detours);
        let sum: f64 = detours.map(|detour| detour.of(noise)).sum();
        sum / (self.length * self.cpus.len() as f64)
    }

    /// A node with this noise.
    pub fn node(&self, noise: Noise) -> Option<Node> {
        let lanes = self.cpus.iter().map(|cpu| self.lane(cpu, noise));
        Node::new(lanes.collect::<Option<Vec<Lane>>>()?)
    }

    fn lane(&self, cpu: &ScaleCpu, noise: Noise) -> Option<Lane> {
        let detours = cpu.detours.iter().map(|detour| (detour.start, detour.of(noise)));
        Lane::new(detours, self.length)
    }
}

impl ScaleCpu {
    fn new(cpu: &CpuDetours, shares: &Shares, from: u64, to: u64) -> Self {
        let cut = |detour: &Detour| {
            let begin = cpu.start_ns.saturating_add(detour.start_ns);
            let end = begin.saturating_add(detour.duration_ns).min(to);
            let begin = begin.max(from);
            (end > begin).then(|| ClippedDetour {
                start: (begin - from) as f64,
                duration: (end - begin) as f64,
                shares: shares.shares(detour),
            })
        };
        Self { number: cpu.cpu, detours: cpu.detours.iter().filter_map(cut).collect() }
    }
}

impl ClippedDetour {
    /// How much of it is of this part of the noise, ns.
    fn of(&self, noise: Noise) -> f64 {
        let of = |wanted: &dyn Fn(usize) -> bool| -> f64 {
            let shares = self.shares.iter().filter(|share| wanted(share.key));
            shares.map(|share| share.of_detour).sum::<f64>().min(1.0) * self.duration
        };
        match noise {
            Noise::All => self.duration,
            Noise::Alone(key) => of(&|other| other == key),
            Noise::Without(key) => of(&|other| other != key),
        }
    }
}

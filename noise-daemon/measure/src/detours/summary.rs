//! PURE: the detours of one CPU, or of all, in a few numbers.

use crate::{CpuDetours, DetourReport};

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Lengths {
    pub mean_ns: f64,
    /// Median, ns: the mean of the two in the middle where their count is even.
    pub median_ns: f64,
    pub max_ns: u64,
}

/// The detours of one CPU, or of all.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct CpuSummary {
    /// Number of the CPU; `None` for all together.
    pub cpu: Option<u32>,
    /// How long it was measured, ns; of all CPUs, their sum.
    pub duration_ns: u64,
    /// Passes of the loop.
    pub passes: u64,
    /// The shortest pass of the loop, ns.
    pub min_loop_ns: f64,
    /// Smallest step of the clock, ns; of all CPUs, the largest of them.
    pub resolution_ns: u64,
    /// Length from which on a gap is a detour, ns; of all CPUs, the largest of them.
    pub threshold_ns: u64,
    /// How many detours there were.
    pub detours: u64,
    /// Detours per second of one CPU.
    pub per_second: f64,
    /// Time of all detours as a part of the measured time, 0 to 1.
    pub overhead: f64,
    /// Their lengths; `None` where there were none.
    pub lengths: Option<Lengths>,
    /// Detours that could not be kept.
    pub lost_detours: u64,
    /// Events of the kernel that were lost.
    pub lost_events: u64,
}

impl CpuSummary {
    pub fn of(cpu: &CpuDetours) -> Self {
        Self { cpu: Some(cpu.cpu), ..Self::over(&[cpu]) }
    }

    /// Of all CPUs of a report together.
    pub fn of_all(report: &DetourReport) -> Self {
        Self::over(&report.cpus.iter().collect::<Vec<_>>())
    }

    fn over(cpus: &[&CpuDetours]) -> Self {
        let sum = |of: fn(&CpuDetours) -> u64| cpus.iter().map(|cpu| of(cpu)).sum::<u64>();
        let most = |of: fn(&CpuDetours) -> u64| cpus.iter().map(|cpu| of(cpu)).max().unwrap_or(0);
        let duration_ns = sum(|cpu| cpu.duration_ns);
        let detours = sum(|cpu| cpu.detours.len() as u64);
        let measured = (duration_ns as f64).max(1.0);
        let min_loop_ns = cpus.iter().map(|cpu| cpu.min_loop_ns).reduce(f64::min);
        Self {
            cpu: None,
            duration_ns,
            passes: sum(|cpu| cpu.passes),
            min_loop_ns: min_loop_ns.unwrap_or(0.0),
            resolution_ns: most(|cpu| cpu.resolution_ns),
            threshold_ns: most(|cpu| cpu.threshold_ns),
            detours,
            per_second: detours as f64 * 1e9 / measured,
            overhead: sum(CpuDetours::detours_ns) as f64 / measured,
            lengths: Lengths::of(
                cpus.iter().flat_map(|cpu| &cpu.detours).map(|detour| detour.duration_ns).collect(),
            ),
            lost_detours: sum(|cpu| cpu.lost_detours),
            lost_events: sum(|cpu| cpu.lost_events),
        }
    }
}

impl Lengths {
    /// Of these, in any order; `None` of none.
    pub fn of(mut lengths_ns: Vec<u64>) -> Option<Self> {
        let sum: f64 = lengths_ns.iter().map(|length_ns| *length_ns as f64).sum();
        let mean_ns = sum / lengths_ns.len() as f64;
        let middle = lengths_ns.len() / 2;
        let is_even = lengths_ns.len().is_multiple_of(2);
        let max_ns = lengths_ns.iter().copied().max()?;
        let (below, upper, _) = lengths_ns.select_nth_unstable(middle);
        let upper = *upper as f64;
        let lower = below.iter().copied().max().filter(|_| is_even).map(|lower| lower as f64);
        Some(Self {
            mean_ns,
            median_ns: lower.map_or(upper, |lower| f64::midpoint(lower, upper)),
            max_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::generated::report;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn a_cpu_in_numbers() {
        let report = report();
        let first = CpuSummary::of(&report.cpus[0]);
        assert_eq!((first.cpu, first.detours, first.passes), (Some(0), 4, 40_000_000));
        assert_eq!(first.per_second, 4.0);
        assert_eq!(first.overhead, 36_000.0 / 1e9);
        let lengths = Lengths { mean_ns: 9_000.0, median_ns: 7_000.0, max_ns: 20_000 };
        assert_eq!(first.lengths, Some(lengths));
        let all = CpuSummary::of_all(&report);
        assert_eq!((all.cpu, all.duration_ns, all.detours), (None, 2_000_000_000, 4));
        assert_eq!((all.lost_detours, all.lost_events), (3, 2));
        assert_eq!(all.overhead, 36_000.0 / 2e9);
    }

    #[test]
    fn nothing_measured_is_no_noise() {
        let mut report = report();
        assert_eq!(CpuSummary::of(&report.cpus[1]).lengths, None);
        report.cpus.clear();
        let all = CpuSummary::of_all(&report);
        assert_eq!((all.overhead, all.per_second, all.min_loop_ns), (0.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn the_median_has_as_many_below_as_above(lengths_ns in vec(0u64..1_000, 1..50)) {
            let median = Lengths::of(lengths_ns.clone()).unwrap().median_ns;
            let mut sorted = lengths_ns;
            sorted.sort_unstable();
            let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            prop_assert_eq!(median, (lower + upper) as f64 / 2.0);
        }
    }
}

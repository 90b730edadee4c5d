//! What the kernel counts of the daemon's programs.

use std::collections::BTreeMap;

use crate::bpf::Program;

/// A mean of fewer runs says little of the hooks that are hot.
const WARM_RUNS: u64 = 100;

/// The mean run time of the program with the longest, between two looks at them.
pub fn slowest_program_ns(before: &BTreeMap<u32, Program>, after: &BTreeMap<u32, Program>) -> f64 {
    let means = after.values().filter_map(|program| {
        let earlier = before.get(&program.id)?;
        let runs = program.runs.checked_sub(earlier.runs).filter(|&runs| runs >= WARM_RUNS)?;
        Some(program.run_time_ns.checked_sub(earlier.run_time_ns)? as f64 / runs as f64)
    });
    means.fold(0.0, f64::max)
}

pub(super) fn missed_runs(
    before: &BTreeMap<u32, Program>,
    after: &BTreeMap<u32, Program>,
) -> BTreeMap<String, u64> {
    after
        .values()
        .filter_map(|program| {
            let earlier = before.get(&program.id).map_or(0, |program| program.recursion_misses);
            let missed = program.recursion_misses.saturating_sub(earlier);
            (missed > 0).then(|| (program.name.clone(), missed))
        })
        .collect()
}

//! What the kernel counts of the programs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use noise_common::hooks::Hook;
use noise_model::HookSample;

use crate::kernel::{Engine, HookState, HookStatus, ProgramStats};

/// The program that shows whether the kernel counts runs: it runs before each reading.
const FREQUENT: Hook = Hook::SchedSwitch;
/// How often all programs are read while the kernel counts no runs, which leaves the events that they missed.
const MISSED_EVERY: Duration = Duration::from_secs(10);

/// What was read last. There are fifty programs, and each is a system call.
#[derive(Debug, Default)]
pub struct Programs {
    known: BTreeMap<Hook, ProgramStats>,
    read: Option<Instant>,
}

impl Programs {
    /// How the hooks of an engine fare that this kernel has. Where it does not say for once, what it said last counts.
    pub fn read(&mut self, engine: &Engine, now: Instant) -> Vec<HookSample> {
        if self.is_due(engine, now) {
            self.read = Some(now);
            let stats = engine.program_stats().into_iter();
            self.known.extend(stats.map(|stats| (stats.hook, stats)));
        }
        self.samples(engine.hooks())
    }

    /// Those whose tracepoint this kernel has: no architecture has all, so one that is absent is not one that fails.
    fn samples(&self, hooks: &[HookStatus]) -> Vec<HookSample> {
        let there = hooks.iter().filter(|status| status.state != HookState::Absent);
        let samples = there.map(|status| {
            let stats = self.known.get(&status.hook);
            HookSample {
                hook: status.hook,
                attached: status.is_attached(),
                runs: stats.map_or(0, |stats| stats.runs),
                run_ns: stats.map_or(0, |stats| stats.run_ns),
                missed: stats.map_or(0, |stats| stats.missed),
            }
        });
        samples.collect()
    }

    fn is_due(&self, engine: &Engine, now: Instant) -> bool {
        let is_old = self.read.is_none_or(|read| now.duration_since(read) >= MISSED_EVERY);
        // One that is not loaded says nothing, so that all are read.
        let runs = engine.stats_of(FREQUENT).map(|stats| stats.runs);
        is_old || runs.is_none() || runs != self.known.get(&FREQUENT).map(|stats| stats.runs)
    }
}

#[cfg(test)]
mod tests {
    use noise_common::hooks::Attach;

    use super::*;

    #[test]
    fn a_tracepoint_that_the_kernel_does_not_have_is_no_hook_that_failed() {
        let hooks = [
            (Hook::SchedSwitch, HookState::Attached(Attach::TpBtf)),
            (Hook::NmiHandler, HookState::Absent),
            (Hook::SoftirqEntry, HookState::Refused("Operation not permitted".to_owned())),
        ];
        let hooks = hooks.map(|(hook, state)| HookStatus { hook, state });
        let samples = Programs::default().samples(&hooks);
        let attached: Vec<_> = samples.iter().map(|one| (one.hook, one.attached)).collect();
        assert_eq!(attached, [(Hook::SchedSwitch, true), (Hook::SoftirqEntry, false)]);
    }
}

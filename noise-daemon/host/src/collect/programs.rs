//! What the kernel counts of the programs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use noise_common::hooks::Hook;
use noise_model::HookSample;

use crate::kernel::{Engine, ProgramStats};

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
    /// How the hooks of an engine fare. Where the kernel does not say for once, what it said last counts.
    pub fn read(&mut self, engine: &Engine, now: Instant) -> Vec<HookSample> {
        if self.is_due(engine, now) {
            self.read = Some(now);
            let stats = engine.program_stats().into_iter();
            self.known.extend(stats.map(|stats| (stats.hook, stats)));
        }
        let hooks = engine.hooks().iter().map(|status| {
            let stats = self.known.get(&status.hook);
            HookSample {
                hook: status.hook,
                attached: status.is_attached(),
                runs: stats.map_or(0, |stats| stats.runs),
                run_ns: stats.map_or(0, |stats| stats.run_ns),
                missed: stats.map_or(0, |stats| stats.missed),
            }
        });
        hooks.collect()
    }

    fn is_due(&self, engine: &Engine, now: Instant) -> bool {
        let is_old = self.read.is_none_or(|read| now.duration_since(read) >= MISSED_EVERY);
        // One that is not loaded says nothing, so that all are read.
        let runs = engine.stats_of(FREQUENT).map(|stats| stats.runs);
        is_old || runs.is_none() || runs != self.known.get(&FREQUENT).map(|stats| stats.runs)
    }
}

//! The workload at a low duty, for as long as the daemon runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use noise_model::{CpuNoise, NoiseSource};
use noise_text::cpulist::CpuList;

use super::crew::{OsnoiseOptions, run_with};
use super::period::{PeriodReport, class_of};
use crate::cpus;
use crate::error::MeasureError;
use crate::placement::Priority;
use crate::source::{CLASSES, Class};
use crate::watcher::Watcher;

/// How often the events of the programs are drained: what a CPU sends in a period waits in the ring.
const TURN: Duration = Duration::from_millis(250);
/// The source of the ways into the kernel and out of it.
const WAYS: &str = "entry_exit";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DutyOptions {
    pub cpus: CpuList,
    /// From the begin of one measurement to that of the next.
    pub period: Duration,
    /// How long each takes.
    pub runtime: Duration,
    /// A gap of this length is noise, ns.
    pub threshold_ns: u64,
}

/// The workload, on threads of its own. Dropping it ends them, and detaches its programs.
#[derive(Debug)]
pub struct Duty {
    totals: Arc<Mutex<BTreeMap<u32, Totals>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Time, events and the longest, of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SourceTotals {
    ns: u64,
    count: u64,
    longest_ns: u64,
}

impl SourceTotals {
    fn add(&mut self, ns: u64) {
        self.ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

/// One CPU so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    runtime_ns: u64,
    classes: [SourceTotals; CLASSES.len()],
    ways: SourceTotals,
}

/// What is to be measured, with its programs attached: the rest takes no privileges.
pub struct Prepared {
    options: OsnoiseOptions,
    watcher: Watcher,
}

impl Duty {
    /// Attaches the programs. What cannot be measured is logged; the daemon goes on without.
    pub fn prepare(options: &DutyOptions) -> Option<Prepared> {
        prepare(options)
            .inspect_err(|error| {
                let reason = format!("{error:#}");
                tracing::error!(cpus = %options.cpus, reason, "osnoise could not start");
            })
            .ok()
    }

    /// Errors: where the system has no more threads.
    pub fn start(prepared: Prepared) -> anyhow::Result<Self> {
        let Prepared { options, watcher } = prepared;
        let totals = Arc::new(Mutex::new(BTreeMap::<u32, Totals>::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (sums, ending) = (Arc::clone(&totals), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("osnoise".to_owned())
            .spawn(move || {
                let each = |period: PeriodReport| {
                    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                    sums.entry(period.cpu).or_default().add(&period);
                };
                tracing::info!(cpus = %options.cpus, runtime = ?options.runtime,
                    period = ?options.period, "measuring the noise from the inside");
                if let Err(error) = run_with(watcher, &options, &ending, each, || {}) {
                    let reason = format!("{error:#}");
                    tracing::error!(cpus = %options.cpus, reason, "osnoise has stopped");
                }
            })
            .context("cannot start a thread")?;
        Ok(Self { totals, stop, thread: Some(thread) })
    }

    /// What was seen since the start.
    pub fn noise(&self) -> Vec<CpuNoise> {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.iter().map(|(cpu, totals)| totals.noise(*cpu)).collect()
    }
}

fn prepare(options: &DutyOptions) -> Result<Prepared, MeasureError> {
    let cpus = cpus::choose(Some(&options.cpus))?;
    let options = OsnoiseOptions {
        cpus,
        period: options.period,
        runtime: options.runtime,
        duration: None,
        threshold_ns: options.threshold_ns,
        stop_single_ns: None,
        stop_total_ns: None,
        priority: Priority::Inherited,
        housekeeping: None,
        turn: TURN.min(options.period),
        // The daemon's memory is none of the measurement's.
        lock_memory: false,
        // All at once they would take a CPU quota of the daemon at one go, and measure how they are
        // kept from running for the rest of its period.
        in_turns: true,
    };
    Ok(Prepared { options, watcher: Watcher::start()? })
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has detached as well.
            let _ = thread.join();
        }
    }
}

impl Totals {
    fn add(&mut self, period: &PeriodReport) {
        self.runtime_ns += period.runtime_ns;
        for event in &period.events {
            self.classes[class_of(event) as usize].count += 1;
        }
        for sample in &period.samples {
            if sample.is_hardware() {
                let hardware = &mut self.classes[Class::Hardware as usize];
                hardware.count += 1;
                hardware.add(sample.gap.duration_ns);
                continue;
            }
            self.ways.count += 1;
            self.ways.add(sample.rest_ns());
            for part in &sample.parts {
                self.classes[class_of(part) as usize].add(part.net_ns);
            }
        }
    }

    fn noise(&self, cpu: u32) -> CpuNoise {
        let source = |name: &'static str, sum: &SourceTotals| NoiseSource {
            source: name.into(),
            ns: sum.ns,
            count: sum.count,
            longest_ns: sum.longest_ns,
        };
        let classes = CLASSES.iter().zip(&self.classes);
        let mut sources: Vec<_> = classes.map(|(class, sum)| source(class.name(), sum)).collect();
        sources.push(source(WAYS, &self.ways));
        CpuNoise { cpu, runtime_ns: self.runtime_ns, sources }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise::tally::sampled::period;

    #[test]
    fn sources_add_up_to_the_noise() {
        let mut totals = Totals::default();
        totals.add(&period());
        totals.add(&period());
        let noise = totals.noise(1);
        assert_eq!((noise.cpu, noise.runtime_ns), (1, 2_000_000_000));
        let sum: u64 = noise.sources.iter().map(|own| own.ns).sum();
        assert_eq!(sum, 2 * period().noise_ns);
        let of = |name: &str| {
            let own = noise.sources.iter().find(|own| own.source == name).unwrap();
            (own.ns, own.count, own.longest_ns)
        };
        assert_eq!(of("irq"), (2 * 1_845, 4, 1_845));
        assert_eq!(of("hardware"), (24_000, 2, 12_000));
        assert_eq!(of("entry_exit"), (2 * 6_855, 4, 5_000));
        assert_eq!(of("nmi"), (0, 0, 0));
    }
}

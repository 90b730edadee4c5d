//! The selfish detour bench: on every chosen CPU at once, a loop that watches the clock, while the
//! programs report what interrupts it. CPUs that finish early keep spinning, so that they do not draw
//! noise away from the others.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use noise_common::watch::NoiseEvent;
use noise_host::resolve::read_host;
use noise_text::cpulist::CpuList;

use super::clock::now_ns;
use super::error::MeasureError;
use super::explain::{Explained, explain};
use super::fleet::Fleet;
use super::gaps::{Calibration, Gaps, Plan};
use super::naming::Naming;
use super::placement::Priority;
use super::report::{
    CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourPart, DetourReport,
};
use super::source::GapSource;
use super::watcher::{Watcher, Workload};

/// Detours that a CPU has room for.
pub const DETOURS_MAX: usize = 1_000_000;
/// Events that are kept for a CPU.
const EVENTS_MAX: usize = 2_000_000;
/// How often the programs' ring is drained.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How often, and how many times, it is looked for events that are still on their way.
const ARRIVAL: Duration = Duration::from_millis(1);
const ARRIVALS_MAX: u32 = 500;

/// When a gap is a detour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// So many times the shortest pass of the loop on that CPU.
    Passes(f64),
    /// So long, ns.
    Time(u64),
}

impl Threshold {
    fn ns(self, calibration: &Calibration) -> u64 {
        match self {
            Self::Passes(passes) => (calibration.pass_ns * passes).ceil() as u64,
            Self::Time(ns) => ns,
        }
        .max(1)
    }
}

#[derive(Clone, Debug)]
pub struct DetourOptions {
    pub cpus: CpuList,
    pub duration: Duration,
    /// When a gap is a detour.
    pub threshold: Threshold,
    /// Priority of the measuring threads.
    pub priority: Priority,
}

/// What a thread came home with.
struct DetourMeasurement {
    threshold_ns: u64,
    calibration: Calibration,
    watched: Gaps,
    /// Events that the programs had sent by then.
    sent: u64,
}

/// Measures.
///
/// `stop` ends it early: what was seen by then is reported. `progress` gets how much of the time
/// has passed.
/// Errors: those of [`MeasureError`]; no thread is left pinned, and nothing is left attached.
pub fn measure(
    options: &DetourOptions,
    stop: &AtomicBool,
    mut progress: impl FnMut(Duration),
) -> Result<DetourReport, MeasureError> {
    let mut watcher = Watcher::start()?;
    let started = Timestamp::now();
    let lost_before: BTreeMap<u32, u64> =
        options.cpus.iter().map(|cpu| (cpu, watcher.lost(cpu))).collect();
    let workloads: BTreeMap<u32, Workload> =
        options.cpus.iter().map(|cpu| (cpu, watcher.workload(cpu))).collect();
    let mut events = NoiseEvents::default();
    let fleet = Fleet { every: DRAIN_EVERY, ..Fleet::new(&options.cpus, options.priority) };
    let prepare = || (Gaps::with_room(DETOURS_MAX), Calibration::measure());
    let measure = |cpu: u32, start_ns, (watched, calibration)| {
        watch(options, stop, workloads.get(&cpu), start_ns, watched, calibration)
    };
    let seen = fleet.run(prepare, measure, |passed| {
        watcher.drain(|event| events.take(event));
        progress(passed);
    })?;
    watcher.drain(|event| events.take(event));
    for _ in 0..ARRIVALS_MAX {
        if seen.iter().all(|(cpu, seen)| events.missing(*cpu, seen) == 0) {
            break;
        }
        thread::sleep(ARRIVAL);
        watcher.drain(|event| events.take(event));
    }
    let mut naming = Naming::new(Path::new("/proc"));
    let mut sources = Sources::default();
    let mut cpus = Vec::new();
    for (cpu, seen) in seen {
        let before = lost_before.get(&cpu).copied().unwrap_or(0);
        let lost = watcher.lost(cpu) - before + events.unkept(cpu) + events.missing(cpu, &seen);
        let explained = explain(&seen.watched.gaps, events.of(cpu));
        let start_ns = seen.watched.start_ns;
        let mut part = |event: &NoiseEvent| DetourPart {
            source: sources.place(naming.source(event)),
            start_ns: event.start_ns.saturating_sub(start_ns),
            duration_ns: event.net_ns,
        };
        let detour = |explained: &Explained| Detour {
            start_ns: explained.gap.start_ns - start_ns,
            duration_ns: explained.gap.duration_ns,
            parts: explained.parts.iter().map(&mut part).collect(),
        };
        cpus.push(CpuDetours {
            cpu,
            start_ns,
            duration_ns: seen.watched.duration_ns(),
            threshold_ns: seen.threshold_ns,
            min_loop_ns: seen.calibration.pass_ns,
            resolution_ns: seen.calibration.resolution_ns,
            passes: seen.watched.passes,
            detours: explained.iter().map(detour).collect(),
            lost_detours: seen.watched.lost,
            lost_events: lost,
        });
    }
    let host = read_host(Path::new("/"));
    Ok(DetourReport {
        format: DETOURS_FORMAT.to_owned(),
        version: DETOURS_VERSION,
        host: host.name,
        kernel: host.kernel,
        started,
        sources: sources.list,
        cpus,
    })
}

/// One thread's work, from the moment when all begin.
fn watch(
    options: &DetourOptions,
    stop: &AtomicBool,
    workload: Option<&Workload>,
    start_ns: u64,
    mut watched: Gaps,
    calibration: Calibration,
) -> DetourMeasurement {
    let threshold_ns = options.threshold.ns(&calibration);
    while now_ns() < start_ns {
        std::hint::spin_loop();
    }
    workload.inspect(|workload| workload.begin());
    watched.watch(&Plan {
        runtime_ns: u64::try_from(options.duration.as_nanos()).unwrap_or(u64::MAX),
        threshold_ns,
        stop_single_ns: u64::MAX,
        stop_total_ns: u64::MAX,
        stop,
    });
    let sent = workload.map_or(0, Workload::end);
    DetourMeasurement { threshold_ns, calibration, watched, sent }
}

/// Events by CPU, bounded.
#[derive(Debug, Default)]
struct NoiseEvents {
    by_cpu: HashMap<u32, (Vec<NoiseEvent>, u64)>,
}

impl NoiseEvents {
    fn take(&mut self, event: NoiseEvent) {
        let (kept, unkept) = self.by_cpu.entry(event.cpu).or_default();
        if kept.len() < EVENTS_MAX {
            kept.push(event);
        } else {
            *unkept += 1;
        }
    }

    fn of(&mut self, cpu: u32) -> &mut [NoiseEvent] {
        &mut self.by_cpu.entry(cpu).or_default().0
    }

    /// Events of a CPU that were sent and have not arrived.
    fn missing(&self, cpu: u32, seen: &DetourMeasurement) -> u64 {
        let arrived = self.by_cpu.get(&cpu).map_or(0, |(kept, unkept)| kept.len() as u64 + unkept);
        seen.sent.saturating_sub(arrived)
    }

    fn unkept(&self, cpu: u32) -> u64 {
        self.by_cpu.get(&cpu).map_or(0, |(_, unkept)| *unkept)
    }
}

/// Sources in the order in which they came.
#[derive(Debug, Default)]
struct Sources {
    list: Vec<GapSource>,
    places: HashMap<GapSource, usize>,
}

impl Sources {
    fn place(&mut self, source: GapSource) -> usize {
        if let Some(place) = self.places.get(&source) {
            return *place;
        }
        let place = self.list.len();
        self.list.push(source.clone());
        self.places.insert(source, place);
        place
    }
}

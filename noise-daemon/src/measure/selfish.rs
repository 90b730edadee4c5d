//! The selfish detour bench: on every chosen CPU at once, a loop that watches the clock, while the
//! programs tell what interrupts it. CPUs that finish early keep spinning, so that they do not draw
//! noise away from the others.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use noise_common::watch::Interference;

use super::clock::now_ns;
use super::cpus::CpuList;
use super::error::MeasureError;
use super::explain::{Explained, explain};
use super::gaps::{Calibration, Plan, Watched};
use super::naming::Naming;
use super::placement::{LockedMemory, Placement, Priority};
use super::report::{CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourReport, Part};
use super::source::Source;
use super::watcher::{Watcher, Workload};

/// Detours that a CPU has room for.
pub const DETOURS_MAX: usize = 1_000_000;
/// Events that are kept for a CPU.
const EVENTS_MAX: usize = 2_000_000;
/// How often the programs' ring is drained.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// How often a thread looks whether all are ready.
const READY_EVERY: Duration = Duration::from_micros(100);
/// How often, and how many times, it is looked for events that are still on their way.
const ARRIVAL: Duration = Duration::from_millis(1);
const ARRIVALS_MAX: u32 = 500;
/// From the moment when all threads are ready to the first reading, ns.
const START_AFTER_NS: u64 = 2_000_000;

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

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs.
    pub cpus: CpuList,
    /// How long.
    pub duration: Duration,
    /// When a gap is a detour.
    pub threshold: Threshold,
    /// Priority of the measuring threads.
    pub priority: Priority,
}

/// What the threads share.
struct Shared<'a> {
    options: &'a Options,
    /// Threads that are ready.
    ready: AtomicUsize,
    /// When all begin; 0 = not before the last one is ready.
    start_ns: AtomicU64,
    running: AtomicUsize,
    abort: AtomicBool,
    stop: &'a AtomicBool,
}

/// What a thread came home with.
struct Seen {
    cpu: u32,
    threshold_ns: u64,
    calibration: Calibration,
    watched: Watched,
    /// Events that its CPU had told by then.
    told: u64,
}

/// Measures.
///
/// `stop` ends it early: what was seen by then is reported. `progress` is told how much of the time
/// has passed.
///
/// # Errors
/// See [`MeasureError`]; no thread is left pinned, and nothing is left attached.
pub fn measure(
    options: &Options,
    stop: &AtomicBool,
    mut progress: impl FnMut(Duration),
) -> Result<DetourReport, MeasureError> {
    let mut watcher = Watcher::start()?;
    let _locked = LockedMemory::take();
    let started = Timestamp::now();
    let lost_before: Vec<u64> = options.cpus.iter().map(|cpu| watcher.lost(cpu)).collect();
    let shared = Shared {
        options,
        ready: AtomicUsize::new(0),
        start_ns: AtomicU64::new(0),
        running: AtomicUsize::new(options.cpus.len()),
        abort: AtomicBool::new(false),
        stop,
    };
    let mut events = Events::default();
    let seen = thread::scope(|scope| -> Result<Vec<Seen>, MeasureError> {
        let (ready, readiness) = mpsc::channel();
        let mut threads = Vec::new();
        for cpu in options.cpus.iter() {
            let (shared, ready, workload) = (&shared, ready.clone(), watcher.workload(cpu));
            let spawned = thread::Builder::new()
                .name(format!("noised/{cpu}"))
                .spawn_scoped(scope, move || work(shared, cpu, &workload, &ready));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // The others do not wait for one that never comes.
                    shared.abort.store(true, Ordering::SeqCst);
                    return Err(anyhow!(error).context("cannot start a thread").into());
                }
            }
        }
        drop(ready);
        let mut failed = None;
        while threads.iter().any(|thread| !thread.is_finished()) {
            if let Ok(Err(error)) = readiness.try_recv() {
                failed.get_or_insert(error);
            }
            thread::sleep(DRAIN_EVERY);
            watcher.drain(|event| events.take(event));
            let start_ns = shared.start_ns.load(Ordering::Relaxed);
            if start_ns != 0 {
                progress(Duration::from_nanos(now_ns().saturating_sub(start_ns)));
            }
        }
        let mut seen = Vec::new();
        for thread in threads {
            seen.extend(thread.join().map_err(|_| anyhow!("a measuring thread has failed"))?);
        }
        if let Some(error) = failed.or_else(|| readiness.try_iter().find_map(Result::err)) {
            return Err(error);
        }
        Ok(seen)
    })?;
    watcher.drain(|event| events.take(event));
    for _ in 0..ARRIVALS_MAX {
        if seen.iter().all(|seen| events.missing(seen) == 0) {
            break;
        }
        thread::sleep(ARRIVAL);
        watcher.drain(|event| events.take(event));
    }
    let mut naming = Naming::new(Path::new("/proc"));
    let mut sources = Sources::default();
    let mut cpus = Vec::new();
    for (seen, lost_before) in seen.into_iter().zip(lost_before) {
        let lost =
            watcher.lost(seen.cpu) - lost_before + events.unkept(seen.cpu) + events.missing(&seen);
        let explained = explain(&seen.watched.gaps, events.of(seen.cpu));
        let start_ns = seen.watched.start_ns;
        let mut part = |event: &Interference| Part {
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
            cpu: seen.cpu,
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
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned());
    Ok(DetourReport {
        format: DETOURS_FORMAT.to_owned(),
        version: DETOURS_VERSION,
        host: read("/proc/sys/kernel/hostname").context("cannot read the host's name")?,
        kernel: read("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?,
        started,
        sources: sources.list,
        cpus,
    })
}

/// One thread's work.
fn work(
    shared: &Shared<'_>,
    cpu: u32,
    workload: &Workload,
    ready: &mpsc::Sender<Result<(), MeasureError>>,
) -> Option<Seen> {
    let options = shared.options;
    let placement = Placement::take(cpu, options.priority);
    let mut watched = Watched::with_room(if placement.is_ok() { DETOURS_MAX } else { 0 });
    let calibration = Calibration::measure();
    let threshold_ns = options.threshold.ns(&calibration);
    if let Err(error) = &placement {
        shared.abort.store(true, Ordering::SeqCst);
        let _ = ready.send(Err(error.clone().into()));
    }
    if shared.ready.fetch_add(1, Ordering::SeqCst) + 1 == options.cpus.len() {
        shared.start_ns.store(now_ns() + START_AFTER_NS, Ordering::SeqCst);
    }
    loop {
        if shared.abort.load(Ordering::SeqCst) {
            return None;
        }
        match shared.start_ns.load(Ordering::SeqCst) {
            // Others may need this CPU to get ready.
            0 => thread::sleep(READY_EVERY),
            start_ns if start_ns <= now_ns() => break,
            _ => std::hint::spin_loop(),
        }
    }
    workload.begin();
    watched.watch(&Plan {
        runtime_ns: u64::try_from(options.duration.as_nanos()).unwrap_or(u64::MAX),
        threshold_ns,
        stop_single_ns: u64::MAX,
        stop_total_ns: u64::MAX,
        stop: shared.stop,
    });
    shared.running.fetch_sub(1, Ordering::SeqCst);
    while shared.running.load(Ordering::Relaxed) != 0 {
        std::hint::spin_loop();
    }
    let told = workload.end();
    drop(placement);
    Some(Seen { cpu, threshold_ns, calibration, watched, told })
}

/// Events by CPU, bounded.
#[derive(Debug, Default)]
struct Events {
    by_cpu: HashMap<u32, (Vec<Interference>, u64)>,
}

impl Events {
    fn take(&mut self, event: Interference) {
        let (kept, unkept) = self.by_cpu.entry(event.cpu).or_default();
        if kept.len() < EVENTS_MAX {
            kept.push(event);
        } else {
            *unkept += 1;
        }
    }

    fn of(&mut self, cpu: u32) -> &mut [Interference] {
        &mut self.by_cpu.entry(cpu).or_default().0
    }

    /// Events that were told and have not arrived.
    fn missing(&self, seen: &Seen) -> u64 {
        let arrived =
            self.by_cpu.get(&seen.cpu).map_or(0, |(kept, unkept)| kept.len() as u64 + unkept);
        seen.told.saturating_sub(arrived)
    }

    fn unkept(&self, cpu: u32) -> u64 {
        self.by_cpu.get(&cpu).map_or(0, |(_, unkept)| *unkept)
    }
}

/// Sources in the order in which they came.
#[derive(Debug, Default)]
struct Sources {
    list: Vec<Source>,
    places: HashMap<Source, usize>,
}

impl Sources {
    fn place(&mut self, source: Source) -> usize {
        if let Some(place) = self.places.get(&source) {
            return *place;
        }
        let place = self.list.len();
        self.list.push(source.clone());
        self.places.insert(source, place);
        place
    }
}

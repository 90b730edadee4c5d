//! The measuring threads, and the one that collects what they and the programs report.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use noise_common::watch::NoiseEvent;
use noise_text::cpulist::CpuList;

use super::period::{Counts, PeriodReport};
use crate::clock::now_ns;
use crate::error::MeasureError;
use crate::explain::{explain, place_ns};
use crate::gaps::{Gaps, Plan, Stopped};
use crate::placement::{LockedMemory, Placement, Priority};
use crate::watcher::{Watcher, Workload};

/// Samples for which a thread has room in one period: the fewest and the most, and how long each is
/// on average where there is no more room than that, ns.
const SAMPLES: (u64, u64) = (1_000, 200_000);
const SAMPLE_NS: u64 = 2_000;
/// Events of a CPU that are kept until its period is over.
const EVENTS_MAX: usize = 1_000_000;
/// How often, and how many times, it is looked for events that are still on their way. A CPU that the
/// hypervisor took away in the middle of one holds up all others.
const ARRIVAL: Duration = Duration::from_millis(1);
const ARRIVALS_MAX: u32 = 500;
/// A thread that sleeps looks so often whether it is to end.
const SLEEP: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct OsnoiseOptions {
    pub cpus: CpuList,
    /// From the begin of one measurement to that of the next.
    pub period: Duration,
    /// How long each takes, the period at most.
    pub runtime: Duration,
    /// How long altogether; `None` = until it is stopped.
    pub duration: Option<Duration>,
    /// A gap of this length is noise, ns.
    pub threshold_ns: u64,
    /// A gap of this length ends it, ns.
    pub stop_single_ns: Option<u64>,
    /// So much noise in one period ends it, ns.
    pub stop_total_ns: Option<u64>,
    /// Priority of the measuring threads.
    pub priority: Priority,
    /// Where the collecting thread runs; `None` = anywhere.
    pub housekeeping: Option<CpuList>,
    /// How often the events of the programs are drained.
    pub turn: Duration,
    /// Whether all memory of this process is kept in RAM meanwhile.
    pub lock_memory: bool,
    /// Whether the CPUs take turns: their measurements are spread over the period.
    pub in_turns: bool,
}

/// What a thread sends.
struct Period {
    cpu: u32,
    thread: u32,
    watched: Gaps,
    /// Events that its CPU had sent by then.
    sent: u64,
}

/// Measures for as long as it is to, until it is stopped, or until a gap or their sum is too long.
/// `each` is given every period, and `turn` is called some times in a second; both in the calling thread.
/// Errors: those of [`MeasureError`]; no thread is left pinned, and nothing is left attached.
pub fn run(
    options: &OsnoiseOptions,
    stop: &AtomicBool,
    each: impl FnMut(PeriodReport),
    turn: impl FnMut(),
) -> Result<(), MeasureError> {
    run_with(Watcher::start()?, options, stop, each, turn)
}

/// The same with programs that are attached already, which takes no privileges.
/// Errors: those of [`run`].
pub fn run_with(
    mut watcher: Watcher,
    options: &OsnoiseOptions,
    stop: &AtomicBool,
    mut each: impl FnMut(PeriodReport),
    mut turn: impl FnMut(),
) -> Result<(), MeasureError> {
    let _locked = if options.lock_memory { LockedMemory::take() } else { None };
    let _here = match &options.housekeeping {
        Some(cpus) => Some(Placement::among(cpus, Priority::Inherited)?),
        None => None,
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, periods) = mpsc::channel();
        let mut threads = Vec::new();
        let mut failed = None;
        let crew = options.cpus.iter().count();
        for (index, cpu) in options.cpus.iter().enumerate() {
            let delay_ns = if options.in_turns { turn_ns(options.period, index, crew) } else { 0 };
            let (over, sender, workload) = (&over, sender.clone(), watcher.workload(cpu));
            let spawned = thread::Builder::new()
                .name(format!("osnoise/{cpu}"))
                .spawn_scoped(scope, move || {
                    work(options, cpu, delay_ns, &workload, over, &sender)
                });
            match spawned.context("cannot start a thread") {
                Ok(thread) => threads.push(thread),
                Err(error) => failed = Some(MeasureError::from(error)),
            }
        }
        drop(sender);
        let mut events = Events::of(options, &watcher);
        loop {
            let ended = threads.iter().all(thread::ScopedJoinHandle::is_finished);
            let mut arrived = Vec::new();
            for period in periods.try_iter() {
                match period {
                    Ok(period) => arrived.push(period),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            watcher.drain(|event| events.take(event));
            for period in arrived {
                events.await_all(&period, &mut watcher);
                let report = events.report(period, &watcher);
                if report.stopped.is_some_and(|stopped| stopped != Stopped::Asked) {
                    over.store(true, Ordering::Relaxed);
                }
                each(report);
            }
            if stop.load(Ordering::Relaxed) || failed.is_some() {
                over.store(true, Ordering::Relaxed);
            }
            turn();
            if ended {
                break;
            }
            thread::sleep(options.turn);
        }
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a measuring thread has failed"))?;
        }
        failed.map_or(Ok(()), Err)
    })
}

/// How long after the first of so many CPUs the one with this index begins.
fn turn_ns(period: Duration, index: usize, crew: usize) -> u64 {
    let turn = period.as_nanos() * index as u128 / crew.max(1) as u128;
    u64::try_from(turn).unwrap_or(u64::MAX)
}

fn work(
    options: &OsnoiseOptions,
    cpu: u32,
    delay_ns: u64,
    workload: &Workload,
    over: &AtomicBool,
    sender: &mpsc::Sender<Result<Period, MeasureError>>,
) {
    let placement = match Placement::take(cpu, options.priority) {
        Ok(placement) => placement,
        Err(error) => {
            let _ = sender.send(Err(error.into()));
            return;
        }
    };
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (runtime_ns, period_ns) = (nanoseconds(options.runtime), nanoseconds(options.period));
    // SAFETY: no preconditions.
    let thread = unsafe { libc::gettid() }.cast_unsigned();
    let room = (runtime_ns / SAMPLE_NS).clamp(SAMPLES.0, SAMPLES.1);
    let mut watched = Gaps::with_room(room as usize);
    let mut begin_ns = now_ns().saturating_add(delay_ns);
    // Not left to the collecting thread, which may not get to run in time beside this one.
    let end_ns = options.duration.map_or(u64::MAX, |all| begin_ns.saturating_add(nanoseconds(all)));
    sleep_until(begin_ns, over);
    while !over.load(Ordering::Relaxed) {
        let left_ns = end_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            break;
        }
        workload.begin();
        watched.watch(&Plan {
            runtime_ns: runtime_ns.min(left_ns),
            threshold_ns: options.threshold_ns,
            stop_single_ns: options.stop_single_ns.unwrap_or(u64::MAX),
            stop_total_ns: options.stop_total_ns.unwrap_or(u64::MAX),
            stop: over,
        });
        let sent = workload.end();
        // The thread keeps its room; only what there is is copied.
        let copy = watched.clone();
        let stopped = watched.stopped.is_some();
        if sender.send(Ok(Period { cpu, thread, watched: copy, sent })).is_err() || stopped {
            break;
        }
        if period_ns > runtime_ns {
            // Periods that were missed altogether are not made up for.
            let passed = (now_ns() - begin_ns) / period_ns + 1;
            begin_ns += passed * period_ns;
            sleep_until(begin_ns.min(end_ns), over);
        }
    }
    drop(placement);
}

fn sleep_until(time_ns: u64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let left = Duration::from_nanos(time_ns.saturating_sub(now_ns()));
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(SLEEP));
    }
}

/// Events that belong to periods which are not over, by CPU.
struct Events {
    waiting: BTreeMap<u32, CpuEvents>,
}

#[derive(Default)]
struct CpuEvents {
    events: Vec<NoiseEvent>,
    /// All that have arrived.
    arrived: u64,
    /// Those without room, since the last period.
    unkept: u64,
    /// The programs' count of lost ones at the last period.
    lost: u64,
    /// Those that had not arrived at the last period.
    missing: u64,
}

impl Events {
    fn of(options: &OsnoiseOptions, watcher: &Watcher) -> Self {
        let cpus = options.cpus.iter();
        let begin = |cpu| (cpu, CpuEvents { lost: watcher.lost(cpu), ..CpuEvents::default() });
        Self { waiting: cpus.map(begin).collect() }
    }

    fn take(&mut self, event: NoiseEvent) {
        let Some(cpu) = self.waiting.get_mut(&event.cpu) else { return };
        cpu.arrived += 1;
        if cpu.events.len() < EVENTS_MAX {
            cpu.events.push(event);
        } else {
            cpu.unkept += 1;
        }
    }

    /// Waits until all events that were sent in a period have arrived.
    fn await_all(&mut self, period: &Period, watcher: &mut Watcher) {
        for _ in 0..ARRIVALS_MAX {
            if self.missing(period) == 0 {
                return;
            }
            thread::sleep(ARRIVAL);
            watcher.drain(|event| self.take(event));
        }
    }

    /// Events of a period, or of earlier ones, that have not arrived.
    fn missing(&self, period: &Period) -> u64 {
        let arrived = self.waiting.get(&period.cpu).map_or(0, |cpu| cpu.arrived);
        period.sent.saturating_sub(arrived)
    }

    fn report(&mut self, period: Period, watcher: &Watcher) -> PeriodReport {
        let missing = self.missing(&period);
        let Period { cpu, thread, watched, .. } = period;
        let own = self.waiting.entry(cpu).or_default();
        let lost = watcher.lost(cpu);
        // What arrives too late for its period is in none.
        let late = missing.saturating_sub(own.missing);
        let lost_events = std::mem::take(&mut own.unkept) + lost.saturating_sub(own.lost) + late;
        (own.lost, own.missing) = (lost, missing);
        let samples = explain(&watched.gaps, &mut own.events);
        // They are in order now.
        let first = own.events.partition_point(|event| place_ns(event) < watched.start_ns);
        let behind = own.events.partition_point(|event| place_ns(event) <= watched.end_ns);
        let events = own.events[first..behind].to_vec();
        own.events.drain(..behind);
        PeriodReport {
            cpu,
            thread,
            start_ns: watched.start_ns,
            runtime_ns: watched.duration_ns(),
            noise_ns: watched.noise_ns,
            longest_ns: watched.longest_ns,
            counts: Counts::of(&samples, &events),
            samples,
            events,
            lost_samples: watched.lost,
            lost_events,
            stopped: watched.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spread_over_the_period() {
        let turns = [0, 1, 2, 3].map(|index| turn_ns(Duration::from_secs(1), index, 4));
        assert_eq!(turns, [0, 250_000_000, 500_000_000, 750_000_000]);
        assert_eq!(turn_ns(Duration::from_secs(1), 0, 0), 0);
    }

    #[test]
    fn events_on_their_way_are_missed() {
        let mut events = Events { waiting: BTreeMap::from([(1, CpuEvents::default())]) };
        let period = Period { cpu: 1, thread: 7, watched: Gaps::default(), sent: 2 };
        assert_eq!(events.missing(&period), 2);
        events.take(NoiseEvent { cpu: 1, ..NoiseEvent::default() });
        events.take(NoiseEvent { cpu: 0, ..NoiseEvent::default() });
        assert_eq!(events.missing(&period), 1);
        // One that was sent after the period.
        for _ in 0..2 {
            events.take(NoiseEvent { cpu: 1, ..NoiseEvent::default() });
        }
        assert_eq!(events.missing(&period), 0);
    }
}

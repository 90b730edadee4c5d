//! One measuring thread on each of some CPUs, all at work at the same time.
//!
//! Threads that are done keep spinning until all are: a CPU that goes idle would draw noise away
//! from the others.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use noise_text::cpulist::CpuList;

use super::clock::now_ns;
use super::cpus;
use super::error::MeasureError;
use super::placement::{LockedMemory, Placement, PlacementError, Priority};

/// How often progress is reported: seldom, as that is noise as well.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// From the moment when all threads are ready to the begin, for all of them to wake up, ns.
const START_AFTER_NS: u64 = 5_000_000;

/// What the threads wait for.
#[derive(Clone, Copy, Debug)]
enum StartSignal {
    Wait,
    Start(u64),
    GiveUp,
}

/// Where the threads wait for one another. They sleep there: with real-time priority, spinning
/// threads could keep those from starting that they wait for.
#[derive(Debug)]
struct Gate {
    state: Mutex<(usize, StartSignal)>,
    changed: Condvar,
}

impl Gate {
    fn new() -> Self {
        Self { state: Mutex::new((0, StartSignal::Wait)), changed: Condvar::new() }
    }

    /// One more thread is ready; when it is to start, CLOCK_MONOTONIC, ns, if it is.
    fn arrive(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        loop {
            match state.1 {
                StartSignal::Wait => {}
                StartSignal::Start(start_ns) => return Some(start_ns),
                StartSignal::GiveUp => return None,
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = StartSignal::GiveUp;
        self.changed.notify_all();
    }

    /// Starts all when so many are ready, at a multiple of a time; when that is, ns.
    fn start(&self, ready: usize, multiple_ns: u64) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if matches!(state.1, StartSignal::GiveUp) {
                return None;
            }
            if state.0 == ready {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let earliest_ns = now_ns() + START_AFTER_NS;
        let start_ns = earliest_ns.next_multiple_of(multiple_ns.max(1));
        state.1 = StartSignal::Start(start_ns);
        self.changed.notify_all();
        Some(start_ns)
    }
}

/// One thread less at work when it is dropped, even by a panic: the others wait for it.
struct WorkerGuard<'a>(&'a AtomicUsize);

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The threads to be.
#[derive(Clone, Debug)]
pub struct Fleet<'a> {
    /// Where: one on each.
    pub cpus: &'a CpuList,
    pub priority: Priority,
    /// They begin at a multiple of this time on CLOCK_MONOTONIC, ns.
    pub multiple_ns: u64,
    /// How often the calling thread looks after them.
    pub every: Duration,
}

impl<'a> Fleet<'a> {
    /// One that begins at any time, and is seldom looked after.
    pub const fn new(cpus: &'a CpuList, priority: Priority) -> Self {
        Self { cpus, priority, multiple_ns: 1, every: REPORT_EVERY }
    }

    /// Runs `measure` on all CPUs at once, each in a thread of its own that is pinned there, with the
    /// memory of the process locked where that is allowed; what each returned, in order of the CPUs.
    ///
    /// `prepare` is called before on each CPU, and allocates and touches what will be needed. All
    /// begin at the same time, which `measure` is given with the CPU, and may be called a little
    /// before. `progress` gets how much time has passed.
    /// Errors: where a thread cannot be started, or cannot be placed.
    pub fn run<P, T: Send>(
        &self,
        prepare: impl Fn() -> P + Sync,
        measure: impl Fn(u32, u64, P) -> T + Sync,
        mut progress: impl FnMut(Duration),
    ) -> Result<Vec<(u32, T)>, MeasureError> {
        let _locked = LockedMemory::take();
        let _aside = step_aside(self.cpus);
        let gate = Gate::new();
        let running = AtomicUsize::new(self.cpus.len());
        let work = |cpu: u32| -> Result<Option<T>, PlacementError> {
            let placement = Placement::take(cpu, self.priority).inspect_err(|_| gate.give_up())?;
            let prepared = prepare();
            let Some(start_ns) = gate.arrive() else { return Ok(None) };
            let done = WorkerGuard(&running);
            let measured = measure(cpu, start_ns, prepared);
            drop(done);
            while running.load(Ordering::Relaxed) != 0 {
                spin_loop();
            }
            drop(placement);
            Ok(Some(measured))
        };
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for cpu in self.cpus.iter() {
                let thread = thread::Builder::new().name(format!("noised/{cpu}"));
                let work = &work;
                let thread = thread.spawn_scoped(scope, move || work(cpu));
                // Without this, the threads that were started already would wait for ever.
                let thread = thread.inspect_err(|_| gate.give_up());
                let failed =
                    |error: std::io::Error| anyhow!(error).context("cannot start a thread");
                threads.push((cpu, thread.map_err(failed)?));
            }
            let start_ns = gate.start(threads.len(), self.multiple_ns);
            while threads.iter().any(|(_, thread)| !thread.is_finished()) {
                thread::park_timeout(self.every);
                let passed_ns = start_ns.map_or(0, |start_ns| now_ns().saturating_sub(start_ns));
                progress(Duration::from_nanos(passed_ns));
            }
            let mut results = Vec::new();
            for (cpu, thread) in threads {
                let result =
                    thread.join().map_err(|_| anyhow!("a measuring thread has failed"))??;
                results.extend(result.map(|result| (cpu, result)));
            }
            Ok(results)
        })
    }
}

/// Leaves the CPUs that are measured to those who measure, where there are others.
fn step_aside(measured: &CpuList) -> Option<Placement> {
    let others = cpus::allowed().ok()?.without(measured);
    if others.is_empty() { None } else { Placement::among(&others, Priority::Inherited).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> CpuList {
        cpus::allowed().unwrap()
    }

    #[test]
    fn each_cpu_works_where_it_should_and_all_begin_at_once() {
        let cpus = allowed();
        let fleet = Fleet { multiple_ns: 1_000, ..Fleet::new(&cpus, Priority::Inherited) };
        let measure = |_, start_ns: u64, prepared: u32| (start_ns, prepared, allowed());
        let seen = fleet.run(|| 7, measure, |_| {}).unwrap();
        assert_eq!(seen.len(), cpus.len());
        for (cpu, (start_ns, prepared, place)) in &seen {
            assert_eq!((*prepared, place), (7, &CpuList::from_iter([*cpu])));
            assert_eq!((*start_ns % 1_000, *start_ns), (0, seen[0].1.0));
        }
    }

    #[test]
    fn where_one_cannot_be_placed_all_go_home() {
        let mut cpus: Vec<u32> = allowed().iter().collect();
        cpus.push(1_023);
        let cpus = CpuList::from_iter(cpus);
        let ran = AtomicUsize::new(0);
        let measure = |_, _, ()| ran.fetch_add(1, Ordering::SeqCst);
        let error = Fleet::new(&cpus, Priority::Inherited).run(|| (), measure, |_| {}).unwrap_err();
        assert!(error.to_string().contains("CPU 1023"), "{error}");
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }
}

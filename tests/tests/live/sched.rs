//! Tasks that wait for a CPU, in the ways that are easy to get wrong.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf::Numbers;
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::Daemon;
use noise_tests::ftrace::SCHED_EVENTS;
use noise_tests::load::{Worker, figure};
use noise_tests::pairing::Sample;
use noise_tests::pairing::counts::context_switches;
use noise_tests::pairing::runqueue::{runqueue_wait, wakeups_of_running};
use noise_tests::task::{ChosenChild, cpus, monotonic_ns, pin, sched_stat, unused_pid};

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("known_delay_is_read_back", known_delay_is_read_back),
    ("woken_while_running", woken_while_running),
    ("preemption", preemption),
    ("migrated_while_waiting", migrated_while_waiting),
    ("new_program", new_program),
    ("killed_while_waiting", killed_while_waiting),
    ("recycled_pid", recycled_pid),
    ("stopped_and_continued", stopped_and_continued),
    ("asleep_with_a_start", asleep_with_a_start),
];

const WAITS: &str = "noised_runqueue_wait_seconds";
/// A bucket bound (67 ms) that nothing but the provoked delays should pass.
const LONG_NS: u64 = 1 << 26;
/// A real-time burst: well above `LONG_NS`, well below the second after which the kernel intervenes.
const BURST_MS: &str = "300";

/// Compares the run queue's waits and the context switches with the referee's.
fn agree(seen: &Observation) -> Result<()> {
    let mut table = seen.table();
    let events = &seen.trace.events;
    table.histogram(WAITS, &["cause"], &runqueue_wait(events))?;
    table.counter("noised_context_switches_total", &["kind"], &context_switches(events))?;
    table.verdict()
}

/// Waits above a bucket bound, over all causes, by the daemon.
fn waits_above(seen: &Observation, bound_ns: u64) -> Result<u64> {
    let mut count = 0.0;
    for histogram in seen.histograms(WAITS)?.values() {
        count += histogram.above(bound_ns)?;
    }
    Ok(count as u64)
}

/// Requires that the daemon saw as many long waits as the referee, and returns the referee's.
fn long_waits(seen: &Observation) -> Result<Vec<Sample>> {
    let waits = runqueue_wait(&seen.trace.events);
    let long: Vec<Sample> =
        seen.certain(&waits).filter(|sample| sample.value_ns > LONG_NS).cloned().collect();
    let found = waits_above(seen, LONG_NS)?;
    for sample in &long {
        println!(
            "{} waited {} ns ({}) for CPU {}",
            sample.pid, sample.value_ns, sample.labels.0, sample.cpu
        );
    }
    let within = |sample: &&Sample| seen.covers(sample.end_ns).1;
    let known = waits.samples.iter().filter(|sample| sample.value_ns > LONG_NS);
    let possible = known.filter(within).count() + waits.orphans.iter().filter(within).count();
    let bounds = long.len() as u64..=possible as u64;
    ensure!(bounds.contains(&found), "{bounds:?} long waits, noised has {found}");
    Ok(long)
}

fn known_delay_is_read_back() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, SCHED_EVENTS, 32, || {
        let victim = Worker::start("burn", &["0"])?;
        let mut bursts = Worker::start("bursts", &["0", BURST_MS, "100", "5"])?;
        ensure!(figure(&bursts.figures()?, "bursts")? == 5, "not all bursts came");
        victim.stop()?;
        Ok(())
    })?;
    // Each burst held the CPU for 300 ms, so whoever wanted it waited longer than 268 ms.
    let found = waits_above(&seen, 1 << 28)?;
    ensure!(found >= 5, "five bursts of {BURST_MS} ms, noised has {found} waits above 268 ms");
    ensure!(long_waits(&seen)?.len() >= 5, "the victim did not wait");
    agree(&seen)?;
    Ok(())
}

fn woken_while_running() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, SCHED_EVENTS, 128, || {
        let sleeper = Worker::start("short-sleeps", &["0"])?;
        thread::sleep(Duration::from_secs(2));
        sleeper.stop()?;
        Ok(())
    })?;
    let found = wakeups_of_running(&seen.trace.events);
    println!("{found} wake-ups found their task running");
    ensure!(found > 0, "{INCONCLUSIVE}: no wake-up found its task running");
    agree(&seen)?;
    Ok(())
}

fn preemption() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, (kernel_ns, pids)) = observe(&daemon, SCHED_EVENTS, 32, || {
        let burners = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
        thread::sleep(Duration::from_secs(2));
        let pids = [burners[0].pid(), burners[1].pid()];
        let mut kernel_ns = 0;
        for burner in &burners {
            kernel_ns += sched_stat(burner.pid())?.wait_ns;
        }
        for burner in burners {
            burner.stop()?;
        }
        Ok((kernel_ns, pids))
    })?;
    let waits = runqueue_wait(&seen.trace.events);
    let ours = |sample: &&Sample| pids.contains(&sample.pid) && &*sample.labels.0 == "preempt";
    let count = seen.certain(&waits).filter(ours).count();
    ensure!(count > 20, "{INCONCLUSIVE}: two tasks that share a CPU took turns only {count} times");
    let preempted = noise_tests::prom::label_set(&[("cause", "preempt")]);
    let found = seen.histograms(WAITS)?.get(&preempted).cloned().unwrap_or_default();
    let kernel_seconds = kernel_ns as f64 / 1e9;
    println!("schedstat: {kernel_seconds} s; noised: {} s, {}", found.sum_seconds, found.count);
    // One of the two waits at every moment. The kernel's account of them is a part of what noised
    // has, which includes everybody else's waits.
    ensure!(found.count >= count as f64, "{count} turns, noised has {}", found.count);
    ensure!(
        found.sum_seconds >= kernel_seconds * 0.97,
        "schedstat charges {kernel_seconds} s, noised {} s",
        found.sum_seconds
    );
    agree(&seen)?;
    Ok(())
}

fn migrated_while_waiting() -> Result<()> {
    ensure!(cpus() >= 2, Impossible("needs two CPUs".into()));
    let daemon = Daemon::start()?;
    let (seen, pid) = observe(&daemon, SCHED_EVENTS, 32, || {
        let mut bursts = Worker::start("bursts", &["0", "400", "100", "1"])?;
        // Wakes in the middle of the burst, bound to the CPU that the burst holds.
        let mut waiter = Worker::start("nap", &["0", "180", "1"])?;
        thread::sleep(Duration::from_millis(380));
        pin(waiter.pid(), 1)?;
        waiter.figures()?;
        bursts.figures()?;
        Ok(waiter.pid())
    })?;
    let long = long_waits(&seen)?;
    let moved: Vec<_> = long.iter().filter(|sample| sample.pid == pid).collect();
    // Bound to CPU 0 when it woke, so a wait that ended on CPU 1 went through a migration.
    ensure!(
        moved.len() == 1 && moved.iter().all(|sample| sample.cpu == 1),
        "{INCONCLUSIVE}: the waiter's migration did not come off: {moved:?}"
    );
    agree(&seen)?;
    Ok(())
}

fn new_program() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, pids) = observe(&daemon, SCHED_EVENTS, 64, || {
        let hogs = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
        let mut chain = Worker::start("exec-chain", &["0", "10", "20", "0"])?;
        let mut threads: Vec<Worker> =
            (0..8).map(|_| Worker::start("thread-exec", &["0", "20"])).collect::<Result<_>>()?;
        ensure!(figure(&chain.figures()?, "execs")? == 20, "the chain broke");
        for worker in &mut threads {
            ensure!(figure(&worker.figures()?, "execs")? == 1, "a thread did not exec");
        }
        for hog in hogs {
            hog.stop()?;
        }
        Ok((chain.pid(), threads.iter().map(Worker::pid).collect::<Vec<_>>()))
    })?;
    let waits = runqueue_wait(&seen.trace.events);
    let count = |pid| seen.certain(&waits).filter(|sample| sample.pid == pid).count();
    ensure!(count(pids.0) >= 20, "the chain waited only {} times", count(pids.0));
    for pid in pids.1 {
        ensure!(count(pid) >= 2, "{pid} waited only {} times", count(pid));
    }
    agree(&seen)?;
    Ok(())
}

fn killed_while_waiting() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, pid) = observe(&daemon, SCHED_EVENTS, 32, || {
        let mut bursts = Worker::start("bursts", &["0", "400", "100", "1"])?;
        let mut waiter = Worker::start("nap", &["0", "180", "1"])?;
        thread::sleep(Duration::from_millis(330));
        waiter.kill()?;
        let is_killed = waiter.wait_killed();
        bursts.figures()?;
        // Others on this host that preempt the burst may give it a turn before.
        is_killed
            .with_context(|| format!("{INCONCLUSIVE}: the task ended before it was killed"))?;
        Ok(waiter.pid())
    })?;
    let long = long_waits(&seen)?;
    let own = long.iter().filter(|sample| sample.pid == pid).count();
    // Killed in the middle of the burst, for which it waits, so it leaves when that ends.
    ensure!(own == 1, "{INCONCLUSIVE}: the killed task has {own} long waits in the trace, not one");
    agree(&seen)?;
    Ok(())
}

fn recycled_pid() -> Result<()> {
    let daemon = Daemon::start()?;
    let pid = unused_pid()?;
    let (seen, ()) = observe(&daemon, SCHED_EVENTS, 64, || {
        for turn in 0..20 {
            let child = ChosenChild::start(pid, 0, Duration::from_millis(3), 3)?;
            if turn % 2 == 1 {
                thread::sleep(Duration::from_millis(4));
                child.kill()?;
            }
            child.wait()?;
            // What a successor would be charged with, if it inherited a start.
            thread::sleep(Duration::from_millis(100));
        }
        // One that dies while it waits, and its successor.
        let mut bursts = Worker::start("bursts", &["0", BURST_MS, "50", "1"])?;
        let child = ChosenChild::start(pid, 0, Duration::from_millis(100), 1)?;
        thread::sleep(Duration::from_millis(250));
        child.kill()?;
        child.wait()?;
        bursts.figures()?;
        thread::sleep(Duration::from_millis(200));
        ChosenChild::start(pid, 0, Duration::from_millis(3), 3)?.wait()
    })?;
    let waits = runqueue_wait(&seen.trace.events);
    let own = seen.certain(&waits).filter(|sample| sample.pid == pid).count();
    ensure!(own >= 60, "{INCONCLUSIVE}: the id was used for {own} waits only");
    long_waits(&seen)?;
    agree(&seen)?;
    Ok(())
}

fn stopped_and_continued() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, SCHED_EVENTS, 32, || {
        let burner = Worker::start("burn", &["0"])?;
        let sleeper = Worker::start("sleep", &["0", "500"])?;
        for _ in 0..20 {
            for worker in [&burner, &sleeper] {
                worker.signal(libc::SIGSTOP)?;
            }
            // Longer than LONG_NS: stopped is not waiting.
            thread::sleep(Duration::from_millis(80));
            for worker in [&burner, &sleeper] {
                worker.signal(libc::SIGCONT)?;
            }
            thread::sleep(Duration::from_millis(10));
        }
        burner.stop()?;
        sleeper.stop()?;
        Ok(())
    })?;
    long_waits(&seen)?;
    agree(&seen)?;
    Ok(())
}

/// A start as the switches of a task leave it that the programs were not called for.
fn asleep_with_a_start() -> Result<()> {
    const NAPS: u32 = 10;
    const LOST_NS: u64 = 1_000_000_000;
    let daemon = Daemon::start()?;
    let starts = Numbers::of(daemon.process().pid(), "NOISE_WAITING")?;
    let (seen, pid) = observe(&daemon, SCHED_EVENTS, 32, || {
        let mut sleeper = Worker::start("nap", &["0", "100", "1000"])?;
        let pid = sleeper.pid();
        for _ in 0..NAPS {
            let runs = sched_stat(pid)?.runs;
            while sched_stat(pid)?.runs == runs {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            let runs = sched_stat(pid)?.runs;
            let start_ns = monotonic_ns()?.saturating_sub(LOST_NS);
            starts.set(u32::try_from(pid)?, i64::try_from(start_ns)? << 1)?;
            ensure!(sched_stat(pid)?.runs == runs, "{INCONCLUSIVE}: the task was late for its nap");
        }
        sleeper.kill()?;
        sleeper.wait_killed()?;
        Ok(pid)
    })?;
    let waits = runqueue_wait(&seen.trace.events);
    let own = seen.certain(&waits).filter(|sample| sample.pid == pid).count();
    ensure!(own >= NAPS as usize, "{INCONCLUSIVE}: the task woke up only {own} times");
    long_waits(&seen)?;
    agree(&seen)?;
    Ok(())
}

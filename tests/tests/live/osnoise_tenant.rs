//! `noised osnoise --task` and `--cgroup`, and the daemon's own measuring: noise that was planted.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, run_noised};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::measuring::{array, member, number};
use noise_tests::prom::label_set;
use noise_tests::task::sched_stat;
use serde_json::Value;

use crate::Test;
use crate::osnoise::{CPU, planter, planter_name, two_cpus};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_process_behind_a_planter", process),
    ("a_cgroup_behind_a_planter", cgroup),
    ("the_daemon_measures_from_the_inside", duty),
];

/// What the planter would have of the CPU.
const RUN_US: u64 = 5_000;
const PERIOD_US: u64 = 20_000;
/// How sums may differ, of the whole time: one run at either end, and what else runs.
const TOLERANCE: f64 = 0.02;

/// What is said of a subject that would run all the time.
struct Measured {
    account: Value,
    /// The part of the time that the planter had, by the kernel's own account of it.
    share: f64,
}

fn measure(subject: &[&str]) -> Result<Measured> {
    let mut planter = planter(RUN_US, PERIOD_US, 100_000)?;
    let arguments = [&["osnoise", "--duration", "3s", "--json"], subject].concat();
    let (before, begin) = (sched_stat(planter.pid())?, Instant::now());
    let outcome = run_noised(&arguments)?;
    let (after, passed) = (sched_stat(planter.pid())?, begin.elapsed());
    planter.kill()?;
    planter.wait_killed()?;
    let account = outcome.json()?;
    let share = (after.run_ns - before.run_ns) as f64 / passed.as_nanos() as f64;
    println!("the planter had {:.1} % of the CPU", share * 100.0);
    Ok(Measured { account, share })
}

fn near(what: &str, found: u64, expected: f64, of: u64) -> Result<()> {
    let apart = (found as f64 - expected).abs() / of as f64;
    println!(
        "{what}: {found} ns, expected {expected:.0} ns, {:.2} % of the time apart",
        apart * 100.0
    );
    ensure!(apart <= TOLERANCE, "{what}: {found} ns is not near {expected:.0} ns");
    Ok(())
}

fn charged(account: &Value, culprit: &str) -> Result<u64> {
    let mut sum = 0;
    for charge in array(account, "behind")? {
        if member(charge, "culprit")?.as_str() == Some(culprit) {
            sum += number(charge, "ns")?;
        }
    }
    Ok(sum)
}

/// All waiting is charged to a culprit.
fn ensure_all_is_charged(account: &Value) -> Result<()> {
    let charges = array(account, "behind")?.iter().map(|charge| number(charge, "ns"));
    let sum: u64 = charges.sum::<Result<u64>>()?;
    let waited = number(account, "waited_ns")?;
    // A wait that ends between reading the one and reading the other.
    near("charges", sum, waited as f64, waited.max(1))
}

fn process() -> Result<()> {
    two_cpus()?;
    let victim = Worker::start("burn", &[&CPU.to_string()])?;
    let Measured { account, share } = measure(&["--task", &victim.pid().to_string()])?;
    victim.stop()?;
    println!("{account:#}");
    let passed = number(&account, "passed_ns")?;
    let (ran, waited) = (number(&account, "ran_ns")?, number(&account, "waited_ns")?);
    // It never sleeps: it runs or waits.
    near("ran and waited", ran + waited, passed as f64, passed)?;
    near("behind the planter", charged(&account, &planter_name())?, passed as f64 * share, passed)?;
    ensure_all_is_charged(&account)?;
    let stolen = array(&account, "stolen")?;
    let ticks = stolen
        .iter()
        .any(|charge| charge.get("culprit").and_then(Value::as_str) == Some("local_timer"));
    ensure!(ticks, "the timer took nothing from it");
    let taken = number(&account, "stolen_ns")?;
    ensure!(taken > 0 && taken < ran, "{taken} ns were taken of {ran} ns");
    Ok(())
}

fn cgroup() -> Result<()> {
    two_cpus()?;
    let group = Group::new("tenant", &[Hierarchy::Cpu])?;
    let victim = Worker::start_at(Place::group(&group), "burn", &[&CPU.to_string()])?;
    let Measured { account, share } = measure(&["--cgroup", &group.label()])?;
    victim.stop()?;
    println!("{account:#}");
    let passed = number(&account, "passed_ns")?;
    let foreign: u64 = array(&account, "behind")?
        .iter()
        .filter(|charge| charge.get("cause").and_then(Value::as_str) == Some("foreign"))
        .map(|charge| number(charge, "ns"))
        .sum::<Result<u64>>()?;
    ensure!(foreign as f64 >= passed as f64 * (share - TOLERANCE), "only {foreign} ns of {passed}");
    ensure_all_is_charged(&account)?;
    Ok(())
}

fn duty() -> Result<()> {
    two_cpus()?;
    // Every measurement of 10 ms meets it.
    let mut planter = planter(2_000, 8_000, 100_000)?;
    let daemon = Daemon::start_with(&["--osnoise.cpus", &CPU.to_string()])?;
    thread::sleep(Duration::from_millis(5_500));
    let scrape = daemon.scrape()?;
    planter.kill()?;
    planter.wait_killed()?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "{status}: {log}");
    let cpu = CPU.to_string();
    let own = label_set(&[("cpu", &cpu)]);
    let runtime = scrape.value("noised_osnoise_runtime_seconds_total", &own).unwrap_or(0.0);
    let of = |name: &str, source: &str| {
        let value = scrape.value(name, &label_set(&[("cpu", &cpu), ("source", source)]));
        value.with_context(|| format!("no {name} of {source}"))
    };
    println!("{runtime} s measured");
    ensure!((0.03..0.5).contains(&runtime), "{runtime} s were measured in 5.5 s");
    let noise: f64 = scrape.series("noised_osnoise_seconds_total").values().sum();
    ensure!(noise < runtime, "{noise} s of noise in {runtime} s");
    ensure!(of("noised_osnoise_interferences_total", "thread")? >= 3.0);
    ensure!(of("noised_osnoise_max_single_seconds", "thread")? >= 0.0019);
    let threads = of("noised_osnoise_seconds_total", "thread")?;
    println!("{threads} s by threads, {noise} s of noise altogether");
    ensure!(threads >= runtime * 0.15, "threads took {threads} s of {runtime} s");
    Ok(())
}

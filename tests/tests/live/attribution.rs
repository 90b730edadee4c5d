//! Whom the daemon blames, against who had the CPU by ftrace.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::attribution::{Account, Cast, charged, ensure_preemptions, ensure_sums};
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::Daemon;
use noise_tests::ftrace::{Recording, charge_events};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::namespace::VethPair;
use noise_tests::pairing::charges::{Holder, charges};
use noise_tests::prom::Scrape;
use noise_tests::task::{cpus, pin, sched_stat, set_nice};

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("referee_agrees_with_schedstat", referee_agrees_with_schedstat),
    ("another_group", another_group),
    ("own_siblings", own_siblings),
    ("own_quota", own_quota),
    ("interrupts_and_softirqs", interrupts_and_softirqs),
    ("softirqs_from_another_cpu", softirqs_from_another_cpu),
    ("kernel_thread", kernel_thread),
    ("migrating_threads", migrating_threads),
    ("overload", overload),
];

/// How far the daemon's charges may be from the referee's.
const SHARE: f64 = 0.05;
const LENGTH: Duration = Duration::from_secs(4);
/// Of all that a crowd waited for its CPUs, what may have no culprit.
const UNTRACKED_SHARE: f64 = 0.002;
/// How long crowds wait.
const CROWDED: Duration = Duration::from_millis(1500);
const BUFFER_MIB: usize = 64;

/// What a scene leaves behind: who was who. Its groups are still there.
struct Scene {
    victim: Group,
    culprit: Group,
    cast: Cast,
}

/// Lets workers work, and looks who they are before they stop.
fn play(victim: Group, culprit: Group, workers: Vec<Worker>) -> Result<Scene> {
    thread::sleep(LENGTH);
    play_out(victim, culprit, workers)
}

/// Looks who workers are, and lets them stop.
fn play_out(victim: Group, culprit: Group, mut workers: Vec<Worker>) -> Result<Scene> {
    let cast = Cast::look(&[&victim, &culprit])?;
    workers.iter_mut().for_each(Worker::ask_to_stop);
    for worker in workers {
        worker.stop()?;
    }
    Ok(Scene { victim, culprit, cast })
}

fn groups() -> Result<(Group, Group)> {
    Ok((Group::new("victim", &[Hierarchy::Cpu])?, Group::new("culprit", &[Hierarchy::Cpu])?))
}

/// Compares, and requires that so much of a cause was there to compare.
fn judge(seen: &Observation, scene: &Scene, present: &[(&str, &str, f64)]) -> Result<Account> {
    let account = Account::of(seen, &scene.victim, &scene.cast)?;
    account.verdict(&["cpu", "running"], SHARE)?;
    for &(resource, cause, seconds) in present {
        let expected = account.expected_of(resource, cause);
        ensure!(
            expected >= seconds,
            "{INCONCLUSIVE}: by ftrace, {cause} took {expected} s of {resource}: too little to compare"
        );
    }
    ensure_sums(seen, &scene.victim, &scene.cast)?;
    Ok(account)
}

fn referee_agrees_with_schedstat() -> Result<()> {
    let recording = Recording::start(&charge_events(), BUFFER_MIB)?;
    let burners = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
    thread::sleep(Duration::from_millis(1500));
    let [victim, hog] = [burners[0].pid(), burners[1].pid()];
    // The kernel charges a wait when it ends, as the referee does. Between the marks one may end.
    recording.mark("read")?;
    let (waited, ran) = (sched_stat(victim)?.wait_ns as f64, sched_stat(hog)?.run_ns as f64);
    recording.mark("done")?;
    for burner in burners {
        burner.stop()?;
    }
    let trace = recording.stop()?;
    let found = charges(&trace.events, &BTreeSet::from([victim]));
    let sum = |until_ns: u64, wanted: &dyn Fn(&Holder) -> bool| -> f64 {
        let charged = found.waiting.iter().filter(|charge| charge.end_ns <= until_ns);
        let charged = charged.filter(|charge| wanted(&charge.holder));
        charged.map(|charge| charge.ns as f64).sum()
    };
    let (read, done) = (trace.mark_ns("read")?, trace.mark_ns("done")?);
    let (least, most) = (sum(read, &|_| true), sum(done, &|_| true));
    let by_hog = sum(done, &|holder| *holder == Holder::Task(hog));
    println!(
        "schedstat: waited {waited} ns, the other ran {ran} ns; charged {least}..={most}, {by_hog} \
         to it"
    );
    ensure!(
        (least * (1.0 - SHARE)..=most * (1.0 + SHARE)).contains(&waited),
        "{least}..={most} ns charged for {waited} ns"
    );
    ensure!(by_hog <= ran * 1.02 && by_hog >= ran * 0.8, "{by_hog} ns of {ran} ns are the hog's");
    Ok(())
}

fn another_group() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let (seen, scene) = observe(&daemon, &charge_events(), BUFFER_MIB, || {
        let (victim, culprit) = groups()?;
        let workers = vec![
            Worker::start_at(Place::group(&victim), "burn", &["0"])?,
            Worker::start_at(Place::group(&victim), "sleep", &["0", "700"])?,
            Worker::start_at(Place::group(&culprit), "burn", &["0"])?,
        ];
        play(victim, culprit, workers)
    })?;
    let account = judge(&seen, &scene, &[("cpu", "foreign", 1.0)])?;
    ensure_preemptions(&seen, &scene.victim, &scene.cast)?;
    account.ensure_first(&[scene.culprit.label()], &["cpu"])?;
    Ok(())
}

fn own_siblings() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let (seen, scene) = observe(&daemon, &charge_events(), BUFFER_MIB, || {
        let (victim, culprit) = groups()?;
        let workers = (0..3).map(|_| Worker::start_at(Place::group(&victim), "burn", &["0"]));
        let workers = workers.collect::<Result<_>>()?;
        play(victim, culprit, workers)
    })?;
    judge(&seen, &scene, &[("cpu", "self", 1.0)])?;
    Ok(())
}

fn own_quota() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let (victim, culprit) = groups()?;
    ensure!(
        victim.limit_cpu(Duration::from_millis(20), Duration::from_millis(100))?,
        Impossible("this host limits the CPU time of no group".into())
    );
    let (seen, (scene, throttled)) = observe(&daemon, &charge_events(), BUFFER_MIB, || {
        let burner = Worker::start_at(Place::group(&victim), "burn", &["0"])?;
        let scene = play(victim, culprit, vec![burner])?;
        let throttled = scene.victim.throttled_ns()? as f64 / 1e9;
        Ok((scene, throttled))
    })?;
    let account = Account::of(&seen, &scene.victim, &scene.cast)?;
    let waits = charges(&seen.trace.events, &scene.cast.threads(&scene.victim));
    let waited = waits.waiting.iter().map(|charge| charge.ns as f64 / 1e9).sum::<f64>();
    let found = account.found_of("cpu", "throttle");
    println!(
        "throttled for {throttled} s by cpu.stat, waited {waited} s by ftrace; noised: {found} s"
    );
    ensure!(throttled > 1.0, "{INCONCLUSIVE}: throttled for {throttled} s: nothing was tested");
    ensure!(
        (found / throttled - 1.0).abs() < SHARE,
        "the quota took {throttled} s, noised charges {found} s to it"
    );
    ensure_sums(&seen, &scene.victim, &scene.cast)?;
    Ok(())
}

fn interrupts_and_softirqs() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let (seen, scene) = observe(&daemon, &charge_events(), 192, || {
        let (victim, culprit) = groups()?;
        let workers = vec![
            Worker::start_at(Place::group(&victim), "burn", &["0"])?,
            // Its softirqs run in its own turns, which the victim waits for.
            Worker::start_at(Place::group(&culprit), "udp-flood", &["0", "4000", "0"])?,
            Worker::start("clock-storm", &["0", "50000", "1"])?,
        ];
        play(victim, culprit, workers)
    })?;
    judge(
        &seen,
        &scene,
        &[
            ("cpu", "foreign", 0.5),
            ("cpu", "softirq", 0.1),
            ("cpu", "hardirq", 0.02),
            ("running", "hardirq", 0.02),
        ],
    )?;
    Ok(())
}

/// Observes one that computes on CPU 0, while another on CPU 1 sends frames that are received there. `pace`
/// is the last two arguments of the load `frames`.
fn beside_frames(
    daemon: &Daemon,
    pair: &VethPair,
    buffer_mib: usize,
    pace: [&str; 2],
) -> Result<(Observation, Scene)> {
    observe(daemon, &charge_events(), buffer_mib, || {
        let (victim, culprit) = groups()?;
        let frames = [["1", &pair.near, "1000"].as_slice(), &pace].concat();
        let workers = vec![
            Worker::start_at(Place::group(&victim), "burn", &["0"])?,
            Worker::start_at(Place::group(&culprit), "frames", &frames)?,
        ];
        play(victim, culprit, workers)
    })
}

fn softirqs_from_another_cpu() -> Result<()> {
    ensure!(cpus() >= 2, Impossible("needs two CPUs".into()));
    let daemon = Daemon::start_unfolded()?;
    let pair = VethPair::new()?;
    pair.receive_on(0)
        .map_err(|error| Impossible(format!("packets cannot be steered: {error:#}")))?;
    let (seen, scene) = beside_frames(&daemon, &pair, 192, ["50", "100"])?;
    judge(&seen, &scene, &[("running", "softirq", 0.1)])?;
    Ok(())
}

/// The thread that receives for an interface, if the kernel has made one.
fn receiving_thread(interface: &str) -> Result<Option<i32>> {
    let wanted: String = format!("napi/{interface}").chars().take(15).collect();
    for thread in noise_tests::task::kernel_threads()? {
        let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
        if name.starts_with(&wanted) {
            return Ok(Some(thread));
        }
    }
    Ok(None)
}

fn kernel_thread() -> Result<()> {
    ensure!(cpus() >= 2, Impossible("needs two CPUs".into()));
    let daemon = Daemon::start_unfolded()?;
    let pair = VethPair::new()?;
    pair.receive_in_a_thread()
        .map_err(|error| Impossible(format!("no interface receives in a thread: {error:#}")))?;
    let receiver = receiving_thread(&pair.far)?.context("no thread receives")?;
    pin(receiver, 0)?;
    let (seen, scene) = beside_frames(&daemon, &pair, 128, ["500", "500"])?;
    judge(&seen, &scene, &[("cpu", "kthread", 0.2)])?;
    Ok(())
}

fn migrating_threads() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let crew = (2 * cpus()).to_string();
    let (seen, scene) = observe(&daemon, &charge_events(), BUFFER_MIB, || {
        let (victim, culprit) = groups()?;
        let workers = vec![
            Worker::start_at(Place::group(&victim), "crew", &[&crew])?,
            Worker::start_at(Place::group(&culprit), "crew", &[&crew])?,
        ];
        play(victim, culprit, workers)
    })?;
    judge(&seen, &scene, &[("cpu", "foreign", 0.5), ("cpu", "self", 0.5)])?;
    Ok(())
}

/// Two groups that keep two CPUs busy, each with threads that run for long and a crowd of those that do not:
/// nearly all waits are longer than what a CPU's ledger remembers. The CPUs are not divided between them: by
/// groups, Linux 6.18 can keep one waiting for minutes while the crowd of the other talks.
fn crowds(around: &Group) -> Result<(Group, Group, Vec<Worker>)> {
    let (victim, culprit) = (around.inner("victim")?, around.inner("culprit")?);
    let mut workers = Vec::new();
    for (load, cpus) in [("burn", ["0", "1", "0,1"].as_slice()), ("crowd", &["0,1"])] {
        for group in [&victim, &culprit] {
            for cpus in cpus {
                workers.push(Worker::start_at(Place::group(group), load, &[cpus, "4"])?);
            }
        }
    }
    Ok((victim, culprit, workers))
}

/// How long the daemon's main thread waited for a CPU since it began.
fn waited_by(daemon: &Daemon) -> Result<Duration> {
    let stat = sched_stat(daemon.process().pid().try_into()?)?;
    Ok(Duration::from_nanos(stat.wait_ns))
}

/// Seconds that these groups waited for a CPU by the daemon's charges, and those without a culprit.
fn charged_untracked(first: &Scrape, last: &Scrape, groups: &[&Group]) -> Result<(f64, f64)> {
    let (mut all, mut untracked) = (0.0, 0.0);
    for group in groups {
        for (blame, seconds) in charged(first, last, &group.label())? {
            if blame.resource == "cpu" {
                all += seconds;
                untracked += if blame.cause == "untracked" { seconds } else { 0.0 };
            }
        }
    }
    Ok((all, untracked))
}

fn overload() -> Result<()> {
    ensure!(cpus() >= 2, Impossible("needs two CPUs".into()));
    // What there is to divide is what has no culprit without the events.
    let around = Group::new("crowds", &[Hierarchy::Sockets])?;
    let blind = Daemon::start_with(&["--recorder.enabled", "false"])?;
    let first = blind.scrape()?;
    let (victim, culprit, workers) = crowds(&around)?;
    thread::sleep(CROWDED);
    let last = blind.scrape()?;
    drop((blind, workers));
    let (all, untracked) = charged_untracked(&first, &last, &[&victim, &culprit])?;
    drop((victim, culprit));
    println!("without events {untracked:.3} s of {all:.3} s are untracked");
    ensure!(
        untracked > 2.0 * UNTRACKED_SHARE * all,
        "{INCONCLUSIVE}: the ledgers remembered all but {untracked} s of {all} s: too little to divide"
    );

    let daemon = Daemon::start_unfolded()?;
    // As a service it has a share of its own; here it would be one of hundreds, and late for the events.
    set_nice(daemon.process().pid().try_into()?, -15)?;
    let mut waited = Duration::ZERO;
    let (seen, scene) = observe(&daemon, &charge_events(), 192, || {
        let (victim, culprit, workers) = crowds(&around)?;
        let waited_before = waited_by(&daemon)?;
        let mut before = daemon.scrape()?;
        for _ in 0..8 {
            thread::sleep(CROWDED / 8);
            let now = daemon.scrape()?;
            // None of them ran backwards.
            for group in [&victim, &culprit] {
                charged(&before, &now, &group.label())?;
            }
            before = now;
        }
        waited = waited_by(&daemon)?.saturating_sub(waited_before);
        play_out(victim, culprit, workers)
    })?;
    let groups = [&scene.victim, &scene.culprit];
    let (all, untracked) = charged_untracked(&seen.first, &seen.last, &groups)?;
    let share = untracked / all;
    println!("{untracked:.6} s of {all:.3} s are untracked: {:.4} %", 100.0 * share);
    println!("the daemon waited {waited:?} for a CPU");
    ensure!(
        share <= UNTRACKED_SHARE || waited < CROWDED / 2,
        "{INCONCLUSIVE}: the daemon itself waited {waited:?} for a CPU: too long to read the events in time"
    );
    ensure!(
        share <= UNTRACKED_SHARE,
        "{untracked} s of {all} s that two crowds waited are untracked, {:.3} %",
        100.0 * share
    );
    judge(&seen, &scene, &[("cpu", "foreign", 1.0), ("cpu", "self", 1.0)])?;
    ensure_sums(&seen, &scene.culprit, &scene.cast)?;
    Ok(())
}

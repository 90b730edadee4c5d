//! More tasks, processes and cgroups than any real host has.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Figures, Place, Worker, figure};
use noise_tests::prom::{Scrape, label_set};
use noise_tests::toll::{Bill, Toll};

use super::{Setting, asked_for};
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("many_sleepers", many_sleepers),
    ("fork_storm", fork_storm),
    ("cgroups_come_and_go", cgroups_come_and_go),
    ("pids_beyond_the_map", pids_beyond_the_map),
];

/// What the daemon may need in addition for a crowd.
const GROWTH_BYTES: u64 = 16 << 20;
/// Waits of a task behind its last look at its own account: it reports, and ends.
const LATE_WAITS: u64 = 50;
/// How long it takes until a cgroup has a name, and its waits are exported, on a machine with time to spare.
const NAMED_AFTER: Duration = Duration::from_millis(2500);
/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Judges a crowd that has gone: again where something is missing, until the daemon, which may not have
/// got to run either, has had its time. What is exported never gets less, so what is too much stays.
pub(super) fn settled<T>(judge: impl Fn() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + TIMEOUT;
    thread::sleep(NAMED_AFTER);
    loop {
        let verdict = judge();
        match &verdict {
            Err(error) if Instant::now() < deadline => println!("not yet: {error:#}"),
            _ => return verdict,
        }
        thread::sleep(Duration::from_millis(500));
    }
}

/// A cgroup's waits: how many, and how long all together, seconds.
pub(super) fn waits_of(scrape: &Scrape, label: &str) -> Result<(f64, f64)> {
    let found = scrape.histograms("noised_cgroup_runqueue_wait_seconds")?;
    let found = found.get(&label_set(&[("cgroup", label)]));
    Ok(found.map_or((0.0, 0.0), |waits| (waits.count, waits.sum_seconds)))
}

/// What a cgroup's waits for a CPU are charged to all culprits together, seconds.
pub(super) fn charged_to(scrape: &Scrape, label: &str) -> f64 {
    let charges = scrape.series("noised_interference_seconds_total").into_iter();
    let of_victim = charges.filter(|(labels, _)| {
        labels.get("victim").is_some_and(|victim| victim == label)
            && labels.get("resource").is_some_and(|resource| resource == "cpu")
    });
    of_victim.map(|(_, seconds)| seconds).sum()
}

/// Requires that every wait of a cgroup was counted or reported as lost. The kernel's own account of
/// switches away from its tasks says how many there were: one for each switch, and one more for each
/// task whose last switch was not accounted for yet.
fn ensure_counted(bill: &Bill, label: &str, switches: u64, tasks: u64) -> Result<()> {
    let (count, seconds) = waits_of(&bill.scrape, label)?;
    let expected = switches + tasks;
    let lost = bill.dropped("no_start") + bill.dropped("out_of_range");
    println!(
        "{expected} waits by the kernel's account, {count} counted ({:+}); on the whole host {lost} \
         reported as not counted, {} switches hidden from BPF; {seconds:.3} s",
        count - expected as f64,
        bill.hidden
    );
    ensure!(count + lost + bill.hidden as f64 >= expected as f64, "waits are missing");
    ensure!(count <= (expected + LATE_WAITS * 16) as f64, "more waits than there were");
    let charged = charged_to(&bill.scrape, label);
    println!("{charged:.3} s charged to culprits");
    // Each charge is cut off to whole nanoseconds, and a window may be open.
    ensure!((charged - seconds).abs() <= 0.01 * seconds + 0.01, "charges and waits differ");
    Ok(())
}

fn available_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.context("no MemAvailable")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

fn sum(figures: &[Figures], name: &str) -> Result<u64> {
    figures.iter().map(|figures| figure(figures, name)).sum()
}

fn many_sleepers() -> Result<()> {
    const EACH: u64 = 5000;
    let (processes, each, period_ms) =
        if asked_for("large") { (10, EACH, "1000") } else { (4, 500, "100") };
    // Kernel stack, task and the begin of a stack.
    let needed = processes * each * 64 * 1024;
    ensure!(
        available_bytes()? >= needed * 2,
        Impossible(format!("{needed} bytes for threads are not there twice"))
    );
    let room = processes * each * 2;
    let _pids = Setting::raise("/proc/sys/kernel/pid_max", room)?;
    let _threads = Setting::raise("/proc/sys/kernel/threads-max", room)?;
    let daemon = Daemon::start_unfolded()?;
    let group = Group::new("sleepers", &[Hierarchy::Cpu])?;
    let toll = Toll::begin(&daemon)?;
    let workers = (0..processes)
        .map(|_| {
            let arguments = [&each.to_string(), period_ms];
            Worker::start_at(Place::group(&group), "sleepers", &arguments)
        })
        .collect::<Result<Vec<_>>>()?;
    thread::sleep(Duration::from_secs(4));
    let figures = workers.into_iter().map(Worker::stop).collect::<Result<Vec<_>>>()?;
    let wakes = sum(&figures, "wakes")?;
    println!("{} threads, {wakes} sleeps", processes * each);
    let (switches, tasks) = (sum(&figures, "switches")?, sum(&figures, "tasks")?);
    ensure!(switches >= wakes, "threads that sleep without leaving the CPU");
    settled(|| {
        let bill = toll.end(&daemon)?;
        ensure_counted(&bill, &group.label(), switches, tasks)?;
        bill.ensure_bounded(GROWTH_BYTES)
    })?;
    Ok(())
}

fn fork_storm() -> Result<()> {
    let count: u64 = if asked_for("large") { 100_000 } else { 10_000 };
    let daemon = Daemon::start_unfolded()?;
    let group = Group::new("forks", &[Hierarchy::Cpu])?;
    let toll = Toll::begin(&daemon)?;
    let arguments = ["any", &count.to_string()];
    let mut worker = Worker::start_at(Place::group(&group), "forks", &arguments)?;
    let figures = worker.figures()?;
    let switches = figure(&figures, "switches")? + figure(&figures, "child_switches")?;
    // A child is accounted for when it is reaped, behind its last switch.
    settled(|| {
        let bill = toll.end(&daemon)?;
        ensure_counted(&bill, &group.label(), switches, 1)?;
        bill.ensure_bounded(GROWTH_BYTES)
    })?;
    Ok(())
}

fn cgroups_come_and_go() -> Result<()> {
    let count: u64 = if asked_for("large") { 10_000 } else { 300 };
    let daemon = Daemon::start()?;
    let group = Group::new("churned", &[Hierarchy::Cpu])?;
    let toll = Toll::begin(&daemon)?;
    let directory = group.directory()?.to_str().context("a path that is not UTF-8")?;
    let mut worker = Worker::start("group-churn", &[directory, &count.to_string(), "0"])?;
    let made = figure(&worker.figures()?, "groups")?;
    ensure!(made == count, "{made} cgroups of {count}");
    settled(|| ensure_churned(&toll, &toll.end(&daemon)?, &group.label(), count))?;
    Ok(())
}

/// Requires that cgroups that came and went were counted, by whatever name.
fn ensure_churned(toll: &Toll, bill: &Bill, parent: &str, count: u64) -> Result<()> {
    // Each had a process that slept and was woken. Whoever could be named in time has a name, the
    // others are gone or were too many for names of their own: together none is missing.
    let counted = |scrape: &Scrape| -> Result<[f64; 3]> {
        let mut counts = [0.0; 3];
        for (labels, waits) in scrape.histograms("noised_cgroup_runqueue_wait_seconds")? {
            let label = labels.get("cgroup").map_or("", String::as_str);
            let place = match label {
                "~gone" => 0,
                "~other" => 1,
                _ if label.starts_with(&format!("{parent}/churn-")) => 2,
                _ => continue,
            };
            counts[place] += waits.count;
        }
        Ok(counts)
    };
    let (before, after) = (counted(&toll.scrape)?, counted(&bill.scrape)?);
    let [gone, other, named] = [0, 1, 2].map(|place| after[place] - before[place]);
    println!("{count} cgroups: {gone} waits of ~gone, {other} of ~other, {named} by name");
    ensure!(gone + other + named >= count as f64, "waits are missing");
    // Whatever they are called, cgroups wait as often as tasks do.
    let waits = |scrape: &Scrape, metric: &str| -> Result<f64> {
        Ok(scrape.histograms(metric)?.values().map(|waits| waits.count).sum())
    };
    let [tasks, cgroups] = ["noised_runqueue_wait_seconds", "noised_cgroup_runqueue_wait_seconds"]
        .map(|metric| anyhow::Ok(waits(&bill.scrape, metric)? - waits(&toll.scrape, metric)?));
    let (tasks, cgroups) = (tasks?, cgroups?);
    println!("{tasks} waits of tasks, {cgroups} of cgroups");
    ensure!((tasks - cgroups).abs() <= 0.01 * tasks + 100.0, "cgroups lost waits of their tasks");
    bill.ensure_bounded(GROWTH_BYTES)
}

/// Process ids that did not exist when the daemon sized its maps.
fn pids_beyond_the_map() -> Result<()> {
    let path = "/proc/sys/kernel/pid_max";
    let before: i32 = fs::read_to_string(path)?.trim().parse()?;
    ensure!(before < 4 << 20, Impossible("ids cannot be larger than they may be already".into()));
    let daemon = Daemon::start_unfolded()?;
    let toll = Toll::begin(&daemon)?;
    let _pids = Setting::raise(path, u64::try_from(before)? * 2)?;
    let naps = 200;
    let nap = Duration::from_millis(2);
    noise_tests::task::ChosenChild::start(before + 1000, 0, nap, naps)?.wait()?;
    let bill = toll.end(&daemon)?;
    let dropped = bill.dropped("out_of_range");
    let hidden = bill.hidden;
    println!(
        "{naps} sleeps of an id beyond the map, {dropped} events reported as out of range; {hidden} switches hidden \
         from BPF"
    );
    // Each sleep is a wake-up, a run and a departure that have no place. Meanwhile a hidden thread may run, and what it
    // goes on to and wakes is seen by no program.
    let expected = f64::from(naps) * 3.0;
    let is_whole = dropped + 3.0 * hidden as f64 >= expected;
    ensure!(is_whole && dropped >= 0.9 * expected, "waits without a place are not reported");
    ensure!(dropped <= f64::from(naps) * 3.0 + 200.0, "more is reported than happened");
    Ok(())
}

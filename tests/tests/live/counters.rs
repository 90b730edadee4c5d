//! Counters never run backwards, whatever comes and goes: what is lower says that it has begun anew. A scraper that
//! remembers is the judge.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Worker, figure};
use noise_tests::recall::{Decrease, Recall};
use noise_tests::scratch::TextFile;
use noise_tests::task::cpus;

use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("what_is_lower_has_begun_anew", what_is_lower_has_begun_anew)];

/// Loads at a time, of which each has cgroups of its own.
const LOADS: usize = 4;
/// Names of cgroups, and how many of them exist at a time.
const NAMES: [&str; 2] = ["250", "120"];
/// Limits (interference, preemptions, cgroups) and for how long each: the usual ones, others by a
/// reload, and the usual ones again.
const LIMITS: [([u32; 3], Duration); 4] = [
    ([200, 100, 50], Duration::from_secs(14)),
    ([20, 10, 5], Duration::from_secs(2)),
    ([400, 200, 100], Duration::from_secs(2)),
    ([200, 100, 50], Duration::from_secs(2)),
];

fn configuration([interference, preemptions, cgroups]: [u32; 3]) -> String {
    format!(
        "[limits]\ninterference = {interference}\npreemptions = {preemptions}\ncgroups = {cgroups}\n"
    )
}

/// Says how many of each metric are lower, and shows one of them.
fn show(decreases: &[Decrease]) {
    let mut metrics: BTreeMap<&str, (usize, &Decrease)> = BTreeMap::new();
    for one in decreases {
        metrics.entry(&one.name).or_insert((0, one)).0 += 1;
    }
    for (name, (count, one)) in metrics {
        println!("  {count} of {name}, as {one}");
    }
}

fn what_is_lower_has_begun_anew() -> Result<()> {
    ensure!(Group::is_possible(Hierarchy::Cpu)?, Impossible("this host has no cgroups".into()));
    let file = TextFile::new("noised.toml", &configuration(LIMITS[0].0))?;
    let daemon = Daemon::start_configured(file.argument()?)?;
    let mut hierarchies = vec![Hierarchy::Cpu];
    if Group::is_possible(Hierarchy::Sockets)? {
        hierarchies.push(Hierarchy::Sockets);
    }
    let top = Group::new("tides", &hierarchies)?;
    let parents = top.directories().map(|path| path.to_str().context("a path that is not UTF-8"));
    let parents = parents.collect::<Result<Vec<_>>>()?.join(":");
    let [names, at_a_time] = NAMES;
    let mut tides = Vec::new();
    for seed in 1..=LOADS {
        let (cpu, seed) = ((seed % cpus()).to_string(), seed.to_string());
        let arguments = [&*cpu, &parents, names, at_a_time, &seed];
        tides.push(Worker::start("group-tides", &arguments)?);
    }
    let devices = Worker::start("device-churn", &["100"])?;
    let (mut recall, mut decreases) = (Recall::default(), Vec::new());
    for (turn, (limits, length)) in LIMITS.into_iter().enumerate() {
        if turn > 0 {
            file.write(&configuration(limits))?;
            daemon.process().signal(libc::SIGHUP)?;
        }
        let (begin, before) = (Instant::now(), decreases.len());
        while begin.elapsed() < length {
            decreases.extend(recall.take(&daemon.scrape_with_begins()?)?);
            thread::sleep(Duration::from_millis(1));
        }
        println!("limits {limits:?}: {} decreases", decreases.len() - before);
    }
    devices.stop()?;
    let mut processes = 0;
    for load in tides {
        processes += figure(&load.stop()?, "processes")?;
    }
    println!(
        "{processes} processes; {} pages, {} series, {} came back, {} anew, {} decreases",
        recall.pages(),
        recall.series(),
        recall.returned(),
        recall.anew(),
        decreases.len()
    );
    println!("resident: {} KiB", daemon.resident_bytes()? >> 10);
    show(&decreases);
    ensure!(recall.returned() > 0 && recall.anew() > 0, "no series left and came back");
    ensure!(decreases.is_empty(), "{} decreases", decreases.len());
    Ok(())
}

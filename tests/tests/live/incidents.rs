//! A planted disturbance is one incident, which names who was planted; before it there is none.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::{Daemon, capture};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::http::get;
use noise_tests::load::{Place, Worker};
use serde_json::Value;

use crate::{INCONCLUSIVE, Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] = &[("a_hog_is_one_incident", a_hog_is_one_incident)];

/// A baseline in seconds instead of minutes.
const CONFIGURATION: &[u8] = b"[incidents]\nwarmup-windows = 20\nhalf-life-windows = 200\n\
    recent-windows = 8\nclosing-windows = 6\n";
/// Warm-up, what is held against it, and some rest to find nothing in.
const QUIET: Duration = Duration::from_secs(24);
/// Time in which an incident must open, and in which it must end once its cause is gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// The incidents of those subjects, and how many others there are.
fn incidents(daemon: &Daemon, subjects: &[&str]) -> Result<(Vec<Value>, usize)> {
    let answer = get(daemon.address, "/api/v1/incidents", &[])?;
    let document: Value = serde_json::from_slice(&answer.body)?;
    let all = document["incidents"].as_array().context("no list of incidents")?.clone();
    let count = all.len();
    let own: Vec<Value> = all
        .into_iter()
        .filter(|incident| incident["subject"].as_str().is_some_and(|of| subjects.contains(&of)))
        .collect();
    let others = count - own.len();
    Ok((own, others))
}

/// Asks until the answer is as wanted, or patience ends.
fn until(wanted: impl Fn() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if wanted()? {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(250));
    }
    wanted()
}

fn a_hog_is_one_incident() -> Result<Verdict> {
    let mut file = capture()?;
    file.write_all(CONFIGURATION)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let daemon = Daemon::start_with(&["--config.file", &path])?;
    let victim = Group::new("victim", &[Hierarchy::Cpu])?;
    let hog = Group::new("hog", &[Hierarchy::Cpu])?;
    let (victim_label, hog_label) = (victim.label(), hog.label());
    let subjects = [victim_label.as_str(), hog_label.as_str()];
    let workers = [("sleep", ["0", "2000"]), ("primes", ["0", "20000"])]
        .map(|(load, arguments)| Worker::start_at(Place::group(&victim), load, &arguments));
    let workers = workers.into_iter().collect::<Result<Vec<_>>>()?;
    thread::sleep(QUIET);
    let (before, others) = incidents(&daemon, &subjects)?;
    println!("quiet: {} incidents, {others} of the rest of the host", before.len());
    if let Some(incident) = before.first() {
        let first = &incident["culprits"][0]["culprit"];
        ensure!(*first != victim_label, "an incident of a quiet group: {incident}");
        bail!("{INCONCLUSIVE}: {first} disturbed the group before anybody was planted");
    }

    let burners = (0..3)
        .map(|_| Worker::start_at(Place::group(&hog), "burn", &["0"]))
        .collect::<Result<Vec<_>>>()?;
    let opened = until(|| Ok(!incidents(&daemon, &subjects)?.0.is_empty()))?;
    ensure!(opened, "no incident within {PATIENCE:?}");
    thread::sleep(Duration::from_secs(4));
    for burner in burners {
        burner.stop()?;
    }
    let is_over = |incident: &Value| !incident["ending"].is_null();
    let closed = until(|| Ok(incidents(&daemon, &subjects)?.0.iter().all(is_over)))?;
    let (found, others) = incidents(&daemon, &subjects)?;
    println!("{others} incidents of the rest of the host");
    for incident in &found {
        println!("{incident}");
    }
    ensure!(closed, "an incident goes on after its cause is gone");
    let [incident] = found.as_slice() else { bail!("{} incidents, not one", found.len()) };
    ensure!(incident["subject"] == victim_label, "whose it is: {}", incident["subject"]);
    let first = &incident["culprits"][0];
    ensure!(first["culprit"] == hog_label, "the first culprit is {first}");
    ensure!(
        incident["remedies"].as_array().is_some_and(|remedies| !remedies.is_empty()),
        "no remedy"
    );
    for worker in workers {
        worker.stop()?;
    }
    Ok(Verdict::Passed)
}

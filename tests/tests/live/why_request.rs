//! `noised why --request`: the tier that is slow is named, and whom it waits for, where that is planted.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::{Process, free_address, run, run_noised};
use noise_tests::load::Worker;
use noise_tests::needed::needs;
use noise_tests::scenario::pinned;
use noise_tests::scenario::tiers::{Answer, Clients, HOG, said};
use noise_tests::scratch::Folder;
use noise_tests::task::cpus;
use noise_tests::tiers::PROGRAM;

use crate::lifecycle::ensure_refused;
use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_slow_tier_is_named", a_slow_tier_is_named),
    ("a_hog_is_named", a_hog_is_named),
    ("workers_on_one_cpu_are_found", workers_on_one_cpu_are_found),
    ("what_cannot_be_shown_is_said", what_cannot_be_shown_is_said),
];

const PYTHON: &str = "/usr/bin/python3";
/// How long requests are watched.
const NEXT: &str = "1s";
/// Longer than a program takes to start on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The part of its time that a tier spends on what is planted.
const MOSTLY: f64 = 0.8;
/// The CPU that a server shares with a hog, and how long it computes for a request, microseconds.
const CPU: &str = "1";
const US: &str = "2000";
/// The part of its time that it waits for that CPU: half, beside one hog of its weight.
const WAITS: f64 = 0.25;
/// The part of these waits that is charged to the hog, at least: others on this machine may have the CPU, too.
const CHARGED: f64 = 0.5;
/// The part of slices with long stretches without a CPU, of workers that share one and of one that does not.
const PINNED: f64 = 0.7;
const FREE: f64 = 0.2;
/// How far these stretches of the former vary, at least: their standard deviation, nanoseconds.
const VARIES_NS: f64 = 1e6;
/// How long a worker with a CPU of its own waits for it, per request, where others have it.
const HELD_UP_NS: u64 = 500_000;
const NO_SECOND_CPU: &str = "this takes two CPUs";

fn answer(port: u16) -> Result<Answer> {
    let answer = Answer::ask(port, NEXT)?;
    println!("{}", said(&answer));
    ensure!(answer.discarded == 0, "{INCONCLUSIVE}: {} events were lost", answer.discarded);
    Ok(answer)
}

fn a_slow_tier_is_named() -> Result<()> {
    needs(&[PYTHON])?;
    let log = Folder::new("tiers")?;
    let mut command = Command::new(PYTHON);
    // Requests for longer than it takes to attach and to watch; its helper sleeps 4 ms for each.
    command.args(["-c", PROGRAM, "3", "900"]).arg(log.path()).arg("0.004");
    let mut program = Process::start(command)?;
    let deadline = Instant::now() + TIMEOUT;
    let file = log.path().join("port");
    while !file.exists() {
        ensure!(Instant::now() < deadline, "it does not listen: {}", program.stderr()?);
        thread::sleep(Duration::from_millis(10));
    }
    let port = std::fs::read_to_string(&file)?.parse()?;
    let found = answer(port);
    let is_busy = program.ended()?.is_none();
    // It ends by itself, with all that it forked.
    ensure!(program.wait()?.success(), "the program failed: {}", program.stderr()?);
    let found = found?;
    ensure!(is_busy, "{INCONCLUSIVE}: the requests were over before they were watched");
    let first = found.first()?;
    ensure!(first.service == "tier-helper pipe", "{found:?}");
    // Without the time in which others on this host had its CPU.
    let slept = first.part("timer") / (1.0 - first.part("waiting_cpu"));
    ensure!(slept >= MOSTLY, "it slept {slept:.2} of its time: {found:?}");
    Ok(())
}

fn a_hog_is_named() -> Result<()> {
    ensure!(cpus() >= 2, Impossible(NO_SECOND_CPU.into()));
    let address = free_address()?;
    let port = address.port().to_string();
    let server = Worker::start("pool", &["served", CPU, &port, "1", US])?;
    let hog = Worker::start("named-burn", &[CPU, HOG])?;
    let clients = Clients::start(address, 1, u64::MAX);
    let found = answer(address.port());
    clients.stop()?;
    drop((server, hog));
    let found = found?;
    let first = found.first()?;
    ensure!(first.service == format!("served :{port}"), "{found:?}");
    let waited = first.part("waiting_cpu");
    ensure!(waited >= WAITS, "it waited {waited:.2} of its time for a CPU: {found:?}");
    let culprit = first.culprit("waiting_cpu").context("no culprit")?;
    let waited_ns = first.states_ns.get("waiting_cpu").copied().unwrap_or(0);
    let charged = culprit.ns as f64 / waited_ns.max(1) as f64;
    ensure!(culprit.comm == HOG && charged >= CHARGED, "{charged:.2}: {found:?}");
    Ok(())
}

fn workers_on_one_cpu_are_found() -> Result<()> {
    ensure!(cpus() >= 2, Impossible(NO_SECOND_CPU.into()));
    let found = pinned::findings(None)?;
    println!("{}", pinned::render(&found));
    let part = |name: &str| {
        let group = found.groups.iter().find(|group| group.group == name);
        group.and_then(|group| group.probability).with_context(|| format!("no slice of {name}"))
    };
    let (pinned, free) = (part(pinned::PINNED)?, part(pinned::FREE)?);
    if free > FREE && found.free_wait_ns >= HELD_UP_NS {
        bail!(
            "{INCONCLUSIVE}: others had the free worker's CPU for {} ns a request",
            found.free_wait_ns
        );
    }
    ensure!(pinned >= PINNED && free <= FREE, "{pinned:.2} and {free:.2}");
    let idle = found.idle.iter().find(|idle| idle.process == pinned::PINNED);
    let deviation_ns = idle.map_or(0.0, |idle| idle.idle_variance.sqrt());
    ensure!(deviation_ns >= VARIES_NS, "they vary by {deviation_ns} ns");
    let first = found.why.first()?;
    let state = first.state();
    ensure!(state == "waiting_cpu", "{state}: {first:?}");
    let culprit = first.culprit(state).context("no culprit")?;
    ensure!(culprit.cause == "self", "the other workers are not named: {first:?}");
    Ok(())
}

fn what_cannot_be_shown_is_said() -> Result<()> {
    let ask = |port: u16| {
        run_noised(&["why", "--request", &port.to_string(), "--next", "200ms", "--json"])
    };
    let free = free_address()?;
    let outcome = ask(free.port())?;
    let sentence = format!("nothing listens on port {}", free.port());
    ensure_refused(&outcome, 2, &[&sentence, "ss -ltnu"])?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let outcome = ask(port)?;
    let sentence = format!("no request was answered on port {port}");
    ensure_refused(&outcome, 1, &[&sentence, "--next"])?;
    needs(&["setpriv"])?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(noise_tests::daemon::binary()?).args(["why", "--request", &port.to_string()]);
    ensure_refused(&run(command)?, 3, &["CAP_BPF"])?;
    Ok(())
}

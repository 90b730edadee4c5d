//! What the daemon may do, and what it has given up once it measures.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, SOCKET_PATH, STATE_DIRECTORY, free_address, run_noised,
};
use noise_tests::http::get;
use noise_tests::load::Worker;
use noise_tests::needed::needs;
use noise_tests::scratch::{Folder, argument};
use noise_tests::wait::wait_until;

use crate::Test;
use crate::attacks::{Target, ensure_confined, state_here};
use crate::lifecycle::PublicCopy;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("every_thread_has_dropped_everything", every_thread_has_dropped_everything),
    ("nothing_that_is_needed_is_forbidden", nothing_that_is_needed_is_forbidden),
    ("what_the_daemon_is_made_to_try_is_refused", what_the_daemon_is_made_to_try_is_refused),
    ("the_root_folder_is_refused", the_root_folder_is_refused),
    ("privileges_can_be_kept", privileges_can_be_kept),
    ("a_user_with_two_capabilities", a_user_with_two_capabilities),
];

/// A field of each thread's status, by the thread's name.
fn of_threads(pid: u32, field: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(entry?.path().join("status"))?;
        let of = |field: &str| -> Result<String> {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let value = line.and_then(|line| line.strip_prefix(':'));
            Ok(value.with_context(|| format!("no {field} in a status"))?.trim().to_owned())
        };
        found.push((of("Name")?, of(field)?));
    }
    Ok(found)
}

/// Longer than a measurement of a CPU is waited for.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The number of CAP_BPF.
const CAP_BPF: u32 = 39;

/// What is kept of the effective and permitted capabilities: before Linux 5.19 no process reads a map
/// without CAP_BPF where `kernel.unprivileged_bpf_disabled` is on.
fn kept() -> Result<u64> {
    let outcome = run_noised(&["check", "--json"])?;
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout)?;
    let reads =
        report["reads_maps_unprivileged"].as_bool().context("not in the report of noised check")?;
    Ok(if reads { 0 } else { 1 << CAP_BPF })
}

/// Waits until something is counted of each of these families.
fn await_all(daemon: &Daemon, families: &[&str]) -> Result<()> {
    for family in families {
        wait_until(family, TIMEOUT, || Ok(daemon.scrape()?.total(family) > 0.0))?;
    }
    Ok(())
}

fn ensure_dropped(pid: u32) -> Result<()> {
    let kept = kept()?;
    for (set, expected) in [("CapInh", 0), ("CapPrm", kept), ("CapEff", kept), ("CapAmb", 0)] {
        for (thread, value) in of_threads(pid, set)? {
            let held = u64::from_str_radix(&value, 16)?;
            ensure!(held == expected, "{thread} has {set} {value}");
        }
    }
    for (field, expected) in [("NoNewPrivs", "1"), ("Seccomp", "2")] {
        for (thread, value) in of_threads(pid, field)? {
            ensure!(value == expected, "{field} of {thread} is {value}");
        }
    }
    let threads = of_threads(pid, "CapEff")?;
    println!("{threads:?}");
    Ok(())
}

fn every_thread_has_dropped_everything() -> Result<()> {
    let state = Folder::new("state")?;
    let options = ["--osnoise.cpus", "0", STATE_DIRECTORY, state.argument()?];
    let daemon = Daemon::start_with(&options)?;
    let pid = daemon.process().pid();
    let are_all = || Ok(of_threads(pid, "CapEff")?.len() >= 3);
    wait_until("three threads: the workload of osnoise has two of its own", TIMEOUT, are_all)?;
    ensure_dropped(pid)?;
    let bounding = of_threads(pid, "CapBnd")?;
    ensure!(bounding.iter().all(|(_, set)| set.chars().all(|digit| digit == '0')), "{bounding:?}");
    // And it measures, which brings no thread that may do more.
    await_all(&daemon, &["noised_context_switches_total", "noised_osnoise_runtime_seconds_total"])?;
    ensure_dropped(pid)?;
    let (status, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {stderr}");
    Ok(())
}

/// Everything that the daemon does while it measures, at the level that logs refusals.
fn nothing_that_is_needed_is_forbidden() -> Result<()> {
    let state = Folder::new("state")?;
    let socket = state.path().join("noised.sock");
    let options = [
        "--log.level",
        "debug",
        STATE_DIRECTORY,
        state.argument()?,
        SOCKET_PATH,
        socket.to_str().context("a path that is no text")?,
        "--outliers.threshold-microseconds",
        "1000",
    ];
    let daemon = Daemon::start_with(&options)?;
    let _hogs = [
        Worker::start("burn", &["0"])?,
        Worker::start("burn", &["0"])?,
        Worker::start("tcp", &["0", "0", "100", "3000"])?,
    ];
    thread::sleep(Duration::from_secs(4));
    for path in ["/", "/metrics", "/api/v1/frame", "/api/v1/incidents", "/api/v1/outliers"] {
        let answer = get(daemon.address, path, &[("Accept-Encoding", "gzip")])?;
        ensure!(answer.status == 200, "{path} answers {}", answer.status);
    }
    let top = run_noised(&[
        "top",
        "--once",
        "--connect",
        socket.to_str().context("a path that is no text")?,
    ])?;
    ensure!(top.code == 0, "noised top: {}", top.stderr);
    let (status, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {stderr}");
    for refusal in ["os error 1)", "os error 13)", "not permitted", "denied"] {
        ensure!(!stderr.contains(refusal), "something is forbidden: {stderr}");
    }
    ensure!(!socket.exists(), "the socket is left behind");
    ensure!(state.path().join("incidents.json").exists(), "no state was written");
    Ok(())
}

/// A daemon that root started, with everything that it may keep.
fn what_the_daemon_is_made_to_try_is_refused() -> Result<()> {
    let state = Folder::new("state")?;
    let socket = state.path().join("noised.sock");
    let options = [
        STATE_DIRECTORY,
        state.argument()?,
        SOCKET_PATH,
        argument(&socket)?,
        "--osnoise.cpus",
        "0",
    ];
    let daemon = Daemon::start_with(&options)?;
    let impossible = ensure_confined(&Target {
        pid: daemon.process().pid(),
        address: daemon.address,
        state: state_here(state.path())?,
    })?;
    let (status, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {stderr}");
    impossible.map_or(Ok(()), |impossible| Err(impossible.into()))
}

/// What stays writable stays so with everything below it, so that must not be everything.
fn the_root_folder_is_refused() -> Result<()> {
    let folder = Folder::new("link")?;
    let link = folder.path().join("root");
    std::os::unix::fs::symlink("/", &link)?;
    for (option, value) in [
        (SOCKET_PATH, "/noised-test.sock".to_owned()),
        (SOCKET_PATH, format!("{}/noised-test.sock", link.display())),
        (STATE_DIRECTORY, "/".to_owned()),
        (STATE_DIRECTORY, "/proc/..".to_owned()),
    ] {
        let outcome = run_noised(&["run", option, &value])?;
        let key = option.trim_start_matches("--");
        let sentence = format!("{key}: {value} ");
        ensure!(outcome.code == 2, "{option} {value}: {outcome:?}");
        ensure!(outcome.stderr.contains(&sentence), "{option} {value}: {}", outcome.stderr);
        ensure!(outcome.stderr.lines().count() == 1, "{option} {value}: {}", outcome.stderr);
    }
    Ok(())
}

fn privileges_can_be_kept() -> Result<()> {
    let daemon = Daemon::start_with(&["--privileges.drop", "false"])?;
    let effective = of_threads(daemon.process().pid(), "CapEff")?;
    ensure!(
        effective.iter().all(|(_, set)| set.chars().any(|digit| digit != '0')),
        "{effective:?}"
    );
    Ok(())
}

/// An unprivileged user to whom the service manager gives just what loading needs.
fn a_user_with_two_capabilities() -> Result<()> {
    needs(&["setpriv"])?;
    let copy = PublicCopy::new()?;
    let address = free_address()?;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon"])
        .args(["--bounding-set=-all,+bpf,+perfmon"])
        .arg(copy.path())
        .args(["run", "--web.listen-address", &address.to_string()])
        .args([STATE_DIRECTORY, "", SOCKET_PATH, ""])
        .args(FIXED_RECORDER)
        .current_dir("/");
    let daemon = Daemon::start_command(command, address)?;
    ensure_dropped(daemon.process().pid())?;
    let _load = Worker::start("tcp", &["0", "0", "100", "3000"])?;
    await_all(
        &daemon,
        &[
            "noised_context_switches_total",
            "noised_runqueue_wait_seconds_count",
            "noised_softirq_seconds_count",
            "noised_net_rx_wait_seconds_count",
            "noised_interference_seconds_total",
        ],
    )?;
    let (status, stderr) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {stderr}");
    Ok(())
}

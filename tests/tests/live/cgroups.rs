//! Cgroups in numbers: what the daemon exports of them is bounded, and so is its memory. And where they
//! are: hosts with two hierarchies may begin to use either at any time.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, Outcome, SOCKET_PATH, STATE_DIRECTORY, binary, free_address, run,
    run_noised,
};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::prom::{Scrape, label_set};
use noise_tests::recall::Recall;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("mounts_that_are_no_text_or_missing", mounts_that_are_no_text_or_missing),
    ("ten_thousand_short_lives", ten_thousand_short_lives),
    ("a_hierarchy_that_is_used_late", a_hierarchy_that_is_used_late),
];

/// Cgroups that live so long that the daemon learns their names, and all of them.
const LASTING: usize = 400;
const ALL: usize = 10_000;
/// Short lives between two scrapes, and how many there are at a time: each waits most of its time until the kernel has
/// moved it.
const BETWEEN_SCRAPES: usize = 960;
const STARTERS: usize = 4;
/// How often each of those runs, at most, until there are more than have counters of their own. One
/// that is never seen in a queue, or only before its name is known, counts for no cgroup.
const ROUNDS: usize = 30;
/// Metrics of which there are too many then. Whether short processes preempt each other is not up to
/// the test.
const FOLDED: [&str; 2] =
    ["noised_cgroup_runqueue_wait_seconds", "noised_interference_seconds_total"];
/// What the daemon may grow by: its bounded memories of names, subjects and pairs, filled. What an incident keeps is not a
/// part of it.
const GROWTH_BYTES: u64 = 6 << 20;
/// More series than the daemon shows by default: 50 cgroups, 200 pairs and 100 pairs, each
/// with the rest, which is shown by resource and cause.
const SERIES: [(&str, usize); 3] = [
    ("noised_cgroup_runqueue_wait_seconds_count", 51),
    ("noised_interference_seconds_total", 200 + 60),
    ("noised_preemptions_total", 100 + 10),
];

/// Has a command see other mounts than this process: a tmpfs at `extra`, and none of those at `hidden`.
fn with_mounts(command: &mut Command, extra: CString, hidden: Vec<CString>) {
    let checked = |result: i32| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let mount = move || {
        let none = std::ptr::null();
        // SAFETY: unshare, mount and umount2 are async-signal-safe, and the paths outlive the calls.
        unsafe {
            checked(libc::unshare(libc::CLONE_NEWNS))?;
            let flags = libc::MS_REC | libc::MS_PRIVATE;
            checked(libc::mount(none, c"/".as_ptr(), none, flags, none.cast()))?;
            let kind = c"tmpfs".as_ptr();
            checked(libc::mount(kind, extra.as_ptr(), kind, 0, none.cast()))?;
            for path in &hidden {
                checked(libc::umount2(path.as_ptr(), libc::MNT_DETACH))?;
            }
        }
        Ok(())
    };
    // SAFETY: nothing but system calls between fork and exec.
    unsafe { command.pre_exec(mount) };
}

/// What `noised check` says of cgroups, and what a daemon counts, where the mounts are these.
fn seen_with(extra: &CString, hidden: &[CString]) -> Result<(Outcome, Scrape, String)> {
    let mut command = Command::new(binary()?);
    command.args(["check", "--json"]);
    with_mounts(&mut command, extra.clone(), hidden.to_vec());
    let checked = run(command)?;
    let address = free_address()?;
    let mut command = Command::new(binary()?);
    command.args(["run", "--web.listen-address", &address.to_string()]);
    command.args([STATE_DIRECTORY, "", SOCKET_PATH, ""]).args(FIXED_RECORDER);
    with_mounts(&mut command, extra.clone(), hidden.to_vec());
    let daemon = Daemon::start_command(command, address)?;
    let _hogs = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
    thread::sleep(Duration::from_secs(2));
    let scrape = daemon.scrape()?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {log}");
    Ok((checked, scrape, log))
}

/// A mount point of a user that is not UTF-8 hides no cgroup; where there is no hierarchy at all, that is
/// reported in every place where an operator may look.
fn mounts_that_are_no_text_or_missing() -> Result<()> {
    const TROUBLE: &str = "no cgroup hierarchy was found for tasks";
    ensure!(Group::is_possible(Hierarchy::Cpu)?, Impossible("this host has no cgroups".into()));
    let folder = Folder::new("mounts")?;
    let extra = folder.path().join(OsStr::from_bytes(b"a\xffb"));
    fs::create_dir(&extra)?;
    let extra = CString::new(extra.into_os_string().into_vec())?;
    let found = |scrape: &Scrape| {
        scrape.value("noised_cgroup_hierarchy_found", &label_set(&[("kind", "tasks")]))
    };
    let named = |scrape: &Scrape| {
        let victims = scrape.series("noised_interference_seconds_total").into_keys();
        victims
            .filter(|labels| labels.get("victim").is_some_and(|name| !name.starts_with('~')))
            .count()
    };

    let (checked, scrape, log) = seen_with(&extra, &[])?;
    println!("{} pairs whose victim has a name", named(&scrape));
    ensure!(named(&scrape) > 0, "no cgroup has a name");
    let document: Value = serde_json::from_str(&checked.stdout)?;
    let missing = document["missing_cgroup_hierarchies"].as_array().context("no such field")?;
    ensure!(missing.is_empty() && document["cgroup"] != "none", "{}", document["cgroup"]);
    ensure!(found(&scrape) == Some(1.0), "{:?}", found(&scrape));
    ensure!(!log.contains(TROUBLE), "{log}");

    // The inner ones first.
    let mounts = fs::read("/proc/self/mounts")?;
    let lines = mounts.split(|byte| *byte == b'\n').rev();
    let fields = lines.map(|line| line.split(|byte| *byte == b' ').collect::<Vec<_>>());
    let hidden = fields.filter_map(|fields| match fields.as_slice() {
        [_, point, b"cgroup" | b"cgroup2", ..] => CString::new(*point).ok(),
        _ => None,
    });
    let (checked, scrape, log) = seen_with(&extra, &hidden.collect::<Vec<_>>())?;
    let document: Value = serde_json::from_str(&checked.stdout)?;
    ensure!(
        document["missing_cgroup_hierarchies"][0] == "tasks" && document["cgroup"] == "none",
        "check says {} and {}",
        document["missing_cgroup_hierarchies"],
        document["cgroup"]
    );
    ensure!(found(&scrape) == Some(0.0) && named(&scrape) == 0, "names without a hierarchy");
    ensure!(log.contains(TROUBLE), "{log}");
    Ok(())
}

fn ten_thousand_short_lives() -> Result<()> {
    ensure!(Group::is_possible(Hierarchy::Cpu)?, Impossible("this host has no cgroups".into()));
    let top = Group::new("churn", &[Hierarchy::Cpu])?;
    let daemon = Daemon::start()?;
    thread::sleep(Duration::from_secs(3));
    let before = daemon.resident_bytes()?;
    let short = || {
        let mut command = Command::new("true");
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command
    };
    let mut lasting = Vec::with_capacity(LASTING);
    for number in 0..LASTING {
        lasting.push(top.inner(&format!("lasting-{number}"))?);
    }
    let mut recall = Recall::default();
    let mut rounds = 0;
    let mut missing = FOLDED.to_vec();
    while !missing.is_empty() && rounds < ROUNDS {
        rounds += 1;
        for group in &lasting {
            ensure!(group.run(short())?.success(), "the process in a cgroup failed");
        }
        // The names of those that are new are known now, or in the next round.
        thread::sleep(Duration::from_secs(1));
        let scrape = daemon.scrape_with_begins()?;
        recall.ensure_rising(&scrape)?;
        missing.retain(|metric| {
            let count =
                scrape.value("noised_series_folded_total", &label_set(&[("metric", metric)]));
            count.is_none_or(|count| count == 0.0)
        });
    }
    println!("{LASTING} cgroups that last are too many after {rounds} rounds");
    ensure!(missing.is_empty(), "{missing:?}: more than room, not folded");
    drop(lasting);
    let mut most = before;
    let live = |number: usize| -> Result<()> {
        let group = top.inner(&format!("short-{number}"))?;
        ensure!(group.run(short())?.success(), "the process in a cgroup failed");
        Ok(())
    };
    for first in (LASTING..ALL).step_by(BETWEEN_SCRAPES) {
        let numbers = first..ALL.min(first + BETWEEN_SCRAPES);
        thread::scope(|scope| {
            let starter = |start: usize| numbers.clone().skip(start).step_by(STARTERS);
            let starters = (0..STARTERS)
                .map(|start| scope.spawn(move || starter(start).try_for_each(live)))
                .collect::<Vec<_>>();
            starters
                .into_iter()
                .try_for_each(|one| one.join().unwrap_or_else(|_| bail!("a thread failed")))
        })?;
        recall.ensure_rising(&daemon.scrape_with_begins()?)?;
        most = most.max(daemon.resident_bytes()?);
    }
    let scrape = daemon.scrape_with_begins()?;
    recall.ensure_rising(&scrape)?;
    for (name, bound) in SERIES {
        let count = scrape.series(name).len();
        println!("{count} series of {name}");
        ensure!((1..=bound).contains(&count), "{count} series of {name}");
    }
    println!("folded: {:?}", scrape.series("noised_series_folded_total"));
    let after = daemon.resident_bytes()?;
    most = most.max(after);
    println!(
        "resident: {} KiB before, {} KiB after, {} KiB at most",
        before >> 10,
        after >> 10,
        most >> 10
    );
    let incidents = scrape.total("noised_incidents_total");
    ensure!(
        most <= before + GROWTH_BYTES || incidents == 0.0,
        "the recording is inconclusive: the daemon grew from {before} to {most} bytes, but has {incidents} incidents"
    );
    ensure!(most <= before + GROWTH_BYTES, "the daemon grew from {before} to {most} bytes");
    Ok(())
}

/// How long a new cgroup may stay without a name.
const NAMED_WITHIN: Duration = Duration::from_secs(20);

/// Waits for a CPU of a cgroup so far.
fn waits(daemon: &Daemon, group: &Group) -> Result<f64> {
    let labels = label_set(&[("cgroup", &group.label())]);
    let scrape = daemon.scrape()?;
    Ok(scrape.value("noised_cgroup_runqueue_wait_seconds_count", &labels).unwrap_or(0.0))
}

/// Waits until a cgroup has waited more often than that for a CPU.
fn await_waits(daemon: &Daemon, group: &Group, more_than: f64) -> Result<f64> {
    let deadline = Instant::now() + NAMED_WITHIN;
    loop {
        let count = waits(daemon, group)?;
        if count > more_than {
            return Ok(count);
        }
        ensure!(
            Instant::now() < deadline,
            "{} waited {count} times by the daemon's account, which should be more than {more_than}",
            group.label()
        );
        thread::sleep(Duration::from_millis(200));
    }
}

/// Waits until one cgroup is charged with what another one waited.
fn await_charge(daemon: &Daemon, victim: &Group, culprit: &Group) -> Result<()> {
    let (victim, culprit) = (victim.label(), culprit.label());
    let parties = [("victim", victim.as_str()), ("culprit", &culprit), ("cause", "foreign")];
    let labels = label_set(&[&parties[..], &[("resource", "cpu")]].concat());
    let deadline = Instant::now() + NAMED_WITHIN;
    while daemon.scrape()?.value("noised_interference_seconds_total", &labels).is_none() {
        ensure!(Instant::now() < deadline, "{culprit} is not charged with waits of {victim}");
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Tasks are in cgroups of version 1 when the daemon starts; the first of version 2 comes later and
/// goes again. Each task is known by its cgroup all the time.
fn a_hierarchy_that_is_used_late() -> Result<()> {
    ensure!(
        Group::are_apart(Hierarchy::Cpu, Hierarchy::Sockets)?,
        Impossible("this host has one hierarchy for tasks".into())
    );
    let early = Group::new("early", &[Hierarchy::Cpu])?;
    let daemon = Daemon::start_unfolded()?;
    let burner = Worker::start_at(Place::group(&early), "burn", &["0"])?;
    let rival = Worker::start("burn", &["0"])?;
    let before = await_waits(&daemon, &early, 0.0)?;

    let late = Group::new("late", &[Hierarchy::Sockets])?;
    let latecomer = Worker::start_at(Place::group(&late), "burn", &["0"])?;
    let begin = Instant::now();
    await_waits(&daemon, &late, 0.0)?;
    println!("named {:.1} s after its first task", begin.elapsed().as_secs_f64());
    await_charge(&daemon, &late, &early)?;
    await_charge(&daemon, &early, &late)?;
    let during = await_waits(&daemon, &early, before)?;

    latecomer.stop()?;
    let last = waits(&daemon, &late)?;
    drop(late);
    let after = await_waits(&daemon, &early, during)?;
    println!("waits of the early one: {before} before, {during} during, {after} after");
    ensure!(last > 0.0, "what the late one waited is forgotten");
    daemon.stop(libc::SIGTERM).context("stopping the daemon")?;

    // The other way round: version 2 is in use at the start, and these tasks are not in it.
    let _other = Group::new("other", &[Hierarchy::Sockets])?;
    let daemon = Daemon::start()?;
    await_waits(&daemon, &early, 0.0)?;
    burner.stop()?;
    rival.stop()?;
    let checked = run_noised(&["check", "--json"])?;
    let report: Value = serde_json::from_str(&checked.stdout)?;
    let versions: Option<Vec<u64>> = report["cgroup_hierarchies"]["tasks"]
        .as_array()
        .map(|all| all.iter().filter_map(|one| one["version"].as_u64()).collect());
    ensure!(versions == Some(vec![2, 1]), "noised check: {}", report["cgroup_hierarchies"]);
    Ok(())
}

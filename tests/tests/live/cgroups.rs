//! Cgroups in numbers: what the daemon tells of them is bounded, and so is its memory.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::prom::label_set;
use noise_tests::recall::Recall;

use crate::{Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] = &[("ten_thousand_short_lives", ten_thousand_short_lives)];

/// Cgroups that live so long that the daemon learns their names, and all of them.
const LASTING: usize = 400;
const ALL: usize = 10_000;
/// How often each of those runs, at most, until there are more than have counters of their own. One
/// that is never seen in a queue, or only before its name is known, counts for nobody.
const ROUNDS: usize = 30;
/// Metrics of which there are too many then. Whether short processes preempt each other is not up to
/// the test.
const FOLDED: [&str; 2] =
    ["noised_cgroup_runqueue_wait_seconds", "noised_interference_seconds_total"];
/// What the daemon may grow by: its bounded memories of names, subjects and pairs, filled.
const GROWTH_BYTES: u64 = 6 << 20;
/// More series than the daemon shows unless told otherwise: 50 cgroups, 200 pairs and 100 pairs, each
/// with the rest, which is told by resource and cause.
const SERIES: [(&str, usize); 3] = [
    ("noised_cgroup_runqueue_wait_seconds_count", 51),
    ("noised_interference_seconds_total", 200 + 60),
    ("noised_preemptions_total", 100 + 10),
];

fn ten_thousand_short_lives() -> Result<Verdict> {
    if !Group::is_possible(Hierarchy::Cpu)? {
        return Ok(Verdict::Impossible("this host has no cgroups".to_owned()));
    }
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
        let scrape = daemon.scrape()?;
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
    for number in LASTING..ALL {
        let group = top.inner(&format!("short-{number}"))?;
        ensure!(group.run(short())?.success(), "the process in a cgroup failed");
        if number.is_multiple_of(1_000) {
            recall.ensure_rising(&daemon.scrape()?)?;
            most = most.max(daemon.resident_bytes()?);
        }
    }
    let scrape = daemon.scrape()?;
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
    ensure!(most <= before + GROWTH_BYTES, "the daemon grew from {before} to {most} bytes");
    Ok(Verdict::Passed)
}

//! Memory that tasks have to get for themselves.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::cgroup::MemoryLimit;
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::Daemon;
use noise_tests::ftrace::MEMORY_EVENTS;
use noise_tests::load::{Worker, figure};
use noise_tests::pairing::memory::{compaction, direct_reclaim};
use noise_tests::task::kernel_threads;

use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("reclaim_at_a_cgroups_limit", reclaim_at_a_cgroups_limit),
    ("compaction_of_all", compaction_of_all),
];

/// Compares both signals with the referee's.
fn agree(seen: &Observation, provoked: &str) -> Result<()> {
    let mut table = seen.table();
    let events = &seen.trace.events;
    table.histogram("noised_direct_reclaim_seconds", &[], &direct_reclaim(events))?;
    let by_tasks = compaction(events, &kernel_threads()?);
    table.histogram("noised_compaction_seconds", &[], &by_tasks)?;
    table.ensure_present(&[provoked])?;
    table.verdict()
}

fn reclaim_at_a_cgroups_limit() -> Result<()> {
    let limit = MemoryLimit::new(24 << 20)?
        .ok_or_else(|| Impossible("no cgroup has a memory limit here".into()))?;
    let directory = env::temp_dir();
    let directory = directory.to_str().context("a path that is not UTF-8")?;
    let daemon = Daemon::start()?;
    let (seen, passes) = observe(&daemon, MEMORY_EVENTS, 16, || {
        let writer = Worker::start("new-pages", &["0", directory, "64"])?;
        limit.adopt(writer.pid())?;
        thread::sleep(Duration::from_secs(3));
        figure(&writer.stop()?, "passes")
    })?;
    ensure!(passes > 0, "nothing was written");
    agree(&seen, "noised_direct_reclaim_seconds")?;
    Ok(())
}

fn compaction_of_all() -> Result<()> {
    let trigger = Path::new("/proc/sys/vm/compact_memory");
    ensure!(trigger.exists(), Impossible("this kernel does not compact memory".into()));
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, MEMORY_EVENTS, 16, || {
        // A request, not a setting: the writer compacts every zone before it returns.
        let mut trigger = OpenOptions::new().write(true).open(trigger)?;
        trigger.write_all(b"1").context("asking for compaction")
    })?;
    agree(&seen, "noised_compaction_seconds")?;
    Ok(())
}

//! The daemon under conditions that nobody wants.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use noise_tests::bpf;
use noise_tests::compare::{all_signals, observe};
use noise_tests::daemon::Daemon;
use noise_tests::disk::{LoopDevice, ScratchFile};
use noise_tests::ftrace::all_events;
use noise_tests::load::{Worker, figure};
use noise_tests::prom::label_set;

use crate::{Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("stopped_daemon_loses_nothing", stopped_daemon_loses_nothing), ("killed", killed)];

fn stopped_daemon_loses_nothing() -> Result<Verdict> {
    let backing = ScratchFile::new("stop", 32)?;
    let device = LoopDevice::attach(&backing)?;
    let daemon = Daemon::start()?;
    let (seen, reads) = observe(&daemon, &all_events(), 384, || {
        daemon.process().signal(libc::SIGSTOP)?;
        let workers = [
            Worker::start("pipe", &["0", "0", "2000"])?,
            Worker::start("tcp", &["0", "0", "100", "3000"])?,
            Worker::start("timer", &["0", "500"])?,
            Worker::start("burn", &["0"])?,
        ];
        let reader = Worker::start("direct-reads", &["0", &device.path(), "4096", "200", "0"])?;
        // Twenty windows of the default length.
        thread::sleep(Duration::from_secs(10));
        for worker in workers {
            worker.stop()?;
        }
        let reads = figure(&reader.stop()?, "reads")?;
        daemon.process().signal(libc::SIGCONT)?;
        Ok(reads)
    })?;
    let labels = label_set(&[("device", &device.name), ("operation", "read")]);
    let found = seen.histograms("noised_block_device_wait_seconds")?;
    let found = found.get(&labels).map_or(0.0, |histogram| histogram.count);
    let reads = reads - seen.hidden_completions(&device.name);
    println!("{reads} reads that BPF was offered while the daemon was stopped, noised has {found}");
    let mut table = seen.table();
    all_signals(&mut table)?;
    table.verdict()?;
    ensure!(found == reads as f64, "{reads} reads, noised has {found}");
    Ok(Verdict::Passed)
}

fn killed() -> Result<Verdict> {
    let daemon = Daemon::start()?;
    let programs = bpf::programs_of(daemon.process().pid())?;
    ensure!(!programs.is_empty(), "the daemon holds no BPF program");
    let (status, _) = daemon.stop(libc::SIGKILL)?;
    ensure!(!status.success(), "a killed process ended with {status}");
    bpf::wait_until_gone(programs.into_keys())?;
    // A successor is not hindered by anything that is left.
    let successor = Daemon::start()?;
    ensure!(successor.scrape()?.total("noised_context_switches_total") > 0.0, "nothing counted");
    Ok(Verdict::Passed)
}

//! Fault injection: each fault is provoked for real, and each test says what was
//! lost by the daemon's own account (nothing, or counted) and what it cost.
//!
//! Sizes fit a test that everybody runs. `NOISED_FAULTS` names what is more than that, separated by
//! commas: `large` for crowds of the size that large hosts have, `clock` and `hotplug` for faults that
//! the whole machine feels.

pub(crate) mod clients;
pub(crate) mod clock;
pub(crate) mod crowds;
pub(crate) mod devices;
pub(crate) mod files;
pub(crate) mod maps;
pub(crate) mod starts;
pub(crate) mod storage;
pub(crate) mod threads;

use std::env;
use std::fs;
use std::path::PathBuf;

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::compare::{all_signals, observe};
use noise_tests::daemon::Daemon;
use noise_tests::disk::{LoopDevice, ScratchFile, device_name};
use noise_tests::ftrace::all_events;
use noise_tests::load::{Worker, figure};
use noise_tests::pairing::block::block_waits;
use noise_tests::prom::Scrape;
use noise_tests::task::cpus;
use noise_tests::toll::{Bill, Toll};

use crate::block::ensure_reads;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("stopped_daemon_loses_nothing", stopped_daemon_loses_nothing), ("killed", killed)];

/// Whether the caller asked for a kind of faults that is not for everybody.
fn asked_for(kind: &str) -> bool {
    env::var("NOISED_FAULTS").is_ok_and(|kinds| kinds.split(',').any(|named| named == kind))
}

/// A setting of the kernel, as it was when dropped.
#[derive(Debug)]
struct Setting {
    path: PathBuf,
    before: String,
}

impl Setting {
    /// Makes a number at least that large; `None` where it is already.
    fn raise(path: &str, least: u64) -> Result<Option<Self>> {
        let before = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
        if before.trim().parse::<u64>()? >= least {
            return Ok(None);
        }
        Self::write(path, &least.to_string()).map(Some)
    }

    fn write(path: &str, value: &str) -> Result<Self> {
        let before = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
        fs::write(path, value).with_context(|| format!("writing {value} to {path}"))?;
        Ok(Self { path: path.into(), before: before.trim().to_owned() })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // A drop reports no error.
        let _ = fs::write(&self.path, &self.before);
    }
}

/// Requires that the daemon counted at least the switches of a pipe, whatever else happened to it: its two
/// ends share a CPU, so each has to leave it before the other can go on.
fn ensure_switches(toll: &Toll, bill: &Bill, rounds: u64) -> Result<()> {
    let switches = |scrape: &Scrape| scrape.total("noised_context_switches_total");
    let counted = switches(&bill.scrape) - switches(&toll.scrape);
    println!("{rounds} rounds of a pipe, {counted} switches counted");
    ensure!(rounds > 0 && counted >= 2.0 * rounds as f64, "switches are missing");
    Ok(())
}

fn stopped_daemon_loses_nothing() -> Result<()> {
    let backing = ScratchFile::new("stop", 32)?;
    let device = LoopDevice::attach(&backing)?;
    let daemon = Daemon::start()?;
    let toll = Toll::begin(&daemon)?;
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
    let bill = toll.end(&daemon)?;
    let delayed = bill.dropped("ring_full_delayed");
    println!("{delayed} windows found the ring full");
    // It is the larger, the more CPUs a host has.
    ensure!(delayed > 0.0, "{INCONCLUSIVE}: the ring of {} CPUs was not full", cpus());
    let mut table = seen.table();
    all_signals(&mut table)?;
    table.verdict()?;
    ensure_reads(&seen, &block_waits(&seen.trace.events, device_name), &device.name, reads)?;
    Ok(())
}

fn killed() -> Result<()> {
    let daemon = Daemon::start()?;
    let programs = bpf::programs_of(daemon.process().pid())?;
    ensure!(!programs.is_empty(), "the daemon holds no BPF program");
    let (status, _) = daemon.stop(libc::SIGKILL)?;
    ensure!(!status.success(), "a killed process ended with {status}");
    bpf::wait_until_gone(programs.into_keys())?;
    // A successor is not hindered by anything that is left.
    let successor = Daemon::start()?;
    ensure!(successor.scrape()?.total("noised_context_switches_total") > 0.0, "nothing counted");
    Ok(())
}

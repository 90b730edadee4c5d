//! Devices and CPUs that come and go under load.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::disk::{LoopDevice, ScratchFile, device_name};
use noise_tests::ftrace::{BLOCK_EVENTS, Recording};
use noise_tests::load::{Worker, figure};
use noise_tests::pairing::Labels;
use noise_tests::pairing::block::block_waits;
use noise_tests::prom::label_set;
use noise_tests::recall::Recall;
use noise_tests::toll::Toll;

use super::{Setting, asked_for};
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("devices_come_and_go", devices_come_and_go), ("a_cpu_goes_and_comes", a_cpu_goes_and_comes)];

const GROWTH_BYTES: u64 = 16 << 20;

fn devices_come_and_go() -> Result<()> {
    const ROUNDS: usize = 4;
    let daemon = Daemon::start()?;
    let toll = Toll::begin(&daemon)?;
    let churn = Worker::start("device-churn", &["100"])?;
    let mut counts = [0.0, 0.0];
    let (mut hidden, mut recorded) = (0, 0);
    for round in 0..ROUNDS {
        let backing = ScratchFile::new(&format!("round-{round}"), 8)?;
        let device = LoopDevice::attach(&backing)?;
        let labels = label_set(&[("device", &device.name), ("operation", "read")]);
        let count = || -> Result<f64> {
            let found = daemon.scrape()?.histograms("noised_block_device_wait_seconds")?;
            Ok(found.get(&labels).map_or(0.0, |waits| waits.count))
        };
        // Before the first count: others may look into a new device.
        let recording = Recording::start(BLOCK_EVENTS, 8)?;
        let before = count()?;
        let reader = Worker::start("direct-reads", &["0", &device.path(), "4096", "200", "0"])?;
        thread::sleep(Duration::from_millis(400));
        counts[0] += figure(&reader.stop()?, "reads")? as f64;
        counts[1] += count()? - before;
        let trace = recording.stop()?;
        hidden += trace.hidden_completions(&device.name);
        let waits = block_waits(&trace.events, device_name).device;
        let is_read = |of: &Labels| *of.0 == *device.name && &*of.1 == "read";
        recorded += waits.samples.iter().filter(|sample| is_read(&sample.labels)).count();
    }
    let churned = churn.stop()?;
    let bill = toll.end(&daemon)?;
    let [reads, counted] = counts;
    let lost = bill.dropped("recursion") + bill.dropped("no_start") + hidden as f64;
    println!(
        "{} disks in memory, {} pairs of interfaces, {ROUNDS} loop devices; {reads} reads, \
         {counted} counted, {recorded} by ftrace, {hidden} hidden from BPF",
        figure(&churned, "disks")?,
        figure(&churned, "pairs")?
    );
    ensure!(counted + lost >= reads, "reads are missing");
    let most = reads.max(recorded as f64);
    ensure!(counted <= most, "{counted} reads are counted, at most {most} were made");
    bill.ensure_bounded(GROWTH_BYTES)?;
    Ok(())
}

/// Seconds by which a CPU was interrupted so far.
fn interrupted(scrape: &noise_tests::prom::Scrape, cpu: &str) -> f64 {
    let series = scrape.series("noised_cpu_interrupted_seconds_total").into_iter();
    let of_cpu = series.filter(|(labels, _)| labels.get("cpu").is_some_and(|found| found == cpu));
    of_cpu.map(|(_, seconds)| seconds).sum()
}

fn a_cpu_goes_and_comes() -> Result<()> {
    let path = "/sys/devices/system/cpu/cpu1/online";
    ensure!(
        Path::new(path).exists(),
        Impossible("this machine has no CPU that can be taken away".into())
    );
    let reason = "takes a CPU away from the whole machine; NOISED_FAULTS=hotplug allows it";
    ensure!(asked_for("hotplug"), Impossible(reason.into()));
    ensure!(fs::read_to_string(path)?.trim() == "1", Impossible("CPU 1 is off already".into()));
    let daemon = Daemon::start()?;
    // Before the load: it may have to record, and work of the kernel for that can wait minutes for a
    // loaded CPU.
    let toll = Toll::begin(&daemon)?;
    let workers = [Worker::start("timer", &["0", "500"])?, Worker::start("burn", &["any"])?];
    let sleepers = Worker::start("sleepers", &["50", "5"])?;
    let (mut last, mut recall) = (daemon.scrape_with_begins()?, Recall::default());
    recall.ensure_rising(&last)?;
    for round in 0..3 {
        let off = Setting::write(path, "0").map_err(|error| Impossible(format!("{error:#}")))?;
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(400));
            last = daemon.scrape_with_begins()?;
            let rising = recall.ensure_rising(&last);
            rising.with_context(|| format!("round {round}, while off"))?;
        }
        drop(off);
        ensure!(fs::read_to_string(path)?.trim() == "1", "CPU 1 does not come back");
        thread::sleep(Duration::from_millis(600));
        let scrape = daemon.scrape_with_begins()?;
        let rising = recall.ensure_rising(&scrape);
        rising.with_context(|| format!("round {round}, on again"))?;
        let by = interrupted(&scrape, "1") - interrupted(&last, "1");
        ensure!(by > 0.0, "nothing is counted on the CPU that came back");
        last = scrape;
    }
    for worker in workers.into_iter().chain([sleepers]) {
        worker.stop()?;
    }
    let bill = toll.end(&daemon)?;
    ensure!(bill.dropped("clock_backwards") == 0.0, "times ran backwards");
    bill.ensure_bounded(GROWTH_BYTES)?;
    Ok(())
}

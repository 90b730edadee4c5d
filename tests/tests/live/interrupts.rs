//! Interrupts inside interrupts: each is charged its own time and no other's.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::Daemon;
use noise_tests::disk::ScratchFile;
use noise_tests::ftrace::all_events;
use noise_tests::load::Worker;
use noise_tests::pairing::Paired;
use noise_tests::pairing::interrupts::interrupts;
use noise_tests::prom::Scrape;
use noise_tests::task::cpus;

use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("nested_time_is_charged_once", nested_time_is_charged_once),
    ("sources_are_the_sums_of_their_kinds", sources_are_the_sums_of_their_kinds),
];

fn nested_time_is_charged_once() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, &all_events(), 192, || {
        let file = ScratchFile::new("nested", 16)?;
        let last = (cpus() - 1).to_string();
        // Long softirqs (loopback) under frequent timers and disk interrupts, on every CPU.
        let workers = [
            Worker::start("udp-flood", &["0", "8000", "500"])?,
            Worker::start("udp-flood", &[&last, "8000", "500"])?,
            Worker::start("timer", &["0", "60"])?,
            Worker::start("timer", &[&last, "60"])?,
            Worker::start("direct-reads", &["0", file.argument()?, "4096", "0", "0"])?,
        ];
        thread::sleep(Duration::from_secs(3));
        for worker in workers {
            worker.stop()?;
        }
        Ok(())
    })?;
    let found = interrupts(&seen.trace.events);
    let nested = |paired: &Paired| {
        let samples = seen.certain(paired).filter(|sample| sample.nested_ns > 0);
        samples.fold((0, 0), |(count, sum), sample| (count + 1, sum + sample.nested_ns))
    };
    let (count, sum_ns) = nested(&found.softirq);
    println!("{count} softirqs were interrupted, for {sum_ns} ns");
    ensure!(count > 0, "{INCONCLUSIVE}: no softirq was interrupted");
    let mut table = seen.table();
    table.histogram("noised_hardirq_seconds", &["irq", "name"], &found.hardirq)?;
    table.histogram("noised_vector_seconds", &["vector"], &found.vector)?;
    table.histogram("noised_softirq_seconds", &["vector"], &found.softirq)?;
    table.verdict()?;
    charged_net(&seen, &found.softirq)?;
    Ok(())
}

/// The daemon's sum of softirq time lies nearer to the net sum than to the gross one, where the two
/// are far enough apart to tell.
fn charged_net(seen: &Observation, softirq: &Paired) -> Result<()> {
    let mut sums: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for sample in seen.certain(softirq) {
        let sums = sums.entry(&sample.labels.0).or_default();
        sums.0 += sample.value_ns;
        sums.1 += sample.nested_ns;
        sums.2 += 1;
    }
    for (labels, histogram) in seen.histograms("noised_softirq_seconds")? {
        let vector = labels.get("vector").map(String::as_str).unwrap_or_default();
        let Some(&(net_ns, nested_ns, count)) = sums.get(vector) else { continue };
        if (nested_ns as f64) < 4.0 * seen.resolution_ns * count as f64 {
            println!(
                "{vector}: {nested_ns} ns of nested time in {count} softirqs are too few to tell"
            );
            continue;
        }
        let found_ns = histogram.sum_seconds * 1e9;
        let middle_ns = net_ns as f64 + nested_ns as f64 / 2.0;
        println!("{vector}: net {net_ns} ns, nested {nested_ns} ns, noised {found_ns} ns");
        ensure!(found_ns < middle_ns, "{vector}: nested time is charged twice");
    }
    Ok(())
}

fn sources_are_the_sums_of_their_kinds() -> Result<()> {
    let daemon = Daemon::start()?;
    let file = ScratchFile::new("sources", 16)?;
    let workers = [
        Worker::start("tcp", &["0", "0", "100", "1000"])?,
        Worker::start("timer", &["0", "500"])?,
        Worker::start("direct-reads", &["0", file.argument()?, "4096", "100", "0"])?,
    ];
    thread::sleep(Duration::from_secs(1));
    let first = daemon.scrape()?;
    thread::sleep(Duration::from_secs(1));
    let last = daemon.scrape()?;
    for worker in workers {
        worker.stop()?;
    }
    let kinds = [
        ("hardirq", "noised_hardirq_seconds"),
        ("vector", "noised_vector_seconds"),
        ("softirq", "noised_softirq_seconds"),
        ("nmi", "noised_nmi_seconds"),
    ];
    for (source, metric) in kinds {
        let by_kind = |scrape: &Scrape| -> Result<f64> {
            Ok(scrape.histograms(metric)?.values().map(|histogram| histogram.sum_seconds).sum())
        };
        let by_cpu = |scrape: &Scrape| -> f64 {
            let series = scrape.series("noised_cpu_interrupted_seconds_total");
            let of_source = |labels: &noise_tests::prom::LabelSet| {
                labels.get("source").is_some_and(|found| found == source)
            };
            series.iter().filter(|(labels, _)| of_source(labels)).map(|(_, value)| value).sum()
        };
        println!("{source}: by cpu {} s, by kind {} s", by_cpu(&last), by_kind(&last)?);
        // Both grow, and one scrape may read one before the other: so each lies between the other's
        // two readings. The margin is that of adding up floating-point numbers.
        let margin = 1e-6;
        ensure!(
            by_cpu(&first) <= by_kind(&last)? + margin
                && by_kind(&first)? <= by_cpu(&last) + margin,
            "{source}: the CPUs and the kinds do not add up to the same time"
        );
        let grown = by_cpu(&last) > by_cpu(&first);
        ensure!(grown || source == "nmi" || source == "hardirq", "no {source} time under load");
    }
    Ok(())
}

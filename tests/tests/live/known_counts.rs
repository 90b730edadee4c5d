//! A known number of planted events, and what the kernel itself counts of them, against the daemon's
//! counts. Nothing here is about time, so that it holds on an emulated processor as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::disk::scheduler;
use noise_tests::ftrace::blind::hidden_threads;
use noise_tests::load::{Worker, figure};
use noise_tests::namespace::VethPair;
use noise_tests::prom::{Scrape, label_set};
use noise_tests::task::cpus;

use crate::differential::MixedLoad;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("reads_of_a_null_device", reads_of_a_null_device),
    ("reads_of_a_virtual_disk", reads_of_a_virtual_disk),
    ("reads_of_a_hidden_disk", reads_of_a_hidden_disk),
    ("packets_of_an_interface", packets_of_an_interface),
    ("switches_of_processes", switches_of_processes),
    ("softirqs_of_the_kernel", softirqs_of_the_kernel),
    ("interrupts_of_the_kernel", interrupts_of_the_kernel),
];

const QUEUE: &str = "noised_block_queue_wait_seconds";
const DEVICE: &str = "noised_block_device_wait_seconds";

fn reads_of_a_null_device() -> Result<()> {
    reads_of("nullb0", "nullb0")
}

/// Of the second disk: the first one may have a file system, which others read.
fn reads_of_a_virtual_disk() -> Result<()> {
    reads_of("vdb", "vdb")
}

/// Of a multipath disk, through its only path, to which the requests belong.
fn reads_of_a_hidden_disk() -> Result<()> {
    let mut names = fs::read_dir("/sys/block")?.flatten().map(|entry| entry.file_name());
    let hidden = names.find_map(|name| {
        let name = name.into_string().ok()?;
        let hidden = fs::read_to_string(format!("/sys/block/{name}/hidden")).ok()?;
        // `nvme0c1n2` is the path of `nvme0n2` through controller 1.
        let (subsystem, rest) = name.split_once('c').filter(|_| hidden.trim() == "1")?;
        let (_, namespace) = rest.split_once('n')?;
        Some((format!("{subsystem}n{namespace}"), name))
    });
    let Some((disk, path)) = hidden else {
        bail!(Impossible("no NVMe disk with paths is here".into()));
    };
    let counters = fs::read_to_string("/proc/diskstats")?;
    let is_path = |line: &&str| line.split_ascii_whitespace().nth(2) == Some(&path);
    let line = counters.lines().find(is_path).with_context(|| format!("{path} counts nothing"))?;
    ensure!(
        !line.trim_start().starts_with("0 "),
        Impossible("this kernel does not tell numbers of paths".into())
    );
    reads_of(&disk, &path)
}

/// Reads from a disk, whose requests belong to `device`.
fn reads_of(disk: &str, device: &str) -> Result<()> {
    const READS: u64 = 400;
    ensure!(
        Path::new("/sys/block").join(disk).exists(),
        Impossible(format!("there is no {disk} here"))
    );
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    if mounts.lines().any(|line| line.starts_with(&format!("/dev/{disk}"))) {
        bail!(Impossible(format!("{disk} is in use")));
    }
    let daemon = Daemon::start()?;
    let count = |metric: &str, scrape: &Scrape| -> Result<u64> {
        let labels = label_set(&[("device", device), ("operation", "read")]);
        Ok(scrape.histograms(metric)?.get(&labels).map_or(0, |found| found.count as u64))
    };
    let mut reader = Worker::start(
        "direct-reads",
        &["0", &format!("/dev/{disk}"), "4096", "0", &READS.to_string()],
    )?;
    ensure!(figure(&reader.figures()?, "reads")? == READS, "not all reads were made");
    let scrape = daemon.scrape()?;
    let scheduler = scheduler(device)?;
    let found = (count(QUEUE, &scrape)?, count(DEVICE, &scrape)?);
    println!("{READS} reads, scheduler {scheduler}: queue waits, device waits {found:?}");
    ensure!(found.1 == READS, "{READS} reads, noised has {} waits for {device}", found.1);
    // A scheduler may hand on what it need not keep.
    let most = if scheduler == "none" { 0 } else { READS };
    ensure!(found.0 <= most, "{} waits in the queue of {device}, at most {most} were", found.0);
    Ok(())
}

fn packets_of_an_interface() -> Result<()> {
    const PACKETS: u64 = 300;
    let daemon = Daemon::start()?;
    let pair = VethPair::new()?;
    let mut sender = Worker::start("broadcasts", &["0", &pair.near, "200", &PACKETS.to_string()])?;
    ensure!(figure(&sender.figures()?, "sent")? == PACKETS, "not all packets were sent");
    // The kernel announces the interface by packets of its own, for some seconds.
    let sent = || -> Result<u64> {
        let path = format!("/sys/class/net/{}/statistics/tx_packets", pair.near);
        fs::read_to_string(&path).context(path)?.trim().parse().context("not a number")
    };
    let before = sent()?;
    let scrape = daemon.scrape()?;
    let after = sent()?;
    let waits = scrape.histograms("noised_net_tx_wait_seconds")?;
    let found = waits.get(&label_set(&[("interface", &pair.near)])).map_or(0.0, |it| it.count);
    println!(
        "{PACKETS} packets of ours, the interface sent {before}..={after}, noised has {found}"
    );
    ensure!(before >= PACKETS, "the interface sent only {before}");
    ensure!(
        (before as f64..=after as f64).contains(&found),
        "the interface sent {before}..={after} packets, noised has {found}"
    );
    Ok(())
}

fn switches_of_processes() -> Result<()> {
    let daemon = Daemon::start()?;
    let before = kernel_switches()?;
    let first = daemon.scrape()?;
    let worker = Worker::start("pipe", &["0", "0", "0"])?;
    thread::sleep(Duration::from_secs(2));
    let rounds = figure(&worker.stop()?, "rounds")?;
    let last = daemon.scrape()?;
    let after = kernel_switches()?;
    let count = |scrape: &Scrape, kind| {
        let labels = label_set(&[("kind", kind)]);
        scrape.value("noised_context_switches_total", &labels).unwrap_or_default() as u64
    };
    let grown = |kind| count(&last, kind) - count(&first, kind);
    let (voluntary, involuntary) = (grown("voluntary"), grown("involuntary"));
    println!(
        "{rounds} rounds; the kernel switched {} times, noised has {voluntary} voluntary switches \
         and {involuntary} others",
        after - before
    );
    // Each has to run before the other can go on, on one CPU, whether it blocks or is preempted.
    ensure!(
        rounds > 0 && voluntary + involuntary >= 2 * rounds,
        "{rounds} rounds are two switches each"
    );
    // The kernel counts those away from the idle task as well.
    ensure!(voluntary + involuntary <= after - before, "noised has more switches than the kernel");
    Ok(())
}

/// The kernel's own count, which includes switches from the idle task.
fn kernel_switches() -> Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.context("/proc/stat has no ctxt")?.trim().parse().context("not a number")
}

/// Sums over the CPUs of a table such as `/proc/softirqs`, by the name of the line in lower case.
fn sums(path: &str) -> Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string(path)?;
    let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    Ok(lines
        .map(|(name, rest)| {
            let numbers = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            (name.to_lowercase(), numbers.sum())
        })
        .collect())
}

/// The daemon's count of each value of a label.
fn counts(scrape: &Scrape, metric: &str, label: &str) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for (labels, histogram) in scrape.histograms(metric)? {
        let value = labels.get(label).cloned().unwrap_or_default();
        *counts.entry(value).or_default() += histogram.count as u64;
    }
    Ok(counts)
}

/// What the kernel's table grew by while a mixed load ran, at least and at most, against the growth of
/// the daemon's counts. `key` is the line of the table that counts what the daemon calls so.
fn agree(
    path: &str,
    families: &[(&str, &str)],
    key: impl Fn(&str) -> Option<String>,
) -> Result<usize> {
    let daemon = Daemon::start()?;
    // Read while next to nothing happens, so that the bounds are close.
    let outer_first = sums(path)?;
    let first = daemon.scrape()?;
    let inner_first = sums(path)?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_secs(2));
    load.stop()?;
    let inner_last = sums(path)?;
    let last = daemon.scrape()?;
    let outer_last = sums(path)?;
    // The kernel counts at the beginning, the daemon at the end: on each CPU one is between the two.
    let under_way = cpus() as u64;
    let mut compared = 0;
    for (metric, label) in families {
        let before = counts(&first, metric, label)?;
        for (name, count) in counts(&last, metric, label)? {
            let Some(line) = key(&name) else { continue };
            let at = |table: &BTreeMap<String, u64>| table.get(&line).copied().unwrap_or_default();
            let grown = count - before.get(&name).copied().unwrap_or_default();
            let least = (at(&inner_last) - at(&inner_first)).saturating_sub(under_way);
            let most = at(&outer_last) - at(&outer_first) + under_way;
            println!("{name:>16}: kernel {least}..={most}, noised {grown}");
            ensure!(
                (least..=most).contains(&grown),
                "{name}: the kernel counts {least}..={most}, noised {grown}"
            );
            compared += usize::from(grown > 0);
        }
    }
    Ok(compared)
}

/// Programs are called for all that the kernel's tables count.
fn none_is_hidden() -> Result<()> {
    let reason = "no program is called while process 1 runs on this kernel";
    ensure!(hidden_threads()?.is_empty(), Impossible(reason.into()));
    Ok(())
}

fn softirqs_of_the_kernel() -> Result<()> {
    none_is_hidden()?;
    let compared = agree("/proc/softirqs", &[("noised_softirq_seconds", "vector")], |name| {
        Some(name.to_owned())
    })?;
    ensure!(compared >= 3, "only {compared} kinds of softirq occurred");
    Ok(())
}

fn interrupts_of_the_kernel() -> Result<()> {
    none_is_hidden()?;
    let families = [("noised_hardirq_seconds", "irq"), ("noised_vector_seconds", "vector")];
    let compared = agree("/proc/interrupts", &families, |name| match name {
        "local_timer" => Some("loc".to_owned()),
        "reschedule" => Some("res".to_owned()),
        "irq_work" => Some("iwi".to_owned()),
        // Counted together, and with others, in one line.
        _ => name.parse::<u32>().ok().map(|irq| irq.to_string()),
    })?;
    ensure!(compared >= 3, "only {compared} kinds of interrupt occurred");
    Ok(())
}

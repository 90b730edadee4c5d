//! The referee itself, judged by what the kernel counts elsewhere. Needs no daemon.
//!
//! `/proc/softirqs`, `/proc/interrupts`, `/proc/<pid>/schedstat` and the loads' own counts come from
//! other code of the kernel than its trace events.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::disk::{LoopDevice, ScratchFile, device_name};
use noise_tests::ftrace::blind::{ensure_sight, hidden_threads, keep_sight};
use noise_tests::ftrace::event::{Event, Kind};
use noise_tests::ftrace::{BLOCK_EVENTS, Recording, SCHED_EVENTS, Trace, all_events};
use noise_tests::load::{Worker, figure};
use noise_tests::pairing::block::block_waits;
use noise_tests::pairing::interrupts::interrupts;
use noise_tests::pairing::net::{net_rx_wait, net_tx_wait};
use noise_tests::pairing::raise::softirq_raise_wait;
use noise_tests::pairing::runqueue::runqueue_wait;
use noise_tests::task::{pollers, sched_stat};

use crate::Test;
use crate::block::ShortDevice;
use crate::differential::MixedLoad;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("interrupts_agree_with_proc", interrupts_agree_with_proc),
    ("waits_agree_with_schedstat", waits_agree_with_schedstat),
    ("reads_agree_with_the_load", reads_agree_with_the_load),
    ("short_reads_are_partial_and_requeued", short_reads_are_partial_and_requeued),
    ("every_signal_is_paired_under_load", every_signal_is_paired_under_load),
];

/// The sums of the lines of `/proc/softirqs` or `/proc/interrupts`, by their first word.
fn counts(path: &str) -> Result<BTreeMap<String, u64>> {
    Ok(fs::read_to_string(path)?
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
        .map(|(name, rest)| {
            let numbers = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            (name.to_lowercase(), numbers.sum())
        })
        .collect())
}

/// The kernel's own count, which includes switches from and to the idle task.
fn context_switches() -> Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    Ok(line.context("/proc/stat has no ctxt")?.trim().parse()?)
}

/// How often hidden threads were switched to so far. Where one follows another, neither the trace nor its
/// gaps show that.
fn switches_to_hidden() -> Result<u64> {
    // A thread that is gone has none.
    let stats = hidden_threads()?.into_iter().filter_map(|thread| sched_stat(thread).ok());
    Ok(stats.map(|stat| stat.runs).sum())
}

fn between(trace: &Trace, from: &str, to: &str) -> Result<impl Iterator<Item = Event>> {
    let (from, to) = (trace.mark_ns(from)?, trace.mark_ns(to)?);
    Ok(trace.all().into_iter().filter(move |event| (from..=to).contains(&event.time_ns)))
}

fn interrupts_agree_with_proc() -> Result<()> {
    let _sight = keep_sight()?;
    // A recording of the start would be the longer, the slower the disk is.
    let load = MixedLoad::start()?;
    let recording = Recording::start(&all_events(), 128)?;
    let to_hidden = switches_to_hidden()?;
    let readings = |when: &str| -> Result<_> {
        recording.mark(&format!("before {when}"))?;
        let mut softirqs = counts("/proc/softirqs")?;
        softirqs.insert("context switches".to_owned(), context_switches()?);
        let readings = (softirqs, counts("/proc/interrupts")?);
        recording.mark(&format!("after {when}"))?;
        Ok(readings)
    };
    let (softirqs, irqs) = readings("first")?;
    thread::sleep(Duration::from_secs(2));
    let (softirqs_last, irqs_last) = readings("last")?;
    let to_hidden = switches_to_hidden()?.saturating_sub(to_hidden);
    load.stop()?;
    let trace = recording.stop()?;
    ensure_sight(&trace.sights)?;

    let tally = |from: &str, to: &str| -> Result<BTreeMap<String, u64>> {
        let mut tally = BTreeMap::new();
        for event in between(&trace, from, to)? {
            let name = match &event.kind {
                Kind::SoftirqEntry { vector } => vector.to_string(),
                Kind::Switch { .. } | Kind::LostSwitch { .. } => "context switches".to_owned(),
                Kind::IrqEntry { irq, .. } => irq.to_string(),
                // The names that /proc/interrupts has for what the trace events call otherwise.
                Kind::VectorEntry { vector } => match &**vector {
                    "local_timer" => "loc".to_owned(),
                    "reschedule" => "res".to_owned(),
                    "call_function" | "call_function_single" => "cal".to_owned(),
                    "irq_work" => "iwi".to_owned(),
                    _ => continue,
                },
                _ => continue,
            };
            *tally.entry(name).or_insert(0_u64) += 1;
        }
        Ok(tally)
    };
    let least = tally("after first", "before last")?;
    let mut most = tally("before first", "after last")?;
    most.entry("context switches".to_owned()).and_modify(|count| *count += to_hidden);
    let mut compared = 0;
    for (name, last) in softirqs_last.iter().chain(&irqs_last) {
        let before = softirqs.get(name).or_else(|| irqs.get(name)).copied().unwrap_or_default();
        let grown = last - before;
        // An IPI without its own event (TLB shootdown, hypervisor) is in a line of its own.
        let Some(&most) = most.get(name) else { continue };
        let least = least.get(name).copied().unwrap_or_default();
        println!("{name:>16}: kernel {grown}, ftrace {least}..={most}");
        ensure!(
            (least..=most).contains(&grown),
            "{name}: the kernel counts {grown}, the trace {least}..={most}"
        );
        compared += u64::from(grown > 0);
    }
    println!("switches to hidden threads: {to_hidden}");
    ensure!(compared >= 6, "only {compared} kinds of interrupt occurred");
    Ok(())
}

fn waits_agree_with_schedstat() -> Result<()> {
    let recording = Recording::start(SCHED_EVENTS, 32)?;
    let burners = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
    // The kernel charges a wait when it ends, as we do; a burner's own reading could fall into one.
    thread::sleep(Duration::from_millis(1500));
    recording.mark("read")?;
    let mut kernel_ns = 0;
    for burner in &burners {
        kernel_ns += sched_stat(burner.pid())?.wait_ns;
    }
    recording.mark("done")?;
    let pids = [burners[0].pid(), burners[1].pid()];
    for burner in burners {
        burner.stop()?;
    }
    let trace = recording.stop()?;
    let waits = runqueue_wait(&trace.events);
    let sum_until = |mark: &str| -> Result<u64> {
        let until = trace.mark_ns(mark)?;
        let ours = |pid: &i32| pids.contains(pid);
        let samples =
            waits.samples.iter().filter(|sample| ours(&sample.pid) && sample.end_ns <= until);
        Ok(samples.map(|sample| sample.value_ns).sum())
    };
    let (least, most) = (sum_until("read")?, sum_until("done")?);
    println!("two burners waited {kernel_ns} ns by schedstat, {least}..={most} by ftrace");
    // Two clocks (the scheduler's and the monotonic one) and two places in the same code.
    let margin = most / 50;
    ensure!(
        (least - margin..=most + margin).contains(&kernel_ns),
        "schedstat says {kernel_ns} ns, the trace {least}..={most}"
    );
    Ok(())
}

fn reads_agree_with_the_load() -> Result<()> {
    let backing = ScratchFile::new("referee", 16)?;
    let device = LoopDevice::attach(&backing)?;
    let recording = Recording::start(&all_events(), 64)?;
    let mut reader = Worker::start("direct-reads", &["0", &device.path(), "4096", "0", "3000"])?;
    let reads = figure(&reader.figures()?, "reads")?;
    let trace = recording.stop()?;
    let waits = block_waits(&trace.all(), device_name);
    let on_device = waits
        .device
        .samples
        .iter()
        .filter(|sample| *sample.labels.0 == *device.name && &*sample.labels.1 == "read");
    let found = on_device.count() as u64;
    ensure!(found == reads, "{reads} reads, {found} in the trace");
    Ok(())
}

fn short_reads_are_partial_and_requeued() -> Result<()> {
    let short = ShortDevice::new()?;
    let recording = Recording::start(BLOCK_EVENTS, 16)?;
    short.read(100)?;
    let trace = recording.stop()?;
    // A disk whose queue is full gives requests back, too.
    let mut own = trace.all();
    own.retain(|event| match &event.kind {
        Kind::Block(block) => *device_name(block.device) == *short.device.name,
        _ => false,
    });
    let waits = block_waits(&own, device_name);
    let found =
        [waits.partial, waits.requeued, waits.queue.samples.len(), waits.device.samples.len()];
    println!("partial, requeued, queue waits, device waits: {found:?}");
    ensure!(found == [100, 100, 100, 200], "100 whole reads and 100 short ones, found {found:?}");
    Ok(())
}

fn every_signal_is_paired_under_load() -> Result<()> {
    let _sight = keep_sight()?;
    let recording = Recording::start(&all_events(), 192)?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_secs(3));
    load.stop()?;
    thread::sleep(Duration::from_millis(100));
    let trace = recording.stop()?;
    ensure_sight(&trace.sights)?;
    let events = &trace.events;
    let found = interrupts(events);
    let block = block_waits(events, device_name);
    let families = [
        ("runqueue_wait", runqueue_wait(events)),
        ("hardirq", found.hardirq),
        ("vector", found.vector),
        ("softirq", found.softirq),
        ("softirq_raise_wait", softirq_raise_wait(events)),
        ("block_queue_wait", block.queue),
        ("block_device_wait", block.device),
        ("net_tx_wait", net_tx_wait(events)),
        ("net_rx_wait", net_rx_wait(events, &pollers()?)),
    ];
    println!("{} events, shortest gap {} ns", events.len(), trace.shortest_gap_ns);
    for (name, paired) in families {
        // Softirqs are raised again at awkward moments; of the rest, next to all has its start.
        let tolerable = if name == "softirq_raise_wait" { 20 } else { 100 };
        println!("{name:>20}: {} pairs, {} orphans", paired.samples.len(), paired.orphans.len());
        ensure!(!paired.samples.is_empty(), "no {name} in the trace");
        ensure!(
            paired.orphans.len() * tolerable <= paired.samples.len() + tolerable,
            "{} ends of {name} without a start",
            paired.orphans.len()
        );
    }
    println!("merged {}, requeued {}, partial {}", block.merged, block.requeued, block.partial);
    Ok(())
}

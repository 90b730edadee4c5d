//! Block requests whose life is not insert, issue, complete.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::Daemon;
use noise_tests::disk::{LoopDevice, ScratchFile, device_name, scheduler};
use noise_tests::ftrace::BLOCK_EVENTS;
use noise_tests::load::{Worker, figure};
use noise_tests::pairing::Labels;
use noise_tests::pairing::block::{BlockWaits, block_waits};
use noise_tests::prom::label_set;

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("direct_reads_count_one_by_one", direct_reads_count_one_by_one),
    ("without_scheduler", without_scheduler),
    ("merged_requests", merged_requests),
    ("flushes", flushes),
    ("buffered_writes", buffered_writes),
    ("partial_and_requeued", partial_and_requeued),
];

const QUEUE: &str = "noised_block_queue_wait_seconds";
const DEVICE: &str = "noised_block_device_wait_seconds";

/// Compares both waits with the referee's.
fn agree(seen: &Observation) -> Result<BlockWaits> {
    let waits = block_waits(&seen.trace.events, device_name);
    println!("merged {}, requeued {}, partial {}", waits.merged, waits.requeued, waits.partial);
    let mut table = seen.table();
    table.histogram(QUEUE, &["device", "operation"], &waits.queue)?;
    table.histogram(DEVICE, &["device", "operation"], &waits.device)?;
    table.verdict()?;
    Ok(waits)
}

fn counted(seen: &Observation, metric: &str, device: &str, operation: &str) -> Result<u64> {
    let labels = label_set(&[("device", device), ("operation", operation)]);
    Ok(seen.histograms(metric)?.get(&labels).map_or(0, |histogram| histogram.count as u64))
}

/// Requires that all these reads of a device of ours were counted, and no more than ftrace has: others
/// may look into a new device.
pub(crate) fn ensure_reads(
    seen: &Observation,
    waits: &BlockWaits,
    device: &str,
    reads: u64,
) -> Result<()> {
    let is_read = |labels: &Labels| *labels.0 == *device && &*labels.1 == "read";
    let known = waits.device.samples.iter().filter(|sample| is_read(&sample.labels));
    let by_ftrace = known.filter(|sample| seen.covers(sample.end_ns).1).count() as u64;
    let found = counted(seen, DEVICE, device, "read")?;
    let hidden = seen.hidden_completions(device);
    println!("{reads} reads, {hidden} hidden from BPF, ftrace {by_ftrace}, noised {found}");
    ensure!(found + hidden >= reads, "{reads} reads, noised has {found}, {hidden} were hidden");
    let most = by_ftrace.max(reads.saturating_sub(hidden));
    ensure!(found <= most, "{reads} reads, ftrace has {by_ftrace}, noised {found}");
    Ok(())
}

/// The disk under the temporary directory.
fn disk_of(file: &ScratchFile) -> Result<String> {
    let none = || Impossible("the temporary directory is not on a block device".into());
    Ok(file.disk()?.ok_or_else(none)?)
}

fn direct_reads_count_one_by_one() -> Result<()> {
    let file = ScratchFile::new("reads", 64)?;
    let disk = disk_of(&file)?;
    let daemon = Daemon::start()?;
    let (seen, reads) = observe(&daemon, BLOCK_EVENTS, 32, || {
        let mut reader =
            Worker::start("direct-reads", &["0", file.argument()?, "4096", "0", "3000"])?;
        figure(&reader.figures()?, "reads")
    })?;
    agree(&seen)?;
    // Others may read from this disk as well, but our reads are all there.
    for metric in [QUEUE, DEVICE] {
        if metric == QUEUE && scheduler(&disk)? == "none" {
            continue;
        }
        let found = counted(&seen, metric, &disk, "read")?;
        let reads = reads - seen.hidden_completions(&disk).min(reads);
        ensure!(found >= reads, "{reads} reads, {found} in {metric}");
    }
    Ok(())
}

fn without_scheduler() -> Result<()> {
    let backing = ScratchFile::new("loop", 32)?;
    let device = LoopDevice::attach(&backing)?;
    ensure!(scheduler(&device.name)? == "none", "{} has a scheduler", device.name);
    let daemon = Daemon::start()?;
    let (seen, reads) = observe(&daemon, BLOCK_EVENTS, 32, || {
        let mut reader =
            Worker::start("direct-reads", &["0", &device.path(), "4096", "0", "5000"])?;
        figure(&reader.figures()?, "reads")
    })?;
    let waits = agree(&seen)?;
    ensure_reads(&seen, &waits, &device.name, reads)?;
    // What ftrace saw inserted, and no more: an issue without insertion waited in no queue.
    let inserted = seen.certain(&waits.queue).filter(|sample| *sample.labels.0 == *device.name);
    let inserted = inserted.count() as u64;
    let found = counted(&seen, QUEUE, &device.name, "read")?;
    ensure!(found == inserted, "{inserted} insertions, noised has {found} queue waits");
    Ok(())
}

fn merged_requests() -> Result<()> {
    let file = ScratchFile::new("merge", 64)?;
    let disk = disk_of(&file)?;
    ensure!(
        scheduler(&disk)? != "none",
        Impossible(format!("{disk} has no scheduler that could merge"))
    );
    let daemon = Daemon::start()?;
    let (seen, reads) = observe(&daemon, BLOCK_EVENTS, 32, || {
        let reader = Worker::start("shuffled-reads", &["0", file.argument()?, "1000"])?;
        thread::sleep(Duration::from_secs(2));
        figure(&reader.stop()?, "reads")
    })?;
    let waits = agree(&seen)?;
    ensure!(waits.merged > 0, "{INCONCLUSIVE}: no request was merged");
    println!("{reads} reads of a block each");
    Ok(())
}

fn flushes() -> Result<()> {
    let file = ScratchFile::new("flush", 16)?;
    let disk = disk_of(&file)?;
    let cache = fs::read_to_string(format!("/sys/block/{disk}/queue/write_cache"))?;
    ensure!(
        cache.trim() == "write back",
        Impossible(format!("{disk} has no write cache to flush"))
    );
    let daemon = Daemon::start()?;
    let (seen, syncs) = observe(&daemon, BLOCK_EVENTS, 32, || {
        let writer = Worker::start("synced-writes", &["0", file.argument()?, "1000"])?;
        thread::sleep(Duration::from_secs(2));
        figure(&writer.stop()?, "syncs")
    })?;
    let waits = agree(&seen)?;
    let flushes = counted(&seen, DEVICE, &disk, "flush")?;
    let hidden = seen.hidden_completions(&disk);
    let is_flush = |labels: &Labels| *labels.0 == *disk && &*labels.1 == "flush";
    let by_ftrace = seen.certain(&waits.device).filter(|sample| is_flush(&sample.labels)).count();
    println!("{syncs} syncs, {by_ftrace} flushes by ftrace, {flushes} by noised, {hidden} hidden");
    // Each sync flushes, unless the flush of somebody else on this disk served it as well.
    ensure!(
        by_ftrace as u64 + hidden >= syncs,
        "{INCONCLUSIVE}: of {syncs} syncs, ftrace has {by_ftrace} flushes"
    );
    ensure!(flushes + hidden >= syncs, "{syncs} syncs, noised has {flushes} flushes");
    ensure!(counted(&seen, QUEUE, &disk, "flush")? == 0, "a flush passes no scheduler");
    Ok(())
}

fn buffered_writes() -> Result<()> {
    let file = ScratchFile::new("stream", 32)?;
    disk_of(&file)?;
    let daemon = Daemon::start()?;
    let (seen, passes) = observe(&daemon, BLOCK_EVENTS, 32, || {
        let writers = [
            Worker::start("stream", &["0", file.argument()?, "32", "10000"])?,
            Worker::start("shuffled-reads", &["0", file.argument()?, "2000"])?,
        ];
        thread::sleep(Duration::from_secs(3));
        let [writer, reader] = writers;
        reader.stop()?;
        figure(&writer.stop()?, "passes")
    })?;
    agree(&seen)?;
    ensure!(passes > 0, "nothing was written");
    Ok(())
}

/// A loop device whose file ends early: it completes the first part of a read, takes the request
/// back, and fails the rest.
pub(crate) struct ShortDevice {
    reader: File,
    // Closed after the reader; the backing file goes last.
    pub(crate) device: LoopDevice,
    _backing: ScratchFile,
}

impl ShortDevice {
    const READ_BYTES: usize = 64 << 10;
    const END: u64 = 2 << 20;

    pub(crate) fn new() -> Result<Self> {
        let backing = ScratchFile::new("short", 4)?;
        let device = LoopDevice::attach(&backing)?;
        // The device keeps its size; of a read at the end, the second half is gone.
        let end = Self::END + Self::READ_BYTES as u64 / 2;
        File::options().write(true).open(backing.path())?.set_len(end)?;
        let reader =
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device.path())?;
        Ok(Self { reader, device, _backing: backing })
    }

    /// Reads before the end, and over it, that often each.
    pub(crate) fn read(&self, times: usize) -> Result<()> {
        let mut memory = vec![0_u8; Self::READ_BYTES + 4096];
        let start = memory.as_ptr().align_offset(4096);
        let buffer = memory.get_mut(start..start + Self::READ_BYTES).context("no room to align")?;
        for _ in 0..times {
            self.reader.read_exact_at(buffer, 0)?;
            // An error, or half of it: what matters is what the device did.
            let _ = self.reader.read_at(buffer, Self::END);
        }
        Ok(())
    }
}

fn partial_and_requeued() -> Result<()> {
    let short = ShortDevice::new()?;
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, BLOCK_EVENTS, 16, || short.read(200))?;
    let offered = agree(&seen)?;
    let waits = block_waits(&seen.trace.all(), device_name);
    ensure!(
        waits.partial >= 200 && waits.requeued >= 200,
        "{} partial completions and {} requeues: nothing was tested",
        waits.partial,
        waits.requeued
    );
    // The first attempt is void: one device wait and one wait in the queue for each short read.
    ensure_reads(&seen, &offered, &short.device.name, 400)?;
    let hidden = seen.hidden_completions(&short.device.name);
    let queue_waits = counted(&seen, QUEUE, &short.device.name, "read")?;
    ensure!(queue_waits + hidden >= 200, "200 requeues, noised has {queue_waits} queue waits");
    Ok(())
}

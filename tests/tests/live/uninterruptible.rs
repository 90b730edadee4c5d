//! Tasks that nothing wakes up but what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::{Daemon, free_address};
use noise_tests::disk::ScratchFile;
use noise_tests::ftrace::all_events;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker, figure};
use noise_tests::pairing::uninterruptible::{DOUBTFUL, together, uninterruptible_wait};
use noise_tests::prom::{Histogram, Scrape, label_set};
use noise_tests::scratch::Folder;
use noise_tests::slow_disk::SlowDisk;
use noise_tests::task::{cpus, kernel_threads, pin};

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("known_sleeps_are_read_back", known_sleeps_are_read_back),
    ("disks_and_children", disks_and_children),
    ("a_disk_whose_writes_end_in_a_kernel_thread", a_disk_whose_writes_end_in_a_kernel_thread),
    ("who_wrote_what_is_written_first", who_wrote_what_is_written_first),
];

const WAITS: &str = "noised_uninterruptible_wait_seconds";
/// `EXT4_SUPER_MAGIC` of Linux's `linux/magic.h`, as `stat` prints it.
const EXT4: &[u8] = b"ef53";
/// How long a new cgroup may stay without a name.
const NAMED_WITHIN: Duration = Duration::from_secs(20);
/// A bucket bound that the planted sleeps pass and no others of their cgroup.
const LONG_NS: u64 = 1 << 26;
/// How far a sum of charges may be off.
const SHARE: f64 = 0.03;

fn waits_of(scrape: &Scrape, group: &Group) -> Result<Histogram> {
    let labels = label_set(&[("cgroup", &group.label())]);
    Ok(scrape.histograms(WAITS)?.remove(&labels).unwrap_or_default())
}

/// Waits until the daemon knows the name of a group whose tasks sleep.
fn await_name(daemon: &Daemon, group: &Group) -> Result<()> {
    let deadline = Instant::now() + NAMED_WITHIN;
    while waits_of(&daemon.scrape()?, group)?.count == 0.0 {
        ensure!(Instant::now() < deadline, "{} has no sleeps", group.label());
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// What a group's sleeps are charged with, by cause and culprit, in seconds.
fn culprits_of(scrape: &Scrape, group: &Group) -> BTreeMap<(String, String), f64> {
    let mut sums = BTreeMap::new();
    for (labels, seconds) in scrape.series("noised_interference_seconds_total") {
        let is = |name: &str, value: &str| labels.get(name).is_some_and(|own| own == value);
        if is("resource", "uninterruptible") && is("victim", &group.label()) {
            let [cause, culprit] =
                ["cause", "culprit"].map(|name| labels.get(name).cloned().unwrap_or_default());
            *sums.entry((cause, culprit)).or_default() += seconds;
        }
    }
    sums
}

/// The same by cause.
fn charges_of(scrape: &Scrape, group: &Group) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for ((cause, _), seconds) in culprits_of(scrape, group) {
        *sums.entry(cause).or_default() += seconds;
    }
    sums
}

fn known_sleeps_are_read_back() -> Result<()> {
    const SLEEPS: u64 = 5;
    const EACH_MS: u64 = 100;
    let group = Group::new("asleep", &[Hierarchy::Cpu])?;
    let place = Place::group(&group);
    // Asleep before the programs are there: no part of it counts.
    let mut early = Worker::start_at(place, "suspensions", &["0", "3000", "1"])?;
    let daemon = Daemon::start_unfolded()?;
    ensure!(figure(&early.figures()?, "sleeps")? == 1, "the first did not sleep");
    thread::sleep(Duration::from_secs(1));
    let before = waits_of(&daemon.scrape()?, &group)?;
    let above = |waits: &Histogram| if waits.count > 0.0 { waits.above(LONG_NS) } else { Ok(0.0) };
    ensure!(above(&before)? == 0.0, "a sleep from before the start was counted: {before:?}");

    let (each, count) = (EACH_MS.to_string(), SLEEPS.to_string());
    let mut sleeper = Worker::start_at(place, "suspensions", &["0", &each, &count])?;
    let mut killed = Worker::start_at(place, "suspensions", &["0", "60000", "1"])?;
    for turn in 0..10 {
        thread::sleep(Duration::from_millis(30));
        // Which CPU it is to run on next does not matter to a sleep.
        pin(sleeper.pid(), turn % cpus())?;
    }
    killed.kill()?;
    killed.wait_killed()?;
    ensure!(figure(&sleeper.figures()?, "sleeps")? == SLEEPS, "not all sleeps were slept");
    thread::sleep(Duration::from_secs(1));
    let scrape = daemon.scrape()?;
    let (waits, charges) = (waits_of(&scrape, &group)?, charges_of(&scrape, &group));
    println!("{} sleeps of {} s; {charges:?}", waits.count, waits.sum_seconds);
    ensure!(
        above(&waits)? == (SLEEPS + 1) as f64,
        "{SLEEPS} sleeps and one that was cut short: {waits:?}"
    );
    let least = (SLEEPS * EACH_MS) as f64 / 1e3;
    let own = charges.get("self").copied().unwrap_or_default();
    // The child of each wakes its parent; a signal from another cgroup ended the last one.
    ensure!(
        own >= least,
        "{least} s were slept until a child of the same cgroup ended, {own} s are charged"
    );
    ensure!(
        charges.get("foreign").is_some_and(|&seconds| seconds > 0.1),
        "the killer is not charged: {charges:?}"
    );
    let sum: f64 = charges.values().sum();
    ensure!(
        (sum - waits.sum_seconds).abs() <= waits.sum_seconds * 1e-6,
        "{sum} s are charged of {} s",
        waits.sum_seconds
    );
    Ok(())
}

/// Whether seconds are as many as the referee has ns: at least the first, at most the second.
fn ensure_within(cause: &str, seconds: f64, [least, most]: [f64; 2]) -> Result<()> {
    ensure!(
        (least..=most).contains(&seconds),
        "{seconds} s are charged to {cause}, by ftrace {least} to {most} s"
    );
    Ok(())
}

/// Compares what a group's sleeps are charged with, with who woke them, where that is not in doubt. Who that was is not said of those that the kernel
/// marks as sleeps for I/O, which ftrace does not see; those that `served` woke are all marked.
fn ensure_causes(
    seen: &Observation,
    group: &Group,
    pids: &BTreeSet<i32>,
    served: Option<&'static str>,
) -> Result<()> {
    let waits = uninterruptible_wait(&seen.trace.events, &kernel_threads()?);
    let mut expected: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for sample in waits.samples.iter().filter(|sample| pids.contains(&sample.pid)) {
        let [least, most] = expected.entry(&*sample.labels.0).or_default();
        let (certain, possible) = seen.covers(sample.end_ns);
        *least += if certain { sample.value_ns } else { 0 };
        *most += if possible { sample.value_ns } else { 0 };
    }
    let mut found: BTreeMap<&str, f64> = BTreeMap::new();
    let (first, last) = (charges_of(&seen.first, group), charges_of(&seen.last, group));
    let earlier = first.iter().map(|(cause, seconds)| (cause, -seconds));
    for (cause, seconds) in last.iter().map(|(cause, seconds)| (cause, *seconds)).chain(earlier) {
        let cause = if matches!(cause.as_str(), "self" | "foreign") { "task" } else { cause };
        *found.entry(cause).or_default() += seconds;
    }
    println!("charged {found:?}; by ftrace {expected:?} ns");
    let all: f64 = found.values().sum();
    let doubtful = expected.remove(DOUBTFUL).map_or(0.0, |[_, most]| most as f64 / 1e9);
    ensure!(
        doubtful <= all / 4.0,
        "{INCONCLUSIVE}: of {all} s, {doubtful} s were ended by threads whose switches ftrace did not see"
    );
    let marked =
        found.remove("iowait").unwrap_or_default() + found.remove("writeback").unwrap_or_default();
    if let Some(cause) = served {
        *found.entry(cause).or_default() += marked;
    }
    let causes: BTreeSet<&str> = found.keys().chain(expected.keys()).copied().collect();
    for cause in causes {
        let seconds = found.get(cause).copied().unwrap_or_default();
        let [least, most] =
            expected.get(cause).copied().unwrap_or_default().map(|ns| ns as f64 / 1e9);
        let margin = SHARE * all + doubtful;
        let hidden = if served.is_none() { marked } else { 0.0 };
        ensure_within(cause, seconds, [least - hidden - margin, most + margin])?;
    }
    if let Some(cause) = served {
        let [least, most] =
            expected.get(cause).context("never woken so")?.map(|ns| ns as f64 / 1e9);
        ensure_within("iowait", marked, [least * (1.0 - SHARE), most * (1.0 + SHARE) + doubtful])?;
    }
    Ok(())
}

fn disks_and_children() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let group = Group::new("sleeper", &[Hierarchy::Cpu])?;
    let file = ScratchFile::new("asleep", 32)?;
    let path = file.argument()?;
    let last = (cpus() - 1).to_string();
    let loads: &[(&str, &[&str])] = &[
        ("direct-reads", &["0", path, "4096", "200", "0"]),
        ("synced-writes", &[&last, path, "2000"]),
        ("shuffled-reads", &["0", path, "1000"]),
    ];
    // Before the recording: who enters a cgroup sleeps for that in the one before.
    let mut workers = Vec::new();
    for (name, arguments) in loads {
        workers.push(Worker::start_at(Place::group(&group), name, arguments)?);
    }
    let pids: BTreeSet<i32> = workers.iter().map(Worker::pid).collect();
    // What a group did before the daemon knew its name is counted once it does.
    await_name(&daemon, &group)?;
    let (seen, ()) = observe(&daemon, &all_events(), 128, || {
        for _ in 0..50 {
            // A parent waits until its child has become another program.
            ensure!(Command::new("true").status()?.success(), "`true` failed");
            thread::sleep(Duration::from_millis(50));
        }
        workers.into_iter().try_for_each(|worker| worker.stop().map(drop))
    })?;
    let waits = uninterruptible_wait(&seen.trace.events, &kernel_threads()?);
    let own = seen.certain(&waits).filter(|sample| pids.contains(&sample.pid)).count();
    ensure!(own > 100, "{INCONCLUSIVE}: the planted tasks slept only {own} times");
    let mut table = seen.table();
    table.histogram_total(WAITS, &together(waits))?;
    table.verdict()?;
    ensure_causes(&seen, &group, &pids, None)
}

fn a_disk_whose_writes_end_in_a_kernel_thread() -> Result<()> {
    let file = ScratchFile::new("first", 16)?;
    let system =
        Command::new("stat").args(["--file-system", "--format=%t"]).arg(file.path()).output()?;
    ensure!(
        system.stdout.trim_ascii_end() == EXT4,
        Impossible(format!("{} is on no ext4", file.argument()?))
    );
    let daemon = Daemon::start_unfolded()?;
    let group = Group::new("writer", &[Hierarchy::Cpu])?;
    let arguments = ["0", file.argument()?, "1000"];
    let writer = Worker::start_at(Place::group(&group), "first-writes", &arguments)?;
    let pids = BTreeSet::from([writer.pid()]);
    await_name(&daemon, &group)?;
    let (seen, writes) = observe(&daemon, &all_events(), 128, || {
        thread::sleep(Duration::from_secs(2));
        figure(&writer.stop()?, "writes")
    })?;
    println!("{writes} blocks were written first");
    let waits = uninterruptible_wait(&seen.trace.events, &kernel_threads()?);
    let own = seen.certain(&waits).filter(|sample| pids.contains(&sample.pid)).count();
    ensure!(own > 100, "{INCONCLUSIVE}: the writer slept only {own} times");
    ensure_causes(&seen, &group, &pids, Some("kthread"))
}

/// What a group's sleeps were charged with between two scrapes; checks that all of them are.
fn charged_between(
    [first, last]: [&Scrape; 2],
    group: &Group,
) -> Result<BTreeMap<(String, String), f64>> {
    let mut charged = culprits_of(last, group);
    for (key, seconds) in culprits_of(first, group) {
        *charged.entry(key).or_default() -= seconds;
    }
    let slept = waits_of(last, group)?.sum_seconds - waits_of(first, group)?.sum_seconds;
    let sum: f64 = charged.values().sum();
    ensure!((sum - slept).abs() <= slept * 1e-6, "{sum} s are charged of {slept} s: {charged:?}");
    Ok(charged)
}

fn who_wrote_what_is_written_first() -> Result<()> {
    const LENGTH: Duration = Duration::from_secs(10);
    let place = Folder::new("slow")?;
    let disk = SlowDisk::new(place.path().join("disk"))
        .map_err(|error| Impossible(format!("no disk of its own: {error:#}")))?;
    let folder = disk.folder().to_str().context("no text")?;
    let own = disk.folder().join("own");
    fs::write(&own, vec![0; 4 << 20])?;
    let group = |name| Group::new(name, &[Hierarchy::Cpu]);
    let (shop, writer, other) = (group("shop")?, group("writer")?, group("other")?);
    let daemon = Daemon::start_unfolded()?;
    let hook = label_set(&[("hook", "balance_dirty_pages")]);
    ensure!(
        daemon.scrape()?.value("noised_probe_attached", &hook) == Some(1.0),
        Impossible("this kernel does not say whom it holds back".to_owned())
    );
    // Beside them, on a disk of its own.
    let file = ScratchFile::new("other", 16)?;
    let last = (cpus() - 1).to_string();
    let _bystander = Worker::start_at(
        Place::group(&other),
        "synced-writes",
        &[&last, file.argument()?, "5000"],
    )?;

    let _first = Worker::start_at(Place::group(&writer), "new-pages", &["0", folder, "64"])?;
    await_name(&daemon, &writer)?;
    let before = daemon.scrape()?;
    thread::sleep(LENGTH);
    let alone = daemon.scrape()?;
    let charged = charged_between([&before, &alone], &writer)?;
    println!("alone: {charged:?}");
    let behind = |who: &Group| ("writeback".to_owned(), who.label());
    let seconds =
        |charged: &BTreeMap<_, f64>, who| charged.get(&behind(who)).copied().unwrap_or(0.0);
    let all: f64 = charged.values().sum();
    ensure!(all > 1.0, "{INCONCLUSIVE}: the writer was held back for {all} s");
    // The rest is for the journal and for pages on their way.
    ensure!(seconds(&charged, &writer) >= all / 2.0, "of {all} s, its own writes: {charged:?}");

    let _second = Worker::start_at(Place::group(&writer), "new-pages", &[&last, folder, "64"])?;
    let address = free_address()?.to_string();
    let work = format!("write={},16", own.to_str().context("no text")?);
    let _service = Worker::start_at(
        Place::group(&shop),
        "service",
        &["shop", &address, "compute=300", &work],
    )?;
    let client = ["/dev/null", "4", "10000"];
    let arguments = [&[address.as_str()], &client[..]].concat();
    let _client = Worker::start_at(Place::group(&other), "client", &arguments)?;
    await_name(&daemon, &shop)?;
    let before = daemon.scrape()?;
    thread::sleep(LENGTH);
    let after = daemon.scrape()?;
    let charged = charged_between([&before, &after], &shop)?;
    println!("behind another one: {charged:?}");
    let all: f64 = charged.values().sum();
    ensure!(all > 1.0, "{INCONCLUSIVE}: the service was held back for {all} s");
    let by_writer = seconds(&charged, &writer);
    ensure!(by_writer >= all / 4.0, "of {all} s, the writer's pages: {charged:?}");
    // Most of what was dirtied is the writer's.
    ensure!(by_writer > seconds(&charged, &shop), "{charged:?}");
    for scraped in [&alone, &after] {
        for group in [&shop, &writer, &other] {
            let behind = culprits_of(scraped, group);
            let who = behind.keys().filter(|(cause, _)| cause == "writeback").map(|(_, who)| who);
            let is_known = |who: &String| [writer.label(), shop.label()].contains(who);
            let innocent: Vec<&String> = who.filter(|who| !is_known(who)).collect();
            ensure!(innocent.is_empty(), "{innocent:?} wrote nothing there");
        }
    }
    ensure!(seconds(&culprits_of(&after, &other), &writer) == 0.0, "it writes to another disk");
    Ok(())
}

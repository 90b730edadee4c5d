//! The flight recorder, event by event, against ftrace.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::cgroup::MemoryLimit;
use noise_tests::compare::slowest_program_ns;
use noise_tests::daemon::{Daemon, SOCKET_PATH, STATE_DIRECTORY, Socketed, binary, free_address};
use noise_tests::events::{Stretch, Window, ensure_present, ensure_recorded, fetch};
use noise_tests::ftrace::blind::{ensure_sight, keep_sight};
use noise_tests::ftrace::{BLOCK_EVENTS, INTERRUPT_EVENTS, NETWORK_EVENTS, Recording};
use noise_tests::load::Worker;
use noise_tests::prom::Scrape;
use noise_tests::scratch::Folder;
use noise_tests::task::cpus;
use noise_tests::wait::wait_until;

use crate::differential::MixedLoad;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recorder_has_every_event", recorder_has_every_event),
    ("recorder_says_what_was_overwritten", recorder_says_what_was_overwritten),
    ("a_slow_reader_costs_no_memory", a_slow_reader_costs_no_memory),
    ("recorder_off", recorder_off),
    ("recorder_is_as_large_as_the_host_needs", recorder_is_as_large_as_the_host_needs),
    ("less_than_the_host_needs_is_said", less_than_the_host_needs_is_said),
];

/// What the recorder keeps.
pub(crate) fn kept_events() -> Vec<&'static str> {
    let others = [
        "sched:sched_switch",
        "sched:sched_waking",
        "sched:sched_wakeup_new",
        "sched:sched_migrate_task",
        "sched:sched_process_fork",
        "sched:sched_process_exec",
        "sched:sched_process_exit",
        "sched:sched_process_wait",
        "irq:softirq_raise",
    ];
    [&others, INTERRUPT_EVENTS, BLOCK_EVENTS, NETWORK_EVENTS].concat()
}

/// What the mixed load must bring about.
pub(crate) const KINDS: [&str; 22] = [
    "switch",
    "waking",
    "wakeup_new",
    "migrate",
    "fork",
    "exec",
    "exit",
    "wait",
    "irq entry",
    "irq exit",
    "vector entry local_timer",
    "vector exit local_timer",
    "softirq raise",
    "softirq entry net_rx",
    "softirq exit net_rx",
    "block Issue",
    "block Complete",
    "tx queue lo",
    "tx start lo",
    "receive lo",
    "drop",
    "retransmit",
];

fn figure(scrape: &Scrape, metric: &str) -> Result<f64> {
    let series = scrape.series(metric);
    series.into_values().next().with_context(|| format!("no {metric}"))
}

/// Programs that come and go.
pub(crate) fn run_programs() -> Result<()> {
    for _ in 0..5 {
        let outcome = Command::new(binary()?).arg("--version").output()?;
        ensure!(outcome.status.success(), "noised --version fails");
    }
    Ok(())
}

fn recorder_has_every_event() -> Result<()> {
    let Socketed { daemon, socket, .. } = &Socketed::start(&[
        "--recorder.kibibytes-per-cpu=65536",
        "--recorder.kibibytes-in-all=1048576",
    ])?;
    let _sight = keep_sight()?;
    let _statistics = bpf::Statistics::enable()?;
    let recording = Recording::start(&kept_events(), 256)?;
    thread::sleep(Duration::from_millis(300));
    let before = bpf::programs_of(daemon.process().pid())?;
    recording.mark("begin")?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_secs(4));
    run_programs()?;
    load.stop()?;
    recording.mark("end")?;
    let after = bpf::programs_of(daemon.process().pid())?;
    let trace = recording.stop()?;
    ensure_sight(&trace.sights)?;
    let window = Window { from_ns: trace.mark_ns("begin")?, to_ns: trace.mark_ns("end")? };
    let stretch = fetch(socket, window.from_ns.saturating_sub(1_000_000_000))?;
    let usual_ns = trace.shortest_gap_ns as f64 + slowest_program_ns(&before, &after);
    ensure_recorded(&trace, &stretch, window, usual_ns)?;
    ensure_present(&stretch, window, &KINDS)?;
    ensure_present(&stretch, window, &["name"])?;
    let scrape = Scrape::parse(&daemon.metrics()?)?;
    let events = figure(&scrape, "noised_recorder_events_total")?;
    ensure!(events >= stretch.events.len() as f64, "{events} events were counted");
    Ok(())
}

fn recorder_says_what_was_overwritten() -> Result<()> {
    // The least that there can be: 128 events of each CPU.
    let Socketed { daemon, socket, .. } = &Socketed::start(&["--recorder.kibibytes-per-cpu=4"])?;
    let last = (cpus() - 1).to_string();
    let load = Worker::start("pipe", &["0", &last, "0"])?;
    thread::sleep(Duration::from_millis(500));
    let all: Vec<Stretch> = (0..20).map(|_| fetch(socket, 0)).collect::<Result<_>>()?;
    load.stop()?;
    for stretch in &all {
        ensure!(!stretch.events.is_empty(), "an empty answer");
        ensure!(stretch.events.len() <= cpus() * (128 + 768), "{}", stretch.events.len());
    }
    let scrape = Scrape::parse(&daemon.metrics()?)?;
    let events = figure(&scrape, "noised_recorder_events_total")?;
    let overwritten = figure(&scrape, "noised_recorder_overwritten_total")?;
    let held = figure(&scrape, "noised_recorder_seconds_held")?;
    println!(
        "{events} events, {overwritten} overwritten, {held} s held; {} missing in the answers",
        all.iter().map(|stretch| stretch.missing).sum::<u64>()
    );
    ensure!(overwritten > 0.0 && overwritten < events, "{overwritten} of {events} overwritten");
    ensure!(held < 5.0, "{held} s are held in so little memory");
    Ok(())
}

fn a_slow_reader_costs_no_memory() -> Result<()> {
    let Socketed { daemon, socket, .. } =
        &Socketed::start(&["--recorder.kibibytes-per-cpu=16384"])?;
    let last = (cpus() - 1).to_string();
    let load = Worker::start("pipe", &["0", &last, "0"])?;
    thread::sleep(Duration::from_secs(2));
    // On a host that has other work, that takes a while longer.
    let mut whole = fetch(socket, 0)?;
    wait_until("an answer of more than 4 MiB", Duration::from_secs(30), || {
        whole = fetch(socket, 0)?;
        Ok(whole.bytes > 4 << 20)
    })?;
    let before = daemon.anonymous_bytes()?;
    // They take the head of the answer, and then nothing.
    let readers = (0..4).map(|_| {
        let mut reader = UnixStream::connect(socket)?;
        reader.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        Ok(reader)
    });
    let readers = readers.collect::<Result<Vec<_>>>()?;
    thread::sleep(Duration::from_secs(2));
    let grown = daemon.anonymous_bytes()?.saturating_sub(before);
    // The metrics are answered meanwhile.
    daemon.scrape()?;
    drop(readers);
    load.stop()?;
    println!("an answer of {} bytes; four readers that stopped: {grown} bytes", whole.bytes);
    ensure!(grown < whole.bytes as u64 / 2, "memory grew by {grown} bytes");
    Ok(())
}

fn recorder_off() -> Result<()> {
    let Socketed { daemon, socket, .. } = &Socketed::start(&["--recorder.enabled=false"])?;
    let error = fetch(socket, 0).err().context("there is an answer")?.to_string();
    ensure!(error.contains("404"), "{error}");
    ensure!(!daemon.metrics()?.contains("noised_recorder"), "a recorder that is off has metrics");
    Ok(())
}

/// Memory of the flight recorder, the same after a restart, and how far back it goes, seconds.
fn held(daemon: &Daemon) -> Result<(f64, f64, f64)> {
    let scrape = daemon.scrape()?;
    let bytes = figure(&scrape, "noised_recorder_bytes")?;
    let next = figure(&scrape, "noised_recorder_next_bytes")?;
    let least = figure(&scrape, "noised_recorder_seconds_held")?;
    let median = figure(&scrape, "noised_recorder_seconds_held_median")?;
    println!("{bytes} bytes, {next} after a restart, {least:.1} s and {median:.1} s held");
    ensure!(least <= median, "half of the CPUs go back less far than all");
    Ok((bytes, next, least))
}

/// What the busiest CPU writes is measured by the first start, and remembered by the next one, which may be in a calm
/// hour. A size that was configured stays.
fn recorder_is_as_large_as_the_host_needs() -> Result<()> {
    /// Of each possible CPU, beside what interrupters have.
    const USUAL: f64 = 1_048_576.0;
    let state = Folder::new("state")?;
    let directory = [STATE_DIRECTORY, state.argument()?];
    let seconds = ["--recorder.seconds", "4"];
    let start = |more: &[&str]| Daemon::start_with(&[&directory[..], more].concat());
    let load = [
        Worker::start("tcp", &["0", "0", "64", "1000"])?,
        Worker::start("tcp", &["1", "1", "64", "1000"])?,
    ];
    let daemon = start(&seconds)?;
    thread::sleep(Duration::from_secs(12));
    let (bytes, _, least) = held(&daemon)?;
    let all = USUAL * cpus() as f64;
    ensure!(bytes > 2.0 * all, "{bytes} bytes for a busy host");
    ensure!(least > 2.0, "{least} s held instead of 4");
    daemon.stop(libc::SIGTERM)?;
    drop(load);
    let daemon = start(&seconds)?;
    let (later, next, _) = held(&daemon)?;
    ensure!(later >= bytes && next == later, "{later} bytes after {bytes}, {next} next");
    daemon.stop(libc::SIGTERM)?;
    let daemon = start(&["--recorder.kibibytes-per-cpu", "1024"])?;
    let (configured, next, _) = held(&daemon)?;
    ensure!(configured < 1.1 * all && next == configured, "{configured} bytes instead of {all}");
    Ok(())
}

/// A start that has measured what the host needs, and may have less memory, says so as one that remembers it does.
fn less_than_the_host_needs_is_said() -> Result<()> {
    let group = MemoryLimit::new(64 << 20)?
        .ok_or_else(|| Impossible("this host gives no cgroup a memory limit".into()))?;
    let _load = Worker::start("tcp", &["0", "0", "64", "1000"])?;
    let (address, door) = (free_address()?, group.door()?);
    let mut command = Command::new(binary()?);
    command.args(["run", "--web.listen-address", &address.to_string()]);
    command.args([STATE_DIRECTORY, "", SOCKET_PATH, "", "--recorder.seconds", "60"]);
    // SAFETY: write is async-signal-safe.
    unsafe { command.pre_exec(move || (&door).write_all(b"0")) };
    let daemon = Daemon::start_command(command, address)?;
    let stderr = daemon.process().stderr()?;
    println!("{stderr}");
    let is_said = stderr.contains("the flight recorder has ") && stderr.contains(" instead of ");
    ensure!(is_said, "nothing says that the flight recorder is too small");
    daemon.stop(libc::SIGTERM)?;
    Ok(())
}

//! `noised record`, event by event, against ftrace; and how it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::compare::slowest_program_ns;
use noise_tests::daemon::{Process, binary, run_noised};
use noise_tests::events::{Window, ensure_present, ensure_recorded};
use noise_tests::ftrace::Recording;
use noise_tests::ftrace::blind::{ensure_sight, keep_sight};
use noise_tests::load::Worker;
use noise_tests::recorded::recorded;
use noise_tests::scratch::Folder;
use noise_tests::task::cpus;

use crate::differential::MixedLoad;
use crate::recorder::{EVENTS, KINDS, Socketed, run_programs};
use crate::{Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("record_has_every_event", record_has_every_event),
    ("record_through_a_daemon", record_through_a_daemon),
    ("record_of_a_command", record_of_a_command),
    ("record_that_is_killed", record_that_is_killed),
    ("record_counts_what_it_loses", record_counts_what_it_loses),
    ("record_on_a_full_disk", record_on_a_full_disk),
];

/// Longer than any start should take on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A recording on its way.
struct Recorder {
    process: Process,
    folder: Folder,
}

impl Recorder {
    fn start(options: &[&str]) -> Result<Self> {
        let folder = Folder::new("record")?;
        let mut command = Command::new(binary()?);
        command.args(["record", "-o", folder.argument()?]).args(options);
        let mut process = Process::start(command)?;
        let deadline = Instant::now() + TIMEOUT;
        // The first packets are written once all is attached.
        while !folder.path().join("kernel/channel0_0").exists() {
            let ended = process.ended()?;
            ensure!(ended.is_none(), "it ended with {ended:?}: {}", process.stderr()?);
            ensure!(Instant::now() < deadline, "it does not begin: {}", process.stderr()?);
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { process, folder })
    }

    fn stop(&mut self, signal: i32) -> Result<()> {
        self.process.signal(signal)?;
        let status = self.process.wait()?;
        ensure!(status.success(), "it ended with {status}: {}", self.process.stderr()?);
        Ok(())
    }
}

/// Both babeltraces read as many events, and complain about nothing.
fn ensure_babeltrace(folder: &Path, events: usize) -> Result<()> {
    for command in ["babeltrace", "babeltrace2"] {
        let Ok(output) = Command::new(command).arg(folder).output() else {
            println!("there is no {command}; it comes with: apt-get install {command}");
            continue;
        };
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && complaints.trim().is_empty(), "{command}: {complaints}");
        let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let is_dump = |line: &&[u8]| line.windows(10).any(|word| word == b"statedump_");
        let found = lines.filter(|line| !is_dump(line)).count();
        ensure!(found == events, "{command} has {found} events of {events}");
    }
    Ok(())
}

fn record_has_every_event() -> Result<Verdict> {
    let recorder = Recorder::start(&["--own"])?;
    let pid = recorder.process.pid();
    has_every_event(recorder, pid)
}

fn record_through_a_daemon() -> Result<Verdict> {
    let daemon = Socketed::start(&[
        "--recorder.kibibytes-per-cpu=16384",
        "--recorder.kibibytes-in-all=1048576",
    ])?;
    let socket = daemon.socket.to_str().context("a path that is not UTF-8")?;
    let recorder = Recorder::start(&["--connect", socket])?;
    let pid = recorder.process.pid();
    ensure!(bpf::programs_of(pid)?.is_empty(), "it has programs of its own");
    has_every_event(recorder, daemon.daemon.process().pid())
}

/// Of the programs of that process.
fn has_every_event(mut recorder: Recorder, pid: u32) -> Result<Verdict> {
    let _sight = keep_sight()?;
    let _statistics = bpf::Statistics::enable()?;
    let recording = Recording::start(EVENTS, 256)?;
    thread::sleep(Duration::from_millis(300));
    let before = bpf::programs_of(pid)?;
    recording.mark("begin")?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_secs(2));
    run_programs()?;
    load.stop()?;
    recording.mark("end")?;
    let after = bpf::programs_of(pid)?;
    let trace = recording.stop()?;
    ensure_sight(&trace.sights)?;
    let window = Window { from_ns: trace.mark_ns("begin")?, to_ns: trace.mark_ns("end")? };
    recorder.stop(libc::SIGINT)?;
    println!("{}", recorder.process.stderr()?);
    let stretch = recorded(recorder.folder.path())?;
    let usual_ns = trace.shortest_gap_ns as f64 + slowest_program_ns(&before, &after);
    ensure_recorded(&trace, &stretch, window, usual_ns)?;
    ensure_present(&stretch, window, &KINDS)?;
    ensure_babeltrace(recorder.folder.path(), stretch.events.len())?;
    Ok(Verdict::Passed)
}

fn record_of_a_command() -> Result<Verdict> {
    let folder = Folder::new("record")?;
    let path = folder.argument()?;
    let outcome =
        run_noised(&["record", "--own", "-o", path, "--", "sh", "-c", "sleep 0.2; exit 7"])?;
    ensure!(outcome.code == 7, "{outcome:?}");
    ensure!(outcome.stderr.contains("none lost"), "{}", outcome.stderr);
    let stretch = recorded(folder.path())?;
    ensure!(stretch.events.iter().any(|event| event.words.starts_with("wakeup_new")), "no start");
    for (name, mode) in
        [("kernel", 0o700), ("kernel/metadata", 0o600), ("kernel/channel0_0", 0o600)]
    {
        let found = fs::metadata(folder.path().join(name))?.permissions().mode() & 0o7777;
        ensure!(found == mode, "{name} has mode {found:o}");
    }
    let outcome = run_noised(&["record", "-o", path, "--duration", "1s"])?;
    ensure!(outcome.code == 2 && outcome.stderr.contains("has files in it"), "{outcome:?}");
    Ok(Verdict::Passed)
}

fn record_that_is_killed() -> Result<Verdict> {
    let mut recorder = Recorder::start(&["--own"])?;
    let last = (cpus() - 1).to_string();
    let load = Worker::start("pipe", &["0", &last, "0"])?;
    thread::sleep(Duration::from_secs(2));
    recorder.process.signal(libc::SIGKILL)?;
    recorder.process.wait()?;
    load.stop()?;
    let stretch = recorded(recorder.folder.path())?;
    let first = stretch.events.first().context("no event")?;
    let last = stretch.events.last().context("no event")?;
    let length_ns = last.time_ns - first.time_ns;
    println!("{} events in {length_ns} ns", stretch.events.len());
    ensure!(length_ns > 1_500_000_000, "only {length_ns} ns are there");
    ensure_babeltrace(recorder.folder.path(), stretch.events.len())?;
    Ok(Verdict::Passed)
}

fn record_counts_what_it_loses() -> Result<Verdict> {
    let mut recorder = Recorder::start(&["--own"])?;
    let last = (cpus() - 1).to_string();
    let load = Worker::start("pipe", &["0", &last, "0"])?;
    thread::sleep(Duration::from_millis(500));
    // So long that the store overflows.
    recorder.process.signal(libc::SIGSTOP)?;
    thread::sleep(Duration::from_secs(5));
    recorder.process.signal(libc::SIGCONT)?;
    thread::sleep(Duration::from_millis(500));
    recorder.stop(libc::SIGTERM)?;
    load.stop()?;
    println!("{}", recorder.process.stderr()?);
    let stretch = recorded(recorder.folder.path())?;
    ensure!(stretch.missing > 0, "nothing was lost");
    let said = format!(", {} lost", stretch.missing);
    ensure!(recorder.process.stderr()?.contains(&said), "{}", recorder.process.stderr()?);
    Ok(Verdict::Passed)
}

fn record_on_a_full_disk() -> Result<Verdict> {
    let place = Folder::new("full")?;
    let path = place.argument()?;
    let mount = |command: &str, arguments: &[&str]| -> Result<()> {
        let status = Command::new(command).args(arguments).status()?;
        ensure!(status.success(), "{command} {arguments:?} ended with {status}");
        Ok(())
    };
    mount("mount", &["-t", "tmpfs", "-o", "size=2m", "noised-test", path])?;
    let tested = fill(place.path());
    mount("umount", &[path])?;
    tested?;
    Ok(Verdict::Passed)
}

fn fill(place: &Path) -> Result<()> {
    let folder = place.join("recording");
    let path = folder.to_str().context("a path that is not UTF-8")?;
    let last = (cpus() - 1).to_string();
    let load = Worker::start("pipe", &["0", &last, "0"])?;
    let outcome = run_noised(&["record", "--own", "-o", path, "--duration", "30s"])?;
    load.stop()?;
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 1, "{outcome:?}");
    ensure!(outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
    ensure!(outcome.stderr.contains("No space left on device"), "{}", outcome.stderr);
    let stretch = recorded(&folder)?;
    ensure!(stretch.events.len() > 10_000, "{} events", stretch.events.len());
    ensure_babeltrace(&folder, stretch.events.len())
}

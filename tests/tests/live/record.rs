//! `noised record`, event by event, against ftrace; and all that is to be in a recording.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::compare::slowest_program_ns;
use noise_tests::daemon::{Process, Socketed, run_noised};
use noise_tests::events::{Window, ensure_present, ensure_recorded};
use noise_tests::ftrace::blind::{ensure_sight, keep_sight};
use noise_tests::ftrace::event::{Event, Kind};
use noise_tests::ftrace::{self, SOCKET_EVENTS, TIMER_EVENTS};
use noise_tests::load::Worker;
use noise_tests::recorded::{Recording, counted, recorded, start_recording, stop_recording};
use noise_tests::scratch::Folder;
use noise_tests::task::cpus;

use crate::Test;
use crate::differential::MixedLoad;
use crate::recorder::{KINDS, kept_events, run_programs};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("record_has_every_event", record_has_every_event),
    ("record_of_classes", record_of_classes),
    ("record_of_a_million_a_second", record_of_a_million_a_second),
];

/// A recording on its way.
pub(crate) struct Recorder {
    pub(crate) process: Process,
    pub(crate) folder: Folder,
}

impl Recorder {
    pub(crate) fn start(options: &[&str]) -> Result<Self> {
        let folder = Folder::new("record")?;
        let process = start_recording(folder.path(), options)?;
        Ok(Self { process, folder })
    }

    pub(crate) fn stop(&mut self, signal: i32) -> Result<()> {
        stop_recording(&mut self.process, signal)
    }
}

/// Both babeltraces read as many events, and complain about nothing but as many losses.
pub(crate) fn ensure_babeltrace(folder: &Path, recording: &Recording) -> Result<()> {
    for command in ["babeltrace", "babeltrace2"] {
        let Ok(output) = Command::new(command).arg(folder).output() else {
            println!("there is no {command}; it comes with: apt-get install {command}");
            continue;
        };
        let complaints = String::from_utf8_lossy(&output.stderr);
        let complaints: Vec<_> =
            complaints.lines().filter(|line| !line.trim().is_empty()).collect();
        // It says nothing of a CPU whose last packet ends before the last event of another one.
        let counted = recording.losses.iter().filter(|loss| loss.events > 0).count();
        ensure!(
            output.status.success()
                && (counted..=recording.losses.len()).contains(&complaints.len())
                && complaints.iter().all(|line| line.contains("iscarded ")),
            "{command}: {complaints:?} of {:?}",
            recording.losses
        );
        let printed = String::from_utf8_lossy(&output.stdout);
        let lines = printed.lines().filter(|line| !line.is_empty());
        let found = lines.filter(|line| !line.contains("statedump_")).count();
        let events = recording.stretch.events.len();
        ensure!(found == events, "{command} has {found} events of {events}");
    }
    Ok(())
}

/// Programs of its own, and those of a daemon, over the same seconds: the daemon has all but timers.
fn record_has_every_event() -> Result<()> {
    let daemon = Socketed::start(&[
        "--recorder.kibibytes-per-cpu=16384",
        "--recorder.kibibytes-in-all=1048576",
    ])?;
    let socket = daemon.socket.to_str().context("a path that is not UTF-8")?;
    let own = Recorder::start(&["--own"])?;
    let through = Recorder::start(&["--connect", socket])?;
    ensure!(bpf::programs_of(through.process.pid())?.is_empty(), "it has programs of its own");
    let pids = [own.process.pid(), daemon.daemon.process().pid()];
    let _sight = keep_sight()?;
    let _statistics = bpf::Statistics::enable()?;
    for (pid, has_timers) in pids.into_iter().zip([true, false]) {
        let programs = bpf::programs_of(pid)?;
        let found = programs.values().filter(|program| is_of_timers(&program.name)).count();
        ensure!(found == if has_timers { 2 } else { 0 }, "{found} of {:?}", programs.values());
    }
    let ftrace = ftrace::Recording::start(
        &[kept_events().as_slice(), TIMER_EVENTS, SOCKET_EVENTS].concat(),
        256,
    )?;
    thread::sleep(Duration::from_millis(300));
    let before = pids.map(bpf::programs_of);
    ftrace.mark("begin")?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_millis(300));
    run_programs()?;
    load.stop()?;
    ftrace.mark("end")?;
    let after = pids.map(bpf::programs_of);
    let mut recorders = [own, through];
    for recorder in &mut recorders {
        recorder.stop(libc::SIGINT)?;
        println!("{}", recorder.process.stderr()?);
    }
    for (recorder, lacks_timers) in recorders.iter().zip([false, true]) {
        let said = recorder
            .process
            .stderr()?
            .contains("without hrtimer_expire_entry, hrtimer_expire_exit");
        ensure!(said == lacks_timers, "{}", recorder.process.stderr()?);
    }
    let mut trace = ftrace.stop()?;
    ensure_sight(&trace.sights)?;
    let window = Window { from_ns: trace.mark_ns("begin")?, to_ns: trace.mark_ns("end")? };
    let mut usual_ns = trace.shortest_gap_ns as f64;
    for (before, after) in before.into_iter().zip(after) {
        usual_ns += slowest_program_ns(&before?, &after?);
    }
    for (recorder, has_timers) in recorders.iter().zip([true, false]) {
        if !has_timers {
            trace.events.retain(|event| !is_on_demand(event));
        }
        let recording = recorded(recorder.folder.path())?;
        ensure_recorded(&trace, &recording.stretch, window, usual_ns)?;
        ensure_present(&recording.stretch, window, &KINDS)?;
        let on_demand =
            ["hrtimer entry", "hrtimer exit", "sock send", "sock receive", "sock ready"];
        let timers = ensure_present(&recording.stretch, window, &on_demand);
        ensure!(timers.is_ok() == has_timers, "timers: {timers:?}");
        ensure_babeltrace(recorder.folder.path(), &recording)?;
    }
    Ok(())
}

/// Whether a program, by its name, is one of those that only a recording attaches.
fn is_of_timers(program: &str) -> bool {
    program.contains("_hrtimer_")
}

/// Whether only programs of a recording's own see it.
fn is_on_demand(event: &Event) -> bool {
    matches!(
        event.kind,
        Kind::HrtimerEntry { .. }
            | Kind::HrtimerExit { .. }
            | Kind::SockLength { .. }
            | Kind::SockState { .. }
            | Kind::DataReady
    )
}

/// Something of either class, a little.
fn touch_both_classes() -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    for _ in 0..20 {
        sender.send_to(b"noised", receiver.local_addr()?)?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn ensure_only(folder: &Path, wanted: &str, unwanted: &str) -> Result<()> {
    let (events, discarded) = counted(folder)?;
    println!("{events:?}");
    ensure!(discarded == 0 && events.contains_key(wanted), "{discarded} lost of {events:?}");
    let is_io = |name: &str| {
        ["block_", "net", "skb_", "tcp_", "sock_", "sk_", "inet_"]
            .iter()
            .any(|of| name.starts_with(of))
    };
    let others = events.keys().filter(|name| !name.contains("statedump_"));
    let strays: Vec<_> = others.filter(|name| is_io(name) == is_io(unwanted)).collect();
    ensure!(strays.is_empty(), "there are {strays:?}");
    Ok(())
}

fn record_of_classes() -> Result<()> {
    let outcome = run_noised(&["record", "--events", "disk", "--duration", "1s"])?;
    let reason = "expected sched, io, ipc, or several";
    ensure!(outcome.code == 2 && outcome.stderr.contains(reason), "{outcome:?}");
    let daemon = Socketed::start(&["--recorder.kibibytes-per-cpu=4096"])?;
    let socket = daemon.socket.to_str().context("a path that is not UTF-8")?;
    for (class, wanted, unwanted) in
        [("sched", "sched_switch", "net_dev_queue"), ("io", "net_dev_queue", "sched_switch")]
    {
        // Hooks of the other class are not even attached.
        let mut own = Recorder::start(&["--own", "--events", class])?;
        let all = bpf::programs_of(own.process.pid())?;
        let mut through = Recorder::start(&["--connect", socket, "--events", class])?;
        touch_both_classes()?;
        for recorder in [&mut own, &mut through] {
            recorder.stop(libc::SIGINT)?;
            ensure_only(recorder.folder.path(), wanted, unwanted)?;
        }
        ensure!(!all.is_empty() && all.len() < 45, "{} programs", all.len());
        println!("{} programs for {class}", all.len());
    }
    let outcome = run_noised(&["record", "--connect", socket, "--events", "sched,ipc"])?;
    let reason = "keeps no ipc events, as no daemon does: record as root with --own";
    ensure!(outcome.code == 2 && outcome.stderr.contains(reason), "{outcome:?}");
    drop(daemon);
    let daemon = Socketed::start(&["--recorder.classes=sched"])?;
    let socket = daemon.socket.to_str().context("a path that is not UTF-8")?;
    let outcome = run_noised(&["record", "--connect", socket, "--events", "io"])?;
    ensure!(outcome.code == 2 && outcome.stderr.contains("keeps no io events"), "{outcome:?}");
    Ok(())
}

/// On each of two CPUs, half of what one does that only switches to and fro: so there is time for a recorder
/// where these are all.
fn record_of_a_million_a_second() -> Result<()> {
    let last = (cpus() - 1).to_string();
    let mut recorder = Recorder::start(&["--own", "--events", "sched"])?;
    let loads =
        [Worker::start("pipe", &["0", "0", "30"])?, Worker::start("pipe", &[&last, &last, "30"])?];
    let begin = Instant::now();
    thread::sleep(Duration::from_millis(1500));
    let length = begin.elapsed();
    let mut rounds = 0;
    for load in loads {
        rounds += load.stop()?.get("rounds").copied().unwrap_or(0);
    }
    recorder.stop(libc::SIGINT)?;
    let (events, discarded) = counted(recorder.folder.path())?;
    let all: u64 = events.values().sum();
    println!("{}", recorder.process.stderr()?);
    println!("{rounds} rounds; {:.0} events a second", all as f64 / length.as_secs_f64());
    ensure!(discarded == 0, "{discarded} events of {all} are lost");
    // Each round switches to the other one, and back.
    let switches = events.get("sched_switch").copied().unwrap_or(0);
    ensure!(switches >= 2 * rounds, "{switches} switches");
    Ok(())
}

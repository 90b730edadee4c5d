//! `noise-bench`: what noised costs the work that it watches, against nothing, empty programs and
//! other tools, and what it costs by itself. Started by `cargo xtask bench`.

use std::process::ExitCode;
use std::time::Duration;

use noise_host::kernel::KernelError;

use anyhow::{Context as _, Result, anyhow};
use clap::{Parser, ValueEnum};
use noise_common::store::Class;
use noise_tests::bench::interleave::{Steady, count_calls, take_turns};
use noise_tests::bench::machine::Machine;
use noise_tests::bench::probes::{ProbeSet, Programs};
use noise_tests::bench::ratios::{compare, median};
use noise_tests::bench::report::{ProgramResult, Report, SetResult, Skipped};
use noise_tests::bench::workload::{ECHO, Kind, Workload, echo};
use noise_tests::bench::{daemon_cost, peers, table, view};
use noise_tests::task::is_root;

/// Part of the time that goes to the daemon's process.
const DAEMON_SHARE: f64 = 0.3;

/// A set of noised's own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Set {
    /// Empty programs on hooks that the workload does not fire: what the method itself adds.
    Null,
    /// Empty programs on all hooks.
    Empty,
    /// The programs that measure, with the flight recorder.
    Noised,
    /// The programs that measure, without it.
    NoRecorder,
    /// Those of `noised record --own --events sched`.
    Sched,
    /// Those of `noised record --own --events io`.
    Io,
    /// Those of `noised record --own --events ipc`.
    Ipc,
}

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The daemon's process.
    Daemon,
    /// The slowdown of workloads.
    Programs,
    /// Frames of `noised top`.
    View,
}

/// Measure what noised costs the work that it watches.
///
/// Programs are loaded once; their links are made and closed between bursts of a workload, and each
/// turn is compared with its two neighbours without programs. The set "null" must read 1.00.
#[derive(Debug, Parser)]
#[command(name = "noise-bench", version)]
struct Options {
    /// Measure these parts only
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Daemon, Part::Programs, Part::View])]
    only: Vec<Part>,
    /// Workloads to slow down
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Pipe, Kind::Tcp, Kind::Disk, Kind::Loop])]
    workloads: Vec<Kind>,
    /// Sets of noised's programs to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Set::Null, Set::Empty, Set::Noised])]
    sets: Vec<Set>,
    /// Time for all measurements, without preparations
    #[arg(long, value_name = "N", default_value_t = 90)]
    seconds: u32,
    /// Attach these hooks of noised only
    #[arg(long, value_name = "TRACEPOINT", value_delimiter = ',')]
    hooks: Vec<String>,
    /// Leave out libbpf-tools and bpftrace
    #[arg(long)]
    no_peers: bool,
    /// Leave out the daemon's process (NOISED_BIN, or target/release/noised)
    #[arg(long)]
    no_daemon: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ECHO) {
        // The program that started this notices its end.
        return echo().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let options = Options::parse();
    if options.only != [Part::View] && !is_root() {
        eprintln!("noise-bench: loading BPF programs needs root; run it as root");
        return ExitCode::from(3);
    }
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noise-bench: {error:#}");
            let unsupported =
                error.downcast_ref::<KernelError>().is_some_and(KernelError::is_unsupported);
            ExitCode::from(if unsupported { 3 } else { 1 })
        }
    }
}

fn run(options: Options) -> Result<()> {
    let mut report = Report {
        machine: Machine::this(),
        results: Vec::new(),
        programs: Vec::new(),
        daemon: None,
        view: Vec::new(),
        skipped: Vec::new(),
    };
    let time = Duration::from_secs(options.seconds.into());
    let json = options.json;
    let wanted = |part| options.only.contains(&part);
    let with_daemon = wanted(Part::Daemon) && !options.no_daemon;
    let daemon_time = match (with_daemon, wanted(Part::Programs)) {
        (false, _) => Duration::ZERO,
        (true, false) => time,
        (true, true) => time.mul_f64(DAEMON_SHARE),
    };
    // First, while nothing else takes memory.
    if wanted(Part::View) {
        eprintln!("frames of the view");
        report.view = view::measure()?;
    }
    // While nothing else is loaded.
    if with_daemon {
        eprintln!(
            "the daemon's process: {:.0} s, after {:.0} s in which it settles",
            daemon_time.as_secs_f64(),
            daemon_cost::SETTLE.as_secs_f64()
        );
        match daemon_cost::measure(daemon_time) {
            Ok(cost) => report.daemon = Some(cost),
            Err(error) => skip(&mut report, "the daemon's process", &error),
        }
    }
    if wanted(Part::Programs) {
        // A thread of its own, since it binds itself to a CPU.
        let slowdowns = std::thread::spawn(move || -> Result<Report> {
            measure_slowdowns(&options, time - daemon_time, &mut report)?;
            Ok(report)
        });
        report = slowdowns.join().ok().context("the measuring thread has panicked")??;
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table::render(&report));
    }
    Ok(())
}

fn skip(report: &mut Report, what: &str, error: &anyhow::Error) {
    let reason = format!("{error:#}");
    eprintln!("skipped: {what}: {reason}");
    report.skipped.push(Skipped { what: what.to_owned(), reason });
}

/// Loads the sets asked for. The first is always of empty programs: it finds out which hooks fire.
fn load_sets(options: &Options, report: &mut Report) -> Result<Vec<ProbeSet>> {
    let scout = "scout".to_owned();
    let mut sets = vec![ProbeSet::load(scout, Programs::Empty, &[])?];
    for (set, name, programs) in [
        (Set::Empty, "empty", Programs::Empty),
        (Set::Noised, "noised", Programs::Noised),
        (Set::NoRecorder, "no_recorder", Programs::NoRecorder),
        (Set::Sched, "sched", Programs::Recording(Class::Sched)),
        (Set::Io, "io", Programs::Recording(Class::Io)),
        (Set::Ipc, "ipc", Programs::Recording(Class::Ipc)),
    ] {
        if !options.sets.contains(&set) {
            continue;
        }
        sets.push(ProbeSet::load(name.to_owned(), programs, &options.hooks)?);
    }
    if !options.no_peers {
        for (name, peer) in [("libbpf_tools", peers::four_tools()), ("bpftrace", peers::bpftrace())]
        {
            match peer {
                Ok(set) => sets.push(set),
                Err(error) => skip(report, name, &error),
            }
        }
    }
    Ok(sets)
}

fn measure_slowdowns(options: &Options, time: Duration, report: &mut Report) -> Result<()> {
    eprintln!("loading programs");
    let sets = load_sets(options, report)?;
    let steady = Steady::make()?;
    let cpu = steady.cpu;
    if let Some(reason) = &steady.may_sleep {
        let error = anyhow!("{reason}; expect wider quartiles");
        skip(report, "keeping idle CPUs awake", &error);
    }
    let share = time / u32::try_from(options.workloads.len().max(1))?;
    for kind in &options.workloads {
        eprintln!("{}: {:.0} s on CPU {cpu}", kind.name(), share.as_secs_f64());
        match Workload::prepare(*kind) {
            Ok(mut workload) => measure_workload(options, &mut workload, &sets, share, report)?,
            Err(error) => skip(report, kind.name(), &error),
        }
    }
    Ok(())
}

fn measure_workload(
    options: &Options,
    workload: &mut Workload,
    sets: &[ProbeSet],
    time: Duration,
    report: &mut Report,
) -> Result<()> {
    let name = match &workload.subject {
        Some(subject) if workload.kind == Kind::Disk => format!("disk {subject}"),
        _ => workload.kind.name().to_owned(),
    };
    let mut compared: Vec<&ProbeSet> = Vec::new();
    let null;
    if let Some((scout, others)) = sets.split_first() {
        let fired = count_calls(workload, scout)?;
        let silent = scout
            .probes
            .iter()
            .filter(|probe| fired.iter().any(|calls| calls.hook == probe.hook && calls.runs == 0));
        null = ProbeSet::new("null".to_owned(), silent.cloned().collect());
        if options.sets.contains(&Set::Null) {
            compared.push(&null);
        }
        for set in others {
            let calls = count_calls(workload, set)?;
            let named = |calls| ProgramResult::new(&name, &set.name, calls);
            report.programs.extend(calls.iter().filter_map(named));
            compared.push(set);
        }
    }
    let turns = take_turns(workload, &compared, time)?;
    for (index, (set, toggles_ms)) in compared.iter().zip(&turns.toggles_ms).enumerate() {
        if let (Some(comparison), Some(toggle_ms)) =
            (compare(&turns.turns, index), median(toggles_ms))
        {
            report.results.push(SetResult::new(&name, &set.name, &comparison, toggle_ms));
        }
    }
    Ok(())
}

//! `noise-reading`: how fast noised reads traces, and in how much memory, beside babeltrace2. Started by
//! `cargo xtask bench reading`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use noise_tests::bench::machine::Machine;
use noise_tests::bench::reading::input::Original;
use noise_tests::bench::reading::report::{Report, Round, render, results};
use noise_tests::bench::reading::simulated::{self, WARM_EVENTS};
use noise_tests::bench::reading::{FIELDS, PROGRAMS, Program, fields};
use noise_tests::scratch::Folder;
use noise_tests::task;

/// Measure how fast noised reads traces, beside babeltrace2.
///
/// A trace is written several times, as one, to the folder for temporary files (TMPDIR). Every program reads it on
/// the same CPU, with its output going to /dev/null, and they take turns; the ratios are those of CPU time within a
/// round. The program that is run twice must read 1.00 against itself.
///
/// With the word `simulated` alone, a hundred million events of a simulated machine go through the builder of critical
/// paths, and what memory that takes is printed.
#[derive(Debug, Parser)]
#[command(name = "noise-reading", version)]
struct Options {
    /// The trace to repeat: a folder of LTTng's kernel tracer
    #[arg(long, value_name = "FOLDER", default_value_os_t = many_threads())]
    trace: PathBuf,
    /// Length of all repetitions
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000_000)]
    bytes: u64,
    /// How often each program has its turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Leave out what writes text
    #[arg(long)]
    no_text: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The trace beside the repository, or in the folder that NOISED_TRACES names.
fn many_threads() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    env::var_os("NOISED_TRACES").map_or_else(beside, PathBuf::from).join("many-threads")
}

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let result = match arguments.next() {
        Some(first) if first == FIELDS => {
            let folder = arguments.next().map(PathBuf::from).unwrap_or_default();
            fields::read(&folder).map(|read| println!("{read:?}"))
        }
        Some(first) if first == SIMULATED => simulate(),
        _ => run(&Options::parse()),
    };
    task::ended("noise-reading", result)
}

/// The argument that lets events of a simulated machine happen, instead of reading a trace.
const SIMULATED: &str = "simulated";
/// How many.
const SIMULATED_EVENTS: u64 = 100_000_000;

fn simulate() -> Result<()> {
    let found = simulated::run(WARM_EVENTS, SIMULATED_EVENTS)?;
    println!("{}", serde_json::to_string_pretty(&found)?);
    Ok(())
}

fn run(options: &Options) -> Result<()> {
    let original = Original::open(&options.trace)?;
    let times = original.times_for(options.bytes);
    let (once, repeated) = (Folder::new("once")?, Folder::new("repeated")?);
    eprintln!("writing {} {times} times to {}", options.trace.display(), repeated.path().display());
    original.write(once.path(), 1)?;
    original.write(repeated.path(), times)?;
    let events = times * fields::read(once.path()).context("counting events")?.events;

    let machine = Machine::this();
    let cpu = task::cpus() - 1;
    task::pin(0, cpu)?;
    let is_wanted = |program: &Program| {
        !options.no_text || !matches!(program, Program::Text | Program::TheirText)
    };
    let round = |folder: &Folder, last_ns: u64| -> Result<Round> {
        let programs = PROGRAMS.into_iter().filter(is_wanted);
        programs.map(|program| Ok((program, program.run(folder.path(), last_ns)?))).collect()
    };
    let last_ns = times.saturating_sub(1) * original.shift;
    let first = round(&once, 0)?;
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        eprintln!("round {number} of {}", options.rounds);
        rounds.push(round(&repeated, last_ns)?);
    }
    let report = Report {
        machine,
        cpu,
        times,
        events,
        bytes: times * original.bytes,
        rounds: rounds.len(),
        programs: results(&rounds, &first, events),
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", render(&report));
    }
    Ok(())
}

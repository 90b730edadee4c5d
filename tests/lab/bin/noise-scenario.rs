//! `noise-scenario`: the noise paper's test cases, quiet and noisy side by side. Started by
//! `cargo xtask scenario`.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use noise_tests::daemon::{Daemon, binary, run_noised};
use noise_tests::load;
use noise_tests::scenario::compared::program::Program;
use noise_tests::scenario::compared::{arguments, faults, quota};
use noise_tests::scenario::{
    CpuStage, DiskStage, IrqLoad, IrqStage, NetworkStage, PathStage, Report, Stage, pinned, play,
    render, tiers,
};
use noise_tests::scratch::argument;
use noise_tests::task::{cpus, ended_as_root};
use serde_json::{Value, json};

/// What the program of the critical path searches in each step: some 20 ms of work.
const PRIMES: u64 = 40_000;

/// How much is recorded to compare: a hundred normal executions, ten of each fault.
const AMOUNT: faults::Amount = faults::Amount { rounds: 20, sample_rounds: 2, sets: 20 };
/// Rounds with a quota.
const QUOTA_ROUNDS: u32 = 4;

/// A test case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// A prime search beside nine CPU burners
    Cpu,
    /// Ten threads reading ten files beside three recursive greps
    Disk,
    /// A rate-limited download beside a bulk one
    Network,
    /// A download under an interrupt load
    Irq,
    /// The critical path of a program beside nine CPU burners, from two recordings
    CriticalPath,
    /// Executions of a program with faults compared with normal ones
    CompareFaults,
    /// Executions of a program that has a tenth of a CPU compared with normal ones
    CompareQuota,
    /// Requests through nginx, a Python application and redis, which are unpacked for it: joined, explained, and what that costs
    Tiers,
    /// Worker threads of one process that are all bound to one CPU
    PinnedWorkers,
}

/// Plant a culprit, and show what noised says without it and beside it.
///
/// Starts the daemon that NOISED_BIN names (else target/release/noised) on a free port of loopback; the cases of the
/// critical path and of comparisons record with it instead. Everything that it plants (cgroups, files, network namespaces) is gone at the end.
#[derive(Debug, Parser)]
#[command(name = "noise-scenario", version)]
struct Options {
    /// What to plant
    case: Case,
    /// Length of each of the two phases; not in cases that record
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Size of each file that is read in the disk case
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=100))]
    file_size: u64,
    /// How often the program of the critical path does its work in each phase
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    executions: u64,
    /// How many normal samples are compared with normal executions in the case of faults
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    sets: u32,
    /// How often what following requests costs is measured in the case of tiers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Where recordings stay, in folders of this one
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if let Some(code) = load::instead() {
        return code;
    }
    let options = Options::parse();
    ended_as_root("noise-scenario", "the daemon, cgroups and namespaces", || run(&options))
}

fn prepare(options: &Options) -> Result<Box<dyn Stage>> {
    Ok(match options.case {
        Case::Cpu => Box::new(CpuStage::prepare()?),
        Case::Disk => {
            let size = usize::try_from(options.file_size)?;
            let stage = DiskStage::prepare(size)?;
            Box::new(stage.context("the temporary directory is on no block device; set TMPDIR")?)
        }
        Case::Network => Box::new(NetworkStage::prepare()?),
        Case::Irq => Box::new(IrqStage::prepare(IrqLoad::Everything)?),
        Case::CriticalPath
        | Case::CompareFaults
        | Case::CompareQuota
        | Case::Tiers
        | Case::PinnedWorkers => bail!("this case has no phases of a daemon"),
    })
}

/// Records twice, and hands over to the command that holds one recording against the other.
fn critical_path(options: &Options) -> Result<()> {
    eprintln!("preparing");
    let stage = PathStage::prepare(options.keep.as_deref(), options.executions, PRIMES)?;
    let record = |name: &str, is_noisy| {
        eprintln!("{name}: recording {} executions", options.executions);
        stage.record(is_noisy)
    };
    let (quiet, noisy) = (record("quiet", false)?, record("beside nine burners", true)?);
    let (quiet, noisy) = (argument(&quiet.folder)?, argument(&noisy.folder)?);
    let execution = PathStage::execution();
    let arguments =
        ["trace", "critical-path", noisy, "--against", quiet, "--execution", &execution];
    if options.json {
        let paths: Value = run_noised(&[&arguments[..], &["--json"]].concat())?.json()?;
        let report = json!({ "plot": stage.plot(), "paths": paths });
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("{}\n", stage.plot().replace(": ", ":\n"));
    let status = Command::new(binary()?).args(arguments).status()?;
    ensure!(status.success(), "noised trace critical-path ended with {status}");
    if options.keep.is_some() {
        println!("\nnoised {}", arguments.join(" "));
    }
    Ok(())
}

/// What is needed for executions that are compared.
fn program(options: &Options) -> Result<Program> {
    let program = Program::prepare(options.keep.as_deref())?;
    program.context("the temporary directory is on no block device; set TMPDIR")
}

/// Says what can be looked at further.
fn say_kept(options: &Options, normal: &str, samples: &[&str]) -> Result<()> {
    let Some(keep) = &options.keep else { return Ok(()) };
    println!();
    for sample in samples {
        println!("noised {}", arguments(&keep.join(normal), &keep.join(sample))?.join(" "));
    }
    Ok(())
}

/// Faults that are planted into a program, and what is found of them.
fn compare_faults(options: &Options) -> Result<()> {
    let program = program(options)?;
    let amount = faults::Amount { sets: options.sets, ..AMOUNT };
    let found = faults::findings(&program, amount, |next| eprintln!("recording {next}"))?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
        return Ok(());
    }
    let faults::Findings { normal, sets, false_alarms, faults, is_whole, .. } = found;
    let part = |count: usize| format!("{count} ({:.1} %)", 100.0 * count as f64 / normal as f64);
    println!(
        "{normal} normal executions; {} count with a cluster of their own kind, {} are not between clusters",
        part(found.with_their_kind),
        part(found.in_their_cluster)
    );
    println!("{sets} normal samples; in {} of them a state is flagged", false_alarms.len());
    false_alarms.iter().for_each(|reason| println!("  {reason}"));
    println!(
        "\nfault    executions  found  first place right  flagged; states of the first places"
    );
    for one in &faults {
        let states = one.states.iter().map(|(state, count)| format!("{state} {count}"));
        let states = states.collect::<Vec<_>>().join(", ");
        println!(
            "{:<8} {:>10} {:>6} {:>18}  {}; {states}",
            one.fault,
            one.executions,
            one.found,
            one.placed,
            one.flagged.join(", ")
        );
        one.missed.iter().for_each(|missed| println!("         {missed}"));
    }
    if !is_whole {
        println!("\nsome recordings lost events");
    }
    let names: Vec<_> = faults.iter().map(|one| one.fault).collect();
    say_kept(options, "normal", &names)
}

/// A quota that a program runs under, and what is found of it.
fn compare_quota(options: &Options) -> Result<()> {
    let program = program(options)?;
    let rounds = AMOUNT.rounds;
    let found =
        quota::findings(&program, rounds, QUOTA_ROUNDS, |next| eprintln!("recording {next}"))?;
    let found = found.context("this host limits the CPU time of no group")?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
        return Ok(());
    }
    println!("{} normal executions, {} with a tenth of a CPU", found.normal, found.executions);
    println!("flagged: {}", found.flagged.join(", "));
    println!(
        "{} lost most in waits for a CPU, {:.0} ms in all; {:.0} ms are charged to their own quota, which has most of it in \
         {} of them",
        found.waited, found.lost_ms, found.charged_ms, found.charged
    );
    println!(
        "the quota stopped the group for {:.0} ms, says the kernel; {:.0} ms of that are on the paths",
        found.kernel_ms, found.throttled_ms
    );
    if !found.is_whole {
        println!("some recordings lost events");
    }
    say_kept(options, "unlimited", &["limited"])
}

/// Requests through three tiers.
fn follow_tiers(options: &Options) -> Result<()> {
    let rounds = usize::try_from(options.rounds)?;
    let keep = options.keep.as_deref();
    let found = tiers::findings(keep, rounds, |next| eprintln!("{next}"))?;
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => print!("{}", tiers::render(&found)),
    }
    Ok(())
}

/// Worker threads on one CPU.
fn pinned_workers(options: &Options) -> Result<()> {
    ensure!(cpus() > 1, "this case needs two CPUs");
    let found = pinned::findings(options.keep.as_deref())?;
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => print!("{}", pinned::render(&found)),
    }
    Ok(())
}

/// Says how far a phase is, where somebody may be watching.
fn progress(name: &str, passed: Duration, length: Duration) {
    if stderr().is_terminal() {
        let left = length.saturating_sub(passed).as_secs_f64().ceil();
        eprint!("\r{name}: {left} s left   ");
        // Nothing depends on it.
        let _ = stderr().flush();
    }
}

fn run(options: &Options) -> Result<()> {
    match options.case {
        Case::CriticalPath => return critical_path(options),
        Case::CompareFaults => return compare_faults(options),
        Case::CompareQuota => return compare_quota(options),
        Case::Tiers => return follow_tiers(options),
        Case::PinnedWorkers => return pinned_workers(options),
        _ => {}
    }
    let length = Duration::from_secs(options.seconds);
    eprintln!("starting noised");
    let daemon = Daemon::start()?;
    eprintln!("preparing");
    let stage = prepare(options)?;
    let phase = |name: &str, noisy| {
        eprintln!("{name}: {} s", length.as_secs());
        let phase = play(
            &daemon,
            &*stage,
            noisy,
            length,
            |passed| progress(name, passed, length),
            || Ok(()),
        );
        if stderr().is_terminal() {
            eprint!("\r{:30}\r", "");
        }
        phase
    };
    let (quiet, noisy) = (phase("quiet", false)?, phase("noisy", true)?);
    let report = Report::new(&*stage, &quiet, &noisy)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", render(&report));
    }
    Ok(())
}

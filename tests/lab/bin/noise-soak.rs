//! `noise-soak`: the daemon under a mixed load for long. Started by `cargo xtask soak`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use noise_tests::load;
use noise_tests::soak::{Plan, Reading, heading, judge, row, soak};
use noise_tests::task::ended_as_root;

/// Keep noised under a mixed load, and show what it holds.
///
/// Starts the daemon that NOISED_BIN names (else target/release/noised) on a free port of loopback, with
/// switches, cgroups that come and go, devices that come and go, a scrape each second, a view of it,
/// and a disturbance each minute. Fails where its memory grows beyond the bound, descriptors grow by more
/// than 8, threads grow at all, or a counter runs backwards; from half an hour on also where memory grows
/// by more than 1 MiB per hour for certain, or map entries or series go on growing.
#[derive(Debug, Parser)]
#[command(name = "noise-soak", version)]
struct Options {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// How often it is looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    every: u64,
    /// How much its resident memory may grow behind the first fifth of the time
    #[arg(long, value_name = "MIB", default_value_t = 4)]
    growth: u64,
}

fn main() -> ExitCode {
    if let Some(code) = load::instead() {
        return code;
    }
    let options = Options::parse();
    ended_as_root("noise-soak", "the daemon, cgroups and devices", || run(&options))
}

fn run(options: &Options) -> Result<()> {
    let plan = Plan {
        length: Duration::from_secs(options.minutes * 60),
        every: Duration::from_secs(options.every),
    };
    println!("{}", heading());
    let show = |reading: &Reading| println!("{}", row(reading));
    let (readings, work) = soak(&plan, show)?;
    println!("\nwork done: {work}");
    let verdict = judge(&readings, options.growth << 20)?;
    println!("{verdict}");
    Ok(())
}

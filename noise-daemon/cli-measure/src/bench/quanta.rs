//! `noised bench ftq` and `noised bench fwq`: fixed quanta of time, and of work.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use noise_command::CommandError;
use noise_command::interrupt;
use noise_command::output;
use noise_command::progress::Progress;
use noise_measure::cpus;
use noise_measure::error::MeasureError;
use noise_measure::placement::Priority;
use noise_measure::quanta::{self, QuantaOptions, QuantaReport, SAMPLES_MAX};
use noise_text::cpulist::CpuList;

use super::files;
use crate::measured::measured;
use noise_command::durations::{Plain, duration, nanoseconds};

/// Arguments of `noised bench ftq`.
#[derive(Debug, clap::Args)]
pub struct FtqArgs {
    /// Length of a quantum (200us; without a unit: microseconds). A tick is seen up to half as many Hz
    /// as there are quanta in a second.
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = quantum)]
    quantum: Duration,
    #[command(flatten)]
    common: CommonArgs,
}

/// Arguments of `noised bench fwq`.
#[derive(Debug, clap::Args)]
pub struct FwqArgs {
    /// Work of a quantum: what takes so long without noise on the first of the CPUs (200us; without a
    /// unit: microseconds). A tick is seen up to half as many Hz as there are quanta in a second.
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = quantum)]
    work_quantum: Duration,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// CPUs to measure, all at once (0-3,8) [default: all].
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// How long to measure (10s, 1m; without a unit: seconds).
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = length)]
    duration: Duration,
    /// Scheduling of the measuring threads: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD.
    #[arg(long, value_name = "POLICY")]
    priority: Option<Priority>,
    /// Print every quantum as JSON, and a summary of each CPU.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print every quantum as CSV.
    #[arg(long)]
    csv: bool,
    /// Also draw: the quanta over time on each CPU, and their spectrum.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn quantum(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Microseconds, Duration::from_micros(10), Duration::from_secs(1))
}

fn length(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Seconds, Duration::from_millis(10), Duration::from_secs(24 * 3600))
}

/// Runs `noised bench ftq`.
pub fn ftq(args: &FtqArgs) -> Result<(), CommandError> {
    let measure = |options: &QuantaOptions, stop: &AtomicBool, progress: &mut Progress| {
        quanta::ftq(options, stop, |passed| progress.at(passed))
    };
    run(&args.common, args.quantum, measure)
}

/// Runs `noised bench fwq`.
pub fn fwq(args: &FwqArgs) -> Result<(), CommandError> {
    let measure = |options: &QuantaOptions, stop: &AtomicBool, progress: &mut Progress| {
        quanta::fwq(options, stop, |passed| progress.at(passed))
    };
    run(&args.common, args.work_quantum, measure)
}

type Measure = fn(&QuantaOptions, &AtomicBool, &mut Progress) -> Result<QuantaReport, MeasureError>;

fn run(args: &CommonArgs, quantum: Duration, measure: Measure) -> Result<(), CommandError> {
    if let Some(path) = &args.svg {
        files::check(path)?;
    }
    let options = options(args, quantum)?;
    let stop = interrupt::flag()?;
    let mut progress = Progress::new("measuring", args.duration);
    let report = measure(&options, &stop, &mut progress).map_err(measured)?;
    drop(progress);
    if let Some(path) = &args.svg {
        output::save(path, &quanta::svg(&report).context("cannot draw")?)?;
    }
    if args.json {
        return Ok(output::print_json(&quanta::json(&report).context("cannot write JSON")?)?);
    }
    let text = if args.csv { quanta::csv(&report) } else { quanta::text(&report) };
    Ok(output::print(&text)?)
}

fn options(args: &CommonArgs, quantum: Duration) -> Result<QuantaOptions, CommandError> {
    let options = QuantaOptions {
        cpus: cpus::choose(args.cpus.as_ref()).map_err(measured)?,
        duration: args.duration,
        quantum_ns: nanoseconds(quantum),
        priority: args.priority.unwrap_or_default(),
    };
    match options.samples(options.quantum_ns) {
        0 => Err(CommandError::misused(format!(
            "no quantum of {quantum:?} fits into {:?}: choose a shorter one, or measure longer",
            args.duration
        ))),
        samples if samples > SAMPLES_MAX => Err(CommandError::misused(format!(
            "{samples} quanta are more than the {SAMPLES_MAX} that are kept: choose a longer one \
             than {quantum:?}, or measure shorter than {:?}",
            args.duration
        ))),
        _ => Ok(options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_command::fixtures::parsed;

    fn ftq_options(words: &[&str]) -> Result<QuantaOptions, String> {
        let ftq: FtqArgs = parsed(words).map_err(|error| error.to_string())?;
        options(&ftq.common, ftq.quantum).map_err(|error| error.to_string())
    }

    #[test]
    fn options_have_bounds() {
        let default = ftq_options(&[]).unwrap();
        assert_eq!((default.quantum_ns, default.duration), (200_000, Duration::from_secs(10)));
        let error = ftq_options(&["--quantum", "1s", "--duration", "20ms"]).unwrap_err();
        assert!(error.starts_with("no quantum of 1s fits into 20ms: "), "{error}");
        let error = ftq_options(&["--quantum", "10us", "--duration", "2h"]).unwrap_err();
        assert!(error.starts_with("720000000 quanta are more than the 10000000 "), "{error}");
        for wrong in [&["--quantum", "1us"], &["--quantum", "2s"], &["--cpus", "x"]] {
            assert!(ftq_options(wrong).is_err(), "{wrong:?}");
        }
        assert!(ftq_options(&["--json", "--csv"]).is_err());
    }
}

//! `noised bench detour`: the selfish detour bench, with what every detour was.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use noise_command::CommandError;
use noise_command::interrupt;
use noise_command::output;
use noise_command::progress::Progress;
use noise_measure::DetourReport;
use noise_measure::cpus;
use noise_measure::detours;
use noise_measure::placement::Priority;
use noise_measure::selfish::{self, DetourOptions, Threshold};
use noise_text::cpulist::CpuList;

use super::files;
use crate::measured::measured;
use noise_command::durations::{self, Plain, duration};

/// Bounds of the duration.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Arguments of `noised bench detour`.
#[derive(Debug, clap::Args)]
pub struct DetourArgs {
    /// CPUs to measure, all at once (0-3,8) [default: all].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// How long to measure (10s, 1m; without a unit: seconds).
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = length)]
    pub duration: Duration,
    /// A gap of this length is a detour: a time (1us; without a unit: microseconds), or a multiple of
    /// the shortest pass of the loop on that CPU (9x).
    #[arg(long, value_name = "TIME|MULTIPLE", default_value = "1us", value_parser = threshold)]
    pub threshold: Threshold,
    /// Scheduling of the measuring threads: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD.
    #[arg(long, value_name = "POLICY")]
    pub priority: Option<Priority>,
    /// Print every detour as JSON, for `noised bench scale` and `noised bench compare`.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print every detour as CSV.
    #[arg(long)]
    pub csv: bool,
    /// Also draw: detours over time on each CPU, their lengths, and the share of each source.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write the noise of each CPU as LogGOPSim reads it, to PREFIX.CPU.
    #[arg(long, value_name = "PREFIX")]
    pub loggopsim: Option<PathBuf>,
}

fn length(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Seconds, SHORTEST, LONGEST)
}

fn threshold(text: &str) -> Result<Threshold, String> {
    if let Some(multiple) = text.strip_suffix('x') {
        return match multiple.parse() {
            Ok(passes) if (1.0..=1e6).contains(&passes) => Ok(Threshold::Passes(passes)),
            _ => Err("expected a multiple from 1x to 1000000x, such as 9x".to_owned()),
        };
    }
    let (least, most) = (Duration::from_nanos(1), Duration::from_secs(1));
    duration(text, Plain::Microseconds, least, most)
        .map(|time| Threshold::Time(durations::nanoseconds(time)))
}

pub fn run(args: &DetourArgs) -> Result<(), CommandError> {
    // What cannot be written is better known before than behind the measurement.
    let files = OutputFiles::open(args)?;
    let options = DetourOptions {
        cpus: cpus::choose(args.cpus.as_ref()).map_err(measured)?,
        duration: args.duration,
        threshold: args.threshold,
        priority: args.priority.unwrap_or_default(),
    };
    let stop = interrupt::flag()?;
    let mut progress = Progress::new("measuring", args.duration);
    let report =
        selfish::measure(&options, &stop, |passed| progress.at(passed)).map_err(measured)?;
    drop(progress);
    files.write(&report)?;
    if args.json {
        return Ok(output::print_json(&detours::json(&report).context("cannot write JSON")?)?);
    }
    let text = if args.csv { detours::csv(&report) } else { detours::text(&report) };
    Ok(output::print(&text)?)
}

/// Files that are written beside.
struct OutputFiles<'a> {
    svg: Option<&'a Path>,
    loggopsim: Option<&'a Path>,
}

impl<'a> OutputFiles<'a> {
    fn open(args: &'a DetourArgs) -> Result<Self, CommandError> {
        if let Some(path) = &args.svg {
            files::check(path)?;
        }
        if let Some(prefix) = &args.loggopsim {
            files::check(&files::of_cpu(prefix, 0))?;
        }
        Ok(Self { svg: args.svg.as_deref(), loggopsim: args.loggopsim.as_deref() })
    }

    fn write(&self, report: &DetourReport) -> anyhow::Result<()> {
        if let Some(path) = self.svg {
            output::save(path, &detours::svg(report).context("cannot draw")?)?;
        }
        if let Some(prefix) = self.loggopsim {
            for cpu in &report.cpus {
                output::save(&files::of_cpu(prefix, cpu.cpu), &detours::loggopsim(report, cpu))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_times_or_multiples() {
        assert_eq!(threshold("9x"), Ok(Threshold::Passes(9.0)));
        assert_eq!(threshold("1us"), Ok(Threshold::Time(1_000)));
        assert_eq!(threshold("5"), Ok(Threshold::Time(5_000)));
        for wrong in ["", "x", "0x", "0", "2h", "-1us", "nanx"] {
            assert!(threshold(wrong).is_err(), "{wrong}");
        }
    }
}

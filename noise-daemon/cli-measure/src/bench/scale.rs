//! `noised bench scale`: what measured noise does to a program on many nodes.

mod page;
mod quantity;

use std::path::PathBuf;

use noise_command::CommandError;
use noise_command::output::{print, print_json};
use noise_measure::DetourReport;
use noise_measure::scale::{
    Forecast, Noise, Periodic, Question, Ranking, Trace, TraceError, of_noise, of_periodic, rank,
};

use super::document::{json, read};

/// Arguments of `noised bench scale`.
#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    /// What `noised bench detour --json` wrote.
    #[arg(value_name = "REPORT", required_unless_present = "period")]
    report: Option<PathBuf>,
    /// Instead of a report: noise with this period (100ms; without a unit: microseconds) …
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, requires = "length")]
    #[arg(conflicts_with_all = ["report", "cpu"])]
    period: Option<f64>,
    /// … and this length (2500us; without a unit: microseconds).
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, requires = "period")]
    length: Option<f64>,
    /// How long each process computes between two waits for all the others (without a unit:
    /// microseconds); sources are ranked for the first one.
    #[arg(long, value_name = "DURATION,…", value_parser = quantity::duration)]
    #[arg(value_delimiter = ',', default_value = "100us,1ms,10ms,100ms")]
    granularity: Vec<f64>,
    /// Numbers of nodes.
    #[arg(long, value_name = "NUMBER,…", value_parser = quantity::nodes)]
    #[arg(value_delimiter = ',', default_value = "1,10,100,1e3,1e4,1e5,1e6,1e7")]
    nodes: Vec<u64>,
    /// Only this CPU: one process per node [default: one on each CPU that was measured].
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<u32>,
    /// Also play so many phases, on as many nodes as that is affordable for.
    #[arg(long, value_name = "PHASES", value_parser = clap::value_parser!(u32).range(20..))]
    simulate: Option<u32>,
    /// Where chance begins in playing: the same seed gives the same result.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed; a document of format `noised-scale`.
#[derive(Debug, serde::Serialize)]
struct ScalingDocument {
    format: &'static str,
    /// Version of this document.
    version: u32,
    noise: NoiseInput,
    /// One for each granularity.
    forecasts: Vec<Forecast>,
    /// The sources for the first granularity; None for noise that was not measured, and where the
    /// measurement is shorter than two phases.
    ranking: Option<Ranking>,
    /// What makes the figures doubtful.
    warnings: Vec<String>,
}

/// Where the noise comes from.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum NoiseInput {
    /// From a report.
    Measured {
        /// Name of the host.
        host: String,
        /// Release of its kernel.
        kernel: String,
        /// CPUs of a node.
        cpus: Vec<u32>,
        /// How long they were measured at once, ns.
        duration_ns: f64,
        /// Share of their time that detours took, 0..1.
        overhead: f64,
    },
    /// From --period and --length, ns.
    Periodic(Periodic),
}

pub fn run(args: &ScaleArgs) -> Result<(), CommandError> {
    let document = match (&args.report, args.period, args.length) {
        (Some(path), ..) => args.measured(&read(path)?)?,
        (None, Some(period_ns), Some(length_ns)) => args.periodic(period_ns, length_ns)?,
        _ => {
            let text = "what is to be scaled? give a REPORT, or --period and --length";
            return Err(CommandError::misused(text));
        }
    };
    match args.json {
        true => print_json(&json(&document)?)?,
        false => print(&page::page(&document))?,
    }
    Ok(())
}

impl ScaleArgs {
    fn question(&self) -> Question {
        Question {
            granularities_ns: self.granularity.clone(),
            nodes: self.nodes.clone(),
            phases: self.simulate.unwrap_or(0),
            seed: self.seed,
        }
    }

    fn measured(&self, report: &DetourReport) -> Result<ScalingDocument, CommandError> {
        let usage = |error: TraceError| match error {
            TraceError::NoSuchCpu(..) => CommandError::usage(error),
            _ => anyhow::Error::from(error).into(),
        };
        let trace = Trace::new(report, self.cpu).map_err(usage)?;
        // A trace has undisturbed time on each CPU, and thus is a node.
        let node = trace.node(Noise::All);
        let forecasts = node.map_or_else(Vec::new, |node| of_noise(&node, &self.question()));
        let first = self.granularity.first();
        let cpus = trace.cpus();
        let lost = report.cpus.iter().filter(|cpu| cpus.contains(&cpu.cpu));
        let lost: u64 = lost.map(|cpu| cpu.lost_detours).sum();
        let mut warnings: Vec<String> = forecasts.iter().filter_map(doubt).collect();
        if lost > 0 {
            warnings.push(format!(
                "{lost} detours were lost in measuring: the noise is more than these figures say"
            ));
        }
        Ok(ScalingDocument {
            noise: NoiseInput::Measured {
                host: report.host.clone(),
                kernel: report.kernel.clone(),
                cpus,
                duration_ns: trace.length(),
                overhead: trace.overhead(Noise::All),
            },
            ranking: first.and_then(|&first_ns| rank(&trace, first_ns, &self.nodes)),
            forecasts,
            warnings,
            ..ScalingDocument::new()
        })
    }

    fn periodic(&self, period_ns: f64, length_ns: f64) -> Result<ScalingDocument, CommandError> {
        let periodic = Periodic::new(period_ns, length_ns).ok_or_else(|| {
            let text =
                "--length must be shorter than --period: else there is no time to compute in";
            CommandError::misused(text)
        })?;
        Ok(ScalingDocument {
            noise: NoiseInput::Periodic(periodic),
            forecasts: of_periodic(&periodic, &self.question()),
            ..ScalingDocument::new()
        })
    }
}

impl ScalingDocument {
    const fn new() -> Self {
        Self {
            format: "noised-scale",
            version: 1,
            noise: NoiseInput::Measured {
                host: String::new(),
                kernel: String::new(),
                cpus: Vec::new(),
                duration_ns: 0.0,
                overhead: 0.0,
            },
            forecasts: Vec::new(),
            ranking: None,
            warnings: Vec::new(),
        }
    }
}

fn doubt(forecast: &Forecast) -> Option<String> {
    let phase = page::phase(forecast.granularity_ns);
    let windows = forecast.windows?;
    if forecast.rows.is_empty() {
        return Some(format!(
            "phases of {phase}: unknown, the measurement has not even two windows of that length; \
             measure longer"
        ));
    }
    let from = forecast.rows.iter().filter(|row| row.lower_bound).map(|row| row.nodes).min()?;
    Some(format!(
        "phases of {phase}: from {from} nodes on, the slowdowns of independent noise are lower \
         bounds (≥): the measurement has {windows} windows, and so many nodes meet longer delays \
         than it can show"
    ))
}

#[cfg(test)]
mod tests;

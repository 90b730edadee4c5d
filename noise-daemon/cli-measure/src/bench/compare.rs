//! `noised bench compare`: has one report less noise than another, source by source?

mod page;

use std::path::PathBuf;

use jiff::tz::TimeZone;
use noise_command::CommandError;
use noise_command::output::{print, print_json};
use noise_measure::compare::{CompareOptions, Comparison, compare};

use super::document::{json, read};

/// Arguments of `noised bench compare`.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// What `noised bench detour --json` wrote before.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// What it wrote after.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Share of intervals that have the true difference in them, above 0 and below 1.
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    confidence: f64,
    /// How often the reports' slices of time are drawn again.
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    resamples: u32,
    /// Where chance begins in drawing: the same seed gives the same result.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(serde::Serialize)]
struct ComparisonDocument<'a> {
    format: &'static str,
    /// Version of this document.
    version: u32,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("expected a share above 0 and below 1, such as 0.95".to_owned()),
    }
}

pub fn run(args: &CompareArgs) -> Result<(), CommandError> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let (confidence, resamples, seed) = (args.confidence, args.resamples, args.seed);
    let comparison = compare(&a, &b, CompareOptions { confidence, resamples, seed });
    match args.json {
        true => print_json(&document(&comparison)?)?,
        false => print(&page::page(&comparison, &TimeZone::system()))?,
    }
    Ok(())
}

fn document(comparison: &Comparison) -> anyhow::Result<String> {
    json(&ComparisonDocument { format: "noised-comparison", version: 1, comparison })
}

#[cfg(test)]
mod tests;

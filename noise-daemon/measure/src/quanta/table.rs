//! PURE: quanta as text for a person.

use std::fmt::Write as _;

use noise_text::table::Columns;
use noise_text::units::{count, duration, frequency, share};

use super::summary::rate;
use super::{QuantaReport, QuantaSummary, Quantum};

/// What is shown where there is no number.
const NONE: &str = "–";

/// The CPUs, and what was measured how.
pub fn text(report: &QuantaReport) -> String {
    let quanta = report.cpus.iter().map(|cpu| cpu.samples.len()).max().unwrap_or(0);
    let quanta = count(quanta as u64);
    let mut text = match report.quantum {
        Quantum::TimeNs(ns) => {
            let quantum = duration(ns as f64);
            format!("FTQ: units of work finished in each of {quanta} quanta of {quantum}\n\n")
        }
        Quantum::WorkUnits(units) => {
            format!("FWQ: time for each of {quanta} quanta of {} units of work\n\n", count(units))
        }
    };
    // What noise takes away is at the low end of work, and at the high end of time.
    let (usual, headings): (_, [&str; 4]) = match report.is_of_time() {
        true => (false, ["max", "median", "p1", "min"]),
        false => (true, ["min", "median", "p99", "max"]),
    };
    let fixed = ["mean", "sd", "noise", "skew", "kurtosis", "tick", "above floor"];
    let headings: Vec<&str> = ["CPU"].into_iter().chain(headings).chain(fixed).collect();
    let mut table = Columns::new(0, &headings);
    for cpu in &report.cpus {
        let summary = QuantaSummary::of(report, cpu);
        table.push(&summary.map_or_else(|| vec![cpu.cpu.to_string()], |it| row(&it, usual)));
    }
    text.push_str(&table.text());
    if let Some(rate) = report.cpus.iter().map(|cpu| rate(report, cpu)).reduce(f64::min) {
        let highest = frequency(rate / 2.0);
        let _ = writeln!(
            text,
            "\nFrequencies up to {highest} can be seen; shorter quanta show higher ones."
        );
    }
    text
}

fn row(summary: &QuantaSummary, is_time: bool) -> Vec<String> {
    let samples = &summary.samples;
    let cell = |value: f64| match is_time {
        true => duration(value),
        false => format!("{value:.0}"),
    };
    let ends = match is_time {
        true => [samples.min, samples.median, samples.p99, samples.max],
        false => [samples.max, samples.median, samples.p1, samples.min],
    };
    let moment =
        |moment: Option<f64>| moment.map_or_else(|| NONE.to_owned(), |it| format!("{it:.1}"));
    let tick = summary.tick.map_or_else(|| NONE.to_owned(), |peak| frequency(peak.hz));
    let above =
        summary.tick.map_or_else(|| NONE.to_owned(), |peak| format!("{:.0}x", peak.above_floor));
    let ends = ends.into_iter().map(|value| cell(value as f64));
    [summary.cpu.to_string()]
        .into_iter()
        .chain(ends)
        .chain([
            cell(samples.mean),
            cell(samples.deviation),
            share(summary.noise),
            moment(samples.skewness),
            moment(samples.excess_kurtosis),
            tick,
            above,
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::generated::{ftq_of, fwq_of, report};
    use super::*;
    use crate::random::Random;

    #[test]
    fn quanta_are_printed_as_agreed() {
        let mut random = Random::new(7);
        let ftq = text(&ftq_of(250.0, 20.0, 2.0, 200_000, &mut random));
        let fwq = text(&fwq_of(250.0, 20.0, 2.0, 1_000_000, &mut random));
        insta::assert_snapshot!(format!("{ftq}\n{fwq}"));
    }

    #[test]
    fn where_nothing_was_measured_only_the_cpu_is_reported() {
        let empty = text(&report(Quantum::TimeNs(1_000_000), vec![vec![], vec![7]]));
        assert!(empty.contains("\n  0\n"), "{empty}");
        assert!(empty.ends_with(
            "\nFrequencies up to 500.0 Hz can be seen; shorter quanta show higher ones.\n"
        ));
    }
}

//! PURE: a comparison as text for a person.

use std::fmt::Write as _;

use crate::clean::clean;
use crate::measure::columns::aligned;
use crate::measure::compare::{Comparison, Figure, Line, Side};
use crate::top::units::{duration, lost, per_second};

/// Sources that a page has room for.
const TOLD: usize = 20;
const UNKNOWN: &str = "–";

/// All of it.
pub fn page(comparison: &Comparison) -> String {
    let mut text = format!("A  {}\nB  {}\n", side(&comparison.a), side(&comparison.b));
    let lost_time = |ns: f64| lost(ns / 1e9);
    text.push_str("\ntime lost, per second of a CPU\n");
    text.push_str(&table(comparison, |line| &line.lost_ns_per_second, lost_time));
    text.push_str("\nevents (in total: detours), per second of a CPU\n");
    text.push_str(&table(comparison, |line| &line.events_per_second, per_second));
    if let Some(more) = comparison.sources.len().checked_sub(TOLD + 1) {
        let _ = writeln!(text, "and {} more sources", more + 1);
    }
    text.push_str(
        "\nThe intervals know what happened within A and B, not what differs from day to day.\n",
    );
    for warning in &comparison.warnings {
        let _ = writeln!(text, "\nwarning: {}", clean(warning));
    }
    text
}

/// Hosts and kernels are named by whoever wrote the file.
fn side(side: &Side) -> String {
    let cpus: Vec<String> = side.cpus.iter().map(ToString::to_string).collect();
    clean(&format!(
        "{}, kernel {}, {}, CPU {}, {} of CPU time",
        side.host,
        side.kernel,
        side.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
        cpus.join(","),
        duration(side.cpu_seconds * 1e9)
    ))
    .into_owned()
}

fn table(
    comparison: &Comparison,
    of: impl Fn(&Line) -> &Figure,
    told: impl Fn(f64) -> String + Copy,
) -> String {
    let percent = format!("{} %", (comparison.options.confidence * 1e4).round() / 1e2);
    let interval = format!("{percent} interval");
    let head = ["source", "A", "B", "B - A", &interval, "B / A", &interval, "B has"];
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).into()];
    let lines = std::iter::once(&comparison.total).chain(comparison.sources.iter().take(TOLD));
    rows.extend(lines.map(|line| cells(line, of(line), told)));
    aligned(&rows, 1, 7)
}

fn cells(line: &Line, figure: &Figure, told: impl Fn(f64) -> String) -> Vec<String> {
    let signed = |value: f64| format!("{}{}", if value > 0.0 { "+" } else { "" }, told(value));
    let times = |ratio: f64| format!("{ratio:.2}");
    let interval = |interval: Option<[f64; 2]>, told: &dyn Fn(f64) -> String| match interval {
        Some([low, high]) => format!("{} … {}", told(low), told(high)),
        None => UNKNOWN.to_owned(),
    };
    let ratio = figure.ratio;
    vec![
        line.source.as_ref().map_or_else(|| "total".to_owned(), ToString::to_string),
        told(figure.a),
        told(figure.b),
        signed(figure.difference.value),
        interval(figure.difference.interval, &signed),
        ratio.map_or_else(|| UNKNOWN.to_owned(), |ratio| times(ratio.value)),
        interval(ratio.and_then(|ratio| ratio.interval), &times),
        figure.verdict.text().to_owned(),
    ]
}

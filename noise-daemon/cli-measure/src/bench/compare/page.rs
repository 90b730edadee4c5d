//! PURE: a comparison as text for a person.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use noise_measure::compare::{ComparedSource, Comparison, Figure, Side};
use noise_text::clean::clean;
use noise_text::table::aligned;
use noise_text::times;
use noise_text::units::{duration, lost, per_second};

/// Sources that a table has room for.
const SHOWN: usize = 20;
/// Those of them at most of which nothing is known but how much they were.
const UNKNOWN_SHOWN: usize = 3;
const UNKNOWN: &str = "–";

pub fn page(comparison: &Comparison, zone: &TimeZone) -> String {
    let mut text = format!("A  {}\nB  {}\n", side(&comparison.a, zone), side(&comparison.b, zone));
    // What makes all of it doubtful has to be read before it.
    if !comparison.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &comparison.warnings {
        let _ = writeln!(text, "warning: {}", clean(warning));
    }
    let lost_time = |ns: f64| lost(ns / 1e9);
    text.push_str("\ntime lost, per second of a CPU\n");
    text.push_str(&table(comparison, |line| &line.lost_ns_per_second, lost_time));
    text.push_str("\nevents (in total: detours), per second of a CPU\n");
    text.push_str(&table(comparison, |line| &line.events_per_second, per_second));
    text.push_str(
        "\nThe intervals know what happened within A and B, not what differs from day to day.\n",
    );
    text
}

/// The sources that a table shows: the largest, few of them unknown; and what to say of the others.
fn folded(
    comparison: &Comparison,
    of: impl Fn(&ComparedSource) -> &Figure,
) -> (Vec<&ComparedSource>, Option<String>) {
    let is_unknown = |line: &&ComparedSource| of(line).verdict.is_unknown();
    let mut unknown = 0;
    let mut shown: Vec<&ComparedSource> = Vec::new();
    for line in &comparison.sources {
        unknown += usize::from(is_unknown(&line));
        if shown.len() < SHOWN && !(is_unknown(&line) && unknown > UNKNOWN_SHOWN) {
            shown.push(line);
        }
    }
    let left = comparison.sources.len() - shown.len();
    let unknown = unknown - shown.iter().filter(|line| is_unknown(line)).count();
    let more = match (left, unknown) {
        (0, _) => None,
        (left, 0) => Some(format!("and {left} more sources; --json has all")),
        (left, unknown) if left == unknown => Some(format!(
            "and {left} more sources, unknown: too few events or too short a sample; --json has all"
        )),
        (left, unknown) => Some(format!(
            "and {left} more sources, {unknown} of them unknown: too few events or too short a \
             sample; --json has all"
        )),
    };
    (shown, more)
}

/// Names of hosts and kernels come from the file, so they are cleaned.
fn side(side: &Side, zone: &TimeZone) -> String {
    let cpus: Vec<String> = side.cpus.iter().map(ToString::to_string).collect();
    clean(&format!(
        "{}, kernel {}, {}, CPU {}, {} of CPU time",
        side.host,
        side.kernel,
        times::second(side.started, zone),
        cpus.join(","),
        duration(side.cpu_seconds * 1e9)
    ))
    .into_owned()
}

fn table(
    comparison: &Comparison,
    of: impl Fn(&ComparedSource) -> &Figure,
    unit: impl Fn(f64) -> String + Copy,
) -> String {
    let percent = format!("{} %", (comparison.options.confidence * 1e4).round() / 1e2);
    let interval = format!("{percent} interval");
    let head = ["source", "A", "B", "B - A", &interval, "B / A", &interval, "B has"];
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).into()];
    let (sources, more) = folded(comparison, &of);
    let lines = std::iter::once(&comparison.total).chain(sources);
    rows.extend(lines.map(|line| cells(line, of(line), unit)));
    let more = more.map(|more| more + "\n").unwrap_or_default();
    aligned(&rows, 1, 7) + &more
}

fn cells(line: &ComparedSource, figure: &Figure, unit: impl Fn(f64) -> String) -> Vec<String> {
    let signed = |value: f64| format!("{}{}", if value > 0.0 { "+" } else { "" }, unit(value));
    let times = |ratio: f64| format!("{ratio:.2}");
    let interval = |interval: Option<[f64; 2]>, unit: &dyn Fn(f64) -> String| match interval {
        Some([low, high]) => format!("{} … {}", unit(low), unit(high)),
        None => UNKNOWN.to_owned(),
    };
    let ratio = figure.ratio;
    vec![
        line.source.as_ref().map_or_else(|| "total".to_owned(), ToString::to_string),
        unit(figure.a),
        unit(figure.b),
        signed(figure.difference.value),
        interval(figure.difference.interval, &signed),
        ratio.map_or_else(|| UNKNOWN.to_owned(), |ratio| times(ratio.value)),
        interval(ratio.and_then(|ratio| ratio.interval), &times),
        figure.verdict.text().to_owned(),
    ]
}

//! PURE: slowdowns as text for a person.

use std::fmt::Write as _;

use noise_measure::scale::{Forecast, ForecastRow, Periodic, Played, Ranking};
use noise_text::clean::clean;
use noise_text::table::aligned;
use noise_text::units::{self, count, duration, share};

use super::{NoiseInput, ScalingDocument};

/// Sources that a page has room for.
const SHOWN: usize = 12;
const UNKNOWN: &str = "–";

const LEGEND: &str = "\
hit            chance that a phase is delayed on any node (phases begun running)
begun running  slowdown where phases begin while their node computes, as right after the one before
begun anytime  slowdown where phases begin at moments that their node's noise has no part in, also
               amid a detour; phases that follow one another are near begun running on few nodes,
               near begun anytime on many
co-scheduled   slowdown where all nodes are hit at once; 25.0x is 25 times the phase on top of it
";

const PLAYED: &str = "\
played         mean of phases that were played, with its standard error: with starts that are drawn
               for each node and phase, and in time: phase upon phase, while the noise goes on;
               what is too rare to be met in so many phases is missing, in the error too
";

pub fn page(document: &ScalingDocument) -> String {
    let mut text = head(&document.noise);
    for forecast in &document.forecasts {
        text.push('\n');
        text.push_str(&table(forecast));
    }
    text.push('\n');
    text.push_str(LEGEND);
    let is_played = |row: &ForecastRow| row.played.is_some();
    if document.forecasts.iter().flat_map(|forecast| &forecast.rows).any(is_played) {
        text.push_str(PLAYED);
    }
    if let Some(ranking) = &document.ranking {
        text.push('\n');
        text.push_str(&sources(ranking, document.forecasts.first()));
    }
    for warning in &document.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text
}

/// Length of a phase, without needless digits.
pub fn phase(ns: f64) -> String {
    let (size, unit) = match ns {
        _ if ns >= 1e9 => (1e9, "s"),
        _ if ns >= 1e6 => (1e6, "ms"),
        _ if ns >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    format!("{} {unit}", ns / size)
}

fn head(noise: &NoiseInput) -> String {
    match noise {
        NoiseInput::Measured { host, kernel, cpus, duration_ns, overhead } => {
            let cpus = match cpus.as_slice() {
                [one] => format!("CPU {one}"),
                [first, .., last] => format!("{} CPUs ({first} to {last}) at once", cpus.len()),
                [] => "no CPU".to_owned(),
            };
            let (host, kernel) = (clean(host), clean(kernel));
            format!(
                "{host}, kernel {kernel}: {cpus} measured for {}, {} of the time in detours\n",
                duration(*duration_ns),
                share(*overhead)
            )
        }
        NoiseInput::Periodic(periodic) => periodic_head(periodic),
    }
}

fn periodic_head(periodic: &Periodic) -> String {
    format!(
        "periodic noise of {} in every {}, at another moment on each node: {} of the time\n",
        phase(periodic.length_ns()),
        phase(periodic.period_ns()),
        share(periodic.overhead())
    )
}

fn bounded(is_bound: bool, slowdown: f64) -> String {
    format!("{}{}", if is_bound { "≥ " } else { "" }, units::slowdown(slowdown))
}

/// Both in the unit of the first.
fn with_error(slowdown: f64, error: f64) -> String {
    let slowed = units::slowdown(slowdown);
    match slowed.ends_with('x') {
        true => format!("{slowed} ± {error:.2}x"),
        false => format!("{slowed} ± {}", share(error)),
    }
}

fn table(forecast: &Forecast) -> String {
    let mut text = format!("phases of {}", phase(forecast.granularity_ns));
    if let Some(windows) = forecast.windows {
        let _ = write!(text, ", of which the measurement has {}", count(windows));
    }
    text.push('\n');
    if forecast.rows.is_empty() {
        text.push_str("  unknown\n");
        return text;
    }
    let is_played = forecast.rows.iter().any(|row| row.played.is_some());
    let mut head = vec!["nodes", "hit", "begun running", "begun anytime", "co-scheduled"];
    if is_played {
        head.extend(["played running", "played anytime", "played in time"]);
    }
    let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for row in &forecast.rows {
        rows.push(cells(row, is_played));
    }
    if let Some(limit) = forecast.limit {
        let cells = ["no end", "100 %", &units::slowdown(limit), &units::slowdown(limit)];
        rows.push(cells.into_iter().map(str::to_owned).collect());
    }
    text + &aligned(&rows, 1, usize::MAX)
}

fn cells(row: &ForecastRow, is_played: bool) -> Vec<String> {
    let unknown = || UNKNOWN.to_owned();
    let mut cells = vec![
        row.nodes.to_string(),
        share(row.running.unwrap_or(row.anytime).hit),
        row.running.map_or_else(unknown, |scaled| bounded(row.lower_bound, scaled.slowdown)),
        bounded(row.lower_bound, row.anytime.slowdown),
        row.co_scheduled.map_or_else(unknown, units::slowdown),
    ];
    if is_played {
        let of = |played: Option<Played>| {
            let text = |played: Played| match played.slowdown > 0.0 {
                true => with_error(played.slowdown, played.standard_error),
                // Too few phases to be hit: no error can be estimated from that.
                false => "not hit".to_owned(),
            };
            played.map_or_else(unknown, text)
        };
        let played = row.played.as_ref();
        cells.push(of(played.and_then(|played| played.running)));
        cells.push(of(played.and_then(|played| played.anytime)));
        cells.push(of(played.and_then(|played| played.in_time)));
    }
    cells
}

fn sources(ranking: &Ranking, forecast: Option<&Forecast>) -> String {
    let mut text = format!(
        "sources, each alone: slowdown of phases of {} begun running\n",
        phase(ranking.granularity_ns)
    );
    let bounds = forecast.iter().flat_map(|forecast| &forecast.rows).map(|row| row.lower_bound);
    let bounds: Vec<bool> = bounds.collect();
    let ranked_at = ranking.ranked_at_nodes;
    let place = ranking.nodes.iter().position(|&nodes| nodes == ranked_at);
    let mut head: Vec<String> =
        ["source", "here", "rank", &format!("rank at {ranked_at}")].map(str::to_owned).into();
    head.extend(ranking.nodes.iter().map(ToString::to_string));
    head.push(format!("gain at {ranked_at}"));
    let mut rows = vec![head];
    for source in ranking.sources.iter().take(SHOWN) {
        let mut cells = vec![
            source.key.to_string(),
            share(source.overhead),
            source.rank_local.to_string(),
            source.rank_at_scale.to_string(),
        ];
        let slowdowns = source.slowdown.iter().enumerate();
        cells.extend(slowdowns.map(|(place, &slowdown)| {
            bounded(bounds.get(place).copied().unwrap_or(false), slowdown)
        }));
        let gain = place.and_then(|place| *source.gain.get(place)?);
        cells.push(gain.map_or_else(|| UNKNOWN.to_owned(), units::slowdown));
        rows.push(cells);
    }
    text.push_str(&aligned(&rows, 1, usize::MAX));
    if let Some(more) = ranking.sources.len().checked_sub(SHOWN + 1) {
        let _ = writeln!(text, "and {} more", more + 1);
    }
    text.push_str(
        "here: share of the CPUs' time; gain: by how much the slowdown would be less without it\n",
    );
    if let Some(sentence) = &ranking.sentence {
        let _ = writeln!(text, "\n{sentence}");
    }
    text
}

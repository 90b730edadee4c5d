//! A comparison for people: the answer first, then why, which kinds of executions there are, and where time was lost.

use std::collections::{BTreeMap, BTreeSet};

use noise_compare::comparison::{Anomaly, Comparison};
use noise_compare::drift::Unit;
use noise_compare::guard::Unflagged;
use noise_compare::localised::MAX_PEERS;
use noise_compare::rules::Flag;
use noise_compare::side::Run;
use noise_compare::words::sentence;
use noise_text::clean::clean;
use noise_text::columns::wrap;
use noise_text::units::{duration, share};

use noise_command::output::Painted;

use crate::states::time_in;

/// Executions that are shown, places of each, and rules that do not count.
const SHOWN_EXECUTIONS: usize = 5;
const SHOWN_PLACES: usize = 3;
const SHOWN_RULES: usize = 6;

/// A paragraph, in so many columns.
fn paragraph(page: &mut Painted, text: &str, columns: usize) {
    for line in wrap(text, columns) {
        page.plain(&format!("{line}\n"));
    }
}

/// Lines below each other, each with what continues it further to the right.
fn item(page: &mut Painted, text: &str, columns: usize) {
    for (number, line) in wrap(text, columns.saturating_sub(4)).iter().enumerate() {
        page.plain(&format!("{}{line}\n", if number == 0 { "  " } else { "    " }));
    }
}

/// The whole page, in so many columns; with names of options where the command has those of `noised trace compare`.
pub fn page(comparison: &Comparison, columns: usize, has_options: bool) -> Painted {
    let mut page = Painted::default();
    paragraph(&mut page, &answer(comparison), columns);
    rules(&mut page, comparison, columns, has_options);
    if comparison.went_on {
        kinds(&mut page, comparison, columns);
        anomalies(&mut page, comparison, columns);
    }
    page
}

fn mean_ns(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.span_ns as f64).sum::<f64>() / runs.len().max(1) as f64
}

fn executions(count: usize) -> String {
    if count == 1 { "1 execution".to_owned() } else { format!("{count} executions") }
}

/// Whether the sample is slower, by how much, in which state, and where that is the worst.
fn answer(comparison: &Comparison) -> String {
    let (normal, sample) = (&comparison.executions.normal, &comparison.executions.sample);
    let name = match sample.first() {
        Some(first) if sample.iter().all(|run| run.name == first.name) => {
            format!("{}: ", clean(&first.name))
        }
        _ => String::new(),
    };
    let took = format!(
        "{} took {} on average, {} normal {} {}",
        executions(sample.len()),
        duration(mean_ns(sample)),
        normal.len(),
        if normal.len() == 1 { "one" } else { "ones" },
        duration(mean_ns(normal))
    );
    let Some(worst) = comparison.ranked().next() else {
        return format!("{name}{took}. No state is flagged: {}.", unflagged(comparison));
    };
    let times = &worst.times;
    let too_long =
        comparison.anomalies.iter().filter(|anomaly| anomaly.state == times.state).count();
    let what = match (worst.unflagged.is_none(), times.more_ns() > 0.0) {
        (true, true) => "What is longer is",
        (false, true) => "The clearest effect is on",
        // Without any guard.
        (_, false) => "More executions than usual are long in",
    };
    let state = time_in(times.state);
    let more = match times.more_ns() > 0.0 {
        true => format!(
            "{name}{took}. {what} {state}: {} instead of {}{}; too long in it are {too_long} of {}.",
            duration(times.sample_mean_ns),
            duration(times.normal_mean_ns),
            doubt(worst, comparison),
            sample.len()
        ),
        false => format!(
            "{name}{took}. {what} {state}: {:.0} of {}.",
            times.sample_share * sample.len() as f64,
            sample.len()
        ),
    };
    let first = comparison
        .anomalies
        .iter()
        .filter(|anomaly| anomaly.is_flagged || anomaly.is_effect)
        .find_map(|anomaly| Some((anomaly, anomaly.places.first()?)));
    match first {
        None => more,
        Some((anomaly, place)) => {
            let (named, begin_ns) = named(comparison, anomaly.execution);
            let beside = beside(comparison, anomaly.execution);
            format!("{more} The worst is {named}: {}.", sentence(place, begin_ns, beside))
        }
    }
}

/// What makes an effect less than certain.
fn doubt(worst: &Flag, comparison: &Comparison) -> String {
    let units = comparison.drift.unit.plural();
    match worst.unflagged {
        Some(Unflagged::Few) => {
            format!(", more than {units} of one side differ by, but that may be chance")
        }
        Some(Unflagged::Untested) if !comparison.drift.is_known => {
            format!(" (how much {units} differ without a cause is not known)")
        }
        _ => String::new(),
    }
}

/// Why no state is flagged.
fn unflagged(comparison: &Comparison) -> String {
    let reasons: BTreeSet<Unflagged> =
        comparison.not_counted.iter().filter_map(|flag| flag.unflagged).collect();
    let least = share(comparison.settings.thresholds.least);
    let reason = |unflagged: &Unflagged| match unflagged {
        Unflagged::Unsaid => "is what a recording does not say".to_owned(),
        Unflagged::NotLonger => "is not longer on average".to_owned(),
        Unflagged::Small => format!("is less than {least} of an execution"),
        Unflagged::Drift => {
            format!("is no more than {} of one side differ by", comparison.drift.unit.plural())
        }
        Unflagged::Chance | Unflagged::Few | Unflagged::Untested => "may be chance".to_owned(),
    };
    let reasons: Vec<String> = reasons.iter().map(reason).collect();
    match reasons.is_empty() {
        true => "none is longer by the rules".to_owned(),
        false => format!("what the rules find {}", reasons.join(" or ")),
    }
}

/// An execution of the sample, and when it begins.
fn named(comparison: &Comparison, execution: usize) -> (String, u64) {
    let runs = &comparison.executions.sample;
    let Some(run) = runs.get(execution) else { return (format!("execution {execution}"), 0) };
    let recordings: BTreeSet<usize> = runs.iter().map(|run| run.recording).collect();
    // As they are given, counted from 1 on.
    let number = recordings.range(..=run.recording).count();
    let of = match recordings.len() {
        ..2 => String::new(),
        _ => format!(" of sample recording {number}"),
    };
    let key = run.key.as_ref().map_or_else(String::new, |key| format!(" (key {})", clean(key)));
    (format!("execution {execution}{of}{key}"), run.from_ns)
}

/// Beside how many normal executions one stood.
fn beside(comparison: &Comparison, execution: usize) -> usize {
    let of = comparison.localised.iter().find(|localised| localised.execution == execution);
    of.map_or(0, |localised| localised.beside.len())
}

fn rules(page: &mut Painted, comparison: &Comparison, columns: usize, has_options: bool) {
    page.plain(&format!(
        "\n  {:<12} {:>12} {:>12} {:>12} {:>9} {:>9}\n",
        "state, mean", "normal", "deviation", "sample", "normal", "sample"
    ));
    for times in &comparison.states {
        page.plain(&format!(
            "  {:<12} {:>12} {:>12} {:>12} {:>9} {:>9}\n",
            times.state,
            duration(times.normal_mean_ns),
            duration(times.normal_deviation_ns),
            duration(times.sample_mean_ns),
            share(times.normal_share),
            share(times.sample_share),
        ));
    }
    page.plain("  the last two columns: how many are above the normal mean\n");
    for (heading, flags) in
        [("flagged", &comparison.flagged), ("effects, which are not flagged", &comparison.effects)]
    {
        if !flags.is_empty() {
            page.plain(&format!("\n{heading}\n"));
        }
        for flag in flags {
            item(page, &flag.reason, columns);
        }
    }
    if !comparison.not_counted.is_empty() {
        page.plain("\nrules that hold, and do not count\n");
    }
    for flag in comparison.not_counted.iter().take(SHOWN_RULES) {
        item(page, &flag.reason, columns);
    }
    let more = comparison.not_counted.len().saturating_sub(SHOWN_RULES);
    if more > 0 {
        page.plain(&format!("  {more} more are in --json\n"));
    }
    page.plain("\n");
    paragraph(page, &guard(comparison, has_options), columns);
    if !comparison.went_on && has_options {
        paragraph(page, "--force goes on all the same, to kinds and places.", columns);
    }
}

/// What counts, and what can be known of chance and of drift.
fn guard(comparison: &Comparison, has_options: bool) -> String {
    let thresholds = &comparison.settings.thresholds;
    let [chance, least] = if has_options { [" (--chance)", " (--least)"] } else { [""; 2] };
    if thresholds.chance >= 1.0 {
        return "No account is taken of chance, so what the rules find are effects, and no state is flagged.".to_owned();
    }
    let of_executions = match comparison.is_too_few {
        true => {
            "These are too few executions to tell from chance: a rule counts only where no other division of them into two \
             such sets gives as much, and that may be chance, too."
                .to_owned()
        }
        false => format!(
            "A rule counts where random divisions of these executions make any of them hold in {} of cases at \
             most{chance}, and the mean grew by {} of an execution at least{least}.",
            share(thresholds.chance),
            share(thresholds.least)
        ),
    };
    let drift = &comparison.drift;
    let units = drift.unit.plural();
    let between = match (drift.is_known, drift.unit) {
        (false, Unit::Recording) => {
            let how = match has_options {
                true => " Record each side three times or more, in turn, and give them all: --normal A B C --sample D E F.",
                false => "",
            };
            format!(
                "How much two recordings of the same program drift apart is not known from one recording of each side: what \
                 differs is an effect, for which no chance can be given, and no state is flagged.{how}"
            )
        }
        (false, Unit::Process) => {
            "Each side is one process of one recording. How much processes, or one at other times, drift apart is not \
             known from that: what differs is an effect, for which no chance can be given, and no state is flagged."
                .to_owned()
        }
        (true, _) => format!(
            "{} normal and {} sample {units} can be divided in {} ways, so the smallest chance that can be reached is 1 in \
             {:.0}. A state is flagged if three things hold: the sides differ by more than any two {units} of one side do; \
             divisions give as much as seldom as chance allows, or, if there are too few, no other one does; and drift of \
             the size seen within the sides would give as much in {} of cases at most.",
            drift.normal,
            drift.sample,
            match drift.tries_all() {
                true => format!("{:.0}", drift.divisions),
                false => "more than 9,999".to_owned(),
            },
            drift.least_chance.recip(),
            share(thresholds.chance / comparison.states.len().max(1) as f64)
        ),
    };
    format!("{of_executions} {between}")
}

fn kinds(page: &mut Painted, comparison: &Comparison, columns: usize) {
    let clusters = &comparison.clusters;
    page.plain("\nkinds of executions\n");
    let settings = &comparison.settings.clustering;
    let sizes = |kinds: &[usize]| {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for kind in kinds {
            *sizes.entry(*kind).or_default() += 1;
        }
        sizes
    };
    let (normal, sample) = (sizes(&clusters.kinds.normal), sizes(&clusters.kinds.sample));
    let shown: Vec<String> = normal.values().map(ToString::to_string).collect();
    let between = clusters.normal.iter().filter(|label| label.is_none()).count();
    let how = match between {
        0 => String::new(),
        _ if normal.len() == 1 => String::new(),
        between => format!("; {between} of them lie between clusters, and count with the nearest"),
    };
    item(
        page,
        &format!(
            "{} normal, of so many executions: {}{how} (OPTICS of {}, at least {} points, xi {})",
            normal.len(),
            shown.join(", "),
            clusters.standardised,
            settings.min_points,
            settings.xi
        ),
        columns,
    );
    for note in &clusters.notes {
        item(page, note, columns);
    }
    for (of_sample, of_normal, silhouette) in &comparison.pairs {
        let count = sample.get(of_sample).copied().unwrap_or(0);
        let executions = executions(count);
        let silhouette = silhouette.map_or_else(String::new, |it| format!(", silhouette {it:.2}"));
        let text = match of_normal {
            Some(kind) => {
                let count = normal.get(kind).copied().unwrap_or(0);
                format!(
                    "kind {of_sample} of the sample ({executions}) is normal kind {kind} ({count}){silhouette}"
                )
            }
            None => format!(
                "kind {of_sample} of the sample ({executions}) has no pair{silhouette}: it is held against all normal \
                 executions"
            ),
        };
        item(page, &text, columns);
    }
    let alone = comparison.paired_alone.len();
    if alone > 0 {
        let of = comparison.executions.sample.len();
        let text = format!(
            "{alone} of {of} executions of the sample lie nearer to another normal kind than to that of their cluster, and are \
             held against that one"
        );
        item(page, &text, columns);
    }
}

fn anomalies(page: &mut Painted, comparison: &Comparison, columns: usize) {
    page.plain("\nwhere time was lost, after the begin of each execution\n");
    if comparison.anomalies.is_empty() {
        page.plain("  nowhere: no execution is anomalous in any state\n");
    }
    for localised in comparison.localised.iter().take(SHOWN_EXECUTIONS) {
        let (named, begin_ns) = named(comparison, localised.execution);
        let own = comparison.anomalies.iter().filter(|it| it.execution == localised.execution);
        let own: Vec<&Anomaly> = own.collect();
        let states: Vec<String> = own
            .iter()
            .take(SHOWN_PLACES)
            .map(|anomaly| {
                format!(
                    "{} {} instead of {}",
                    anomaly.state,
                    duration(anomaly.duration_ns as f64),
                    duration(anomaly.expected_ns)
                )
            })
            .collect();
        item(
            page,
            &format!(
                "{named}, beside {} of {} normal ones{}: {}",
                localised.beside.len(),
                localised.of,
                match comparison.paired.get(localised.execution) {
                    Some(Some(_)) => " of its kind",
                    Some(None) | None => ", because its kind has no pair",
                },
                states.join(", ")
            ),
            columns,
        );
        if let Some(failed) = &localised.failed {
            item(page, failed, columns);
        }
        let places: Vec<_> = own.iter().flat_map(|anomaly| &anomaly.places).collect();
        for place in places.iter().take(SHOWN_PLACES) {
            item(
                page,
                &format!("- {}", sentence(place, begin_ns, localised.beside.len())),
                columns,
            );
        }
        if places.len() > SHOWN_PLACES {
            page.plain(&format!("    {} more places are in --json\n", places.len() - SHOWN_PLACES));
        }
    }
    let more = comparison.localised.len().saturating_sub(SHOWN_EXECUTIONS);
    if more > 0 {
        let text = match more {
            1 => "1 more execution is in --json".to_owned(),
            more => format!("{more} more executions are in --json"),
        };
        page.plain(&format!("  {text}\n"));
    }
    if comparison.not_localised > 0 {
        page.plain(&format!(
            "  of {} with anomalies the paths were not put beside normal ones: others come first\n",
            executions(comparison.not_localised)
        ));
    }
    if comparison.localised.iter().any(|localised| localised.of > MAX_PEERS) {
        page.plain(&format!(
            "  of a kind, {MAX_PEERS} normal ones are taken, evenly from the shortest to the longest\n"
        ));
    }
}

#[cfg(test)]
mod tests;

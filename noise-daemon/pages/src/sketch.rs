//! Sketches for people: which tier is slow, all tiers, the answer to a question, and the slowest request as a tree.

mod kinds;
#[cfg(any(test, feature = "fixtures"))]
pub mod made;
pub mod tree;

use noise_command::output::Painted;
use noise_sketches::counts::SketchCounts;
use noise_sketches::document::{Answer, SketchesDocument};
use noise_sketches::marker::Marker;
use noise_sketches::slices::{Ended, NONE, Slice, SliceId};
use noise_sketches::tiers::{SliceShare, Tier, is_life};
use noise_text::clean::clean;

use self::tree::milli;

/// Tiers, and groups of an answer, that are shown.
const SHOWN_TIERS: usize = 20;
const SHOWN_GROUPS: usize = 30;

fn percent(part: f64, all: f64) -> String {
    format!("{:.1} %", 100.0 * part / all.max(1.0))
}

fn counted(count: usize, [one, several]: [&str; 2]) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// All of it, in so many columns.
pub fn page(document: &SketchesDocument<'_>, width: usize) -> Painted {
    let mut page = Painted::default();
    if let Some(answer) = &document.answer {
        answered(&mut page, answer);
        page.plain("\n");
    }
    let all = document.system.slices.len();
    page.plain(&match document.shown.is_empty() && all > 0 {
        true => format!(
            "None of the {all} slices {} the part that is asked for.\n",
            if document.has_condition { "fulfils the condition (--where) in" } else { "lies in" }
        ),
        false => slow(&document.tiers),
    });
    page.plain(&whole(document));
    if let Some(unread) = &document.unread_lines {
        page.plain(&format!("{unread}\n"));
    }
    page.plain(&document.reach.line());
    page.plain(&missing(
        &document.system.counts,
        document.discarded,
        "a part of the time with --from and --to",
    ));
    if !document.tiers.is_empty() {
        page.plain(&table(&document.tiers));
        page.plain(&kinds::kinds(document));
    }
    if let Some(nearest) = &document.nearest {
        page.plain(&kinds::near(document.system, nearest));
    }
    if let Some((what, slice)) = slowest(document) {
        let what = format!("{what}, slice {slice}");
        tree::tree(&mut page, document.system, (&what, slice), width);
    }
    page
}

/// The answer to a question.
fn answered(page: &mut Painted, answer: &Answer) {
    let given = answer.given.as_ref().map_or_else(String::new, |given| format!(" | {given}"));
    let probability = |share: &SliceShare| match share.probability {
        Some(probability) => format!("{probability:.4}"),
        None => "-".to_owned(),
    };
    let SliceShare { count, holds, unknown, .. } = answer.all;
    let of = counted(usize::try_from(count).unwrap_or(usize::MAX), ["slice", "slices"]);
    let unknown = match unknown {
        0 => String::new(),
        _ => format!(", without {unknown} whose system calls are not known"),
    };
    page.plain(&format!(
        "P({}{given}) = {}: {holds} of {of}{unknown}\n",
        answer.of,
        probability(&answer.all)
    ));
    let Some(groups) = &answer.groups else { return };
    page.plain(&format!("\n  {:<24} {:>9} {:>9} {:>12}\n", "", "slices", "of them", "probability"));
    for share in groups.iter().take(SHOWN_GROUPS) {
        page.plain(&format!(
            "  {:<24} {:>9} {:>9} {:>12}\n",
            clean(&share.group),
            share.count,
            share.holds,
            probability(share)
        ));
    }
    if groups.len() > SHOWN_GROUPS {
        page.plain(&format!("  {} more are in --json\n", groups.len() - SHOWN_GROUPS));
    }
}

/// Which tier has most of the time.
fn slow(tiers: &[Tier]) -> String {
    let is_work = |tier: &&Tier| !Marker::named(tier.marker).is_some_and(is_life);
    let all: u64 = tiers.iter().filter(is_work).map(|tier| tier.true_latency_sum_ns).sum();
    let Some(first) = tiers.iter().find(is_work).filter(|_| all > 0) else {
        return "No slice is known that is more than a connection or a thread as a whole.\n"
            .to_owned();
    };
    let latency = milli(first.latency_p50_ns as f64);
    let true_latency = milli(first.true_latency_p50_ns as f64);
    let times = match first.count {
        1 => format!("its only slice takes {latency} ms, with a true latency of {true_latency} ms"),
        count => format!(
            "half of its {count} slices take {latency} ms or more, and half have a true latency of {true_latency} ms or more"
        ),
    };
    let share = percent(first.true_latency_sum_ns as f64, all as f64);
    format!(
        "{} ({}) has {share} of all true latency: {times}.\n",
        clean(&first.process),
        first.marker
    )
}

fn whole(document: &SketchesDocument<'_>) -> String {
    let (from_ns, to_ns) = document.span;
    let sketch = |id: &SliceId| document.system.sketches.get(*id as usize).copied();
    let mut sketches: Vec<_> = document.shown.iter().filter_map(sketch).collect();
    sketches.sort_unstable();
    sketches.dedup();
    format!(
        "{:.3} s, {}, {}; all times in milliseconds.\n",
        to_ns.saturating_sub(from_ns) as f64 / 1e9,
        counted(document.shown.len(), ["slice", "slices"]),
        counted(sketches.len(), ["sketch", "sketches"]),
    )
}

/// What may be missing, a line each. `part` is what to ask for where there is too much.
pub fn missing(counts: &SketchCounts, discarded: u64, part: &str) -> String {
    let mut lines = String::new();
    let left_out = format!("slices more are left out; ask for {part}");
    let calls_left_out = format!(
        "slices are without their system calls and a cluster: there are too many combinations of calls; ask for {part}"
    );
    let edges_left_out = format!("causes and effects more are left out; ask for {part}");
    for (count, what) in [
        (discarded, "events were lost while recording"),
        (counts.lost, "slices are given up, since events were lost on their way"),
        (
            counts.unpaired,
            "slices are given up, since a switch of their thread is not recorded (no event was lost there)",
        ),
        (counts.left_out, left_out.as_str()),
        (counts.calls_left_out, &calls_left_out),
        (counts.edges_left_out, &edges_left_out),
        (counts.unfinished, "slices have no end in the time that was read"),
        (counts.overlapping, "requests on connections overlap with others, and are left out"),
        (
            counts.closed_elsewhere,
            "connections are closed by another thread than the one that used them",
        ),
        (counts.unassigned, "calls cannot be assigned to a request: no edge"),
        (counts.ambiguous, "times one of several threads may be the cause: no edge"),
        (counts.unmatched, "times nothing says who is the cause: no edge"),
        (counts.outside, "causes or effects lie outside of slices, as after the answer"),
    ] {
        if count > 0 {
            lines.push_str(&format!("{count} {what}\n"));
        }
    }
    for (call, count) in &counts.not_followed {
        lines.push_str(&format!(
            "{count} calls of {}: what these do is not followed\n",
            clean(call)
        ));
    }
    lines
}

fn table(tiers: &[Tier]) -> String {
    let mut table = format!(
        "\n  {:<15} {:<14} {:>8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10}\n",
        "process",
        "marker",
        "count",
        "per s",
        "p50",
        "p99",
        "true p50",
        "true p99",
        "all true",
        "idle mean",
        "idle sd"
    );
    for tier in tiers.iter().take(SHOWN_TIERS) {
        table.push_str(&format!(
            "  {:<15} {:<14} {:>8} {:>9.1} {:>10} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10}\n",
            clean(&tier.process),
            tier.marker,
            tier.count,
            tier.rate,
            milli(tier.latency_p50_ns as f64),
            milli(tier.latency_p99_ns as f64),
            milli(tier.true_latency_p50_ns as f64),
            milli(tier.true_latency_p99_ns as f64),
            milli(tier.true_latency_sum_ns as f64),
            milli(tier.idle_mean_ns),
            milli(tier.idle_variance.sqrt()),
        ));
    }
    if tiers.len() > SHOWN_TIERS {
        table.push_str(&format!("  {} more are in --json\n", tiers.len() - SHOWN_TIERS));
    }
    table
}

/// The slowest request that has its answer, those first that show how it travels; else the longest slice. With what it is.
fn slowest(document: &SketchesDocument<'_>) -> Option<(&'static str, SliceId)> {
    let system = document.system;
    let of = |id: &SliceId| system.slice(*id).map(|slice| (*id, slice));
    let is_request = |slice: &Slice| {
        matches!(slice.marker, Marker::Send(_) | Marker::Receive(_))
            && slice.ended == Ended::Explicit
    };
    let is_first = |slice: &Slice| is_request(slice) && slice.cause == NONE;
    let waits = |slice: &Slice| slice.true_latency_ns < slice.latency_ns();
    let longest = |what: &'static str, accepts: &dyn Fn(&Slice) -> bool| {
        let slices = document.shown.iter().filter_map(of).filter(|(_, slice)| accepts(slice));
        slices
            .max_by_key(|(id, slice)| (slice.latency_ns(), std::cmp::Reverse(*id)))
            .map(|(id, _)| (what, id))
    };
    longest("slowest request that waited for others", &|slice| is_first(slice) && waits(slice))
        .or_else(|| longest("slowest request that nothing else caused", &is_first))
        .or_else(|| longest("slowest request", &is_request))
        .or_else(|| longest("longest slice", &|slice| !is_life(slice.marker)))
        .or_else(|| longest("longest slice", &|_| true))
}

#[cfg(test)]
mod tests;

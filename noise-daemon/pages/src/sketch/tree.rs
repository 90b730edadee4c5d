//! One sketch as a tree: a line for each slice below the one that caused it, with the rule that says so, and its time on
//! one scale with all others.

use std::collections::HashMap;

use noise_sketches::marker::MarkerRule;
use noise_sketches::slices::{Edge, NONE, Slice, SliceId};
use noise_sketches::system::System;
use noise_text::clean::clean;

use noise_command::output::Painted;

/// For people, in milliseconds.
pub fn milli(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

/// Slices of a sketch that have a line.
const SHOWN_SLICES: usize = 40;
/// How far lines are moved to the right.
const MAX_DEPTH: usize = 8;
/// What stands before the lane, and how short and long that is.
const NAME_COLUMNS: usize = 44;
const TIMES_COLUMNS: usize = 22;
const LEAST_COLUMNS: usize = 20;

/// What a slice does in a column: nothing yet, its own work, waiting for a tier below.
const OWN: &str = "30;42";
const WAITS: &str = "30;47";

/// A slice with how deep it is.
struct SliceLine {
    id: SliceId,
    depth: usize,
    rule: Option<MarkerRule>,
}

/// The sketch of a slice, with what that is: `slowest request`.
pub fn tree(page: &mut Painted, system: &System, (what, slowest): (&str, SliceId), width: usize) {
    let (slices, edges) = system.sketch(slowest);
    // The part of it that this slice caused, where it is a part.
    let lines = lines(system, &slices, &edges, slowest);
    let Some(first) = system.slice(slowest) else { return };
    let of = |line: &SliceLine| system.slice(line.id);
    let from_ns = lines.iter().filter_map(of).map(|slice| slice.from_ns).min().unwrap_or(0);
    let to_ns = lines.iter().filter_map(of).map(|slice| slice.to_ns).max().unwrap_or(0);
    let span_ns = to_ns.saturating_sub(from_ns);
    page.plain(&format!(
        "\nThe {what}: {} ms from {} s on, {} slice{}.\n",
        milli(first.latency_ns() as f64),
        seconds(system, first),
        lines.len(),
        if lines.len() == 1 { "" } else { "s" }
    ));
    let columns = width.saturating_sub(NAME_COLUMNS + TIMES_COLUMNS + 4).max(LEAST_COLUMNS);
    let end = format!("{} ms", milli(span_ns as f64));
    page.plain(&format!(
        "\n  {:<NAME_COLUMNS$}{:>11}{:>11}  0{end:>rest$}\n",
        "",
        "latency",
        "true",
        rest = columns.saturating_sub(1)
    ));
    let waits = waits(system, &edges);
    for line in lines.iter().take(SHOWN_SLICES) {
        let Some(slice) = of(line) else { continue };
        page.plain(&format!(
            "  {:<NAME_COLUMNS$}{:>11}{:>11}  ",
            cut(&name(system, line, slice)),
            milli(slice.latency_ns() as f64),
            milli(slice.true_latency_ns as f64),
        ));
        let none = Vec::new();
        let times = waits.get(&line.id).unwrap_or(&none);
        lane(page, slice, times, (from_ns, span_ns), columns);
        page.plain("\n");
    }
    if lines.len() > SHOWN_SLICES {
        page.plain(&format!("  {} more are in --json\n", lines.len() - SHOWN_SLICES));
    }
    page.plain("  # its own time, - waiting for what it asked\n");
}

fn seconds(system: &System, slice: &Slice) -> String {
    format!("{:.6}", slice.from_ns.saturating_sub(system.span.0) as f64 / 1e9)
}

/// The slices below one, each before those that it caused, in the order of time.
fn lines(system: &System, slices: &[SliceId], edges: &[Edge], root: SliceId) -> Vec<SliceLine> {
    let mut below: HashMap<SliceId, Vec<SliceId>> = HashMap::new();
    for id in slices {
        let cause = system.slice(*id).map_or(NONE, |slice| slice.cause);
        below.entry(cause).or_default().push(*id);
    }
    for ids in below.values_mut() {
        ids.sort_by_key(|id| (system.slice(*id).map(|slice| slice.from_ns), *id));
    }
    let rules: HashMap<(SliceId, SliceId), MarkerRule> = edges
        .iter()
        .filter(|edge| edge.opens)
        .map(|edge| ((edge.from, edge.to), edge.rule))
        .collect();
    let mut lines = Vec::new();
    let mut left = vec![(root, 0, None)];
    while let Some((id, depth, rule)) = left.pop() {
        // More slices than there are: causes in a circle.
        if lines.len() > slices.len() {
            break;
        }
        lines.push(SliceLine { id, depth, rule });
        for child in below.get(&id).into_iter().flatten().rev() {
            left.push((*child, depth + 1, rules.get(&(id, *child)).copied()));
        }
    }
    lines
}

/// When each slice waits for others.
fn waits(system: &System, edges: &[Edge]) -> HashMap<SliceId, Vec<(u64, u64)>> {
    let mut waits: HashMap<SliceId, Vec<(u64, u64)>> = HashMap::new();
    for (id, dependent) in system.waits(edges) {
        if let Some(slice) = system.slice(dependent) {
            waits.entry(id).or_default().push((slice.from_ns, slice.to_ns));
        }
    }
    waits
}

fn name(system: &System, line: &SliceLine, slice: &Slice) -> String {
    let thread = system.thread(slice);
    let (comm, tid) =
        thread.map_or((String::new(), 0), |thread| (thread.comm.to_string(), thread.tid));
    let indent = "  ".repeat(line.depth.saturating_sub(1).min(MAX_DEPTH));
    let arrow = match line.rule {
        _ if line.depth == 0 => String::new(),
        Some(rule) => format!("{indent}└{}→ ", rule.name()),
        None => format!("{indent}└ "),
    };
    format!("{arrow}{} {tid} {}", clean(&comm), slice.marker.name())
}

fn cut(name: &str) -> String {
    match name.chars().count() < NAME_COLUMNS {
        true => name.to_owned(),
        false => name.chars().take(NAME_COLUMNS - 2).chain(['…']).collect(),
    }
}

/// A slice on the scale of its sketch.
fn lane(
    page: &mut Painted,
    slice: &Slice,
    waits: &[(u64, u64)],
    (from_ns, span_ns): (u64, u64),
    columns: usize,
) {
    let edge = |column: usize| {
        let part = u128::from(span_ns) * column as u128 / columns.max(1) as u128;
        from_ns.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
    };
    let sign = |column: usize| {
        let (from, to) = (edge(column), edge(column + 1));
        if slice.to_ns < from
            || slice.from_ns > to
            || (slice.from_ns == to && to != from && column + 1 < columns)
        {
            return ' ';
        }
        // Which of both has more of the column.
        let (from, to) = (from.max(slice.from_ns), to.min(slice.to_ns));
        let waited =
            waits.iter().map(|(one, other)| to.min(*other).saturating_sub(from.max(*one))).max();
        if waited.unwrap_or(0) * 2 > to.saturating_sub(from) { '-' } else { '#' }
    };
    let signs: Vec<char> = (0..columns).map(sign).collect();
    for run in signs.chunk_by(|one, other| one == other) {
        let text: String = run.iter().collect();
        match run.first() {
            Some('#') => page.coloured(&text, OWN),
            Some('-') => page.coloured(&text, WAITS),
            _ => page.plain(&text),
        }
    }
}

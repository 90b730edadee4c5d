//! Critical paths for people: what took most of the time and for whom, then by state, as a lane of time, and
//! part by part.

pub mod beside;
mod lane;

use std::cmp::Reverse;
use std::collections::HashMap;

use noise_command::output::Painted;
use noise_paths::document::{PathsDocument, Segment, Traced, not_followed, not_traced, whole};
use noise_text::clean::clean;
use noise_text::columns::wrap;
use noise_trace::delays::document::Culprit;

use self::lane::{lane, thread};

/// Groups of executions that are shown.
const SHOWN_GROUPS: usize = 20;
/// Parts of a path that have a row of their own.
const SHOWN_PARTS: usize = 20;
/// Names in one row.
const SHOWN_NAMES: usize = 3;
/// Whom a wait was for is not known.
const UNTRACKED: &str = "untracked";
/// The cause of waits that a quota is the reason of, and what it is called.
const THROTTLE: &str = "throttle";
const QUOTA: &str = "a CPU quota";
/// What stands before names in a row of a state, before a part's state, and before a part's thread.
const STATE_COLUMNS: usize = 44;
const TIMES_COLUMNS: usize = 29;
const PART_COLUMNS: usize = 46;
/// What names leave for how many more there are, and what they have at least.
const MORE_COLUMNS: usize = 12;
const LEAST_NAMES_COLUMNS: usize = 20;

/// For people, in milliseconds.
fn milli(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// A part of a whole.
fn share(ns: u64, all_ns: u64) -> String {
    format!("{:.1} %", 100.0 * ns as f64 / all_ns.max(1) as f64)
}

fn length(segment: &Segment) -> u64 {
    segment.to_ns.saturating_sub(segment.from_ns)
}

fn who(segment: &Segment) -> String {
    let own = thread(&segment.comm, segment.tid);
    match &segment.parent {
        Some(parent) => {
            format!("{own} ({} waits for this child)", thread(&parent.comm, parent.tid))
        }
        None => own,
    }
}

/// Who waits for the thread meanwhile, and for what; empty where nothing more is known than who wakes it.
pub fn awaited(segment: &Segment) -> String {
    let Some(via) = &segment.via else { return String::new() };
    let waits = |what| format!("{} waits {what}", thread(&via.waits.comm, via.waits.tid));
    via.words().map_or_else(String::new, waits)
}

/// Who took a part of a wait.
pub fn named(culprit: &Culprit) -> String {
    let Culprit { tid, comm, cause, .. } = culprit;
    match *cause {
        THROTTLE => QUOTA.to_owned(),
        "thread" => thread(comm, *tid),
        cause if comm.is_empty() || cause == "idle" => cause.to_owned(),
        cause if *tid > 0 => format!("{} ({cause})", thread(comm, *tid)),
        cause => format!("{cause} {}", clean(comm)),
    }
}

/// All executions, in so many columns.
pub fn page(document: &PathsDocument, width: usize) -> Painted {
    let mut page = Painted::default();
    if let Some(unread) = &document.unread_lines {
        page.plain(&format!("{unread}\n"));
    }
    page.plain(&document.reach.line());
    if document.discarded > 0 {
        page.plain(&format!("{} events were lost while recording\n", document.discarded));
    }
    if document.left_out > 0 {
        page.plain(&format!("{}\n", not_traced(document.left_out)));
    }
    for delimiters in &document.delimiters {
        let rows = delimiters.tally.rows().into_iter().filter(|(count, _)| *count > 0);
        for (count, what) in rows {
            page.plain(&format!("{}: {count} {what}\n", delimiters.name));
        }
    }
    let groups: Vec<&[Traced]> =
        document.executions.chunk_by(|one, other| one.name == other.name).collect();
    for (number, group) in groups.iter().take(SHOWN_GROUPS).enumerate() {
        page.plain(if number > 0 || !page.is_empty() { "\n" } else { "" });
        let whole = whole(group.iter());
        if let Some(cut_off) = cut_off(&group.iter().collect::<Vec<_>>(), whole.len()) {
            page.plain(&wrapped(&cut_off, width));
        }
        match whole.as_slice() {
            [only] => execution(&mut page, only, width),
            several => summary(&mut page, several, width),
        }
    }
    if groups.len() > SHOWN_GROUPS {
        page.plain(&format!("\n{} more are in --json\n", groups.len() - SHOWN_GROUPS));
    }
    page
}

/// What to know of executions of one kind whose begin or end is not known, of which so many are shown.
fn cut_off(group: &[&Traced], shown: usize) -> Option<String> {
    let outside = "outside of the recording or of the time that is asked for";
    match group {
        [first, ..] if shown < group.len() => {
            let (name, left_out) = (&first.name, group.len() - shown);
            Some(format!("{name}: {left_out} left out: begin or end is {outside}"))
        }
        [first, ..] if !first.is_whole() => Some(format!(
            "{}: begin or end is {outside}; figures are of the part inside",
            first.name
        )),
        _ => None,
    }
}

/// Several executions of one kind: all of them, then the slowest.
fn summary(page: &mut Painted, group: &[&Traced], width: usize) {
    let Some(slowest) = group.iter().max_by_key(|traced| (traced.span_ns, Reverse(traced.from_ns)))
    else {
        return;
    };
    let all_ns = group.iter().fold(0_u64, |sum, traced| sum.saturating_add(traced.span_ns));
    let mean_ns = all_ns / (group.len() as u64).max(1);
    let mut rows = states(group.iter().flat_map(|traced| &traced.path));
    rows.iter_mut().for_each(|row| row.divide(group.len() as u64));
    page.plain(&wrapped(
        &format!(
            "{}: {} executions took {} ms on average, {}; the slowest took {} ms.",
            slowest.name,
            group.len(),
            milli(mean_ns),
            answer(&rows, mean_ns, None),
            milli(slowest.span_ns)
        ),
        width,
    ));
    let cut = group.iter().fold(0_u64, |sum, traced| sum.saturating_add(traced.cut));
    if cut > 0 {
        page.plain(&wrapped(&format!("In all: {}", not_followed(cut)), width));
    }
    table(page, &rows, "mean", width, mean_ns);
    page.plain("\nThe slowest:\n");
    execution(page, slowest, width);
}

fn execution(page: &mut Painted, traced: &Traced, width: usize) {
    let key = traced.key.as_ref().map_or_else(String::new, |key| format!(", key {}", clean(key)));
    let (span_ns, own) = (traced.span_ns, thread(&traced.comm, traced.tid));
    let rows = states(traced.path.iter());
    page.plain(&wrapped(
        &format!(
            "{}{key}: {own} took {} ms, {}.",
            traced.name,
            milli(span_ns),
            answer(&rows, span_ns, Some(&own))
        ),
        width,
    ));
    if traced.cut > 0 {
        page.plain(&wrapped(&not_followed(traced.cut), width));
    }
    table(page, &rows, "time", width, span_ns);
    if let Some(ns) = traced.in_calls_ns {
        let (time, share) = (milli(ns), share(ns, span_ns));
        page.plain(&format!("  {:<16} {time:>12} {share:>9}   of running\n", "in system calls"));
    }
    lane(page, traced, width.saturating_sub(4), |ns| format!("{} ms", milli(ns)));
    parts(page, traced, width);
}

/// A state with its time, and who had that, the longest first.
struct PathStateRow {
    state: &'static str,
    ns: u64,
    /// Whether it is known whom it was for; otherwise whose time it was.
    is_blamed: bool,
    whom: Vec<(String, u64)>,
}

impl PathStateRow {
    /// What one of so many has of it.
    fn divide(&mut self, count: u64) {
        for ns in self.whom.iter_mut().map(|(_, ns)| ns).chain([&mut self.ns]) {
            *ns /= count.max(1);
        }
    }
}

/// Time by state, the longest first. Whom a wait was for, where that is known, else whose time it was.
fn states<'p>(parts: impl Iterator<Item = &'p Segment>) -> Vec<PathStateRow> {
    type Sum = (u64, bool, HashMap<String, u64>);
    let mut sums: HashMap<&'static str, Sum> = HashMap::new();
    for segment in parts {
        let (sum, is_blamed, whom) = sums.entry(segment.state).or_default();
        *sum = sum.saturating_add(length(segment));
        *is_blamed |= segment.culprits.iter().any(|culprit| culprit.cause != UNTRACKED);
        let mut add = |who: String, ns: u64| {
            let sum = whom.entry(who).or_default();
            *sum = sum.saturating_add(ns);
        };
        if segment.culprits.is_empty() {
            add(who(segment), length(segment));
        }
        for culprit in &segment.culprits {
            add(named(culprit), culprit.ns);
        }
    }
    let row = |(state, (ns, is_blamed, whom)): (&'static str, Sum)| {
        let mut whom: Vec<_> = whom.into_iter().collect();
        whom.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        PathStateRow { state, ns, is_blamed, whom }
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| (Reverse(row.ns), row.state));
    rows
}

/// What took most of the time, and for whom.
fn answer(rows: &[PathStateRow], all_ns: u64, own: Option<&str>) -> String {
    let Some(row) = rows.first() else { return "of which nothing is known".to_owned() };
    let most = if row.ns > all_ns / 2 { "most of it" } else { "the largest part of it" };
    let doing = match row.state {
        "running" => "running",
        "waiting_cpu" => "waiting for a CPU",
        "disk" => "waiting for a disk",
        "network" => "waiting for the network",
        "timer" => "waiting for a timer",
        "futex" => "waiting for a lock",
        "task" => "waiting for another thread",
        "interrupt" => "waiting for an interrupt",
        "ipi" => "waiting for an interrupt from another CPU",
        "unknown" => "unknown to the recording",
        other => other,
    };
    let whom = match row.whom.as_slice() {
        [] => String::new(),
        [(only, _)] if own == Some(only) && !row.is_blamed => String::new(),
        [(first, _), ..] if first == UNTRACKED => String::new(),
        [(first, _), rest @ ..] => {
            let more = match rest {
                [] => String::new(),
                [(second, _)] => format!(" and {second}"),
                rest => format!(" and {} others", rest.len()),
            };
            match (row.state, row.is_blamed) {
                ("waiting_cpu", true) if first == QUOTA => format!(", held back by {first}{more}"),
                ("waiting_cpu", true) => format!(", which {first}{more} had"),
                (_, true) => format!(", for {first}{more}"),
                (_, false) => format!(", in {first}{more}"),
            }
        }
    };
    format!("{most} ({} ms, {}) {doing}{whom}", milli(row.ns), share(row.ns, all_ns))
}

fn wrapped(text: &str, width: usize) -> String {
    wrap(text, width).join("\n") + "\n"
}

/// A row; its end stands in a line of its own, that far to the right, where it does not fit.
fn row(begin: &str, end: &str, left: usize, width: usize) -> String {
    let is_room = begin.chars().count() + end.chars().count() < width;
    match is_room || end.is_empty() {
        true => format!("{begin} {end}").trim_end().to_owned() + "\n",
        false => format!("{begin}\n{:left$}{end}\n", ""),
    }
}

/// The names with the most time, as many as fit behind what stands before them, and how many more there are.
fn names(whom: &[(String, u64)], before: usize, width: usize) -> String {
    let room = width.saturating_sub(before + MORE_COLUMNS).max(LEAST_NAMES_COLUMNS);
    let mut text = String::new();
    for (number, (who, ns)) in whom.iter().enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        let name = format!("{comma}{who} {}", milli(*ns));
        let is_room = text.chars().count() + name.chars().count() <= room;
        if number > 0 && (number >= SHOWN_NAMES || !is_room) {
            text.push_str(&format!(", {} more", whom.len() - number));
            break;
        }
        text.push_str(&name);
    }
    text
}

fn table(page: &mut Painted, rows: &[PathStateRow], time: &str, width: usize, all_ns: u64) {
    page.plain(&format!(
        "\n  {:<16} {:>12} {:>9}   for whom; all times in milliseconds\n",
        "state", time, "share"
    ));
    for PathStateRow { state, ns, whom, .. } in rows {
        let (time, share, names) =
            (milli(*ns), share(*ns, all_ns), names(whom, STATE_COLUMNS, width));
        let begin = format!("  {state:<16} {time:>12} {share:>9}  ");
        page.plain(&row(&begin, &names, TIMES_COLUMNS, width));
    }
}

/// The parts in the order of time: the longest with a row each, those between folded.
fn parts(page: &mut Painted, traced: &Traced, width: usize) {
    let mut order: Vec<usize> = (0..traced.path.len()).collect();
    order.sort_by_key(|&place| {
        traced.path.get(place).map(|segment| (Reverse(length(segment)), segment.from_ns))
    });
    let mut is_shown = vec![false; traced.path.len()];
    for &place in order.iter().take(SHOWN_PARTS) {
        is_shown[place] = true;
    }
    page.plain(&format!("\n  {:<12} {:>12}  {:<16} thread\n", "after", "time", "state"));
    let after = |segment: &Segment| milli(segment.from_ns.saturating_sub(traced.from_ns));
    let marked: Vec<(&Segment, bool)> = traced.path.iter().zip(is_shown).collect();
    for run in marked.chunk_by(|one, other| !one.1 && !other.1) {
        let Some((first, is_shown)) = run.first() else { continue };
        if *is_shown || run.len() == 1 {
            let is_known = first.culprits.iter().any(|culprit| culprit.cause != UNTRACKED);
            let whom = match is_known {
                false => String::new(),
                true => {
                    let rows = states(std::iter::once(*first));
                    let whom = rows.first().map(|row| row.whom.as_slice()).unwrap_or_default();
                    format!("for {}", names(whom, PART_COLUMNS, width))
                }
            };
            let end = [whom, awaited(first)].into_iter().filter(|part| !part.is_empty());
            let end = end.collect::<Vec<_>>().join("; ");
            let begin = format!(
                "  {:<12} {:>12}  {:<16} {}{}",
                after(first),
                milli(length(first)),
                first.state,
                who(first),
                if end.is_empty() { "" } else { ";" }
            );
            page.plain(&row(&begin, &end, TIMES_COLUMNS, width));
            continue;
        }
        let all_ns = run.iter().fold(0_u64, |sum, (part, _)| sum.saturating_add(length(part)));
        let folded = folded(run.iter().map(|(part, _)| *part));
        let (after, ns) = (after(first), milli(all_ns));
        let begin = format!("  {after:<12} {ns:>12}  {} parts folded:", run.len());
        let names = names(&folded, TIMES_COLUMNS, width);
        page.plain(&row(&begin, &names, TIMES_COLUMNS, width));
    }
}

/// Time by thread and state, the longest first.
fn folded<'p>(parts: impl Iterator<Item = &'p Segment>) -> Vec<(String, u64)> {
    let mut sums: HashMap<(&str, i32, &'static str), u64> = HashMap::new();
    for segment in parts {
        let sum = sums.entry((&segment.comm, segment.tid, segment.state)).or_default();
        *sum = sum.saturating_add(length(segment));
    }
    let row = |((comm, tid, state), ns): ((&str, i32, &str), u64)| {
        (format!("{} {state}", thread(comm, tid)), ns)
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    rows
}

#[cfg(test)]
mod tests;

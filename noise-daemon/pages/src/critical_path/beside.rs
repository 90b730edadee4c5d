//! Paths of two recordings beside each other, for people: how much longer, what that is and for whom; by state; for whom it
//! waited in the one and in the other; and both lanes of time on one scale.

use std::path::Path;

use noise_command::output::Painted;
use noise_paths::beside::{Beside, Both, ForWhom, beside, median};
use noise_paths::document::{PathsDocument as Paths, not_followed, not_traced, whole};
use noise_text::clean::clean;
use noise_text::columns::{pad, shorten, width};
use serde::Serialize;

use super::lane::pair;
use super::{QUOTA, THROTTLE, UNTRACKED, cut_off, milli, share};
use crate::states::time_in;

/// Rows for whom it waited.
const SHOWN_WHOM: usize = 8;
/// Part of the longer span below which a row is left out.
const LEAST_SHARE: f64 = 0.001;
/// Up to this part longer or shorter, an execution takes about as long.
const SAME_SHARE: f64 = 0.02;
/// From this part of a difference on, it is all somebody's.
const NEARLY_ALL: f64 = 0.9;
/// Columns of a recording's name above its figures, and of who somebody is.
const NAME_COLUMNS: usize = 20;
const WHO_COLUMNS: usize = 24;
/// What the table of those has beside them, and what a page has at least.
const FIGURE_COLUMNS: usize = 56;

/// Paths of a recording, those of another one, and both beside each other.
#[derive(Debug, Serialize)]
pub struct BesideDocument {
    #[serde(flatten)]
    paths: Paths,
    against: Paths,
    beside: Vec<Beside>,
}

impl BesideDocument {
    pub fn new(paths: Paths, against: Paths) -> Self {
        Self { beside: beside(&paths, &against), paths, against }
    }
}

/// What one execution has of a sum on average, in the recording and in the other one, nanoseconds.
#[derive(Clone, Copy)]
struct Means {
    ns: f64,
    against_ns: f64,
}

impl Means {
    fn more_ns(self) -> f64 {
        self.ns - self.against_ns
    }

    /// How many times as long.
    fn factor(self) -> String {
        match self.ns / self.against_ns {
            factor if !factor.is_finite() => "-".to_owned(),
            factor if factor >= 999.5 => ">999x".to_owned(),
            factor if factor >= 99.5 => format!("{factor:.0}x"),
            factor => format!("{factor:.1}x"),
        }
    }
}

fn means(beside: &Beside, sum: Both) -> Means {
    Means {
        ns: sum.ns as f64 / beside.executions.max(1) as f64,
        against_ns: sum.against_ns as f64 / beside.against_executions.max(1) as f64,
    }
}

/// In a sentence: as exact as helps.
fn shortly(ns: f64) -> String {
    match ns / 1e6 {
        ms if ms >= 99.95 => format!("{ms:.0} ms"),
        ms if ms >= 9.995 => format!("{ms:.1} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

fn who(row: &ForWhom) -> String {
    let ForWhom { cause, threads, against_threads, .. } = row;
    // A name may have anything in it, lines among it.
    let comm = clean(&row.comm);
    match (*cause, (*threads).max(*against_threads)) {
        ("thread", _) => comm.into_owned(),
        (THROTTLE, _) => QUOTA.to_owned(),
        (cause, _) if comm.is_empty() => cause.to_owned(),
        (cause, 0) => format!("{cause} {comm}"),
        (cause, _) => format!("{comm} ({cause})"),
    }
}

/// In a sentence, which says already what it waited for.
fn plainly(row: &ForWhom) -> String {
    match row.threads.max(row.against_threads) {
        0 => who(row),
        _ => clean(&row.comm).into_owned(),
    }
}

/// In a table: with how many threads these are.
fn whom(row: &ForWhom) -> String {
    let who = who(row);
    match row.threads.max(row.against_threads) {
        0 | 1 => who,
        count => format!("{who}, {count} threads"),
    }
}

/// The names that the recordings have in a page: of their files, where these differ.
fn names(paths: [&Path; 2]) -> [String; 2] {
    let name = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    };
    let [this, other] = paths.map(|path| shorten(&name(path), NAME_COLUMNS));
    match this == other {
        true => ["RECORDING".to_owned(), "--against".to_owned()],
        false => [this, other],
    }
}

/// All executions that both have, in so many columns.
pub fn page(document: &BesideDocument, paths: [&Path; 2], columns: usize) -> Painted {
    let mut page = Painted::default();
    let names = names(paths);
    for (name, of) in names.iter().zip([&document.paths, &document.against]) {
        if let Some(unread) = &of.unread_lines {
            page.plain(&format!("{name}: {unread}\n"));
        }
        if !of.reach.is_whole() {
            page.plain(&format!("{name}: {}\n", of.reach));
        }
        if of.discarded > 0 {
            page.plain(&format!("{name}: {} events were lost while recording\n", of.discarded));
        }
        if of.left_out > 0 {
            page.plain(&format!("{name}: {}\n", not_traced(of.left_out)));
        }
        let cut = of.executions.iter().fold(0_u64, |sum, traced| sum.saturating_add(traced.cut));
        if cut > 0 {
            page.plain(&format!("{name}: {}\n", not_followed(cut)));
        }
        for delimiters in &of.delimiters {
            for (count, what) in delimiters.tally.rows().iter().filter(|(count, _)| *count > 0) {
                page.plain(&format!("{name}: {}: {count} {what}\n", delimiters.name));
            }
        }
    }
    for beside in &document.beside {
        page.plain(if page.is_empty() { "" } else { "\n" });
        for (name, of) in names.iter().zip([&document.paths, &document.against]) {
            let all = of.executions.iter().filter(|traced| traced.name == beside.name);
            let shown = whole(all.clone()).len();
            if let Some(cut_off) = cut_off(&all.collect::<Vec<_>>(), shown) {
                page.plain(&format!("{name}: {cut_off}\n"));
            }
        }
        let who = clean(threads(document, &beside.name));
        page.plain(&format!("{}: {who} {}\n", beside.name, answer(beside, &names)));
        states(&mut page, beside, &names);
        for_whom(&mut page, beside, &names, columns);
        let of = [(1, &document.against), (0, &document.paths)].map(|(place, paths)| {
            median(paths, &beside.name).map(|traced| (heading(beside, place, &names), traced))
        });
        if let [Some((one, shorter)), Some((other, longer))] = of {
            let both = [(one.as_str(), shorter), (other.as_str(), longer)];
            pair(&mut page, both, columns.saturating_sub(4), |ns| format!("{} ms", milli(ns)));
        }
    }
    page
}

/// What stands above a lane.
fn heading(beside: &Beside, place: usize, names: &[String; 2]) -> String {
    let name = names.get(place).map_or("", String::as_str);
    match [beside.executions, beside.against_executions].get(place) {
        Some(1) | None => name.to_owned(),
        Some(count) => format!("{name}, the median of {count}"),
    }
}

/// What the threads of all executions are called.
fn threads<'d>(document: &'d BesideDocument, name: &str) -> &'d str {
    let all = document.paths.executions.iter().chain(&document.against.executions);
    let mut all = all.filter(|traced| traced.name == name).map(|traced| traced.comm.as_str());
    let first = all.next().unwrap_or_default();
    if all.all(|comm| comm == first) { first } else { "threads of several names" }
}

/// How long both took, and what the difference is.
fn answer(beside: &Beside, [this, other]: &[String; 2]) -> String {
    let all = means(beside, beside.span);
    let more_ns = all.more_ns();
    let took = format!("{} in {this}, {} in {other}", shortly(all.ns), shortly(all.against_ns));
    if more_ns.abs() <= SAME_SHARE * all.against_ns.max(all.ns) {
        return format!("took about as long: {took}.");
    }
    let grown = |time: Both| means(beside, time).more_ns() * more_ns.signum();
    let of_state = |row: &noise_paths::beside::OfState| (grown(row.time), row.state);
    let largest =
        beside.states.iter().rev().map(of_state).max_by(|one, other| one.0.total_cmp(&other.0));
    let Some((state_ns, state)) = largest else { return format!("took {took}.") };
    let parts = time_in(state);
    let of = |row: &&ForWhom| row.state == state && row.cause != UNTRACKED;
    let first = beside.whom.iter().rev().filter(of).map(|row| (grown(row.time), row));
    let first = first.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(ns, _)| *ns > 0.0);
    let verb = |cause| if state == "waiting_cpu" && cause != THROTTLE { "had" } else { "caused" };
    let whom = match first {
        None => String::new(),
        Some((_, row)) if row.cause == "idle" => {
            ", most of them until an idle one had woken up".to_owned()
        }
        Some((ns, row)) if ns >= NEARLY_ALL * state_ns => {
            format!(" that {} {}", plainly(row), verb(row.cause))
        }
        Some((ns, row)) => {
            format!(", of which {} {} {}", plainly(row), verb(row.cause), shortly(ns))
        }
    };
    let (change_ns, word) = (more_ns.abs(), if more_ns > 0.0 { "more" } else { "less" });
    let (most, all_of_it) = (shortly(state_ns), shortly(change_ns));
    let part = match state_ns >= change_ns || most == all_of_it {
        true => format!("All {all_of_it} {word}"),
        false => format!("{most} of {all_of_it} {word}"),
    };
    format!("took {} as long: {took}.\n{part} are {parts}{whom}.", all.factor())
}

fn states(page: &mut Painted, beside: &Beside, [this, other]: &[String; 2]) {
    let all = means(beside, beside.span);
    let line = |name: &str, time: Means| {
        let figure = |ns: f64, all_ns: f64| {
            format!(
                "{:>11} {:>8}",
                milli(ns.round() as u64),
                share(ns.round() as u64, all_ns.round() as u64)
            )
        };
        format!(
            "  {name:<12}{}  {}{:>+13.3} {:>8}\n",
            figure(time.against_ns, all.against_ns),
            figure(time.ns, all.ns),
            time.more_ns() / 1e6,
            time.factor()
        )
    };
    let (left, right) = (pad(other, NAME_COLUMNS, true), pad(this, NAME_COLUMNS + 2, true));
    let is_mean = beside.executions > 1 || beside.against_executions > 1;
    let head = if is_mean { "means, ms" } else { "state, ms" };
    page.plain(&format!("\n  {head:<12}{left}{right}{:>13} {:>8}\n", "more", "factor"));
    for row in &beside.states {
        page.plain(&line(row.state, means(beside, row.time)));
    }
    page.plain(&line("all", all));
}

fn for_whom(page: &mut Painted, beside: &Beside, [this, other]: &[String; 2], columns: usize) {
    let all = means(beside, beside.span);
    let least_ns = LEAST_SHARE * all.ns.max(all.against_ns);
    let is_shown = |row: &&ForWhom| {
        let time = means(beside, row.time);
        time.ns.max(time.against_ns) >= least_ns
    };
    let shown: Vec<_> = beside.whom.iter().filter(is_shown).take(SHOWN_WHOM).collect();
    if shown.is_empty() {
        return;
    }
    // As wide as the table above where there is no more room, else as wide as the names.
    let longest = shown.iter().map(|row| width(&whom(row))).max().unwrap_or(0);
    let room = columns.saturating_sub(FIGURE_COLUMNS).max(WHO_COLUMNS);
    let room = longest.clamp(WHO_COLUMNS, room);
    let [this, other] = [this, other].map(|name| pad(&shorten(name, 12), 13, true));
    let head = pad("for whom, ms", 12 + room, false);
    page.plain(&format!("\n  {head}{other}{this}{:>13}\n", "more"));
    for row in &shown {
        let time = means(beside, row.time);
        let milli = |ns: f64| milli(ns.round() as u64);
        page.plain(&format!(
            "  {:<12}{}{:>13}{:>13}{:>+13.3}\n",
            row.state,
            pad(&shorten(&whom(row), room), room, false),
            milli(time.against_ns),
            milli(time.ns),
            time.more_ns() / 1e6
        ));
    }
    if beside.whom.len() > shown.len() {
        page.plain(&format!("  {} more are in --json\n", beside.whom.len() - shown.len()));
    }
}

#[cfg(test)]
mod tests;

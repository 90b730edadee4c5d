//! Paths as one lane of time: in each column the state that has most of its time, and whose it is.

use std::collections::HashMap;

use noise_paths::document::{Segment, Traced};
use noise_text::clean::clean;

use noise_command::output::Painted;

/// Threads with a letter of their own; the others share the last sign.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const OTHERS: char = '~';
/// The thread of the execution itself.
const OWN: char = '.';

/// A thread. A name may have anything in it, lines among it.
pub fn thread(comm: &str, tid: i32) -> String {
    format!("{} {tid}", clean(comm))
}

/// A state's letter and its colour: numbers of ECMA-48's select graphic rendition, black on a light one.
pub fn look(state: &str) -> (char, &'static str) {
    match state {
        "running" => ('R', "30;42"),
        "waiting_cpu" => ('W', "37;41"),
        "disk" => ('D', "30;43"),
        "network" => ('N', "30;46"),
        "timer" => ('T', "30;47"),
        "futex" => ('F', "37;45"),
        "task" => ('K', "37;44"),
        "interrupt" => ('I', "30;105"),
        "ipi" => ('P', "30;104"),
        _ => ('?', "37;100"),
    }
}

type SegmentCell<'p> = (&'p str, (i32, &'p str));

/// In each column the segment with the longest part of its time.
fn cells(traced: &Traced, width: usize) -> Vec<SegmentCell<'_>> {
    let span_ns = u128::from(traced.span_ns);
    let width = width.min(usize::try_from(traced.span_ns).unwrap_or(usize::MAX));
    let edge = |column: usize| {
        let part = span_ns * column as u128 / width.max(1) as u128;
        traced.from_ns.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
    };
    let mut first = 0;
    let mut cells = Vec::with_capacity(width);
    for column in 0..width {
        let (from_ns, to_ns) = (edge(column), edge(column + 1));
        let mut sums: HashMap<SegmentCell<'_>, u64> = HashMap::new();
        let rest = traced.path.get(first..).unwrap_or_default();
        for segment in rest.iter().take_while(|segment| segment.from_ns < to_ns) {
            let ns = segment.to_ns.min(to_ns).saturating_sub(segment.from_ns.max(from_ns));
            let sum = sums.entry((segment.state, (segment.tid, &segment.comm))).or_default();
            *sum = sum.saturating_add(ns);
            first += usize::from(segment.to_ns <= to_ns);
        }
        let longest = sums
            .into_iter()
            .max_by(|(one, ns), (other, other_ns)| ns.cmp(other_ns).then_with(|| other.cmp(one)));
        cells.extend(longest.map(|(cell, _)| cell));
    }
    cells
}

/// Threads other than the execution's own, with the most time on the path first.
fn others(traced: &Traced) -> Vec<(i32, &str)> {
    let mut sums: HashMap<(i32, &str), u64> = HashMap::new();
    let is_other = |segment: &&Segment| (segment.tid, &segment.comm) != (traced.tid, &traced.comm);
    for segment in traced.path.iter().filter(is_other) {
        let sum = sums.entry((segment.tid, &segment.comm)).or_default();
        *sum = sum.saturating_add(segment.to_ns.saturating_sub(segment.from_ns));
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    rows.into_iter().map(|(who, _)| who).collect()
}

/// A letter for each column, and the states that have one.
fn band<'p>(page: &mut Painted, cells: &[SegmentCell<'p>], states: &mut Vec<&'p str>) {
    for run in cells.chunk_by(|one, other| one.0 == other.0) {
        let Some((state, _)) = run.first() else { continue };
        let (letter, colour) = look(state);
        page.coloured(&letter.to_string().repeat(run.len()), colour);
        if !states.contains(state) {
            states.push(state);
        }
    }
}

/// The lane in so many columns, with what its letters mean.
pub fn lane(page: &mut Painted, traced: &Traced, width: usize, shown: impl Fn(u64) -> String) {
    let cells = cells(traced, width);
    if cells.is_empty() {
        return;
    }
    let end = shown(traced.span_ns);
    page.plain(&format!("\n  0{end:>width$}\n  ", width = cells.len().saturating_sub(1)));
    let mut states: Vec<&str> = Vec::new();
    band(page, &cells, &mut states);
    page.plain("\n");
    let others = others(traced);
    let letter = |who: &(i32, &str)| {
        if *who == (traced.tid, traced.comm.as_str()) {
            return OWN;
        }
        let place = others.iter().position(|other| other == who);
        place.and_then(|place| LETTERS.get(place)).map_or(OTHERS, |letter| char::from(*letter))
    };
    if !others.is_empty() {
        let line: String = cells.iter().map(|(_, who)| letter(who)).collect();
        page.plain(&format!("  {line}\n"));
    }
    let mut legend = LetterLegend { page, columns: 0, width: width + 2 };
    legend.states(&states);
    if !others.is_empty() {
        let mut shown: Vec<char> = Vec::new();
        legend.item(None, &format!("{OWN} {}", thread(&traced.comm, traced.tid)), "; ");
        for (_, who) in &cells {
            let sign = letter(who);
            if sign != OWN && !shown.contains(&sign) {
                shown.push(sign);
                match sign {
                    OTHERS => legend.item(None, &format!("{OTHERS} others"), ", "),
                    sign => legend.item(None, &format!("{sign} {}", thread(who.1, who.0)), ", "),
                }
            }
        }
    }
    page.plain("\n");
}

/// Two lanes on one scale, so that the longer execution has all of so many columns, each below its heading. Threads have
/// letters by their names, since the two executions have other threads.
pub fn pair(
    page: &mut Painted,
    both: [(&str, &Traced); 2],
    width: usize,
    shown: impl Fn(u64) -> String,
) {
    let longest_ns = both.iter().map(|(_, traced)| traced.span_ns).max().unwrap_or(0);
    let columns = |traced: &Traced| {
        let part = width as u128 * u128::from(traced.span_ns) / u128::from(longest_ns.max(1));
        usize::try_from(part).unwrap_or(width).max(1)
    };
    let lanes = both.map(|(heading, traced)| (heading, traced, cells(traced, columns(traced))));
    if lanes.iter().any(|(_, _, cells)| cells.is_empty()) {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, traced, cells) in &lanes {
        for (_, (_, comm)) in cells {
            if *comm != traced.comm && !names.contains(comm) {
                names.push(comm);
            }
        }
    }
    let letter = |own: &str, comm: &str| match names.iter().position(|name| *name == comm) {
        _ if comm == own => OWN,
        Some(place) => LETTERS.get(place).map_or(OTHERS, |letter| char::from(*letter)),
        None => OTHERS,
    };
    let end = shown(longest_ns);
    page.plain(&format!("\n  0{end:>width$}\n", width = width.saturating_sub(1)));
    let mut states: Vec<&str> = Vec::new();
    for (heading, traced, cells) in &lanes {
        page.plain(&format!("  {heading}, {}\n  ", shown(traced.span_ns)));
        band(page, cells, &mut states);
        page.plain("\n");
        if !names.is_empty() {
            let line: String =
                cells.iter().map(|(_, (_, comm))| letter(&traced.comm, comm)).collect();
            page.plain(&format!("  {line}\n"));
        }
    }
    let mut legend = LetterLegend { page, columns: 0, width: width + 2 };
    legend.states(&states);
    if let (false, Some((_, own, _))) = (names.is_empty(), lanes.first()) {
        legend.item(None, &format!("{OWN} {}", clean(&own.comm)), "; ");
        for (name, letter) in names.iter().zip(LETTERS) {
            legend.item(None, &format!("{} {}", char::from(*letter), clean(name)), ", ");
        }
        if names.len() > LETTERS.len() {
            legend.item(None, &format!("{OTHERS} others"), ", ");
        }
    }
    page.plain("\n");
}

/// What letters mean, in lines that are not longer than the lane.
struct LetterLegend<'p> {
    page: &'p mut Painted,
    /// Of the line so far.
    columns: usize,
    width: usize,
}

impl LetterLegend<'_> {
    fn states(&mut self, states: &[&str]) {
        for state in states {
            let (letter, colour) = look(state);
            self.item(Some((&letter.to_string(), colour)), &format!(" {state}"), ", ");
        }
    }

    fn item(&mut self, letter: Option<(&str, &'static str)>, text: &str, separator: &str) {
        let columns = letter.map_or(0, |(letter, _)| letter.chars().count()) + text.chars().count();
        let is_first = self.columns == 0;
        if !is_first && self.columns + separator.len() + columns > self.width {
            self.page.plain(separator.trim_end());
            self.page.plain("\n  ");
            self.columns = 2 + columns;
        } else {
            let before = if is_first { "  " } else { separator };
            self.page.plain(before);
            self.columns += before.len() + columns;
        }
        if let Some((letter, colour)) = letter {
            self.page.coloured(letter, colour);
        }
        self.page.plain(text);
    }
}

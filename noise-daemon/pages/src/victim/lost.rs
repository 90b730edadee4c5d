//! PURE: what was lost to whom, and below each what can be done about it: the remedy that this host has commands for, else
//! what to look at.

use std::fmt::Write as _;

use noise_text::clean::clean;
use noise_text::columns::shorten;
use noise_text::table::Columns;
use noise_text::units::share;
use noise_verdict::{Finding, Kind};

use super::{BESIDE_NAMES, LEAST_NAME, prose, time};
use noise_why::findings::Findings;

/// Blanks before what belongs to a row, and before what belongs to the only finding, which is no row: the sentence has it all.
const BELOW_ROW: &str = "    ";
const BELOW_SENTENCE: &str = "";

/// What belongs to a finding, whole, and without how the host is set up.
struct FindingText {
    whole: String,
    brief: String,
}

impl FindingText {
    /// The longer one of these that is no longer than so many lines.
    fn fitting(&self, lines: usize) -> Option<&str> {
        [&self.whole, &self.brief].into_iter().find(|text| count(text) <= lines).map(String::as_str)
    }
}

fn count(text: &str) -> usize {
    text.lines().count()
}

/// Commands, each in one line, to be copied.
fn commands(text: &mut String, commands: &[String], blanks: &str) {
    for command in commands {
        let _ = writeln!(text, "{blanks}  # {}", clean(command));
    }
}

/// What can be done about a finding.
fn to_do(one: &Finding, says_next: bool, blanks: &str, width: usize) -> FindingText {
    let Some(ready) = one.ready() else {
        let mut whole = String::new();
        if let Some(next) = one.next.as_ref().filter(|_| says_next) {
            prose(&mut whole, &format!("{blanks}Next: {}.", clean(next)), width);
        }
        return FindingText { brief: whole.clone(), whole };
    };
    let now = ready.now.as_ref().map(|now| format!(" ({})", clean(now))).unwrap_or_default();
    let [mut whole, mut brief] = [String::new(), String::new()];
    prose(&mut whole, &format!("{blanks}To try first{now}:"), width);
    prose(&mut brief, &format!("{blanks}To try first:"), width);
    for text in [&mut whole, &mut brief] {
        commands(text, &ready.commands, blanks);
        if !ready.undo.is_empty() {
            let _ = writeln!(text, "{blanks}To take it back:");
            commands(text, &ready.undo, blanks);
        }
    }
    FindingText { whole, brief }
}

/// Its share of the time in which the victim had something to do; nothing of what is not part of that.
fn of_work(one: &Finding) -> String {
    let is_part = one.resource.is_active();
    if is_part { share(one.share) } else { String::new() }
}

/// The findings as rows, below their heading.
fn rows(found: &Findings, findings: &[Finding], width: usize) -> Vec<String> {
    let most = width.saturating_sub(BESIDE_NAMES).max(LEAST_NAME);
    let share = if found.counted().is_some() { "of the time" } else { "of its work" };
    let mut table = Columns::new(2, &["what it lacked", "because of", "time", share]);
    for one in findings {
        table.push(&[
            one.resource.name().to_owned(),
            shorten(&one.culprit.name, most),
            time(one.ns),
            of_work(one),
        ]);
    }
    table.text().lines().map(|line| format!("  {line}\n")).collect()
}

/// What to look at where no finding says it.
fn next(found: &Findings, width: usize) -> String {
    let mut text = String::new();
    let verdict = found.verdict.as_ref();
    let of_first = verdict.and_then(|verdict| verdict.findings.first()?.next.as_ref());
    let next = verdict.and_then(|verdict| verdict.next.as_ref());
    if let Some(next) = next.filter(|next| of_first != Some(next)) {
        prose(&mut text, &format!("Next: {}.", clean(next)), width);
    }
    text
}

/// Findings, as many as there are, at most so many, in at most about so many lines: what belongs to the first stays, then come
/// the rows of the others, then what belongs to them. All of it where the number of lines is not bounded.
pub fn lost(found: &Findings, width: usize, shown: usize, lines: usize) -> String {
    let mut text = next(found, width);
    let Some(verdict) = &found.verdict else { return text };
    let findings = verdict.findings.get(..shown).unwrap_or(&verdict.findings);
    // What is as usual is no reason to do something.
    let says_next = matches!(verdict.kind, Kind::HeldUp | Kind::Unknown);
    let Some(first) = findings.first() else { return text };
    let mut left = lines.saturating_sub(count(&text));
    if let [only] = verdict.findings.as_slice() {
        let part = to_do(only, says_next, BELOW_SENTENCE, width);
        text.push_str(part.fitting(left).unwrap_or(&part.brief));
        return text;
    }
    let mut rows = rows(found, findings, width).into_iter();
    text.extend(rows.next());
    left = left.saturating_sub(2);
    let part = |one| to_do(one, says_next, BELOW_ROW, width);
    let of_first = part(first);
    let of_first = of_first.fitting(left).unwrap_or(&of_first.brief);
    left = left.saturating_sub(count(of_first));
    text.extend(rows.next());
    text.push_str(of_first);
    let rows: Vec<String> = rows.take(left).collect();
    left = left.saturating_sub(rows.len());
    for (row, one) in rows.iter().zip(findings.iter().skip(1)) {
        let below = part(one);
        let below = below.fitting(left).unwrap_or_default();
        left = left.saturating_sub(count(below));
        text.push_str(row);
        text.push_str(below);
    }
    text
}

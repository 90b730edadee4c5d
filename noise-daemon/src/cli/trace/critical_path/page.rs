//! Critical paths for people: time by state, then by thread and state, then the longest parts in order.

use std::collections::HashMap;
use std::fmt::Write as _;

use noise_paths::document::{Document, Segment, Traced};

/// Executions that are shown.
const SHOWN_EXECUTIONS: usize = 20;
/// Rows of each table.
const SHOWN_ROWS: usize = 20;

/// For people, in milliseconds.
fn milli(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn share(ns: u64, all_ns: u64) -> String {
    format!("{:.1} %", 100.0 * ns as f64 / all_ns.max(1) as f64)
}

/// All executions.
pub fn page(document: &Document) -> String {
    let mut page = String::new();
    if document.discarded > 0 {
        let _ = writeln!(page, "{} events were lost while recording", document.discarded);
    }
    for (number, traced) in document.executions.iter().take(SHOWN_EXECUTIONS).enumerate() {
        if number > 0 {
            page.push('\n');
        }
        execution(&mut page, traced);
    }
    more(&mut page, document.executions.len(), SHOWN_EXECUTIONS, "executions");
    page
}

fn more(page: &mut String, count: usize, shown: usize, what: &str) {
    if count > shown {
        let _ = writeln!(page, "  {} more {what} are in --json", count - shown);
    }
}

fn execution(page: &mut String, traced: &Traced) {
    let span_ns = traced.span_ns;
    let _ = writeln!(
        page,
        "{}: {} {}, {} ms; all times in milliseconds",
        traced.name,
        traced.comm,
        traced.tid,
        milli(span_ns)
    );
    if traced.cut > 0 {
        let _ = writeln!(
            page,
            "sleeps not followed to their end, because the chain of wakers is too long: {}",
            traced.cut
        );
    }
    let _ = writeln!(page, "\n  {:<46} {:>12} {:>9}", "state", "time", "share");
    let mut totals: Vec<_> = traced.totals_ns.iter().filter(|(_, ns)| **ns > 0).collect();
    totals.sort_by_key(|(state, ns)| (std::cmp::Reverse(**ns), **state));
    for (state, ns) in totals {
        let _ = writeln!(page, "  {state:<46} {:>12} {:>9}", milli(*ns), share(*ns, span_ns));
    }
    let _ = writeln!(page, "\n  {:<30} {:<15} {:>12} {:>9}", "thread", "state", "time", "share");
    let folded = folded(&traced.path);
    for (who, state, ns) in folded.iter().take(SHOWN_ROWS) {
        let (ms, share) = (milli(*ns), share(*ns, span_ns));
        let _ = writeln!(page, "  {who:<30} {state:<15} {ms:>12} {share:>9}");
    }
    more(page, folded.len(), SHOWN_ROWS, "threads and states");
    let blamed = blamed(&traced.path);
    if !blamed.is_empty() {
        let heading = "who had the CPUs that were waited for";
        let _ = writeln!(page, "\n  {heading:<46} {:>12} {:>9}", "time", "share");
    }
    for (who, ns) in blamed.iter().take(SHOWN_ROWS) {
        let _ = writeln!(page, "  {who:<46} {:>12} {:>9}", milli(*ns), share(*ns, span_ns));
    }
    more(page, blamed.len(), SHOWN_ROWS, "of them");
    let _ = writeln!(page, "\n  {:<12} {:<30} {:<15} {:>12}", "after", "thread", "state", "time");
    for segment in longest(&traced.path) {
        let after = milli(segment.from_ns.saturating_sub(traced.from_ns));
        let ms = milli(segment.to_ns.saturating_sub(segment.from_ns));
        let state = segment.state;
        let _ = writeln!(page, "  {after:<12} {:<30} {state:<15} {ms:>12}", who(segment));
    }
    more(page, traced.path.len(), SHOWN_ROWS, "shorter parts");
}

fn who(segment: &Segment) -> String {
    format!("{} {}", segment.comm, segment.tid)
}

/// Time by thread and state, the longest first.
fn folded(path: &[Segment]) -> Vec<(String, &'static str, u64)> {
    let mut sums: HashMap<(i32, &str, &'static str), u64> = HashMap::new();
    for segment in path {
        let sum = sums.entry((segment.tid, &segment.comm, segment.state)).or_default();
        *sum = sum.saturating_add(segment.to_ns.saturating_sub(segment.from_ns));
    }
    let row = |((tid, comm, state), ns): ((i32, &str, &'static str), u64)| {
        (format!("{comm} {tid}"), state, ns)
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by(|one, other| other.2.cmp(&one.2).then_with(|| one.cmp(other)));
    rows
}

/// Time of waits for a CPU by who had it, the longest first.
fn blamed(path: &[Segment]) -> Vec<(String, u64)> {
    let mut sums: HashMap<String, u64> = HashMap::new();
    let waits = path.iter().filter(|segment| segment.state == "waiting_cpu");
    for culprit in waits.flat_map(|segment| &segment.culprits) {
        let who = match culprit.cause {
            "thread" => format!("{} {}", culprit.comm, culprit.tid),
            other => other.to_owned(),
        };
        let sum = sums.entry(who).or_default();
        *sum = sum.saturating_add(culprit.ns);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    rows
}

/// The longest parts, in the order of time.
fn longest(path: &[Segment]) -> Vec<&Segment> {
    let mut all: Vec<_> = path.iter().collect();
    all.sort_by_key(|segment| {
        (std::cmp::Reverse(segment.to_ns.saturating_sub(segment.from_ns)), segment.from_ns)
    });
    all.truncate(SHOWN_ROWS);
    all.sort_by_key(|segment| segment.from_ns);
    all
}

#[cfg(test)]
mod tests {
    use noise_trace::delays::document::Culprit;

    use super::*;

    #[test]
    fn paths_are_shown_as_agreed() {
        let segment = |tid, comm: &str, state, from_ns, to_ns| Segment {
            tid,
            comm: comm.to_owned(),
            cpu: None,
            state,
            from_ns,
            to_ns,
            why: None,
            through: None,
            culprits: Vec::new(),
        };
        let traced = Traced {
            name: "thread:7".to_owned(),
            tid: 7,
            comm: "server".to_owned(),
            from_ns: 1_000_000,
            to_ns: 11_000_000,
            span_ns: 10_000_000,
            has_begin: false,
            has_end: false,
            cut: 1,
            totals_ns: [
                ("running", 5_000_000),
                ("disk", 4_000_000),
                ("waiting_cpu", 1_000_000),
                ("timer", 0),
            ]
            .into(),
            path: vec![
                segment(7, "server", "running", 1_000_000, 3_000_000),
                segment(9, "helper", "disk", 3_000_000, 7_000_000),
                Segment {
                    culprits: vec![Culprit {
                        tid: 20,
                        comm: "hog".to_owned(),
                        cause: "thread",
                        ns: 1_000_000,
                    }],
                    ..segment(7, "server", "waiting_cpu", 7_000_000, 8_000_000)
                },
                segment(7, "server", "running", 8_000_000, 11_000_000),
            ],
        };
        insta::assert_snapshot!(page(&Document { executions: vec![traced], discarded: 3 }));
    }
}

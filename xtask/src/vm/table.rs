//! The results of all kernels side by side: for people, for programs, for docs/kernels.md.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::outcome::{Checked, Outcome};
use crate::libtest::Remark;

/// How it went with one kernel.
pub enum Verdict {
    /// It could not be had.
    Skipped(String),
    /// There was no guest, or it did not come to its end.
    Broken(String),
    /// It ran, and this came out.
    Ran(Box<Outcome>),
}

/// One kernel.
pub struct Row {
    /// As it was asked for.
    pub kernel: String,
    pub verdict: Verdict,
    /// From asking for it to the guest's end.
    pub took: Duration,
}

impl Row {
    /// What is wrong with it.
    pub fn faults(&self) -> Vec<String> {
        match &self.verdict {
            Verdict::Skipped(_) => Vec::new(),
            Verdict::Broken(words) => vec![words.clone()],
            Verdict::Ran(outcome) => outcome.faults(),
        }
    }

    fn word(&self) -> &'static str {
        match &self.verdict {
            Verdict::Skipped(_) => "skipped",
            _ if self.faults().is_empty() => "passed",
            _ => "FAILED",
        }
    }
}

const HEAD: [&str; 9] = [
    "kernel",
    "release",
    "hooks",
    "signals",
    "tests passed/failed/skipped",
    "hooks without root",
    "maps read after dropping",
    "Landlock",
    "seccomp",
];

fn cells(row: &Row) -> Vec<String> {
    let Verdict::Ran(outcome) = &row.verdict else {
        let mut cells = vec![row.kernel.clone()];
        cells.resize(HEAD.len(), "-".to_owned());
        return cells;
    };
    let side = |side: &Result<Checked, String>, text: fn(&Checked) -> String| {
        side.as_ref().map_or_else(|_| "fails".to_owned(), text)
    };
    let hooks = |it: &Checked| format!("{} of {}", it.attached, it.hooks());
    let tests = &outcome.tests;
    let dropped = match (outcome.reads_with("nothing"), outcome.reads_with("bpf")) {
        (Some(true), _) => "all capabilities",
        (_, Some(true)) => "all but CAP_BPF",
        _ => "unknown",
    };
    vec![
        row.kernel.clone(),
        outcome.release.clone(),
        side(&outcome.root, hooks),
        side(&outcome.root, |it| format!("{} of {}", it.measured, it.signals())),
        format!("{}/{}/{}", tests.passed, tests.failed.len(), tests.skipped.len()),
        side(&outcome.nobody, hooks),
        dropped.to_owned(),
        outcome.landlock().map_or_else(|| "none".to_owned(), |abi| format!("ABI {abi}")),
        if outcome.seccomp() { "yes" } else { "no" }.to_owned(),
    ]
}

/// For people.
pub fn text(rows: &[Row], left_out: &[Remark]) -> String {
    let head = HEAD.map(str::to_owned).to_vec();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    let mut page = String::new();
    for line in &lines {
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(page, "{}", text.trim_end());
    }
    details(&mut page, rows);
    reasons(&mut page, left_out);
    for row in rows {
        let seconds = row.took.as_secs();
        let _ = writeln!(page, "{}: {} ({seconds} s)", row.kernel, row.word());
        if let Verdict::Skipped(reason) = &row.verdict {
            let _ = writeln!(page, "    {reason}");
        }
        for fault in row.faults() {
            let _ = writeln!(page, "    {fault}");
        }
    }
    page
}

/// What is absent, and what guests skipped, said once for all the kernels that say the same.
fn details(page: &mut String, rows: &[Row]) {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    let mut note = |line: String, kernel| match lines.iter_mut().find(|(known, _)| *known == line) {
        Some((_, kernels)) => kernels.push(kernel),
        None => lines.push((line, vec![kernel])),
    };
    for row in rows {
        let Verdict::Ran(outcome) = &row.verdict else { continue };
        if let Ok(root) = &outcome.root {
            let absent = root.absent.iter().chain(&root.recording_absent);
            for (what, reason) in absent.chain(&root.unmeasured) {
                note(format!("without {what}: {reason}"), row.kernel.as_str());
            }
        }
        for skipped in &outcome.tests.skipped {
            note(format!("skipped {}: {}", skipped.test, skipped.reason), row.kernel.as_str());
        }
        for flaky in &outcome.tests.flaky {
            note(format!("failed first: {}: {}", flaky.test, flaky.reason), row.kernel.as_str());
        }
        for line in &outcome.complaints.remarks {
            note(format!("the kernel says {line}"), row.kernel.as_str());
        }
    }
    page.push('\n');
    for (line, kernels) in lines {
        let _ = writeln!(page, "{line} ({})", kernels.join(", "));
    }
}

/// What no guest ran, said once for all the tests of a module that have the same reason.
fn reasons(page: &mut String, left_out: &[Remark]) {
    let mut groups: Vec<(&str, &str, usize)> = Vec::new();
    for Remark { test, reason } in left_out {
        let module = test.split_once("::").map_or(test.as_str(), |(module, _)| module);
        match groups.iter_mut().find(|(known, why, _)| *known == module && *why == reason.as_str())
        {
            Some((_, _, count)) => *count += 1,
            None => groups.push((module, reason, 1)),
        }
    }
    for (module, reason, count) in groups {
        let _ = writeln!(page, "skipped {count} tests of {module}: {reason}");
    }
    page.push('\n');
}

/// For docs/kernels.md.
pub fn markdown(rows: &[Row]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut page = line(HEAD.map(str::to_owned).to_vec());
    page.push_str(&line(HEAD.map(|_| "---".to_owned()).to_vec()));
    for row in rows.iter().filter(|row| matches!(row.verdict, Verdict::Ran(_))) {
        page.push_str(&line(cells(row)));
    }
    page
}

/// For programs.
pub fn json(rows: &[Row], left_out: &[Remark]) -> Value {
    let kernels = rows.iter().map(|row| {
        let detail = match &row.verdict {
            Verdict::Skipped(reason) | Verdict::Broken(reason) => json!({"reason": reason}),
            Verdict::Ran(outcome) => outcome.json(),
        };
        json!({
            "kernel": row.kernel,
            "result": row.word().to_lowercase(),
            "seconds": row.took.as_secs(),
            "faults": row.faults(),
            "detail": detail,
        })
    });
    let left_out = left_out.iter().map(|it| json!({"test": it.test, "reason": it.reason}));
    json!({
        "kernels": kernels.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Row, Verdict, json, markdown, text};
    use crate::libtest::Remark;
    use crate::vm::outcome::Outcome;

    fn rows() -> Vec<Row> {
        let row = |kernel: &str, verdict| Row {
            kernel: kernel.to_owned(),
            verdict,
            took: Duration::from_secs(7),
        };
        let check = r#"{"hooks": [{"hook": "a", "state": "absent", "detail": "no such thing"}],
            "signals": []}"#;
        let outcome = Outcome::read(&format!("@@ kernel\n6.1.0\n@@ check\n{check}\n"), "");
        vec![
            row("7", Verdict::Skipped("no network".to_owned())),
            row("6.1", Verdict::Ran(Box::new(outcome))),
        ]
    }

    #[test]
    fn a_kernel_that_could_not_be_had_is_not_a_failed_one() {
        let left_out = [Remark { test: "top::a".to_owned(), reason: "any".to_owned() }];
        let page = text(&rows(), &left_out);
        assert!(page.contains("7: skipped (7 s)\n    no network\n"), "{page}");
        assert!(page.contains("6.1: FAILED"), "{page}");
        assert!(page.contains("without a: no such thing (6.1)"), "{page}");
        assert!(page.contains("skipped 1 tests of top: any"), "{page}");
        let document = json(&rows(), &left_out);
        assert_eq!(document["kernels"][0]["result"], "skipped");
        assert_eq!(document["kernels"][1]["detail"]["root"]["absent"]["a"], "no such thing");
    }

    #[test]
    fn the_page_lists_the_kernels_that_were_tested() {
        let page = markdown(&rows());
        assert_eq!(page.lines().count(), 3, "{page}");
        assert!(page.contains("| 6.1 | 6.1.0 | 0 of 1 |"), "{page}");
    }
}

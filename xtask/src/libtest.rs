//! Reading what test programs print: the line format of Rust's test harness, which `libtest-mimic`
//! writes too.
//!
//! Counts come from the summary line of each program, names from the lines of single tests. A
//! program that ends without a summary, or fails without naming a failed test, is a failure of its
//! own: a run that broke off is never mistaken for one that passed.
//!
//! cargo-nextest reads the same and takes 368 s to build on two CPUs (2026-11-29). It runs each test in a process of
//! its own, which the live tests are not made for, and knows no reason why a test was skipped while it ran.

use std::process::ExitStatus;

/// What happened in all programs read so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that ran and passed.
    pub passed: usize,
    /// What failed: tests, and programs that broke off.
    pub failed: Vec<String>,
    /// Tests that did not run, and why.
    pub skipped: Vec<Remark>,
    /// Tests that passed when they were tried again, and how they failed before.
    pub flaky: Vec<Remark>,
}

/// What is said of a test.
#[derive(Debug, PartialEq, Eq)]
pub struct Remark {
    /// Name of the test.
    pub test: String,
    /// In the words of the test.
    pub reason: String,
}

/// The output of one command, which may run several test programs one after another.
#[derive(Debug, Default)]
pub struct Reading {
    tally: Tally,
    line: Vec<u8>,
    /// The test that printed something itself, so that its outcome is on a line of its own.
    talkative: Option<String>,
    /// Programs that said how many tests they would run, and that gave a summary.
    begun: usize,
    ended: usize,
    /// Failed and skipped tests by the summaries; more than the named ones if a name was garbled.
    failed: usize,
    skipped: usize,
}

impl Tally {
    /// Adds what another command did.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.flaky.extend(other.flaky);
    }

    /// Whether anything ran and nothing failed.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.passed > 0
    }

    /// The report: what failed, what was skipped and why, and one last line with the counts.
    pub fn report(&self) -> String {
        let mut report = String::new();
        if !self.failed.is_empty() {
            report.push_str("failed:\n");
            for test in &self.failed {
                report.push_str(&format!("    {test}\n"));
            }
        }
        let listed = [
            ("failed first, and passed when tried again:", &self.flaky),
            ("skipped:", &self.skipped),
        ];
        for (heading, remarks) in listed.into_iter().filter(|(_, remarks)| !remarks.is_empty()) {
            report.push_str(&format!("{heading}\n"));
            for Remark { test, reason } in remarks {
                report.push_str(&format!("    {test}: {reason}\n"));
            }
        }
        if self.passed == 0 && self.failed.is_empty() {
            report.push_str("no test ran, which counts as a failure\n");
        }
        report.push_str(&format!(
            "{} passed, {} failed, {} skipped\n",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        ));
        report
    }
}

impl Reading {
    /// Takes the next piece of output, cut anywhere.
    pub fn feed(&mut self, output: &[u8]) {
        for &byte in output {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.read(&String::from_utf8_lossy(&line));
            } else {
                self.line.push(byte);
            }
        }
    }

    /// Closes the reading of `command`, which ended with `status`.
    pub fn finish(mut self, command: &str, status: ExitStatus) -> Tally {
        let last = std::mem::take(&mut self.line);
        self.read(&String::from_utf8_lossy(&last));
        let unnamed = self.failed.saturating_sub(self.tally.failed.len());
        self.tally.failed.extend((0..unnamed).map(|_| format!("{command}: a test without a name")));
        let unnamed = self.skipped.saturating_sub(self.tally.skipped.len());
        self.tally.skipped.extend((0..unnamed).map(|_| Remark {
            test: format!("{command}: a test without a name"),
            reason: NO_REASON.to_owned(),
        }));
        if self.begun > self.ended {
            self.tally.failed.push(format!("{command}: broke off before its summary ({status})"));
        } else if !status.success() && self.tally.failed.is_empty() {
            self.tally.failed.push(format!("{command}: {status}, and no test is to blame"));
        } else if self.ended == 0 {
            self.tally.failed.push(format!("{command}: printed no test results"));
        }
        self.tally
    }

    fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(summary) = line.strip_prefix("test result: ") {
            self.ended += 1;
            self.tally.passed += count(summary, "passed");
            self.failed += count(summary, "failed");
            self.skipped += count(summary, "ignored");
        } else if is_heading(line) {
            self.begun += 1;
        } else if let Some((test, reason)) =
            line.strip_prefix(FLAKY).and_then(|rest| rest.split_once(": "))
        {
            let (test, reason) = (test.to_owned(), reason.to_owned());
            self.tally.flaky.push(Remark { test, reason });
        } else if let Some((test, outcome)) =
            line.strip_prefix("test ").and_then(|line| line.split_once(" ... "))
        {
            let test = test.trim().to_owned();
            self.talkative = (!self.judge(&test, outcome)).then_some(test);
        } else if let Some(test) = self.talkative.take()
            && !self.judge(&test, line)
        {
            self.talkative = Some(test);
        }
    }

    /// Notes the outcome of a test, if it is one.
    fn judge(&mut self, test: &str, outcome: &str) -> bool {
        let test = test.to_owned();
        if outcome.starts_with("FAILED") {
            self.tally.failed.push(test);
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            self.tally.skipped.push(Remark { test, reason: reason_of(reason) });
        } else {
            return outcome == "ok";
        }
        true
    }
}

/// How a line of the live tests begins that names a test, and how it failed before it passed.
const FLAKY: &str = "failed first: ";

const NO_REASON: &str = "no reason given";

/// `running 3 tests`, which opens each program's output.
fn is_heading(line: &str) -> bool {
    line.strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test")))
        .is_some_and(|number| number.parse::<usize>().is_ok())
}

/// What stands behind `ignored`: `, reason` by the standard harness, ` (reason)` by libtest-mimic.
fn reason_of(rest: &str) -> String {
    let rest = rest.trim();
    let reason = rest
        .strip_prefix(',')
        .or_else(|| rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')))
        .unwrap_or(rest)
        .trim();
    if reason.is_empty() { NO_REASON.to_owned() } else { reason.to_owned() }
}

/// The number before `word` in `ok. 12 passed; 0 failed; …`.
fn count(summary: &str, word: &str) -> usize {
    let words: Vec<&str> = summary.split([' ', ';']).filter(|part| !part.is_empty()).collect();
    words
        .windows(2)
        .find(|pair| pair[1] == word)
        .and_then(|pair| pair[0].parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::{FLAKY, Reading, Remark, Tally};

    const GOOD: &str = "\nrunning 4 tests\ntest a::b ... ok\ntest c ... ignored, no such device\n\
        test [live] long_name    ... ignored (needs bpftool)\ntest d - should panic ... ok\n\n\
        test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 1 filtered out; finished in 0.1s\n";

    fn tally(output: &str, code: i32) -> Tally {
        let mut reading = Reading::default();
        // In pieces, as a pipe delivers it.
        output.as_bytes().chunks(7).for_each(|piece| reading.feed(piece));
        reading.finish("live", ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn skipped_tests_keep_name_and_reason_and_are_not_passed() {
        let tally = tally(GOOD, 0);
        assert_eq!(tally.passed, 2);
        assert!(tally.is_good());
        let skipped: Vec<_> = tally
            .skipped
            .iter()
            .map(|Remark { test, reason }| (test.as_str(), reason.as_str()))
            .collect();
        assert_eq!(skipped, [("c", "no such device"), ("[live] long_name", "needs bpftool")]);
        assert!(tally.report().ends_with("\n2 passed, 0 failed, 2 skipped\n"));
    }

    #[test]
    fn failures_are_named_once() {
        let output = "running 2 tests\ntest a ... FAILED\ntest b ... ok\n\nfailures:\n    a\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = tally(output, 101);
        assert_eq!(tally.failed, ["a"]);
        assert!(!tally.is_good());
    }

    #[test]
    fn tests_that_print_something_keep_their_names() {
        let output = "running 3 tests\ntest a ... 3 reads\nmore\nFAILED\ntest b ... one\n\
            ignored (no disk)\ntest c ... two\nok\n\n\
            test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let tally = tally(output, 101);
        assert_eq!(tally.failed, ["a"]);
        assert_eq!(tally.skipped[0].test, "b");
        assert_eq!(tally.skipped[0].reason, "no disk");
    }

    #[test]
    fn tests_that_passed_the_second_time_are_named() {
        let output = "running 2 tests\ntest a ... slow\nfailed first: a: 3 of 4\nok\ntest b ... ok\n\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = tally(output, 0);
        assert!(tally.is_good());
        assert_eq!(tally.passed, 2);
        let report = tally.report();
        assert!(report.starts_with("failed first, and passed when tried again:\n    a: 3 of 4\n"));
        let tests = std::fs::read_to_string(format!(
            "{}/../tests/tests/live/main.rs",
            env!("CARGO_MANIFEST_DIR")
        ));
        assert!(tests.unwrap().contains(&format!("\"{FLAKY}\"")));
    }

    #[test]
    fn a_garbled_name_is_still_counted() {
        let output = "running 1 test\ntest a noise FAILED\n\
            test result: FAILED. 0 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let tally = tally(output, 101);
        assert_eq!((tally.failed.len(), tally.skipped.len()), (1, 1));
    }

    #[test]
    fn breaking_off_is_a_failure() {
        assert_eq!(tally("running 2 tests\ntest a ... ok\n", 0).failed.len(), 1);
        assert_eq!(tally(&format!("{GOOD}running 2 tests\ntest a ... ok\n"), 101).failed.len(), 1);
    }

    #[test]
    fn an_error_or_silence_is_a_failure() {
        assert_eq!(tally("", 101).failed.len(), 1);
        assert_eq!(tally(GOOD, 1).failed.len(), 1);
        assert_eq!(tally("all fine\n", 0).failed.len(), 1);
    }

    #[test]
    fn running_nothing_is_not_good() {
        let output =
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n";
        let tally = tally(output, 0);
        assert!(!tally.is_good());
        assert!(tally.report().contains("no test ran"));
        assert!(tally.report().ends_with("0 passed, 0 failed, 0 skipped\n"));
    }
}
